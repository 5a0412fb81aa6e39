"""Discrete Fourier transforms of any length."""

from calor_kernel.library.fft.lowering import lower_fft

__all__ = ["lower_fft"]
