"""Comparison, logic, bits, and tests of single elements."""

from __future__ import annotations

from calor.functions.operands import pair, single, truth
from calor.ops import elementwise as e
from calor.tensor.tensor import Operand, Tensor


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether elements are equal.

    >>> import calor
    >>> calor.equal(calor.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return pair(e.equal, x1, x2)


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether elements differ; NaN differs from itself.

    >>> import calor
    >>> calor.not_equal(calor.asarray([1, 2]), 2).tolist()
    [True, False]
    """
    return pair(e.not_equal, x1, x2)


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether x1 < x2, of real tensors.

    >>> import calor
    >>> calor.less(calor.asarray([1, 2]), 2).tolist()
    [True, False]
    """
    return pair(e.less, x1, x2)


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether x1 ≤ x2, of real tensors.

    >>> import calor
    >>> calor.less_equal(calor.asarray([1, 3]), 2).tolist()
    [True, False]
    """
    return pair(e.less_equal, x1, x2)


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether x1 > x2, of real tensors.

    >>> import calor
    >>> calor.greater(calor.asarray([1, 3]), 2).tolist()
    [False, True]
    """
    return pair(e.greater, x1, x2)


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether x1 ≥ x2, of real tensors.

    >>> import calor
    >>> calor.greater_equal(calor.asarray([1, 2]), 2).tolist()
    [False, True]
    """
    return pair(e.greater_equal, x1, x2)


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether both are true; numbers are true when they are not 0.

    >>> import calor
    >>> calor.logical_and(calor.asarray([True, False]), True).tolist()
    [True, False]
    """
    return pair(e.bit_and, truth(x1), truth(x2))


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether at least one is true; numbers are true when they are not 0.

    >>> import calor
    >>> calor.logical_or(calor.asarray([True, False]), False).tolist()
    [True, False]
    """
    return pair(e.bit_or, truth(x1), truth(x2))


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether exactly one is true; numbers are true when they are not 0.

    >>> import calor
    >>> calor.logical_xor(calor.asarray([True, False]), True).tolist()
    [False, True]
    """
    return pair(e.bit_xor, truth(x1), truth(x2))


def logical_not(x: Operand, /) -> Tensor:
    """Return whether an element is false; numbers are false when they are 0.

    >>> import calor
    >>> calor.logical_not(calor.asarray([0, 3])).tolist()
    [True, False]
    """
    return single(e.bit_not, truth(x))


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the bits set in both, of integers and booleans.

    >>> import calor
    >>> calor.bitwise_and(calor.asarray([6]), 3).tolist()
    [2]
    """
    return pair(e.bit_and, x1, x2)


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the bits set in either, of integers and booleans.

    >>> import calor
    >>> calor.bitwise_or(calor.asarray([6]), 3).tolist()
    [7]
    """
    return pair(e.bit_or, x1, x2)


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the bits set in one of the two, of integers and booleans.

    >>> import calor
    >>> calor.bitwise_xor(calor.asarray([6]), 3).tolist()
    [5]
    """
    return pair(e.bit_xor, x1, x2)


def bitwise_invert(x: Operand, /) -> Tensor:
    """Return all bits inverted, of integers and booleans.

    >>> import calor
    >>> calor.bitwise_invert(calor.asarray([0, 5])).tolist()
    [-1, -6]
    """
    return single(e.bit_not, x)


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 with its bits moved x2 places up, of integers; 0 when x2 is at least the width.

    >>> import calor
    >>> calor.bitwise_left_shift(calor.asarray([3]), 2).tolist()
    [12]
    """
    return pair(e.shift_left, x1, x2)


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """Return x1 with its bits moved x2 places down, of integers; the sign is kept.

    >>> import calor
    >>> calor.bitwise_right_shift(calor.asarray([-8]), 2).tolist()
    [-2]
    """
    return pair(e.shift_right, x1, x2)


def isnan(x: Operand, /) -> Tensor:
    """Return whether elements are NaN.

    >>> import calor
    >>> calor.isnan(calor.asarray([1.0, calor.nan])).tolist()
    [False, True]
    """
    return single(e.isnan, x)


def isinf(x: Operand, /) -> Tensor:
    """Return whether elements are +inf or −inf.

    >>> import calor
    >>> calor.isinf(calor.asarray([1.0, -calor.inf])).tolist()
    [False, True]
    """
    return single(e.isinf, x)


def isfinite(x: Operand, /) -> Tensor:
    """Return whether elements are neither NaN nor infinite.

    >>> import calor
    >>> calor.isfinite(calor.asarray([1.0, calor.inf])).tolist()
    [True, False]
    """
    return single(e.isfinite, x)


def signbit(x: Operand, /) -> Tensor:
    """Return whether the sign bit is set; −0.0 has it, of real tensors.

    >>> import calor
    >>> calor.signbit(calor.asarray([-0.0, 0.0])).tolist()
    [True, False]
    """
    return single(e.signbit, x)
