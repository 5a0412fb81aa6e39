"""Sequences, which are lists, and optionals, which are a value or None."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph
from calor_onnx.operators.shape import axis_of
from calor_onnx.registry import operator


@operator("SequenceEmpty", since=11, raw=True)
def sequence_empty(call: Call, *, dtype: int = 1) -> Any:
    """A sequence of nothing."""
    return []


@operator("SequenceConstruct", since=11, raw=True)
def sequence_construct(call: Call, *values: Any) -> Any:
    """A sequence of the inputs."""
    return list(values)


@operator("SequenceAt", since=11, raw=True)
def sequence_at(call: Call, sequence: Any, position: Any) -> Any:
    """The value at a place, counted from the end where it is negative."""
    return sequence[_place(call, sequence, position, 0)]


@operator("SequenceInsert", since=11, raw=True)
def sequence_insert(call: Call, sequence: Any, value: Any, position: Any = None) -> Any:
    """The sequence with a value more, before a place or at the end."""
    place = len(sequence) if position is None else _place(call, sequence, position, 1)
    return [*sequence[:place], value, *sequence[place:]]


@operator("SequenceErase", since=11, raw=True)
def sequence_erase(call: Call, sequence: Any, position: Any = None) -> Any:
    """The sequence without the value at a place, or without the last."""
    last = np.array(-1) if position is None else position
    place = _place(call, sequence, last, 0)
    return [*sequence[:place], *sequence[place + 1 :]]


def _place(call: Call, sequence: Any, position: Any, more: int) -> int:
    (place,) = call.integers(position)
    size = len(sequence)
    if not -size <= place < size + more:
        raise ModelError(f"{call.node.op}: index {place} is outside of a sequence of {size}")
    return place + size if place < 0 else place


@operator("SequenceLength", since=11, raw=True)
def sequence_length(call: Call, sequence: Any) -> Any:
    """How many values a sequence has."""
    return np.array(len(sequence), np.int64)


@operator("SequenceMap", since=17, raw=True)
def sequence_map(call: Call, sequence: Any, *others: Any, body: Graph) -> Any:
    """The sequences of a graph's outputs for each value, and for each value of other sequences."""
    made = []
    for i, value in enumerate(sequence):
        also = [other[i] if isinstance(other, list) else other for other in others]
        made.append(call.apply(body, [value, *also]))
    if not made:
        return tuple([] for _ in body.outputs)
    return tuple(map(list, zip(*made, strict=True)))


@operator("SplitToSequence", since=11, host=[1], moves=True)
def split_to_sequence(
    call: Call, x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1
) -> Any:
    """The parts along an axis: of one size, of the given sizes, or of size 1."""
    along = axis_of(axis, x.ndim, "SplitToSequence")
    whole = x.shape[along]
    if split is None:
        made = list(calor.split(x, [1] * whole, axis=along))
        return made if keepdims else [calor.squeeze(part, along) for part in made]
    sizes = call.integers(split)
    if split.ndim == 0:
        each = sizes[0]
        sizes = [min(each, whole - at) for at in range(0, whole, each)]
    return list(calor.split(x, sizes, axis=along))


@operator("ConcatFromSequence", since=11, raw=True)
def concat_from_sequence(call: Call, sequence: Any, *, axis: int, new_axis: int = 0) -> Any:
    """The values of a sequence one after another along an axis, or along a new one."""
    if all(map(call.is_host, sequence)):
        return (np.stack if new_axis else np.concatenate)(sequence, axis=axis)
    tensors = [call.tensor(value) for value in sequence]
    if new_axis:
        return calor.stack(tensors, axis=axis)
    return calor.concat(tensors, axis=axis_of(axis, tensors[0].ndim, "ConcatFromSequence"))


@operator("Optional", since=15, raw=True)
def optional(call: Call, value: Any = None, *, type: Any = None) -> Any:
    """An optional with a value, or without one."""
    return value


@operator("OptionalHasElement", since=15, raw=True)
def optional_has_element(call: Call, value: Any = None) -> Any:
    """Whether an optional has a value."""
    return np.array(value is not None)


@operator("OptionalGetElement", since=15, raw=True)
def optional_get_element(call: Call, value: Any) -> Any:
    """The value of an optional; ModelError where it has none."""
    if value is None:
        raise ModelError("OptionalGetElement: the optional has no value")
    return value
