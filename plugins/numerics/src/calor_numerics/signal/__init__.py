"""Signals: short-time Fourier transforms and the windows that they take."""

from calor.keywords import explain as _explain
from calor_numerics.signal import windows
from calor_numerics.signal.spectrograms import istft, stft

__all__ = ["istft", "stft", "windows"]

_explain(globals(), "calor_numerics.signal.")
_explain(vars(windows), "calor_numerics.signal.")
