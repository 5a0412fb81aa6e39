"""Rows of rounding, sign and size."""

from __future__ import annotations

from typing import Any

from calor_kernel import language
from calor_kernel.language import constant, select
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex
from calor_kernel.library.math import complex_numbers, hypot


def _whole(name: str, function: Any) -> None:
    @row(name)
    def rounded(x: Any) -> Any:
        if isinstance(x, Complex):
            return Complex(function(x.real), function(x.imag))
        return function(x) if x.dtype.kind == "float" else x


_whole("floor", language.floor)
_whole("ceil", language.ceil)
_whole("trunc", language.trunc)
_whole("round", language.rint)


@row("sign")
def _sign(x: Any) -> Any:
    if isinstance(x, Complex):
        return Complex(*complex_numbers.sign(x))
    if x.dtype.kind == "uint":
        return select(x != 0, constant(1, x.dtype), 0)
    one, nothing = constant(1, x.dtype), constant(0, x.dtype)
    found = select(x > 0, one, select(x < 0, -one, nothing))
    return select(x == x, found, x) if x.dtype.kind == "float" else found


@row("abs")
def _abs(x: Any) -> Any:
    if isinstance(x, Complex):
        return hypot(x.real, x.imag)
    return x if x.dtype.kind == "uint" else abs(x)
