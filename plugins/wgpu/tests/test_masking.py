"""Loads under a condition, and quotients by constants: text, and values of the device."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, float32, int8, int32, int64
from calor_interpreter.launch import run_on_lanes
from calor_kernel import language as kl
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    constant,
    kernel,
    modulo,
    pack,
    select,
)
from calor_wgpu.passes import (
    BEYOND,
    branch_chosen_loads,
    divide_by_products,
    mask_branched_loads,
)
from calor_wgpu.passes.dividing import short_factor
from calor_wgpu.wgsl import WGSL, print_wgsl
from device_runs import run

F, WHOLE = Buffer(float32), Buffer(int32)
COUNT = Scalar(int64, nonnegative=True)


@kernel
def padded(x: Any, y: Any, n: Any) -> None:
    """Copy elements, and zeros beyond the last one."""
    i = absolute_position()
    there = i < n
    y[i] = select(there, x[select(there, i, 0)], 0.0)


@kernel
def filled(x: Any, y: Any, n: Any) -> None:
    """Copy elements, and the first one beyond the last one."""
    i = absolute_position()
    y[i] = select(i >= n, x[0], x[i])


@kernel
def overwritten(x: Any, y: Any, n: Any) -> None:
    """Read an element before it is overwritten."""
    i = absolute_position()
    before = y[i]
    y[i] = x[i]
    y[i] = select(i < n, before, 1.0)


@kernel
def twice(x: Any, y: Any, n: Any) -> None:
    """Use an element under a condition and without one."""
    i = absolute_position()
    held = x[i]
    y[i] = select(i < n, held, 0.0) + held


def built(function: Any) -> Any:
    return function.build([F, F, COUNT], cube=(64, 1, 1))


# How many loads move into branches.
@pytest.mark.parametrize(
    ("function", "branches"), [(padded, 1), (filled, 0), (overwritten, 0), (twice, 0)]
)
def test_loads_move_where_they_are_read(function: Any, branches: int, device: Any) -> None:
    original = built(function)
    made = branch_chosen_loads(original)
    moved = [o for o in made.body.walk() if o.name == "if" and o.results]
    assert len(moved) == branches
    x = np.arange(1, 65, dtype=np.float32)
    found = []
    for one in (original, made):
        y = np.full(64, 7, np.float32)
        run_on_lanes(one, (1, 1, 1), [x, y, 40])
        found.append(y)
    y = np.full(64, 7, np.float32)
    run(device, original, (1, 1, 1), [x, y, 40])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], y)


def test_a_moved_load_is_not_chosen_by_select() -> None:
    text = print_wgsl(built(padded), WGSL())
    assert "select(0.0f" not in text
    assert "= x[" in text


@kernel
def shifted(x: Any, y: Any, n: Any, *, width: int, back: int) -> None:
    """Copy elements some places further, and ones where there are none before."""
    i = absolute_position() * width
    value = constant(1.0, float32, width)
    if (i >= back) & (i - back + width <= n):
        value = x.load(i - back, width)
    y.store(i, value, mask=i < 64)


@kernel
def doubled(x: Any, y: Any, n: Any) -> None:
    """Double what is there, and add what was written to it."""
    i = absolute_position() * 4
    value = constant(3.0, float32, 4)
    if i + 4 <= n:
        value = y.load(i, 4)
    y.store(i, value * 2.0, mask=i < 64)
    if i + 4 <= n:
        value = y.load(i, 4) + x.load(i, 4)
    y.store(i, value, mask=i < 64)


@kernel
def divided_place(x: Any, y: Any, n: Any) -> None:
    """Read at a quotient, which only those units compute that read."""
    i = absolute_position() * 4
    value = constant(1.0, float32, 4)
    if (n > 0) & (i < 64):
        value = x.load(i // (n + 64) * 4, 4)
    y.store(i, value, mask=i < 64)


# A kernel, its arguments, and how many loads are masked and how many branches are left.
BRANCHED = {
    "four words": (shifted, {"width": 4, "back": 8}, 1, 0),
    "four words apart": (shifted, {"width": 4, "back": 3}, 0, 1),
    "single words": (shifted, {"width": 1, "back": 3}, 0, 1),
    # A branch with two loads is left.
    "memory that is written": (doubled, {}, 1, 1),
    "a quotient": (divided_place, {}, 0, 1),
}
WIDE = Buffer(float32, align=16)


@pytest.mark.parametrize("name", BRANCHED)
@pytest.mark.parametrize("n", [4, 29, 64])
def test_branches_that_load_four_words_are_masked_loads(name: str, n: int, device: Any) -> None:
    function, build, masked, branches = BRANCHED[name]
    original = function.build([WIDE, WIDE, COUNT], cube=(64, 1, 1), **build)
    made = mask_branched_loads(original)
    loads = [o for o in made.body.walk() if o.name == "load" and o.attributes.get("masked")]
    left = [o for o in made.body.walk() if o.name == "if" and o.results]
    assert (len(loads), len(left)) == (masked, branches)
    # The memory ends where the elements end, and units beyond them read within it.
    x, found = np.arange(1, n + 1, dtype=np.float32), []
    for one in (original, made):
        y = np.full(64, 7, np.float32)
        run_on_lanes(one, (1, 1, 1), [x, y, n])
        found.append(y)
    y = np.full(64, 7, np.float32)
    run(device, original, (1, 1, 1), [x, y, n])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], y)


def test_masked_loads_of_four_words_have_no_branch() -> None:
    given = [WIDE, WIDE, COUNT]
    text = print_wgsl(shifted.build(given, cube=(64, 1, 1), width=4, back=8), WGSL())
    read, _, stored = text.partition("let y_offset")[2].partition("arrayLength(&x) - 1u)]")
    assert "if (" not in read
    assert "select(" in stored


@kernel
def ahead(x: Any, y: Any, n: Any, *, width: int, far: int) -> None:
    """Copy elements some places before where they are, and zeros in place of others."""
    i = absolute_position() * width
    value = constant(0, x.dtype, width)
    if i + far + width <= n:
        value = x.load(i + far, width)
    inside = pack([i + lane < 50 for lane in range(width)])
    y.store(i, value, mask=i < 64)
    y.store(i + 64, x.load(i, width, mask=inside), mask=i < 64)


@pytest.mark.parametrize("dtype", [float32, bfloat16, int8, int32], ids=str)
@pytest.mark.parametrize(("width", "far"), [(1, 3), (4, 8), (4, 3)])
def test_loads_beyond_the_memory_give_zeros(
    dtype: DType, width: int, far: int, device: Any
) -> None:
    assert device.toolchain.dialect.zeros
    given = [Buffer(dtype, False, align=16), Buffer(dtype, align=16), COUNT]
    built = ahead.build(given, cube=(64, 1, 1), width=width, far=far)
    x = np.arange(1, 53).astype(dtype.numpy)
    y = np.full(128, 7, dtype.numpy)
    run(device, built, (1, 1, 1), [x, y, x.size])
    expected = np.zeros(128, dtype.numpy)
    count = (x.size - far) // width * width
    expected[:count], expected[64:114] = x[far : far + count], x[:50]
    np.testing.assert_array_equal(y, expected)


def test_loads_with_zeros_in_place_of_others_have_no_branch() -> None:
    words, wide = [F, F, COUNT], [WIDE, WIDE, COUNT]
    for given, width, far, index in ((words, 1, 3, BEYOND), (wide, 4, 8, BEYOND // 4)):
        built = ahead.build(given, cube=(64, 1, 1), width=width, far=far)
        text = print_wgsl(built, WGSL(zeros=True))
        reads = [line for line in text.splitlines() if " x[" in line]
        assert reads
        assert all(line.startswith("  let ") for line in reads)
        assert f"select({index}u, " in text
        assert str(index) not in print_wgsl(built, WGSL())
    # Other numbers than zeros are chosen where they are used.
    built = shifted.build(words, cube=(64, 1, 1), width=1, back=3)
    text = print_wgsl(built, WGSL(zeros=True))
    assert f"x[select({BEYOND}u, " in text
    assert text.count("if (") == print_wgsl(built, WGSL()).count("if (") - 1


@pytest.mark.parametrize("divisor", [3, 7, 57, 641, 6441, 2**30 + 1, 2**31 - 1])
def test_quotients_by_constants(divisor: int, device: Any) -> None:
    @kernel
    def divided(x: Any, q: Any, r: Any) -> None:
        i = absolute_position()
        number = x[i] & 0x7FFFFFFF
        q[i], r[i] = number // divisor, modulo(number, divisor)

    draws = np.random.default_rng(divisor).integers(0, 2**31, 58)
    edges = [0, 1, divisor - 1, divisor, min(divisor + 1, 2**31 - 1), 2**31 - 1]
    x = np.array([*edges, *draws], np.int32)
    made = divided.build([WHOLE, WHOLE, WHOLE], cube=(64, 1, 1))
    names = {o.name for o in divide_by_products(made).body.walk()}
    assert names.isdisjoint({"quotient", "modulo"})
    for on in ("lanes", "device"):
        q, r = np.zeros(64, np.int32), np.zeros(64, np.int32)
        if on == "lanes":
            run_on_lanes(divide_by_products(made), (1, 1, 1), [x, q, r])
        else:
            run(device, made, (1, 1, 1), [x, q, r])
        np.testing.assert_array_equal(q, x // divisor)
        np.testing.assert_array_equal(r, x % divisor)


@pytest.mark.parametrize("most", [1, 57, 3363, 65_535, 1 << 20])
def test_factors_of_32_bits_divide_exactly(most: int) -> None:
    numbers = np.arange(most + 1, dtype=np.uint32)
    for divisor in (3, 5, 7, 11, 58, 641, 3364, 65_537, 10**6 + 3):
        short = short_factor(divisor, most)
        assert short is not None or most > 3363
        if short is not None:
            factor, shift = short
            np.testing.assert_array_equal(numbers * np.uint32(factor) >> shift, numbers // divisor)


def test_small_numbers_are_divided_in_32_bits() -> None:
    """A choice by a comparison, a remainder and a minimum bound what is divided."""

    @kernel
    def divided(x: Any, q: Any) -> None:
        i = absolute_position()
        number = x[i] & 0x7FFFFFFF
        chosen = select(number < 3364, number, 0)
        rest = modulo(number, 4096)
        q[i] = chosen // 58 + rest // 7 + kl.min(number, 999) // 31

    x = np.arange(0, 64 * 97, 97, dtype=np.int32)
    made = divide_by_products(divided.build([WHOLE, WHOLE], cube=(64, 1, 1)))
    assert {o.name for o in made.body.walk()}.isdisjoint({"mulhi", "quotient"})
    q = np.zeros(64, np.int32)
    run_on_lanes(made, (1, 1, 1), [x, q])
    chosen = np.where(x < 3364, x, 0)
    np.testing.assert_array_equal(q, chosen // 58 + x % 4096 // 7 + np.minimum(x, 999) // 31)
