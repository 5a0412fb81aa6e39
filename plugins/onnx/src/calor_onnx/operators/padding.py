"""Adding elements at the ends of axes, and taking them away."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

import calor
from calor.sizes import Size
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.limits import bounded
from calor_onnx.operators.shape import axis_of
from calor_onnx.registry import operator

# NumPy's names of the modes.
_MODES: dict[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@operator("Pad", since=11, host=[1, 3], moves=True)
def pad(
    call: Call, x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str = "constant"
) -> Any:
    """x with elements added before and after along axes; negative numbers take them away."""
    widths = call.integers(pads)
    along = range(x.ndim) if axes is None else call.integers(axes)
    return padded(x, widths, [axis_of(a, x.ndim, "Pad") for a in along], value, mode)


@operator("Pad", since=2, moves=True)
def pad_2(call: Call, x: Any, *, pads: list[int], mode: str = "constant", value: float = 0) -> Any:
    """x with as many elements added as an attribute says."""
    return padded(x, pads, [*range(x.ndim)], value or None, mode)


@operator("Pad", moves=True)
def pad_1(
    call: Call, x: Any, *, paddings: list[int], mode: str = "constant", value: float = 0
) -> Any:  # fmt: skip
    """x with as many elements added as an attribute says."""
    return padded(x, paddings, [*range(x.ndim)], value or None, mode)


def padded(x: Any, widths: list[int], axes: list[int], value: Any, mode: str) -> Any:
    """Return x with widths (all before, then all after) of elements added along axes."""
    if len(widths) != 2 * len(axes):
        raise ModelError(f"Pad: {len(axes)} axes need {2 * len(axes)} widths, not {len(widths)}")
    if mode != "constant" and mode not in _MODES:
        raise ModelError(f"Pad: mode is {mode!r}; it must be one of constant, {', '.join(_MODES)}")
    ends = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        ends[axis] = widths[i], widths[i + len(axes)]
    if any(n < 0 for pair in ends for n in pair):
        cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(ends, x.shape, strict=True)]
        x = x[tuple(cut)]
        ends = [(max(a, 0), max(b, 0)) for a, b in ends]
    if mode == "constant":
        fill = 0 if value is None else value
        return calor.pad(x, ends, value=fill if isinstance(fill, float | int) else fill.reshape(()))
    for axis, pair in enumerate(ends):
        if any(pair):
            size = x.shape[axis]
            bounded((size + sum(pair),), 8, "Pad")
            if isinstance(size, Size) and max(pair) <= _reach(mode, size):
                # The sizes of a graph of many sizes are no numbers that NumPy knows.
                around = [pair if a == axis else (0, 0) for a in range(x.ndim)]
                x = calor.pad(x, around, mode=_MODES[mode])
                continue
            places = np.pad(np.arange(int(size)), pair, mode=_MODES[mode])
            x = calor.take(x, calor.asarray(places, device=x.device), axis=axis)
    return x


def _reach(mode: str, size: Any) -> Any:
    """Return how many elements may be added at an end before a mode repeats what it added."""
    return {"reflect": size - 1, "wrap": size, "edge": inf}[mode]


@operator("CenterCropPad", since=18, host=[1], moves=True)
def center_crop_pad(call: Call, x: Any, shape: Any, *, axes: list[int] | None = None) -> Any:
    """The middle of x, or x in the middle of zeros, so that axes have the wanted sizes."""
    along = [axis_of(a, x.ndim, "CenterCropPad") for a in axes or range(x.ndim)]
    before, after = [], []
    for axis, size in zip(along, call.integers(shape), strict=True):
        more = size - x.shape[axis]
        first = more // 2 if more >= 0 else -(-more // 2)
        before.append(first)
        after.append(more - first)
    return padded(x, [*before, *after], along, None, "constant")
