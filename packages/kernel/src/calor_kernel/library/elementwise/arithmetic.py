"""Rows of arithmetic."""

from __future__ import annotations

from typing import Any

from calor_kernel.language.builder import current
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex


@row("neg")
def _neg(x: Any) -> Any:
    return Complex(-x.real, -x.imag) if isinstance(x, Complex) else -x


@row("add")
def _add(a: Any, b: Any) -> Any:
    return Complex(a.real + b.real, a.imag + b.imag) if isinstance(a, Complex) else a + b


@row("sub")
def _sub(a: Any, b: Any) -> Any:
    return Complex(a.real - b.real, a.imag - b.imag) if isinstance(a, Complex) else a - b


@row("mul")
def _mul(a: Any, b: Any) -> Any:
    if isinstance(a, Complex):
        real = a.real * b.real - a.imag * b.imag
        return Complex(real, a.real * b.imag + a.imag * b.real)
    return a * b


@row("maximum")
def _maximum(a: Any, b: Any) -> Any:
    return a | b if a.dtype.kind == "bool" else current().binary("max", a, b)


@row("minimum")
def _minimum(a: Any, b: Any) -> Any:
    return a & b if a.dtype.kind == "bool" else current().binary("min", a, b)
