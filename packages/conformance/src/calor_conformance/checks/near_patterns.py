"""Steps that a compiler joins, with one attribute off: later slices, pads that are no zeros.

A compiler knows pairs of steps that it does at once: a sort of which the first are kept, rows that
are gathered, weighed and added, a pad before a transform, bits of a slice, a scan that stacks its
carry. Whether it may is told by an attribute, a shape or a number. Each family here draws such
programs with all of these on both sides of where it may; the steps one by one on the reference say
what they give. They are jitted, called again with other numbers, and differentiated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import as_dtype, float32, int32, int64
from calor.plugins.discovery import get_device

from .base import Array, Check, Place
from .joined_steps import Program, one_of, whole
from .near_moves import MOVES

CONTRACT: Final = "a program gives what its steps give one by one, whichever of them are joined"
Rng = np.random.Generator
Shape = tuple[int, ...]


def _cut(rng: Rng, n: int) -> slice:
    """Return a slice of an axis: from its start or later, to its end or before, with a step."""
    start = min(int(one_of(rng, (0, 0, 1, 2, n // 3))), n - 1)
    count = int(one_of(rng, (1, 4, 4, n // 2, n, n - 1)))
    return slice(start, min(start + max(count, 1), n), int(one_of(rng, (1, 1, 1, 2))))


def _sorted(rng: Rng) -> Program:
    """Some of what is sorted, along its axis and others."""
    shape = (int(one_of(rng, (1, 3, 4))), int(one_of(rng, (5, 700, 3000))))
    axis = int(one_of(rng, (1, 1, 1, 1, 0)))
    descending = bool(rng.integers(2))
    cuts = tuple(
        _cut(rng, n) if k == axis or rng.random() < 0.2 else slice(None)
        for k, n in enumerate(shape)
    )
    form = int(rng.integers(3))

    def run(x: Any) -> Any:
        if form == 0:
            return calor.sort(x, axis=axis, descending=descending)[cuts]
        places = calor.argsort(x, axis=axis, descending=descending)
        return places[cuts] if form == 1 else calor.take_along_axis(x, places, axis=axis)[cuts] * 2

    array = np.asarray(rng.permutation(int(np.prod(shape))), np.float32).reshape(shape)
    return Program(run, [array], f"{shape} along {axis}, {descending=}, {cuts}, form {form}")


def _bags(rng: Rng) -> Program:
    """Rows that are gathered, weighed by what broadcasts with them in any way, and reduced."""
    rows, width = int(one_of(rng, (5, 50))), int(one_of(rng, (1, 3, 16, 16, 64)))
    bags, each = int(one_of(rng, (1, 4, 6, 6))), int(one_of(rng, (1, 3, 7)))
    every = (bags, each, width)
    forms = ((bags, each, 1), (1, each, 1), (each, 1), (bags, 1, 1), (1, 1, 1), every,
             (1, each, width), (bags, 1, width), (width,), (1,))  # fmt: skip
    shape = tuple(one_of(rng, forms))
    axis = one_of(rng, (1, 1, 1, 1, 0, (0, 1), 2))
    combine = str(one_of(rng, ("sum", "sum", "sum", "mean", "max")))

    def run(table: Any, weights: Any, places: Any) -> Any:
        taken = calor.take(table, places, axis=0)
        return getattr(calor, combine)(taken * weights, axis=axis)

    arrays = [whole(rng, (rows, width)), whole(rng, shape), rng.integers(0, rows, (bags, each))]
    told = f"{combine} of {every} by {shape} along {axis}"
    # At ties of a maximum a gradient is shared.
    return Program(run, arrays, told, 1e-5, combine != "max", frozenset((2,)))


def _bits(rng: Rng) -> Program:
    """The bits of a part, as another type."""
    narrow, wide = one_of(rng, (("uint8", "int32"), ("uint8", "int16"), ("int16", "int32"),
                                 ("uint8", "float32"), ("int32", "int64")))  # fmt: skip
    parts = np.dtype(wide).itemsize // np.dtype(narrow).itemsize
    count = parts * int(one_of(rng, (1, 4, 8)))
    room = int(rng.integers(0, 2 * parts + 1))
    start, form = int(rng.integers(0, room + 1)), int(rng.integers(4))
    rows = int(one_of(rng, (1, 3)))
    before = bool(rng.integers(2))

    def run(x: Any) -> Any:
        x = x + 1 if before else x
        held = x[:, start : start + count]
        if form == 1:
            held = calor.flip(held, axis=0)
        if form == 2:
            held = held[0]
        made = held.view(wide)
        return made if form != 3 else made.view(narrow) * 1

    # Small bits are no NaN of any type.
    array = np.asarray(rng.integers(0, 60, (rows, count + room)), narrow)
    return Program(run, [array], f"{narrow} to {wide}, {count} from {start}, {form=}, {before=}")


def _padded(rng: Rng) -> Program:
    """A pad with any number along any axes, before what reads zeros or nothing beyond an end."""
    shape = tuple(int(n) for n in (one_of(rng, (1, 3, 5)), one_of(rng, (4, 16, 9))))
    value = float(one_of(rng, (0, 0, 1, -2, 0.5)))
    widths = tuple((int(one_of(rng, (0, 0, 1, 2))), int(one_of(rng, (0, 1, 3)))) for _ in shape)
    axis, reader = int(rng.integers(2)), str(one_of(rng, tuple(_READERS)))

    def run(x: Any) -> Any:
        return _READERS[reader](calor.pad(x, widths, value=value), axis)

    return Program(run, [whole(rng, shape)], f"{shape} by {widths} with {value}, {reader} {axis}",
                    2e-5, True)  # fmt: skip


def _parts(t: Any) -> Any:
    return calor.real(t) + 2 * calor.imag(t)


_READERS: Final[dict[str, Callable[[Any, int], Any]]] = {
    "rfft": lambda t, axis: _parts(calor.fft.rfft(t, axis=axis)),
    "fft": lambda t, axis: _parts(calor.fft.fft(t, axis=axis)),
    "longer rfft": lambda t, axis: _parts(calor.fft.rfft(t, n=t.shape[axis] + 3, axis=axis)),
    "low modes": lambda t, axis: _parts(calor.fft.rfft(t, axis=1)[:, :2]),
    "filtered": lambda t, axis: calor.fft.irfft(calor.fft.rfft(t, axis=axis), n=t.shape[axis],
                                                axis=axis),
    "sum": lambda t, axis: calor.sum(t, axis=axis), "max": lambda t, axis: calor.max(t, axis=axis),
    "product": lambda t, axis: t @ calor.matrix_transpose(t),
    "sums": lambda t, axis: calor.cumulative_sum(t, axis=axis),
    "slice": lambda t, axis: t[1:, 1:] * 2, "again": lambda t, axis: calor.pad(t, ((1, 0), (0, 1))),
    "exponents": lambda t, axis: calor.softmax(t, axis=axis),
}  # fmt: skip


def _scanned(rng: Rng) -> Program:
    """A loop that stacks its carry, before or after it changed, its element, or what it made."""
    steps, width = int(one_of(rng, (1, 2, 6))), int(one_of(rng, (1, 5, 300)))
    reverse, stacks = bool(rng.integers(2)), int(rng.integers(6))
    nonlinear, uses = bool(rng.integers(2)), int(rng.integers(4))

    def step(carry: Any, row: Any) -> Any:
        new = (calor.sin(carry) if nonlinear else carry * 0.5) * row + calor.flip(row, axis=0)
        given = (new, carry, row, new * carry, (new, carry), (new, row))[stacks]
        return new, given

    def run(x: Any) -> Any:
        last, stacked = calor.scan(step, x[0] * 0, x, reverse=reverse)
        first = stacked[0] if isinstance(stacked, tuple) else stacked
        if uses == 0:
            return first * first
        if uses == 1:
            return calor.tree.map(lambda t: t * 2, (stacked, last))
        return first[-1] + last if uses == 2 else calor.flip(first, axis=0) + first

    told = f"{steps} x {width}, {reverse=}, stacks {stacks}, uses {uses}, {nonlinear=}"
    array = np.asarray(rng.uniform(-1, 1, (steps, width)), np.float32)
    return Program(run, [array], told, 2e-5, True)


def _beside(rng: Rng) -> Program:
    """A value beside a view of itself, of which one might be written over the other."""
    side = int(one_of(rng, (3, 32, 96, 130)))
    views: list[Callable[[Any], Any]] = [
        lambda t: calor.matrix_transpose(t), lambda t: calor.flip(t, axis=1),
        lambda t: calor.roll(t, 1, axis=0), lambda t: t[:1], lambda t: t[:, :1],
        lambda t: calor.reshape(calor.matrix_transpose(t), t.shape), lambda t: t[::-1, ::-1],
        lambda t: calor.broadcast_to(t[-1:], t.shape), lambda t: calor.cumulative_sum(t, axis=0),
    ]  # fmt: skip
    number, other, large = int(rng.integers(9)), int(rng.integers(9)), bool(rng.integers(2))

    def run(x: Any) -> Any:
        y = x @ x if large else x + 1
        z = y + views[number](y) * 2
        return (z - views[other](z)) * 0.5, z

    array = np.asarray(rng.integers(-1, 2, (side, side)), np.float32)
    return Program(run, [array], f"{side}, views {number} and {other}, {large=}", 1e-5, True)


def _ends(rng: Rng) -> Program:
    """Parts of running results, of which a compiler may compute no more than is read."""
    shape = (int(one_of(rng, (1, 4))), int(one_of(rng, (2, 33, 1500))))
    axis, reverse = int(one_of(rng, (1, 1, 0))), bool(rng.integers(2))
    at, turned = int(one_of(rng, (-1, 0, 1))) % shape[axis], bool(rng.integers(2))
    kind = str(one_of(rng, ("cumulative_sum", "cumulative_max", "cumulative_min")))

    def run(x: Any) -> Any:
        made = getattr(calor, kind)(calor.flip(x, axis=axis) if turned else x, axis=axis)
        made = calor.flip(made, axis=axis) if reverse else made
        return calor.take(made, at, axis=axis) * 2 + calor.sum(x, axis=axis)

    told = f"{kind} of {shape} along {axis}, {reverse=}, at {at}, {turned=}"
    return Program(run, [whole(rng, shape)], told, 1e-5, kind == "cumulative_sum")


def _chosen(rng: Rng) -> Program:
    """Rows that are chosen by comparisons, and updates of what is not zero."""
    rows, width, count = int(one_of(rng, (3, 17))), int(one_of(rng, (1, 8))), 5
    offset, base = int(one_of(rng, (0, 0, 1, -1))), float(one_of(rng, (0, 0, 1)))
    kind = int(rng.integers(3))
    update: Any = one_of(rng, ("add", "assign", "max"))

    def run(table: Any, places: Any) -> Any:
        numbers = calor.arange(rows, dtype=places.dtype, device=table.device) + offset
        if kind == 0:
            hits = calor.equal(calor.expand_dims(places, axis=-1), numbers).astype(float32)
            return hits @ table
        if kind == 1:
            kept = numbers < places[0]
            return calor.sum(calor.where(calor.expand_dims(kept, axis=1), table, base), axis=0)
        start = calor.full((rows, width), base, dtype=float32, device=table.device)
        given = calor.take(table, places, axis=0)
        return calor.scatter_nd(start, calor.expand_dims(places, axis=1), given, update=update)

    places = rng.permutation(rows)[:count] if update == "assign" else rng.integers(0, rows, count)
    told = f"{rows} x {width}, {kind=}, {offset=}, {base=}, {update}"
    return Program(run, [whole(rng, (rows, width)), places], told, 1e-5, update != "max",
                    frozenset((1,)))  # fmt: skip


def _masked(rng: Rng) -> Program:
    """Scores under a mask that is causal, nearly so, or none, with softmax along one axis."""
    shape = (int(one_of(rng, (1, 2))), int(one_of(rng, (3, 17, 64))), int(one_of(rng, (3, 17))))
    width, offset = int(one_of(rng, (4, 16))), int(one_of(rng, (0, 0, 1, -1, 2)))
    number, axis = float(one_of(rng, (-np.inf, -1e4, -3.0))), int(one_of(rng, (-1, -1, -2)))
    scale, above = float(one_of(rng, (1.0, width**-0.5, 0.3))), bool(rng.integers(2))

    def run(q: Any, k: Any, v: Any) -> Any:
        scores = q @ calor.matrix_transpose(k) * scale
        ones = calor.ones(scores.shape[-2:], dtype=float32, device=q.device)
        kept = (calor.triu if above else calor.tril)(ones, k=offset) > 0
        # A line of which nothing is kept has no softmax.
        seen = scores if np.isinf(number) else scores - 1
        seen = calor.where(kept, seen, number)
        if np.isinf(number):
            seen = calor.maximum(seen, -50.0)
        return calor.softmax(seen, axis=axis) @ v

    first, queries, keys = shape
    arrays = [np.asarray(rng.normal(size=(first, n, width)), np.float32)
              for n in (queries, keys, keys)]  # fmt: skip
    told = f"{shape}, {offset=}, {number=}, {axis=}, {scale=:.2f}, {above=}"
    return Program(run, arrays, told, 5e-5, True)


FAMILIES: Final[dict[str, Callable[[Rng], Program]]] = {
    "sorted-slices": _sorted, "weighed-rows": _bags, "bits-of-slices": _bits,
    "padded-reads": _padded, "stacked-carries": _scanned, "views-beside": _beside,
    "ends-of-scans": _ends, "chosen-rows": _chosen, "masked-scores": _masked, **MOVES,
}  # fmt: skip
# Families of small programs are drawn from more often.
_TURNS: Final = {
    "sorted-slices": 12, "weighed-rows": 12, "bits-of-slices": 8, "norms-in-other-shapes": 6,
    "products-in-other-orders": 16, "joins-of-merged-axes": 12, "chains-that-share": 10,
}  # fmt: skip
# Dtypes that a family's programs need beside float32 and int64.
_NEEDS: Final = {"bits-of-slices": ("uint8", "int16", "int32")}


def _results(made: Any) -> list[Array]:
    return [t.numpy() for t in calor.tree.leaves(made)]


def _same(found: Any, wants: list[Array], near: float, what: str) -> None:
    for n, (got, want) in enumerate(zip(_results(found), wants, strict=True)):
        assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
        room = near * max(1.0, float(np.max(np.abs(want), initial=0.0)))
        wrong = np.argwhere(~(np.abs(got - want * 1.0) <= room))
        assert not len(wrong), (
            f"{what}: result {n} is {got[tuple(wrong[0])]} at {wrong[0].tolist()}, "
            f"not {want[tuple(wrong[0])]}"
        )


def _compare(place: Place, program: Program, rng: Rng) -> None:
    reference = get_device("numpy")
    jitted, calls = calor.jit(program.function), 2
    slope = program.smooth and rng.random() < 0.6

    def total(*given: Any) -> Any:
        made = calor.tree.leaves(program.function(*given))
        return sum(calor.sum(t * calor.sin(t * 0.5 + 1)) for t in made)

    gradient = calor.jit(calor.grad(total))
    for call in range(calls):
        arrays = [
            a if not call or n in program.same or a.dtype != np.float32 else np.roll(a, call)
            for n, a in enumerate(program.arrays)
        ]
        with calor.device(reference):
            given = [calor.asarray(a, device=reference) for a in arrays]
            wants = _results(program.function(*given))
            slopes = _results(calor.grad(total)(*given)) if slope else []
        here = [calor.asarray(a, device=place.device) for a in arrays]
        _same(jitted(*here), wants, program.near, f"{program.told}, call {call}")
        if slope:
            what = f"the gradient of {program.told}, call {call}"
            _same(gradient(*here), slopes, max(program.near * 10, 1e-4), what)


def _run(name: str, place: Place) -> None:
    number = list(FAMILIES).index(name)
    for turn in range(_TURNS.get(name, 5)):
        rng = np.random.default_rng([place.seed, 190, number, turn])
        _compare(place, FAMILIES[name](rng), rng)


def near_patterns() -> Iterator[Check]:
    """Yield a check of each family of programs."""
    for name, family in FAMILIES.items():
        yield Check(
            kind="jit",
            subject=f"near-{name}",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, family),
            dtypes=(float32, int32, int64, *map(as_dtype, _NEEDS.get(name, ()))),
            looks=True,
        )
