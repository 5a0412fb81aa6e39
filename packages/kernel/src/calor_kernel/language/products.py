"""Matrix products of fragments, synchronous or issued and waited for, and of their results.

One call serves every instruction, and devices without one, by scalar and vector arithmetic.
Accumulators become operands of the next product in registers: units keep their elements, or swap
with the unit whose number differs in one bit; anything else goes through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from calor.dtypes import DType, uint32
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.builder import current
from calor_kernel.language.fragments import Band, Fragment, check_shape, empty
from calor_kernel.language.functions import (
    bitcast,
    fma,
    lane_position,
    pack,
    plane_shuffle,
    select,
)
from calor_kernel.language.layouts import Layout, Swizzled
from calor_kernel.language.matrices import Holding, MatrixShape, Side, lane_places
from calor_kernel.language.memory import Pointer
from calor_kernel.language.values import Number


def mma(a: Fragment, b: Fragment, c: Fragment) -> None:
    """Add a @ b to c, a collective operation of all units that hold them.

    The three are sides of one shape. Without an instruction, products are added in order of k.
    """
    shape = c.shape
    _check(shape, (a, b, c))
    if shape.feature == "async_matrix":
        raise KernelTypeError(f"{shape.name} is asynchronous; use issue_mma and wait_mma")
    if not shape.feature:
        _by_hand(a, b, c)
        return
    builder = current()
    operands = [f.parts[0] for f in (a, b, c)]
    sides = tuple(Holding(shape, f.side) for f in (a, b, c))
    said = {"shape": (shape.m, shape.n, shape.k), "fragments": sides}
    c.parts[0] = builder.emit("mma", operands, (operands[2].type,), said)[0]


def _check(shape: MatrixShape, fragments: Sequence[Fragment]) -> None:
    for given, side in zip(fragments, "abc"[3 - len(fragments) :], strict=True):
        wanted = shape.dtype(given.side)
        if given.shape != shape or given.side != side or given.dtype is not wanted:
            raise KernelTypeError(
                f"{shape.name} takes a and b of {shape.a_dtype} and c of {shape.c_dtype}, not "
                f"{given!r}"
            )


def _by_hand(a: Fragment, b: Fragment, c: Fragment) -> None:
    """Add an outer product for each k: rows of b times the numbers of a column of a."""
    builder, shape = current(), c.shape
    for p in range(shape.k):
        row = b.parts[p].to(c.dtype)
        for i in range(shape.m):
            factor = builder.splat(a.parts[p + shape.k * i].to(c.dtype), shape.n)
            if c.dtype.kind == "float":
                c.parts[i] = fma(factor, row, c.parts[i])
            else:
                c.parts[i] = c.parts[i] + factor * row


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """An operand in shared memory: a layout of (row, column) from a pointer's index 0.

    A swizzle applies to the whole index in the memory, as in hardware, so parts of a tile keep its
    swizzle; the tile itself starts at a multiple of the swizzle's block.
    """

    pointer: Pointer
    at: Layout | Swizzled

    @property
    def plain(self) -> Layout:
        """The layout without its swizzle."""
        return self.at.layout if isinstance(self.at, Swizzled) else self.at

    def tile(self, extent: tuple[int, int], position: tuple[Any, Any]) -> SharedMatrix:
        """Return the operand of the given extent at a position."""
        return SharedMatrix(self.pointer.at(self.plain(*position)), self.at.compose(extent))

    @property
    def major(self) -> Literal["rows", "columns"]:
        """The contiguous index: "columns" if rows are dense, else "rows"."""
        for name, mode in (("rows", self.plain[0]), ("columns", self.plain[1])):
            if any(stride == 1 and size > 1 for size, stride in mode.modes()):
                return name  # type: ignore[return-value]
        raise KernelTypeError(f"{self.at} has no dense rows or columns")

    def offset(self) -> Any:
        """Return the index of the first element in its memory."""
        return current().coerce(self.pointer.offset)


def issue_mma(c: Fragment, pairs: Sequence[tuple[Fragment | SharedMatrix, SharedMatrix]]) -> None:
    """Start adding products a @ b to c, in order, as one group to wait for.

    Operands in shared memory, and c, must be neither read nor written before the wait. The a of a
    pair may be a fragment. Its registers are in use until the wait as well, so a loop waits for all
    groups before it loads the next.
    """
    builder, shape = current(), c.shape
    check_shape(shape)
    _check(shape, (c,))
    if shape.feature != "async_matrix":
        raise KernelTypeError(f"{shape.name} is synchronous; write mma(a, b, c)")
    # A device need not initialize zero sums before the first product.
    nothing = builder.splat(builder.coerce(0, c.parts.type.scalar), c.parts.type.width)
    fresh = c.parts[0] is nothing
    for number, (a, b) in enumerate(pairs):
        said: dict[str, Any] = {"shape": shape, "first": number == 0, "b": b.at, "b_major": b.major}
        if fresh and number == 0:
            said["fresh"] = True
        if isinstance(a, SharedMatrix):
            said.update(source=a.pointer.memory, a=a.at, a_major=a.major)
            left = a.offset()
        else:
            if a.shape != shape or a.side != "a" or a.dtype is not shape.a_dtype:
                raise KernelTypeError(f"{a!r} is no operand a of {shape.name}")
            left = a.parts[0]
        operands = (c.parts[0], left, b.offset())
        types = (c.parts[0].type,)
        c.parts[0] = builder.emit("mma_async", operands, types, said, memory=b.pointer.memory)[0]
    builder.emit("commit_async", (), (), {"group": "matrix"})


def wait_mma(
    *accumulators: Fragment, pending: int = 0, after: Sequence[Fragment | Band] = ()
) -> None:
    """Wait for all groups of products but the latest ``pending``, and for these accumulators.

    ``after``: values computed first, concurrently with the products; without it compilers move the
    wait up over independent arithmetic.
    """
    builder = current()
    made = [one.items if isinstance(one, Band) else one.parts for one in after]
    computed = [item for one in made for item in one.items]
    builder.emit("wait_async", computed, (), {"group": "matrix", "pending": pending})
    for c in accumulators:
        part = c.parts[0]
        c.parts[0] = builder.emit("mma_result", (part,), (part.type,))[0]


def operand_of(
    tiles: Sequence[Fragment],
    shape: MatrixShape,
    side: Side,
    dtype: DType | None = None,
    first: int = 0,
) -> Fragment:
    """Return accumulators, adjacent along k, as an operand of the next product.

    Each unit keeps its elements, or swaps them with one other unit, converted to ``dtype``. The
    operand starts at index ``first`` along k. KernelTypeError if the operand's elements lie in more
    units than that; those need shared memory.
    """
    made = empty(shape, side, shape.dtype(side) if dtype is None else dtype)
    chosen = _sources(tiles[0].shape, len(tiles), shape, side, first)
    swapped = _swapped(tiles, chosen, made.dtype)
    for part in range(len(made.parts.items)):
        picked = []
        for r in range(part * made.width, (part + 1) * made.width):
            tile, register, distance, ones = chosen[r]
            value = _element(tiles[tile], register)
            if distance:
                other = swapped[tile, register]
                mine = (lane_position() & distance) != 0
                own = value.to(made.dtype)
                value = select(mine, own, other) if ones else select(mine, other, own)
            picked.append(value)
        made.parts[part] = (picked[0] if made.width == 1 else pack(picked)).to(made.dtype)
    return made


# The source of each register of an operand: the tile and its register, and for elements of other
# units the XOR distance of their numbers, and whether units with this bit set keep their own.
_Source = tuple[int, int, int, bool]


def _element(tile: Fragment, register: int) -> Number:
    return tile.parts[register // tile.width][register % tile.width]


def _swapped(
    tiles: Sequence[Fragment], chosen: Sequence[_Source], dtype: DType
) -> dict[tuple[int, int], Number]:
    """Return the swapped elements from the other units, packed two halves at a time."""
    wanted = dict.fromkeys((t, r, distance) for t, r, distance, _ in chosen if distance)
    found: dict[tuple[int, int], Number] = {}
    both = 2 if dtype.itemsize == 2 else 1
    places = list(wanted)
    for at in range(0, len(places), both):
        group = places[at : at + both]
        values = [_element(tiles[t], r).to(dtype) for t, r, _ in group]
        if len(group) == 2 and group[0][2] == group[1][2]:
            word = plane_shuffle(bitcast(pack(values), uint32), group[0][2], "xor")
            pair = bitcast(word, dtype)
            values = [pair[0], pair[1]]
        else:
            values = [
                plane_shuffle(value, distance, "xor")
                for value, (_, _, distance) in zip(values, group, strict=True)
            ]
        found.update({(t, r): value for (t, r, _), value in zip(group, values, strict=True)})
    return found


@lru_cache(maxsize=64)
def _sources(
    from_shape: MatrixShape, count: int, shape: MatrixShape, side: Side, first: int
) -> tuple[_Source, ...]:
    """Return the source of each operand register among the accumulators."""
    along = 1 if side == "a" else 0
    rows, columns = from_shape.extent("c")
    extent = [rows, columns]
    extent[along] *= count
    wanted = shape.extent(side)
    fits = extent[1 - along] == wanted[1 - along] and first + wanted[along] <= extent[along]
    if not fits or from_shape.lanes != shape.lanes:
        raise KernelTypeError(
            f"{count} accumulators of {from_shape.name} are {extent[0]} x {extent[1]}, not the "
            f"operand {side} of {shape.name} from place {first} on"
        )
    have = lane_places(from_shape, "c")
    want = lane_places(shape, side)
    found = []
    for r in range(want.shape[2]):
        place = want[:, :, r].copy()
        place[along] += first
        tile = place[along] // (rows, columns)[along]
        place[along] %= (rows, columns)[along]
        source = None if (tile != tile[0]).any() else _source(have, place)
        if source is None:
            raise KernelTypeError(
                f"the elements of operand {side} of {shape.name} lie in other units than those of "
                f"accumulators of {from_shape.name}; store them to shared memory and load them"
            )
        found.append((int(tile[0]), *source))
    return tuple(found)


def _source(have: Any, place: Any) -> tuple[int, int, bool] | None:
    """Return the register that all lanes need, and from which lanes; None if there is none."""
    own = (have == place[:, :, None]).all(axis=0)
    if own.all(axis=0).any():
        return int(np.argmax(own.all(axis=0))), 0, False
    lanes = np.arange(have.shape[1])
    for bit in range(len(lanes).bit_length() - 1):
        other = own | (have[:, lanes ^ (1 << bit)] == place[:, :, None]).all(axis=0)
        for register in np.flatnonzero(other.all(axis=0)):
            kept, ones = own[:, register], (lanes >> bit & 1) == 1
            if (kept == ones).all() or (kept == ~ones).all():
                return int(register), 1 << bit, bool((kept == ones).all())
    return None
