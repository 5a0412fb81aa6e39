"""Split-K in one launch: the last cube of a tile adds the parts that all cubes of it wrote.

Requirements: no cube waits for another, and parts are added in their order, so the order in which
cubes end decides nothing. The words that count the cubes are 0 before and after the launch. Units
of a cube load many parts at the same time, since nothing else hides the way to memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeVar

from calor.dtypes import uint32
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Flags, Launch
from calor_kernel.language.declared import CHANGES
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.gemm.epilogue import Writer
from calor_kernel.library.gemm.mma import ACCESS
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.split_sums import Parts, in_parts
from calor_kernel.library.matmul.task import Given, Task

M = TypeVar("M")
N = TypeVar("N")
# Elements of a unit whose parts are added together, and the parts that it loads ahead.
_ELEMENTS, _AHEAD = 8, 4
# The most parts that one cube adds faster than another launch would, and the most of their elements
# for a unit.
MOST: Final = 8
_LOADS: Final = 128
_NEEDED: Final = ("barrier", "atomics", "forward_progress")


@dataclass(frozen=True, slots=True)
class JoinedSums(Generic[M, N]):
    """The memory of parts that the last cube of a tile adds, and of the words that count cubes.

    ``count``: the parts; ``size``: the elements of one.
    """

    parts: Annotated[M, CHANGES]
    flags: Annotated[M, CHANGES]
    count: kl.SizeOf[N]
    size: kl.SizeOf[N]


Joined = JoinedSums[kl.Pointer, kl.Number]


def joins(info: DeviceInfo, count: int, elements: int) -> bool:
    """Return whether the last cube of a tile adds parts, of ``elements`` for each unit."""
    able = all(map(info.has, _NEEDED))
    return able and 1 < count <= MOST and count * elements <= _LOADS


def parts_added(
    task: Task, parts: Parts, tiles: int, elements: int
) -> tuple[Task, Bound, tuple[Launch, ...], JoinedSums[Bound, Given] | None]:
    """Return the task with room for parts, where a product goes, and what adds the parts.

    That is a launch after the product's, or the memory with which its own cubes add them.
    ``tiles``: the tiles of the result, all products together, with ``elements`` for each unit.
    """
    product = task.product
    if not joins(task.info, parts.count, elements):
        return *in_parts(task, parts), None
    dtype = accumulator(product)
    size = product.batches * product.m * product.n
    place, task = task.room(parts.count * size * dtype.itemsize)
    flags = Bound(Flags(tiles), uint32)
    joined: JoinedSums[Bound, Given] = JoinedSums(
        Bound(place, dtype, ACCESS), flags, parts.count, size
    )
    return task, task.result(), (), joined


@kl.helper
def add_if_last(
    joined: Joined,
    ends: Writer | None,
    c: kl.Pointer,
    batch: kl.Number,
    first: tuple[kl.Number, kl.Number],
    whole: tuple[kl.Number, kl.Number],
    tile: tuple[int, int],
    units: int,
) -> None:
    """Write a tile of the result if all other cubes of it have written their parts.

    ``first``: the tile's row and column; ``whole``: rows and columns of the result.
    """
    rows, columns = tile
    number = kl.cube_position(1) * kl.cube_count(0) + kl.cube_position(0)
    place = batch * (kl.cube_count(0) * kl.cube_count(1)) + number
    if is_last(joined.flags, place, joined.count):
        each = -(-rows * columns // units)
        together = min(_ELEMENTS, each)
        for turn in kl.loop_range(0, each, together):
            found = []
            for more in range(together):
                e = kl.unit_index() + (turn + more) * units
                row, column = first[0] + e // columns, first[1] + e % columns
                inside = (e < rows * columns) & (row < whole[0]) & (column < whole[1])
                at = (batch * whole[0] + row) * whole[1] + column
                found.append((inside, row, column, at, kl.select(inside, at, 0)))
            sums = kl.registers((together,), joined.parts.dtype)
            for part in kl.loop_range(0, joined.count, unroll=_AHEAD):
                for more in range(together):
                    sums[more] = sums[more] + joined.parts[part * joined.size + found[more][4]]
            for more, (inside, row, column, at, _) in enumerate(found):
                if inside:
                    if ends is None:
                        c[at] = sums[more].to(c.dtype)
                    else:
                        ends.write(at, sums[more], row, column)
