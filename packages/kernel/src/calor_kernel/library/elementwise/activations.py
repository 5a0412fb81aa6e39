"""Rows of the activations: each is computed in one type and rounded once."""

from __future__ import annotations

from math import pi
from math import sqrt as root
from typing import Any

from calor_kernel.language import constant, select
from calor_kernel.language.builder import current
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row


@row("relu")
def _relu(x: Any) -> Any:
    return current().binary("max", x, constant(0, x.dtype))


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(−x)); the exponent is never positive, so nothing overflows."""
    z = math.exp(-abs(x))
    return select(x >= 0.0, constant(1.0, x.dtype), z) / (z + 1.0)


row("sigmoid", weight=25)(sigmoid)


@row("silu", weight=25)
def _silu(x: Any) -> Any:
    return x * sigmoid(x)


@row("gelu", weight=45)
def _gelu(x: Any) -> Any:
    return x * ((math.erf(x * root(0.5)) + 1.0) * 0.5)


@row("gelu_tanh", weight=40)
def _gelu_tanh(x: Any) -> Any:
    turn = math.tanh((x * x * 0.044715 + 1.0) * x * root(2 / pi))
    return x * ((turn + 1.0) * 0.5)


@row("binary_cross_entropy", weight=80)
def _binary_cross_entropy(x: Any, t: Any) -> Any:
    low = _at_least(math.log(x))
    high = _at_least(math.log1p(0.0 - x))
    return -(t * low + (1.0 - t) * high)


def _at_least(x: Any) -> Any:
    return current().binary("max", x, constant(-100.0, x.dtype))
