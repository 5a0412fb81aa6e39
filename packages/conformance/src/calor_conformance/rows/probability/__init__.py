"""Probability distributions by their densities: what else is asked of them follows by integrals."""

from __future__ import annotations

from typing import Final

from .continuous import CONTINUOUS
from .language import Density
from .whole import WHOLE

__all__ = ["DENSITIES", "Density"]

DENSITIES: Final[list[Density]] = [*CONTINUOUS, *WHOLE]
