"""Blueprints of direct convolutions: register tiles and the blocks of a cube.

Requirements: a blueprint is the smallest build-time key, so that convolutions of many sizes share
few kernels. The choice follows from sizes, strides and the device alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lcm

from calor.dtypes import DType
from calor.errors import CompileError
from calor_kernel.contract.choices import greatest, hinted, is_size, least, nearby
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.blueprints import HEIGHTS, TILES

Tile = tuple[int, int]

# Tiles of rows and vectors that fit 32 and 16 vector registers, with operands beside the sums.
_TILES: dict[int, tuple[Tile, ...]] = {
    32: ((8, 3), (6, 4), (5, 4), (4, 6), (3, 6), (2, 8), (1, 8)),
    16: ((4, 3), (3, 3), (2, 4), (1, 6)),
}
# Tiles for rows of few vectors of pixels.
_NARROW: dict[int, dict[int, Tile]] = {
    32: {1: (16, 1), 2: (12, 2), 3: (8, 3), 4: (6, 4)},
    16: {1: (8, 1), 2: (5, 2), 3: (4, 3), 4: (2, 4)},
}
# The most rows of a tile of three vectors, which fills 16 registers.
_WIDE = {3: 4}
# Minimum and maximum of operations of a cube, as far as sizes allow.
_LEAST, _MOST = 1 << 19, 6 << 20


def _registers(info: DeviceInfo) -> int:
    """Return the kind of tiles for a device: for 32 or for 16 vector registers."""
    return 32 if info.native.get("vector_registers", 16) >= 32 else 16


def _share(total: int, info: DeviceInfo) -> int:
    """Return the operations of a cube for a number of operations in all."""
    return least(greatest(total // (8 * info.cores), _LEAST), _MOST)


@dataclass(frozen=True, slots=True)
class Shift:
    """Tiles of (rows, vectors): output channels by vectors of output pixels.

    ``whole`` panels of pixels have tiles ``tile``, the other ``panels - whole`` have ``rest``. A
    cube computes ``block_rows`` channels of ``block_panels`` panels.
    """

    accumulate: DType
    lanes: int
    tile: Tile
    rest: Tile
    whole: int
    panels: int
    block_rows: int
    block_panels: int
    unroll: int = 3


def shift(
    rows: int, places: int, terms: int, images: int, accumulate: DType, info: DeviceInfo
) -> Shift:
    """Return the tiles for numbers of channels, pixels of a line, terms and images."""
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    many = _registers(info)
    count = -(-places // lanes)
    tile, rest, whole, less = _panels(rows, count, many)
    wanted = _share(2 * rows * terms * places * images, info)
    panel = max(2 * rows * terms * tile[1] * lanes, 1)
    # A block has whole tiles of both kinds.
    step = lcm(tile[0], rest[0])
    block_panels = greatest(1, wanted // panel)
    block_rows = rows
    if hinted(block_panels) == 1:
        block_rows = greatest(1, wanted // (2 * step * terms * tile[1] * lanes)) * step
    panels = whole + less
    blocks = least(block_rows, rows), least(block_panels, panels)
    return Shift(accumulate, lanes, tile, rest, whole, panels, *blocks)


def _panels(rows: int, count: int, many: int) -> tuple[Tile, Tile, int, int]:
    """Return both kinds of tiles, and how many panels of each cover ``count`` vectors."""
    narrow = _NARROW[many]
    number = nearby(count)
    if hinted(number) <= max(narrow) and number <= max(narrow):
        for known, (height, vectors) in narrow.items():
            if number == known:
                tile = (min(height, rows), vectors)
                return tile, tile, -(-count // vectors), 0
    # Rows beyond the last channel are wasted, and each tile has costs beside its products.
    fit = [t for t in _TILES[many] if t[0] <= rows] or [_TILES[many][-1]]
    tile = min(fit, key=lambda t: (-(-rows // t[0]) * (t[0] * t[1] + 2) / t[1], -t[0]))
    vectors = tile[1]
    over = count % vectors
    if is_size(over):
        # One kernel for all remainders. A plan that is called often has tiles of its own.
        if vectors == 3:
            wide = least(over, -(-count // 4))
            return tile, (min(narrow[4][0], rows), 4), greatest((count - 4 * wide) // 3, 0), wide
        return tile, tile, -(-count // vectors), 0
    if vectors == 3 and over and count >= 4 * over:
        return tile, (min(narrow[4][0], rows), 4), (count - 4 * over) // 3, over
    if not over:
        return tile, tile, count // vectors, 0
    last = 2 if over <= 2 else 4
    rest = (min(narrow[last][0], rows), last) if over <= last <= vectors else tile
    return tile, rest, count // vectors, 1


def _pair_cost(tile: Tile, rows: int, columns: int, lanes: int) -> float:
    """Return the cost of tiles, which cover more rows and vectors than there are."""
    height, vectors = tile
    covered = -(-rows // height) * height * -(-columns // (vectors * lanes)) * vectors
    # Each tile is stored; each of its operands is loaded once a pair.
    return covered * (1 + 0.05 / height + 0.25 / vectors)


def pair_tile(rows: int, columns: int, lanes: int, info: DeviceInfo) -> Tile:
    """Return the rows and vectors of sums by dot instructions with the least waste."""
    tiles = TILES[_registers(info)].items()
    fit = [(height, vectors) for vectors, most in tiles for height in HEIGHTS if height <= most]
    # Low tiles load more than they multiply.
    some = [t for t in fit if 2 * t[0] * t[1] >= _registers(info)] or fit
    rows, columns = hinted(rows), hinted(columns)
    return min(some, key=lambda tile: _pair_cost(tile, rows, columns, lanes))


def fma_tile(rows: int, columns: int, lanes: int, info: DeviceInfo) -> Tile:
    """Return the rows and vectors of sums by FMA with the least cost for packed columns.

    A step loads the vectors and broadcasts the rows, as many a cycle as it multiplies. The fewer
    sums there are, the more often they wait for each other.
    """
    many = _registers(info)
    tiles = TILES[many] | (_WIDE if many == 16 else {})
    fit = [(height, vectors) for vectors, most in tiles.items() for height in HEIGHTS]
    # All tiles are right: other sizes than those at hand keep the choice.
    rows, columns = hinted(rows), hinted(columns)

    def cost(tile: Tile) -> float:
        height, vectors = tile
        covered = -(-rows // height) * -(-columns // (vectors * lanes))
        products = height * vectors
        return float(covered * (max(products, height + vectors) + 2))

    return min((t for t in fit if t[0] <= tiles[t[1]]), key=cost)


@dataclass(frozen=True, slots=True)
class DotTile:
    """Tiles of ``rows`` by ``columns`` channel pairs by ``taps`` taps, each one a dot product.

    A cube computes ``block_rows`` rows of ``block_taps`` taps.
    """

    rows: int
    columns: int
    taps: int
    block_rows: int
    block_taps: int


def dot_tile(
    rows: int, columns: int, taps: int, near: int, places: int, groups: int, info: DeviceInfo
) -> DotTile:
    """Return the tiles for the numbers of channels of both operands, taps and pixels.

    ``near`` taps read the same cache lines, as taps of one row do; a tile has them together.
    """
    many = _registers(info)
    sums, most = (24, 6) if many == 32 else (10, 3)
    together = min(near, most)
    if rows * columns < 8:
        together = min(taps, sums // (rows * columns))
    width = min(columns, max(1, most // together))
    height = min(rows, max(1, sums // (width * together)))
    tile = max(2 * height * width * together * places, 1)
    wanted = _share(2 * rows * columns * taps * places * groups, info)
    block_taps = least(taps, greatest(1, wanted // tile) * together)
    block_rows = greatest(1, wanted * together // (tile * block_taps)) * height
    return DotTile(height, width, together, least(block_rows, rows), block_taps)


# Sums that are needed to hide the latency of multiply-add.
_WAITING = 8
# What a lower tile may cost beside the best one, where sizes vary.
_NEARLY = 1.15
# Addresses of pixels that fit registers.
_ADDRESSES = 12

# Tiles of pixels and vectors of channels, by the number of vector registers.
_ACROSS: dict[int, tuple[Tile, ...]] = {
    32: (*((n, 2) for n in range(14, 9, -1)), (9, 3), (8, 3), (7, 3), (6, 4), (5, 4), (4, 6)),
    16: ((6, 2), (5, 2), (4, 2), (4, 3)),
}


@dataclass(frozen=True, slots=True)
class Across:
    """Tiles of ``rows`` output pixels by ``vectors`` vectors of channels.

    A cube computes ``block_lines`` rows of pixels of ``block_panels`` panels of channels.
    """

    rows: int
    vectors: int
    block_panels: int
    block_lines: int


def across_tile(
    width: int,
    outputs: int,
    terms: int,
    lines: int,
    images: int,
    lanes: int,
    info: DeviceInfo,
    last: bool = False,
) -> Across:
    """Return the tiles for rows of ``width`` pixels, vectors of ``lanes``, and ``lines`` rows.

    ``last``: whether the result has channels last, so that tiles are not transposed.
    """
    most = width if last else least(width, lanes)
    sizes = hinted(width), hinted(outputs), hinted(most)
    rows, vectors = _across(*sizes, lanes, _registers(info), last, is_size(most))
    if rows > most:
        raise CompileError(f"a tile of {rows} pixels does not fit rows of {most}")
    panels = -(-outputs // (vectors * lanes))
    line = max(2 * width * vectors * lanes * terms, 1)
    wanted = _share(line * lines * panels * images, info)
    block_lines = least(lines, greatest(1, wanted // line))
    block_panels = least(panels, greatest(1, wanted // (line * block_lines)))
    return Across(rows, vectors, block_panels, block_lines)


@lru_cache(1024)
def _across(
    width: int, outputs: int, most: int, lanes: int, many: int, last: bool, varying: bool
) -> Tile:
    """Return the tile of pixels and vectors of channels with the fewest instructions.

    Where sizes vary and the tile takes most of a row, a lower one that costs little more serves
    narrower rows too.
    """
    tiles = _ACROSS[many]
    if last:
        short = ((n, v) for n in range(1, 4) for v in range(many // (n + 1), 1, -1))
        tiles = (*((n, 1) for n in range(many - 4, 7, -1)), *tiles, *short)

    def cost(tile: Tile) -> tuple[float, int]:
        """Return the instructions."""
        rows, vectors = tile
        tiles = -(-width // rows) * -(-outputs // (vectors * lanes))
        products, addresses = max(rows * vectors, _WAITING), max(rows - _ADDRESSES, 0)
        return tiles * (products + vectors + 2 + addresses / 2), -rows

    fit = [tile for tile in tiles if tile[0] <= most]
    best = min(fit, key=cost)
    if not varying or 2 * best[0] <= most:
        return best
    enough = _NEARLY * cost(best)[0]
    return min((t for t in fit if cost(t)[0] <= enough), key=lambda t: (t[0], cost(t)))


@dataclass(frozen=True, slots=True)
class Narrow:
    """Tiles of ``rows`` by ``vectors`` vectors of channels."""

    rows: int
    vectors: int

    def block(self, flops: int, rows: int, info: DeviceInfo) -> int:
        """Return the rows of a cube, in whole tiles; ``flops``: the operations of a panel."""
        tiles = greatest(1, _share(flops, info) * rows // greatest(flops * self.rows, 1))
        return least(tiles * self.rows, rows)


def narrow_weights(rows: int, columns: int, taps: int, lanes: int, info: DeviceInfo) -> Narrow:
    """Return the tiles for channels of both operands: all taps of a filter row.

    Rows are channels of one operand, vectors of the other.
    """
    sums = 24 if _registers(info) == 32 else 10
    # Vectors that are read stay in registers beside the sums, one for each tap of a pixel.
    vectors = 2 if columns > lanes and sums >= 8 * taps else 1
    return Narrow(min(rows, max(1, sums // (taps * vectors))), vectors)


def narrow_tile(
    width: int, outputs: int, taps: int, images: int, lanes: int, info: DeviceInfo
) -> Narrow | None:
    """Return the tiles for rows of ``width`` pixels; None if registers are too few.

    A tile's rows are a pixel row of as many images; vectors are of output channels. Registers
    beside the sums hold the weights of a filter row, and an element of the input.
    """
    many = _registers(info)
    count = -(-outputs // lanes)
    number = nearby(images)

    def height(rows: int) -> int:
        """Return the images of a tile of at most ``rows``, no more than there are."""
        if is_size(images) and not is_size(number):
            # Few heights, so that fewer images share them.
            return rows if number >= 2 * rows else min(rows, 1 << max(number.bit_length() - 2, 0))
        # Comparisons with a number of images that is a symbol are guards.
        return next((n for n in range(1, rows) if images <= n), rows)

    def cost(tile: Narrow) -> tuple[int, int]:
        """Return twice the instructions of an input channel: products, and reads of both operands.

        In whole numbers: a fraction of a number of images that is a symbol holds for that one.
        """
        rows, vectors = tile.rows, tile.vectors
        tiles = -(-number // rows) * -(-count // vectors)
        reads = rows * width + 2 * taps * vectors
        # Fewer sums than this wait for each other.
        products = 2 * max(rows * vectors * width, _WAITING) * taps
        return tiles * (products + reads), -vectors

    most = ((v, (many - 1 - taps * v) // (width * v)) for v in range(1, 5))
    fit = [Narrow(height(rows), vectors) for vectors, rows in most if rows > 0]
    found = min(fit, key=cost, default=None)
    # A tile needs as many images. The comparison becomes a guard, which the hint meets.
    return None if found is not None and images < found.rows else found
