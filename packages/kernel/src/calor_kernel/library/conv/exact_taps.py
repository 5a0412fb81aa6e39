"""Weight gradients that are not finite: sums over the pixels that exist alone.

Requirements: a block or tile of pixels reaches beyond the last pixel, where the output gradient is
zero. What such a pixel meets in the image belongs to other windows or to none, and zero times
infinity or NaN is NaN. A selection for each product would cost as much as the product, so products
are added as they are, and units whose sums are not finite add those of their pixels again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from calor.dtypes import DType, bool_
from calor_kernel import language as kl
from calor_kernel.library.conv.direct_blocks import Line, unraveled
from calor_kernel.library.conv.vector_tiles import multiply_add

# The largest finite numbers.
_LARGEST: Final = {4: 3.4028234663852886e38, 8: 1.7976931348623157e308}


@kl.helper
def finite(values: Iterable[kl.Number]) -> kl.Mask:
    """Return whether all sums are finite."""
    made = kl.constant(True, bool_)
    for value in values:
        made = made & (abs(value) <= _LARGEST[value.dtype.itemsize])
    return made


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a pixel's tap reads along an axis: ``pixel * step + tap * move + start``."""

    step: int
    move: int
    start: int


@dataclass(frozen=True, slots=True)
class Pixels:
    """The pixels that a unit adds: those of a box of each of its items.

    ``items``: the first, the one behind the last, and the distance of the unit's next. ``parts``:
    the items of an image along each axis; ``sizes``: the pixels of a box; ``corner``: where it
    begins, by the numbers of an item along the axes. ``places``: where an image begins in x and in
    the output gradient, and whether x has it.
    """

    items: tuple[kl.Number, kl.Number, kl.Index]
    parts: tuple[kl.FastDivmod, ...]
    sizes: tuple[int, ...]
    corner: Callable[[Sequence[kl.Number]], Sequence[kl.Number]]
    places: Callable[[kl.Number], tuple[kl.Number, kl.Number, kl.Mask]]

    @kl.helper
    def repair(
        self,
        acc: kl.Registers,
        sizes: Sequence[int],
        x: kl.Pointer,
        g: kl.Pointer,
        lines: Sequence[Line[kl.Number]],
        reach: Sequence[Reach],
        tap: Callable[[kl.Index], Sequence[kl.Index]],
    ) -> None:
        """Add a unit's sums again if one is not finite; ``tap``: of the sum of a number."""
        places = [*product(*(range(n) for n in sizes))]
        if acc.type.dtype.kind != "float":
            return
        if not finite([acc[place] for place in places]):
            for number in kl.loop_range(len(places)):
                exact = self.added(x, g, lines, reach, tap(number), acc.type.dtype)
                for k, place in enumerate(places):
                    acc[place] = kl.select(number == k, exact, acc[place])

    @kl.helper
    def added(
        self,
        x: kl.Pointer,
        g: kl.Pointer,
        lines: Sequence[Line[kl.Number]],
        reach: Sequence[Reach],
        tap: Sequence[kl.Index],
        wide: DType,
    ) -> kl.Number:
        """Return the sum of a tap's products of the pixels that exist; x is 0 in the padding."""
        total = kl.registers(1, wide)
        for item in kl.loop_range(*self.items):
            image, *numbers = kl.unravel(item, (0, *self.parts))
            corner, (at, of, exists) = self.corner(numbers), self.places(image)
            for pixel in kl.loop_range(prod(self.sizes)):
                there, inside, near, far = exists, kl.constant(True, bool_), at, of
                axes = zip(corner, unraveled(pixel, self.sizes), lines, reach, tap, strict=True)
                for low, beside, line, by, j in axes:
                    row = low + beside
                    place = row * by.step + j * by.move + by.start
                    there = there & (row < line.count)
                    inside = inside & (place >= 0) & (place < line.size)
                    near, far = near + place * line.a, far + row * line.c
                if there:
                    read = x[kl.select(inside, near, 0)].to(wide)
                    value = kl.select(inside, read, kl.constant(0, wide))
                    total[0] = multiply_add(value, g[far].to(wide), total[0])
        return total[0]
