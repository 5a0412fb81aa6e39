"""Discrete Fourier transforms of any length.

Requirements: few programs transform, so what does is imported with the first question.
"""

from __future__ import annotations

from calor_kernel.contract import work
from calor_kernel.library.fft.modes_fuser import MODES, ModesFuser

__all__ = ["ModesFuser"]

work.lowering("fft")(work.deferred("calor_kernel.library.fft.lowering", "transforms"))
work.lowering(MODES)(work.deferred("calor_kernel.library.fft.modes", "lower_modes"))
