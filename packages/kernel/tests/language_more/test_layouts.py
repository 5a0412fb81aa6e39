"""The algebra of layouts against its definitions, by running through all indices."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calor.dtypes import int32
from calor_interpreter.launch import run_on_lanes
from calor_kernel.language import Buffer, absolute_position, kernel
from calor_kernel.language.layouts import Layout, Swizzle, Swizzled

# The time of an example is that of the machine's other work too, so none has a deadline.
UNTIMED = settings(deadline=None)

SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])
SHAPES = st.recursive(SIZES, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple))


def strides_for(shape: Any, strides: Any) -> Any:
    return (
        tuple(strides_for(part, strides) for part in shape)
        if isinstance(shape, tuple)
        else next(strides)
    )


@st.composite
def layouts(draw: st.DrawFn, injective: bool = False) -> Layout:
    shape = draw(SHAPES.filter(lambda s: Layout(s).size <= 200))
    count = len(Layout(shape).modes())
    if injective:
        # Dense in an order that is drawn, with gaps.
        sizes = [n for n, _ in Layout(shape).modes()]
        order = draw(st.permutations(range(count)))
        found, step = [0] * count, 1
        for place in order:
            step *= draw(st.sampled_from([1, 1, 1, 2]))
            found[place] = step
            step *= sizes[place]
    else:
        found = draw(st.lists(st.sampled_from([0, 1, 2, 4, 5, 8]), min_size=count, max_size=count))
    return Layout(shape, strides_for(shape, iter(found)))


def offsets(layout: Layout) -> list[int]:
    return [layout(i) for i in range(layout.size)]


@UNTIMED
@given(layouts())
def test_one_function_in_every_form(layout: Layout) -> None:
    direct = [
        sum(c * s for c, (_, s) in zip(flat, layout.modes(), strict=True))
        for flat in (_leaves(layout.position(i)) for i in range(layout.size))
    ]
    assert offsets(layout) == direct
    assert [layout(layout.position(i)) for i in range(layout.size)] == direct
    assert offsets(layout.coalesce()) == direct
    assert max(direct) < layout.cosize
    assert eval(repr(layout), {"Layout": Layout}) == layout
    assert layout.coalesce().rank <= max(len(layout.modes()), 1)


def _leaves(position: Any) -> list[int]:
    if isinstance(position, tuple):
        return [leaf for part in position for leaf in _leaves(part)]
    return [position]


@UNTIMED
@given(layouts(), layouts())
def test_composition(a: Layout, b: Layout) -> None:
    try:
        made = a.compose(b)
    except ValueError:
        assume(False)
    assert [made(i) for i in range(b.size)] == [a(b(i)) for i in range(b.size)]
    assert made.size == b.size
    assert made.rank == b.rank or b.rank == 1


@UNTIMED
@given(layouts(injective=True), st.sampled_from([0, 24, 64]))
def test_complement(layout: Layout, more: int) -> None:
    size = layout.cosize + more
    try:
        rest = layout.complement(size)
    except ValueError:
        assume(False)
    whole = Layout.of((layout, rest))
    reached = offsets(whole)
    assert len(set(reached)) == len(reached)
    assert whole.size >= size
    assert sorted(offsets(rest)) == offsets(rest)


@pytest.mark.parametrize("layout", [Layout((2, 2), (1, 1)), Layout((4, 2), (1, 2))], ids=str)
def test_no_complement_of_what_overlaps(layout: Layout) -> None:
    with pytest.raises(ValueError, match="overlap"):
        layout.complement(16)


@pytest.mark.parametrize(
    ("layout", "tiler"),
    [
        (Layout.rows(8, 12), (4, 3)),
        (Layout.rows(8, 12), (Layout(2, 4), 6)),
        (Layout((8, 12)), (2,)),
        (Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)),
        (Layout((9, (4, 8)), (59, (13, 1))), (Layout(3, 3), Layout((2, 4), (1, 8)))),
        (Layout(24, 3), 4),
    ],
    ids=str,
)
def test_division_covers_the_layout(layout: Layout, tiler: Any) -> None:
    zipped = layout.zipped_divide(tiler)
    tile, _ = zipped
    assert sorted(offsets(zipped)) == sorted(offsets(layout))
    assert sorted(offsets(layout.divide(tiler))) == sorted(offsets(layout))
    first = layout.compose(tiler)
    if isinstance(tiler, tuple):
        first = Layout.of(first[i] for i in range(len(tiler)))
    assert offsets(tile) == offsets(first)
    assert zipped(0, 0) == layout(0)


@UNTIMED
@given(
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(-4, 4),
    st.lists(SIZES, min_size=1, max_size=3),
)
def test_swizzles_are_permutations_of_blocks(
    bits: int, base: int, shift: int, sizes: list[int]
) -> None:
    if abs(shift) < bits:
        with pytest.raises(ValueError, match="must not be those"):
            Swizzle(bits, base, shift)
        return
    swizzle = Swizzle(bits, base, shift)
    tile = Swizzled(swizzle, Layout.rows(*sizes))
    found = [tile(i) for i in range(tile.size)]
    assert len(set(found)) == tile.size
    assert max(found) < tile.cosize
    assert [swizzle(swizzle(i)) for i in range(256)] == list(range(256))
    assert tile.compose(tile.size)(tile.size - 1) == found[-1]


def test_a_swizzled_tile_has_no_bank_conflicts() -> None:
    # 8 rows of 64 halves: 16-byte pieces of one column lie in 8 different groups of banks.
    tile = Swizzled(Swizzle(3, 3, 3), Layout.rows(8, 64))
    for column in range(0, 64, 8):
        assert len({tile(row, column) // 8 % 8 for row in range(8)}) == 8
    assert str(tile) == "S(3,3,3)o(8,64):(64,1)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Layout((2, 0)), "at least 1"),
        (lambda: Layout((2, 3), 1), "nested"),
        (lambda: Layout(2)[1], "one mode"),
        (lambda: Layout((2, 3))(1, 2, 3), "2 coordinates"),
        (lambda: Layout((4, 2), (1, 8)).compose(6), "no layout"),
        (lambda: Layout((6, 2), (1, 8)).compose(Layout(2, 4)), "no layout"),
        (lambda: Layout((3, 2), (0, 1)).compose(Layout((3, 3), (1, 1))), "modes overlap"),
        (lambda: Layout(4).compose((2, 2)), "2 modes"),
    ],
)
def test_errors(wrong: Any, message: str) -> None:
    with pytest.raises((ValueError, IndexError), match=message):
        wrong()


@kernel
def where(y, *, layout):
    i = absolute_position()
    y[i] = layout(i).to(int32)


@settings(UNTIMED, max_examples=25)
@given(layouts())
def test_offsets_on_the_device_are_those_of_the_build(layout: Layout) -> None:
    y = np.zeros(layout.size, np.int32)
    run_on_lanes(where.build([Buffer(int32)], layout=layout), (layout.size, 1, 1), [y])
    assert y.tolist() == offsets(layout)


@pytest.mark.parametrize(
    "layout",
    [
        Layout((4, (2, 8)), (2, (1, 64))),
        Swizzled(Swizzle(2, 3, 3), Layout.rows(8, 16, 4)),
    ],
    ids=str,
)
def test_powers_of_two_are_shifts_and_masks(layout: Any) -> None:
    names = {o.name for o in where.build([Buffer(int32)], layout=layout).body.walk()}
    assert names <= {
        *("constant", "cube_position", "add", "mul", "shr", "and", "xor", "cast", "store")
    }
