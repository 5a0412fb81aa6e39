"""Discrete Fourier transforms of any length.

Requirements: few programs transform, so what does is imported with the first question.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract.work import Refusal, Request, Work, lowering

__all__ = ["lower_fft"]


@lowering("fft")
def lower_fft(request: Request) -> Sequence[Work] | Refusal:
    """Return the launches of a transform, axis by axis."""
    from calor_kernel.library.fft.lowering import transforms

    return transforms(request)
