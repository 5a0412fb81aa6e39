"""Gradients of attention whose cubes are too few: each pass in parts, whose sums are added.

Requirements: few queries beside many keys, or few keys beside many queries, give few cubes with a
long loop each. Then several cubes share the loop of a tile, write sums of their own, and one launch
adds those of all results. Sums have a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice, greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.language.declared import READS, WRITES
from calor_kernel.library.steps import Steps

M = TypeVar("M")
N = TypeVar("N")
# The part of the cores that cubes fill at most for a pass in parts; parts fill all cores.
FILL: Final = 0.25
# The least steps of a part, and the most parts.
LEAST_STEPS: Final = 4
MOST: Final = 32
_UNITS: Final = 128


@choice(low=1)
def parts_of(cubes: int, steps: int, cores: int) -> int:
    """Return the parts of a pass of so many cubes, whose loops have so many steps.

    >>> parts_of(8, 64, 132), parts_of(8, 6, 132), parts_of(100, 64, 132)
    (16, 1, 1)
    """
    if cubes > FILL * cores:
        return 1
    return max(1, min(-(-cores // max(cubes, 1)), steps // LEAST_STEPS, MOST))


@kl.helper
def part_of_cube(
    parts: kl.Number | None,
) -> tuple[kl.Number, kl.Number, kl.Number | None]:
    """Return the tile of a cube along x, the number of tiles, and the cube's part of it."""
    position, tiles = kl.cube_position(0), kl.cube_count(0)
    if parts is None:
        return position, tiles, None
    tiles = tiles // parts
    part = position // tiles
    return position - part * tiles, tiles, part


@dataclass(frozen=True, slots=True)
class Part(Generic[M, N]):
    """A result of ``count`` elements, and the sums of its ``parts``, one after another."""

    out: Annotated[M, WRITES]
    sums: Annotated[M, READS]
    count: kl.SizeOf[N]
    parts: kl.SizeOf[N]


@kl.kernel
def join_parts(results: tuple[Part[kl.Pointer, kl.Number], ...], *, access: int) -> None:
    """Add the parts of each result, a vector a unit."""
    i = kl.absolute_position() * access
    for result in results:
        if i < result.count:
            total = kl.registers(1, result.sums.dtype, access)
            for part in kl.loop_range(0, result.parts):
                total[0] = total[0] + result.sums.load(part * result.count + i, access)
            result.out.store(i, total[0].to(result.out.dtype))


@dataclass
class Joined:
    """The launches of gradients, and those of their results that are in parts.

    ``access``: the elements that divide each count.
    """

    info: DeviceInfo
    index: DType
    dtype: DType
    access: int
    steps: Steps = field(default_factory=Steps)
    results: list[Part[Bound, object]] = field(default_factory=list)
    sums: list[tuple[int, int]] = field(default_factory=list)

    def target(self, out: Bound, count: int, parts: int) -> Bound:
        """Return where a pass writes a result: itself, or room for the sums of its parts."""
        if parts == 1:
            return out
        room = self.steps.room(parts * count, self.dtype).aligned(16)
        self.results.append(Part(out, room, Multiple(count, self.access), parts))
        self.sums.append((count, parts))
        return room

    def join(self) -> None:
        """Add the launch that adds the parts, if there are any."""
        if not self.results:
            return
        sums = sum(count * parts for count, parts in self.sums)
        units = -(-greatest(0, *(count for count, _ in self.sums)) // self.access)
        self.steps.add(
            join_parts,
            Grid.line(-(-units // _UNITS), _UNITS, self.info.planes[0], self.index),
            Effort("attention gradient parts", sums, sums * self.dtype.itemsize),
            results=tuple(self.results),
            access=self.access,
        )
