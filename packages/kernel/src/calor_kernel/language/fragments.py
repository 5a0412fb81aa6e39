"""Fragments: operations on a unit's registers of a matrix, the same for all instructions.

A fragment consists of register arrays, so loops and branches carry it. Loads and stores are as wide
as the memory layout allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.arrays import registers
from calor_kernel.language.builder import current
from calor_kernel.language.fragment_rows import Band, reduce_fragment
from calor_kernel.language.functions import pack, select, shuffle, unit_index
from calor_kernel.language.layouts import Layout
from calor_kernel.language.matrices import MatrixShape, Side, lane_places, register_places
from calor_kernel.language.matrix_loads import load_blocks
from calor_kernel.language.memory import Pointer
from calor_kernel.language.register_matrix import HeldMatrix
from calor_kernel.language.roles import units_of
from calor_kernel.language.swizzles import Swizzled
from calor_kernel.language.values import Number

Place = Layout | Swizzled | tuple[Any, Any] | Callable[[Any, Any], Any]
"""A matrix location: a layout of (row, column), strides of rows and columns, or a function."""


class Fragment(HeldMatrix):
    """A unit's registers of a matrix; made by :func:`fragment` and ``operand_of``."""

    __slots__ = ()

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

    # Rows and columns.
    def band(self, axis: int, fill: Any = 0.0) -> Band:
        """Return a number for each row (axis 1) or column (axis 0), as a reduction gives it."""
        return Band.of(self, axis, fill)

    def reduce(self, kind: str, axis: int = 1, *, own: bool = False) -> Band:
        """Return each row (axis 1) or column (axis 0) reduced by add, mul, min or max.

        Every unit gets the results of the rows or columns of its elements. ``own``: reduce only its
        own elements; a later ``Band.combine`` then serves many fragments.
        """
        band = reduce_fragment(self, kind, axis)
        return band if own else band.combine(kind, self)

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
        blocks = None if limits is not None else load_blocks(self, source, at)
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
