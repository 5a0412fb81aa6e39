"""Convolutions by Winograd's algorithm: transforms of tiles, and of the sums of their products.

Requirements: between the transforms a convolution is a product for each point, so its operands are
written as products read them: the lines of a point are channels, and tiles are dense. A unit has a
tile of a channel in registers. Weights are transformed by the same kernel, as tiles that cover
their image. A transform spreads infinities and NaNs over a tile, and large numbers may overflow in
it, so a unit whose results are not finite adds their products one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic

from calor.dtypes import bool_, float32
from calor_kernel import language as kl
from calor_kernel.language.declared import D, N
from calor_kernel.library.conv.direct import add_terms
from calor_kernel.library.conv.exact_taps import finite
from calor_kernel.library.conv.problem import Axis, Lead
from calor_kernel.library.conv.winograd_transforms import Matrix, transformed
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer

# Elements of an access.
FOUR: Final = 4


@dataclass(frozen=True, slots=True)
class TileAxis(Generic[N]):
    """An axis of tiles: tile i begins at ``i * step + start`` of ``size`` elements."""

    step: kl.SizeOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]
    stride: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Tiles(Generic[N, D]):
    """The tiles of all images and of one, a row of them, and the room for a row's tiles.

    A row is a channel; ``count`` of its ``room`` are tiles, the rest fills accesses up.
    """

    count: kl.SizeOf[N]
    room: kl.DivisorOf[D]
    image: kl.DivisorOf[D]
    line: kl.DivisorOf[D]


@kl.kernel
def transform_tiles(
    x: kl.In,
    y: kl.Out,
    total: kl.Size,
    point_step: kl.Size,
    tiles: Tiles[kl.Number, kl.FastDivmod],
    row: kl.Stride,
    image: kl.Stride,
    down: TileAxis[kl.Number],
    across: TileAxis[kl.Number],
    *,
    matrices: tuple[Matrix, Matrix],
    whole: bool,
) -> None:
    """Write transformed tiles: (point, row, tile), ``point_step`` from point to point.

    ``total``: rows times their room. ``matrices``: of columns and of rows of a tile. ``whole``:
    whether all elements of all tiles exist.
    """
    index = kl.absolute_position()
    if index < total:
        channel, tile = tiles.room.divmod(index)
        lead, place = tiles.image.divmod(tile)
        first, second = tiles.line.divmod(place)
        top, left = first * down.step + down.start, second * across.step + across.start
        at = channel * row + lead * image + top * down.stride + left * across.stride
        exists = tile < tiles.count
        high, wide = len(matrices[0][0]), len(matrices[1][0])
        ys = _inside(exists, top, down.size, high, whole)
        xs = _inside(exists, left, across.size, wide, whole)
        columns = []
        for q in range(wide):
            values = []
            for p in range(high):
                there = exists if whole else ys[p] & xs[q]
                # A mask would be a branch for each element.
                found = x[kl.select(there, at + p * down.stride + q * across.stride, 0)]
                values.append(kl.select(there, found, kl.constant(0, float32)))
            columns.append(transformed(matrices[0], values))
        points = len(matrices[1])
        for p in range(len(matrices[0])):
            values = transformed(matrices[1], [column[p] for column in columns])
            for q in range(points):
                y[(p * points + q) * point_step + index] = values[q]


def _inside(
    exists: kl.Mask, start: kl.Number, size: kl.Number, count: int, whole: bool
) -> list[kl.Mask]:
    """Return which of ``count`` elements of an axis are in the image."""
    if whole:
        return [exists] * count
    return [exists & (start + i >= 0) & (start + i < size) for i in range(count)]


@dataclass(frozen=True, slots=True)
class ResultAxis(Generic[N]):
    """An axis of a result: its size and stride."""

    size: kl.SizeOf[N]
    stride: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Exact(Generic[N]):
    """The products of a result one by one: leads of images and of rows, the depth, and axes."""

    image: Lead[N]
    row: Lead[N]
    depth: Lead[N]
    axes: tuple[Axis[N], ...]


@kl.kernel
def transform_sums(
    sums: kl.In,
    c: kl.Out,
    a: kl.In,
    b: kl.In,
    total: kl.Size,
    point_step: kl.Size,
    parts: kl.Size,
    part_step: kl.Size,
    tiles: Tiles[kl.Number, kl.FastDivmod],
    first_image: kl.Size,
    row: kl.Size,
    image: kl.Size,
    down: ResultAxis[kl.Number],
    across: ResultAxis[kl.Number],
    exact: Exact[kl.Number],
    after: After | None,
    *,
    matrices: tuple[Matrix, Matrix],
    run: int,
    split: bool,
    epilogue: Epilogue | None = None,
) -> None:
    """Write the results of tiles from sums (part, point, row, tile).

    ``total``: rows times their room. ``split``: whether there are several ``parts``, which are
    added. ``run``: the adjacent results of an access, which divide those of a tile and of a line.
    ``exact``: the convolution of ``a`` and ``b``, for tiles with results that are not finite.
    """
    index = kl.absolute_position()
    (high, deep), (wide, points) = ((len(m), len(m[0])) for m in matrices)
    units = kl.cube_size()
    room = kl.shared(units * high * wide, float32, align=FOUR * float32.itemsize)
    channel, tile = tiles.room.divmod(index)
    if (index < total) & (tile < tiles.count):
        held = kl.registers(deep * points, float32)
        if split:
            for part in kl.loop_range(parts):
                for e in range(deep * points):
                    held[e] = held[e] + sums[part * part_step + e * point_step + index]
        else:
            for e in range(deep * points):
                held[e] = sums[e * point_step + index]
        columns = [
            transformed(matrices[0], [held[p * points + q] for p in range(deep)])
            for q in range(points)
        ]
        known = kl.constant(True, bool_)
        mine = kl.unit_index() * wide
        for p in range(high):
            results = transformed(matrices[1], [column[p] for column in columns])
            known = known & finite(results)
            for q in range(0, wide, run):
                value = kl.pack(results[q : q + run]) if run > 1 else results[q]
                room.store(_multiple(p * (units * wide) + mine + q, run), value)
        if not known:
            lead, top, left = _place(tiles, tile, (high, wide))
            for p in kl.loop_range(kl.min(high, down.size - top)):
                for q in kl.loop_range(kl.min(wide, across.size - left)):
                    room[p * (units * wide) + mine + q] = _added(
                        a, b, exact, lead + first_image, channel, (top + p, left + q)
                    )
    kl.barrier()
    # Neighbouring units write neighbouring results, which may be of several tiles.
    for turn in range(wide // run):
        at = (kl.unit_index() + turn * units) * run
        index = kl.cube_position() * units + at // wide
        channel, tile = tiles.room.divmod(index)
        if (index < total) & (tile < tiles.count):
            lead, top, left = _place(tiles, tile, (high, wide))
            lead, x = lead + first_image, left + at % wide
            ends = writer(epilogue, after, c, lead)
            base = lead * image + channel * row + x
            if x < across.size:
                for p in kl.loop_range(kl.min(high, down.size - top)):
                    pixel = (top + p) * down.stride + x
                    to = _multiple(base + (top + p) * down.stride, run)
                    value = room.load(_multiple(p * (units * wide) + at, run), run)
                    if ends is None:
                        c.store(to, value)
                    else:
                        ends.write(to, value, channel, _multiple(pixel, run))


@kl.helper
def _place(
    tiles: Tiles[kl.Number, kl.FastDivmod], tile: kl.Number, size: tuple[int, int]
) -> tuple[kl.Number, kl.Number, kl.Number]:
    """Return the image of a tile, and its first row and column."""
    lead, place = tiles.image.divmod(tile)
    first, second = tiles.line.divmod(place)
    return lead, first * size[0], second * size[1]


def _multiple(at: kl.Number, run: int) -> kl.Number:
    return kl.assume_multiple(at, run) if run > 1 else at


@kl.helper
def _added(
    a: kl.Pointer,
    b: kl.Pointer,
    exact: Exact[kl.Number],
    lead: kl.Number,
    channel: kl.Number,
    place: Sequence[kl.Number],
) -> kl.Number:
    """Return a result as the sum of its products."""
    axes = exact.axes
    starts = [
        p * axis.result + axis.start for p, axis in zip(place[2 - len(axes) :], axes, strict=True)
    ]
    a_at = lead * exact.image.a + channel * exact.row.a
    b_at = lead * exact.image.b + channel * exact.row.b
    total = kl.registers(1, float32)
    for d in kl.range(exact.depth.size):
        a_now, b_now = a_at + d * exact.depth.a, b_at + d * exact.depth.b
        add_terms(total, a, b, axes, starts, a_now, b_now, d >= 0, False)
    return total[0]
