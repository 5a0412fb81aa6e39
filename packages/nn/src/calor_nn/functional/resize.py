"""Resizing of signals, images and volumes.

Requirements: the conventions are PyTorch's, those of other frameworks differ by half a pixel. An
axis is resized by weighted sums of a few elements, whose indices and weights follow from sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.arguments import integer
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, stretched
from calor_nn.functional.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from calor_nn.functional.resampling import Taps, picked, resampled

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

ResizeMode = Literal[
    "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"
]

# How many spatial axes each mode is for; None: 1 to 3.
_RANKS: dict[str, int | None] = {
    "nearest": None,
    "nearest-exact": None,
    "area": None,
    "linear": 1,
    "bilinear": 2,
    "trilinear": 3,
    "bicubic": 2,
}
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


def interpolate(
    x: Operand,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: ResizeMode = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Return signals, images or volumes resized to other spatial sizes.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Shape (N, C, *S) with one to three spatial axes.
    size : int or sequence of int, optional
        The new spatial sizes, in elements; give this or `scale_factor`.
    scale_factor : float or sequence of float, optional
        What the sizes are multiplied by, the products rounded down.
    mode : str
        "nearest" (the element below), "nearest-exact" (the element whose centre is nearest),
        "linear" for (L), "bilinear" for (H, W), "trilinear" for (D, H, W), "bicubic" for (H, W), or
        "area" (means of windows).
    align_corners : bool
        Map the centres of the corner elements onto each other, in the linear and cubic modes;
        otherwise the outer edges of the elements are mapped.
    antialias : bool
        In the linear and cubic modes, widen the filter where the image is made smaller, so that
        each result is a mean of all elements that it covers, as in PIL.

    Returns
    -------
    Tensor
        Shape (N, C, *S'); the dtype of `x`, float32 for integers in the modes that compute means.

    Raises
    ------
    ArgumentError
        If `mode` is unknown, both or neither of `size` and `scale_factor` are given, or
        `align_corners` or `antialias` is given for a mode without it.
    ShapeError
        If `x` does not have the mode's number of spatial axes, or a size is below 1.
    DTypeError
        If `x` is not a tensor, array or number, or a mode that computes means gets complex or
        float8.
    TypeError
        If a size is not a whole number.

    References
    ----------
    Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981 (with a = −0.75).

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> functional.interpolate(calor.asarray([[[0.0, 1.0]]]), 4, mode="linear").tolist()
    [[[0.0, 0.25, 0.75, 1.0]]]
    """
    x, rank = as_tensor(x), as_tensor(x).ndim - 2
    wanted = _RANKS.get(mode, 0)
    if wanted == 0:
        raise ArgumentError(
            f"interpolate: mode {mode!r} is unknown; choose one of {', '.join(_RANKS)}"
        )
    if not 1 <= rank <= 3 or wanted not in (None, rank):
        raise ShapeError(
            f"interpolate: mode {mode!r} is for {wanted or '1 to 3'} spatial axes after batch and "
            f"channels, not for shape {x.shape}"
        )
    if align_corners and wanted is None:
        raise ArgumentError(f"interpolate: mode {mode!r} has no corners; leave align_corners False")
    if antialias and wanted is None:
        raise ArgumentError(f"interpolate: mode {mode!r} has no filter; leave antialias False")
    sizes, scales = _sizes(x, size, scale_factor, rank)
    if mode == "area":
        return _AREA[rank - 1](x, sizes)
    if mode.startswith("nearest"):
        return _nearest(x, sizes, scales, mode == "nearest-exact").copy()
    x = floating(x, "interpolate")
    axis = 2
    while axis < x.ndim:
        taps: list[Taps] = []
        for old, size, scale in zip(
            x.shape[axis:], sizes[axis - 2 :], scales[axis - 2 :], strict=True
        ):
            terms = _filtered if antialias else _smooth
            one = terms(old, size, scale, mode == "bicubic", align_corners)
            if one is None:
                break
            taps.append(one)
        if taps:
            x = resampled(x, axis, taps)
        axis += max(len(taps), 1)
    return x.copy()


def _sizes(
    x: Tensor, size: Any, factor: Any, rank: int
) -> tuple[tuple[int, ...], list[float | None]]:
    """Return the new sizes, and the scale factors where they were given."""
    if (size is None) == (factor is None):
        raise ArgumentError("interpolate: give either size or scale_factor")
    if size is not None:
        given = tuple(size) if isinstance(size, Sequence) else (size,) * rank
        sizes = tuple(integer(n, "interpolate: size") for n in given)
        scales: list[float | None] = [None] * rank
    else:
        factors = tuple(factor) if isinstance(factor, Sequence) else (factor,) * rank
        if not all(isinstance(f, float | int | np.number) and 0 < f < inf for f in factors):
            raise ArgumentError(
                f"interpolate: scale_factor {factor!r} is no finite number above 0; pass one, or "
                f"one for each of the {rank} axes"
            )
        sizes = tuple(int(n * f) for n, f in zip(x.shape[2:], factors, strict=False))
        scales = list(factors)
    if len(sizes) != rank or len(scales) != rank or any(n < 1 for n in sizes) or not x.size:
        raise ShapeError(
            f"interpolate: shape {x.shape} cannot be resized to {sizes}; give {rank} sizes above 0"
        )
    return sizes, scales


def _ratio(old: int, size: int, factor: float | None) -> float:
    """Return the distance of the results in elements of an axis."""
    return old / size if factor is None else 1 / factor


def _repeated(x: Tensor, sizes: Sequence[int], factors: Sequence[float | None]) -> Tensor:
    """Return x with the axes resized whose elements are repeated as a whole.

    Repetitions of all axes are one view, whose gradient is one sum.
    """
    narrow, wide, made = list(x.shape[:2]), list(x.shape[:2]), list(x.shape[:2])
    for old, size, factor in zip(x.shape[2:], sizes, factors, strict=True):
        whole = size % old == 0 and size != old and _ratio(old, size, factor) == old / size
        narrow += [old, 1] if whole else [old]
        wide += [old, size // old] if whole else [old]
        made.append(size if whole else old)
    if len(narrow) == x.ndim:
        return x
    return reshape(stretched(reshape(x, tuple(narrow)), tuple(wide)), tuple(made))


def _nearest(
    x: Tensor, sizes: Sequence[int], factors: Sequence[float | None], exact: bool
) -> Tensor:
    """Return the elements that are nearest to the results."""
    before, x = x.shape, _repeated(x, sizes, factors)
    places: list[np.ndarray[Any, Any] | None] = [
        None if x.shape[axis] != before[axis] else _nearest_places(x.shape[axis], *one, exact)
        for axis, one in enumerate(zip(sizes, factors, strict=True), 2)
    ]
    axis = 2
    while axis < x.ndim:
        here: list[np.ndarray[Any, Any]] = []
        for one in places[axis - 2 :]:
            if one is None:
                break
            here.append(one)
        if here:
            x = picked(x, axis, here)
        axis += max(len(here), 1)
    return x


def _nearest_places(
    old: int, size: int, factor: float | None, exact: bool
) -> np.ndarray[Any, Any] | None:
    """Return the places of the results along an axis, None if it stays as it is."""
    if size == old and factor in (None, 1.0):
        return None
    centre = np.arange(size) + (0.5 if exact else 0.0)
    # PyTorch computes the indices in float32.
    ratio = np.float32(_ratio(old, size, factor))
    where = np.floor(centre.astype(np.float32) * ratio).astype(np.int64)
    return np.asarray(np.minimum(where, old - 1))


def _smooth(old: int, size: int, factor: float | None, cubic: bool, align: bool) -> Taps | None:
    """Return the 2 or 4 terms of the results along an axis, None if it stays as it is."""
    if size == old and (align or factor in (None, 1.0)):
        return None
    if align:
        source = np.arange(size) * ((old - 1) / (size - 1) if size > 1 else 0.0)
    else:
        source = (np.arange(size) + 0.5) * (old / size if factor is None else 1 / factor) - 0.5
        source = source if cubic else np.maximum(source, 0.0)
    first = np.floor(source).astype(np.int64)
    share = source - first
    taps = _cubic(share) if cubic else [(0, 1 - share), (1, share)]
    where = [np.clip(first + offset, 0, old - 1) for offset, _ in taps]
    return Taps(np.stack(where, 1), np.stack([weights for _, weights in taps], 1), old)


def _filtered(old: int, size: int, factor: float | None, cubic: bool, align: bool) -> Taps | None:
    """Return the terms of a filter that is as wide as the results are apart, at least 2 or 4."""
    if size == old and (align or factor in (None, 1.0)):
        return None
    if align:
        apart = (old - 1) / (size - 1) if size > 1 else 0.0
    else:
        apart = old / size if factor is None else 1 / factor
    wide = max(apart, 1.0)
    reach = (2.0 if cubic else 1.0) * wide
    centre = (np.arange(size) + 0.5) * apart
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), old)
    where = first[:, None] + np.arange(max(int((last - first).max()), 1))
    distance = np.abs((where - centre[:, None] + 0.5) / wide)
    weights = _keys(distance, -0.5) if cubic else np.maximum(1 - distance, 0.0)
    inside = where < last[:, None]
    weights = np.where(inside, weights, 0.0)
    weights /= weights.sum(1, keepdims=True)
    return Taps(np.where(inside, where, -1), weights, old)


def _keys(d: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Return Keys' cubic convolution kernel at distances (Keys, 1981)."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d < 1, near, np.where(d < 2, far, 0.0))


def _cubic(t: np.ndarray[Any, Any]) -> list[tuple[int, np.ndarray[Any, Any]]]:
    """Return offsets and weights of Keys' cubic convolution with a = −0.75 (Keys, 1981)."""
    a = -0.75

    def near(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(((a + 2) * d - (a + 3)) * d * d + 1)

    def far(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(((a * d - 5 * a) * d + 8 * a) * d - 4 * a)

    return [(-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))]
