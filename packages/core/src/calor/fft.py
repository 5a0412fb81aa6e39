"""Fourier transforms: the ``fft`` extension of the array API standard."""

from calor.functions.fourier import (
    fft,
    fftn,
    hfft,
    ifft,
    ifftn,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)
from calor.functions.fourier_frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from calor.keywords import explain as _explain

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_explain(globals())
