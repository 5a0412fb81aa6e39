"""Elementwise entries of OpInfo and what calor calls them."""

from __future__ import annotations

from typing import Any

from .names import Table, c, renamed, same, scaled


def _rounded(input: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return c.divide(input, other)
    if rounding_mode == "floor":
        return c.floor_divide(input, other)
    return c.trunc(c.divide(input, other)).astype(c.result_type(input, other))


def _round(x: Any, decimals: int = 0) -> Any:
    return c.round(x, decimals=decimals)


def _masked_logaddexp(
    input: Any, other: Any, input_mask: Any = None, other_mask: Any = None
) -> Any:
    low = -float("inf")
    a = input if input_mask is None else c.where(input_mask, input, low)
    b = other if other_mask is None else c.where(other_mask, other, low)
    return c.logaddexp(a, b)


TABLE: Table = {
    **same(
        "abs",
        "acos",
        "acosh",
        "angle",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_xor",
        "ceil",
        "conj",
        "copysign",
        "cos",
        "cosh",
        "deg2rad",
        "digamma",
        "erf",
        "erfc",
        "erfinv",
        "exp",
        "exp2",
        "expm1",
        "float_power",
        "floor",
        "floor_divide",
        "fmax",
        "fmin",
        "fmod",
        "frexp",
        "gcd",
        "heaviside",
        "hypot",
        "imag",
        "isfinite",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "isreal",
        "lcm",
        "ldexp",
        "lerp",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "logaddexp",
        "logaddexp2",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "maximum",
        "minimum",
        "nextafter",
        "positive",
        "pow",
        "rad2deg",
        "real",
        "reciprocal",
        "remainder",
        "rsqrt",
        "sigmoid",
        "sign",
        "signbit",
        "sin",
        "sinc",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
        "xlogy",
    ),
    **renamed(
        {
            "bitwise_not": "bitwise_invert",
            "bitwise_right_shift": "bitwise_right_shift",
            "conj_physical": "conj",
            "eq": "equal",
            "ge": "greater_equal",
            "gt": "greater",
            "le": "less_equal",
            "lt": "less",
            "max/binary": "maximum",
            "min/binary": "minimum",
            "mul": "multiply",
            "ne": "not_equal",
            "neg": "negative",
            "sgn": "sign",
            "true_divide": "divide",
            "special.erfcx": "erfcx",
            "special.log_ndtr": "log_ndtr",
            "special.ndtr": "ndtr",
            "special.xlog1py": "xlog1py",
        }
    ),
    "add": lambda input, other, *, alpha=1: c.add(input, scaled(other, alpha)),
    "sub": lambda input, other, *, alpha=1: c.subtract(input, scaled(other, alpha)),
    "rsub": lambda input, other, alpha=1: c.subtract(other, scaled(input, alpha)),
    "addcmul": lambda input, a, b, *, value=1: input + scaled(a * b, value),
    "addcdiv": lambda input, a, b, *, value=1: input + scaled(c.divide(a, b), value),
    "div/no_rounding_mode": _rounded,
    "div/trunc_rounding": _rounded,
    "div/floor_rounding": _rounded,
    "__radd__": lambda input, other: other + input,
    "__rdiv__": lambda input, other: other / input,
    "__rmul__": lambda input, other: other * input,
    "__rand__": lambda input, other: other & input,
    "__ror__": lambda input, other: other | input,
    "__rxor__": lambda input, other: other ^ input,
    "__rmod__": lambda input, other: other % input,
    "__rpow__": lambda input, other: other**input,
    "__rsub__": lambda input, other: other - input,
    "clamp": lambda input, min=None, max=None: c.clip(input, min, max),
    "clamp_max": lambda input, max: c.minimum(input, max),
    "clamp_min": lambda input, min: c.maximum(input, min),
    "frac": lambda input: input - c.trunc(input),
    "logit": lambda input, eps=None: c.logit(input if eps is None else c.clip(input, eps, 1 - eps)),
    "nan_to_num": lambda input, nan=0.0, posinf=None, neginf=None: c.nan_to_num(
        input, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf
    ),
    "round": _round,
    "round/decimals_0": _round,
    "round/decimals_3": _round,
    "round/decimals_neg_3": _round,
    "polar": lambda input, angle: c.polar(input, angle),
    "where": lambda input, condition, other: c.where(condition, input, other),
    "complex": lambda input, imag: c.complex(input, imag),
    "masked.logaddexp": _masked_logaddexp,
    "isclose": lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: c.isclose(
        input, other, rtol=rtol, atol=atol, equal_nan=equal_nan
    ),
    "allclose": lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: c.allclose(
        input, other, rtol=rtol, atol=atol, equal_nan=equal_nan
    ),
    "equal": lambda input, other: c.array_equal(input, other),
    "isin": lambda elements, test_elements, *, assume_unique=False, invert=False: c.isin(
        elements, test_elements, invert=invert
    ),
}
