"""Drawn programs without a size of their own: each step asks its operands for their lengths.

A program is drawn for several lengths at once, and a step is kept where it fits at all of them. So
its operands may have any length of at least LEAST, known or not when it is planned. Numbers are
small whole ones, whatever the length, so results are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import DType

from ..language import Array
from .programs import Program, Step

Rng = np.random.Generator
LEAST: Final = 3
# The lengths that a program is drawn for, and the other length of its operands.
_PROBES: Final = (7, 12, 31)
_WIDTH: Final = 5
_MODULUS: Final = 61
# Elements of a value at the longest probe.
_SIZE: Final = 31 * 31 * 3
Values = Sequence[Array]
Function = Callable[..., Any]
Drawn = tuple[Function, Function, int]


def _small(ours: Function, theirs: Function) -> tuple[Function, Function]:
    """Return functions whose results are brought back to small numbers."""
    return (
        lambda *x: calor.remainder(ours(*x), _MODULUS),
        lambda *x: np.remainder(theirs(*x), _MODULUS),
    )


def _same(function: Function) -> tuple[Function, Function]:
    """Return one function for both, which uses no name of a library."""
    return function, function


def _pair(rng: Rng) -> Drawn:
    ways: tuple[tuple[Function, Function], ...] = (
        _same(lambda a, b: a + b), _same(lambda a, b: a - b), _small(*_same(lambda a, b: a * b)),
        (calor.maximum, np.maximum), (calor.minimum, np.minimum),
        (lambda a, b: calor.where(a > b, b, a * 2), lambda a, b: np.where(a > b, b, a * 2)),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, 2


def _cut(rng: Rng, axis: int) -> Drawn:
    """A part of a value, which a length decides, or steps."""
    by, start = int(rng.choice((-3, -2, -1, 2, 3))), int(rng.integers(0, 3))
    share = int(rng.integers(2, 4))

    def key(x: Any, way: int) -> Any:
        n = x.shape[axis]
        cuts = (slice(None, None, by), slice(start, None), slice(None, n - start),
                slice(n // share, None), slice(None, n // share + 1), slice(-1, None))  # fmt: skip
        return (*(slice(None),) * axis, cuts[way])

    way = int(rng.integers(6))
    return *_same(lambda x: x[key(x, way)]), 1


def _along(rng: Rng, axis: int) -> Drawn:
    by = int(rng.integers(-2, 3))
    ways: tuple[tuple[Function, Function], ...] = (
        (lambda x: calor.flip(x, axis=axis), lambda x: np.flip(x, axis)),
        (lambda x: calor.roll(x, by, axis=axis), lambda x: np.roll(x, by, axis)),
        (lambda x: calor.sort(x, axis=axis), lambda x: np.sort(x, axis)),
        _small(lambda x: calor.cumulative_sum(x, axis=axis, dtype=x.dtype),
               lambda x: np.cumsum(x, axis)),
        (lambda x: calor.max(x, axis=axis, keepdims=True),
         lambda x: np.max(x, axis, keepdims=True)),
        _small(lambda x: calor.sum(x, axis=axis, keepdims=True, dtype=x.dtype),
               lambda x: np.sum(x, axis, keepdims=True)),
        _small(lambda x: calor.sum(x, axis=axis, dtype=x.dtype), lambda x: np.sum(x, axis)),
        (lambda x: calor.argmax(x, axis=axis, keepdims=True).astype(x.dtype) % 7,
         lambda x: np.argmax(x, axis, keepdims=True) % 7),
        (lambda x: calor.take(x, calor.arange(x.shape[axis]) // 2, axis=axis),
         lambda x: np.take(x, np.arange(x.shape[axis]) // 2, axis)),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, 1


def _formed(rng: Rng, rank: int) -> Drawn:
    order = tuple(int(a) for a in rng.permutation(rank))
    wide = [(int(a), int(b)) for a, b in rng.integers(0, 3, (rank, 2))]
    ways: tuple[tuple[Function, Function], ...] = (
        (lambda x: calor.permute_dims(x, order), lambda x: np.transpose(x, order)),
        (lambda x: calor.permute_dims(x, order), lambda x: np.transpose(x, order)),
        _same(lambda x: x.reshape((-1,))),
        _same(lambda x: x.reshape((x.shape[-1], -1))),
        (lambda x: calor.pad(x, wide), lambda x: np.pad(x, wide)),
        (lambda x: calor.stack([x, x * 2], axis=rank // 2),
         lambda x: np.stack([x, x * 2], axis=rank // 2)),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, 1


def _joined(rng: Rng, axis: int) -> Drawn:
    return (
        lambda a, b: calor.concat([a, b], axis=axis),
        lambda a, b: np.concatenate([a, b], axis=axis),
        2,
    )


def _product(rng: Rng) -> Drawn:
    ways: tuple[tuple[Function, Function], ...] = (
        _small(calor.matmul, np.matmul),
        _small(lambda a, b: calor.matmul(a, calor.matrix_transpose(b)),
               lambda a, b: np.matmul(a, np.swapaxes(b, -1, -2))),
        _small(lambda a, b: calor.matmul(calor.matrix_transpose(a), b),
               lambda a, b: np.matmul(np.swapaxes(a, -1, -2), b)),
    )  # fmt: skip
    ours, theirs = ways[int(rng.integers(len(ways)))]
    return ours, theirs, 2


def _a_step(rng: Rng, rank: int) -> Drawn:
    axis = int(rng.integers(rank)) if rank else 0
    way = rng.random()
    if not rank or way < 0.35:
        return _pair(rng)
    if way < 0.5:
        return _cut(rng, axis)
    if way < 0.72:
        return _along(rng, axis)
    if way < 0.86:
        return _formed(rng, rank)
    return _joined(rng, axis) if way < 0.93 or rank < 2 else _product(rng)


def operands(rng: Rng, n: int) -> list[Array]:
    """Return two operands of a length, and one with a row of their width."""
    shapes = ((n, _WIDTH), (n, _WIDTH), (1, _WIDTH))
    return [rng.integers(-9, 10, s) for s in shapes]


def sized_program(seed: Sequence[int], ops: int, dtype: DType) -> Program:
    """Return a program of so many ops for operands of any length.

    Parameters
    ----------
    seed : sequence of int
        Which program.
    ops : int
        The number of ops.
    dtype : DType
        The dtype of the operands.

    Returns
    -------
    Program
        The program, with operands of one of the lengths.
    """
    rng = np.random.default_rng(seed)
    every = [operands(rng, n) for n in _PROBES]
    steps: list[Step] = []
    while len(steps) < ops:
        # The last values most often, so that programs are deep.
        read = [max(int(k) for k in rng.integers(0, len(every[0]), 2)) for _ in range(2)]
        ours, theirs, count = _a_step(rng, every[0][read[0]].ndim)
        numbers = tuple(read[:count] if rng.random() < 0.5 else read[:count][::-1])
        made = [_tried(theirs, [values[k] for k in numbers]) for values in every]
        if any(m is None for m in made):
            continue
        steps.append((ours, theirs, numbers))
        for values, m in zip(every, made, strict=True):
            assert m is not None
            values.append(m)
    used = {k for _, _, numbers in steps for k in numbers}
    last = 3 + len(steps)
    more = {int(k) for k in rng.integers(3, last, 2)}
    wanted = [k for k in range(3, last) if k not in used or k in more]
    return Program(every[0][:3], steps, wanted)


def _tried(function: Function, given: list[Array]) -> Array | None:
    """Return what a function makes of values; None where they do not fit, or too much is made."""
    try:
        made = np.asarray(function(*given))
    except (ValueError, IndexError):
        return None
    return made if 0 < made.size <= _SIZE and made.ndim <= 4 else None
