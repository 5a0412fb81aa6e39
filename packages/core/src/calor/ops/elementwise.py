"""Rows of the elementwise ops. Operands have one shape and dtype here; gradients stand beside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor.errors import DTypeError
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import fill
from calor.reference import elementwise as reference
from calor.reference import exponential
from calor.specs import Spec, spec

FLAT = "it is constant between its steps, so no gradient flows"


def conjugate(x: Any) -> Any:
    """Return the complex conjugate of a tensor; real tensors are returned as they are."""
    return conj(x) if x.dtype.is_complex else x


def _nothing(g: Any, y: Any, *x: Any, **attributes: Any) -> list[Any]:
    """Gradient of ops that are constant almost everywhere: zero, so nothing is passed on."""
    return [None] * len(x)


# Arithmetic.
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
    (lambda g, y, a, b: g * _weight(a, y), lambda g, y, a, b: g * _weight(b, y)),
    saves=("0y", "1y"),
    promotion="float",
)


def _weight(a: Any, y: Any) -> Any:
    """Return exp(a - y), where infinities of one sign are no distance apart."""
    return exp(where(equal(a, y), fill(a, 0), a - y))


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

# Comparison and logic.
equal: Op = op("equal", rules.test, np.equal, promotion="same", no_gradient=FLAT)
not_equal: Op = op("not_equal", rules.test, np.not_equal, promotion="same", no_gradient=FLAT)
less: Op = op("less", rules.compare, np.less, promotion="same", no_gradient=FLAT)
less_equal: Op = op("less_equal", rules.compare, np.less_equal, promotion="same", no_gradient=FLAT)
greater: Op = op("greater", rules.compare, np.greater, promotion="same", no_gradient=FLAT)
greater_equal: Op = op(
    "greater_equal", rules.compare, np.greater_equal, promotion="same", no_gradient=FLAT
)
bit_and: Op = op("bit_and", rules.bits, np.bitwise_and, promotion="same", no_gradient=FLAT)
bit_or: Op = op("bit_or", rules.bits, np.bitwise_or, promotion="same", no_gradient=FLAT)
bit_xor: Op = op("bit_xor", rules.bits, np.bitwise_xor, promotion="same", no_gradient=FLAT)
bit_not: Op = op("bit_not", rules.bits, np.invert, promotion="same", no_gradient=FLAT)
shift_left: Op = op(
    "shift_left", rules.integers, reference.shift_left, promotion="same", no_gradient=FLAT
)
shift_right: Op = op(
    "shift_right", rules.integers, reference.shift_right, promotion="same", no_gradient=FLAT
)
isnan: Op = op("isnan", rules.test, np.isnan, promotion="same", no_gradient=FLAT)
isinf: Op = op("isinf", rules.test, np.isinf, promotion="same", no_gradient=FLAT)
isfinite: Op = op("isfinite", rules.test, np.isfinite, promotion="same", no_gradient=FLAT)
signbit: Op = op("signbit", rules.compare, np.signbit, promotion="same", no_gradient=FLAT)
where: Op = op(
    "where",
    rules.select,
    np.where,
    (
        None,
        lambda g, y, c, a, b: where(c, g, fill(g, 0)),
        lambda g, y, c, a, b: where(c, fill(g, 0), g),
    ),
    saves=("", "0", "0"),
    promotion="same",
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

# Roots, exponentials, logarithms.
sqrt: Op = op(
    "sqrt",
    rules.floats,
    np.sqrt,
    lambda g, y, x: [g / conjugate(y * 2)],
    saves="y",
    promotion="float",
)
exp: Op = op(
    "exp", rules.floats, np.exp, lambda g, y, x: [g * conjugate(y)], saves="y", promotion="float"
)
exp2: Op = op(
    "exp2",
    rules.real_floats,
    np.exp2,
    lambda g, y, x: [g * y * math.log(2.0)],
    saves="y",
    promotion="float",
)
expm1: Op = op(
    "expm1",
    rules.floats,
    exponential.expm1,
    lambda g, y, x: [g * conjugate(y + 1)],
    saves="y",
    promotion="float",
)
log: Op = op(
    "log", rules.floats, np.log, lambda g, y, x: [g / conjugate(x)], saves="0", promotion="float"
)
log2: Op = op(
    "log2",
    rules.floats,
    np.log2,
    lambda g, y, x: [g / conjugate(x * math.log(2.0))],
    saves="0",
    promotion="float",
)
log10: Op = op(
    "log10",
    rules.floats,
    np.log10,
    lambda g, y, x: [g / conjugate(x * math.log(10.0))],
    saves="0",
    promotion="float",
)
log1p: Op = op(
    "log1p",
    rules.floats,
    exponential.log1p,
    lambda g, y, x: [g / conjugate(x + 1)],
    saves="0",
    promotion="float",
)

# Circular and hyperbolic functions.
sin: Op = op(
    "sin",
    rules.floats,
    np.sin,
    lambda g, y, x: [g * conjugate(cos(x))],
    saves="0",
    promotion="float",
)
cos: Op = op(
    "cos",
    rules.floats,
    np.cos,
    lambda g, y, x: [-g * conjugate(sin(x))],
    saves="0",
    promotion="float",
)
tan: Op = op(
    "tan",
    rules.floats,
    np.tan,
    lambda g, y, x: [g * conjugate(y * y + 1)],
    saves="y",
    promotion="float",
)
asin: Op = op(
    "asin",
    rules.floats,
    np.arcsin,
    lambda g, y, x: [g / conjugate(sqrt((1 - x) * (1 + x)))],
    saves="0",
    promotion="float",
)
acos: Op = op(
    "acos",
    rules.floats,
    np.arccos,
    lambda g, y, x: [-g / conjugate(sqrt((1 - x) * (1 + x)))],
    saves="0",
    promotion="float",
)
atan: Op = op(
    "atan",
    rules.floats,
    np.arctan,
    lambda g, y, x: [g / conjugate(x * x + 1)],
    saves="0",
    promotion="float",
)
sinh: Op = op(
    "sinh",
    rules.floats,
    np.sinh,
    lambda g, y, x: [g * conjugate(cosh(x))],
    saves="0",
    promotion="float",
)
cosh: Op = op(
    "cosh",
    rules.floats,
    np.cosh,
    lambda g, y, x: [g * conjugate(sinh(x))],
    saves="0",
    promotion="float",
)
tanh: Op = op(
    "tanh",
    rules.floats,
    np.tanh,
    lambda g, y, x: [g * conjugate(1 - y * y)],
    saves="y",
    promotion="float",
)
asinh: Op = op(
    "asinh",
    rules.floats,
    np.arcsinh,
    lambda g, y, x: [g / conjugate(sqrt(x * x + 1))],
    saves="0",
    promotion="float",
)
acosh: Op = op(
    "acosh",
    rules.floats,
    np.arccosh,
    lambda g, y, x: [g / conjugate(sqrt(x - 1) * sqrt(x + 1))],
    saves="0",
    promotion="float",
)
atanh: Op = op(
    "atanh",
    rules.floats,
    np.arctanh,
    lambda g, y, x: [g / conjugate((1 - x) * (1 + x))],
    saves="0",
    promotion="float",
)

# Special functions.
erf: Op = op(
    "erf",
    rules.real_floats,
    reference.erf,
    lambda g, y, x: [g * exp(-(x * x)) * (2.0 / math.sqrt(math.pi))],
    saves="0",
    promotion="float",
)
erfinv: Op = op(
    "erfinv",
    rules.real_floats,
    reference.erfinv,
    lambda g, y, x: [g * exp(y * y) * (math.sqrt(math.pi) / 2.0)],
    saves="y",
    promotion="float",
)
lgamma: Op = op(
    "lgamma",
    rules.real_floats,
    reference.lgamma,
    lambda g, y, x: [g * digamma(x)],
    saves="0",
    promotion="float",
)
digamma: Op = op(
    "digamma",
    rules.real_floats,
    reference.digamma,
    lambda g, y, x: [g * trigamma(x)],
    saves="0",
    promotion="float",
)


def trigamma(x: Any) -> Any:
    """Return the derivative of digamma as a tensor expression (shift up, asymptotic series).

    Source: Abramowitz and Stegun 6.4.11 and 6.4.6; reflection 6.4.7 for x < 0.5.
    """
    reflected = x < 0.5
    z = where(reflected, 1 - x, x)
    total = fill(z, 0)
    for _ in range(8):
        total = total + 1 / (z * z)
        z = z + 1
    w = 1 / (z * z)
    series = w * (1 / 6 - w * (1 / 30 - w * (1 / 42 - w * (1 / 30 - w * (5 / 66)))))
    total = total + (1 / z) * (1 + series) + w / 2
    turn = sin(x * math.pi)
    return where(reflected, (math.pi / turn) * (math.pi / turn) - total, total)


# Complex parts.
real: Op = op(
    "real", rules.part, np.real, lambda g, y, x: [cast(g, dtype=x.dtype)], promotion="same"
)
imag: Op = op("imag", rules.part, np.imag, lambda g, y, x: [join(fill(g, 0), g)], promotion="same")
conj: Op = op(
    "conj", rules.anything, reference.conj, lambda g, y, x: [conjugate(g)], promotion="same"
)


def _join_rule(a: Spec, b: Spec) -> Spec:
    from calor.dtypes import complex_of, float32, float64

    if a != b or a.dtype not in (float32, float64):
        raise DTypeError(f"join needs two float32 or two float64 parts of one shape, not {a}, {b}")
    return spec(a.shape, complex_of(a.dtype))


join: Op = op(
    "join",
    _join_rule,
    reference.join,
    (lambda g, y, a, b: real(g), lambda g, y, a, b: imag(g)),
    saves=("", ""),
    promotion="float",
)


# Conversions.
def _cast_rule(x: Spec, *, dtype: DType) -> Spec:
    return spec(x.shape, dtype)


def _cast_gradient(g: Any, y: Any, x: Any, *, dtype: DType) -> list[Any]:
    if not x.dtype.is_inexact:
        return [None]
    return [g if g.dtype is x.dtype else cast(g, dtype=x.dtype)]


cast: Op = op(
    "cast",
    _cast_rule,
    lambda x, *, dtype: reference.cast(x, dtype=dtype.numpy),
    _cast_gradient,
)


def _bitcast_rule(x: Spec, *, dtype: DType) -> Spec:
    size, wanted = x.dtype.itemsize, dtype.itemsize
    if size == wanted:
        return spec(x.shape, dtype)
    if size > wanted:
        return spec((*x.shape, size // wanted), dtype)
    if not x.ndim or x.shape[-1] != wanted // size:
        raise DTypeError(
            f"bitcast from {x} to {dtype.name} needs a last axis of {wanted // size} elements"
        )
    return spec(x.shape[:-1], dtype)


bitcast: Op = op(
    "bitcast",
    _bitcast_rule,
    lambda x, *, dtype: reference.bitcast(x, dtype=dtype.numpy),
    no_gradient="it reads the same bits as another type",
)
