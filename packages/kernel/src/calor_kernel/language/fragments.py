"""Fragments: a unit's registers of a matrix, and a number for each of its rows or columns.

Both consist of register arrays, so loops and branches carry them: softmax and norms carry a row
maximum and a row sum. Loads and stores are as wide as the memory layout allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.builder import current
from calor_kernel.language.functions import (
    lane_position,
    pack,
    plane_shuffle,
    select,
    shuffle,
    splat,
    unit_index,
    vreduce,
)
from calor_kernel.language.layouts import Layout, Swizzled
from calor_kernel.language.matrices import MatrixShape, Side, lane_places, register_places
from calor_kernel.language.matrix_loads import load_blocks
from calor_kernel.language.memory import Pointer, Registers, registers
from calor_kernel.language.roles import units_of
from calor_kernel.language.values import Number

Place = Layout | Swizzled | tuple[Any, Any] | Callable[[Any, Any], Any]
"""A matrix location: a layout of (row, column), strides of rows and columns, or a function."""


class Band:
    """A number for each row (``axis`` 1) or column (``axis`` 0) of a unit's elements.

    ``keys`` are the registers' distances from the unit's first row or column, in the order of
    ``items``. Units that share a row get the same number, with a deterministic order of additions.
    """

    __slots__ = ("axis", "items", "keys")

    def __init__(self, axis: int, keys: tuple[int, ...], items: Registers) -> None:
        self.axis = axis
        self.keys = keys
        self.items = items

    def map(self, function: Callable[..., Any], *others: Band) -> Band:
        """Set the numbers to a function of them and of other bands', and return the band."""
        for i in range(len(self.keys)):
            self.items[i] = function(self.items[i], *(o.items[i] for o in others))
        return self

    def copy(self) -> Band:
        """Return an independent band with the same numbers."""
        made = registers(len(self.keys), self.items.type.dtype)
        for i, item in enumerate(self.items.items):
            made[i] = item
        return Band(self.axis, self.keys, made)

    def combine(self, kind: str, like: Fragment) -> Band:
        """Reduce over the units that share rows or columns of a fragment, and return the band."""
        for distance in _distances(like, self.axis):
            for i, item in enumerate(self.items.items):
                self.items[i] = current().binary(kind, item, plane_shuffle(item, distance, "xor"))
        return self

    def spread(self, over: Fragment, part: int) -> Number:
        """Return the number of each register of a fragment's part, as a vector."""
        first = part * over.width
        places = [over.register_place(first + i)[1 - self.axis] for i in range(over.width)]
        chosen = [self.items[self.keys.index(p)] for p in places]
        if all(c is chosen[0] for c in chosen):
            return splat(chosen[0], over.width)
        return pack(chosen)


class Fragment:
    """A unit's registers of a matrix; made by :func:`fragment` and ``operand_of``.

    ``parts`` holds the registers in vectors of equal length; register r of the layout is lane ``r %
    width`` of part ``r // width``.
    """

    __slots__ = ("parts", "shape", "side", "width")

    def __init__(self, shape: MatrixShape, side: Side, parts: Registers) -> None:
        self.shape = shape
        self.side = side
        self.parts = parts
        self.width = shape.piece(side)

    def __repr__(self) -> str:
        rows, columns = self.extent
        return f"<fragment {self.side} of {self.shape.name}: {rows} x {columns} {self.dtype}>"

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.parts.type.dtype

    @property
    def extent(self) -> tuple[int, int]:
        """The rows and columns of the whole matrix."""
        return self.shape.extent(self.side)

    @property
    def count(self) -> int:
        """The number of registers per unit."""
        return len(self.parts.items) * self.width

    # Rows and columns of elements.
    def lane_place(self) -> tuple[Any, Any]:
        """Return row and column of this unit's register 0."""
        rows, lanes = self.extent[0], self.shape.lanes
        lane: Any = 0
        if lanes > 1:
            lane = lane_position() if lanes == current().plane else unit_index() % lanes
        modes = self.shape.layout(self.side)[0].modes()
        places = Layout(tuple(n for n, _ in modes)).position(lane)
        row: Any = 0
        column: Any = 0
        for place, (_, stride) in zip(places, modes, strict=True):
            if stride < rows:
                row = row + place * stride
            else:
                column = column + place * (stride // rows)
        return row, column

    def register_place(self, register: int) -> tuple[int, int]:
        """Return the distance of a register from register 0, in rows and columns."""
        return register_places(self.shape, self.side)[register]

    def place(self, register: int) -> tuple[Any, Any]:
        """Return row and column of one of this unit's registers."""
        (row, column), (down, right) = self.lane_place(), self.register_place(register)
        return row + down, column + right

    def places(self, part: int) -> tuple[Any, Any]:
        """Return the rows and the columns of a part's registers, as vectors."""
        if self.width == 1:
            return self.place(part)
        builder, (row, column) = current(), self.lane_place()
        moved = [self.register_place(part * self.width + i) for i in range(self.width)]
        down, right = (builder.constant(far, builder.index) for far in zip(*moved, strict=True))
        return builder.binary("add", row, down), builder.binary("add", column, right)

    # Elementwise operations.
    def fill(self, value: Any) -> None:
        """Set every element to a number."""
        for i in range(len(self.parts.items)):
            self.parts[i] = value

    def map(self, function: Callable[..., Any], *others: Fragment) -> None:
        """Set elements to a function of them and of other fragments' corresponding elements."""
        for i in range(len(self.parts.items)):
            self.parts[i] = function(self.parts[i], *(o.parts[i] for o in others))

    def map_places(self, function: Callable[[Any, Any, Any], Any]) -> None:
        """Set elements to a function of them, their rows and their columns (vectors of indices)."""
        for i in range(len(self.parts.items)):
            self.parts[i] = function(self.parts[i], *self.places(i))

    def keep(self, condition: Callable[[Any, Any], Any], other: Any = 0.0) -> None:
        """Set elements to ``other`` where a condition on rows and columns is false."""
        self.map_places(lambda value, r, c: select(condition(r, c), value, other))

    def to(self, dtype: DType) -> Fragment:
        """Return the fragment with its elements converted."""
        made = empty(self.shape, self.side, dtype)
        for i, part in enumerate(self.parts.items):
            made.parts[i] = part.to(dtype)
        return made

    def copy(self) -> Fragment:
        """Return an independent fragment with the same values."""
        return self.to(self.dtype)

    # Numbers of rows and columns.
    def band(self, axis: int, fill: Any = 0.0) -> Band:
        """Return a number for each row (axis 1) or column (axis 0), as a reduction gives it."""
        keys = tuple(dict.fromkeys(p[1 - axis] for p in register_places(self.shape, self.side)))
        return Band(axis, keys, registers(len(keys), self.dtype, 1, fill))

    def reduce(self, kind: str, axis: int = 1, *, own: bool = False) -> Band:
        """Return each row (axis 1) or column (axis 0) reduced by add, mul, min or max.

        Every unit gets the results of the rows or columns of its elements. ``own``: reduce only its
        own elements; a later ``Band.combine`` then serves many fragments.
        """
        band, combined = self.band(axis), partial(current().binary, kind)
        for i, key in enumerate(band.keys):
            band.items[i] = reduce(combined, self._line(kind, axis, key))
        return band if own else band.combine(kind, self)

    def _line(self, kind: str, axis: int, key: int) -> Iterator[Number]:
        """Yield the unit's elements of a row or column, a whole part of them reduced."""
        for part, value in enumerate(self.parts.items):
            places = enumerate(range(part * self.width, (part + 1) * self.width))
            lanes = [i for i, r in places if self.register_place(r)[1 - axis] == key]
            if len(lanes) == self.width:
                yield vreduce(kind, value)
            else:
                yield from (value[lane] for lane in lanes)

    def map_band(self, function: Callable[[Any, Any], Any], band: Band) -> None:
        """Set elements to a function of them and of their row's or column's number."""
        for i in range(len(self.parts.items)):
            self.parts[i] = function(self.parts[i], band.spread(self, i))

    # Memory.
    def load(
        self,
        source: Pointer,
        at: Place,
        *,
        limits: tuple[Any, Any] | None = None,
        other: Any = 0,
    ) -> Fragment:
        """Read this unit's elements, and return the fragment.

        ``at``: the location of (row, column) in the source. ``limits``: the valid rows and columns;
        elements beyond are ``other``. Elements are converted to the fragment's type.
        """
        if limits is None and source.dtype is self.dtype:
            blocks = load_blocks(self.shape, self.side, source, at)
            if blocks is not None:
                self.parts[0] = blocks
                return self
        for part in range(len(self.parts.items)):
            pieces = []
            for first, length in self._runs(part, at):
                index = _offset(at, *self.place(first))
                mask = None if limits is None else self._inside(first, length, limits)
                made = source.load(index, length, mask=mask, other=other)
                pieces.append(made.to(self.dtype))
            lanes = [piece[i] for piece in pieces for i in range(piece.width)]
            self.parts[part] = pieces[0] if len(pieces) == 1 else pack(lanes)
        return self

    def store(self, target: Pointer, at: Place, *, limits: tuple[Any, Any] | None = None) -> None:
        """Write this unit's elements, converted to the target's type; arguments as for ``load``."""
        for part, value in enumerate(self.parts.items):
            for first, length in self._runs(part, at):
                start = first - part * self.width
                piece = value if length == self.width else _slice(value, start, length)
                index = _offset(at, *self.place(first))
                mask = None if limits is None else self._inside(first, length, limits)
                target.store(index, piece.to(target.dtype), mask=mask)

    def runs(self, limits: tuple[Any, Any] | None = None) -> Iterator[tuple[Number, Any, Any, Any]]:
        """Yield this unit's elements by adjacent columns of a row: values, row, column and mask.

        ``limits``: the valid rows and columns, for the mask.
        """
        for part, value in enumerate(self.parts.items):
            for first, length in self._runs(part, (None, 1)):
                start = first - part * self.width
                piece = value if length == self.width else _slice(value, start, length)
                mask = None if limits is None else self._inside(first, length, limits)
                yield piece, *self.place(first), mask

    def _inside(self, first: int, length: int, limits: tuple[Any, Any]) -> Any:
        """Return the mask of a run's registers within limits."""
        builder = current()
        row, column = self.place(first)
        moved = [self.register_place(first + i) for i in range(length)]
        found = None
        for place, limit, axis in ((row, limits[0], 0), (column, limits[1], 1)):
            far = tuple(m[axis] - moved[0][axis] for m in moved)
            here = place
            if any(far):
                here = builder.binary("add", place, builder.constant(far, builder.index))
            if isinstance(here, int) and isinstance(limit, int) and here < limit:
                continue
            inside = builder.binary("lt", here, limit)
            found = inside if found is None else builder.binary("and", *builder.pair(found, inside))
        return found

    def _runs(self, part: int, at: Place) -> list[tuple[int, int]]:
        """Return (register, length) of a part's runs, one access each."""
        registers = range(part * self.width, (part + 1) * self.width)
        steps = _steps(self.shape, self.side, at)
        runs: list[tuple[int, int]] = []
        for r in registers:
            if runs and r != registers[0] and steps[r]:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((r, 1))
        return [piece for run in runs for piece in _powers(*run, self.width)]


def fragment(shape: MatrixShape, side: Side, fill: Any = 0, dtype: DType | None = None) -> Fragment:
    """Return a fragment of one side of a matrix instruction, filled with a number.

    ``dtype``: the element type, by default the instruction's. KernelTypeError if the device or the
    cube does not fit the shape.
    """
    check_shape(shape)
    made = empty(shape, side, shape.dtype(side) if dtype is None else dtype)
    if fill != 0:
        made.fill(fill)
    return made


def empty(shape: MatrixShape, side: Side, dtype: DType) -> Fragment:
    """Return a fragment with undefined elements, to be set next."""
    width = shape.piece(side)
    count = shape.layout(side)[1].size // width
    return Fragment(shape, side, registers(count, dtype, width))


def check_shape(shape: MatrixShape) -> None:
    """Raise KernelTypeError if the current kernel cannot use a shape."""
    builder = current()
    if shape.feature and shape.feature not in builder.features:
        raise KernelTypeError(
            f"{shape.name} needs a device with the feature {shape.feature!r}; matrices.scalar runs "
            f"on any"
        )
    plane = shape.lanes in (1, builder.plane) or shape.feature == "async_matrix"
    if not plane or units_of(builder) % shape.lanes:
        raise KernelTypeError(
            f"{shape.name} is computed by {shape.lanes} units together; the cube has "
            f"{units_of(builder)} in planes of {builder.plane}"
        )


def group_of(shape: MatrixShape) -> Any:
    """Return the index of this unit's group; a group shares a matrix."""
    return unit_index() // shape.lanes


def group_count(shape: MatrixShape) -> int:
    """Return the number of groups in a cube; a group shares a matrix."""
    return units_of(current()) // shape.lanes


def _steps(shape: MatrixShape, side: Side, at: Place) -> Sequence[bool]:
    """Return for each register whether it follows the previous one contiguously, in every lane."""
    if isinstance(at, Layout | Swizzled):
        return _layout_steps(shape, side, at)
    places = register_places(shape, side)
    if not isinstance(at, tuple):
        return [False] * len(places)
    found = [False]
    for (r0, c0), (r1, c1) in pairwise(places):
        down, right = (r1 - r0, at[0]), (c1 - c0, at[1])
        moves = [n * s if isinstance(s, int) else None for n, s in (down, right) if n]
        found.append(None not in moves and sum(m for m in moves if m is not None) == 1)
    return found


@lru_cache(maxsize=256)
def _layout_steps(shape: MatrixShape, side: Side, at: Layout | Swizzled) -> Sequence[bool]:
    rows, columns = lane_places(shape, side)
    offsets = at(rows, columns)
    return [False, *(np.diff(offsets, axis=1) == 1).all(axis=0).tolist()]


def _offset(at: Place, row: Any, column: Any) -> Any:
    if isinstance(at, tuple):
        return row * at[0] + column * at[1]
    return at(row, column)


def _powers(first: int, length: int, width: int) -> list[tuple[int, int]]:
    """Return a run as pieces of powers of two, or unchanged if it is a whole part."""
    if length == width:
        return [(first, length)]
    found = []
    while length:
        size = 1 << (length.bit_length() - 1)
        found.append((first, size))
        first, length = first + size, length - size
    return found


def _slice(value: Number, start: int, length: int) -> Number:
    if length == 1:
        return value[start]
    return shuffle(value, range(start, start + length))


def _distances(given: Fragment, axis: int) -> list[int]:
    """Return the XOR distances of the lanes that share a row or column."""
    rows = given.extent[0]
    found, step = [], 1
    for size, stride in given.shape.layout(given.side)[0].modes():
        along_columns = stride >= rows
        if along_columns == (axis == 1) and size > 1:
            if size & (size - 1) or step * size > current().plane:
                raise KernelTypeError(f"{given!r} has no reduction along axis {axis} in a plane")
            found += [step << bit for bit in range(size.bit_length() - 1)]
        step *= size
    return found
