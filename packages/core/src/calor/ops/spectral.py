"""Rows of the Fourier transforms (unscaled both ways) and of the random bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import (
    complex64,
    complex128,
    complex_of,
    float32,
    float64,
    real_of,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.ops import elementwise as e
from calor.ops import rules
from calor.ops.base import Op, op
from calor.ops.movement import expand, number_like, pad
from calor.ops.sources import HostArray, constant
from calor.reference import fourier as reference
from calor.reference import random as random_reference
from calor.specs import Spec, spec

Axes = tuple[int, ...]


def _fft_rule(x: Spec, *, kind: str, axes: Axes, length: int) -> Spec:
    """``length`` is the size of the last axis of ``axes`` in real space."""
    rules.check_axes(x, axes)
    last = axes[-1] if axes else -1
    if kind in ("forward", "inverse"):
        if x.dtype not in (complex64, complex128):
            raise DTypeError(f"fft {kind} needs complex64 or complex128, not {x}")
        return spec(x.shape, x.dtype)
    if kind == "r2c":
        if x.dtype not in (float32, float64):
            raise DTypeError(f"fft r2c needs float32 or float64, not {x}")
        shape = tuple(n // 2 + 1 if i == last else n for i, n in enumerate(x.shape))
        return spec(shape, complex_of(x.dtype))
    if kind == "c2r":
        if x.shape[last] != length // 2 + 1:
            raise ShapeError(f"fft c2r to length {length} needs {length // 2 + 1} bins, not {x}")
        shape = tuple(length if i == last else n for i, n in enumerate(x.shape))
        return spec(shape, real_of(x.dtype))
    raise ArgumentError(f"fft: kind {kind!r} is none of forward, inverse, r2c, c2r")


def _fft_reference(x: Any, *, kind: str, axes: Axes, length: int) -> Any:
    return reference.fft(x, kind=kind, axes=axes, length=length)


def _fft_gradient(g: Any, y: Any, x: Any, *, kind: str, axes: Axes, length: int) -> list[Any]:
    last = axes[-1]
    if kind in ("forward", "inverse"):
        back = "inverse" if kind == "forward" else "forward"
        return [fft(g, kind=back, axes=axes, length=length)]
    if kind == "r2c":
        # The adjoint: bins that are not there have no gradient, then the full inverse's real part.
        zeros = (0,) * g.ndim
        missing = tuple(length - g.shape[i] if i == last else 0 for i in range(g.ndim))
        whole = pad(g, number_like(g, 0), low=zeros, high=missing, interior=zeros)
        return [e.real(fft(whole, kind="inverse", axes=axes, length=length))]
    # c2r: each bin but the first (and the middle one of an even length) stands for two.
    bins = length // 2 + 1
    weights = np.full(bins, 2.0)
    weights[0] = 1.0
    if length % 2 == 0:
        weights[-1] = 1.0
    shape = tuple(bins if i == last else 1 for i in range(g.ndim))
    table = HostArray.of(weights.astype(x.dtype.numpy).reshape(shape))
    with g.device:
        scale = constant(array=table, weak=False)
    spectrum = fft(g, kind="r2c", axes=axes, length=length)
    return [spectrum * expand(scale, shape=spectrum.shape)]


fft: Op = op("fft", _fft_rule, _fft_reference, _fft_gradient)

_WIDTHS = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


def _bits_rule(key: Spec, counter: Spec, *, shape: Axes, bits: int) -> Spec:
    if key != spec((2,), uint32) or counter != spec((4,), uint32):
        raise DTypeError(
            f"random_bits: the key must be uint32[2] and the counter uint32[4], "
            f"not {key} and {counter}"
        )
    if any(n < 0 for n in shape):
        raise ShapeError(f"random_bits: shape {shape} has a negative size")
    if bits not in _WIDTHS:
        raise ArgumentError(f"random_bits: bits {bits} is none of 8, 16, 32, 64")
    return spec(shape, _WIDTHS[bits])


# Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Element i
# takes word i % 4 of block counter + i // 4; 64-bit elements take two words.
random_bits: Op = op(
    "random_bits",
    _bits_rule,
    random_reference.random_bits,
    no_gradient="its result is an integer",
)
