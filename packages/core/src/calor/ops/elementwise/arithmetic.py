"""Rows of arithmetic, rounding and sign."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.elementwise.comparison import (
    bit_and,
    equal,
    greater,
    isnan,
    less,
    not_equal,
    where,
)
from calor.ops.elementwise.conversion import cast, conj, conjugate, real
from calor.ops.elementwise.transcendental import exp, log
from calor.ops.movement import fill
from calor.reference import elementwise as reference

__all__ = [
    "abs",
    "add",
    "atan2",
    "ceil",
    "copysign",
    "div",
    "floor",
    "floor_divide",
    "hypot",
    "logaddexp",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "nextafter",
    "power",
    "remainder",
    "round",
    "sign",
    "sign_with_zero",
    "sub",
    "trunc",
]


def _nothing(g: Any, y: Any, *x: Any, **attributes: Any) -> list[Any]:
    """Gradient of ops that are constant almost everywhere: zero, so nothing is passed on."""
    return [None] * len(x)


neg: Op = op("neg", rules.numbers, np.negative, lambda g, y, x: [-g], promotion="same")
add: Op = op(
    "add",
    rules.numbers,
    np.add,
    (lambda g, y, a, b: g, lambda g, y, a, b: g),
    saves=("", ""),
    promotion="same",
)
sub: Op = op(
    "sub",
    rules.numbers,
    np.subtract,
    (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    saves=("", ""),
    promotion="same",
)
mul: Op = op(
    "mul",
    rules.numbers,
    np.multiply,
    (lambda g, y, a, b: g * conjugate(b), lambda g, y, a, b: g * conjugate(a)),
    saves=("1", "0"),
    promotion="same",
)
div: Op = op(
    "div",
    rules.floats,
    np.divide,
    (lambda g, y, a, b: g / conjugate(b), lambda g, y, a, b: -g * conjugate(y / b)),
    saves=("1", "1y"),
    promotion="float",
)
floor_divide: Op = op(
    "floor_divide", rules.reals, reference.floor_divide, _nothing, promotion="same"
)
remainder: Op = op(
    "remainder",
    rules.reals,
    reference.remainder,
    (lambda g, y, a, b: g, lambda g, y, a, b: -g * floor_divide(a, b)),
    saves=("", "01"),
    promotion="same",
)


def _power_exponent(g: Any, y: Any, a: Any, b: Any) -> Any:
    # 0 ** b is constant 0 for b > 0, so its derivative is 0 there and not 0 · log 0.
    zero = fill(a, 0)
    other = not_equal(a, zero)
    return g * conjugate(where(other, y * log(where(other, a, fill(a, 1))), zero))


def _power_base(g: Any, y: Any, a: Any, b: Any) -> Any:
    # a ** 0 is constant, also at 0; the exponent is exchanged so that no branch is infinite.
    zero = fill(b, 0)
    constant = equal(b, zero)
    return g * conjugate(where(constant, zero, b * power(a, where(constant, fill(b, 1), b - 1))))


power: Op = op(
    "power",
    rules.numbers,
    reference.power,
    (
        _power_base,
        _power_exponent,
    ),
    saves=("01", "0y"),
    promotion="same",
    autocast="float32",
)
maximum: Op = op(
    "maximum",
    rules.ordered,
    reference.maximum,
    (lambda g, y, a, b: g * _share(a, b), lambda g, y, a, b: g * _share(b, a)),
    saves=("01", "01"),
    promotion="same",
)
minimum: Op = op(
    "minimum",
    rules.ordered,
    reference.minimum,
    (lambda g, y, a, b: g * _share(b, a), lambda g, y, a, b: g * _share(a, b)),
    saves=("01", "01"),
    promotion="same",
)


def _share(a: Any, b: Any) -> Any:
    """Return 1 where a is the larger, 1/2 where equal, 0 where the smaller."""
    above, below = cast(greater(a, b), dtype=a.dtype), cast(less(a, b), dtype=a.dtype)
    return (above - below + 1) * 0.5


atan2: Op = op(
    "atan2",
    rules.real_floats,
    reference.atan2,
    (
        lambda g, y, a, b: g * _turn(b, a),
        lambda g, y, a, b: -g * _turn(a, b),
    ),
    saves=("01", "01"),
    promotion="float",
)
hypot: Op = op(
    "hypot",
    rules.real_floats,
    reference.hypot,
    (lambda g, y, a, b: g * _ratio(a, y), lambda g, y, a, b: g * _ratio(b, y)),
    saves=("0y", "1y"),
    promotion="float",
)


def _ratio(a: Any, y: Any) -> Any:
    """Return a / y, and 0 where y is 0: the subgradient of a norm at the origin."""
    nothing = fill(y, 0)
    zero = equal(y, nothing)
    return where(zero, nothing, a / where(zero, fill(y, 1), y))


def _turn(a: Any, b: Any) -> Any:
    """Return a / (a² + b²) without undue overflow, and 0 at the origin."""
    size = hypot(a, b)
    return _ratio(_ratio(a, size), size)


logaddexp: Op = op(
    "logaddexp",
    rules.real_floats,
    reference.logaddexp,
    (lambda g, y, a, b: g * _weight(a, b), lambda g, y, a, b: g * _weight(b, a)),
    saves=("01", "01"),
    promotion="float",
)


def apart(a: Any, b: Any) -> Any:
    """Return a - b, where infinities of one sign are no distance apart."""
    made = a - b
    return where(bit_and(equal(a, b), isnan(made)), fill(a, 0), made)


def _weight(a: Any, b: Any) -> Any:
    """Return 1 / (1 + exp(b - a)), of which equal infinities have a half each."""
    distance = apart(b, a)
    return exp(-logaddexp(distance, fill(distance, 0)))


copysign: Op = op(
    "copysign",
    rules.real_floats,
    reference.copysign,
    (lambda g, y, a, b: g * copysign(fill(a, 1), b) * sign_with_zero(a), None),
    saves=("01", ""),
    promotion="float",
)


def sign_with_zero(x: Any) -> Any:
    """Return −1 where the sign bit is set, else 1 (zero has a sign here)."""
    return copysign(fill(x, 1), x)


nextafter: Op = op(
    "nextafter",
    rules.real_floats,
    reference.nextafter,
    no_gradient="it steps through the representable numbers",
    promotion="float",
)

# Rounding and sign.
floor: Op = op("floor", rules.reals, np.floor, _nothing, promotion="same")
ceil: Op = op("ceil", rules.reals, np.ceil, _nothing, promotion="same")
trunc: Op = op("trunc", rules.reals, np.trunc, _nothing, promotion="same")
round: Op = op("round", rules.numbers, reference.round_half_even, _nothing, promotion="same")
sign: Op = op(
    "sign",
    rules.numbers,
    reference.sign,
    lambda g, y, x: [_sign_gradient(g, y, x)],
    saves=lambda x: "0y" if x.dtype.is_complex else "",
    promotion="same",
)


def _sign_gradient(g: Any, y: Any, x: Any) -> Any:
    if not x.dtype.is_complex:
        return None
    # x / |x| turns with the phase only: the part of g along y is removed.
    size = abs(x)
    zero = equal(size, fill(size, 0))
    size = where(zero, fill(size, 1), size)
    along = real(g * conj(y))
    turned = (g - y * cast(along, dtype=y.dtype)) / cast(size, dtype=y.dtype)
    return where(zero, fill(turned, 0), turned)


abs: Op = op(
    "abs",
    rules.magnitude,
    np.abs,
    lambda g, y, x: [cast(g, dtype=x.dtype) * sign(x)],
    saves="0",
    promotion="same",
)
