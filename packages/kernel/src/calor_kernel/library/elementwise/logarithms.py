"""Rows of logarithms of several arguments and of odds."""

from __future__ import annotations

from collections.abc import Callable
from math import e, log2

from calor_kernel.language import Number, select
from calor_kernel.language.builder import current
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.math.bounds import Bound


def _times_log(name: str, logarithm: Callable[[Number], Number], weight: int) -> None:
    """Register a · logarithm(b), which is 0 if a is 0 and b is a number."""

    @row(name, weight=weight, bound=Bound(2.0, 2.0))
    def product(a: Number, b: Number) -> Number:
        return select((a == 0.0) & (b == b), 0.0, a * logarithm(b))


_times_log("xlogy", math.log, 35)
_times_log("xlog1py", math.log1p, 45)


@row("logit", weight=90, bound=Bound(3.0, 3.0))
def _logit(x: Number) -> Number:
    # Close to the zero at 1/2 the quotient is close to 1, and its difference from 1 is exact.
    rest = 1.0 - x
    middle = math.log1p((x - 0.5) * 2.0 / rest)
    return select(abs(x - 0.5) < 0.25, middle, math.log(x / rest))


@row("logaddexp2", weight=65, bound=Bound(2.5, 2.5, "the larger operand"))
def _logaddexp2(a: Number, b: Number) -> Number:
    larger = current().binary("max", a, b)
    apart = select(a == b, 0.0, abs(a - b))
    return larger + math.log1p(math.exp2(-apart)) * log2(e)
