"""Transforms in private memory, one in each lane of vectors, with every factor in place.

Requirements: memory is read and written once for all factors of a length. Vectors run across
transforms, so steps need no shuffles; only loads and stores of rows with adjacent elements
transpose blocks in registers. Results of in-place steps are in the order of reversed digits
(Gentleman and Sande, 1966), and are stored in order. A lane has one transform, of real numbers too:
two of different sizes in one complex transform would round the smaller one away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.fft.codelets import Pair, multiply, transform
from calor_kernel.library.fft.kernels import along, in_octant, ratio, small_turn
from calor_kernel.library.fft.step_layout import Read, Storage, Written, own_mirror_image
from calor_kernel.library.fft.tile_sides import LaneCounts, Lanes, Mode, Side, Steps

N = TypeVar("N")
# Entries of each of the two tables whose products are the twiddle factors between two steps.
_SPLIT = 32


@dataclass(frozen=True, slots=True)
class Tile:
    """Numbers in private memory: element i has a vector of real parts, then of imaginary ones."""

    memory: kl.Pointer
    lanes: int

    def get(self, i: kl.Number) -> Pair:
        """Return an element of all lanes."""
        at = i * (2 * self.lanes)
        return self.memory.load(at, self.lanes), self.memory.load(at + self.lanes, self.lanes)

    def put(self, i: kl.Number, value: Pair) -> None:
        """Write an element of all lanes."""
        at = i * (2 * self.lanes)
        self.memory.store(at, value[0])
        self.memory.store(at + self.lanes, value[1])


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of real transforms, of the length n of a tile, or of 2n where it is ``halved``.

    A halved one has elements 2j and 2j + 1 as one complex number; ``table`` has the turns of 2n.
    """

    n: kl.Number
    table: kl.Pointer
    halved: bool

    @property
    def count(self) -> kl.Number:
        """The number of bins."""
        return self.n + 1 if self.halved else self.n // 2 + 1

    def turn(self, k: kl.Number, lanes: int) -> Pair:
        """Return exp(−2πi · k / 2n)."""
        return kl.splat(self.table[k], lanes), kl.splat(self.table[2 * self.n + k], lanes)

    def put(self, tile: Tile, side: Side, k: kl.Number, value: Pair) -> None:
        """Write bin k, and of a whole transform what follows of it at −k."""
        if self.halved:
            tile.put(k, value)
            return
        # The first and the middle bin have no imaginary part.
        lone = kl.splat(own_mirror_image(k, self.n), tile.lanes)
        imaginary = kl.select(lone, 0.0, value[1])
        tile.put(k, side.storage.exchanged((value[0], imaginary)))
        tile.put(self.n - k, side.storage.exchanged((value[0], -imaginary)))

    @kl.helper
    def fold(self, tile: Tile, side: Side) -> None:
        """Replace the bins of a tile by the complex numbers of a halved transform."""
        for k in kl.loop_range(self.n // 2 + 1):
            a, b = tile.get(k), tile.get(self.n - k)
            lone = kl.splat(k == 0, tile.lanes)
            a, b = (a[0], kl.select(lone, 0.0, a[1])), (b[0], kl.select(lone, 0.0, b[1]))
            w = self.turn(k, tile.lanes)
            even = a[0] + b[0], a[1] - b[1]
            # i times the difference, by the conjugate turn.
            odd = multiply((-(a[1] + b[1]), a[0] - b[0]), (w[0], -w[1]))
            tile.put(k, side.storage.exchanged((even[0] + odd[0], even[1] + odd[1])))
            tile.put(self.n - k, side.storage.exchanged((even[0] - odd[0], odd[1] - even[1])))

    def get(self, tile: Tile, side: Side, k: kl.Number, order: kl.Pointer) -> Pair:
        """Return bin k of a tile whose results lie in the given order."""
        if not self.halved:
            real, imaginary = side.storage.exchanged(tile.get(order[k]))
            lone = kl.splat(own_mirror_image(k, self.n), tile.lanes)
            return real, kl.select(lone, 0.0, imaginary)
        lone = kl.splat((k == 0) | (k == self.n), tile.lanes)
        a = side.storage.exchanged(tile.get(order[kl.select(k == self.n, 0, k)]))
        b = side.storage.exchanged(tile.get(order[kl.select(k == 0, 0, self.n - k)]))
        even = (a[0] + b[0]) * 0.5, (a[1] - b[1]) * 0.5
        # A difference that is 0 for such a bin, unless the bin is not finite.
        odd = (a[1] + b[1]) * 0.5, kl.select(lone, 0.0, (b[0] - a[0]) * 0.5)
        turned = multiply(odd, self.turn(k, tile.lanes))
        return even[0] + turned[0], kl.select(lone, 0.0, even[1] + turned[1])


@kl.helper
def load_tile(tile: Tile, side: Side, bins: Bins) -> None:
    """Fill a tile with transforms' elements."""
    lanes, n = tile.lanes, bins.n
    if side.storage.form == "half":
        count = bins.count
        if side.mode == "along":
            for k in kl.loop_range(0, count, lanes):
                for i, value in enumerate(side.read_block(k, count)):
                    if k + i < count:
                        bins.put(tile, side, k + i, value)
        else:
            for k in kl.loop_range(count):
                bins.put(tile, side, k, side.read(k))
        if bins.halved:
            bins.fold(tile, side)
    elif side.mode == "along":
        # What is beyond the last element is written beyond it.
        for i in kl.loop_range(0, n, lanes):
            for j, value in enumerate(side.read_block(i, n)):
                tile.put(i + j, side.storage.exchanged(value))
    else:
        for i in kl.loop_range(n):
            tile.put(i, side.storage.exchanged(side.read(i)))


@kl.helper
def store_tile(
    tile: Tile, side: Side, bins: Bins, order: kl.Pointer, between: Between | None
) -> None:
    """Write a tile's results in order; ``between`` turns them before the next step, or is None."""
    lanes, is_half = tile.lanes, side.storage.form == "half"
    count = bins.count if is_half else bins.n
    if side.mode == "along":
        for f in kl.loop_range(0, count, lanes):
            taken = [kl.min(f + i, count - 1) for i in range(lanes)]
            if is_half:
                values = [bins.get(tile, side, k, order) for k in taken]
            else:
                values = [side.storage.exchanged(tile.get(order[k])) for k in taken]
            side.write_block(f, count, values)
    else:
        for f in kl.loop_range(count):
            if is_half:
                side.write(f, bins.get(tile, side, f, order))
            else:
                value = tile.get(order[f])
                if between is not None:
                    value = multiply(value, between.at(f))
                side.write(f, side.storage.exchanged(value))


@dataclass(frozen=True, slots=True)
class Between:
    """Turns by exp(−2πi · index · f / n), with a index for each lane, as products of two."""

    coarse: Tile
    fine: Tile
    bits: kl.Number

    def at(self, f: kl.Number) -> Pair:
        """Return the turns of result f."""
        rest = f & ((1 << self.bits) - 1)
        return multiply(self.coarse.get(f >> self.bits), self.fine.get(rest))

    @kl.helper
    def fill(self, index: kl.Number, n: kl.Number, count: kl.Number) -> None:
        """Compute the turns of results below ``count``."""
        split = 1 << self.bits
        for f in kl.loop_range(split):
            self.fine.put(f, turn_by(index * f, n, self.fine.memory.dtype))
        for f in kl.loop_range((count + split - 1) >> self.bits):
            self.coarse.put(f, turn_by(index * (f << self.bits), n, self.fine.memory.dtype))


def turn_by(index: kl.Number, n: kl.Number, dtype: DType) -> Pair:
    """Return exp(−2πi · index / n) for indexs below n that the type holds exactly."""
    part, lost = ratio(index.to(dtype), kl.splat(n.to(dtype), index.width))
    # Eighths of a turn, whole ones and the rest, are exact.
    part, lost = part * 8.0, lost * 8.0
    octant = kl.floor(part)
    part = part - octant
    o = octant.to(index.dtype)
    odd = o % 2 == 1
    c, s = small_turn(kl.select(odd, 1.0 - part, part), kl.select(odd, -lost, lost))
    return in_octant(o, c, s)


@kl.helper
def step_in_place(
    tile: Tile, radix: int, n: kl.Number, before: kl.Number, m: kl.Number, table: kl.Pointer
) -> None:
    """Do one factor of the blocks of m elements, of which there are ``before``."""
    part = kl.quotient(m, radix)
    for block in kl.loop_range(before):
        values = [tile.get(block * m + j * part) for j in range(radix)]
        for k, value in enumerate(transform(values)):
            tile.put(block * m + k * part, value)
    for p in kl.loop_range(1, part):
        for block in kl.loop_range(before):
            at = block * m + p
            values = [tile.get(at + j * part) for j in range(radix)]
            for k, value in enumerate(transform(values)):
                if k:
                    turn = p * (before * k)
                    w = kl.splat(table[turn], tile.lanes), kl.splat(table[n + turn], tile.lanes)
                    value = multiply(value, w)
                tile.put(at + k * part, value)


@dataclass(frozen=True, slots=True)
class Twiddles(Generic[N]):
    """Twiddle factors between two steps of a transform of length ``long``.

    Each is a product of two; 1 << ``bits`` is about the root of the step's length. ``inner``
    adjacent lanes have the same factors.
    """

    long: kl.SizeOf[N]
    inner: kl.SizeOf[N]
    bits: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class TileBuild:
    """The build of a kernel of tiles.

    ``lanes``: of a vector; ``room``: the longest transform of a tile; ``radices``: factors that the
    kernel knows. ``twiddles``: results are multiplied by twiddle factors before the next step.
    ``halved``: the transforms are of twice as many real numbers.
    """

    lanes: int
    room: int
    radices: tuple[int, ...]
    read: Storage
    read_mode: Mode
    write: Storage
    write_mode: Mode
    flat: bool
    twiddles: bool
    halved: bool


@kl.kernel
def transform_tiles(
    source: Read[kl.Pointer],
    target: Written[kl.Pointer],
    table: kl.In,
    turns: kl.In,
    order: kl.In,
    n: kl.Size,
    factors: kl.Size,
    tiles: kl.Size,
    share: kl.Size,
    counts: LaneCounts[kl.Number],
    twiddles: Twiddles[kl.Number],
    steps: Steps[kl.Number],
    to_steps: Steps[kl.Number],
    *,
    build: TileBuild,
) -> None:
    """Transform ``share`` of ``tiles`` tiles of lanes of length n.

    ``factors`` has five bits for each factor, ``order`` the position of each result in a tile;
    ``turns``: the twiddle factors of twice the length, of real transforms that are halved.
    """
    dtype, lanes = table.dtype, build.lanes
    bins = Bins(n, turns, build.halved)
    tile = Tile(kl.private((build.room + lanes) * 2 * lanes, dtype, align=64), lanes)
    splits = _SPLIT if build.twiddles else 1
    between = Between(
        Tile(kl.private(splits * 2 * lanes, dtype, align=64), lanes),
        Tile(kl.private(splits * 2 * lanes, dtype, align=64), lanes),
        twiddles.bits,
    )
    begin = kl.cube_position() * share
    for number in kl.loop_range(begin, kl.min(begin + share, tiles)):
        here = Lanes(number, counts, lanes, build.flat)
        loads = here.side(source, build.read, build.read_mode, steps, build.halved)
        stores = here.side(target, build.write, build.write_mode, to_steps, build.halved)
        load_tile(tile, loads, bins)
        before, left = n * 0 + 1, factors
        while left > 0:
            radix = left & 31
            for one in build.radices:
                if radix == one:
                    step_in_place(tile, one, n, before, kl.quotient(n, before), table)
            before = before * radix
            left = left >> 5
        if build.twiddles:
            between.fill(along(here.first(), lanes) // twiddles.inner, twiddles.long, n)
        store_tile(tile, stores, bins, order, between if build.twiddles else None)


@kl.kernel
def reversed_digits(table: kl.Out, n: kl.Size, factors: kl.Size) -> None:
    """Write the positions of the results of a transform in place: their digits reversed."""
    f = kl.absolute_position()
    if f < n:
        position, rest, m, left = f * 0, f, n, factors
        while left > 0:
            radix = left & 31
            m = kl.quotient(m, radix)
            position = position + kl.modulo(rest, radix) * m
            rest = kl.quotient(rest, radix)
            left = left >> 5
        table[f] = position.to(table.dtype)
