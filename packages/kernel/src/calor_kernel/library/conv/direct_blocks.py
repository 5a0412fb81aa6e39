"""Direct convolutions and their gradients by blocks of pixels: of small groups and few filters.

Requirements: with one or few channels on a side, memory is the limit, and most of a tile of a
matrix product would be empty. Neighbouring units have neighbouring columns, so accesses of a
plane are adjacent. A unit has a block of rows and reads each input once for all outputs of the
block. What a block reads is known when a kernel is built: no division by a stride and no tap of
another stride phase is left. A weight gradient sums over pixels in registers, then over the units
of a cube, and its parts are added by another launch in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Generic

from calor.dtypes import DType, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer


@dataclass(frozen=True, slots=True)
class Block:
    """What a block of ``outputs`` along an axis reads.

    Output i reads with tap j at ``(result * i + summed * j + start) / divide``, if it is an
    integer. The blocks begin at multiples of ``outputs``, which ``divide`` divides.
    """

    outputs: int
    taps: int
    result: int
    summed: int
    start: int
    divide: int

    @property
    def step(self) -> int:
        """The distance between the positions that adjacent blocks read."""
        return self.result * self.outputs // self.divide

    def pairs(self) -> dict[int, list[tuple[int, int]]]:
        """Return the positions, from the block's own on, with the outputs and taps that read it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for i in range(self.outputs):
            for j in range(self.taps):
                place, rest = divmod(self.result * i + self.summed * j + self.start, self.divide)
                if not rest:
                    found.setdefault(place, []).append((i, j))
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Line(Generic[N]):
    """An axis: the outputs, the positions that are not padding, and the strides of both operands.

    ``c``: the stride of the result, or of an operand that has the outputs' positions.
    """

    count: kl.SizeOf[N]
    size: kl.SizeOf[N]
    a: kl.StrideOf[N]
    b: kl.StrideOf[N]
    c: kl.StrideOf[N]


def unraveled(index: kl.Index, sizes: Sequence[int]) -> list[kl.Index]:
    """Return the places along axes of an index into all of them, the last axis dense."""
    places = []
    for k, size in enumerate(sizes):
        step = prod(sizes[k + 1 :])
        place = index // step if k + 1 < len(sizes) else index
        places.append(place % size if k else place)
    return places


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a block reads along each axis: offsets, and all bits set unless it is padding."""

    axes: tuple[dict[int, tuple[kl.Number, kl.Number]], ...]

    @kl.helper
    def read(self, x: kl.Pointer, at: kl.Number, place: Sequence[int], wide: DType) -> kl.Number:
        """Return the element at a position, 0 for padding."""
        found = [axis[far] for axis, far in zip(self.axes, place, strict=True)]
        for offset, _ in found:
            at = at + offset
        # A mask of the load would be a branch for each element, and a selection by two conditions
        # several instructions; offsets of padding are those of the edge.
        value = kl.bitcast(x[at].to(wide), found[0][1].dtype)
        for _, there in found:
            value = value & there
        return kl.bitcast(value, wide)


@kl.helper
def seen_by(
    blocks: tuple[Block, ...],
    lines: Sequence[Line[kl.Number]],
    tops: Sequence[kl.Number],
    wide: DType,
) -> Seen:
    """Return where the blocks with these positions read values that are computed as ``wide``."""
    found, bits = [], uint64 if wide.itemsize == 8 else uint32
    none, every = kl.constant(0, bits), kl.constant((1 << 8 * bits.itemsize) - 1, bits)
    for block, line, top in zip(blocks, lines, tops, strict=True):
        places: dict[int, tuple[kl.Number, kl.Number]] = {}
        for far in block.pairs():
            place = top * block.step + far
            near = kl.max(kl.min(place, line.size - 1), 0)
            places[far] = (near * line.a, kl.select(place == near, every, none))
        found.append(places)
    return Seen(tuple(found))


@kl.helper
def window_of(
    w: kl.Pointer,
    of: kl.Number,
    lines: Sequence[Line[kl.Number]],
    blocks: tuple[Block, ...],
    wide: DType,
) -> dict[tuple[int, ...], kl.Number]:
    """Return the weights of a window by their taps, as ``wide``; ``of``: where the first is."""
    found = {}
    for taps in product(*(range(block.taps) for block in blocks)):
        at = of
        for tap, line in zip(taps, lines, strict=True):
            at = at + tap * line.b
        found[taps] = w[at].to(wide)
    return found


Place = tuple[int, ...]
"""An output, a tap or a position, along each axis."""


def reads_of(blocks: Sequence[Block]) -> list[tuple[Place, list[tuple[Place, Place]]]]:
    """Return the positions that blocks read, with the outputs and taps that read each."""
    made = []
    for read in product(*(block.pairs().items() for block in blocks)):
        place = tuple(far for far, _ in read)
        uses = []
        for use in product(*(some for _, some in read)):
            uses.append((tuple(i for i, _ in use), tuple(j for _, j in use)))
        made.append((place, uses))
    return made


@kl.helper
def write_block(
    acc: kl.Registers,
    c: kl.Pointer,
    to: kl.Number,
    ends: Writer | None,
    channel: kl.Number,
    blocks: tuple[Block, ...],
    lines: Sequence[Line[kl.Number]],
    tops: Sequence[kl.Number],
    before: kl.Number | None = None,
) -> None:
    """Write the sums of the blocks at ``tops``, or what follows them; ``to``: of their image.

    ``before``: the pixels of the image before those of the lines.
    """
    for output in product(*(range(block.outputs) for block in blocks)):
        there, pixel = place_of(output, blocks, lines, tops)
        pixel = pixel if before is None else pixel + before
        if there:
            if ends is None:
                c[to + pixel] = acc[output].to(c.dtype)
            else:
                ends.write(to + pixel, acc[output], channel, pixel)


@kl.helper
def place_of(
    output: Sequence[int],
    blocks: tuple[Block, ...],
    lines: Sequence[Line[kl.Number]],
    tops: Sequence[kl.Number],
) -> tuple[kl.Mask, kl.Number]:
    """Return whether an output of the blocks at ``tops`` exists, and its pixel."""
    given = zip(output, blocks, lines, tops, strict=True)
    places = [(top * block.outputs + i, line) for i, block, line, top in given]
    there, pixel = places[0][0] < places[0][1].count, places[0][0] * places[0][1].c
    for place, line in places[1:]:
        there, pixel = there & (place < line.count), pixel + place * line.c
    return there, pixel


@kl.kernel
def direct_blocks(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    total: kl.Size,
    depth: kl.Size,
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    w_steps: Strides[kl.Number],
    c_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    after: After | None,
    *,
    blocks: tuple[Block, ...],
    beside: int,
    together: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute ``total`` blocks of a convolution or of an input gradient, one for each unit.

    A block has ``beside`` output channels, which share what it reads. ``parts``: groups, blocks of
    a group's outputs, and blocks along each axis. The inner axes of ``x_steps`` and ``w_steps`` are
    summed, over ``depth`` values.
    """
    kl.launch_attributes(cubes_per_core=together)
    unit = kl.absolute_position()
    if unit < total:
        image, group, output, *tops = kl.unravel(unit, (0, *parts))
        seen = seen_by(blocks, lines, tops, accumulate)
        first, sizes = output * beside, tuple(block.outputs for block in blocks)
        accs = [kl.registers(sizes, accumulate) for _ in range(beside)]
        reads = reads_of(blocks)
        for d in kl.range(depth):
            at = x_steps.at(image, group) + d * x_steps.inner
            weights = []
            for j in range(beside):
                of = w_steps.at(group, first + j) + d * w_steps.inner
                weights.append(window_of(w, of, lines, blocks, accumulate))
            for place, uses in reads:
                value = seen.read(x, at, place, accumulate)
                for acc, taps in zip(accs, weights, strict=True):
                    for pixel, tap in uses:
                        acc[pixel] = multiply_add(taps[tap], value, acc[pixel])
        ends = writer(epilogue, after, c, image)
        for j, acc in enumerate(accs):
            to = c_steps.at(image, group) + (first + j) * c_steps.inner
            channel = group * (parts[1].divisor * beside) + first + j
            write_block(acc, c, to, ends, channel, blocks, lines, tops)
