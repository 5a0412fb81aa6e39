"""Rows of the elementwise ops."""

from __future__ import annotations

import numpy as np

from .. import oracles as o
from ..domains import (
    any_bits,
    away_from,
    between,
    extremes,
    normal,
    of_any_size,
    positive,
    truth,
    unit,
    well_separated,
    whole,
)
from ..language import (
    ARITHMETIC,
    BITS,
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REAL_FLOATS,
    REALS,
    STORAGE,
    WIDE_FLOATS,
    Case,
    case,
    exact,
    ulp,
)

X = normal(3, 4)
AWAY = away_from(0, 3, 4)
STEEP = "differences have steps of one size"
NONZERO = whole(1, 9, 3, 4)

TOTAL_QUOTIENT = o.by_element(lambda a, b: a // b if b else 0)
TOTAL_REMAINDER = o.by_element(lambda a, b: a % b if b else 0)

ARITHMETIC_ROWS = [
    case("neg", X, oracle=np.negative, dtypes=NUMBERS),
    case("add", X, X, oracle=np.add, dtypes=NUMBERS, tol=ulp(0.5)),
    case("sub", X, X, oracle=np.subtract, dtypes=NUMBERS, tol=ulp(0.5)),
    case("mul", X, X, oracle=np.multiply, dtypes=REALS, tol=ulp(0.5)),
    case("mul", X, X, oracle=np.multiply, dtypes=COMPLEX, tol=ulp(2), name="complex"),
    case("add", any_bits(3, 4), any_bits(3, 4), oracle=np.add, dtypes=INTEGERS, name="wraps"),
    case("sub", any_bits(3, 4), any_bits(3, 4), oracle=np.subtract, dtypes=INTEGERS, name="wraps"),
    case("mul", any_bits(3, 4), any_bits(3, 4), oracle=np.multiply, dtypes=INTEGERS, name="wraps"),
    case("div", X, AWAY, oracle=np.divide, dtypes=REAL_FLOATS, tol=ulp(0.5)),
    case("div", X, AWAY, oracle=np.divide, dtypes=COMPLEX, tol=ulp(4), name="complex"),
    case("div", of_any_size(3, 4), of_any_size(3, 4), oracle=np.divide, dtypes=COMPLEX, tol=ulp(4),
         name="any-size", no_gradient=STEEP),
    case(
        "floor_divide",
        X,
        AWAY,
        oracle=o.by_kind(
            integers=TOTAL_QUOTIENT, floats=np.floor_divide
        ),
        dtypes=REALS,
        tol=ulp(2),
    ),
    case(
        "remainder",
        X,
        AWAY,
        oracle=o.by_kind(integers=TOTAL_REMAINDER, floats=np.remainder),
        dtypes=REALS,
        tol=ulp(1),
    ),
    case("power", positive(3, 4), X, oracle=o.power, dtypes=REAL_FLOATS, tol=ulp(2)),
    case(
        "power",
        AWAY,
        between(-1.5, 1.5, 3, 4),
        oracle=o.power,
        dtypes=COMPLEX,
        tol=ulp(16),
        name="complex",
    ),
    case("power", AWAY, whole(0, 6, 3, 4), oracle=o.power, dtypes=INTEGERS, name="integers"),
    case(
        "power",
        AWAY,
        whole(-3, 4, 3, 4),
        oracle=o.power,
        dtypes=REAL_FLOATS,
        tol=ulp(2),
        name="whole-exponents",
        no_gradient="a negative base has no derivative by its exponent",
    ),
    case("maximum", well_separated(3, 4), X, oracle=o.larger, dtypes=ORDERED),
    case("minimum", well_separated(3, 4), X, oracle=o.smaller, dtypes=ORDERED),
    case("atan2", AWAY, AWAY, oracle=np.arctan2, dtypes=REAL_FLOATS, tol=ulp(4)),
    case("hypot", X, X, oracle=np.hypot, dtypes=REAL_FLOATS, tol=ulp(1)),
    case("logaddexp", X, X, oracle=np.logaddexp, dtypes=REAL_FLOATS,
         tol=ulp(4, scale=lambda a, b: np.maximum(np.abs(a), np.abs(b)))),
    case("copysign", AWAY, AWAY, oracle=np.copysign, dtypes=REAL_FLOATS),
    case("nextafter", X, X, oracle=o.next_after, dtypes=REAL_FLOATS, raw=True),
]  # fmt: skip

LOGIC = [
    case("equal", whole(0, 3, 3, 4), whole(0, 3, 3, 4), oracle=np.equal, dtypes=ARITHMETIC),
    case("not_equal", whole(0, 3, 3, 4), whole(0, 3, 3, 4), oracle=np.not_equal, dtypes=ARITHMETIC),
    case("less", whole(0, 3, 3, 4), whole(0, 3, 3, 4), oracle=np.less, dtypes=ORDERED),
    case("less_equal", whole(0, 3, 3, 4), whole(0, 3, 3, 4), oracle=np.less_equal, dtypes=ORDERED),
    case("greater", whole(0, 3, 3, 4), whole(0, 3, 3, 4), oracle=np.greater, dtypes=ORDERED),
    case("greater_equal", whole(0, 3, 3, 4), whole(0, 3, 3, 4), oracle=np.greater_equal,
         dtypes=ORDERED),
    case("bit_and", any_bits(3, 4), any_bits(3, 4), oracle=np.bitwise_and, dtypes=BITS),
    case("bit_or", any_bits(3, 4), any_bits(3, 4), oracle=np.bitwise_or, dtypes=BITS),
    case("bit_xor", any_bits(3, 4), any_bits(3, 4), oracle=np.bitwise_xor, dtypes=BITS),
    case("bit_not", any_bits(3, 4), oracle=np.invert, dtypes=BITS),
    case("shift_left", any_bits(3, 4), whole(0, 8, 3, 4), oracle=o.shift_left, dtypes=INTEGERS,
         raw=True),
    case("shift_right", any_bits(3, 4), whole(0, 8, 3, 4), oracle=o.shift_right, dtypes=INTEGERS,
         raw=True),
    case("isnan", extremes(3, 4), oracle=o.is_nan, dtypes=ARITHMETIC),
    case("isinf", extremes(3, 4), oracle=o.is_infinite, dtypes=ARITHMETIC),
    case("isfinite", extremes(3, 4), oracle=o.is_finite, dtypes=ARITHMETIC),
    case("signbit", extremes(3, 4), oracle=o.sign_bit, dtypes=ORDERED),
    case("where", truth(3, 4), X, X, oracle=np.where, dtypes=(*ARITHMETIC, *STORAGE), raw=True),
]  # fmt: skip

ROUNDING = [
    case("floor", X, oracle=o.by_kind(integers=lambda x: x, floats=np.floor), dtypes=REALS),
    case("ceil", X, oracle=o.by_kind(integers=lambda x: x, floats=np.ceil), dtypes=REALS),
    case("trunc", X, oracle=o.by_kind(integers=lambda x: x, floats=np.trunc), dtypes=REALS),
    case("round", X, oracle=o.by_kind(integers=lambda x: x, floats=np.rint), dtypes=NUMBERS),
    case("sign", AWAY, oracle=o.sign, dtypes=NUMBERS, tol=ulp(2)),
    case("abs", AWAY, oracle=np.abs, dtypes=NUMBERS, tol=ulp(2)),
    case(
        "abs",
        of_any_size(3, 4),
        oracle=np.abs,
        dtypes=COMPLEX,
        tol=ulp(2),
        name="any-size",
        no_gradient=STEEP,
    ),
]

FOUR = ulp(4)
EXPONENTIAL = [
    case("sqrt", positive(3, 4), oracle=np.sqrt, dtypes=REAL_FLOATS, tol=ulp(0.5)),
    case("sqrt", AWAY, oracle=np.sqrt, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("sqrt", of_any_size(3, 4), oracle=np.sqrt, dtypes=COMPLEX, tol=FOUR, name="any-size",
         no_gradient=STEEP),
    case("exp", X, oracle=np.exp, dtypes=FLOATS, tol=FOUR),
    case("exp2", X, oracle=np.exp2, dtypes=REAL_FLOATS, tol=FOUR),
    case("expm1", X, oracle=np.expm1, dtypes=FLOATS, tol=FOUR),
    case("expm1", between(-1e-3, 1e-3, 3, 4), oracle=np.expm1, dtypes=FLOATS, tol=FOUR,
         name="near-0"),
    case("log", AWAY, oracle=np.log, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("log", of_any_size(3, 4), oracle=np.log, dtypes=COMPLEX, tol=FOUR, name="any-size",
         no_gradient=STEEP),
    case("log", positive(3, 4), oracle=np.log, dtypes=REAL_FLOATS, tol=FOUR),
    case("log2", AWAY, oracle=np.log2, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("log2", positive(3, 4), oracle=np.log2, dtypes=REAL_FLOATS, tol=FOUR),
    case("log10", AWAY, oracle=np.log10, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("log10", positive(3, 4), oracle=np.log10, dtypes=REAL_FLOATS, tol=FOUR),
    case("log1p", unit(3, 4), oracle=np.log1p, dtypes=FLOATS, tol=FOUR),
    case("log1p", between(-1e-3, 1e-3, 3, 4), oracle=np.log1p, dtypes=FLOATS, tol=FOUR,
         name="near-0"),
]  # fmt: skip

CIRCULAR = [
    case("sin", X, oracle=np.sin, dtypes=FLOATS, tol=FOUR),
    case("cos", X, oracle=np.cos, dtypes=FLOATS, tol=FOUR),
    case("tan", unit(3, 4), oracle=np.tan, dtypes=FLOATS, tol=FOUR),
    case("asin", unit(3, 4), oracle=np.arcsin, dtypes=FLOATS, tol=FOUR),
    case("acos", unit(3, 4), oracle=np.arccos, dtypes=FLOATS, tol=FOUR),
    case("atan", unit(3, 4), oracle=np.arctan, dtypes=FLOATS, tol=FOUR),
    case("sinh", X, oracle=np.sinh, dtypes=FLOATS, tol=FOUR),
    case("cosh", X, oracle=np.cosh, dtypes=FLOATS, tol=FOUR),
    case("tanh", X, oracle=np.tanh, dtypes=REAL_FLOATS, tol=FOUR),
    case("tanh", X, oracle=np.tanh, dtypes=COMPLEX, tol=ulp(8), name="complex"),
    case("asinh", unit(3, 4), oracle=np.arcsinh, dtypes=FLOATS, tol=FOUR),
    case("acosh", between(1.2, 4.0, 3, 4), oracle=np.arccosh, dtypes=FLOATS, tol=FOUR),
    case("atanh", unit(3, 4), oracle=np.arctanh, dtypes=FLOATS, tol=FOUR),
    case("asinh", AWAY, oracle=np.arcsinh, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("acosh", AWAY, oracle=np.arccosh, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("atanh", AWAY, oracle=np.arctanh, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("asin", AWAY, oracle=np.arcsin, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("acos", AWAY, oracle=np.arccos, dtypes=COMPLEX, tol=FOUR, name="complex"),
    case("atan", AWAY, oracle=np.arctan, dtypes=COMPLEX, tol=FOUR, name="complex"),
]

SPECIAL = [
    case("erf", X, oracle=o.erf, dtypes=REAL_FLOATS, tol=FOUR),
    case("erfinv", unit(3, 4), oracle=o.inverse_erf, dtypes=REAL_FLOATS, tol=ulp(8)),
    case("lgamma", positive(3, 4), oracle=o.log_gamma, dtypes=REAL_FLOATS,
         tol=ulp(8, scale=o.log_gamma_size)),
    case("lgamma", between(-2.9, -2.1, 3, 4), oracle=o.log_gamma, dtypes=REAL_FLOATS,
         tol=ulp(8, scale=o.log_gamma_size), name="negative"),
    case("digamma", positive(3, 4), oracle=o.digamma, dtypes=REAL_FLOATS,
         tol=ulp(4, scale=o.digamma_size)),
    case("digamma", between(-2.9, -2.1, 3, 4), oracle=o.digamma, dtypes=REAL_FLOATS,
         tol=ulp(8, scale=o.digamma_size), name="negative"),
]  # fmt: skip

PARTS = [
    case("real", X, oracle=np.real, dtypes=COMPLEX),
    case("imag", X, oracle=np.imag, dtypes=COMPLEX),
    case("conj", X, oracle=lambda x: x.conj() if x.dtype.kind == "c" else x,
         dtypes=(*BOOL, *NUMBERS), raw=True),
    case("join", X, X, oracle=o.joined, dtypes=WIDE_FLOATS, tol=exact),
]  # fmt: skip

CASES: list[Case] = [
    *ARITHMETIC_ROWS,
    *LOGIC,
    *ROUNDING,
    *EXPONENTIAL,
    *CIRCULAR,
    *SPECIAL,
    *PARTS,
]
