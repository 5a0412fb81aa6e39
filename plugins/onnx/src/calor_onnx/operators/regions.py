"""Regions of images: interpolated samples, and non-maximum suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_nn.functional.samples import read
from calor_onnx.call import Call
from calor_onnx.computing import constant, like, wide
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.windows import positive

# A region with more samples along an axis counts as a mistake.
_SAMPLES = 1 << 16


@operator("RoiAlign", since=16, raw=True)
def roi_align(
    call: Call, x: Any, rois: Any, batch: Any, *,
    coordinate_transformation_mode: str = "half_pixel", mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """Means, or maxima, of samples in a grid of bins over regions (He et al., 2017).

    Without a sampling ratio the number of samples depends on the regions, which are read.
    """
    half = coordinate_transformation_mode == "half_pixel"
    for size in (output_height, output_width):
        positive(size, "output_height or output_width")
    x, corners = call.tensor(x), wide(call.tensor(rois)) * spatial_scale - (0.5 if half else 0.0)
    batch = call.tensor(batch)
    axes = []
    for low, bins, size in ((1, output_height, x.shape[2]), (0, output_width, x.shape[3])):
        start = corners[:, low]
        length = corners[:, low + 2] - start
        if not half:
            length = calor.maximum(length, 1.0)
        if sampling_ratio > 0:
            most, counts = sampling_ratio, None
        else:
            host = call.host(rois).astype(np.float32) * np.float32(spatial_scale)
            extent = host[:, low + 2] - host[:, low]
            extent = extent if half else np.maximum(extent, 1)
            found = np.ceil(np.nan_to_num(extent) / bins)
            most = int(np.maximum(found, 1).max(initial=1))
            if most * bins > _SAMPLES:
                raise ModelError(
                    f"RoiAlign: a region needs {most * bins} samples along an axis, and the limit "
                    f"is {_SAMPLES}; set sampling_ratio"
                )
            found = found.astype(np.int64)
            counts = None if (found == most).all() else constant(found, x.device)
        axes.append(_samples(start, length, bins, most, counts, size))
    made = _read(x, batch, axes, mode)
    return like(made, x)


def _samples(
    start: Any, length: Any, bins: int, most: int, counts: Any, size: int
) -> dict[str, Any]:
    """Return the neighbours of each sample (regions, bins · samples) and their weights."""
    each = calor.reshape(length / bins, (-1, 1, 1))
    number = constant(np.arange(most, dtype=np.float32), length.device)
    step = constant(np.arange(bins, dtype=np.float32)[:, None], length.device)
    count: Any = float(most)
    live = None
    if counts is not None:
        count = calor.reshape(calor.maximum(like(counts, calor.float32), 1.0), (-1, 1, 1))
        live = calor.less(number, calor.reshape(counts, (-1, 1, 1)))
        live = calor.broadcast_to(live, (length.shape[0], bins, most))
    place = calor.reshape(start, (-1, 1, 1)) + step * each + (number + 0.5) * each / count
    inside = calor.logical_and(place >= -1.0, place <= float(size))
    place = calor.clip(place, 0, size - 1)
    low = calor.floor(place)
    share = place - low
    return {
        "low": calor.astype(low, calor.int64),
        "high": calor.astype(calor.minimum(low + 1, size - 1), calor.int64),
        "weights": (calor.where(inside, 1 - share, 0), calor.where(inside, share, 0)),
        "live": live,
        "count": count,
        "bins": bins,
        "most": most,
    }


def _read(x: Any, batch: Any, axes: list[dict[str, Any]], mode: str) -> Any:
    """Return the regions (R, C, height, width) of the samples of both axes."""
    rows, columns = axes
    regions = batch.shape[0]
    shape = (regions, rows["bins"], rows["most"], columns["bins"], columns["most"])

    def spread(t: Any, column: bool) -> Any:
        axis = (1, 2) if column else (3, 4)
        return calor.broadcast_to(calor.expand_dims(t, axis), shape)

    terms = []
    for i, row in enumerate(("low", "high")):
        for j, column in enumerate(("low", "high")):
            at = [
                calor.reshape(spread(t, c), (regions, -1))
                for t, c in ((rows[row], False), (columns[column], True))
            ]
            weight = spread(rows["weights"][i], False) * spread(columns["weights"][j], True)
            values = calor.reshape(read(wide(x), at, batch), (*shape, x.shape[1]))
            terms.append(values * like(calor.expand_dims(weight, -1), values))
    live = None
    for axis, across in ((rows, False), (columns, True)):
        if axis["live"] is not None:
            one = spread(axis["live"], across)
            live = one if live is None else calor.logical_and(live, one)
    if mode == "max":
        top = terms[0]
        for term in terms[1:]:
            top = calor.maximum(top, term)
        if live is not None:
            top = calor.where(calor.expand_dims(live, -1), top, -np.inf)
        return calor.permute_dims(calor.max(top, axis=(2, 4)), (0, 3, 1, 2))
    if mode != "avg":
        raise ModelError(f"RoiAlign: mode is {mode!r}; it must be avg or max")
    total = terms[0] + terms[1] + terms[2] + terms[3]
    if live is not None:
        total = calor.where(calor.expand_dims(live, -1), total, 0)
    total = calor.permute_dims(calor.sum(total, axis=(2, 4)), (0, 3, 1, 2))
    for axis in axes:
        count = axis["count"]
        total = total / (count if isinstance(count, float) else calor.reshape(count, (-1, 1, 1, 1)))
    return total


@operator("RoiAlign", since=10, raw=True)
def roi_align_10(call: Call, x: Any, rois: Any, batch: Any, **attributes: Any) -> Any:
    """As of opset 16, without the half pixel."""
    return roi_align(
        call, x, rois, batch, coordinate_transformation_mode="output_half_pixel", **attributes
    )


@operator("NonMaxSuppression", since=10, raw=True)
def non_max_suppression(
    call: Call, boxes: Any, scores: Any, most: Any = None, iou: Any = None, least: Any = None, *,
    center_point_box: int = 0,
) -> Any:  # fmt: skip
    """The boxes that overlap none with a higher score by more than ``iou``: (kept, 3).

    It runs on the host, because each choice depends on earlier ones.
    """
    limit = 0 if most is None else int(call.host(most).reshape(-1)[0])
    overlap = 0.0 if iou is None else float(call.host(iou).reshape(-1)[0])
    found = []
    if limit > 0:
        values = call.host(scores)
        corners = _corners(call.host(boxes).astype(np.float32), bool(center_point_box))
        bound = None if least is None else float(call.host(least).reshape(-1)[0])
        for sample in range(values.shape[0]):
            for kind in range(values.shape[1]):
                kept = _kept(corners[sample], values[sample, kind], limit, overlap, bound)
                found += [(sample, kind, box) for box in kept]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Any, centred: bool) -> Any:
    """Return boxes as their lowest and highest corners."""
    a, b = boxes[..., :2], boxes[..., 2:]
    if centred:
        return np.concatenate([a - b / 2, a + b / 2], axis=-1)
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=-1)


def _kept(boxes: Any, scores: Any, limit: int, overlap: float, bound: float | None) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    if bound is not None:
        order = order[scores[order] > bound]
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        first, order = int(order[0]), order[1:]
        kept.append(first)
        low = np.maximum(boxes[first, :2], boxes[order, :2])
        high = np.minimum(boxes[first, 2:], boxes[order, 2:])
        shared = np.prod(np.maximum(high - low, 0), axis=1)
        union = area[first] + area[order] - shared
        order = order[~(shared > overlap * union)]
    return kept


@operator("ImageDecoder", since=20, raw=True)
def image_decoder(call: Call, stream: Any, *, pixel_format: str = "RGB") -> Any:
    """The pixels (height, width, channels) of an encoded image, decoded by Pillow on the host."""
    try:
        from PIL import Image
    except ImportError:
        raise ModelError("ImageDecoder needs Pillow: pip install calor-onnx[images]") from None
    from io import BytesIO

    formats = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
    if pixel_format not in formats:
        raise ModelError(f"ImageDecoder: pixel_format {pixel_format!r} is not known")
    try:
        picture = Image.open(BytesIO(call.host(stream).tobytes())).convert(formats[pixel_format])
    except (OSError, Image.DecompressionBombError):
        # By the operator's definition, data that cannot be decoded give an empty image.
        return np.zeros((0, 0, 1 if pixel_format == "Grayscale" else 3), np.uint8)
    pixels = np.asarray(picture)
    if pixel_format == "Grayscale":
        return pixels[:, :, None].copy()
    return np.ascontiguousarray(pixels[:, :, ::-1] if pixel_format == "BGR" else pixels)
