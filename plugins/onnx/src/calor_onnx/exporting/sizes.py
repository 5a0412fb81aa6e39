"""Sizes that depend on symbolic axes, as polynomials with integer coefficients.

Requirements: calor traces for known sizes, and a model shall run for any. A function is traced for
several sizes of each symbolic axis. A number that differs between the traces becomes the polynomial
through all of them, and one additional trace has to agree. If it does not, the size is *uneven*, as
after a strided convolution: it becomes a symbol of its own, on which no computation may depend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Union

import numpy as np

from calor.dtypes import as_dtype, real_of
from calor.ops.base import Scalar
from calor.ops.sources import HostArray

# A product of symbols with repetitions; () is the constant term.
Monomial = tuple[str, ...]
Dimension = Union[int, "Size"]


class NotGeneral(Exception):
    """A number differs between the traces, and no polynomial passes through all of them."""


class Size:
    """A polynomial of symbols; sums, differences and products with it are polynomials or integers.

    >>> batch = Size({("N",): 1})
    >>> batch * 3 + 1
    3·N + 1
    >>> batch - batch
    0
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: Final = tuple(sorted(terms.items(), reverse=True))

    def __repr__(self) -> str:
        def shown(monomial: Monomial, factor: int) -> str:
            names = [str(factor)] if factor != 1 or not monomial else []
            return "·".join([*names, *monomial])

        return " + ".join(shown(*term) for term in self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __add__(self, other: Dimension) -> Dimension:
        made = dict(self.terms)
        for monomial, factor in _terms(other):
            made[monomial] = made.get(monomial, 0) + factor
        return _size(made)

    def __mul__(self, other: Dimension) -> Dimension:
        made: dict[Monomial, int] = {}
        for (a, m), (b, n) in product(self.terms, _terms(other)):
            monomial = tuple(sorted(a + b))
            made[monomial] = made.get(monomial, 0) + m * n
        return _size(made)

    def __neg__(self) -> Dimension:
        return self * -1

    def __sub__(self, other: Dimension) -> Dimension:
        return self + other * -1

    def __rsub__(self, other: int) -> Dimension:
        return self * -1 + other

    __radd__ = __add__
    __rmul__ = __mul__


def _terms(value: Dimension) -> tuple[tuple[Monomial, int], ...]:
    return value.terms if isinstance(value, Size) else (((), value),)


def _size(terms: Mapping[Monomial, int]) -> Dimension:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not any(kept):
        return kept.get((), 0)
    return Size(kept)


def total(sizes: Sequence[Dimension]) -> Dimension:
    """Return the product of sizes."""
    made: Dimension = 1
    for size in sizes:
        made = made * size
    return made


@dataclass(frozen=True)
class Number:
    """A 0-d constant whose value is a size, or a number divided by a size."""

    size: Size
    inverse: bool


@dataclass(frozen=True)
class Ramp:
    """A constant vector of equally spaced numbers with a symbolic length."""

    start: float
    step: float
    length: Dimension


@dataclass(frozen=True)
class Triangle:
    """A constant matrix of 1 up to its ``diagonal`` and 0 above, or the opposite."""

    rows: Dimension
    columns: Dimension
    diagonal: int
    lower: bool


# Prefix of the names of uneven sizes.
UNEVEN: Final = "~"


class Samples:
    """The sizes for which a function is traced, and the conversion of traced numbers to sizes.

    ``known`` are the sizes of other axes, which samples must not equal.
    """

    def __init__(self, examples: Mapping[str, int], known: Sequence[int] = ()) -> None:
        self.symbols: Final = tuple(examples)
        self.uneven: dict[str, tuple[int, ...]] = {}
        # A size of 1 would look like a broadcast axis.
        first, used = {}, set(known)
        for i, (name, n) in enumerate(examples.items()):
            n = max(n, 2)
            while not used.isdisjoint((n, n + 1, n + 3 + i)):
                n += 1
            first[name] = n
            used.update((n, n + 1, n + 3 + i))
        self.corners: Final = list(product((0, 1), repeat=len(first)))
        self.points: Final[list[dict[str, int]]] = [
            {name: n + up for (name, n), up in zip(first.items(), corner, strict=True)}
            for corner in self.corners
        ]
        if first:
            self.points.append({name: n + 3 + i for i, (name, n) in enumerate(first.items())})

    def number(self, values: Sequence[int]) -> Dimension:
        """Return the polynomial with these values at the samples.

        Raises
        ------
        NotGeneral
            If there is none.
        """
        if all(v == values[0] for v in values):
            return values[0]
        made: Dimension = 0
        base = self.points[0]
        for corner in self.corners:
            # The alternating sum of values over a corner's face is the coefficient of its symbols.
            chosen = [name for name, up in zip(self.symbols, corner, strict=True) if up]
            factor = sum(
                (-1) ** (sum(corner) - sum(other)) * value
                for other, value in zip(self.corners, values, strict=False)
                if all(o <= c for o, c in zip(other, corner, strict=True))
            )
            made = made + total([Size({(name,): 1}) - base[name] for name in chosen]) * factor
        if any(at(made, point) != v for point, v in zip(self.points, values, strict=True)):
            raise NotGeneral
        return made

    def size(self, values: Sequence[int]) -> Dimension:
        """Return the size with these values at the samples, possibly an uneven one."""
        try:
            return self.number(values)
        except NotGeneral:
            name = UNEVEN + ",".join(map(str, values))
            self.uneven[name] = tuple(values)
            return Size({(name,): 1})

    def settled(self, size: Dimension) -> Dimension:
        """Return a constant polynomial as an integer, other sizes unchanged."""
        found = {
            at(size, {**point, **{name: values[i] for name, values in self.uneven.items()}})
            for i, point in enumerate(self.points)
        }
        return found.pop() if len(found) == 1 else size

    def merged(self, values: Sequence[Any]) -> Any:
        """Return one attribute for those of all traces."""
        first = values[0]
        if all(type(v) is type(first) and v == first for v in values):
            return first
        if all(type(v) is int for v in values):
            return self.size(values)
        if all(isinstance(v, tuple) and len(v) == len(first) for v in values):
            return tuple(self.merged(items) for items in zip(*values, strict=True))
        if all(isinstance(v, Scalar) for v in values):
            return self._scalar([v.number for v in values], first.dtype)
        if all(isinstance(v, HostArray) and v.shape == () for v in values):
            return self._scalar([v.array.item() for v in values], first.dtype)
        if all(isinstance(v, HostArray) and len(v.shape) == 1 for v in values):
            return self._ramp([v.array for v in values])
        if all(isinstance(v, HostArray) and len(v.shape) == 2 for v in values):
            return self._triangle([v.array for v in values])
        raise NotGeneral

    def _triangle(self, arrays: Sequence[Any]) -> Triangle:
        shape = [self.number([a.shape[axis] for a in arrays]) for axis in (0, 1)]
        for diagonal, lower in product((-1, 0, 1), (True, False)):
            wanted = [np.tri(a.shape[0], a.shape[1], diagonal, dtype=bool) == lower for a in arrays]
            if all(
                np.array_equal(a, w.astype(a.dtype)) for a, w in zip(arrays, wanted, strict=True)
            ):
                return Triangle(shape[0], shape[1], diagonal, lower)
        raise NotGeneral

    def _ramp(self, arrays: Sequence[Any]) -> Ramp:
        longest = max(arrays, key=len)
        start, step = longest[0].item(), (longest[1] - longest[0]).item()
        for array in arrays:
            if not np.array_equal(
                array, (start + step * np.arange(len(array))).astype(array.dtype)
            ):
                raise NotGeneral
        return Ramp(start, step, self.number([len(array) for array in arrays]))

    def _scalar(self, values: Sequence[Any], dtype: str) -> Number:
        known = as_dtype(dtype)
        if known.is_complex:
            if any(v.imag for v in values):
                raise NotGeneral
            values, known = [v.real for v in values], real_of(known)
        host = known.numpy
        if all(v == round(v) for v in values):
            size, inverse = self.number([round(v) for v in values]), False
        else:
            counts = [round(1 / v) for v in values]
            if any(host.type(1 / n) != host.type(v) for n, v in zip(counts, values, strict=True)):
                raise NotGeneral
            size, inverse = self.number(counts), True
        assert isinstance(size, Size)
        return Number(size, inverse)


def at(size: Dimension, point: Mapping[str, int]) -> int:
    """Return the value of a size for values of its symbols."""
    return sum(
        factor * int(np.prod([point[name] for name in monomial], dtype=np.int64))
        for monomial, factor in _terms(size)
    )
