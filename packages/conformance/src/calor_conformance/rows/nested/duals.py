"""Dual numbers on NumPy arrays, nested as derivatives of derivatives are.

Requirements: exact derivatives of every order by other means than calor's, which has records and
transposes. A dual number has a level, that of the derivative for which it was made; its value and
tangent may be dual numbers of lower levels. An operation is the value and what it adds to the
tangent for each operand, both written in operations on dual numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


class Dual:
    """A value and its tangent, which has the value's shape, at a level."""

    __array_ufunc__ = None

    def __init__(self, level: int, value: Any, tangent: Any) -> None:
        self.level, self.value, self.tangent = level, value, tangent

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.shape(numbers(self)))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __add__(self, other: Any) -> Any:
        return add(self, other)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return mul(self, -1.0)

    def __sub__(self, other: Any) -> Any:
        return add(self, mul(other, -1.0))

    def __rsub__(self, other: Any) -> Any:
        return add(mul(self, -1.0), other)

    def __mul__(self, other: Any) -> Any:
        return mul(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return mul(self, power(other, -1))

    def __rtruediv__(self, other: Any) -> Any:
        return mul(power(self, -1), other)

    def __pow__(self, exponent: int) -> Any:
        return power(self, exponent)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)

    def __gt__(self, other: Any) -> Any:
        return numbers(self) > numbers(other)

    def __lt__(self, other: Any) -> Any:
        return numbers(self) < numbers(other)

    def __getitem__(self, key: Any) -> Any:
        return linear(lambda a: a[key], self)


class _Mode:
    # Whether operations have tangents; off within a region without gradients.
    moving = True


@contextmanager
def moving(on: bool) -> Any:
    """Switch tangents on or off."""
    before, _Mode.moving = _Mode.moving, on
    try:
        yield
    finally:
        _Mode.moving = before


def numbers(x: Any) -> Any:
    """Return the array below all levels."""
    while isinstance(x, Dual):
        x = x.value
    return x


def level_of(x: Any) -> int:
    """Return the level; 0 for arrays and numbers."""
    return x.level if isinstance(x, Dual) else 0


def parts(x: Any, level: int) -> tuple[Any, Any]:
    """Return the value at a level and the tangent there, None if it does not move."""
    return (x.value, x.tangent) if level_of(x) == level else (x, None)


Rule = Callable[[Sequence[Any], Sequence[Any]], Any]


def operation(value: Callable[..., Any], rule: Rule, *operands: Any) -> Any:
    """Apply an operation.

    Parameters
    ----------
    value : callable
        The operation on arrays.
    rule : callable
        Takes values and tangents, None for those that do not move; returns the tangent.
    *operands : Dual, ndarray or float
        The operands.

    Returns
    -------
    Dual or ndarray
        The result.
    """
    # Hundreds of thousands of operations make a run, so that no helper is called for an operand.
    level = 0
    for x in operands:
        if isinstance(x, Dual) and x.level > level:
            level = x.level
    if not level:
        return value(*operands)
    if not _Mode.moving:
        return value(*map(numbers, operands))
    primals, tangents = [], []
    for x in operands:
        here = isinstance(x, Dual) and x.level == level
        primals.append(x.value if here else x)
        tangents.append(x.tangent if here else None)
    made = operation(value, rule, *primals)
    moved = rule(primals, tangents)
    shape = np.shape(numbers(made))
    if np.shape(numbers(moved)) != shape:
        moved = add(moved, np.zeros(shape))
    return Dual(level, made, moved)


def _total(terms: Sequence[Any]) -> Any:
    made = terms[0]
    for term in terms[1:]:
        made = add(made, term)
    return made


def linear(value: Callable[..., Any], *operands: Any) -> Any:
    """Apply an operation that is linear in all of its operands together."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        zero = [np.zeros(np.shape(numbers(p))) for p in primals]
        given = [z if t is None else t for z, t in zip(zero, tangents, strict=True)]
        return linear(value, *given)

    return operation(value, rule, *operands)


def _pointwise(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        return operation(value, lambda p, t: mul(slope(p[0]), t[0]), x)

    return call


def add(a: Any, b: Any) -> Any:
    """Return a sum."""
    return operation(lambda x, y: x + y, lambda p, t: _total([x for x in t if x is not None]), a, b)


def _product(of: Callable[[Any, Any], Any], call: Callable[[Any, Any], Any]) -> Any:
    def rule(p: Sequence[Any], t: Sequence[Any]) -> Any:
        first = [] if t[0] is None else [call(t[0], p[1])]
        return _total(first + ([] if t[1] is None else [call(p[0], t[1])]))

    return lambda a, b: operation(of, rule, a, b)


def mul(a: Any, b: Any) -> Any:
    """Return a product, element by element."""
    return _mul(a, b)


def matmul(a: Any, b: Any) -> Any:
    """Return a matrix product."""
    return _matmul(a, b)


_mul: Any = _product(lambda x, y: x * y, mul)
_matmul: Any = _product(lambda x, y: x @ y, matmul)


def power(x: Any, exponent: int) -> Any:
    """Return a whole power."""
    if exponent == 0:
        return x * 0 + 1.0
    return _pointwise(
        lambda a: np.asarray(a, np.float64) ** exponent,
        lambda a: mul(power(a, exponent - 1), float(exponent)),
    )(x)


exp: Any = _pointwise(np.exp, lambda a: exp(a))
sin: Any = _pointwise(np.sin, lambda a: cos(a))
cos: Any = _pointwise(np.cos, lambda a: mul(sin(a), -1.0))
tanh: Any = _pointwise(np.tanh, lambda a: add(1.0, mul(power(tanh(a), 2), -1.0)))
sqrt: Any = _pointwise(np.sqrt, lambda a: mul(power(sqrt(a), -1), 0.5))


def chosen(mask: Any, yes: Any, no: Any) -> Any:
    """Return elements of one of two, by a mask of truths."""
    mask = numbers(mask)
    return linear(lambda a, b: np.where(mask, a, b), yes, no)
