"""Many transforms at once in private memory: a lane each, every factor in place.

Requirements: memory is read and written once for all factors of a length; vectors run across
transforms, so that no step shuffles, and only reading and writing rows that lie one after another
transposes squares in registers. Results stay where they are computed, in the order of reversed
digits (Gentleman and Sande, 1966), and are written in their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.language import (
    absolute_position,
    cube_position,
    floor,
    helper,
    kernel,
    loop_range,
    modulo,
    private,
    quotient,
    select,
    splat,
)
from calor_kernel.library.fft.codelets import Pair, multiply, transform
from calor_kernel.library.fft.kernels import along, ratio, small_turn
from calor_kernel.library.fft.step_layout import Form
from calor_kernel.library.fft.tile_sides import Lanes, Mode, Side, Steps

# Turns between two steps of a long transform are products of two of at most this many.
_SPLIT = 32


@dataclass(frozen=True, slots=True)
class Tile:
    """Numbers in private memory: element i has a vector of real parts, then of imaginary ones."""

    memory: Any
    lanes: int

    def get(self, i: Any) -> Pair:
        """Return an element of all lanes."""
        at = i * (2 * self.lanes)
        return self.memory.load(at, self.lanes), self.memory.load(at + self.lanes, self.lanes)

    def put(self, i: Any, value: Pair) -> None:
        """Write an element of all lanes."""
        at = i * (2 * self.lanes)
        self.memory.store(at, value[0])
        self.memory.store(at + self.lanes, value[1])


def exchanged(value: Pair, swapped: bool) -> Pair:
    """Return the parts, exchanged for inverse transforms."""
    return (value[1], value[0]) if swapped else value


@helper
def load_tile(tile: Tile, side: Side, n: Any) -> None:
    """Fill a tile with transforms' elements; of real ones, two lanes make a complex one."""
    lanes = tile.lanes
    if side.form == "half":
        bins = n // 2 + 1
        if side.mode == "along":
            for k in loop_range(0, bins, lanes):
                one, two = side.read_square(k, bins, 0), side.read_square(k, bins, 1)
                for i in range(lanes):
                    if k + i < bins:
                        put_bins(tile, side, k + i, n, one[i], two[i])
        else:
            for k in loop_range(bins):
                put_bins(tile, side, k, n, side.read(k, 0), side.read(k, 1))
    elif side.mode == "along":
        # What is beyond the last element is written beyond it.
        for i in loop_range(0, n, lanes):
            if side.form == "real":
                halves = side.read_real_square(i, n, 0), side.read_real_square(i, n, 1)
                values = list(zip(*halves, strict=True))
            else:
                values = side.read_square(i, n, 0)
            for j, value in enumerate(values):
                tile.put(i + j, exchanged(value, side.swapped))
    else:
        for i in loop_range(n):
            if side.form == "real":
                value = side.read_real(i, 0), side.read_real(i, 1)
            else:
                value = side.read(i, 0)
            tile.put(i, exchanged(value, side.swapped))


def put_bins(tile: Tile, side: Side, k: Any, n: Any, one: Pair, two: Pair) -> None:
    """Write bin k of two real transforms as one complex one, and what follows of it at −k."""
    # The first and the middle bin have no imaginary part.
    lone = splat((k == 0) | (2 * k == n), tile.lanes)
    first, second = select(lone, 0.0, one[1]), select(lone, 0.0, two[1])
    tile.put(k, exchanged((one[0] - second, first + two[0]), side.swapped))
    tile.put(n - k, exchanged((one[0] + second, two[0] - first), side.swapped))


@helper
def store_tile(tile: Tile, side: Side, n: Any, order: Any, between: Any) -> None:
    """Write a tile's results in order; ``between`` turns them before the next step, or is None."""
    lanes = tile.lanes
    count = n // 2 + 1 if side.form == "half" else n
    if side.mode == "along":
        for f in loop_range(0, count, lanes):
            taken = [min(f + i, count - 1) for i in range(lanes)]
            if side.form == "half":
                bins = [get_bins(tile, side, k, n, order) for k in taken]
                side.write_square(f, count, 0, [b[0] for b in bins])
                side.write_square(f, count, 1, [b[1] for b in bins])
            else:
                values = [exchanged(tile.get(order[k]), side.swapped) for k in taken]
                if side.form == "real":
                    side.write_real_square(f, count, 0, [v[0] for v in values])
                    side.write_real_square(f, count, 1, [v[1] for v in values])
                else:
                    side.write_square(f, count, 0, values)
    else:
        for f in loop_range(count):
            if side.form == "half":
                one, two = get_bins(tile, side, f, n, order)
                side.write(f, 0, one)
                side.write(f, 1, two)
            else:
                value = tile.get(order[f])
                if between is not None:
                    value = multiply(value, between.at(f))
                value = exchanged(value, side.swapped)
                if side.form == "real":
                    side.write_real(f, 0, value[0])
                    side.write_real(f, 1, value[1])
                else:
                    side.write(f, 0, value)


def get_bins(tile: Tile, side: Side, k: Any, n: Any, order: Any) -> tuple[Pair, Pair]:
    """Return bin k of two real transforms that were done as one complex one."""
    a = exchanged(tile.get(order[k]), side.swapped)
    b = exchanged(tile.get(order[select(k == 0, 0, n - k)]), side.swapped)
    one = (a[0] + b[0]) * 0.5, (a[1] - b[1]) * 0.5
    two = (a[1] + b[1]) * 0.5, (b[0] - a[0]) * 0.5
    return one, two


@dataclass(frozen=True, slots=True)
class Between:
    """Turns by exp(−2πi · place · f / n), with a place for each lane, as products of two."""

    coarse: Tile
    fine: Tile
    bits: Any

    def at(self, f: Any) -> Pair:
        """Return the turns of result f."""
        rest = f & ((1 << self.bits) - 1)
        return multiply(self.coarse.get(f >> self.bits), self.fine.get(rest))

    @helper
    def fill(self, place: Any, n: Any, count: Any) -> None:
        """Compute the turns of results below ``count``."""
        split = 1 << self.bits
        for f in loop_range(split):
            self.fine.put(f, turn_by(place * f, n, self.fine.memory.dtype))
        for f in loop_range((count + split - 1) >> self.bits):
            self.coarse.put(f, turn_by(place * (f << self.bits), n, self.fine.memory.dtype))


def turn_by(place: Any, n: Any, dtype: DType) -> Pair:
    """Return exp(−2πi · place / n) for places below n that the type holds exactly."""
    part, lost = ratio(place.to(dtype), splat(n.to(dtype), place.width))
    # Eighths of a turn, whole ones and the rest, are exact.
    part, lost = part * 8.0, lost * 8.0
    octant = floor(part)
    part = part - octant
    o = octant.to(place.dtype)
    odd = o % 2 == 1
    c, s = small_turn(select(odd, 1.0 - part, part), select(odd, -lost, lost))
    exchange = (o + 1) // 2 % 2 == 1
    real, imaginary = select(exchange, s, c), select(exchange, c, s)
    return (
        select((o + 2) // 4 % 2 == 1, -real, real),
        select(o >= 4, imaginary, -imaginary),
    )


@helper
def step_in_place(tile: Tile, radix: int, n: Any, before: Any, m: Any, table: Any) -> None:
    """Do one factor of the blocks of m elements, of which there are ``before``."""
    part = quotient(m, radix)
    for block in loop_range(before):
        values = [tile.get(block * m + j * part) for j in range(radix)]
        for k, value in enumerate(transform(values)):
            tile.put(block * m + k * part, value)
    for p in loop_range(1, part):
        for block in loop_range(before):
            at = block * m + p
            values = [tile.get(at + j * part) for j in range(radix)]
            for k, value in enumerate(transform(values)):
                if k:
                    turn = p * (before * k)
                    w = splat(table[turn], tile.lanes), splat(table[n + turn], tile.lanes)
                    value = multiply(value, w)
                tile.put(at + k * part, value)


@kernel
def transform_tiles(
    first: Any,
    second: Any,
    to_first: Any,
    to_second: Any,
    table: Any,
    order: Any,
    n: Any,
    factors: Any,
    tiles: Any,
    share: Any,
    middle: Any,
    count: Any,
    total: Any,
    long: Any,
    inner: Any,
    bits: Any,
    outer_step: Any,
    middle_step: Any,
    lane_step: Any,
    step: Any,
    to_outer_step: Any,
    to_middle_step: Any,
    to_lane_step: Any,
    to_step: Any,
    *,
    lanes: int,
    room: int,
    radices: tuple[int, ...],
    read: Form,
    write: Form,
    read_mode: Mode,
    write_mode: Mode,
    swap_read: bool,
    swap_write: bool,
    flat: bool,
    turned: bool,
) -> None:
    """Transform ``share`` tiles of lanes of length n, of which there are ``tiles``.

    ``factors`` has five bits for each factor, ``order`` the place of each result in a tile.
    ``swap_read``, ``swap_write``: both parts are exchanged. ``turned``: results are turned by
    their number times the lane's number // inner, as parts of ``long``; 1 << ``bits`` is about
    the root of n.
    """
    dtype = table.dtype
    width = 2 * lanes if "half" in (read, write) else lanes
    tile = Tile(private((room + lanes) * 2 * lanes, dtype, align=64), lanes)
    splits = _SPLIT if turned else 1
    between = Between(
        Tile(private(splits * 2 * lanes, dtype, align=64), lanes),
        Tile(private(splits * 2 * lanes, dtype, align=64), lanes),
        bits,
    )
    steps = Steps(outer_step, middle_step, lane_step, step)
    to_steps = Steps(to_outer_step, to_middle_step, to_lane_step, to_step)
    begin = cube_position() * share
    for number in loop_range(begin, min(begin + share, tiles)):
        here = Lanes(number, middle, count, total, width, lanes, flat)
        source = Side(
            first, second, read, read_mode, swap_read, step, here.starts(read_mode, steps),
            here.there(read_mode), lanes,
        )  # fmt: skip
        target = Side(
            to_first, to_second, write, write_mode, swap_write, to_step,
            here.starts(write_mode, to_steps), here.there(write_mode), lanes,
        )  # fmt: skip
        load_tile(tile, source, n)
        before, left = n * 0 + 1, factors
        while left > 0:
            radix = left & 31
            for one in radices:
                if radix == one:
                    step_in_place(tile, one, n, before, quotient(n, before), table)
            before = before * radix
            left = left >> 5
        if turned:
            between.fill(along(here.first(0), lanes) // inner, long, n)
        store_tile(tile, target, n, order, between if turned else None)


@kernel
def reversed_digits(order: Any, n: Any, factors: Any) -> None:
    """Write where the results of a transform in place are: their digits the other way round."""
    f = absolute_position()
    if f < n:
        place, rest, m, left = f * 0, f, n, factors
        while left > 0:
            radix = left & 31
            m = quotient(m, radix)
            place = place + modulo(rest, radix) * m
            rest = quotient(rest, radix)
            left = left >> 5
        order[f] = place.to(order.dtype)
