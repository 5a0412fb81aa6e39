"""Index division: by run-time divisors, into coordinates, and divisibility assumptions.

Kernels divide indices by run-time sizes in their innermost code, so a division costs only a
multiplication and a shift. Results are exact for every index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, overload

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir import fold
from calor_kernel.ir.types import Scalar, Type
from calor_kernel.language.builder import current
from calor_kernel.language.values import Number

_UNSIGNED = {int32: uint32, uint32: uint32, int64: uint64, uint64: uint64}
# How far an index may exceed its limit: the rounding up to whole cubes of whole vectors.
_SLACK = 1 << 24


@dataclass(frozen=True, slots=True)
class FastDivmod:
    """A divisor that is constant during a launch, with precomputed numbers for fast division.

    The host computes the numbers, a launch passes three scalars, and ``divide`` is a multiplication
    and a shift. Exact for every nonnegative dividend of a signed type (31 or 63 bits), and for
    every dividend of an unsigned one. (Granlund and Montgomery, "Division by invariant integers
    using multiplication", 1994; for signed types the spare bit saves the correction.)

    >>> FastDivmod.arguments(7, int32)
    (7, 2454267027, 3)
    """

    divisor: Number
    multiplier: Number
    shift: Number

    @staticmethod
    def declared(dtype: DType = int64) -> tuple[Scalar, Scalar, Scalar]:
        """Return a signature's three parameters for a divisor of indices of a dtype."""
        bits = Scalar(_unsigned(dtype), nonnegative=True)
        return Scalar(dtype, nonnegative=True), bits, bits

    @staticmethod
    def arguments(divisor: int, dtype: DType = int64) -> tuple[int, int, int]:
        """Return the three scalars of a launch; ValueError for a divisor outside the dtype."""
        bits = 8 * _unsigned(dtype).itemsize
        if dtype.kind == "int":
            bits -= 1
        if not 0 < divisor < 1 << bits:
            raise ValueError(f"{divisor} is no divisor of indices of type {dtype}")
        shift = (divisor - 1).bit_length()
        if dtype.kind == "int":
            return divisor, -((-1 << (bits + shift)) // divisor), shift
        return divisor, ((1 << bits) * ((1 << shift) - divisor)) // divisor + 1, shift

    def divide(self, dividend: Any) -> Number:
        """Return the quotient of a nonnegative dividend, a scalar or a vector."""
        builder = current()
        dividend = builder.coerce(dividend, self.divisor.type)
        if dividend.dtype is not self.divisor.dtype:
            raise KernelTypeError(
                f"a divisor of {self.divisor.type} does not divide {dividend.type}; convert with "
                f".to({self.divisor.dtype})"
            )
        bits = builder.cast(dividend, _unsigned(dividend.dtype))
        if dividend.dtype.kind == "int":
            made = builder.binary("mulhi", bits + bits, self.multiplier) >> self.shift
        else:
            high = builder.binary("mulhi", bits, self.multiplier)
            first = builder.binary("min", self.shift, 1)
            made = (high + ((bits - high) >> first)) >> (self.shift - first)
        result = builder.cast(made, dividend.dtype)
        result.nonnegative = True
        return result

    def divmod(self, dividend: Any) -> tuple[Number, Number]:
        """Return the quotient and the remainder of a nonnegative dividend."""
        made = self.divide(dividend)
        rest = current().binary("sub", dividend, made * self.divisor)
        rest.nonnegative = True
        return made, rest


def _unsigned(dtype: DType) -> DType:
    if dtype not in _UNSIGNED:
        raise KernelTypeError(f"indices are of 32 or 64 bits, not {dtype}")
    return _UNSIGNED[dtype]


def divide(dividend: Any, divisor: Any) -> tuple[Any, Any]:
    """Return quotient and remainder of nonnegative integers.

    The divisor is a device number, a FastDivmod, or a build-time number; known operands are divided
    at build time.
    """
    if isinstance(divisor, FastDivmod):
        return divisor.divmod(dividend)
    if not isinstance(dividend, Number) and not isinstance(divisor, Number):
        return dividend // divisor, dividend % divisor
    builder = current()
    a, b = builder.pair(dividend, divisor)
    if isinstance(divisor, int) and divisor == 1:
        return dividend, 0
    power = fold.power_of_two(divisor.known if isinstance(divisor, Number) else divisor)
    if power is not None:
        quotient, rest = builder.binary("shr", a, power), builder.binary("and", a, (1 << power) - 1)
    else:
        quotient = builder.binary("quotient", a, b)
        rest = builder.binary("sub", a, builder.binary("mul", quotient, b))
    quotient.nonnegative = rest.nonnegative = True
    return quotient, rest


@overload
def unravel(index: int, sizes: Sequence[int]) -> tuple[int, ...]: ...  # type: ignore[overload-overlap]


@overload
def unravel(
    index: Number | int, sizes: Sequence[Number | int | FastDivmod]
) -> tuple[Number, ...]: ...


def unravel(index: Any, sizes: Sequence[Any]) -> Any:
    """Return the coordinates of a nonnegative index into an array, the last axis fastest.

    ``sizes`` are Python numbers, device numbers or FastDivmods; the first is unused, because the
    index is known to be in bounds. The index may be a vector.

    >>> unravel(23, (2, 3, 4))
    (1, 2, 3)
    """
    found: list[Any] = []
    for size in reversed(sizes[1:]):
        index, rest = divide(index, size)
        found.append(rest)
    return (index, *reversed(found)) if len(sizes) else ()


@overload
def offset_of(  # type: ignore[overload-overlap]
    position: Sequence[int], strides: Sequence[int], start: int = 0
) -> int: ...


@overload
def offset_of(
    position: Sequence[Number | int], strides: Sequence[Number | int], start: Number | int = 0
) -> Number: ...


def offset_of(position: Sequence[Any], strides: Sequence[Any], start: Any = 0) -> Any:
    """Return a start plus the sum of coordinates times strides, of Python or device numbers.

    >>> offset_of((1, 2, 3), (12, 4, 1))
    23
    """
    total = start
    for place, stride in zip(position, strides, strict=True):
        total = total + place * stride
    return total


def index_dtype(*sizes: int) -> DType:
    """Return the index dtype for these numbers of elements, with some slack.

    >>> index_dtype(10**6).name, index_dtype(2**31).name
    ('int32', 'int64')
    """
    return int32 if max(sizes, default=0) < (1 << 31) - _SLACK else int64


def assume_multiple(value: Any, divisor: int) -> Any:
    """Return the value, marked as a multiple of ``divisor``.

    It permits wider accesses at that index. Debug builds check it; other builds give wrong results
    if it does not hold. For an argument, ``Scalar(…, divisible=…)`` has the same effect.
    """
    if not isinstance(value, Number):
        if value % divisor:
            raise KernelTypeError(f"{value} is no multiple of {divisor}")
        return value
    builder = current()
    if "debug" in builder.features:
        rest = builder.binary("modulo", value, divisor)
        builder.emit("assert", (rest == 0,), (), {"text": f"a multiple of {divisor}"})
    # A separate value: an assumption under a condition must not leak out.
    made = builder.emit("cast", (value,), (Type(value.dtype, value.width),))[0]
    made.nonnegative = value.nonnegative
    made.divisible = lcm(value.divisible, divisor)
    return made
