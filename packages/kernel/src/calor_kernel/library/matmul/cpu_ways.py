"""The ways of products by cubes of one unit: the family's table, and further plans for the tuner.

Requirements: the variations are data, grouped by the likelihood of a gain. A variant is named by
its differences, so that a result for one size applies to similar ones. A variant that does not fit
the device or the product is dropped with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from calor_kernel.contract.choices import hinted
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Way, serves
from calor_kernel.contract.work import Dropped, Request, Work
from calor_kernel.library.matmul.blueprints import (
    HEIGHTS,
    TILES,
    Packed,
    accumulator,
    blocks_of,
    dots,
    packed,
    packed_inside,
    registers_of,
    streams,
    tile_rows,
)
from calor_kernel.library.matmul.dot_tiles import dot_tiles_launches, dot_tiles_plan
from calor_kernel.library.matmul.gemv import dot_rows_launch, scaled_rows_launch
from calor_kernel.library.matmul.operand_padding import along_k, apart
from calor_kernel.library.matmul.packed import packed_launches
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.task import Task
from calor_kernel.library.matmul.tile_registers import tile_refusal, tile_works

# Groups of the K axis in a pass, and steps of a pass in a loop iteration.
_DEPTHS = (128, 256, 512)
_UNROLLS = (2, 8)
# Rows and columns of sums for dot products.
_DOTS = ((1, 8), (1, 4), (2, 6), (2, 4), (4, 5), (4, 4), (4, 2))
# Rows of B that are read together, and vectors of each.
_STREAMS = ((8, 2), (4, 2), (2, 2), (16, 1), (8, 1), (4, 4))
# Maximum of rows for which these ways are tried; the cost model's bounds are lower.
_DOT_ROWS, _STREAM_ROWS = 48, 8
# Tiles read weights that are packed once faster, except for so many rows.
_KEPT_ROWS = 2
# Columns that are few: those of few rows for the transposes.
_COLUMNS = 4


Works = Iterator[Work | Dropped]
# A blueprint of register tiles after its name and its priority group.
Named = tuple[str, int, Packed]


def _dots_refusal(task: Task, request: Request) -> str | None:
    most = {"most": _DOT_ROWS} if request.candidates else {}
    if dots(task.product, task.info, **most) is None:
        return "it has many rows, or an operand is not dense along the K axis"
    if not request.candidates and 1 in request.kept and task.product.m > _KEPT_ROWS:
        return "tiles read an unchanged B, packed once, faster"
    return None


def _dots(task: Task, request: Request) -> Works:
    """Yield vectors along the K axis."""
    product, registers = task.product, registers_of(task.info)
    base = dots(product, task.info, _DOT_ROWS)
    assert base is not None
    usual = dots(product, task.info) is not None
    yield task.work(dot_rows_launch(task, base), name="dots", group=0 if usual else 1)
    for rows, columns in _DOTS:
        name = f"dots {rows}x{columns}"
        if rows * columns + rows + 1 > registers:
            yield Dropped(name, f"its sums do not fit {registers} vector registers")
        elif rows > product.m or columns > product.n:
            yield Dropped(name, "the product is smaller than a tile")
        elif (rows, columns) != (base.rows, base.columns):
            block = -(-base.block // columns) * columns
            made = replace(base, rows=rows, columns=columns, block=block)
            group = 1 if usual and rows == base.rows else 2
            yield task.work(dot_rows_launch(task, made), name=name, group=group)


def _dot_tiles_refusal(task: Task, request: Request) -> str | None:
    if 1 in request.kept:
        return "tiles read an unchanged B, packed once, faster"
    made = dot_tiles_plan(task.product, task.info)
    return made if isinstance(made, str) else None


def _dot_tiles(task: Task, request: Request) -> Works:
    """Yield tiles of dot products."""
    plan = dot_tiles_plan(task.product, task.info)
    assert not isinstance(plan, str)
    made, launches = dot_tiles_launches(task, plan)
    yield made.work(*launches, name="dot tiles")


def _few_columns(task: Task) -> Task | None:
    """Return the transposes of a product of few columns, which are few rows; else None."""
    product = task.product
    if product.n > _COLUMNS or product.m <= _COLUMNS * product.n or product.k == 0:
        return None
    made = task.swapped()
    if made.product.b.depth == 1 and made.product.a.depth != 1:
        made = along_k(made)
    fits = dots(made.product, task.info) or streams(made.product, task.info, _COLUMNS)
    return None if fits is None else made


def _columns_refusal(task: Task, request: Request) -> str | None:
    if _few_columns(task) is None:
        return f"it has more than {_COLUMNS} columns, or not many rows"
    return None


def _columns(task: Task, request: Request) -> Works:
    """Yield the ways of few rows for the transposes."""
    made = _few_columns(task)
    assert made is not None
    product, info = made.product, made.info
    along, across = dots(product, info), streams(product, info, _COLUMNS)
    if along is not None:
        yield made.work(dot_rows_launch(made, along, turned=True), name="columns by dots")
    elif across is not None:
        yield made.work(scaled_rows_launch(made, across, turned=True), name="columns by streams")


def _streams_first(task: Task, request: Request) -> bool:
    """Return whether rows of B times elements of A are likely to be the fastest."""
    few = 1 not in request.kept or task.product.m <= _KEPT_ROWS
    return few and streams(task.product, task.info) is not None


def _streams_refusal(task: Task, request: Request) -> str | None:
    if streams(task.product, task.info, _STREAM_ROWS) is None:
        return f"it has more than {_STREAM_ROWS} rows, or B is not dense along its columns"
    if not request.candidates and not _streams_first(task, request):
        return "tiles are faster for its rows"
    return None


def _streams(task: Task, request: Request) -> Works:
    """Yield rows of B times elements of A."""
    registers = registers_of(task.info)
    base = streams(task.product, task.info, _STREAM_ROWS)
    assert base is not None
    usual = streams(task.product, task.info) is not None
    group = 0 if _streams_first(task, request) else 1
    yield task.work(scaled_rows_launch(task, base), name="streams", group=group)
    for count, vectors in _STREAMS:
        name = f"streams {count}x{vectors}"
        if count * base.rows + base.rows + 2 > registers:
            yield Dropped(name, f"its factors do not fit {registers} vector registers")
        elif (count, vectors) != (base.streams, base.vectors):
            made = replace(base, streams=count, vectors=vectors)
            group = 1 if usual else 2
            yield task.work(scaled_rows_launch(task, made), name=name, group=group)


def _inside_refusal(task: Task, request: Request) -> str | None:
    if 1 in request.kept:
        return "B is unchanged, so it is packed once"
    made = packed_inside(apart(task).product, task.info)
    return made if isinstance(made, str) else None


def _inside(task: Task, request: Request) -> Works:
    """Yield register tiles whose cubes pack B."""
    task = apart(task)
    blueprint = packed_inside(task.product, task.info)
    assert not isinstance(blueprint, str)
    made, launches = packed_launches(task, blueprint)
    yield made.work(*launches, name="packed inside")


def _tiles(task: Task, request: Request) -> Works:
    """Yield register tiles over a packed operand, and their neighbours."""
    task = apart(task)
    base = packed(task.product, task.info, 1 in request.kept)
    for one in chain([("tiles", 0, base)], _neighbours(task.product, base, task.info)):
        if isinstance(one, Dropped):
            yield one
        else:
            name, group, blueprint = one
            made, launches = packed_launches(task, blueprint)
            yield made.work(*launches, name=name, group=group)


def _neighbours(product: Product, base: Packed, info: DeviceInfo) -> Iterator[Named | Dropped]:
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
            yield name, 1 if abs(vectors - base.vectors) == 1 else 2, made
    # Beside an open height, which is chosen at each size, heights are those beside the first one.
    at = HEIGHTS.index(hinted(base.rows))
    for name, place in (("lower tiles", at - 1), ("higher tiles", at + 1)):
        if not 0 <= place < len(HEIGHTS):
            continue
        rows = HEIGHTS[place]
        if rows * base.vectors + base.vectors + 1 > registers:
            yield Dropped(name, f"{rows}x{base.vectors} sums do not fit {registers} registers")
        elif rows > product.m:
            yield Dropped(name, "the product has fewer rows")
        else:
            yield name, 1, _tiled(product, base, info, rows, base.vectors)
    yield from _packings(product, base)
    yield from _passes(product, base)
    for steps in _UNROLLS:
        yield f"unroll {steps}", 2, replace(base, unroll=steps)
    panels = -(-product.n // base.width)
    if base.block_panels * 2 <= panels:
        made = replace(base, block_panels=base.block_panels * 2)
        yield "wider blocks", 2, made
    if base.block_panels > 1:
        yield "narrower blocks", 2, replace(base, block_panels=base.block_panels // 2)


def _tiled(product: Product, base: Packed, info: DeviceInfo, rows: int, vectors: int) -> Packed:
    high, wide = blocks_of(product, info, rows, base.lanes * vectors)
    return replace(base, rows=rows, vectors=vectors, block_rows=high, block_panels=wide)


def _packings(product: Product, base: Packed) -> Iterator[Named | Dropped]:
    """Yield the opposite choices of packing: B, which tiles read most, and A."""
    accumulate = accumulator(product)
    if not base.pack_b:
        yield "b packed", 1, replace(base, pack_b=True)
    elif product.b.free != 1 or base.group > 1 or product.b.dtype is not accumulate:
        yield Dropped("b as it lies", "vectors of b do not lie as the tiles read them")
    else:
        yield "b as it lies", 1, replace(base, pack_b=False)
    if not base.pack_a:
        yield "a packed", 2, replace(base, pack_a=True)


def _passes(product: Product, base: Packed) -> Iterator[Named | Dropped]:
    """Yield other lengths of a pass over the K axis."""
    groups = -(-product.k // base.group)
    if product.dtype is not accumulator(product):
        yield Dropped("depths", f"sums of several passes would be rounded to {product.dtype.name}")
        return
    for depth in _DEPTHS:
        if depth < groups and depth != base.depth:
            yield f"depth {depth}", 2, replace(base, depth=depth)
    if base.depth < groups:
        yield "whole depth", 2, replace(base, depth=groups)


WAYS: Final[tuple[Way[Task], ...]] = (
    Way("few columns", _columns_refusal, _columns),
    Way("dots", _dots_refusal, _dots, paired=True),
    Way("streams", _streams_refusal, _streams, paired=True),
    Way("dot tiles", _dot_tiles_refusal, _dot_tiles, paired=True),
    Way("tile registers", tile_refusal, tile_works),
    Way("packed inside", _inside_refusal, _inside, paired=True),
    Way("tiles", serves, _tiles, paired=True),
)
