"""Parts of floating numbers, whole-number functions, and comparisons that leave NaN out."""

from __future__ import annotations

import math
from typing import NamedTuple

from calor import dtypes
from calor.errors import DTypeError
from calor.functions.activation import inexact
from calor.functions.arguments import python_number
from calor.functions.elementwise import maximum, minimum
from calor.functions.elementwise import pow as power
from calor.functions.logic import isfinite, isnan
from calor.functions.manipulation import broadcast_arrays
from calor.functions.operands import as_operands, as_tensor, as_tensors, together
from calor.functions.reductions import any as any_of
from calor.functions.rounding import trunc
from calor.functions.searching import where
from calor.functions.signs import abs as magnitude
from calor.functions.signs import copysign
from calor.functions.transcendental import exp2
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor
from calor.transforms.control import while_loop
from calor.transforms.grad import stop_gradient


class Frexp(NamedTuple):
    """Fractions between ½ and 1 in magnitude, and the powers of two that they are times."""

    fractions: Tensor
    exponents: Tensor


class Modf(NamedTuple):
    """The parts after and before the point, both with the sign of the number."""

    fractional: Tensor
    integral: Tensor


def deg2rad(x: Operand, /) -> Tensor:
    """Return angles in radians.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles in degrees, of any shape and real dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.deg2rad(calor.asarray(180.0)).round(decimals=3).item()
    3.1419999599456787
    """
    return _real(x, "deg2rad") * (math.pi / 180)


def rad2deg(x: Operand, /) -> Tensor:
    """Return angles in degrees.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Angles in radians, of any shape and real dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.rad2deg(calor.asarray(calor.pi)).item()
    180.0
    """
    return _real(x, "rad2deg") * (180 / math.pi)


def _real(x: Operand, what: str) -> Tensor:
    x = inexact(x, what)
    if x.dtype.is_complex:
        raise DTypeError(f"{what} needs real numbers, not {x.dtype.name}")
    return x


def ldexp(x1: Operand, x2: Operand, /) -> Tensor:
    """Return numbers times powers of two.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The numbers. Both operands broadcast against each other.
    x2 : Tensor, ndarray or number
        The exponents.

    Returns
    -------
    Tensor
        The broadcast shape, ``x1 · 2^x2`` in a floating dtype; finite also where the power itself
        is not.

    Raises
    ------
    DTypeError
        If an operand is float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.ldexp(calor.asarray([0.5, 3.0]), calor.asarray([2, 1])).tolist()
    [2.0, 6.0]
    """
    # An integer is a number of steps and no operand, which the dtype of x1 need not hold.
    whole = isinstance(python_number(x2), int)
    scaled, by = as_tensors(x1, x2) if whole else as_operands(x1, x2, floating=True)
    x = inexact(scaled, "ldexp")
    if not by.dtype.is_inexact:
        # In three factors, each of which is a normal number.
        by = minimum(maximum(by.astype("int64"), -4400), 4400).astype(
            dtypes.float64 if x.dtype.itemsize > 4 and not x.dtype.is_complex else dtypes.float32
        )
        third = trunc(by / 3)
        first = exp2(third).astype(x.dtype)
        return x * first * first * exp2(by - third * 2).astype(x.dtype)
    return x * (power(2.0, by) if by.dtype.is_complex else exp2(by))


def frexp(x: Operand, /) -> Frexp:  # numpydoc ignore=RS01
    """Split numbers into fractions and powers of two.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.

    Returns
    -------
    Frexp
        ``fractions``, from ½ to below 1 in magnitude, in the dtype of ``x`` if that is floating,
        else float32; ``exponents``, int32: ``x = fractions · 2^exponents``. Exponent 0 for 0, NaN
        and infinities.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> found = calor.frexp(calor.asarray([8.0, 0.3125]))
    >>> found.fractions.tolist(), found.exponents.tolist()
    ([0.5, 0.625], [4, -1])
    """
    x = _real(x, "frexp")
    wide = x.dtype is dtypes.float64
    value = stop_gradient(x) if wide else stop_gradient(x).astype(dtypes.float32)
    bits, bias, kind = (52, 1022, dtypes.int64) if wide else (23, 126, dtypes.int32)
    # Subnormal numbers are scaled first, so that each has the leading bit that is not stored.
    small = magnitude(value) < 2.0 ** (1 - bias)
    scaled = where(small, value * 2.0 ** (bits + 1), value)
    stored: Tensor = e.bitcast(scaled, dtype=kind)
    mask = 0x7FF if wide else 0xFF
    exponent = ((stored >> bits) & mask) - bias - where(small, bits + 1, 0).astype(kind)
    plain = (value != 0) & isfinite(value)
    exponents = where(plain, exponent, 0).astype(dtypes.int32)
    return Frexp(ldexp(x, -exponents), exponents)


def modf(x: Operand, /) -> Modf:  # numpydoc ignore=RS01
    """Split numbers at the point.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.

    Returns
    -------
    Modf
        ``fractional`` and ``integral``, both with the sign of ``x``, in its dtype if that is
        floating, else float32.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> found = calor.modf(calor.asarray([2.5, -1.25]))
    >>> found.fractional.tolist(), found.integral.tolist()
    ([0.5, -0.25], [2.0, -1.0])
    """
    x = _real(x, "modf")
    whole = trunc(x)
    return Modf(copysign(where(x == whole, 0.0, x - whole), x), whole)


def float_power(x1: Operand, x2: Operand, /) -> Tensor:
    """Return powers computed in the widest floating dtype.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        The bases. Both operands broadcast against each other.
    x2 : Tensor, ndarray or number
        The exponents.

    Returns
    -------
    Tensor
        The broadcast shape; float64, or complex128 if an operand is complex.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is float8.

    Examples
    --------
    >>> import calor
    >>> calor.float_power(calor.asarray([2, 4]), -1).tolist()
    [0.5, 0.25]
    """
    a, b = (inexact(x, "float_power") for x in as_tensors(x1, x2))
    either = a.dtype.is_complex or b.dtype.is_complex
    wide = dtypes.complex128 if either else dtypes.float64
    return power(a.astype(wide), b.astype(wide))


def fmax(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the larger of two elements, the other one where one is NaN.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Real. Both operands broadcast against each other.
    x2 : Tensor, ndarray or number
        Real.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.fmax(calor.asarray([1.0, calor.nan]), 2.0).tolist()
    [2.0, 2.0]
    """
    a, b = _both(x1, x2, "fmax")
    return maximum(a, b)


def fmin(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the smaller of two elements, the other one where one is NaN.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Real. Both operands broadcast against each other.
    x2 : Tensor, ndarray or number
        Real.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype.

    Raises
    ------
    DTypeError
        If an operand is complex or float8.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.fmin(calor.asarray([1.0, calor.nan]), 2.0).tolist()
    [1.0, 2.0]
    """
    a, b = _both(x1, x2, "fmin")
    return minimum(a, b)


def _both(x1: Operand, x2: Operand, what: str) -> tuple[Tensor, Tensor]:
    """Return two operands; where one is NaN, the other stands for both."""
    a, b = broadcast_arrays(*together(as_operands(x1, x2), what))
    if not a.dtype.is_inexact:
        return a, b
    return where(isnan(a), b, a), where(isnan(b), a, b)


def isposinf(x: Operand, /) -> Tensor:
    """Tell for each element whether it is positive infinity.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.

    Returns
    -------
    Tensor
        Dtype bool, in the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is complex.

    Examples
    --------
    >>> import calor
    >>> calor.isposinf(calor.asarray([1.0, calor.inf, -calor.inf])).tolist()
    [False, True, False]
    """
    return _real(x, "isposinf") == float("inf")


def isneginf(x: Operand, /) -> Tensor:
    """Tell for each element whether it is negative infinity.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.

    Returns
    -------
    Tensor
        Dtype bool, in the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is complex.

    Examples
    --------
    >>> import calor
    >>> calor.isneginf(calor.asarray([1.0, calor.inf, -calor.inf])).tolist()
    [False, False, True]
    """
    return _real(x, "isneginf") == -float("inf")


def gcd(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the greatest common divisors.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers. Both operands broadcast against each other.
    x2 : Tensor, ndarray or number
        Integers.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype; at least 0, and 0 for two zeros.

    Raises
    ------
    DTypeError
        If an operand is not of integers.
    ShapeError
        If the shapes do not broadcast.

    Notes
    -----
    Euclid's algorithm in a `calor.while_loop`, so the call can be traced.

    Examples
    --------
    >>> import calor
    >>> calor.gcd(calor.asarray([12, 7]), 18).tolist()
    [6, 1]
    """
    a, b = _integers(x1, x2, "gcd")
    return _euclid(magnitude(a), magnitude(b))


def _euclid(a: Tensor, b: Tensor) -> Tensor:
    def step(both: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = both
        done = y == 0
        rest = x % where(done, 1, y)
        return where(done, x, y), where(done, 0, rest).astype(y.dtype)

    found: Tensor = while_loop(lambda both: any_of(both[1] != 0), step, (a, b))[0]
    # The magnitude of the least integer does not fit its dtype.
    return magnitude(found)


def _integers(x1: Operand, x2: Operand, what: str) -> tuple[Tensor, Tensor]:
    a, b = broadcast_arrays(*together(as_operands(x1, x2), what))
    if not a.dtype.is_integer:
        raise DTypeError(f"{what} needs integers, not {a.dtype.name}")
    return a, b


def lcm(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the least common multiples.

    Parameters
    ----------
    x1 : Tensor, ndarray or number
        Integers. Both operands broadcast against each other.
    x2 : Tensor, ndarray or number
        Integers.

    Returns
    -------
    Tensor
        The broadcast shape, the common dtype; at least 0, and 0 where an operand is. A multiple
        that does not fit wraps.

    Raises
    ------
    DTypeError
        If an operand is not of integers.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.lcm(calor.asarray([4, 7]), 6).tolist()
    [12, 42]
    """
    a, b = _integers(x1, x2, "lcm")
    shared = _euclid(magnitude(a), magnitude(b))
    return magnitude(a // where(shared == 0, 1, shared) * b)


def bitwise_count(x: Operand, /) -> Tensor:
    """Return how many bits are set in the magnitude of each integer.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Integers of any shape.

    Returns
    -------
    Tensor
        Dtype uint8, in the shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is not of integers.

    Examples
    --------
    >>> import calor
    >>> calor.bitwise_count(calor.asarray([0, 7, -8])).tolist()
    [0, 3, 1]
    """
    x = as_tensor(x)
    if not x.dtype.is_integer:
        raise DTypeError(f"bitwise_count needs integers, not {x.dtype.name}")
    if x.dtype is not dtypes.uint64:
        # The magnitude of the least number needs more bits.
        x = x.astype(dtypes.int64)
    left = magnitude(x).astype(dtypes.uint64)
    # Counts of 2, 4 and 8 bits side by side.
    left = left - ((left >> 1) & 0x5555555555555555)
    left = (left & 0x3333333333333333) + ((left >> 2) & 0x3333333333333333)
    left = (left + (left >> 4)) & 0x0F0F0F0F0F0F0F0F
    for by in (8, 16, 32):
        left = left + (left >> by)
    return (left & 0x7F).astype(dtypes.uint8)


def cbrt(x: Operand, /) -> Tensor:
    """Return cube roots.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape, any real dtype.

    Returns
    -------
    Tensor
        The shape of ``x``; its dtype if that is floating, else float32. Of a negative number the
        negative root.

    Raises
    ------
    DTypeError
        If ``x`` is complex or float8.

    Examples
    --------
    >>> import calor
    >>> calor.cbrt(calor.asarray([27.0, -8.0])).tolist()
    [3.0, -2.0]
    """
    x = _real(x, "cbrt")
    wide = x.astype(dtypes.float32) if x.dtype.itemsize < 4 else x
    size = magnitude(wide)
    # One step of Newton's method rounds what the power leaves.
    plain = (size > 0) & isfinite(size)
    safe = where(plain, size, 1.0)
    root = power(safe, 1 / 3)
    root = root - (root - safe / (root * root)) / 3
    return copysign(where(plain, root, size), wide).astype(x.dtype)
