"""Parameters that are one or many: numbers, sequences, arrays of one and of all elements, tensors.

What a function takes once, or once for each place, axis or side, has several forms of one meaning,
and of several meanings that look alike: repeats of shape (1,) and (n,), a shift for an axis and two
for one axis, widths for all sides, each axis and each side. Functions that move elements are called
with every form beside NumPy; where the elements come from tells their gradients.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor import tree
from calor.dtypes import float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "a parameter has one meaning in each of its forms, which is NumPy's"
_TURNS: Final = 12
Rng = np.random.Generator
Shape = tuple[int, ...]
# A function of calor's tensors, and of NumPy's arrays.
Pair = tuple[Callable[[Any], Any], Callable[[Array], Any]]


def _form(rng: Rng, numbers: list[int], *, one: bool = True) -> Any:
    """Return whole numbers in a form of sequences; one alone may be a number."""
    array = np.asarray(numbers, str(rng.choice(("int32", "int64", "uint8"))))
    forms: list[Any] = [calor.asarray(array), calor.asarray(array.astype(np.int64))]
    if one and len(numbers) == 1:
        forms += [numbers[0], numbers[0]]
    return forms[int(rng.integers(len(forms)))]


def _axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def _repeat(rng: Rng, shape: Shape) -> Pair:
    axis = None if rng.random() < 0.3 else _axis(rng, len(shape))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    numbers = [int(v) for v in rng.integers(0, 4, n if rng.random() < 0.6 else 1)]
    given = _form(rng, numbers)
    return (lambda t: calor.repeat(t, given, axis=axis),
            lambda a: np.repeat(a, numbers, axis=axis))  # fmt: skip


def _tile(rng: Rng, shape: Shape) -> Pair:
    count = int(rng.integers(1, len(shape) + 2))
    reps: Any = tuple(int(v) for v in rng.integers(0 if rng.random() < 0.2 else 1, 4, count))
    reps = reps[0] if count == 1 and rng.random() < 0.5 else reps
    return lambda t: calor.tile(t, reps), lambda a: np.tile(a, reps)


def _roll(rng: Rng, shape: Shape) -> Pair:
    count = int(rng.integers(1, 4))
    axes: Any = tuple(_axis(rng, len(shape)) for _ in range(count))
    shifts: Any = tuple(int(v) for v in rng.integers(-7, 8, count))
    kind = int(rng.integers(4))
    if kind == 0:
        axes, shifts = None, shifts[0]
    elif kind == 1:
        axes, shifts = axes[0], shifts[0]
    elif kind == 2:
        shifts = shifts[0]
    return lambda t: calor.roll(t, shifts, axis=axes), lambda a: np.roll(a, shifts, axis=axes)


def _pad(rng: Rng, shape: Shape) -> Pair:
    each = [(int(a), int(b)) for a, b in rng.integers(0, 3, (len(shape), 2))]
    widths: Any = (each, tuple(each), each[0], int(each[0][0]))[int(rng.integers(4))]
    modes = [m for m in ("constant", "edge", "reflect", "symmetric", "wrap")
             if m == "constant" or min(shape) > 2]  # fmt: skip
    mode: Any = str(rng.choice(modes))
    return (lambda t: calor.pad(t, widths, mode=mode),
            lambda a: np.pad(a, widths, mode=mode))  # fmt: skip


def _split(rng: Rng, shape: Shape) -> Pair:
    axis = _axis(rng, len(shape))
    n, parts = shape[axis], int(rng.integers(1, 5))
    if rng.random() < 0.5:
        return (lambda t: calor.array_split(t, parts, axis=axis),
                lambda a: np.array_split(a, parts, axis))  # fmt: skip
    places = sorted(int(v) for v in rng.integers(0, n + 1, parts - 1))
    sizes = np.diff([0, *places, n]).tolist()
    if rng.random() < 0.5:
        return (lambda t: calor.array_split(t, places, axis=axis),
                lambda a: np.array_split(a, places, axis))  # fmt: skip
    return lambda t: calor.split(t, sizes, axis=axis), lambda a: np.split(a, places, axis)


def _flip(rng: Rng, shape: Shape) -> Pair:
    axes: Any = tuple(int(a) for a in rng.permutation(len(shape))[: int(rng.integers(1, 4))])
    axes = (axes, axes[0], None, tuple(a - len(shape) for a in axes))[int(rng.integers(4))]
    return lambda t: calor.flip(t, axis=axes), lambda a: np.flip(a, axes)


def _move(rng: Rng, shape: Shape) -> Pair:
    count = int(rng.integers(1, len(shape) + 1))
    ends: list[Any] = [
        tuple(int(a) - len(shape) * int(rng.integers(2)) for a in rng.permutation(len(shape)))
        for _ in range(2)
    ]
    first, last = (e[:count] if count > 1 or rng.random() < 0.5 else e[0] for e in ends)
    if isinstance(first, int) is not isinstance(last, int):
        first, last = ends[0][:1], ends[1][:1]
    return lambda t: calor.moveaxis(t, first, last), lambda a: np.moveaxis(a, first, last)


def _expand(rng: Rng, shape: Shape) -> Pair:
    count = int(rng.integers(1, 4))
    rank = len(shape) + count
    axes: Any = tuple(int(a) - rank * int(rng.integers(2)) for a in rng.permutation(rank)[:count])
    axes = axes[0] if count == 1 and rng.random() < 0.5 else axes
    return lambda t: calor.expand_dims(t, axis=axes), lambda a: np.expand_dims(a, axes)


def _take(rng: Rng, shape: Shape) -> Pair:
    axis = None if len(shape) == 1 and rng.random() < 0.5 else _axis(rng, len(shape))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    place: Any = np.asarray(rng.integers(0, n, tuple(rng.integers(1, 3, rng.integers(0, 3)))))
    given = calor.asarray(place) if place.ndim or rng.random() < 0.5 else int(place)
    return lambda t: calor.take(t, given, axis=axis), lambda a: np.take(a, place, axis=axis)


def _delete(rng: Rng, shape: Shape) -> Pair:
    axis = None if rng.random() < 0.3 else _axis(rng, len(shape))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    places: Any = [int(v) for v in rng.integers(-n, n, int(rng.integers(1, 4)))]
    kind = int(rng.integers(4))
    places = (places, places[0], np.asarray(places), slice(places[0], None, 2))[kind]
    return lambda t: calor.delete(t, places, axis=axis), lambda a: np.delete(a, places, axis)


_MOVES: Final = {
    "repeat": _repeat, "tile": _tile, "roll": _roll, "pad": _pad, "split": _split, "flip": _flip,
    "moveaxis": _move, "expand_dims": _expand, "take": _take, "delete": _delete,
}  # fmt: skip


def _moves(place: Place) -> None:
    for number, (name, draw) in enumerate(_MOVES.items()):
        if getattr(calor, name, None) is None:
            continue
        for turn in range(_TURNS):
            rng = np.random.default_rng([place.seed, 181, number, turn])
            shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
            run, meaning = draw(rng, shape)
            _one(run, meaning, shape, rng, turn, name)


def _one(run: Any, meaning: Any, shape: Shape, rng: Rng, turn: int, name: str) -> None:
    """Compare a function with NumPy's, and its gradient with where its elements come from."""
    told = inspect.getclosurevars(run).nonlocals
    what = f"{name} of {shape} with {told}"
    # The number of each element from 1 on, and 0 for what comes from nowhere.
    marks = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    wants = [np.asarray(a) for a in tree.leaves(meaning(marks))]
    for how, call in (("at once", run), ("jitted", calor.jit(run))):
        if how == "jitted" and (turn % 4 or name == "repeat"):
            # How long a repetition is depends on what its tensor holds.
            continue
        made = tree.leaves(call(calor.asarray(marks.astype(np.float32))))
        assert len(made) == len(wants), f"{what}: {len(made)} parts, not {len(wants)}"
        for got, want in zip(made, wants, strict=True):
            assert got.shape == want.shape, f"{what}, {how}: {got.shape}, not {want.shape}"
            same = (got.numpy() == want).all()
            assert same, f"{what}, {how}: {got.tolist()}, not {want.tolist()}"
    weights = [rng.integers(-9, 10, want.shape).astype(np.float32) for want in wants]
    back = np.zeros(marks.size + 1, np.float32)
    for want, weight in zip(wants, weights, strict=True):
        np.add.at(back, want.reshape(-1), weight.reshape(-1))

    def total(t: Any) -> Any:
        parts = zip(tree.leaves(run(t)), weights, strict=True)
        return sum((calor.sum(p * calor.asarray(w)) for p, w in parts), calor.sum(t) * 0)

    got = calor.grad(total)(calor.asarray(marks.astype(np.float32))).numpy()
    assert (got.reshape(-1) == back[1:]).all(), f"the gradient of {what}: {got}, not {back[1:]}"


def parameter_forms() -> Iterator[Check]:
    """Yield the check of functions that move elements."""
    yield Check(
        kind="functions",
        subject="parameter-forms",
        tier="full",
        contract=CONTRACT,
        run=_moves,
        text=partial(inspect.getsource, _one),
        op="flip",
        dtypes=(float32, int64),
        looks=True,
    )
