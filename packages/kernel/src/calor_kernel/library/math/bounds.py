"""The largest error of each function, in units in the last place.

Requirements: a test checks every bound, on samples of all exponents and, on demand, on every
float32. A unit is the distance between neighbours at the exact result, or at ``scale`` if that is
larger, because a difference inherits the rounding errors of its terms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from calor_kernel.library.math.base import exactly

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest errors for float32 and float64; ``scale`` names their reference magnitude."""

    float32: float
    float64: float
    scale: str = ""


BOUNDS: Final[dict[str, Bound]] = {}


def within(
    float32: float, float64: float, scale: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function's bound, arguments as in Bound; its arithmetic is as written."""

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        BOUNDS[function.__name__] = Bound(float32, float64, scale)
        return exactly(function)

    return declare
