"""Rows of the mathematical functions: those of the library, for real and for complex values."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from calor_kernel import language
from calor_kernel.library import math
from calor_kernel.library.elementwise.operations import row
from calor_kernel.library.elementwise.values import Complex
from calor_kernel.library.math import complex_circular, complex_numbers

# About how many instructions a function is.
_WEIGHTS: Final = {
    "exp": 18,
    "exp2": 15,
    "expm1": 25,
    "log": 30,
    "log2": 35,
    "log10": 35,
    "log1p": 40,
    "asin": 25,
    "acos": 30,
    "atan": 30,
    "sinh": 40,
    "cosh": 40,
    "tanh": 35,
    "hypot": 35,
    "erf": 40,
}
_HEAVY: Final = 80
_REAL: Final = (
    "exp2",
    "erf",
    "erfinv",
    "lgamma",
    "digamma",
    "atan2",
    "hypot",
    "logaddexp",
)
_COMPLEX: Final[dict[ModuleType, tuple[str, ...]]] = {
    complex_numbers: ("exp", "expm1", "log", "log2", "log10", "log1p"),
    complex_circular: (
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
    ),
}


def _both(name: str, real: Callable[..., Any], pair: Callable[..., Any], weight: int = 1) -> None:
    def function(*values: Any) -> Any:
        return Complex(*pair(*values)) if isinstance(values[0], Complex) else real(*values)

    row(name, weight=weight)(function)


for _name in _REAL:
    row(_name, weight=_WEIGHTS.get(_name, _HEAVY))(getattr(math, _name))
for _module, _names in _COMPLEX.items():
    for _name in _names:
        _weight = _WEIGHTS.get(_name, _HEAVY)
        _both(_name, getattr(math, _name), getattr(_module, _name), _weight)
_both("sqrt", language.sqrt, complex_numbers.root)
_both("div", lambda a, b: a / b, complex_numbers.divide)
