"""Samples of images at given positions: grids, and the columns of a convolution."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import calor
from calor.ops.movement import number_like, pad
from calor_nn import functional
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.windows import cropped, ends, given

_MODES: dict[str, Any] = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "cubic": "bicubic",
    "bicubic": "bicubic",
}


@operator("GridSample", since=16)
def grid_sample(
    call: Call, x: Any, grid: Any, *, align_corners: int = 0, mode: Any = "linear",
    padding_mode: Any = "zeros",
) -> Any:  # fmt: skip
    """x at the positions of a grid, from −1 to 1 along each axis (Jaderberg et al., 2015)."""
    mode = _MODES.get(mode, mode)
    if mode not in (*_MODES.values(), "nearest"):
        raise ModelError(f"GridSample: mode is {mode!r}, which ONNX does not define")
    made = functional.grid_sample(x, grid, mode, padding_mode, align_corners=bool(align_corners))
    return calor.astype(made, x.dtype)


@operator("Col2Im", since=18, host=[1, 2])
def col2im(
    call: Call, x: Any, image_shape: Any, block_shape: Any, *, dilations: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    """The sum of overlapping blocks (N, C · block, blocks) in an image."""
    image, block = call.integers(image_shape), call.integers(block_shape)
    rank = len(image)
    step, apart = given(strides, rank, "strides"), given(dilations, rank, "dilations")
    padding = ends(pads, rank)
    whole = [n + sum(p) for n, p in zip(image, padding, strict=True)]
    counts = [
        (n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(whole, block, step, apart, strict=True)
    ]
    batch, channels = x.shape[0], x.shape[1] // prod(block)
    parts = calor.reshape(x, (batch, channels, prod(block), *counts))
    total = None
    for number, tap in enumerate(product(*map(range, block))):
        low = [t * d for t, d in zip(tap, apart, strict=True)]
        high = [
            n - a - (c - 1) * s - 1 for n, a, c, s in zip(whole, low, counts, step, strict=True)
        ]
        part = parts[:, :, number]
        part = pad(
            part, number_like(part, 0), low=(0, 0, *low), high=(0, 0, *high),
            interior=(0, 0, *(s - 1 for s in step)),
        )  # fmt: skip
        total = part if total is None else total + part
    return cropped(total, [low for low, _ in padding], image)


@operator("AffineGrid", since=20, host=[1])
def affine_grid(call: Call, theta: Any, size: Any, *, align_corners: int = 0) -> Any:
    r"""The positions in an image (N, C, \*S) to which an affine map (N, D, D + 1) sends each pixel.

    It replaces the body in ONNX's schema, which drops the batch axis of a batch of one.
    """
    sizes = call.integers(size)[2:]
    if theta.ndim != 3 or theta.shape[1:] != (len(sizes), len(sizes) + 1):
        raise ModelError(f"AffineGrid: theta of shape {theta.shape} does not fit {len(sizes)} axes")
    whole = (theta.shape[0], 1, *sizes)
    return functional.affine_grid(theta, whole, align_corners=bool(align_corners))
