"""Blueprints of matrix products on CPUs: register tiles, blocks, and packed operands.

Requirements: a blueprint is the smallest build-time key, so that products of many sizes share few
kernels. The choice follows from sizes, strides and the device alone.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    float32,
    int8,
    int32,
    int64,
    uint32,
    uint64,
)
from calor_kernel.contract.choices import choice, exceeds, greatest, hinted, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.problem import Product

# Rows of a register tile, by its vectors, for 32 and 16 vector registers; the operands fit beside
# the accumulators.
TILES = {32: {4: 6, 3: 8, 2: 12, 1: 16}, 16: {2: 6, 1: 8}}

# The cost of tiles of these vectors for a vector of columns: wider and higher ones read more for
# each product, and the starts of many rows may share a set of the first-level cache.
_READS = {4: 1.0, 3: 1.02, 2: 1.06}
# Maximum of rows of a cube: with one pass of the K axis they fit the second-level cache.
_BLOCK_ROWS = 168
# By vector registers: rows of the K axis of a pass over a packed B, of four and of eight bytes. The
# panels of 32 registers are wide. Narrow ones are long: few tiles begin, and A has long streams.
_PASSES = {32: (256, 192), 16: (1024, 1024)}
# The same over a B as it lies: narrow panels read a page again for each of them, while it is near.
_PASSES_IN_PLACE = {32: (256, 192), 16: (128, 128)}
# A B as it lies that is larger than so many elements is streamed: a pass is few rows of it, which a
# core reads along themselves. So memory sees few long streams, and a page is found once.
_STREAMED, _LARGE = 32, 1 << 18
# A B is packed that more tiles of rows read, and that has more elements.
_WORTH = ((4, 1 << 16), (32, 1 << 15))
# Rows of a longer pass over a packed B by 32 registers: the first of which a block of A fits three
# quarters of the second-level cache.
_LONG_PASSES = (768, 512)
# Panels of a cube, and bytes of a row of a cube's panels where B is read as it lies.
_PANELS, _ROW_BYTES = 8, 2048
# The same of a B that is streamed.
_STREAMED_BYTES = 1 << 14
# Terms up to which results are written along their rows that are larger than such a part of half of
# the second-level cache; tiles of rows of a cube then, and the bytes of a cache whose size is not
# known.
_SHALLOW, _TALL, _NEAR = ((32, 4), (128, 1)), 4, 1 << 18
# Where a cube packs B: its memory for the panels of a pass, and the maximum of blocks of rows, each
# of which packs B anew.
_ROOM_BYTES, _PACKINGS = 1 << 17, 1
# Columns that it packs at least, by vector registers: memory is slow with shorter parts of a row,
# and a processor looks for the page of each. Narrow tiles need longer passes.
_ROOM_COLUMNS = {32: 256, 16: 128}


@dataclass(frozen=True, slots=True)
class Packed:
    """Register tiles of ``rows`` by ``vectors`` vectors of ``lanes`` sums, with B in panels.

    ``group`` terms feed one instruction. ``pack_a``, ``pack_b``: whether the operand is copied to
    panels first. ``room``: the elements of a cube's own memory in which it packs its panels of B
    for each pass; 0 if a launch before packs them. ``depth`` groups of the K axis are one pass over
    a panel. A cube computes ``block_rows`` rows of ``block_panels`` panels. ``ahead``: whether the
    rows of a panel read parts of the next one, packed before, into the second-level cache.
    ``lines``: whether a tile prefetches the lines of its result into it.
    """

    accumulate: DType
    lanes: int
    rows: int
    vectors: int
    group: int
    pack_a: bool
    pack_b: bool
    depth: int
    block_rows: int
    block_panels: int
    unroll: int = 4
    room: int = 0
    ahead: bool = False
    lines: bool = False

    @property
    def width(self) -> int:
        """The columns of a panel."""
        return self.lanes * self.vectors


def accumulator(product: Product) -> DType:
    """Return the dtype of the sums: wider than half types, of the result's bits for integers."""
    dtype = product.dtype
    if dtype is bool_:
        return int32
    if dtype.kind == "float":
        return max(float32, dtype, product.a.dtype, key=lambda t: t.itemsize)
    if dtype.kind == "uint":
        return uint64 if dtype is uint64 else uint32
    return int64 if dtype is int64 else int32


def grouped(product: Product, info: DeviceInfo) -> int:
    """Return the terms of an instruction of the device: 2 of bfloat16, 4 of bytes."""
    a, dtype = product.a, product.dtype
    if a.dtype is bfloat16 and dtype in (bfloat16, float32) and info.has("dot_bfloat16"):
        return 2
    if a.dtype is int8 and dtype is int32 and info.has("dot_8"):
        return 4
    return 1


def packed(product: Product, info: DeviceInfo, keeps: bool = False) -> Packed:
    """Return the blueprint of register tiles for the sizes and strides.

    ``keeps``: B is unchanged, so that packing it costs nothing.
    """
    accumulate, group = accumulator(product), grouped(product, info)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    tiles = TILES[registers_of(info)]
    vectors = tile_vectors(product.n, lanes, max(tiles))
    rows = tile_rows(product.m, tiles[vectors])
    groups = -(-product.k // group)
    direct = group > 1 or product.a.dtype is accumulate
    # Rows of other lengths than whole groups are padded first.
    pack_a = not (direct and product.a.depth == 1)
    columns = product.b.free == 1 and group == 1 and product.b.dtype is accumulate
    # The more rows read B, the smaller is one that is worth packing.
    worth = any(
        exceeds(product.m, many * rows) and exceeds(product.n * product.k, large)
        for many, large in _WORTH
    )
    pack_b = not columns or worth or keeps
    # A panel of B should stay in the second-level cache, and a part of it in the first.
    streamed = not pack_b and _is_streamed(product)
    depth = _STREAMED if streamed else _pass_depth(info, accumulate.itemsize, pack_b)
    whole = product.dtype is not accumulate or groups <= depth * 3 // 2
    depth = max(groups, 1) if whole else depth
    width = lanes * vectors
    row = _STREAMED_BYTES if streamed else _ROW_BYTES
    most = _PANELS if pack_b else max(_PANELS, row // (width * accumulate.itemsize))
    # A pass over few terms takes as long as the result takes to be written.
    lines = depth >= groups and _is_shallow(product, info)
    if lines:
        blocks = lines_of(product, info, rows, width)
    else:
        blocks = blocks_of(product, info, rows, width, most)
    made = Packed(accumulate, lanes, rows, vectors, group, pack_a, pack_b, depth, *blocks)
    made = replace(made, lines=lines)
    wide = registers_of(info) == 32
    # Weights that stay have long passes, in which a turn of the loop is a small part.
    unroll = 8 if pack_b and group == 1 and not keeps else 4
    # The rows of B as it lies have addresses of their own, for which 16 registers are too few.
    return replace(made, ahead=wide, unroll=unroll if wide or pack_b else 1)


def tile_vectors(n: int, lanes: int, most: int) -> int:
    """Return the vectors of a panel of which the last one wastes least for ``n`` columns.

    >>> [tile_vectors(n, 16, 4) for n in (10, 40, 64, 65, 80, 100, 257, 4096)]
    [1, 3, 4, 3, 3, 4, 3, 4]
    """
    fit = min(most, -(-n // lanes))
    if fit < most or most < max(_READS):
        return fit
    # Panels of any width serve any number of columns.
    columns = hinted(n)
    return min(_READS, key=lambda v: -(-columns // (v * lanes)) * v * _READS[v])


def _is_streamed(product: Product) -> bool:
    """Return whether a B as it lies is larger than what a core keeps near."""
    return exceeds(product.n * product.k, _LARGE)


def _pass_depth(info: DeviceInfo, itemsize: int, packed: bool) -> int:
    """Return the terms of a pass over a panel of B, which stays in the second-level cache.

    Fewer passes read and write less of the sums between them.
    """
    registers = registers_of(info)
    usual = (_PASSES if packed else _PASSES_IN_PLACE)[registers][itemsize > 4]
    if registers == 16 or not packed or len(info.caches) < 2:
        return usual
    room = 3 * info.caches[1] // 4
    return next((n * 4 // itemsize for n in _LONG_PASSES if _BLOCK_ROWS * n * 4 <= room), usual)


def packed_inside(product: Product, info: DeviceInfo) -> Packed | str:
    """Return the blueprint whose cubes pack B themselves, or why another one is faster."""
    base = packed(product, info)
    if not base.pack_b or base.group > 1:
        return "B is read as it lies, or in groups"
    if product.b.free != 1 and product.b.depth != 1:
        return "no axis of B is dense"
    if exceeds(product.m, _PACKINGS * _BLOCK_ROWS):
        return "its many blocks of rows would each pack B"
    room = _ROOM_BYTES // base.accumulate.itemsize
    most = room // _ROOM_COLUMNS[registers_of(info)]
    if product.dtype is base.accumulate and exceeds(base.depth, most):
        base = replace(base, depth=-(-product.k // -(-product.k // most)))
    if base.depth * base.width > room:
        return "a pass over a panel does not fit the memory of a cube"
    # Each block of rows packs B anew.
    high, wide = blocks_of(product, info, base.rows, base.width)
    base = replace(base, block_rows=high, block_panels=wide, lines=False)
    panels = greatest(1, least(base.block_panels, room // (base.depth * base.width)))
    # A turn prefetches one line of the next block.
    return replace(base, room=room, block_panels=panels, unroll=min(base.unroll, 4))


def blocks_of(
    product: Product, info: DeviceInfo, rows: int, width: int, most: int = _PANELS
) -> tuple[int, int]:
    """Return the rows and the panels of a cube, at ``most`` so many, for its tiles."""
    tiles_down = -(-product.m // rows)
    blocks = -(-tiles_down * rows // _BLOCK_ROWS)
    block_rows = -(-tiles_down // greatest(1, blocks)) * rows
    panels = -(-product.n // width)
    tall = -(-product.m // block_rows) * product.batches
    block_panels = greatest(1, least(panels, most, panels * tall // (4 * info.cores)))
    return block_rows, block_panels


def _half_of_cache(info: DeviceInfo) -> int:
    """Return the bytes of half of the second-level cache."""
    return (info.caches[1] if len(info.caches) > 1 else _NEAR) // 2


def _is_shallow(product: Product, info: DeviceInfo) -> bool:
    """Return whether a result takes about as long to be written as its few terms to be added."""
    nbytes = product.batches * product.m * product.n * product.dtype.itemsize
    near = _half_of_cache(info)
    return any(
        not exceeds(product.k, most) and exceeds(nbytes, near // parts) for most, parts in _SHALLOW
    )


def lines_of(product: Product, info: DeviceInfo, rows: int, width: int) -> tuple[int, int]:
    """Return the rows and the panels of a cube that writes a result of few terms along its rows.

    Memory then sees few long streams. The panels of B stay in the second-level cache, and some
    tiles of rows read each of them from the first.
    """
    tiles_down, panels = -(-product.m // rows), -(-product.n // width)
    high = least(tiles_down, _TALL)
    fit = _half_of_cache(info) // greatest(1, width * product.k * accumulator(product).itemsize)
    tall = -(-tiles_down // high) * product.batches
    wide = least(panels, greatest(1, fit), greatest(1, panels * tall // (4 * info.cores)))
    return high * rows, wide


def registers_of(info: DeviceInfo) -> int:
    """Return the number of vector registers for tiles."""
    return 32 if info.native.get("vector_registers", 16) >= 32 else 16


# The heights of tiles: few, so that products of any number of rows share few kernels. By the
# maximum of rows of a tile: the possible heights for more rows than that, the highest first.
HEIGHTS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
_HIGH = {m: tuple(r for r in HEIGHTS[::-1] if m < 2 * r <= 2 * m) for m in range(1, 17)}


def _tile_cost(rows: int, m: int, most: int) -> float:
    """Return the cost of tiles of a height for ``m`` rows, in rows; a tile has an overhead."""
    return -(-m // rows) * (rows + 0.35)


@choice(cost=_tile_cost)
def tile_rows(m: int, most: int) -> int:
    """Return the height of a tile with the least waste for ``m`` rows, the highest of equals."""
    if m <= most:
        return HEIGHTS[bisect_left(HEIGHTS, m)]
    return min(_HIGH[most], key=lambda rows: _tile_cost(rows, m, most))


@dataclass(frozen=True, slots=True)
class Dots:
    """``rows`` by ``columns`` sums along vectors of the K axis; nothing is packed.

    A cube computes ``block`` columns; that is no build-time key.
    """

    accumulate: DType
    lanes: int
    rows: int
    columns: int
    block: int


def dots(product: Product, info: DeviceInfo, most: int = 12) -> Dots | None:
    """Return the blueprint for up to ``most`` rows, else None: tiles are faster then."""
    accumulate = accumulator(product)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    along = product.a.depth == 1 and product.b.depth == 1
    if not along or product.m > most or product.k < lanes:
        return None
    rows = min(product.m, 4)
    columns = {1: 8, 2: 6, 3: 6, 4: 5}[rows] if lanes > 1 else 1
    columns = min(columns, product.n)
    work = greatest(1, (1 << 18) // greatest(product.k, 1))
    block = greatest(columns, least(product.n, work, -(-product.n // (2 * info.cores))))
    return Dots(accumulate, lanes, rows, columns, -(-block // columns) * columns)


@dataclass(frozen=True, slots=True)
class Streams:
    """``rows`` rows of C at a time, from ``streams`` rows of B read together.

    A cube computes ``block`` columns, at most ``room``; that is no build-time key.
    """

    rows: int
    streams: int
    lanes: int
    vectors: int
    room: int
    block: int
    accumulate: DType


def streams(product: Product, info: DeviceInfo, most: int = 0) -> Streams | None:
    """Return the blueprint for up to ``most`` rows, for a B that is dense along its columns.

    Without ``most`` it is for the numbers of rows for which tiles are slower: one, and more if
    tiles would pack B to convert it.
    """
    accumulate = accumulator(product)
    if not most:
        packs = product.b.dtype is not accumulate
        most = (8 if grouped(product, info) == 1 else 4) if packs else 1
    if product.m > most or product.b.free != 1 or product.n == 1:
        return None
    rows = stream_rows(product.m)
    count = STREAMS[registers_of(info)][rows]
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    room = _STREAM_ROOM // (1 if rows == 1 else 2)
    walks = -(-product.m // rows) * product.batches
    block = _stream_block(product.n, walks, lanes, info.cores, room)
    return Streams(rows, count, lanes, 2, room, block, accumulate)


# Sums of a row of a block, which fit the first-level cache. Blocks are as wide as rows of B where
# they can be: memory is read the faster, the more of it lies side by side.
_STREAM_ROOM = 4096
# By vector registers and rows: the rows of B that are read together; their factors stay in
# registers.
STREAMS = {32: {1: 4, 2: 8, 3: 4, 4: 4}, 16: {1: 8, 2: 4, 3: 2, 4: 2}}


def _walks_cost(rows: int, m: int) -> float:
    """Return the cost of passes over B for ``m`` rows, in passes of one row."""
    return -(-m // rows) * (1 + 0.25 * rows)


@choice(cost=_walks_cost)
def stream_rows(m: int) -> int:
    """Return the rows of C that are computed together; of equal costs the fewest."""
    return -(-m // -(-m // 4))


@choice()
def _stream_block(n: int, rows: int, lanes: int, cores: int, room: int) -> int:
    """Return the columns of a block: many, but with as many blocks as cores."""
    block = min(room, -(-n // lanes) * lanes)
    while block > 8 * lanes and -(-n // block) * rows < cores:
        block = -(-block // 2 // lanes) * lanes
    return block
