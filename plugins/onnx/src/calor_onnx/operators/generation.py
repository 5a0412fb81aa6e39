"""Values that come from sizes and numbers: constants, ranges, identity matrices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import calor
from calor.ops.sources import iota
from calor.sizes import Size
from calor_onnx.call import Call
from calor_onnx.constants import HOST_LIMIT, Constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import Node
from calor_onnx.limits import bounded
from calor_onnx.reading import constant_of
from calor_onnx.registry import operator
from calor_onnx.sized import is_sized
from calor_onnx.types import calor_type, numpy_type
from calor_onnx.values import dtype_of


@operator("Constant", raw=True)
def constant(call: Call, **attributes: Any) -> Any:
    """What one attribute holds; graphs have such nodes as constants, functions may have them."""
    held: Constant = constant_of(Node("Constant", "", 1, "", [], [], attributes))
    return call.run.constant(held)


@operator("ConstantOfShape", since=9, raw=True)
def constant_of_shape(call: Call, shape: Any, *, value: Any = None) -> Any:
    """One number, 0 in float32 without ``value``, in all places of a shape."""
    number = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    sizes = tuple(call.integers(shape))
    known = calor_type(number.dtype)
    if any(n < 0 for n in sizes):
        raise ModelError(f"{call.node.label}: ConstantOfShape of {list(sizes)} has a negative size")
    bounded(sizes, number.itemsize, call.node.label)
    count = prod(sizes)
    if known is not None and any(isinstance(n, Size) for n in sizes):
        return calor.broadcast_to(call.tensor(number.reshape(())), sizes)
    if known is None or count <= HOST_LIMIT:
        return np.broadcast_to(number, sizes).copy() if count else np.empty(sizes, number.dtype)
    return calor.broadcast_to(call.tensor(number.reshape(())), sizes)


def _sized_range(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    """Return the range up to a symbolic size, on the device."""
    first, step = (call.host(x).reshape(()).item() for x in (start, delta))
    if first != int(first) or step != int(step):
        raise ModelError(f"{call.node.label}: a Range up to a symbolic size has no whole steps")
    first, step = int(first), int(step)
    if not step:
        raise ModelError(f"{call.node.label}: Range has a step of 0")
    (end,) = call.integers(limit)
    count = max(-((first - end) // step), 0)
    with calor.device(call.device):
        numbers = iota(length=count, dtype=calor.int64)
    return calor.astype(numbers * step + first, calor_type(dtype_of(start)))


@operator("Range", since=11, raw=True)
def range_(call: Call, start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Any:
    """The numbers from ``start`` to before ``limit`` in steps of ``delta``."""
    if is_sized(limit) and not is_sized(start) and not is_sized(delta):
        return _sized_range(call, start, limit, delta)
    first, end, step = (call.host(x).reshape(()) for x in (start, limit, delta))
    kind = dtype_of(start)
    if not step:
        raise ModelError(f"{call.node.label}: Range has a step of 0")
    if kind.kind in "iu":
        a, b, d = int(first), int(end), int(step)
        count = max(-((a - b) // d), 0)
        bounded((count,), 8, call.node.label)
        numbers = a + d * np.arange(count, dtype=np.int64)
    else:
        # Half types are computed in float32.
        wide = np.dtype(np.float64 if kind == np.float64 else np.float32)
        count = max(int(np.ceil((float(end) - float(first)) / float(step))), 0)
        bounded((count,), 8, call.node.label)
        numbers = first.astype(wide) + step.astype(wide) * np.arange(count, dtype=wide)
    return numbers.astype(kind)


@operator("EyeLike", since=9, raw=True)
def eye_like(call: Call, x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    """A matrix of x's shape with ones on the k-th diagonal."""
    kind = calor_type(dtype_of(x) if dtype is None else numpy_type(dtype))
    rows, columns = x.shape
    return calor.eye(rows, columns, k=k, dtype=kind, device=call.device)


@operator("Trilu", since=14, host=[1])
def trilu(call: Call, x: Any, k: Any = None, *, upper: int = 1) -> Any:
    """The upper, or lower, triangle of matrices from the k-th diagonal on; 0 elsewhere."""
    diagonal = 0 if k is None else call.integers(k)[0]
    return calor.triu(x, k=diagonal) if upper else calor.tril(x, k=diagonal)


@operator("OneHot", since=9, host=[1])
def one_hot(call: Call, indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    """Along a new axis the second of two values at the index, the first elsewhere."""
    (size,) = call.integers(depth)
    if not indices.dtype.is_integer:
        indices = calor.astype(indices, calor.int64)
    # Negative indices count from the end; those out of range match no class.
    indices = calor.astype(indices, calor.int64)
    wrapped = calor.where(calor.less(indices, 0), indices + size, indices)
    place = axis % (indices.ndim + 1)
    shape = [1] * (indices.ndim + 1)
    shape[place] = size
    numbers = calor.reshape(calor.arange(size, device=call.device), tuple(shape))
    hit = calor.equal(calor.expand_dims(wrapped, place), numbers)
    off, on = calor.unstack(values)
    return calor.where(hit, on, off)
