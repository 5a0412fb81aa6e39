"""Further blueprints of products by cubes of one unit, for the tuner.

Requirements: the variations are data, grouped by the likelihood of a gain. A variant is named by
its differences, so that a result for one size applies to similar ones. A variant that does not fit
the device or the product is dropped with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Dropped
from calor_kernel.library.matmul.blueprints import (
    HEIGHTS,
    TILES,
    Dots,
    Packed,
    Streams,
    accumulator,
    blocks_of,
    dots,
    registers_of,
    streams,
    tile_rows,
)
from calor_kernel.library.matmul.problem import Product

Blueprint = Packed | Dots | Streams

# Groups of the K axis in a pass, and steps of a pass in a loop iteration.
_DEPTHS = (128, 256, 512)
_UNROLLS = (2, 8)
# Rows and columns of sums for dot products.
_DOTS = ((1, 8), (1, 4), (2, 6), (2, 4), (4, 5), (4, 4), (4, 2))
# Rows of B that are read together, and vectors of each.
_STREAMS = ((8, 2), (4, 2), (2, 2), (16, 1), (8, 1), (4, 4))
# Maximum of rows for which these ways are tried; the cost model's bounds are lower.
_DOT_ROWS, _STREAM_ROWS = 48, 8


@dataclass(frozen=True, slots=True)
class Variant:
    """A blueprint with its name and its priority group."""

    name: str
    group: int
    blueprint: Blueprint


def few_row_variants(product: Product, info: DeviceInfo) -> Iterator[Variant | Dropped]:
    """Yield further ways that read B once, beside those of the cost model."""
    registers = registers_of(info)
    base = dots(product, info, _DOT_ROWS)
    usual = dots(product, info) is not None
    if base is not None and not usual:
        yield Variant("dots", 1, base)
    for rows, columns in _DOTS if base is not None else ():
        assert base is not None
        name = f"dots {rows}x{columns}"
        if rows * columns + rows + 1 > registers:
            yield Dropped(name, f"its sums do not fit {registers} vector registers")
        elif rows > product.m or columns > product.n:
            yield Dropped(name, "the product is smaller than a tile")
        elif (rows, columns) != (base.rows, base.columns):
            block = -(-base.block // columns) * columns
            made = replace(base, rows=rows, columns=columns, block=block)
            yield Variant(name, 1 if usual and rows == base.rows else 2, made)
    wide = streams(product, info, _STREAM_ROWS)
    usual = streams(product, info) is not None
    if wide is not None and not usual:
        yield Variant("streams", 1, wide)
    for count, vectors in _STREAMS if wide is not None else ():
        assert wide is not None
        name = f"streams {count}x{vectors}"
        if count * wide.rows + wide.rows + 2 > registers:
            yield Dropped(name, f"its factors do not fit {registers} vector registers")
        elif (count, vectors) != (wide.streams, wide.vectors):
            yield Variant(name, 1 if usual else 2, replace(wide, streams=count, vectors=vectors))


def tile_variants(product: Product, base: Packed, info: DeviceInfo) -> Iterator[Variant | Dropped]:
    """Yield neighbours of a blueprint of register tiles: tiles, packing, passes, blocks."""
    registers = registers_of(info)
    tiles = TILES[registers]
    for vectors, most in tiles.items():
        name = f"vectors {vectors}"
        if vectors * base.lanes >= product.n + base.lanes:
            yield Dropped(name, "the product has fewer columns")
        elif vectors != base.vectors:
            rows = tile_rows(product.m, most)
            made = _tiled(product, base, info, rows, vectors)
            yield Variant(name, 1 if abs(vectors - base.vectors) == 1 else 2, made)
    at = HEIGHTS.index(base.rows)
    for name, place in (("lower tiles", at - 1), ("higher tiles", at + 1)):
        if not 0 <= place < len(HEIGHTS):
            continue
        rows = HEIGHTS[place]
        if rows * base.vectors + base.vectors + 1 > registers:
            yield Dropped(name, f"{rows}x{base.vectors} sums do not fit {registers} registers")
        elif rows > product.m:
            yield Dropped(name, "the product has fewer rows")
        else:
            yield Variant(name, 1, _tiled(product, base, info, rows, base.vectors))
    yield from _packings(product, base)
    yield from _passes(product, base)
    for steps in _UNROLLS:
        yield Variant(f"unroll {steps}", 2, replace(base, unroll=steps))
    panels = -(-product.n // base.width)
    if base.block_panels * 2 <= panels:
        made = replace(base, block_panels=base.block_panels * 2)
        yield Variant("wider blocks", 2, made)
    if base.block_panels > 1:
        yield Variant("narrower blocks", 2, replace(base, block_panels=base.block_panels // 2))


def _tiled(product: Product, base: Packed, info: DeviceInfo, rows: int, vectors: int) -> Packed:
    high, wide = blocks_of(product, info, rows, base.lanes * vectors)
    return replace(base, rows=rows, vectors=vectors, block_rows=high, block_panels=wide)


def _packings(product: Product, base: Packed) -> Iterator[Variant | Dropped]:
    """Yield the opposite choices of packing: B, which tiles read most, and A."""
    accumulate = accumulator(product)
    if not base.pack_b:
        yield Variant("b packed", 1, replace(base, pack_b=True))
    elif product.b.free != 1 or base.group > 1 or product.b.dtype is not accumulate:
        yield Dropped("b as it lies", "vectors of b do not lie as the tiles read them")
    else:
        yield Variant("b as it lies", 1, replace(base, pack_b=False))
    if not base.pack_a:
        yield Variant("a packed", 2, replace(base, pack_a=True))


def _passes(product: Product, base: Packed) -> Iterator[Variant | Dropped]:
    """Yield other lengths of a pass over the K axis."""
    groups = -(-product.k // base.group)
    if product.dtype is not accumulator(product):
        yield Dropped("depths", f"sums of several passes would be rounded to {product.dtype.name}")
        return
    for depth in _DEPTHS:
        if depth < groups and depth != base.depth:
            yield Variant(f"depth {depth}", 2, replace(base, depth=depth))
    if base.depth < groups:
        yield Variant("whole depth", 2, replace(base, depth=groups))
