"""Reading and writing parts of tensors: ``x[key]`` and ``x[key] = value``.

Requirements: a read is a new tensor and a write gives the handle another value, so nothing
aliases. Starts of slices and integers are inputs of the plan: a loop over ``x[i]`` makes one plan.
A mask on the left of an assignment needs no look when the value broadcasts; elsewhere its result
has a size that depends on data, so it looks at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calor.dtypes import bool_, int64
from calor.errors import DTypeError, IndexingError, ShapeError, TraceError
from calor.functions.creation import asarray
from calor.local import local
from calor.methods import basic_reads
from calor.methods.index_keys import Entry, Key, parse
from calor.ops import elementwise as e
from calor.ops import indexing as rows
from calor.ops import movement as m
from calor.ops.base import Scalar
from calor.ops.reductions import any_
from calor.ops.sources import full, iota
from calor.recording.record import host, number_on, weak_spec
from calor.recording.sites import axes_named
from calor.recording.views import INDEX, before_write, note_view
from calor.specs import spec
from calor.tensor.tensor import Tensor, with_methods
from calor.tensor.values import Handle

Shape = tuple[int, ...]


@with_methods
class Indexing(Tensor):
    """``x[key]``, ``x[key] = value``, iteration and membership."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        """Return a part as a tensor of its own, with NumPy's meaning of every key."""
        made: Tensor
        shape = self._value.spec.shape
        block = basic_reads.block_of(key, shape)
        if block is None:
            if isinstance(key, Handle) and shape and key._value.spec.dtype.is_integer:
                return rows.gather(self, key, axis=0)  # type: ignore[no-any-return]
            parsed = parse(key, shape)
            made = read(self, parsed)
            return made if parsed.advanced else note_view(made, self, INDEX, key)
        if block[1] == shape:
            made = self.copy() if block[2] == shape else m.reshape(self, shape=block[2])
        elif self._record is None and not local.jit:
            made = basic_reads.read_block(self, block)
        else:
            made = _reshaped(_read_span(self, tuple(block[0]), block[1]), block[2])
        # An element is none: ``total = x[0]; total += x[1]`` is no write to x in NumPy either.
        return note_view(made, self, INDEX, key) if block[2] else made

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace a part; the value is broadcast and cast. Complex into real raises DTypeError."""
        shape = self._value.spec.shape
        if self._view is not None:
            before_write(self, key)
        value = _as_value(value, self)
        block = basic_reads.block_of(key, shape)
        if block is None:
            self._rebind(write(self, parse(key, shape), value))
            return
        starts, sizes, result = block
        values = _reshaped(_spread(value, result), sizes)
        if sizes != shape:
            values = m.dynamic_update_slice(self, values, _starts(self, tuple(starts)))
        self._rebind(values)

    def __len__(self) -> int:
        shape = self._value.spec.shape
        if not shape:
            raise TypeError("a 0-d tensor has no length")
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        shape = self._value.spec.shape
        if not shape:
            raise TypeError("a 0-d tensor cannot be iterated over; x.item() gives its number")
        return (self[i] for i in range(shape[0]))

    def __contains__(self, value: Any) -> bool:
        found = self == value
        if not isinstance(found, Handle):
            raise TypeError(f"a tensor does not hold a {type(value).__name__}")
        axes = tuple(range(found._value.spec.ndim))
        return bool(any_(found, axes=axes))


def read(x: Any, key: Key) -> Any:
    """Return the part of a tensor that a key names."""
    block = read_block(x, key)
    if key.advanced:
        return _take(block, key)
    made = _reshaped(block, key.shape())
    return x.copy() if made is x else made


def write(x: Any, key: Key, value: Any) -> Any:
    """Return the tensor with the part that a key names replaced by a value of its dtype."""
    if not key.advanced:
        values = _spread(value, key.shape())
        return write_block(x, key, _reshaped(values, tuple(key.sizes)))
    if _names_a_block(key):
        return _write_at(x, key, value)
    block = read_block(x, key)
    mask = _only_mask(key)
    made = None if mask is None else _where_mask(block, key, mask, value)
    if made is None:
        made = _put(block, key, value)
    return write_block(x, key, made)


# The block that integers and slices cut out.


def _spans(key: Key) -> tuple[Shape, Shape]:
    """Return the first places and the extents of the block, whatever the steps."""
    starts, extents = [], []
    for start, size, step in zip(key.starts, key.sizes, key.steps, strict=True):
        extent = (size - 1) * abs(step) + 1 if size else 0
        starts.append(start if step > 0 else start + (size - 1) * step)
        extents.append(extent)
    return tuple(starts), tuple(extents)


def _starts(x: Any, starts: Shape) -> Any:
    value = x._value
    return host(np.array(starts, np.int64), spec((len(starts),), int64), value.device)


def _read_span(x: Any, starts: Shape, extents: Shape) -> Any:
    if extents == x.shape:
        return x
    if local.jit:
        stops = tuple(a + n for a, n in zip(starts, extents, strict=True))
        return m.slice_(x, starts=starts, stops=stops, steps=(1,) * x.ndim)
    return m.dynamic_slice(x, _starts(x, starts), sizes=extents)


def read_block(x: Any, key: Key) -> Any:
    """Return the block of a key, one axis for each axis of x."""
    starts, extents = _spans(key)
    block = _read_span(x, starts, extents)
    if not key.strided:
        return block
    # The steps run from one end of the span to the other, so the start is in no attribute.
    return m.slice_(
        block,
        starts=tuple(0 if s > 0 else n - 1 for s, n in zip(key.steps, extents, strict=True)),
        stops=tuple(n if s > 0 else -1 for s, n in zip(key.steps, extents, strict=True)),
        steps=tuple(key.steps),
    )


def write_block(x: Any, key: Key, values: Any) -> Any:
    """Return x with the block of a key replaced by values of the block's shape."""
    if not values.size:
        return x.copy()
    starts, extents = _spans(key)
    if key.strided:
        values = _between(values, key.steps, _read_span(x, starts, extents))
    if extents == x.shape:
        return values
    return m.dynamic_update_slice(x, values, _starts(x, starts))


def _between(values: Any, steps: Sequence[int], span: Any) -> Any:
    """Return the span with values at every ``step``-th place."""
    back = tuple(i for i, s in enumerate(steps) if s < 0)
    if back:
        values = m.flip(values, axes=back)
    zeros = (0,) * len(steps)
    interior = tuple(abs(s) - 1 for s in steps)
    yes, no = _truth(values, True, values.shape), _truth(values, False, ())
    spread = m.pad(values, m.number_like(values, 0), low=zeros, high=zeros, interior=interior)
    there = m.pad(yes, no, low=zeros, high=zeros, interior=interior)
    return e.where(there, spread, span)


def _truth(like: Any, value: bool, shape: Shape) -> Any:
    with like.device:
        return full(value=Scalar.of(value, bool_), shape=shape, dtype=bool_)


def _reshaped(x: Any, shape: Shape) -> Any:
    return x if x.shape == shape else m.reshape(x, shape=shape)


def _names_a_block(key: Key) -> bool:
    """Return whether the index arrays of a key are single numbers, so that it names one block."""
    arrays = [entry for entry in key.entries if entry.kind not in ("slice", "int", "new")]
    single = all(entry.kind == "array" and not entry.array.ndim for entry in arrays)
    return single and not key.strided


def _write_at(x: Any, key: Key, value: Any) -> Any:
    """Return x with the block replaced that begins at computed places: no element is moved."""
    places = {e.axis: e for e in key.entries if e.kind == "array"}
    sizes = [1 if axis in places else n for axis, n in enumerate(key.sizes)]
    kept = {e.axis: sizes[e.axis] for e in key.entries if e.kind == "slice"}
    shape = [1 if e.kind == "new" else kept[e.axis] for e in key.entries if e.kind in _KEPT]
    values = _reshaped(_spread(value, tuple(shape)), tuple(sizes))
    starts = _starts(x, tuple(key.starts))
    for axis, entry in places.items():
        with x.device:
            numbers = iota(length=x.shape[axis], dtype=int64)
        # Reading the place among all places checks it, and counts negative ones from the end.
        with axes_named({0: axis}):
            place = rows.gather(numbers, _indices(entry, x), axis=0)
        along = _starts(x, tuple(int(i == axis) for i in range(x.ndim)))
        starts = e.add(starts, e.mul(along, m.expand(place, shape=(x.ndim,))))
    return m.dynamic_update_slice(x, values, starts)


_KEPT = frozenset(("slice", "new"))
_ARRAYS = frozenset(("array", "mask", "truth"))


# Index arrays and masks.


def _arrays(block: Any, key: Key) -> tuple[list[int], list[Any]]:
    """Return the axes (of the block in ``key.shape()``) that arrays index, and the arrays.

    The arrays are tensors of integers and one shape; ops count negative ones from the end.
    """
    axes, arrays = [], []
    axis = 0
    for entry in key.entries:
        if entry.kind in ("int", "gap"):
            continue
        if entry.kind in _ARRAYS:
            axes.append(axis)
            arrays.append(_indices(entry, block))
        axis += 1
    if len(arrays) == 1:
        return axes, arrays
    try:
        common = np.broadcast_shapes(*[a.shape for a in arrays])
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise IndexingError(f"index arrays of shapes {shapes} cannot be broadcast") from None
    arrays = [a if a.dtype is int64 else e.cast(a, dtype=int64) for a in arrays]
    return axes, [_spread(a, common) for a in arrays]


def _indexed(key: Key) -> list[int]:
    """Return the axes of the tensor that arrays index, in the order of the arrays."""
    return [entry.axis for entry in key.entries if entry.kind in _ARRAYS]


def _indices(entry: Entry, block: Any) -> Any:
    array = entry.array
    if entry.kind == "truth":
        array = np.zeros(1 if bool(_look(array)) else 0, np.int64)
    elif entry.kind == "mask":
        array = np.flatnonzero(_look(array))
    return asarray(array, device=block.device) if isinstance(array, np.ndarray) else array


def _look(mask: Any) -> np.ndarray[Any, Any]:
    """Return a mask's elements; TraceError while tracing, where sizes cannot depend on data."""
    if not isinstance(mask, Handle):
        return np.asarray(mask)
    try:
        found: np.ndarray[Any, Any] = mask.numpy()  # type: ignore[attr-defined]
    except TraceError as error:
        raise TraceError(
            f"{error} A mask selects as many elements as it is true for, so the size of the result "
            f"depends on data: use calor.where(mask, x, y), or assign with x[mask] = number"
        ) from None
    return found


def _take(block: Any, key: Key) -> Any:
    """Return the elements that the index arrays of a key pick from its block."""
    axes, arrays = _arrays(block, key)
    block = _reshaped(block, key.shape())
    place, rank = key.place(), arrays[0].ndim
    if len(arrays) == 1:
        with axes_named({axes[0]: _indexed(key)[0]}):
            made, front = rows.gather(block, arrays[0], axis=axes[0]), axes[0]
    else:
        ahead, places = _front(block, axes), _stack(arrays)
        with axes_named(dict(enumerate(_indexed(key)))):
            made, front = rows.gather_nd(ahead, places), 0
    if front == place:
        return made
    return _move(made, front, place, rank)


def _put(block: Any, key: Key, value: Any) -> Any:
    """Return the block with the elements that the index arrays of a key name replaced."""
    axes, arrays = _arrays(block, key)
    shape, rank, place = key.shape(), arrays[0].ndim, key.place()
    others = tuple(n for i, n in enumerate(shape) if i not in axes)
    updates = _spread(value, others[:place] + arrays[0].shape + others[place:])
    updates = _move(updates, place, 0, rank)
    ahead, places = _front(_reshaped(block, shape), axes), _stack(arrays)
    with axes_named(dict(enumerate(_indexed(key)))):
        made = rows.scatter_nd(ahead, places, updates, update="assign")
    order = _front_order(len(shape), axes)
    made = _permuted(made, tuple(order.index(i) for i in range(len(shape))))
    return _reshaped(made, block.shape)


def _stack(arrays: Sequence[Any]) -> Any:
    columns = [m.reshape(a, shape=(*a.shape, 1)) for a in arrays]
    return columns[0] if len(columns) == 1 else m.concat(*columns, axis=columns[0].ndim - 1)


def _front_order(ndim: int, axes: Sequence[int]) -> Shape:
    return (*axes, *(i for i in range(ndim) if i not in axes))


def _front(x: Any, axes: Sequence[int]) -> Any:
    return _permuted(x, _front_order(x.ndim, axes))


def _permuted(x: Any, order: Shape) -> Any:
    return x if order == tuple(range(x.ndim)) else m.permute(x, axes=order)


def _move(x: Any, source: int, target: int, rank: int) -> Any:
    """Return x with the ``rank`` axes from ``source`` on moved to stand at ``target``."""
    moved = list(range(source, source + rank))
    rest = [i for i in range(x.ndim) if i not in moved]
    return _permuted(x, (*rest[:target], *moved, *rest[target:]))


# Assignment through a mask without a look.


def _only_mask(key: Key) -> Entry | None:
    """Return the mask of a key that has no other index array."""
    found = [entry for entry in key.entries if entry.kind in _ARRAYS]
    return found[0] if len(found) == 1 and found[0].kind == "mask" else None


def _where_mask(block: Any, key: Key, entry: Entry, value: Any) -> Any:
    """Return the block with the value where the mask holds; None when the value lists elements.

    A value that has one element (or none, by broadcasting) along the axis that the mask selects
    needs no count of the selected elements.
    """
    place = key.place()
    others = [e for e in key.entries if e.kind in ("slice", "new")]
    behind = len(others) - place
    reach = value.ndim - 1 - behind
    if reach >= 0 and value.shape[reach] != 1:
        return None
    sizes = [1 if e.kind == "new" else key.sizes[e.axis] for e in others]
    values = _spread(value, (*sizes[:place], 1, *sizes[place:]))
    # Line the value and the mask up with the axes of the block.
    kept = {e.axis: key.sizes[e.axis] for e in others if e.kind == "slice"}
    covered = range(entry.axis, entry.axis + entry.rank)
    mask = entry.array
    if isinstance(mask, np.ndarray):
        mask = asarray(mask, device=block.device)
    where = tuple(n if i in covered else 1 for i, n in enumerate(block.shape))
    values = m.reshape(values, shape=tuple(kept.get(i, 1) for i in range(block.ndim)))
    return e.where(
        _spread(m.reshape(mask, shape=where), block.shape), _spread(values, block.shape), block
    )


# Values.


def _as_value(value: Any, x: Any) -> Any:
    """Return what is assigned as a tensor of x's dtype on its device."""
    wanted = x._value.spec.dtype
    if isinstance(value, np.generic):
        value = value.item() if type(value.item()) in _NUMBERS else np.asarray(value)
    if type(value) in _NUMBERS:
        kind = weak_spec(value).dtype
        fits = kind.kind == wanted.kind or (kind.is_integer and wanted.is_integer)
        if fits or (wanted.is_inexact and not kind.is_complex):
            return number_on(value, wanted, x.device)
        value = host(value, spec((), kind), x.device)
    elif not isinstance(value, Handle):
        value = asarray(np.asarray(value), device=x.device)
    dtype = value._value.spec.dtype
    if dtype is wanted:
        return value
    if dtype.is_complex and not wanted.is_complex:
        raise DTypeError(
            f"a complex value cannot be assigned into a tensor of {wanted.name}; "
            f"take its real part first: value.real"
        )
    return e.cast(value, dtype=wanted)


_NUMBERS = frozenset((float, int, bool, complex))


def _spread(value: Any, shape: Shape) -> Any:
    """Return a value broadcast to a shape; it may have more leading axes of size 1."""
    given = value.shape
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    lead = len(shape) - len(given)
    if lead < 0 or any(a not in (1, b) for a, b in zip(given, shape[lead:], strict=True)):
        raise ShapeError(f"a value of shape {value.shape} does not broadcast to {shape}")
    value = _reshaped(value, given)
    return value if given == shape else m.expand(value, shape=shape)
