"""Numbers in the type in which they are computed, and their gradients, on NumPy.

Requirements: autocast is defined by the types of steps, in which their results and gradients are
rounded. A step here rounds as its type says; each reader casts its operands, and gradients of what
is cast are added in the type of before. Numbers are whole but for marks of 2⁻¹⁴, which a half type
drops and float32 keeps; so a step in the wrong type is far from the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, float32

MARK: Final = 2.0**-14
Array = np.ndarray[Any, Any]


def rounded(array: Any, dtype: DType) -> Array:
    """Return numbers as a dtype holds them, in double precision."""
    return np.asarray(np.asarray(array, np.float64).astype(dtype.numpy), np.float64)


class Number:
    """An array in a dtype, with what takes its gradient to what it was made from."""

    def __init__(
        self,
        array: Any,
        dtype: DType = float32,
        parents: Sequence[tuple[Number, Callable[[Array], Array]]] = (),
        source: Number | None = None,
    ) -> None:
        self.array, self.dtype, self.parents = rounded(array, dtype), dtype, parents
        # What a cast is of.
        self.source = source

    def to(self, dtype: DType) -> Number:
        """Return the number in a dtype."""
        if dtype is self.dtype:
            return self
        return Number(self.array, dtype, [(self, lambda g: g)], self)


def product(a: Number, b: Number, low: DType | None) -> Number:
    """Return a matrix product, in a half type if there is one."""
    a, b = (x.to(low or _common(a, b)) for x in (a, b))
    pulls = [(a, lambda g: g @ b.array.T), (b, lambda g: a.array.T @ g)]
    return Number(a.array @ b.array, a.dtype, pulls)


def _common(a: Number, b: Number) -> DType:
    return a.dtype if a.dtype is b.dtype else float32


def times(a: Number, b: Number) -> Number:
    """Return a product of elements; b may have fewer axes."""
    a, b = (x.to(_common(a, b)) for x in (a, b))

    def to_b(g: Array) -> Array:
        made = g * a.array
        return made if made.shape == b.array.shape else rounded(made, b.dtype).sum(0)

    return Number(a.array * b.array, a.dtype, [(a, lambda g: g * b.array), (b, to_b)])


def plus(a: Number, b: Number) -> Number:
    """Return a sum of two of one shape."""
    a, b = (x.to(_common(a, b)) for x in (a, b))
    return Number(a.array + b.array, a.dtype, [(a, lambda g: g), (b, lambda g: g)])


def positive(a: Number) -> Number:
    """Return what is more than a quarter, which no whole number is near; else 0."""
    kept = a.array > 0.25
    return Number(a.array * kept, a.dtype, [(a, lambda g: g * kept)])


def total(a: Number) -> Number:
    """Return the sum in float32."""
    wide = a.to(float32)
    return Number(wide.array.sum(), float32, [(wide, lambda g: g * np.ones(wide.array.shape))])


def gradients(of: Number, by: Sequence[Number]) -> list[Array]:
    """Return the gradients of a number of one element."""
    order: list[Number] = []

    def visit(x: Number) -> None:
        if all(x is not seen for seen in order):
            for parent, _ in x.parents:
                visit(parent)
            order.append(x)

    visit(of)
    found: dict[int, Array] = {id(of): np.ones(())}
    for x in reversed(order):
        g = found.get(id(x))
        if g is None:
            continue
        for parent, pull in x.parents:
            kind = (parent.source or parent).dtype
            part = rounded(pull(g), parent.dtype)
            before = found.get(id(parent))
            found[id(parent)] = part if before is None else rounded(before + part, kind)
    return [found.get(id(x), np.zeros(x.array.shape)) for x in by]
