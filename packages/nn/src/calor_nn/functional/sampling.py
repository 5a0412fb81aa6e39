"""Images read at positions that are tensors: grids, affine maps, and deformable windows.

Requirements: arguments, order of coordinates and borders are PyTorch's. Positions are computed in
float32 for half types, and have gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import calor
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.arguments import integer, sizes_of
from calor.functions.operands import as_tensors
from calor.ops.composites import like, wide
from calor_nn.functional.constant_tables import constant_table
from calor_nn.functional.samples import sample

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
_BORDERS = ("zeros", "border", "reflection")


def grid_sample(
    x: Operand,
    grid: Operand,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Tensor:
    """Return an image read at the positions of a grid.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W) or (N, C, D, H, W); real.
    grid : Tensor, ndarray or number
        Shape (N, H', W', 2) or (N, D', H', W', 3): positions from −1 to 1 along each axis, that of
        the last axis first.
    mode : {"bilinear", "nearest", "bicubic"}
        How elements beside a position are combined. With three spatial axes "bilinear" combines
        eight; "bicubic" is for two.
    padding_mode : {"zeros", "border", "reflection"}
        What is read outside: 0, the nearest element, or the image reflected at its borders.
    align_corners : bool
        Whether −1 and 1 are the centres of the outer elements instead of their edges.

    Returns
    -------
    Tensor
        Shape (N, C, H', W') or (N, C, D', H', W'); the dtype of `x`.

    Raises
    ------
    ShapeError
        If `grid` does not fit `x`.
    ArgumentError
        If `mode` or `padding_mode` is unknown.
    DTypeError
        If an operand is complex or float8.

    References
    ----------
    Jaderberg et al., "Spatial Transformer Networks", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.asarray([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> functional.grid_sample(x, calor.zeros((1, 1, 1, 2))).item()
    1.5
    """
    what = "grid_sample"
    x, grid = (floating(t, what) for t in as_tensors(x, grid))
    rank = x.ndim - 2
    if rank < 1 or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
        raise ShapeError(
            f"{what}: a grid of shape {grid.shape} does not fit an image of shape {x.shape}; it "
            f"must be (N, *S, {max(rank, 1)}) with the batch of the image (N, C, *S)"
        )
    if mode not in _MODES or (mode == "bicubic" and rank != 2):
        raise ArgumentError(
            f'{what}: mode {mode!r} with {rank} spatial axes; choose "bilinear", "nearest", or '
            f'"bicubic" with two axes'
        )
    if padding_mode not in _BORDERS:
        raise ArgumentError(
            f"{what}: padding_mode {padding_mode!r} is none of {', '.join(_BORDERS)}"
        )
    made = sample(
        x,
        calor.reshape(grid, (x.shape[0], -1, rank)),
        mode=_MODES[mode],
        outside=padding_mode,
        align=bool(align_corners),
        relative=True,
    )
    return calor.reshape(made, (x.shape[0], x.shape[1], *grid.shape[1:-1]))


def affine_grid(theta: Operand, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """Return the positions to which affine maps send the elements of an image.

    Parameters
    ----------
    theta : Tensor, ndarray or number
        Shape (N, 2, 3) or (N, 3, 4): the map of each image, its shift last; real.
    size : sequence of int
        The image's shape (N, C, H, W) or (N, C, D, H, W).
    align_corners : bool
        Whether −1 and 1 are the centres of the outer elements instead of their edges.

    Returns
    -------
    Tensor
        Shape (N, H, W, 2) or (N, D, H, W, 3), for :func:`grid_sample`; the dtype of `theta`.

    Raises
    ------
    ShapeError
        If `theta` does not fit `size`.
    DTypeError
        If `theta` is complex or float8.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Jaderberg et al., "Spatial Transformer Networks", 2015.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> theta = calor.asarray([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> functional.affine_grid(theta, (1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    what = "affine_grid"
    theta = floating(theta, what)
    whole = sizes_of(size, f"{what}: size")
    if len(whole) < 2:
        raise ShapeError(f"{what}: size {whole} must be (N, C, *sizes), that of the images")
    batch, _, *sizes = whole
    rank = len(sizes)
    if theta.shape != (batch, rank, rank + 1):
        raise ShapeError(
            f"{what}: theta of shape {theta.shape} must be {(batch, rank, rank + 1)} for images "
            f"of shape {tuple(size)}"
        )
    wanted = wide(theta)
    # (N, 1, …, rank): a column of the map for each coordinate, which its axis multiplies. Positions
    # are no product of matrices, whose precision a setting may lower.
    columns = (batch, *[1] * rank, rank)
    made = calor.reshape(wanted[:, :, rank], columns)
    for number, count in enumerate(reversed(sizes)):
        # The map takes the last axis first.
        along = [1] * (rank + 2)
        along[rank - number] = count
        places = _centres(count, bool(align_corners)).astype(wanted.dtype.numpy)
        given = constant_table(places.reshape(along), theta.device)
        made = made + calor.reshape(wanted[:, :, number], columns) * given
    result: Tensor = like(made, theta)
    return result


def _centres(count: int, align_corners: bool) -> Any:
    """Return the positions of the elements of an axis: to the ends, or half an element inside."""
    if align_corners:
        return np.linspace(-1, 1, count) if count > 1 else np.zeros(count)
    return (2 * np.arange(count) + 1) / count - 1


def deform_conv2d(
    x: Operand,
    offset: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    mask: Operand | None = None,
) -> Tensor:
    """Return a convolution that reads each of its taps at a position moved by an offset.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, H, W); real.
    offset : Tensor, ndarray or number
        Shape (N, G · KH · KW · 2, H', W'): for each of G groups of channels and each tap, how far
        it moves along both axes, in elements.
    weight : Tensor, ndarray or number
        Shape (O, C / groups, KH, KW), from which the groups of the convolution follow.
    bias : Tensor, ndarray or number, optional
        Shape (O,); nothing is added if left out.
    stride : int or sequence of int
        Distance of neighbouring windows along each axis, in elements.
    padding : int or sequence of int
        Zeros added at both ends of each axis.
    dilation : int or sequence of int
        Distance of neighbouring kernel elements along each axis, in elements.
    mask : Tensor, ndarray or number, optional
        Shape (N, G · KH · KW, H', W'): a factor of each tap; 1 if left out.

    Returns
    -------
    Tensor
        Shape (N, O, H', W'); the common dtype of `x` and `weight`.

    Raises
    ------
    ShapeError
        If `offset`, `weight`, `bias` or `mask` does not fit.
    ArgumentError
        If a stride, padding or dilation is neither a number nor two.
    DTypeError
        If an operand is complex or float8.
    TypeError
        If one of them is no whole number.

    References
    ----------
    - Dai et al., "Deformable Convolutional Networks", 2017.
    - Zhu et al., "Deformable ConvNets v2: More Deformable, Better Results", 2019 (the mask).

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x, offset = calor.ones((1, 1, 3, 3)), calor.zeros((1, 18, 1, 1))
    >>> functional.deform_conv2d(x, offset, calor.ones((1, 1, 3, 3))).item()
    9.0
    """
    what = "deform_conv2d"
    x, offset, weight = (floating(t, what) for t in as_tensors(x, offset, weight))
    if x.ndim != 4 or weight.ndim != 4 or x.shape[1] % max(weight.shape[1], 1):
        raise ShapeError(
            f"{what}: x {x.shape} and weight {weight.shape} must have four axes, and the channels "
            f"of x be a multiple of the weight's"
        )
    steps, pads, apart = (_two(t, what) for t in (stride, padding, dilation))
    if min(steps) < 1 or min(apart) < 1 or min(pads) < 0:
        raise ArgumentError(
            f"{what}: stride {steps} and dilation {apart} must be at least 1, padding {pads} at "
            f"least 0"
        )
    kernel, image = weight.shape[2:], x.shape[2:]
    if not all(kernel):
        raise ShapeError(f"{what}: weight of shape {weight.shape} has no elements of a kernel")
    counts = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(image, pads, apart, kernel, steps, strict=True)
    )
    taps, windows, batch = prod(kernel), prod(counts), x.shape[0]
    groups = offset.shape[1] // (2 * taps) if offset.ndim == 4 else 0
    if groups < 1 or offset.shape != (batch, groups * taps * 2, *counts) or x.shape[1] % groups:
        raise ShapeError(
            f"{what}: an offset of shape {offset.shape} must be "
            f"{(batch, f'G · {2 * taps}', *counts)}, where G divides the {x.shape[1]} channels"
        )
    if mask is not None and floating(mask, what).shape != (batch, groups * taps, *counts):
        raise ShapeError(
            f"{what}: a mask of shape {floating(mask, what).shape} must be "
            f"{(batch, groups * taps, *counts)}"
        )
    columns = moved_columns(x, offset, mask, kernel, counts, steps, pads, apart)
    shared = x.shape[1] // weight.shape[1]
    parts = calor.reshape(columns, (batch, shared, weight.shape[1] * taps, windows))
    if weight.shape[0] % shared:
        raise ShapeError(
            f"{what}: the {weight.shape[0]} outputs do not divide into {shared} groups"
        )
    weights = calor.reshape(weight, (shared, weight.shape[0] // shared, weight.shape[1] * taps))
    made = calor.reshape(calor.matmul(weights, parts), (batch, weight.shape[0], *counts))
    if bias is None:
        return made
    added = floating(bias, what)
    if added.shape != (weight.shape[0],):
        raise ShapeError(f"{what}: bias of shape {added.shape} must be ({weight.shape[0]},)")
    result: Tensor = made + like(calor.reshape(added, (-1, 1, 1)), made)
    return result


def moved_columns(
    x: Any,
    offset: Any,
    mask: Any,
    kernel: Sequence[int],
    counts: Sequence[int],
    steps: Sequence[int],
    pads: Sequence[int],
    apart: Sequence[int],
) -> Any:
    """Return the taps of all windows of x (N, C, *S), moved by offsets: (N, C, taps, windows).

    ``pads``: the zeros before each axis.
    """
    rank, taps, windows = len(kernel), prod(kernel), prod(counts)
    batch, channels = x.shape[:2]
    groups = offset.shape[1] // (taps * rank)
    taps_at = np.array([*product(*map(range, kernel))]).reshape(-1, rank)
    windows_at = np.array([*product(*map(range, counts))]).reshape(-1, rank)
    offset = wide(calor.reshape(offset, (batch * groups, taps, rank, windows)))
    still = [
        windows_at[:, i] * steps[i] - pads[i] + taps_at[:, i, None] * apart[i] for i in range(rank)
    ]
    table = constant_table(np.stack(still, axis=-1).astype(offset.dtype.numpy), x.device)
    places = calor.permute_dims(offset, (0, 1, 3, 2)) + table
    places = calor.reshape(places, (batch * groups, -1, rank))
    grouped = calor.reshape(x, (batch * groups, channels // groups, *x.shape[2:]))
    made = sample(grouped, places, mode="linear", outside="zeros", align=False, relative=False)
    found = calor.reshape(made, (batch * groups, -1, taps, windows))
    if mask is not None:
        found = found * calor.reshape(mask, (batch * groups, 1, taps, windows))
    return calor.reshape(like(found, x), (batch, channels, taps, windows))


def _two(given: int | Sequence[int], what: str) -> tuple[int, ...]:
    made = (given, given) if isinstance(given, int) else tuple(integer(n, what) for n in given)
    if len(made) != 2:
        raise ArgumentError(f"{what}: {given!r} must be a number, or one for each of two axes")
    return made
