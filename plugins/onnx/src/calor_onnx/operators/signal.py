"""Signals: Fourier transforms, windows, and the matrix of mel filters.

A complex number is a pair along the last axis. Windows and filters depend on sizes alone, so they
are computed at the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor.ops.elementwise import join
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.types import numpy_type


def paired(x: Any) -> Any:
    """Return complex numbers as pairs."""
    return calor.stack([calor.real(x), calor.imag(x)], axis=-1)


def transformed(x: Any, length: int, axis: int, inverse: bool, onesided: bool) -> Any:
    """Return the transform of x (\\*S, 1 or 2) along an axis, as pairs or as real numbers."""
    values = wide(x)
    real = values.shape[-1] == 1
    if real and not inverse:
        flat = values[..., 0]
        if onesided:
            return paired(calor.fft.rfft(flat, n=length, axis=axis))
        return paired(calor.fft.fft(join(flat, flat * 0), n=length, axis=axis))
    first = values[..., 0]
    spectrum = join(first, first * 0 if real else values[..., 1])
    if inverse and onesided:
        return calor.expand_dims(calor.fft.irfft(spectrum, n=length, axis=axis), -1)
    if inverse:
        return paired(calor.fft.ifft(spectrum, n=length, axis=axis))
    made = paired(calor.fft.fft(spectrum, n=length, axis=axis))
    if onesided:
        index: list[Any] = [slice(None)] * made.ndim
        index[axis] = slice(0, length // 2 + 1)
        made = made[tuple(index)]
    return made


def _dft(call: Call, x: Any, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    axis %= x.ndim
    if axis == x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise ModelError(
            f"DFT: the transformed axis is the last of {x.shape}, which holds real and imaginary "
            f"parts"
        )
    bins = x.shape[axis]
    size = 2 * (bins - 1) if inverse and onesided else bins
    if length is not None:
        (size,) = call.integers(length)
    return like(transformed(x, size, axis, bool(inverse), bool(onesided)), x)


@operator("DFT", since=20, host=[1, 2])
def dft(
    call: Call, x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Any:
    """The discrete Fourier transform along an axis."""
    along = -2 if axis is None else call.integers(axis)[0]
    return _dft(call, x, length, along, inverse, onesided)


@operator("DFT", since=17, host=[1])
def dft_17(
    call: Call, x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Any:
    """As of opset 20, with the axis as an attribute."""
    return _dft(call, x, length, axis, inverse, onesided)


@operator("STFT", since=17, host=[1, 3])
def stft(
    call: Call, x: Any, frame_step: Any, window: Any = None, frame_length: Any = None, *,
    onesided: int = 1,
) -> Any:  # fmt: skip
    """The transforms of windows that step over a signal (N, L, 1 or 2)."""
    (step,) = call.integers(frame_step)
    size = x.shape[1] if window is None else window.shape[0]
    if frame_length is not None:
        (size,) = call.integers(frame_length)
    frames = calor.unfold(wide(x), axis=1, size=size, step=step)
    # unfold puts the elements of a frame on the last axis, where the parts of a number belong.
    frames = calor.moveaxis(frames, -1, 2)
    if window is not None:
        frames = frames * calor.reshape(wide(window), (size, 1))
    return like(transformed(frames, size, 2, False, bool(onesided)), x)


def _window(name: str, terms: list[float]) -> None:
    """Register a window: a sum of cosines, of alternating signs."""

    def made(call: Call, size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        (count,) = call.integers(size)
        angle = 2 * np.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
        total = sum((-1) ** i * term * np.cos(i * angle) for i, term in enumerate(terms))
        return np.asarray(total).astype(numpy_type(output_datatype))

    operator(name, since=17, host=[0])(made)


_window("HannWindow", [0.5, 0.5])
_window("HammingWindow", [25 / 46, 21 / 46])
_window("BlackmanWindow", [0.42, 0.5, 0.08])


@operator("MelWeightMatrix", since=17, host=[0, 1, 2, 3, 4])
def mel_weight_matrix(
    call: Call, bins: Any, length: Any, rate: Any, low: Any, high: Any, *, output_datatype: int = 1
) -> Any:
    """Triangular filters that turn bins of a spectrum into mel bins: (length / 2 + 1, bins)."""
    count, size = int(bins), int(length)
    mels = 2595 * np.log10(1 + np.array([float(low), float(high)]) / 700)
    edge = np.arange(count + 2) * ((mels[1] - mels[0]) / (count + 2)) + mels[0]
    hertz = 700 * (10 ** (edge / 2595) - 1)
    place = ((size + 1) * hertz // float(rate)).astype(np.int64)
    made = np.zeros((size // 2 + 1, count))
    bin_ = np.arange(size // 2 + 1)
    for i, (left, centre, right) in enumerate(zip(place, place[1:], place[2:], strict=False)):
        if left == centre:
            made[centre, i] = 1
        else:
            rising = (bin_ >= left) & (bin_ <= centre)
            made[rising, i] = (bin_[rising] - left) / (centre - left)
        if right > centre:
            falling = (bin_ >= centre) & (bin_ < right)
            made[falling, i] = (right - bin_[falling]) / (right - centre)
    return made.astype(numpy_type(output_datatype))
