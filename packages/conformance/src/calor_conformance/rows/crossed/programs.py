"""Drawn programs: many small ops whose results are read once, often, or by nothing else.

A compiler joins ops by what reads their results, so programs are drawn, and not written. Numbers
are small whole ones, which every dtype holds, so results are exact whatever is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType, bfloat16, float16, float32, int16, int32
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops.base import find
from calor.reference.random import random_bits

from ..language import Array
from .language import Problem, Subject
from .pairwise import Scenario

Rng = np.random.Generator
Function = Callable[..., Any]
# What calor does, what it means, and the values that it reads.
Step = tuple[Function, Function, tuple[int, ...]]
Values = Sequence[Array]
Kept = Callable[[Step, Array], tuple[Step, Array]]
Way = Callable[[np.random.Generator, Values, DType], Step | None]
_SHAPES: Final = ((7,), (257,), (3, 33), (4, 1, 9), (2, 5, 17), (40, 65), (2, 3, 4, 5))
# Greater numbers are brought back, and a result of more elements is not made.
_MOST, _SIZE, _MODULUS = 120, 12_000, 97


def last(rng: Rng, values: Values) -> int:
    """Return the number of a value, of the last ones most often."""
    return max(int(k) for k in rng.integers(0, len(values), 2))


def beside(rng: Rng, values: Values, k: int) -> int:
    """Return the number of a value that broadcasts with another."""
    fit = []
    for j, other in enumerate(values):
        try:
            shape = np.broadcast_shapes(values[k].shape, other.shape)
        except ValueError:
            continue
        if np.prod(shape) <= _SIZE:
            fit.append(j)
    return int(rng.choice(fit))


_BINARY: Final[tuple[tuple[Function, Function], ...]] = (
    (calor.add, np.add), (calor.subtract, np.subtract), (calor.multiply, np.multiply),
    (calor.maximum, np.maximum), (calor.minimum, np.minimum),
    (lambda a, b: a + b * 2, lambda a, b: a + b * 2),
)  # fmt: skip


def binary(rng: Rng, values: Values, dtype: DType) -> Step:
    k = last(rng, values)
    ours, theirs = _BINARY[int(rng.integers(len(_BINARY)))]
    read = (k, beside(rng, values, k))
    return ours, theirs, read if rng.random() < 0.5 else read[::-1]


def chosen(rng: Rng, values: Values, dtype: DType) -> Step:
    k = last(rng, values)
    same = [j for j, v in enumerate(values) if v.shape == values[k].shape]
    read = tuple(int(j) for j in rng.choice(same, 3))
    return (lambda a, b, c: e.where(a > b, c, b)), (lambda a, b, c: np.where(a > b, c, b)), read


def _unary(rng: Rng, values: Values, dtype: DType) -> Step:
    ours, theirs = ((e.neg, np.negative), (e.abs, np.abs), (e.sign, np.sign))[int(rng.integers(3))]
    return ours, theirs, (last(rng, values),)


def _through(rng: Rng, values: Values, dtype: DType) -> Step:
    """A cast to a dtype that holds all small numbers, and back."""
    kind = (bfloat16, float16, int16)[int(rng.integers(3))]
    return (
        lambda x: e.cast(e.cast(x, dtype=kind), dtype=dtype),
        lambda x: x,
        (last(rng, values),),
    )


def _axes(rng: Rng, rank: int) -> tuple[int, ...]:
    return tuple(sorted(int(a) for a in rng.permutation(rank)[: int(rng.integers(1, rank + 1))]))


def reduced(rng: Rng, values: Values, dtype: DType) -> Step | None:
    k = last(rng, values)
    if not values[k].ndim:
        return None
    axes, kept = _axes(rng, values[k].ndim), bool(rng.random() < 0.7)
    if rng.random() < 0.5:
        return (
            lambda x: calor.sum(x, axis=axes, keepdims=kept, dtype=dtype),
            lambda x: np.sum(x, axis=axes, keepdims=kept),
            (k,),
        )
    ours, theirs = ((calor.max, np.max), (calor.min, np.min))[int(rng.integers(2))]
    return (
        lambda x: ours(x, axis=axes, keepdims=kept),
        lambda x: theirs(x, axis=axes, keepdims=kept),
        (k,),
    )


def along(rng: Rng, values: Values, dtype: DType) -> Step | None:
    """A running sum, an order, or a roll along an axis."""
    k = last(rng, values)
    if not values[k].ndim:
        return None
    axis, by = int(rng.integers(values[k].ndim)), int(rng.integers(-3, 4))
    which = int(rng.integers(3))
    ours: Function = (
        lambda x: calor.cumulative_sum(x, axis=axis, dtype=dtype),
        lambda x: calor.sort(x, axis=axis),
        lambda x: calor.roll(x, by, axis=axis),
    )[which]
    theirs: Function = (
        lambda x: np.cumsum(x, axis=axis),
        lambda x: np.sort(x, axis=axis),
        lambda x: np.roll(x, by, axis=axis),
    )[which]
    return ours, theirs, (k,)


def moved(rng: Rng, values: Values, dtype: DType) -> Step | None:
    """A view of a value."""
    k = last(rng, values)
    shape = values[k].shape
    if not shape:
        return None
    which = int(rng.integers(6))
    axes, more = _axes(rng, len(shape)), _axes(rng, len(shape))
    if which == 0:
        order = tuple(int(a) for a in rng.permutation(len(shape)))
        return (lambda x: m.permute(x, axes=order)), (lambda x: np.transpose(x, order)), (k,)
    if which == 1:
        return (lambda x: m.flip(x, axes=axes)), (lambda x: np.flip(x, axes)), (k,)
    if which == 2:
        cuts = tuple(
            slice(None, None, int(rng.choice((-1, 1))))
            if rng.random() < 0.6
            else slice(int(rng.integers(0, n)), None, int(rng.integers(1, 3)))
            for n in shape
        )
        return (lambda x: x[cuts]), (lambda x: x[cuts]), (k,)
    if which == 3:
        lead = (int(rng.integers(1, 4)), *shape)
        return (lambda x: m.expand(x, shape=lead)), (lambda x: np.broadcast_to(x, lead)), (k,)
    if which == 4:
        return (
            lambda x: m.flip(m.flip(x, axes=axes), axes=more),
            lambda x: np.flip(np.flip(x, axes), more),
            (k,),
        )
    turned = (shape[-1], -1) if rng.random() < 0.5 else (-1,)
    return (lambda x: calor.reshape(x, turned)), (lambda x: np.reshape(x, turned)), (k,)


def _turned(rng: Rng, values: Values, dtype: DType) -> Step | None:
    """Two movements of one kind, of which a compiler may make one or none."""
    k = last(rng, values)
    rank = values[k].ndim
    if rank < 2:
        return None
    one, other = int(rng.integers(rank)), int(rng.integers(rank))
    order, then = (tuple(int(a) for a in rng.permutation(rank)) for _ in range(2))
    ways: tuple[tuple[Function, Function], ...] = (
        (lambda x: m.flip(m.flip(x, axes=(one,)), axes=(other,)),
         lambda x: np.flip(np.flip(x, one), other)),
        (lambda x: m.permute(m.permute(x, axes=order), axes=then),
         lambda x: x.transpose(order).transpose(then)),
        (lambda x: m.permute(m.flip(x, axes=(one,)), axes=order),
         lambda x: np.flip(x, one).transpose(order)),
        (lambda x: m.flip(x[1:], axes=(one,))[:-1], lambda x: np.flip(x[1:], one)[:-1]),
        (lambda x: calor.roll(calor.roll(x, 1, axis=one), -1, axis=other),
         lambda x: np.roll(np.roll(x, 1, one), -1, other)),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, (k,)


def _constant(rng: Rng, values: Values, dtype: DType) -> Step:
    """One number everywhere, of the shape of a value."""
    shape, number = values[last(rng, values)].shape, int(rng.integers(-2, 3))
    return (
        lambda: calor.full(shape, number, dtype=dtype),
        lambda: np.full(shape, number),
        (),
    )


def joined(rng: Rng, values: Values, dtype: DType) -> Step | None:
    k = last(rng, values)
    shape = values[k].shape
    if not shape:
        return None
    axis = int(rng.integers(len(shape)))
    others = [n for i, n in enumerate(shape) if i != axis]
    fit = [
        j
        for j, v in enumerate(values)
        if v.ndim == len(shape) and [n for i, n in enumerate(v.shape) if i != axis] == others
    ]
    read = (k, *(int(j) for j in rng.choice(fit, int(rng.integers(1, 3)))))
    return (
        lambda *x: calor.concat(list(x), axis=axis),
        lambda *x: np.concatenate(x, axis=axis),
        read if rng.random() < 0.5 else read[::-1],
    )


def padded(rng: Rng, values: Values, dtype: DType) -> Step | None:
    k = last(rng, values)
    if not values[k].ndim:
        return None
    wide = [(int(a), int(b)) for a, b in rng.integers(0, 3, (values[k].ndim, 2))]
    return (lambda x: calor.pad(x, wide)), (lambda x: np.pad(x, wide)), (k,)


def gathered(rng: Rng, values: Values, dtype: DType) -> Step | None:
    k = last(rng, values)
    if not values[k].ndim:
        return None
    axis = int(rng.integers(values[k].ndim))
    n = values[k].shape[axis]
    places = rng.integers(-n, n, int(rng.integers(1, 9))).astype(np.int32)
    return (
        lambda x: calor.take(x, calor.asarray(places), axis=axis),
        lambda x: np.take(x, places, axis=axis),
        (k,),
    )


def multiplied(rng: Rng, values: Values, dtype: DType) -> Step | None:
    """A product of a matrix with itself turned, or with another that fits."""
    k = last(rng, values)
    if values[k].ndim < 2:
        return None
    fit = [j for j, v in enumerate(values) if v.ndim == 2 and v.shape[0] == values[k].shape[-1]]
    if fit:
        return calor.matmul, np.matmul, (k, int(rng.choice(fit)))
    return (
        lambda x: calor.matmul(x, calor.matrix_transpose(x)),
        lambda x: np.matmul(x, np.swapaxes(x, -1, -2)),
        (k,),
    )


def _dropped(rng: Rng, values: Values, dtype: DType) -> Step:
    """A value where random bits say so."""
    k, seed, width = last(rng, values), int(rng.integers(99)), int(rng.choice((8, 16, 32)))
    shape, key, counter = values[k].shape, np.array([seed, 4]), np.array([seed, 0, 7, 0])

    def ours(x: Any) -> Any:
        words = (calor.asarray(w.astype(np.uint32)) for w in (key, counter))
        bits = find("random_bits")(*words, shape=shape, bits=width)
        return e.where(bits > (1 << (width - 1)), x, x * 0)

    def theirs(x: Array) -> Array:
        bits = random_bits(
            key.astype(np.uint32), counter.astype(np.uint32), shape=shape, bits=width
        )
        return np.where(bits > (1 << (width - 1)), x, 0)

    return ours, theirs, (k,)


_CLOSED: Final = (
    binary, binary, binary, chosen, _unary, _through, reduced, along, moved, moved, joined,
    padded, multiplied, _constant,
)  # fmt: skip
# What programs are made of. The first reads tensors that are no operands.
_WAYS: Final[dict[str, tuple[Way, ...]]] = {
    "ops": (*_CLOSED, gathered, _dropped),
    "closed": _CLOSED,
    "movements": (moved, moved, moved, _turned, joined, padded, _constant, binary),
    "constants": (_constant, _constant, _constant, binary, chosen, _unary, _through, reduced,
                  moved, joined, joined, padded),
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A drawn program of three operands.

    Parameters
    ----------
    operands : sequence of array
        The operands that it was drawn for.
    steps : sequence of Step
        Its ops, of which each makes one value more.
    wanted : sequence of int
        The values that are results: all that nothing reads, and some others.
    """

    operands: Sequence[Array]
    steps: Sequence[Step]
    wanted: Sequence[int]

    def run(self, *tensors: Any) -> list[Any]:
        """Return the results for tensors."""
        return self._of(0, tensors)

    def meaning(self, *arrays: Array) -> list[Array]:
        """Return the results for arrays."""
        return [np.asarray(made) for made in self._of(1, arrays)]

    def largest(self, *arrays: Array) -> float:
        """Return the largest magnitude of all values between the operands and the results."""
        every = Program(self.operands, self.steps, range(3, 3 + len(self.steps)))
        return max(float(np.abs(made).max(initial=0)) for made in every.meaning(*arrays))

    def _of(self, side: int, values: Sequence[Any]) -> list[Any]:
        made = list(values)
        for step in self.steps:
            function = step[0] if side == 0 else step[1]
            made.append(function(*(made[k] for k in step[2])))
        return [made[k] for k in self.wanted]


def drawn(rng: Rng, dtype: DType, count: int, ways: Sequence[Way], kept: Kept) -> Program:
    """Draw a program.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws its operands and its steps.
    dtype : DType
        The dtype of the operands and of the results.
    count : int
        The number of steps.
    ways : sequence of callable
        Draw a step for the values that are there; None where none fits.
    kept : callable
        Returns a step and what it made, both within bounds.

    Returns
    -------
    Program
        The program.
    """
    shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
    shapes = (shape, shape, tuple(n if rng.random() < 0.5 else 1 for n in shape))
    given = [np.asarray(rng.integers(-9, 10, s)) for s in shapes]
    steps: list[Step] = []
    values = list(given)
    while len(steps) < count:
        step = ways[int(rng.integers(len(ways)))](rng, values, dtype)
        if step is None:
            continue
        made = np.asarray(step[1](*(values[k] for k in step[2])))
        if not 0 < made.size <= _SIZE or made.ndim > 5:
            continue
        step, made = kept(step, made)
        steps.append(step)
        values.append(made)
    read = {k for _, _, numbers in steps for k in numbers}
    more = {int(k) for k in rng.integers(len(given), len(values), 2)}
    wanted = [k for k in range(len(given), len(values)) if k not in read or k in more]
    return Program(given, steps, wanted)


def _whole(step: Step, made: Array) -> tuple[Step, Array]:
    """Return a step whose result is brought back to small numbers, if it is not of such."""
    if np.abs(made).max() <= _MOST:
        return step, made
    ours, theirs, read = step
    small: Step = (
        lambda *x: calor.remainder(ours(*x), _MODULUS),
        lambda *x: theirs(*x) % _MODULUS,
        read,
    )
    return small, made % _MODULUS


def program(number: int, ops: int, dtype: DType, made_of: str = "ops") -> Program:
    """Return a program of so many ops on small whole numbers.

    Parameters
    ----------
    number : int
        Which of the programs of this length.
    ops : int
        The number of ops.
    dtype : DType
        The dtype of the operands and of the results.
    made_of : str, default "ops"
        "ops", "closed" for those that read operands only, "movements" or "constants".

    Returns
    -------
    Program
        The program.
    """
    rng = np.random.default_rng([number, ops])
    return drawn(rng, dtype, ops, _WAYS[made_of], _whole)


def _crossed(made_of: str, scenario: Scenario, rng: Rng, dtype: DType) -> Problem:
    made = program(scenario["program"], scenario["ops"], dtype, made_of)
    want = [a.astype(dtype.numpy) for a in made.meaning(*made.operands)]
    arrays, kinds = [a.astype(dtype.numpy) for a in made.operands], [dtype] * len(want)
    return Problem(arrays, made.run, lambda: want, kinds, zeros=False, slope=False)


SUBJECTS: list[Subject] = [
    Subject("", partial(_crossed, "ops"), (float32, int32),
            {"program": tuple(range(8)), "ops": (5, 12, 25), "mode": ("jit", "again")},
            {"program": tuple(range(500)), "ops": (60,)}, name="chain-of-drawn-ops"),
    Subject("", partial(_crossed, "movements"), (float32,),
            {"program": tuple(range(32)), "ops": (5,), "mode": ("jit",)},
            {"program": tuple(range(500)), "ops": (12,)}, name="chain-of-drawn-movements",
            each="program"),
    Subject("", partial(_crossed, "constants"), (float32, int32),
            {"program": tuple(range(24)), "ops": (8,), "mode": ("jit",)},
            {"program": tuple(range(500)), "ops": (20,)}, name="chain-of-drawn-constants",
            each="program"),
]  # fmt: skip
