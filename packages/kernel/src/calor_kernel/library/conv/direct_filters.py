"""Convolutions of few terms or of small groups: windows in registers, by filters that are shared.

Requirements: with few terms a sum ends before a tile of a matrix product has been staged, so
nothing is staged but the filters, and images are read in place. A unit has whole windows in
registers, and the sums of some filters at a time: every read of shared memory is one of all units
of a plane, and serves as many products as the unit has windows. Windows of more terms are read some
channels at a time; then a unit has the sums of all its filters. Neighbouring units have
neighbouring pixels, so the accesses of a plane are adjacent whatever the alignment of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.direct_blocks import Block, Line, Seen, seen_by, unraveled
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer

FOUR = 4
"""Filters of an access of shared memory."""
GROUP = 8
"""Filters whose sums a unit has at a time."""


@kl.helper
def _stage(
    held: kl.Pointer,
    w: kl.Pointer,
    at: kl.Number,
    filters: kl.Number,
    steps: tuple[kl.Number, kl.Number],
    lines: tuple[Line[kl.Number], ...],
    blocks: tuple[Block, ...],
    depth: int,
    share: int,
    beside: int,
    units: int,
    wide: DType,
) -> None:
    """Copy ``share`` filters from ``at`` on, the terms of ``beside`` of them one after another.

    There are ``filters``; those beyond are zeros. ``steps``: of filters and of channels.
    """
    sizes = [block.taps for block in blocks]
    taps = prod(sizes)
    terms = depth * taps
    for e in kl.loop_range(kl.unit_index(), terms * share, units):
        number, term = e // terms, e % terms
        channel, tap = term // taps, term % taps
        far = number * steps[0] + channel * steps[1]
        for place, line in zip(unraveled(tap, sizes), lines, strict=True):
            far = far + place * line.b
        value = w[at + kl.select(number < filters, far, 0)].to(wide)
        value = kl.select(number < filters, value, kl.constant(0, wide))
        held[number // beside * (terms * beside) + term * beside + number % beside] = value


@kl.helper
def _window(
    x: kl.Pointer,
    at: kl.Number,
    step: kl.Number,
    seen: Seen,
    blocks: tuple[Block, ...],
    depth: int,
    wide: DType,
) -> list[kl.Number]:
    """Return the elements of a window of ``depth`` channels, in the order of its taps."""
    axes = [[b.summed * j + b.start for j in range(b.taps)] for b in blocks]
    return [
        seen.read(x, at + d * step, place, wide) for d in range(depth) for place in product(*axes)
    ]


@kl.helper
def _multiply(
    acc: kl.Registers, held: kl.Pointer, at: kl.Index, taken: list[list[kl.Number]], beside: int
) -> None:
    """Add the products of windows and ``beside`` filters, whose first term is at ``at``."""
    for t in kl.range(len(taken[0])):
        for q in kl.range(beside // FOUR):
            factors = held.load(at + t * beside + q * FOUR, FOUR)
            for j in kl.range(len(taken)):
                acc[j, q] = multiply_add(kl.splat(taken[j][t], FOUR), factors, acc[j, q])


@dataclass(frozen=True, slots=True)
class Pixel:
    """A pixel of a unit: whether it exists, its image's result and writer, and what it reads."""

    exists: kl.Mask
    ends: Writer | None
    to: kl.Number
    place: kl.Number
    at: kl.Number
    seen: Seen

    @kl.helper
    def write(self, c: kl.Pointer, total: kl.Number, channel: kl.Number, far: kl.Number) -> None:
        """Write the sum of a channel, or what follows it; ``far``: of the channel in the image."""
        if self.exists:
            to = self.to + far + self.place
            if self.ends is None:
                c[to] = total.to(c.dtype)
            else:
                self.ends.write(to, total, channel, self.place)


@kl.kernel
def direct_filters(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    pixels: kl.Size,
    outputs: kl.Size,
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    w_steps: Strides[kl.Number],
    c_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    after: After | None,
    *,
    blocks: tuple[Block, ...],
    depth: int,
    taken: int,
    share: int,
    windows: int,
    units: int,
    together: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute ``windows`` pixels of each unit and ``share`` filters of a cube.

    Cubes are numbered along the ``pixels`` of all images, the shares of a group's ``outputs``, and
    groups. ``parts``: pixels of an image along each axis. Blocks have one output; the inner axes of
    ``x_steps`` and ``w_steps`` are summed, over ``depth`` channels, of which ``taken`` are read at
    a time.
    """
    kl.launch_attributes(cubes_per_core=together)
    first, group, unit = kl.cube_position(1) * share, kl.cube_position(2), kl.unit_index()
    taps = prod(block.taps for block in blocks)
    beside = GROUP if taken == depth else share
    held = kl.shared(depth * taps * share, accumulate, align=FOUR * accumulate.itemsize)
    filters = outputs - first
    _stage(
        held, w, w_steps.at(group, first), filters, (w_steps.middle, w_steps.inner), lines, blocks,
        depth, share, beside, units, accumulate,
    )  # fmt: skip
    found, whole = [], []
    for j in kl.range(windows):
        pixel = (kl.cube_position(0) * windows + j) * units + unit
        exists = pixel < pixels
        image, *tops = kl.unravel(kl.select(exists, pixel, 0), (0, *parts))
        seen = seen_by(blocks, lines, tops, accumulate)
        at = x_steps.at(image, group)
        if taken == depth:
            whole.append(_window(x, at, x_steps.inner, seen, blocks, taken, accumulate))
        place = tops[0] * lines[0].c
        for top, line in zip(tops[1:], lines[1:], strict=True):
            place = place + top * line.c
        ends, to = writer(epilogue, after, c, image), c_steps.at(image, group)
        found.append(Pixel(exists, ends, to, place, at, seen))
    kl.barrier()
    for start in kl.loop_range(0, kl.min(filters, share), beside):
        acc = kl.registers((windows, beside // FOUR), accumulate, FOUR)
        if taken == depth:
            _multiply(acc, held, start * (depth * taps), whole, beside)
        else:
            for d in kl.loop_range(0, depth, taken):
                far, step = d * x_steps.inner, x_steps.inner
                some = [
                    _window(x, one.at + far, step, one.seen, blocks, taken, accumulate)
                    for one in found
                ]
                _multiply(acc, held, d * (taps * beside), some, beside)
        for f in kl.range(beside):
            channel = first + start + f
            if start + f < filters:
                for j, one in enumerate(found):
                    total = acc[j, f // FOUR][f % FOUR]
                    one.write(c, total, group * outputs + channel, channel * c_steps.inner)
