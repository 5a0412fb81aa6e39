"""Signals: short-time Fourier transforms and the windows that they take."""

from calor.signal import windows
from calor.signal.spectrograms import istft, stft

__all__ = ["istft", "stft", "windows"]
