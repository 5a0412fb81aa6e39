"""Signals: short-time Fourier transforms and the windows that they take."""

from calor_numerics.signal import windows
from calor_numerics.signal.spectrograms import istft, stft

__all__ = ["istft", "stft", "windows"]
