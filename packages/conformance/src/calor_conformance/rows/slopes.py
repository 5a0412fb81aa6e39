"""First derivatives of elementwise functions in closed form, and the points where they are hard.

Requirements: the derivatives are written here in Python's floats, so nothing is shared with calor.
Hard points are zeros, kinks, ends of domains, poles, and what lies just beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import calor

Function = Callable[..., Any]
INF, PI = math.inf, math.pi
_ROOT_PI: Final = math.sqrt(PI)
_NORMAL: Final = NormalDist()


@dataclass(frozen=True)
class Slope:
    """A function of one operand or two.

    Parameters
    ----------
    call : callable
        The function of calor.
    slopes : tuple of callable
        For each operand, the derivative by it at all operands.
    domain : tuple of tuple of float
        For each operand, the least and the greatest number that is drawn.
    hard : tuple of tuple of float
        For each operand, points that are drawn as often as all others.
    smooth : bool
        Whether the first derivative has a derivative everywhere in the domain but at hard points.
    """

    call: Function
    slopes: tuple[Function, ...]
    domain: tuple[tuple[float, float], ...]
    hard: tuple[tuple[float, ...], ...]
    smooth: bool = True


def digamma(x: float) -> float:
    """Return the derivative of log Γ, by recurrence and the series for large x."""
    made = 0.0
    while x < 12:
        made -= 1 / x
        x += 1
    y = 1 / (x * x)
    rest = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132)))))
    return made + math.log(x) - 0.5 / x - rest


def trigamma(x: float) -> float:
    """Return the second derivative of log Γ, by recurrence and the series for large x."""
    made = 0.0
    while x < 12:
        made += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    rest = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66)))))
    return made + 1 / x + y / 2 + rest / x


def erfinv(x: float) -> float:
    made = _NORMAL.inv_cdf((x + 1) / 2) / math.sqrt(2) if abs(x) > 1e-3 else x * _ROOT_PI / 2
    for _ in range(3):
        rest = math.erf(made) - x if abs(x) < 0.5 else math.copysign(
            (1 - abs(x)) - math.erfc(abs(made)), x)  # fmt: skip
        made -= rest * _ROOT_PI / 2 * math.exp(made * made)
    return made


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _bell(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * PI)


def _sinc(x: float) -> float:
    """Return the derivative of sin(πx)/(πx), by its series near 0."""
    y = PI * x
    if abs(y) > 0.5:
        return PI * (math.cos(y) / y - math.sin(y) / (y * y))
    return PI * math.fsum(
        (-1) ** k * 2 * k * y ** (2 * k - 1) / math.factorial(2 * k + 1) for k in range(1, 12)
    )


def _gelu_tanh(x: float) -> float:
    root, c = math.sqrt(2 / PI), 0.044715
    t = math.tanh(root * (x + c * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * c * x * x)


def _mills(x: float) -> float:
    """Return density over share of the normal distribution, whose parts underflow far below 0."""
    if x > -12:
        return _density(x) / _bell(x)
    y, made = -x, 0.0
    for k in range(60, 0, -1):
        made = k / (y + made)
    return y + made


def _erfcx(x: float) -> float:
    if x < 9:
        made = math.exp(x * x) * math.erfc(x)
        return 2 * x * made - 2 / _ROOT_PI
    # 1 − √π x erfcx(x), by the asymptotic series.
    y = 1 / (2 * x * x)
    term, total = 1.0, 0.0
    for k in range(1, 12):
        term *= -(2 * k - 1) * y
        total += term
    return 2 / _ROOT_PI * total


def _of(call: Function, slope: Function, low: float, high: float, *hard: float,
        smooth: bool = True) -> Slope:  # fmt: skip
    return Slope(call, (slope,), ((low, high),), (hard,), smooth)


def _named(name: str, *args: Any, **options: Any) -> Function:
    return lambda *given: getattr(calor, name)(*given, *args, **options)


def _by(**slopes: tuple[Any, ...]) -> dict[str, Slope]:
    return {name: _of(_named(name), *row) for name, row in slopes.items()}


_TINY: Final = 1e-9
ONE: Final[dict[str, Slope]] = {
    **_by(
        negative=(lambda x: -1.0, -9, 9, 0.0), square=(lambda x: 2 * x, -9, 9, 0.0),
        sqrt=(lambda x: 0.5 / math.sqrt(x) if x else INF, 0, 9, 0.0, 1.0),
        rsqrt=(lambda x: -0.5 * x**-1.5, 1e-3, 9, 1.0),
        reciprocal=(lambda x: -1 / (x * x), -9, 9, 1.0, -1.0),
        exp=(math.exp, -30, 30, 0.0), exp2=(lambda x: 2**x * math.log(2), -30, 30, 0.0, 1.0),
        expm1=(math.exp, -30, 20, 0.0), log=(lambda x: 1 / x, 1e-6, 90, 1.0),
        log2=(lambda x: 1 / x / math.log(2), 1e-6, 90, 1.0, 2.0),
        log10=(lambda x: 1 / x / math.log(10), 1e-6, 90, 1.0, 10.0),
        log1p=(lambda x: 1 / (1 + x), -0.999, 90, 0.0, -1 + 2.0**-20),
        sin=(math.cos, -9, 9, 0.0), cos=(lambda x: -math.sin(x), -9, 9, 0.0),
        tan=(lambda x: 1 + math.tan(x) ** 2, -1.5, 1.5, 0.0),
        asin=(lambda x: 1 / math.sqrt((1 - x) * (1 + x)), -0.999, 0.999, 0.0, 1 - 2.0**-20),
        acos=(lambda x: -1 / math.sqrt((1 - x) * (1 + x)), -0.999, 0.999, 0.0, 1 - 2.0**-20),
        atan=(lambda x: 1 / (1 + x * x), -90, 90, 0.0, 1.0), sinh=(math.cosh, -20, 20, 0.0),
        cosh=(math.sinh, -20, 20, 0.0), tanh=(lambda x: 1 / math.cosh(x) ** 2, -15, 15, 0.0),
        asinh=(lambda x: 1 / math.sqrt(1 + x * x), -90, 90, 0.0),
        acosh=(lambda x: 1 / math.sqrt((x - 1) * (x + 1)), 1.001, 90, 1 + 2.0**-20),
        atanh=(lambda x: 1 / ((1 - x) * (1 + x)), -0.999, 0.999, 0.0, 1 - 2.0**-20, 2.0**-20 - 1),
        erf=(lambda x: 2 / _ROOT_PI * math.exp(-x * x), -5, 5, 0.0),
        erfc=(lambda x: -2 / _ROOT_PI * math.exp(-x * x), -5, 9, 0.0),
        erfcx=(_erfcx, -4, 40, 0.0, 1.0),
        erfinv=(lambda x: _ROOT_PI / 2 * math.exp(erfinv(x) ** 2), -0.999, 0.999, 0.0,
                1 - 2.0**-20, 2.0**-20 - 1),
        lgamma=(digamma, 0.01, 60, 1.0, 2.0, 0.5, 0.5 + 2.0**-20),
        digamma=(trigamma, 0.01, 60, 1.0, 2.0, 0.5),
        sigmoid=(lambda x: _sigmoid(x) * _sigmoid(-x), -30, 30, 0.0),
        silu=(lambda x: _sigmoid(x) * (1 + x * _sigmoid(-x)), -30, 30, 0.0),
        softplus=(_sigmoid, -30, 30, 0.0), ndtr=(_density, -9, 9, 0.0),
        log_ndtr=(_mills, -40, 6, 0.0), sinc=(_sinc, -5, 5, 0.0, 1.0, -1.0),
        logit=(lambda x: 1 / (x * (1 - x)), 0.001, 0.999, 0.5, 1 - 2.0**-20),
    ),
    "lgamma-below-0": _of(_named("lgamma"), digamma, -4.9, -0.1, -0.5, -1.5),
    "digamma-below-0": _of(_named("digamma"), trigamma, -4.9, -0.1, -0.5, -1.5, -2.5),
    "gelu": _of(_named("gelu"), lambda x: _bell(x) + x * _density(x), -9, 9, 0.0),
    "gelu-tanh": _of(_named("gelu", approximate="tanh"), _gelu_tanh, -9, 9, 0.0),
    "elu": _of(_named("elu", alpha=0.7), lambda x: 1.0 if x > 0 else 0.7 * math.exp(x), -9, 9, 1.0),
    "leaky_relu": _of(_named("leaky_relu", negative_slope=0.3),
                      lambda x: 1.0 if x > 0 else 0.3, -9, 9, 1.0),
    # At a kink the derivative is a convention: that of a norm is 0, that of relu the left one.
    "relu": _of(_named("relu"), lambda x: float(x > 0), -9, 9, 0.0, smooth=False),
    "abs": _of(_named("abs"), lambda x: float((x > 0) - (x < 0)), -9, 9, 0.0, smooth=False),
    "sign": _of(_named("sign"), lambda x: 0.0, -9, 9, 0.0, smooth=False),
    "floor": _of(_named("floor"), lambda x: 0.0, -9, 9, 0.0, 1.0, smooth=False),
    "round": _of(_named("round"), lambda x: 0.0, -9, 9, 0.5, 1.5, smooth=False),
}  # fmt: skip


def _power(x: float, y: float) -> float:
    if x == 0:
        return 1.0 if y == 1 else 0.0 if y > 1 or y == 0 else INF
    return float(y * x ** (y - 1))


def _power_of(x: float, y: float) -> float:
    # 0 ** y is constant.
    return math.log(x) * x**y if x > 0 else 0.0


def _atan2(y: float, x: float) -> tuple[float, float]:
    size = x * x + y * y
    return (x / size, -y / size) if size else (0.0, 0.0)


def _share(x: float, y: float) -> float:
    """Return the share of a gradient that the larger operand gets; at a tie each has half."""
    return 0.5 if x == y else float(x > y)


def _of_two(call: Function, first: Function, second: Function, domain: Any, *hard: Any,
            smooth: bool = True) -> Slope:  # fmt: skip
    return Slope(call, (first, second), domain, hard, smooth)


_SIGNED: Final = ((-5, 5), (-5, 5))
_AXES: Final = ((0.0, 1.0, -1.0), (0.0, 1.0, -1.0))
_ZERO: Final = ((0.0,), (0.0, 1.0))
TWO: Final[dict[str, Slope]] = {
    "pow": _of_two(_named("pow"), _power, _power_of, ((0, 5), (0.1, 5)),
                   (0.0, 1.0), (1.0, 2.0, 0.0, 3.0)),
    "atan2": _of_two(_named("atan2"), lambda y, x: _atan2(y, x)[0], lambda y, x: _atan2(y, x)[1],
                     _SIGNED, *_AXES),
    "hypot": _of_two(_named("hypot"), lambda x, y: x / math.hypot(x, y) if x or y else 0.0,
                     lambda x, y: y / math.hypot(x, y) if x or y else 0.0, _SIGNED, *_AXES),
    "multiply": _of_two(_named("multiply"), lambda x, y: y, lambda x, y: x, _SIGNED, *_AXES),
    "divide": _of_two(_named("divide"), lambda x, y: 1 / y, lambda x, y: -x / (y * y),
                      ((-5, 5), (0.1, 5)), (0.0,), (1.0, -1.0)),
    "maximum": _of_two(_named("maximum"), _share, lambda x, y: _share(y, x), _SIGNED, *_AXES,
                       smooth=False),
    "minimum": _of_two(_named("minimum"), lambda x, y: _share(y, x), _share, _SIGNED, *_AXES,
                       smooth=False),
    "logaddexp": _of_two(_named("logaddexp"), lambda x, y: _sigmoid(x - y),
                         lambda x, y: _sigmoid(y - x), ((-20, 20), (-20, 20)), *_AXES),
    "logaddexp2": _of_two(_named("logaddexp2"), lambda x, y: _sigmoid((x - y) * math.log(2)),
                          lambda x, y: _sigmoid((y - x) * math.log(2)), ((-20, 20), (-20, 20)),
                          *_AXES),
    "xlogy": _of_two(_named("xlogy"), lambda x, y: math.log(y), lambda x, y: x / y,
                     ((-5, 5), (0.01, 5)), *_ZERO),
    "xlog1py": _of_two(_named("xlog1py"), lambda x, y: math.log1p(y), lambda x, y: x / (1 + y),
                       ((-5, 5), (-0.9, 5)), (0.0,), (0.0, _TINY)),
    "remainder": _of_two(_named("remainder"), lambda x, y: 1.0, lambda x, y: -math.floor(x / y),
                         ((-9, 9), (0.3, 4)), (0.0,), (1.0, -1.0), smooth=False),
    "copysign": _of_two(_named("copysign"),
                        lambda x, y: 0.0 if x == 0 else math.copysign(1, x) * math.copysign(1, y),
                        lambda x, y: 0.0, _SIGNED, (1.0,), (1.0, -1.0), smooth=False),
}  # fmt: skip
