"""The largest error of each function, in units in the last place.

Requirements: a test checks every number here, on samples of all exponents and, on demand, on every
float32. A unit is the distance between neighbours at the exact result, or at ``scale`` if that is
larger, because a difference inherits the rounding errors of its terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest errors for float32 and float64; ``scale`` names their reference magnitude."""

    float32: float
    float64: float
    scale: str = ""


BOUNDS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "exp": Bound(1.0, 1.0),
        "exp2": Bound(0.85, 0.8),
        "expm1": Bound(0.9, 1.1),
        "log": Bound(0.9, 0.85),
        "log2": Bound(1.0, 1.1),
        "log10": Bound(1.0, 0.9),
        "log1p": Bound(0.95, 0.95),
        "sin": Bound(0.75, 0.75),
        "cos": Bound(0.75, 0.75),
        "tan": Bound(0.95, 0.85),
        "asin": Bound(0.7, 0.75),
        "acos": Bound(0.7, 0.75),
        "atan": Bound(0.7, 0.65),
        "atan2": Bound(0.85, 0.85),
        "sinh": Bound(0.8, 0.85),
        "cosh": Bound(0.75, 0.75),
        "tanh": Bound(1.1, 0.9),
        "asinh": Bound(1.0, 0.9),
        "acosh": Bound(1.0, 0.9),
        "atanh": Bound(1.0, 0.9),
        "erf": Bound(1.0, 0.9),
        "erfinv": Bound(2.5, 3.0),
        "lgamma": Bound(4.0, 4.0, "1 and log Γ(1 − x), below 0"),
        "digamma": Bound(5.0, 5.0, "1 and the terms of the reflection, below 0"),
        "power": Bound(1.0, 1.0),
        "hypot": Bound(0.8, 0.6),
        "logaddexp": Bound(2.0, 2.0, "the larger operand"),
        "remainder": Bound(0.5, 0.5),
        "floor_divide": Bound(1.0, 1.0),
        "fmod": Bound(0.0, 0.0),
    }
)
