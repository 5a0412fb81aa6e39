"""Constant folding: known numbers in their types, and redundant operations.

A folded number equals the device's result bit for bit. Uncertain cases (a float that a device may
contract, a division by zero) are not folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd, prod
from types import MappingProxyType
from typing import Any

import numpy as np

from calor.dtypes import DType, bfloat16, float64
from calor_kernel.ir.nodes import Value
from calor_kernel.ir.types import Type

# The maximum of known divisors; access widths are far below it.
_MOST = 1 << 30


def convert(number: Any, dtype: DType) -> Any:
    """Return a Python number as represented in the dtype: wrapped, or rounded to nearest even."""
    if dtype.kind == "bool":
        return bool(number)
    if dtype.kind in ("int", "uint"):
        bits = dtype.itemsize * 8
        number = int(number) & ((1 << bits) - 1)
        return number - (1 << bits) if dtype.kind == "int" and number >> (bits - 1) else number
    if dtype is float64:
        return float(number)
    with np.errstate(all="ignore"):
        exact = np.float64(_odd(number, 53))
        if dtype is not bfloat16:
            return float(exact.astype(dtype.numpy))
        # NumPy converts to bfloat16 by way of float32, with a first rounding.
        near = exact.astype(np.float32)
        if near != exact and np.isfinite(near) and not near.view(np.uint32) & 1:
            near = np.nextafter(near, np.float32(np.copysign(np.inf, exact - np.float64(near))))
        return float(near.astype(bfloat16.numpy))


def _odd(number: Any, bits: int) -> Any:
    """Return an integer with its lower bits ORed into the last kept one, for a single rounding."""
    spare = abs(number).bit_length() - bits if isinstance(number, int) else 0
    if spare <= 0:
        return number
    size = abs(number)
    kept = size >> spare | bool(size & ((1 << spare) - 1))
    return (kept << spare) * (1 if number > 0 else -1)


def bits(known: Any) -> Any:
    """Return a key that distinguishes 0.0 from −0.0 and is equal for NaN."""
    if isinstance(known, tuple):
        return tuple(map(bits, known))
    return np.float64(known).tobytes() if isinstance(known, float) else known


def power_of_two(number: Any) -> int | None:
    """Return n if a known number is 2**n."""
    whole = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number.bit_length() - 1 if whole and number & (number - 1) == 0 else None


def not_negative(*values: Value) -> bool:
    """Return whether all values are marked nonnegative, as positions and sizes are."""
    return all(v.nonnegative for v in values)


def mark(name: str, operands: Sequence[Value], result: Value) -> None:
    """Mark the result of a pure operation with facts derived from its operands: sign, divisor."""
    dtype = result.type.dtype
    if dtype.kind not in ("int", "uint"):
        return
    if dtype.kind == "int":
        result.nonnegative = _stays_nonnegative(name, operands, dtype)
    if result.type.width == 1:
        result.divisible = divisor(name, operands, result.type)


# Index arithmetic does not overflow, and only indices start with a known sign.
_ALL = frozenset(("add", "mul", "quotient", "min", "or", "xor", "shuffle", "pack", "insert"))
_FIRST = frozenset(("shl", "shr", "modulo", "splat", "extract"))
_ALWAYS = frozenset(("popcount", "clz", "ctz"))


def _stays_nonnegative(name: str, operands: Sequence[Value], dtype: DType) -> bool:
    """Return whether a signed result is known to be at least 0."""
    if name in _ALL:
        return not_negative(*operands)
    if name in _FIRST:
        return operands[0].nonnegative
    if name in ("and", "max"):
        return operands[0].nonnegative or operands[1].nonnegative
    if name == "select":
        return not_negative(*operands[1:])
    if name == "cast":
        source = operands[0].type.dtype
        if source.kind == "bool":
            return True
        # The low bits of a wider number may be negative.
        fits = source.itemsize < dtype.itemsize + (source.kind == "int")
        return fits and (source.kind == "uint" or operands[0].nonnegative)
    return name in _ALWAYS


def divisor(name: str, operands: Sequence[Value], type: Type) -> int:
    """Return a known divisor of the result of an integer operation."""
    known_to = [v.divisible for v in operands]
    if name == "cast" and operands[0].type.dtype.itemsize > type.dtype.itemsize:
        # Truncation preserves only divisors that are powers of two.
        return gcd(known_to[0], _MOST)
    if name in ("add", "sub", "min", "max", "neg", "cast"):
        return gcd(*known_to)
    if name == "select":
        return gcd(*known_to[1:])
    if name == "mul":
        return _bounded(prod(known_to))
    if name == "and":
        return max(number & -number for number in known_to)
    number = operands[1].known if len(operands) == 2 else None
    if not isinstance(number, int) or number < 0:
        return 1
    if name == "shl":
        return _bounded(known_to[0] << min(number, 30))
    if name == "shr" and number < 31:
        number, name = 1 << number, "quotient"
    if name == "quotient" and number and known_to[0] % number == 0:
        return int(known_to[0]) // number or 1
    return gcd(known_to[0], number) if name == "modulo" else 1


def _bounded(number: int) -> int:
    return number if number <= _MOST else gcd(number, _MOST)


def may_fail(name: str, operands: Sequence[Value]) -> bool:
    """Return whether a pure operation may trap: an integer division."""
    if name not in ("quotient", "modulo"):
        return False
    divisor = operands[1].known
    # The most negative number divided by −1 overflows.
    return not isinstance(divisor, int) or divisor in (0, -1)


_INTEGERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "neg": lambda a: -a,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "min": min,
        "max": max,
        "abs": abs,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }
)


def fold(
    name: str, operands: Sequence[Value], types: Sequence[Type], attributes: Mapping[str, Any]
) -> Any:
    """Return a value or a number that replaces the operation, or None if it must be emitted."""
    if not operands:
        return None
    if name == "select":
        if operands[1] is operands[2]:
            return operands[1]
        condition = operands[0].known
        if isinstance(condition, bool):
            return operands[1] if condition else operands[2]
        return None
    if operands[0].type.width > 1:
        return None
    dtype, numbers, unknown = operands[0].type.dtype, [], False
    for value in operands:
        number = value.known
        if type(number) is tuple:
            return None
        unknown = unknown or number is None
        numbers.append(number)
    whole = dtype.kind in ("int", "uint", "bool")
    if not unknown:
        if whole:
            return _whole(name, numbers, dtype, types[0])
        if name == "neg":
            return -numbers[0]
        if name == "cast" and types[0].dtype.kind == "float":
            return numbers[0]
        return None
    if not whole or len(operands) != 2:
        return None
    known = _itself(name, *operands)
    return _identity(name, operands, numbers) if known is None else known


def _whole(name: str, numbers: Sequence[Any], dtype: DType, type: Type) -> Any:
    function = _INTEGERS.get(name)
    if function is not None:
        return convert(function(*numbers), type.dtype)
    if name == "not":
        return not numbers[0] if dtype.kind == "bool" else convert(~numbers[0], dtype)
    if name in ("quotient", "modulo") and numbers[1]:
        sign = -1 if (numbers[0] < 0) != (numbers[1] < 0) else 1
        quotient = sign * (abs(numbers[0]) // abs(numbers[1]))
        return convert(
            quotient if name == "quotient" else numbers[0] - quotient * numbers[1], dtype
        )
    if name in ("shl", "shr") and 0 <= numbers[1] < dtype.itemsize * 8:
        shifted = numbers[0] << numbers[1] if name == "shl" else numbers[0] >> numbers[1]
        return convert(shifted, dtype)
    if name == "cast":
        return convert(numbers[0], type.dtype)
    return None


def _identity(name: str, operands: Sequence[Value], numbers: Sequence[Any]) -> Any:
    """Return the operand that equals the result: x + 0, x * 1, x & true."""
    (a, b), (m, n) = operands, numbers
    if isinstance(m, bool) or isinstance(n, bool):
        if name == "and":
            return (b if m else False) if m is not None else (a if n else False)
        if name == "or":
            return (True if m else b) if m is not None else (True if n else a)
        return None
    if name in ("add", "or", "xor", "sub", "shl", "shr") and n == 0:
        return a
    if name in ("add", "or", "xor") and m == 0:
        return b
    if name in ("mul", "and") and 0 in (m, n):
        return 0
    if name in ("mul", "quotient") and n == 1:
        return a
    if name == "mul" and m == 1:
        return b
    return 0 if name == "modulo" and n == 1 else None


# The result of a binary operation on two equal operands.
_SAME: Mapping[str, Any] = MappingProxyType(
    {
        **dict.fromkeys(("sub", "xor"), 0),
        **dict.fromkeys(("eq", "le", "ge"), True),
        **dict.fromkeys(("ne", "lt", "gt"), False),
        **dict.fromkeys(("and", "or", "min", "max")),
    }
)


def _itself(name: str, a: Value, b: Value) -> Any:
    """Return the result for two equal operands, or for 0 and a nonnegative one."""
    if a is b and name in _SAME:
        same = _SAME[name]
        return a if same is None else convert(same, a.type.dtype) if name == "xor" else same
    if b.known == 0 and a.nonnegative and name in ("lt", "ge"):
        return name == "ge"
    if a.known == 0 and b.nonnegative and name in ("gt", "le"):
        return name == "le"
    return None
