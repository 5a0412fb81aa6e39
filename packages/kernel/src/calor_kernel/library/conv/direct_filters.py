"""Convolutions of few terms: a unit reads its windows once and multiplies them by many filters.

Requirements: with few terms a sum ends before a tile of a matrix product has been staged, so
nothing is staged but the filters, and images are read in place. A unit has whole windows in
registers, and a group of filters at a time: every read of shared memory is one of all units of a
plane, and serves as many products as the unit has windows. Neighbouring units have neighbouring
pixels, so the accesses of a plane are adjacent whatever the alignment of a row.
"""

from __future__ import annotations

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.library.conv.direct_blocks import Block, Line, Seen, seen_by
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer

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
    blocks: tuple[Block, Block],
    depth: int,
    share: int,
    units: int,
    wide: DType,
) -> None:
    """Copy ``share`` filters from ``at`` on, the terms of a group of filters one after another.

    There are ``filters``; those beyond are zeros. ``steps``: of filters and of channels.
    """
    taps = blocks[0].taps * blocks[1].taps
    terms = depth * taps
    for e in kl.loop_range(kl.unit_index(), terms * share, units):
        number, term = e // terms, e % terms
        channel, tap = term // taps, term % taps
        far = number * steps[0] + channel * steps[1]
        far = far + tap // blocks[1].taps * lines[0].b + tap % blocks[1].taps * lines[1].b
        value = w[at + kl.select(number < filters, far, 0)].to(wide)
        value = kl.select(number < filters, value, kl.constant(0, wide))
        held[number // GROUP * (terms * GROUP) + term * GROUP + number % GROUP] = value


@kl.helper
def _window(
    x: kl.Pointer,
    at: kl.Number,
    step: kl.Number,
    seen: Seen,
    blocks: tuple[Block, Block],
    depth: int,
    wide: DType,
) -> list[kl.Number]:
    """Return the elements of a window of ``depth`` channels, in the order of its taps."""
    rows, columns = ([b.summed * j + b.start for j in range(b.taps)] for b in blocks)
    return [
        seen.read(x, at + d * step, (row, column), wide)
        for d in range(depth)
        for row in rows
        for column in columns
    ]


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
    blocks: tuple[Block, Block],
    depth: int,
    share: int,
    windows: int,
    units: int,
    together: int,
    accumulate: DType,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute ``windows`` pixels of each unit and ``share`` filters of a cube.

    Cubes are numbered along the ``pixels`` of all images, the shares of a group's ``outputs``, and
    groups. ``parts``: rows and columns of an image. Blocks have one output; the inner axes of
    ``x_steps`` and ``w_steps`` are summed, over ``depth`` channels.
    """
    kl.launch_attributes(cubes_per_core=together)
    first, group, unit = kl.cube_position(1) * share, kl.cube_position(2), kl.unit_index()
    terms = depth * blocks[0].taps * blocks[1].taps
    held = kl.shared(terms * share, accumulate, align=FOUR * accumulate.itemsize)
    at = w_steps.at(group, first)
    steps = w_steps.middle, w_steps.inner
    filters = outputs - first
    _stage(held, w, at, filters, steps, lines, blocks, depth, share, units, accumulate)
    taken, targets, ends, exist = [], [], [], []
    for j in kl.range(windows):
        pixel = (kl.cube_position(0) * windows + j) * units + unit
        exist.append(pixel < pixels)
        image, *tops = kl.unravel(kl.select(pixel < pixels, pixel, 0), (0, *parts))
        seen = seen_by(blocks, lines, tops, accumulate)
        at = x_steps.at(image, group)
        taken.append(_window(x, at, x_steps.inner, seen, blocks, depth, accumulate))
        place = tops[0] * lines[0].c + tops[1] * lines[1].c
        targets.append((c_steps.at(image, group), place))
        ends.append(writer(epilogue, after, c, image))
    kl.barrier()
    for start in kl.loop_range(0, kl.min(filters, share), GROUP):
        acc = kl.registers((windows, GROUP // FOUR), accumulate, FOUR)
        for t in kl.range(terms):
            for q in kl.range(GROUP // FOUR):
                factors = held.load(start * terms + t * GROUP + q * FOUR, FOUR)
                for j in kl.range(windows):
                    acc[j, q] = multiply_add(kl.splat(taken[j][t], FOUR), factors, acc[j, q])
        for f in kl.range(GROUP):
            number = start + f
            channel = first + number
            if number < filters:
                for j in kl.range(windows):
                    total = acc[j, f // FOUR][f % FOUR]
                    to, place = targets[j]
                    if exist[j]:
                        to = to + channel * c_steps.inner + place
                        if ends[j] is None:
                            c[to] = total.to(c.dtype)
                        else:
                            ends[j].write(to, total, group * outputs + channel, place)
