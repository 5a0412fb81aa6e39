"""Shapes: queries, and changes that touch no element."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator
from calor_onnx.sized import array_of, scalar_of


@operator("Shape", raw=True)
def shape(call: Call, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    """The sizes of the axes from ``start`` to ``end``, on the host."""
    return array_of(x.shape[start:end])


@operator("Size", raw=True)
def size(call: Call, x: Any) -> Any:
    """The number of elements, on the host."""
    return scalar_of(prod(x.shape))


@operator("Identity", raw=True)
def identity(call: Call, x: Any) -> Any:
    """The value itself, of whatever kind."""
    return x


def axis_of(axis: int, ndim: int, what: str) -> int:
    """Return an axis counted from the front.

    Raises
    ------
    ModelError
        If the value has no such axis.
    """
    if not -ndim <= axis < ndim:
        raise ModelError(f"{what}: axis {axis} does not fit {ndim} axes")
    return axis % ndim


@operator("Reshape", since=5, host=[1], moves=True)
def reshape(call: Call, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    """The elements in another shape; 0 keeps a size unless ``allowzero``, −1 is inferred."""
    wanted = call.integers(shape)
    if not allowzero:
        if any(n == 0 and i >= x.ndim for i, n in enumerate(wanted)):
            raise ModelError(f"Reshape: {wanted} keeps an axis that {x.shape} does not have")
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    if -1 in wanted and not x.size:
        # −1 is undefined if another size is 0; it becomes 0 then.
        rest = prod(n for n in wanted if n != -1)
        wanted = [(0 if rest else 1) if n == -1 else n for n in wanted]
    return calor.reshape(x, tuple(wanted))


@operator("Reshape", moves=True)
def reshape_1(call: Call, x: Any, *, shape: list[int], consumed_inputs: Any = None) -> Any:
    """The elements under the attribute ``shape``."""
    return reshape(call, x, np.array(shape, np.int64))


@operator("Transpose", moves=True)
def transpose(call: Call, x: Any, *, perm: list[int] | None = None) -> Any:
    """The axes in another order, reversed without ``perm``."""
    return calor.permute_dims(x, tuple(reversed(range(x.ndim)) if perm is None else perm))


@operator("Flatten", moves=True)
def flatten(call: Call, x: Any, *, axis: int = 1) -> Any:
    """A matrix: the axes before ``axis`` made one, and those from it on."""
    if not -x.ndim <= axis <= x.ndim:
        raise ModelError(f"Flatten: axis {axis} does not fit {x.ndim} axes")
    place = axis + x.ndim if axis < 0 else axis
    return calor.reshape(x, (prod(x.shape[:place]), prod(x.shape[place:])))


@operator("Squeeze", since=13, host=[1], moves=True)
def squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    """The value without given axes of size 1, or without all of them."""
    return _squeezed(x, None if axes is None else call.integers(axes))


@operator("Squeeze", moves=True)
def squeeze_1(call: Call, x: Any, *, axes: list[int] | None = None) -> Any:
    """The value without the axes that an attribute names."""
    return _squeezed(x, axes)


def _squeezed(x: Any, axes: list[int] | None) -> Any:
    if axes is None:
        gone = {i for i, n in enumerate(x.shape) if n == 1}
    else:
        gone = {axis_of(a, x.ndim, "Squeeze") for a in axes}
        if any(x.shape[i] != 1 for i in gone):
            raise ModelError(f"Squeeze: the axes {axes} of {x.shape} are not all of size 1")
    return calor.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in gone))


@operator("Unsqueeze", since=13, host=[1], moves=True)
def unsqueeze(call: Call, x: Any, axes: Any) -> Any:
    """The value with new axes of size 1, at places of the result."""
    return _unsqueezed(x, call.integers(axes))


@operator("Unsqueeze", moves=True)
def unsqueeze_1(call: Call, x: Any, *, axes: list[int]) -> Any:
    """The value with new axes, which an attribute names."""
    return _unsqueezed(x, axes)


def _unsqueezed(x: Any, axes: list[int]) -> Any:
    ndim = x.ndim + len(axes)
    new = {axis_of(a, ndim, "Unsqueeze") for a in axes}
    if len(new) != len(axes):
        raise ModelError(f"Unsqueeze: the axes {axes} contain one twice")
    old = iter(x.shape)
    return calor.reshape(x, tuple(1 if i in new else next(old) for i in range(ndim)))


@operator("Expand", since=8, host=[1], moves=True)
def expand(call: Call, x: Any, shape: Any) -> Any:
    """The value repeated along axes of size 1; sizes of 1 in ``shape`` keep those of the value."""
    wanted = calor.broadcast_shapes(x.shape, tuple(call.integers(shape)))
    return calor.broadcast_to(x, wanted)


@operator("Tile", since=6, host=[1], moves=True)
def tile(call: Call, x: Any, repeats: Any) -> Any:
    """The value repeated along each axis."""
    counts = call.integers(repeats)
    if len(counts) != x.ndim:
        raise ModelError(f"Tile: {len(counts)} repeats do not fit {x.ndim} axes")
    return calor.tile(x, tuple(counts))


@operator("Tile", host=[1, 2], moves=True)
def tile_1(call: Call, x: Any, tiles: Any, axis: Any) -> Any:
    """The value repeated along one axis."""
    (count,), (along,) = call.integers(tiles), call.integers(axis)
    repeats = [1] * x.ndim
    repeats[axis_of(along, x.ndim, "Tile")] = count
    return calor.tile(x, tuple(repeats))


@operator("Concat", since=4, moves=True)
def concat(call: Call, *values: Any, axis: int) -> Any:
    """The values one after another along an axis."""
    return calor.concat(values, axis=axis_of(axis, values[0].ndim, "Concat"))


@operator("Concat", moves=True)
def concat_1(call: Call, *values: Any, axis: int = 1) -> Any:
    """The values one after another along an axis, the second where none is named."""
    return concat(call, *values, axis=axis)


@operator("Split", since=13, host=[1], moves=True)
def split(
    call: Call, x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None
) -> Any:
    """The parts of the given sizes along an axis, or as many even ones as there are outputs."""
    sizes = None if split is None else call.integers(split)
    return parts(x, axis, sizes, num_outputs or len(call.node.outputs))


@operator("Split", since=1, host=[1], moves=True)
def split_1(
    call: Call, x: Any, sizes: Any = None, *, axis: int = 0, split: list[int] | None = None
) -> Any:
    """The parts of sizes that an attribute, or in the first opset an input, gives."""
    if sizes is not None:
        split = call.integers(sizes)
    return parts(x, axis, split, len(call.node.outputs))


def parts(x: Any, axis: int, sizes: list[int] | None, count: int) -> tuple[Any, ...]:
    """Return the parts of x along an axis; without sizes the last one may be smaller."""
    place = axis_of(axis, x.ndim, "Split")
    if sizes is None:
        whole = x.shape[place]
        each = -(-whole // count)
        sizes = [max(min(each, whole - i * each), 0) for i in range(count)]
    return tuple(calor.split(x, sizes, axis=place))


@operator("DepthToSpace", moves=True)
def depth_to_space(call: Call, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """Blocks of channels laid out as squares of pixels (the order of dimensions in ``mode``)."""
    n, c, h, w = x.shape
    b, deep = blocksize, c // blocksize**2
    if mode == "DCR":
        split, order = (n, b, b, deep, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, deep, b, b, h, w), (0, 1, 4, 2, 5, 3)
    moved = calor.permute_dims(calor.reshape(x, split), order)
    return calor.reshape(moved, (n, deep, h * b, w * b))


@operator("SpaceToDepth", moves=True)
def space_to_depth(call: Call, x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    """Squares of pixels laid out as channels; the inverse of DepthToSpace."""
    n, c, h, w = x.shape
    b = blocksize
    split = calor.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return calor.reshape(calor.permute_dims(split, order), (n, c * b * b, h // b, w // b))
