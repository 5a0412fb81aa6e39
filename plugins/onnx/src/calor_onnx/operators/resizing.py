"""Resize and Upsample: each axis separately, as weighted sums of a few elements.

Requirements: positions and weights depend on sizes and attributes only, so they are constants of
the graph. A nearest resize that repeats elements equally is a view. A sum reads its own elements
alone, so one that is not finite is in no other sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import calor
from calor.sizes import Size
from calor_nn.functional.resampling import Taps, resampled
from calor_onnx.call import Call
from calor_onnx.computing import constant, like, wide
from calor_onnx.errors import ModelError
from calor_onnx.limits import bounded
from calor_onnx.registry import operator

Array = np.ndarray[Any, Any]


def sources(
    mode: str, size: int, scale: float, made: int, roi: tuple[float, float] | None
) -> tuple[Array, Array | None]:
    """Return the source position of each new element, and which ones lie outside of a crop.

    They are computed in float32 as in other frameworks: near an integer or a midpoint, the last bit
    decides which element is nearest.
    """
    bounded((made,), 8, "Resize")
    place = np.arange(made, dtype=np.float32)
    width = scale * size
    if mode == "align_corners":
        return place * ((size - 1) / (width - 1) if width != 1 else 0.0), None
    if mode == "asymmetric":
        return place / np.float32(scale), None
    if mode == "tf_crop_and_resize":
        start, end = roi if roi is not None else (0.0, 1.0)
        if width == 1:
            found = np.full(made, 0.5 * (start + end) * (size - 1))
        else:
            found = start * (size - 1) + place * (end - start) * (size - 1) / (width - 1)
        return found, (found < 0) | (found > size - 1)
    if mode == "pytorch_half_pixel" and width == 1:
        return np.full(made, -0.5), None
    if mode not in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"):
        raise ModelError(
            f"Resize: coordinate_transformation_mode is {mode!r}, which ONNX does not define"
        )
    found = (place + 0.5) / np.float32(scale) - 0.5
    if mode == "half_pixel_symmetric":
        found += size / 2 * (1 - made / width)
    return found, None


def nearest(source: Array, mode: str) -> Array:
    """Return the nearest index of each source position by a rounding mode."""
    if mode == "floor":
        return np.floor(source)
    if mode == "ceil":
        return np.ceil(source)
    if mode == "round_prefer_floor":
        return np.ceil(source - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(source + 0.5)
    raise ModelError(f"Resize: nearest_mode is {mode!r}, which ONNX does not define")


def _triangle(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _keys(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def taps(
    source: Array, cubic: bool, a: float, stretch: float, size: int, exclude: bool
) -> tuple[Array, Array]:
    """Return indices and weights (made, taps) of a kernel, stretched for antialiasing."""
    reach = (2 if cubic else 1) / stretch
    count = 2 * math.ceil(reach)
    place = np.floor(source)[:, None] + np.arange(count) - count // 2 + 1
    distance = (place - source[:, None]) * stretch
    weight = _keys(distance, a) if cubic else _triangle(distance)
    if exclude:
        weight = np.where((place < 0) | (place >= size), 0, weight)
    if exclude or stretch != 1:
        total = weight.sum(1, keepdims=True)
        weight = weight / np.where(total == 0, 1, total)
    return np.clip(place, 0, size - 1).astype(np.int64), weight


def picked(x: Any, axis: int, place: Array) -> Any:
    """Return x at integer positions along an axis; a view if each is repeated equally often."""
    size, made = x.shape[axis], len(place)
    if size and made % size == 0 and (place == np.repeat(np.arange(size), made // size)).all():
        return repeated(x, axis, made // size)
    return calor.take(x, constant(place.astype(np.int64), x.device), axis=axis)


def _scaled(size: int, scale: float) -> int:
    """Return the new size of an axis, which may be symbolic if the scale is a whole number."""
    whole = scale == int(scale) and isinstance(size, Size)
    return size * int(scale) if whole else int(size * scale)


def _repeats(coordinates: str, rounding: str, scale: float) -> int:
    """Return how often each element is repeated at any size; 0 unless that is known.

    The position of element i is below i / scale by less than 1 and never halfway.
    """
    count = int(scale)
    if count != scale or count < 1:
        return 0
    if coordinates == "asymmetric":
        return count if rounding == "floor" else 0
    rounds = rounding in ("round_prefer_floor", "round_prefer_ceil")
    return count if coordinates == "half_pixel" and rounds else 0


def repeated(x: Any, axis: int, count: int) -> Any:
    """Return x with each element along an axis repeated, as a view."""
    size, front, back = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    wider = calor.broadcast_to(
        calor.reshape(x, (*front, size, 1, *back)), (*front, size, count, *back)
    )
    return calor.reshape(wider, (*front, size * count, *back))


def targets(
    x: Any, scales: list[float] | None, sizes: list[int] | None, axes: list[int], policy: str
) -> tuple[list[float], list[int]]:
    """Return the scale and the new size of each of the axes."""
    old = [x.shape[axis] for axis in axes]
    if (scales is None) == (sizes is None):
        raise ModelError(
            "Resize: both or none of scales and sizes are given; exactly one is needed"
        )
    given = scales if scales is not None else sizes
    if given is None or len(given) != len(axes):
        raise ModelError(f"Resize: {given} needs one entry for each of the axes {axes}")
    if not all((n > 0 or n == 0 == m) and n < 2**31 for n, m in zip(given, old, strict=True)):
        raise ModelError(f"Resize: scales and sizes must be above 0 and below 2³¹, not {given}")
    if sizes is None:
        return list(given), [_scaled(n, s) for n, s in zip(old, given, strict=True)]
    found = [m / n if n else 1.0 for m, n in zip(sizes, old, strict=True)]
    if policy == "stretch":
        return found, list(sizes)
    if policy not in ("not_larger", "not_smaller"):
        raise ModelError(
            f"Resize: keep_aspect_ratio_policy is {policy!r}, which ONNX does not define"
        )
    one = min(found) if policy == "not_larger" else max(found)
    return [one] * len(axes), [int(one * n + 0.5) for n in old]


@operator("Resize", since=11, host=[1, 2, 3])
def resize(
    call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *,
    antialias: int = 0, axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    """x with other sizes of its axes."""
    if mode not in ("nearest", "linear", "cubic"):
        raise ModelError(f"Resize: mode is {mode!r}; it must be nearest, linear or cubic")
    along = [axis % x.ndim for axis in (axes if axes is not None else range(x.ndim))]
    by = None if scales is None or not scales.size else [float(s) for s in scales.reshape(-1)]
    to = None if sizes is None or not sizes.size else call.integers(sizes)
    factors, made = targets(x, by, to, along, keep_aspect_ratio_policy)
    crop = None if roi is None or not roi.size else [float(n) for n in roi.reshape(-1)]
    kind, y = x, x if mode == "nearest" else wide(x)
    if mode != "nearest" and not y.dtype.is_floating:
        y = calor.astype(y, calor.float32)
    for number, (axis, scale, size) in enumerate(zip(along, factors, made, strict=True)):
        part = None if crop is None else (crop[number], crop[number + len(along)])
        same = math.isclose(scale, 1.0) and size == x.shape[axis]
        if same and (coordinate_transformation_mode != "tf_crop_and_resize" or
                     part in (None, (0.0, 1.0))):  # fmt: skip
            continue
        count = _repeats(coordinate_transformation_mode, nearest_mode, scale)
        if mode == "nearest" and count and size == x.shape[axis] * count:
            y = repeated(y, axis, count)
            continue
        source, beyond = sources(coordinate_transformation_mode, x.shape[axis], scale, size, part)
        if mode == "nearest":
            place = np.clip(nearest(source, nearest_mode), 0, x.shape[axis] - 1)
            y = picked(y, axis, place.astype(np.int64))
        else:
            stretch = min(scale, 1.0) if antialias else 1.0
            old = int(x.shape[axis])
            place, weight = taps(
                source, mode == "cubic", cubic_coeff_a, stretch, old, bool(exclude_outside)
            )
            y = resampled(y, axis, [Taps(place, weight, old)])
        if beyond is not None and beyond.any():
            shape = [1] * x.ndim
            shape[axis] = size
            y = calor.where(constant(beyond.reshape(shape), x.device), extrapolation_value, y)
    if kind.dtype.is_integer and mode != "nearest":
        limits = calor.iinfo(kind.dtype)
        y = calor.clip(calor.trunc(y), limits.min, limits.max)
    return like(y, kind)


@operator("Resize", since=10, host=[1])
def resize_10(call: Call, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """Resize before it had coordinates to choose from."""
    return resize(
        call, x, None, scales, mode="linear" if mode in ("bilinear", "linear") else mode,
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


@operator("Upsample", since=9, host=[1])
def upsample(call: Call, x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    """Resize with scales of 1 or more."""
    return resize_10(call, x, scales, mode=mode)


@operator("Upsample", since=7)
def upsample_7(call: Call, x: Any, *, scales: list[float], mode: str = "nearest") -> Any:
    """As of opset 9, with scales as an attribute."""
    return resize_10(call, x, np.array(scales, np.float32), mode=mode)


@operator("Upsample")
def upsample_1(
    call: Call, x: Any, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Any:
    """As of opset 9, for images."""
    return upsample_7(call, x, scales=[1.0, 1.0, height_scale, width_scale], mode=mode)
