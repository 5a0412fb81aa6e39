"""Derivatives by central differences in float64, and the rows that they judge.

The gradient of a real number L by a complex operand is dL/da + i·dL/db (as in PyTorch). A result y
with cotangent g contributes L = Re Σ conj(g)·y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, as_dtype, complex128, float64
from calor.ops.base import TABLE

from .judging import put
from .language import Array, Case

STEP = 1e-5
# Differences are computed on the reference, which defines the ops.
REFERENCE = "numpy"
Function = Callable[..., list[Any]]


def differentiable(cases: Sequence[Case]) -> Iterator[tuple[Case, DType]]:
    """Yield the differentiated rows, with float64 and complex128."""
    for c in cases:
        row = TABLE.get(c.op)
        if c.no_gradient is not None or (row is not None and row.no_gradient is not None):
            continue
        for dtype in (float64, complex128):
            if dtype in c.dtypes and any(_inexact(d.type_for(dtype)) for d in c.inputs):
                yield c, dtype


def _inexact(dtype: DType) -> bool:
    return dtype in (float64, complex128)


def _moves(kind: DType, main: DType) -> bool:
    """Return whether operands of a dtype are differentiated in a row with another dtype."""
    return _inexact(kind) or (kind is main and main.is_inexact)


class Problem:
    """A row as a function of its float operands only, with cotangents for its float outputs."""

    def __init__(
        self,
        c: Case,
        dtype: DType,
        device: str | None = None,
        *,
        seed: int = 0,
        arrays: Sequence[Array] | None = None,
    ) -> None:
        self.case, self.dtype, self.seed = c, dtype, seed
        self.arrays = c.draw(dtype, seed) if arrays is None else list(arrays)
        self.places = [i for i, a in enumerate(self.arrays) if _moves(as_dtype(a.dtype), dtype)]
        self.fixed = put(self.arrays, device)
        self.primals = [self.arrays[i] for i in self.places]
        self.device = device

    @cached_property
    def cotangents(self) -> list[Array]:
        """A number for each of the float outputs' elements."""
        made = self.case.outputs.get(self.dtype)
        if made is None:
            # Recorded only, for a device that runs jitted functions only.
            graph = calor.trace(self.run, *put(self.primals, self.device))
            made = self._known(graph.output_specs)
        return alike([np.empty(shape, kind) for shape, kind in made], 7)

    @cached_property
    def tangents(self) -> list[Array]:
        """A number for each element of the float operands."""
        return alike(self.primals, 8)

    @property
    def reference(self) -> Problem:
        """The function of the same operands on the reference."""
        with calor.device(REFERENCE):
            return Problem(self.case, self.dtype, REFERENCE, seed=self.seed, arrays=self.arrays)

    def _known(self, outputs: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Store the shapes and types of the float outputs, given as tensors or specs."""
        made = self.case.outputs[self.dtype] = [(t.shape, t.dtype.numpy) for t in outputs]
        return made

    def widened(self, wide: DType) -> Problem:
        """Return the same numbers in a wider dtype, on the reference."""
        arrays = [a.astype(wide.numpy) if i in self.places else a
                  for i, a in enumerate(self.arrays)]  # fmt: skip
        with calor.device(REFERENCE):
            return Problem(self.case, wide, REFERENCE, arrays=arrays)

    def run(self, *moving: Any) -> list[Any]:
        """Return the float outputs for these float operands."""
        given = list(self.fixed)
        for i, t in zip(self.places, moving, strict=True):
            given[i] = t
        made = self.case.call(*given, dtype=self.dtype)
        return [t for t in calor.tree.leaves(made) if t.dtype.is_inexact]

    def pulled(self, *operands: Any) -> list[Any]:
        """Return the gradients for operands followed by cotangents, as tensors."""
        n = len(self.places)
        _, pull = calor.vjp(lambda *x: self.run(*x), *operands[:n])
        return list(pull(list(operands[n:])))

    def gradients(self, cotangents: Sequence[Array] | None = None) -> list[Any]:
        """Return the gradients as tensors, recorded and not traced; for cotangents of other types.

        By default they are the problem's own.
        """
        made, pull = calor.vjp(lambda *x: self.run(*x), *put(self.primals, self.device))
        kinds = [dtype for _, dtype in self._known(made)]
        own = self.cotangents if cotangents is None else cotangents
        given = [np.asarray(g, kind) for g, kind in zip(own, kinds, strict=True)]
        return list(pull(put(given, self.device)))


def alike(arrays: Sequence[Array], seed: int) -> list[Array]:
    """Return normally distributed numbers with the shapes and dtypes of the arrays."""
    rng = np.random.default_rng(seed)
    return [_like(a, rng) for a in arrays]


def _like(a: Array, rng: np.random.Generator) -> Array:
    made = rng.normal(size=a.shape)
    if a.dtype.kind == "c":
        return np.asarray(made + 1j * rng.normal(size=a.shape), a.dtype)
    return np.asarray(made, a.dtype)


def inner(a: Sequence[Array], b: Sequence[Array]) -> float:
    """Return Re Σ conj(a)·b."""
    return float(sum(np.sum((np.conj(x) * y).real) for x, y in zip(a, b, strict=True)))


def _values(function: Function, arrays: Sequence[Array]) -> list[Array]:
    with calor.device(REFERENCE):
        return [t.numpy() for t in function(*put(arrays, REFERENCE))]


def by_differences(
    function: Function,
    arrays: Sequence[Array],
    cotangents: Sequence[Array],
    otherwise: Sequence[Array],
    most: int | None,
    seed: int = 0,
) -> list[Array]:
    """Return the gradient of Re Σ conj(cotangents)·function(arrays), element by element.

    The function is that of a problem on the reference. ``most`` limits the number of elements of
    each array, which the seed chooses; the others are taken from ``otherwise``.
    """
    gradients = []
    for n, array in enumerate(arrays):
        made = otherwise[n].astype(array.dtype)
        places = list(np.ndindex(*array.shape))
        if most is not None and len(places) > most:
            chosen = np.random.default_rng([seed, n]).permutation(len(places))[:most]
            places = [places[i] for i in chosen]
        units: tuple[Any, ...] = (1.0, 1.0j) if array.dtype.kind == "c" else (1.0,)
        for at in places:
            made[at] = sum(_slope(function, arrays, cotangents, n, at, u) * u for u in units)
        gradients.append(made)
    return gradients


def _slope(
    function: Function,
    arrays: Sequence[Array],
    cotangents: Sequence[Array],
    n: int,
    at: tuple[int, ...],
    unit: Any,
) -> float:
    """Return the derivative by one element of one array along a unit."""
    ends = []
    for side in (STEP, -STEP):
        moved = arrays[n].copy()
        moved[at] += side * unit
        given = [*arrays[:n], moved, *arrays[n + 1 :]]
        ends.append(inner(cotangents, _values(function, given)))
    return (ends[0] - ends[1]) / (2 * STEP)


def along(function: Function, arrays: Sequence[Array], tangents: Sequence[Array]) -> list[Array]:
    """Return the derivative of the function along the tangents."""
    ends = [
        _values(function, [a + side * t for a, t in zip(arrays, tangents, strict=True)])
        for side in (STEP, -STEP)
    ]
    return [(a - b) / (2 * STEP) for a, b in zip(*ends, strict=True)]


def close(got: Sequence[Array], want: Sequence[Array], what: str, bound: float = 2e-6) -> None:
    """Raise AssertionError unless all elements agree, relative to the largest of each array."""
    assert len(got) == len(want), f"{what}: {len(got)} arrays, not {len(want)}"
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape, f"{what} {n}: shape {a.shape}, not {b.shape}"
        assert a.dtype == b.dtype, f"{what} {n}: dtype {a.dtype}, not {b.dtype}"
        if not a.size:
            continue
        error = np.abs(a - b) / (1.0 + np.max(np.abs(b)))
        assert np.isfinite(error).all(), f"{what} {n}:\n{a}\nnot\n{b}"
        assert error.max() <= bound, f"{what} {n}: off by {error.max():.3g}\n{a}\nnot\n{b}"
