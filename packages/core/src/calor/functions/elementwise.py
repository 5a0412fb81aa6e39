"""Arithmetic, rounding, bounds and complex parts, element by element.

Tensors broadcast and promote; Python numbers, NumPy scalars included, take the tensor's type, and
are inputs of the plan, so another number makes no other plan.
"""

from __future__ import annotations

import builtins

from calor.functions.data_types import finfo
from calor.functions.operands import as_tensor, pair, select, single
from calor.ops import elementwise as e
from calor.ops.sources import zeros_of
from calor.tensor.tensor import Operand, Tensor


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 + x2.

    >>> import calor
    >>> calor.add(calor.asarray([1, 2]), 10).tolist()
    [11, 12]
    """
    return pair(e.add, x1, x2)


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 − x2.

    >>> import calor
    >>> calor.subtract(calor.asarray([1, 2]), 10).tolist()
    [-9, -8]
    """
    return pair(e.sub, x1, x2)


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 · x2.

    >>> import calor
    >>> calor.multiply(calor.asarray([1, 2]), 10).tolist()
    [10, 20]
    """
    return pair(e.mul, x1, x2)


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 / x2; integers are divided in the default floating type.

    >>> import calor
    >>> calor.divide(calor.asarray([1, 2]), 4).tolist()
    [0.25, 0.5]
    """
    return pair(e.div, x1, x2)


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 / x2 rounded towards −inf, of real tensors.

    >>> import calor
    >>> calor.floor_divide(calor.asarray([7, -7]), 2).tolist()
    [3, -4]
    """
    return pair(e.floor_divide, x1, x2)


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """Return what is left after floor division; it has the sign of x2, of real tensors.

    >>> import calor
    >>> calor.remainder(calor.asarray([7, -7]), 4).tolist()
    [3, 1]
    """
    return pair(e.remainder, x1, x2)


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 to the power of x2.

    >>> import calor
    >>> calor.pow(calor.asarray([2, 3]), 3).tolist()
    [8, 27]
    """
    return pair(e.power, x1, x2)


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the larger of two elements, NaN when one of them is NaN, of real tensors.

    >>> import calor
    >>> calor.maximum(calor.asarray([1, 5]), 3).tolist()
    [3, 5]
    """
    return pair(e.maximum, x1, x2)


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the smaller of two elements, NaN when one of them is NaN, of real tensors.

    >>> import calor
    >>> calor.minimum(calor.asarray([1, 5]), 3).tolist()
    [1, 3]
    """
    return pair(e.minimum, x1, x2)


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """Return √(x1² + x2²) without overflow in between, of real tensors.

    >>> import calor
    >>> calor.hypot(calor.asarray([3.0]), 4.0).tolist()
    [5.0]
    """
    return pair(e.hypot, x1, x2)


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the magnitude of x1 with the sign of x2, of real tensors.

    >>> import calor
    >>> calor.copysign(calor.asarray([1.0, -2.0]), -0.0).tolist()
    [-1.0, -2.0]
    """
    return pair(e.copysign, x1, x2)


def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the next representable number from x1 towards x2, of real tensors.

    >>> import calor
    >>> calor.nextafter(calor.asarray([1.0], dtype=calor.float64), 2.0).tolist()
    [1.0000000000000002]
    """
    return pair(e.nextafter, x1, x2)


def negative(x: Operand, /) -> Tensor:
    """Return −x.

    >>> import calor
    >>> calor.negative(calor.asarray([1, -2])).tolist()
    [-1, 2]
    """
    return single(e.neg, x)


def positive(x: Operand, /) -> Tensor:
    """Return x itself, as a tensor.

    >>> import calor
    >>> calor.positive(calor.asarray([1, -2])).tolist()
    [1, -2]
    """
    return as_tensor(x).copy()


def abs(x: Operand, /) -> Tensor:
    """Return the magnitude; of complex tensors it is real.

    >>> import calor
    >>> calor.abs(calor.asarray([-3, 4])).tolist()
    [3, 4]
    """
    return single(e.abs, x)


def sign(x: Operand, /) -> Tensor:
    """Return −1, 0 or 1 by sign; of complex tensors x / |x|, and 0 at 0.

    >>> import calor
    >>> calor.sign(calor.asarray([-3.0, 0.0, 4.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    return single(e.sign, x)


def square(x: Operand, /) -> Tensor:
    """Return x · x.

    >>> import calor
    >>> calor.square(calor.asarray([3, -4])).tolist()
    [9, 16]
    """
    return pair(e.mul, x, x)


def reciprocal(x: Operand, /) -> Tensor:
    """Return 1 / x.

    >>> import calor
    >>> calor.reciprocal(calor.asarray([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return pair(e.div, 1, as_tensor(x))


def floor(x: Operand, /) -> Tensor:
    """Return the largest integer that is not above x, in the dtype of x.

    >>> import calor
    >>> calor.floor(calor.asarray([1.7, -1.2])).tolist()
    [1.0, -2.0]
    """
    return single(e.floor, x)


def ceil(x: Operand, /) -> Tensor:
    """Return the smallest integer that is not below x, in the dtype of x.

    >>> import calor
    >>> calor.ceil(calor.asarray([1.2, -1.7])).tolist()
    [2.0, -1.0]
    """
    return single(e.ceil, x)


def trunc(x: Operand, /) -> Tensor:
    """Return x without its fraction, in the dtype of x.

    >>> import calor
    >>> calor.trunc(calor.asarray([1.7, -1.7])).tolist()
    [1.0, -1.0]
    """
    return single(e.trunc, x)


def round(x: Operand, /, *, decimals: int = 0) -> Tensor:
    """Return x rounded to ``decimals`` places, halves to the even neighbour.

    Complex parts are rounded separately; integers stay as they are when ``decimals`` ≥ 0.

    >>> import calor
    >>> calor.round(calor.asarray([0.5, 1.5, 2.25])).tolist()
    [0.0, 2.0, 2.0]
    >>> calor.round(calor.asarray([1.2345]), decimals=1).tolist() == [calor.asarray(1.2).item()]
    True
    """
    x = as_tensor(x)
    if not decimals or (decimals > 0 and not x.dtype.is_inexact):
        return single(e.round, x)
    if not x.dtype.is_inexact:
        unit = 10**-decimals
        low = pair(e.mul, pair(e.floor_divide, x, unit), unit)
        above = pair(e.mul, pair(e.sub, x, low), 2)
        odd = pair(e.equal, pair(e.remainder, pair(e.floor_divide, x, unit), 2), 1)
        tie = pair(e.bit_and, pair(e.equal, above, unit), odd)
        up = pair(e.bit_or, pair(e.greater, above, unit), tie)
        return pair(e.add, low, pair(e.mul, e.cast(up, dtype=x.dtype), unit))
    scale = 10.0 ** builtins.abs(decimals)
    if decimals > 0:
        return pair(e.div, single(e.round, pair(e.mul, x, scale)), scale)
    return pair(e.mul, single(e.round, pair(e.div, x, scale)), scale)


def clip(x: Operand, /, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Return x with elements below ``min`` raised to it and elements above ``max`` lowered to it.

    Bounds are numbers or tensors that broadcast with x; None is no bound. NaN in x or in a bound
    gives NaN. Where ``min`` is above ``max`` the result is ``max``.

    >>> import calor
    >>> calor.clip(calor.asarray([-2, 0, 7]), 0, 5).tolist()
    [0, 0, 5]
    """
    result = as_tensor(x)
    if min is not None:
        result = pair(e.maximum, result, min)
    if max is not None:
        result = pair(e.minimum, result, max)
    return result.copy() if result is x else result


def real(x: Operand, /) -> Tensor:
    """Return the real part; real tensors are returned as they are.

    >>> import calor
    >>> calor.real(calor.asarray([1 + 2j])).tolist()
    [1.0]
    """
    x = as_tensor(x)
    return single(e.real, x) if x.dtype.is_complex else x.copy()


def imag(x: Operand, /) -> Tensor:
    """Return the imaginary part, which is 0 for real tensors.

    >>> import calor
    >>> calor.imag(calor.asarray([1 + 2j])).tolist()
    [2.0]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        return single(e.imag, x)
    made: Tensor = zeros_of(x._value.spec, x.device)
    return made


def conj(x: Operand, /) -> Tensor:
    """Return the complex conjugate; real tensors are returned as they are.

    >>> import calor
    >>> calor.conj(calor.asarray([1 + 2j])).tolist()
    [(1-2j)]
    """
    x = as_tensor(x)
    return single(e.conj, x) if x.dtype.is_complex else x.copy()


def nan_to_num(
    x: Operand, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Return x with NaN and infinities replaced, by 0 and the largest finite numbers unless given.

    >>> import calor
    >>> calor.nan_to_num(calor.asarray([calor.nan, calor.inf]), posinf=9.0).tolist()
    [0.0, 9.0]
    """
    x = as_tensor(x)
    if x.dtype.is_complex:
        parts = [
            nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(x), imag(x))
        ]
        return pair(e.join, *parts)
    if not x.dtype.is_inexact:
        return x.copy()
    limits = finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    infinite = single(e.isinf, x)
    replaced = select(pair(e.bit_and, infinite, pair(e.greater, x, 0)), high, x)
    replaced = select(pair(e.bit_and, infinite, pair(e.less, x, 0)), low, replaced)
    return select(single(e.isnan, x), nan, replaced)
