"""Discrete Fourier transforms of any length.

Requirements: few programs transform, so what does is imported with the first question.
"""

from __future__ import annotations

from calor_kernel.contract import work

work.lowering("fft")(work.deferred("calor_kernel.library.fft.lowering", "transforms"))
