"""Ops that create or move elements, and those with computed positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import bool_, float32, float64, int64
from calor_onnx.exporting.errors import Refused
from calor_onnx.exporting.graphs import row
from calor_onnx.exporting.pairs import number
from calor_onnx.exporting.program import Step
from calor_onnx.exporting.sizes import Dimension, Number, Ramp, Size, Triangle, total
from calor_onnx.exporting.writer import TO_END, TO_START, Writer

# The model computes ramps with more elements.
_RAMP = 1024


@row("full")
def full(w: Writer, step: Step) -> str:
    made = number(w, step.attributes["value"], step.gives[0].dtype)
    shape = step.gives[0].shape
    return w.broadcast(made, shape) if shape else made


@row("constant")
def constant(w: Writer, step: Step) -> str:
    array = step.attributes["array"]
    dtype = step.gives[0].dtype
    if isinstance(array, Number):
        return number(w, array, dtype)
    if isinstance(array, Triangle):
        rows = w.reshape(ramp(w, array.rows), [array.rows, 1])
        ends = w.call("Add", rows, w.constant(array.diagonal, int64))
        within = w.call("LessOrEqual", ramp(w, array.columns), ends, result=bool_)
        return w.cast(within if array.lower else w.call("Not", within), dtype)
    if isinstance(array, Ramp):
        wide = float64 if dtype.is_floating else int64
        places = w.cast(ramp(w, array.length), wide)
        scaled = w.call("Mul", places, w.constant(array.step, wide))
        return w.cast(w.call("Add", scaled, w.constant(array.start, wide)), dtype)
    return w.constant(array.array, dtype)


@row("iota")
def iota(w: Writer, step: Step) -> str:
    length, dtype = step.attributes["length"], step.attributes["dtype"]
    if isinstance(length, int) and length <= _RAMP:
        return w.constant(np.arange(length).astype(dtype.numpy))
    return w.cast(ramp(w, length), dtype)


def ramp(w: Writer, length: Dimension) -> str:
    """Return the name of the integers below a size."""
    stop = w.reshape(w.size(length), ())
    ends = [w.constant(0, int64), stop, w.constant(1, int64)]
    return w.emit("Range", ends, (int64,))[0]


@row("reshape")
def reshape(w: Writer, step: Step, x: str) -> str:
    return w.reshape(x, step.gives[0].shape)


@row("permute")
def permute(w: Writer, step: Step, x: str) -> str:
    return w.transpose(x, step.attributes["axes"])


@row("expand")
def expand(w: Writer, step: Step, x: str) -> str:
    return w.broadcast(x, step.gives[0].shape)


def sliced(w: Writer, x: str, starts: Any, stops: Any, axes: Any, steps: Any) -> str:
    """Return a slice of a value; a slice of everything writes no node."""
    if not axes:
        return x
    places = [w.vector(starts), w.vector(stops), w.integers(axes), w.integers(steps)]
    return w.emit("Slice", [x, *places], (w.type_of(x),))[0]


@row("slice")
def slice_(w: Writer, step: Step, x: str) -> str:
    shape, attributes = step.takes[0].shape, step.attributes
    starts, stops, axes, steps = [], [], [], []
    given = zip(attributes["starts"], attributes["stops"], attributes["steps"], strict=True)
    for axis, (start, stop, by) in enumerate(given):
        if isinstance(by, Size):
            raise Refused("the step of a slice depends on a symbolic size")
        end = TO_END if stop == shape[axis] and by > 0 else TO_START if stop == -1 else stop
        if (start, end, by) != (0, TO_END, 1):
            starts.append(start)
            stops.append(end)
            axes.append(axis)
            steps.append(by)
    return sliced(w, x, starts, stops, axes, steps)


@row("flip")
def flip(w: Writer, step: Step, x: str) -> str:
    axes = list(step.attributes["axes"])
    ones = [-1] * len(axes)
    return sliced(w, x, ones, [TO_START] * len(axes), axes, ones)


@row("concat")
def concat(w: Writer, step: Step, *names: str) -> str:
    axis = step.attributes["axis"]
    return w.emit("Concat", names, (w.type_of(names[0]),), axis=axis)[0]


def padded(w: Writer, x: str, value: str, low: Any, high: Any) -> str:
    """Return a value with elements added at both ends of its axes."""
    if not any(map(bool, (*low, *high))):
        return x
    places = w.vector([*low, *high])
    return w.call("Pad", x, places, value, typed=[0, 2], mode="constant")


@row("pad")
def pad(w: Writer, step: Step, x: str, value: str) -> str:
    shape = list(step.takes[0].shape)
    for axis, inner in enumerate(step.attributes["interior"]):
        if not inner or shape[axis] == 0:
            continue
        # Each element gets an axis of its own, padded at its end; the last padding is cut off.
        apart = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
        high = [0] * len(apart)
        high[axis + 1] = inner
        wide = padded(w, w.reshape(x, apart), value, [0] * len(apart), high)
        shape[axis] = shape[axis] * (inner + 1)
        x = sliced(w, w.reshape(wide, shape), [0], [-inner], [axis], [1])
        shape[axis] = shape[axis] - inner
    return padded(w, x, value, step.attributes["low"], step.attributes["high"])


def _fitting(w: Writer, starts: str, shape: Any, sizes: Any) -> str:
    """Return starts as int64, clamped so that a slice of these sizes fits."""
    last = w.vector([n - m for n, m in zip(shape, sizes, strict=True)])
    return w.call("Max", w.call("Min", w.cast(starts, int64), last), w.integers([0] * len(sizes)))


@row("dynamic_slice")
def dynamic_slice(w: Writer, step: Step, x: str, starts: str) -> str:
    sizes = step.attributes["sizes"]
    if not sizes:
        return x
    first = _fitting(w, starts, step.takes[0].shape, sizes)
    last = w.call("Add", first, w.vector(sizes))
    return w.emit("Slice", [x, first, last], (w.type_of(x),))[0]


@row("dynamic_update_slice")
def dynamic_update_slice(w: Writer, step: Step, x: str, update: str, starts: str) -> str:
    shape, sizes = step.takes[0].shape, step.takes[1].shape
    if not shape:
        return update
    first = _fitting(w, starts, shape, sizes)
    places = ""
    for axis, size in enumerate(sizes):
        start = sliced(w, first, [axis], [axis + 1], [0], [1])
        along = w.call("Mul", w.call("Add", ramp(w, size), start), w.size(total(shape[axis + 1 :])))
        along = w.reshape(along, [size, *[1] * (len(sizes) - axis - 1)])
        places = w.call("Add", places, along) if places else along
    flat, parts = w.reshape(x, [total(shape)]), w.reshape(update, [total(sizes)])
    given = [flat, w.reshape(places, [total(sizes)]), parts]
    return w.reshape(w.emit("ScatterElements", given, (w.type_of(x),))[0], shape)


_READS = {"gather": "Gather", "gather_nd": "GatherND", "take_along": "GatherElements"}
_WRITES = {"scatter_nd": "ScatterND", "scatter_along": "ScatterElements"}


def _indices(w: Writer, name: str) -> str:
    return name if w.type_of(name).name == "int32" else w.cast(name, int64)


@row(*_READS)
def gather(w: Writer, step: Step, x: str, indices: str) -> str:
    places = w.cast(indices, int64) if step.op.name == "gather_nd" else _indices(w, indices)
    given = dict(step.attributes)
    return w.emit(_READS[step.op.name], [x, places], (w.type_of(x),), **given)[0]


@row(*_WRITES)
def scatter(w: Writer, step: Step, x: str, indices: str, updates: str) -> str:
    given = dict(step.attributes)
    update = given.pop("update")
    if update != "assign":
        given["reduction"] = update
    # ONNX Runtime scatters half types, but does not add them.
    dtype = w.type_of(x)
    work = float32 if update != "assign" and dtype.itemsize == 2 and dtype.is_floating else dtype
    operands = [w.cast(x, work), w.cast(indices, int64), w.cast(updates, work)]
    return w.cast(w.emit(_WRITES[step.op.name], operands, (work,), **given)[0], dtype)
