"""Drawn programs of parts, orders and arithmetic in every dtype, with many results of one run.

A compiler computes equal work on several values at once, and reads parts where they lie. Which work
is joined depends on all the rest of a program, so no row of one op meets it. Numbers are whole and
small, so each program has one result in any order of its sums, whatever is joined.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
)

from .base import Array, Check, Place

CONTRACT: Final = "what a program computes beside a value does not change it"
TYPES: Final = (
    complex64, float32, int32, complex128, float16, bfloat16, int8, float64, int64,
)  # fmt: skip
# The largest whole number up to which all are numbers of a dtype, where that is small.
_MOST: Final = {float16: 1 << 11, bfloat16: 1 << 8, int8: 127}
_USUAL, _ELEMENTS, _ACTIONS, _PARTS = 1 << 20, 2000, 14, 6
# Programs of a check: where none needs a compiler, and elsewhere.
_COUNTS: Final = (8, 3)
Rng = np.random.Generator
# A step of a program: a library of arrays and the values so far give the next one.
Step = Callable[[Any, list[Any]], Any]


class _Program:
    """A drawn program: its operands, its steps, and which values are its results.

    ``values`` are what NumPy computes, in the widest dtype of the kind.
    """

    def __init__(self, rng: Rng, dtype: DType) -> None:
        self.rng, self.most = rng, _MOST.get(dtype, _USUAL)
        self.complex = dtype.is_complex
        wide: Any = np.int64 if dtype.kind == "int" else np.float64
        self.operands = [self._operand(wide) for _ in range(int(rng.integers(1, 4)))]
        self.values: list[Array] = [*self.operands]
        self.steps: list[Step] = []
        actions = [self._each, self._each, self._part, self._part, self._repeated, self._turned,
                   self._flat, self._total, self._joined, self._pair, self._pair]  # fmt: skip
        for _ in range(_ACTIONS):
            actions[int(rng.integers(len(actions)))]()
        made = len(self.steps)
        count = int(rng.integers(1, made + 1)) if made else 0
        chosen = rng.permutation(made)[:count] + len(self.operands)
        self.results = [int(k) for k in chosen]

    def __call__(self, *tensors: Any) -> list[Any]:
        """Return the results of tensors."""
        values = [*tensors]
        for step in self.steps:
            values.append(step(calor, values))
        return [values[k] for k in self.results]

    def _operand(self, wide: Any) -> Array:
        shape = tuple(int(n) for n in self.rng.choice([1, 2, 3, 3, 4, 5, 9], self._below(1, 4)))
        made = self.rng.integers(-3, 4, shape)
        if self.complex:
            return np.asarray(made + 1j * self.rng.integers(-3, 4, shape))
        return made.astype(wide)

    def _below(self, first: int, end: int) -> int:
        return int(self.rng.integers(first, end))

    def _add(self, step: Step) -> bool:
        """Take a step, unless its result is large."""
        made = np.asarray(step(np, self.values))
        fits = 0 < made.size <= _ELEMENTS and _largest(made) <= self.most
        if fits:
            self.values.append(made)
            self.steps.append(step)
        return fits

    def _any(self, least: int = 0) -> int:
        """Return the number of a value of at least some axes, a late one more often."""
        found = [k for k, v in enumerate(self.values) if v.ndim >= least]
        return found[max(self._below(0, len(found)), self._below(0, len(found)))]

    def _axis(self, k: int) -> int:
        return self._below(0, self.values[k].ndim)

    def _each(self) -> None:
        """The same op on each of some parts of a value, or on numbers of it that are repeated."""
        k = self._any(1)
        axis, kind, size = self._axis(k), self._below(0, 6), self._below(2, 6)
        other = self._below(0, len(self.values))
        kind = self._safe(kind, k, other)
        for start in self.rng.permutation(self.values[k].shape[axis])[:_PARTS]:
            place: Any = (slice(None),) * axis + (slice(int(start), int(start) + 1),)
            self._add(partial(_of_part, k, place, kind, size, other))

    def _part(self) -> None:
        k = self._any(1)
        axis = self._axis(k)
        n = self.values[k].shape[axis]
        start = self._below(0, n)
        stop, step = self._below(start, n) + 1, self._below(1, 3)
        place = (slice(None),) * axis + (slice(start, stop, step),)
        self._add(lambda lib, values: values[k][place])

    def _repeated(self) -> None:
        k, n = self._any(), self._below(2, 4)
        shape = (n, *self.values[k].shape)
        if len(shape) < 5:
            self._add(lambda lib, values: lib.broadcast_to(values[k], shape))

    def _turned(self) -> None:
        k = self._any(1)
        order = tuple(int(a) for a in self.rng.permutation(self.values[k].ndim))
        axis = self._axis(k)
        self._add(lambda lib, values: lib.flip(lib.permute_dims(values[k], order), axis=axis))

    def _flat(self) -> None:
        k = self._any()
        self._add(lambda lib, values: lib.reshape(values[k], (-1,)))

    def _total(self) -> None:
        k = self._any(1)
        axis = self._axis(k)
        if np.abs(self.values[k]).sum(axis).max() <= self.most // 2:
            self._add(lambda lib, v: lib.sum(v[k], axis=axis, dtype=v[k].dtype))

    def _joined(self) -> None:
        k = self._any(1)
        axis, shape = self._axis(k), self.values[k].shape
        alike = [j for j, v in enumerate(self.values) if v.shape == shape]
        j = alike[self._below(0, len(alike))]
        self._add(lambda lib, v: lib.concat([v[j], -v[k], v[k]], axis=axis))

    def _pair(self) -> None:
        k, j = self._any(), self._below(0, len(self.values))
        self._add(partial(_of_part, k, (), self._safe(self._below(0, 2), k, j), 1, j))

    def _safe(self, kind: int, k: int, j: int) -> int:
        """Return a kind of arithmetic, a difference for a product of large numbers."""
        large = _largest(self.values[k]) * _largest(self.values[j]) > self.most
        return 0 if kind == 1 and large else kind


def _of_part(k: int, place: Any, kind: int, size: int, other: int, lib: Any, values: Any) -> Any:
    """Return arithmetic of a part of a value, with another one where their shapes fit."""
    x = values[k][place]
    fits = kind < 2 and _broadcasts(x.shape, values[other].shape)
    if fits:
        return x * values[other] if kind else x - values[other]
    if kind > 3:
        x = lib.broadcast_to(x, (size, *x.shape))
    return lib.conj(x) if _is_complex(x) and kind % 2 == 0 else -x


def _is_complex(x: Any) -> bool:
    return bool(x.dtype.kind == "c" if isinstance(x, np.ndarray) else x.dtype.is_complex)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    short = min(len(a), len(b))
    pairs = zip(a[len(a) - short :], b[len(b) - short :], strict=True)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def _largest(made: Array) -> float:
    """Return the sum of the largest real and the largest imaginary part."""
    return float(np.abs(made.real).max() + np.abs(made.imag).max())


def _run(dtype: DType, place: Place) -> None:
    rng = np.random.default_rng([TYPES.index(dtype), place.seed])
    for number in range(_COUNTS[not place.interpreted]):
        program = _Program(rng, dtype)
        if not program.results:
            continue
        tensors = [calor.asarray(a.astype(dtype.numpy)) for a in program.operands]
        made = calor.jit(program)(*tensors)
        for at, (k, tensor) in enumerate(zip(program.results, made, strict=True)):
            want, got = program.values[k], tensor.numpy()
            what = f"result {at} of program {number}, of seed {place.seed}"
            assert got.shape == want.shape, f"{what} has shape {got.shape}, not {want.shape}"
            assert (got.astype(want.dtype) == want).all(), f"{what} is\n{got}\nnot\n{want}"


def drawn_programs() -> Iterator[Check]:
    """Yield a check of drawn programs in each dtype."""
    for dtype in TYPES:
        yield Check(
            kind="graphs",
            subject="drawn-programs",
            tier="compiled",
            contract=CONTRACT,
            run=partial(_run, dtype),
            text=partial(inspect.getsource, _Program),
            dtype=dtype,
            dtypes=(dtype,),
        )
