"""Accumulators as operands of the next product, in registers.

Units keep their elements, or swap with the unit whose number differs in one bit; anything else goes
through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from calor.dtypes import DType, uint32
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.fragments import Fragment, empty
from calor_kernel.language.functions import (
    bitcast,
    lane_position,
    pack,
    plane_shuffle,
    select,
)
from calor_kernel.language.matrices import MatrixShape, Side, lane_places
from calor_kernel.language.values import Number


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
