"""Shapes: asking for them, and changing them without touching an element."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator


@operator("Shape", raw=True)
def shape(call: Call, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    """The sizes of the axes from ``start`` to ``end``, on the host."""
    return np.array(x.shape[start:end], np.int64)


@operator("Size", raw=True)
def size(call: Call, x: Any) -> Any:
    """The number of elements, on the host."""
    return np.array(prod(x.shape), np.int64)


@operator("Identity", raw=True)
def identity(call: Call, x: Any) -> Any:
    """The value itself, of whatever kind."""
    return x


@operator("Reshape", since=5, host=[1], moves=True)
def reshape(call: Call, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    """The elements under another shape; 0 keeps a size unless ``allowzero``, −1 is what is left."""
    wanted = call.integers(shape)
    if not allowzero:
        if any(n == 0 and i >= x.ndim for i, n in enumerate(wanted)):
            raise ModelError(f"Reshape: {wanted} keeps an axis that {x.shape} does not have")
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return reshaped(x, wanted)


def reshaped(x: Any, wanted: list[int]) -> Any:
    """Return x under a shape in which one size may be −1, also where there are no elements."""
    if -1 in wanted and 0 in wanted:
        wanted = [0 if n == -1 else n for n in wanted]
    return calor.reshape(x, tuple(wanted))


@operator("Reshape", moves=True)
def reshape_1(call: Call, x: Any, *, shape: list[int], consumed_inputs: Any = None) -> Any:
    """The elements under the attribute ``shape``."""
    return reshape(call, x, np.array(shape, np.int64))


@operator("Transpose", moves=True)
def transpose(call: Call, x: Any, *, perm: list[int] | None = None) -> Any:
    """The axes in another order, reversed without ``perm``."""
    return calor.permute_dims(x, tuple(reversed(range(x.ndim)) if perm is None else perm))
