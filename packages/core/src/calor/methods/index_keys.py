"""What stands between the brackets of ``x[...]``, brought to one form.

Requirements: NumPy's meaning of every key (integers, slices, Ellipsis, None, masks, integer
arrays and their mixtures). Integers and slices are checked here, at the user's line; whatever is
known on the host is normalised here, so that equal shapes of keys make equal graphs.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np

from calor.errors import IndexingError
from calor.methods.basic_reads import bounds_of
from calor.tensor.values import Handle

Kind = Literal["slice", "int", "new", "array", "mask", "truth", "gap"]


@dataclass(slots=True)
class Entry:
    """One item of a key: what it does to ``rank`` axes of the tensor, from ``axis`` on."""

    kind: Kind
    axis: int
    rank: int = 1
    # The index array or mask: a host array or a tensor; for "truth" a bool.
    array: Any = None


@dataclass(slots=True)
class Key:
    """A whole key.

    ``starts``, ``sizes`` and ``steps`` describe the block that the integers and slices cut out, one
    entry per axis of the tensor (an integer is a slice of one element); ``entries`` what the items
    then do to the axes of that block.
    """

    starts: list[int]
    sizes: list[int]
    steps: list[int]
    entries: list[Entry] = field(default_factory=list)
    advanced: bool = False
    strided: bool = False

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the block once integers are dropped, new axes added, masks flat."""
        shape = []
        for entry in self.entries:
            if entry.kind in ("new", "truth"):
                shape.append(1)
            elif entry.kind not in ("int", "gap"):
                shape.append(prod(self.sizes[entry.axis : entry.axis + entry.rank]))
        return tuple(shape)

    def place(self) -> int:
        """Return where the axes of the index arrays stand among the other axes of the result.

        As in NumPy: where the first of them stood when they are neighbours, else in front. An
        integer beside an index array counts as one.
        """
        kinds = [e.kind for e in self.entries]
        advanced = [i for i, kind in enumerate(kinds) if kind not in ("slice", "new", "gap")]
        if advanced[-1] - advanced[0] + 1 != len(advanced):
            return 0
        return advanced[0] - kinds[: advanced[0]].count("gap")


def parse(key: Any, shape: tuple[int, ...]) -> Key:
    """Return the normal form of a key for a shape; IndexingError when it does not fit."""
    items: list[Any] = list(key) if type(key) is tuple else [key]
    consumed = 0
    ellipsis = None
    for i, item in enumerate(items):
        if item is Ellipsis:
            if ellipsis is not None:
                raise IndexingError("an index can have only one Ellipsis (...)")
            ellipsis = i
        elif not (item is None or type(item) is slice or isinstance(item, int | np.integer)):
            items[i] = item = _array(item)
            consumed += item.ndim if is_mask(item) else 1
        elif item is not None and not isinstance(item, bool):
            consumed += 1
    ndim = len(shape)
    if consumed > ndim:
        raise IndexingError(
            f"{consumed} indices for a tensor of shape {shape}, which has {ndim} "
            f"{'axis' if ndim == 1 else 'axes'}"
        )
    missing = ndim - consumed
    if ellipsis is not None:
        # One that stands for no axis still separates index arrays, as in NumPy.
        items[ellipsis : ellipsis + 1] = [_WHOLE] * missing if missing else [Ellipsis]
    elif missing:
        items.extend([_WHOLE] * missing)
    return _place_items(items, shape)


_WHOLE = slice(None)


def _place_items(items: list[Any], shape: tuple[int, ...]) -> Key:
    made = Key([0] * len(shape), list(shape), [1] * len(shape))
    entries = made.entries
    axis = 0
    for item in items:
        if item is None:
            entries.append(Entry("new", axis, 0))
        elif item is Ellipsis:
            entries.append(Entry("gap", axis, 0))
        elif type(item) is slice:
            if item is not _WHOLE:
                _cut(made, axis, item, shape[axis])
            entries.append(Entry("slice", axis))
            axis += 1
        elif isinstance(item, bool):
            entries.append(Entry("truth", axis, 0, item))
            made.advanced = True
        elif isinstance(item, int | np.integer):
            made.starts[axis] = _inside(int(item), axis, shape)
            made.sizes[axis] = 1
            entries.append(Entry("int", axis))
            axis += 1
        elif is_mask(item):
            if not item.ndim:
                # A tensor of one truth value: known only when looked at.
                entries.append(Entry("truth", axis, 0, item))
            else:
                entries.append(Entry("mask", axis, item.ndim, _fitting(item, axis, shape)))
            made.advanced = True
            axis += item.ndim
        else:
            entries.append(Entry("array", axis, 1, _known(item, axis, shape)))
            made.advanced = True
            axis += 1
    return made


def _inside(index: int, axis: int, shape: tuple[int, ...]) -> int:
    size = shape[axis]
    if not -size <= index < size:
        raise IndexingError(
            f"index {index} is out of range for axis {axis} of a tensor of shape {shape}"
        )
    return index + size if index < 0 else index


def _cut(made: Key, axis: int, item: slice, size: int) -> None:
    try:
        start, stop, step = bounds_of(item, size)
    except TypeError:
        raise IndexingError(
            f"the bounds of a slice are integers or None, not {item.start!r}, {item.stop!r}, "
            f"{item.step!r}"
        ) from None
    except ValueError:
        raise IndexingError("the step of a slice is not zero") from None
    length = max(-((start - stop) // step) if step > 0 else -((stop - start) // -step), 0)
    if length == 0:
        start, step = 0, 1
    elif length == 1:
        step = 1
    made.starts[axis], made.sizes[axis], made.steps[axis] = start, length, step
    made.strided = made.strided or step != 1


def _array(item: Any) -> Any:
    """Return an index as an int, a host array of int64 or bool, or the tensor that it is."""
    if isinstance(item, Handle):
        dtype = item._value.spec.dtype
        if dtype.is_integer or dtype.kind == "bool":
            return item
        raise IndexingError(
            f"a tensor of {dtype.name} cannot be an index; integers and bools can: "
            f"x.astype(calor.int64)"
        )
    if isinstance(item, np.bool_):
        return np.asarray(item)
    if isinstance(item, str | bytes | float | complex | dict | set):
        raise IndexingError(_refusal(item))
    try:
        index = operator.index(item)
    except TypeError:
        pass
    else:
        return index
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise IndexingError(f"{_refusal(item)} ({error})") from None
    if not array.size and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise IndexingError(_refusal(item))
    return array if array.dtype.kind == "b" else array.astype(np.int64)


def _refusal(item: Any) -> str:
    found = f" of {item.dtype}" if isinstance(item, np.ndarray) else f" {item!r}"
    return (
        f"{type(item).__name__}{found} cannot be an index; integers, slices, None, Ellipsis, "
        f"and arrays or tensors of integers or bools can"
    )


def is_mask(item: Any) -> bool:
    """Return whether an item is an array or tensor of truth values."""
    if isinstance(item, Handle):
        return item._value.spec.dtype.kind == "bool"
    return isinstance(item, np.ndarray) and item.dtype.kind == "b"


def _fitting(mask: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Return a mask of the shape of the axes that it covers; IndexingError when it does not fit.

    A size of 0 fits every axis and selects nothing: the standard's rule for masks.
    """
    covered = shape[axis : axis + mask.ndim]
    if tuple(mask.shape) == covered:
        return mask
    if len(covered) != mask.ndim or any(
        n not in (size, 0) for n, size in zip(mask.shape, covered, strict=True)
    ):
        raise IndexingError(
            f"a mask of shape {tuple(mask.shape)} does not fit the axes from {axis} on of a tensor "
            f"of shape {shape}"
        )
    return np.zeros(covered, np.bool_)


def _known(item: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Return an index array; one on the host is checked and made non-negative at once."""
    if isinstance(item, Handle):
        return item
    size = shape[axis]
    outside = (item < -size) | (item >= size)
    if outside.any():
        _inside(int(item[outside].flat[0]), axis, shape)
    return np.where(item < 0, item + size, item)
