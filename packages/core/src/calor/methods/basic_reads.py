"""The short way for the commonest reads: integers and unit-step slices, recorded in one go.

Requirements: ``x[i]`` in a loop costs about as much as an elementwise op. What recording needs is
worked out once per spec, block size and result shape; the starts are an input of the plan.
"""

from __future__ import annotations

from operator import index
from typing import Any, Final

import numpy as np

from calor.dtypes import int64
from calor.interning import remember
from calor.local import local
from calor.ops.base import Signature, signature
from calor.ops.movement import dynamic_slice, reshape
from calor.recording.codes import leaf
from calor.recording.recipes import cost_of
from calor.recording.trace import pending, trace_on
from calor.sizes import Size
from calor.specs import Spec, spec
from calor.tensor.tensor import wrap

Shape = tuple[int, ...]
Block = tuple[list[int], Shape, Shape]

_WHOLE: Final = slice(None)


def block_of(key: Any, shape: Shape) -> Block | None:
    """Return starts and sizes of the block that a key cuts out, and the shape of the result.

    None when the key has anything but integers, slices of step 1, None and Ellipsis, or does not
    fit: then the long way has the answer or the error.
    """
    items = key if type(key) is tuple else (key,)
    starts: list[int] = []
    sizes: list[int] = []
    result: list[int] = []
    ndim = len(shape)
    for item in items:
        kind = type(item)
        axis = len(starts)
        if isinstance(item, np.integer):
            item, kind = int(item), int
        if kind is int and axis < ndim:
            size = shape[axis]
            if not -size <= item < size:
                return None
            starts.append(item + size if item < 0 else item)
            sizes.append(1)
        elif kind is slice and axis < ndim:
            size = shape[axis]
            if item == _WHOLE:
                starts.append(0)
                sizes.append(size)
                result.append(size)
                continue
            try:
                start, stop, step = bounds_of(item, size)
            except (TypeError, ValueError):
                return None
            if step != 1:
                return None
            length = stop - start if stop > start else 0
            starts.append(start if length else 0)
            sizes.append(length)
            result.append(length)
        elif item is None:
            result.append(1)
        elif item is Ellipsis and axis <= ndim:
            used = sum(i is not None and i is not Ellipsis for i in items)
            if used > ndim or sum(i is Ellipsis for i in items) > 1:
                return None
            missing = shape[axis : axis + ndim - used]
            starts.extend([0] * len(missing))
            sizes.extend(missing)
            result.extend(missing)
        else:
            return None
    rest = shape[len(starts) :]
    starts.extend([0] * len(rest))
    return starts, (*sizes, *rest), (*result, *rest)


def bounds_of(item: slice, size: int) -> tuple[int, int, int]:
    """Return ``item.indices(size)``, also for symbolic sizes.

    >>> bounds_of(slice(-3, None), 5), bounds_of(slice(None, None, -1), 5)
    ((2, 5, 1), (4, -1, -1))
    """
    if not any(isinstance(n, Size) for n in (item.start, item.stop, item.step, size)):
        return item.indices(size)
    step = 1 if item.step is None else index(item.step)
    if not step:
        raise ValueError("slice step cannot be zero")
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def bound(given: Any, default: int) -> Any:
        if given is None:
            return default
        if not isinstance(given, Size):
            given = index(given)
        return max(given + size, low) if given < 0 else min(given, high)

    start, stop = (low, high) if step > 0 else (high, low)
    return bound(item.start, start), bound(item.stop, stop), step


class _Entry:
    """The nodes of one kind of read: starts, slice, reshape."""

    __slots__ = ("cost", "leaf", "out", "reshape", "slice")

    def __init__(self, x: Spec, sizes: Shape, shape: Shape) -> None:
        starts = spec((x.ndim,), int64)
        cut = signature(dynamic_slice, (x, starts), {"sizes": sizes})
        self.leaf = leaf(starts, True)
        self.slice = cut
        self.out = cut.outputs[0]
        self.cost = cost_of(cut)
        self.reshape: Signature | None = None
        if shape != sizes:
            shaped = signature(reshape, cut.outputs, {"shape": shape})
            self.reshape = shaped
            self.out = shaped.outputs[0]
            self.cost += 1


_ENTRIES: dict[tuple[Spec, Shape, Shape], _Entry] = {}


def read_block(x: Any, block: Block) -> Any:
    """Record the read of a proper part of a tensor without a gradient record, outside of traces."""
    starts, sizes, shape = block
    value = x._value
    key = (value.spec, sizes, shape)
    entry = _ENTRIES.get(key)
    if entry is None:
        entry = remember(_ENTRIES, key, _Entry(*key))
    trace = local.trace
    if value.device is not trace.device:
        trace = trace_on(value.device)
    px = value.position if value.trace is trace else trace.attach(x)
    position = trace.count
    trace.inputs.append(np.array(starts, np.int64))
    if entry.reshape is None:
        last = position + 1
        trace.codes += (entry.leaf, entry.slice, last - px, 1)
    else:
        last = position + 2
        trace.codes += (entry.leaf, entry.slice, position + 1 - px, 1, entry.reshape, 1)
    trace.count = last + 1
    tensor = wrap(pending(trace, entry.out, last))
    trace.room -= entry.cost
    if trace.room < 0:
        trace.overflow(entry.slice)
    return tensor
