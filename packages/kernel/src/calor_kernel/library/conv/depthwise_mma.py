"""Depthwise convolutions and their gradients by matrix instructions, from tiles in shared memory.

Requirements: a window of many taps needs an instruction for each tap and output, which takes longer
than memory does. A row of taps is a product of 16 adjacent inputs of a line and a band of weights,
which makes 8 outputs of 16 lines at once. In a weight gradient inputs and gradients of lines are
multiplied, and the diagonals of the product are the taps. A product's zeros meet inputs outside of
a window, so results that are not finite are added one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from calor.dtypes import DType, float32
from calor_kernel import language as kl
from calor_kernel.language.matrices import mma_16x8
from calor_kernel.library.conv.direct_blocks import Line
from calor_kernel.library.conv.exact_taps import Pixels, Reach, finite
from calor_kernel.library.conv.split_sums import Items
from calor_kernel.library.conv.vector_tiles import Strides, multiply_add
from calor_kernel.library.gemm.epilogue import After, Epilogue, Writer, writer
from calor_kernel.library.gemm.mma import ACCESS, taken
from calor_kernel.library.gemm.pipeline import fill_ahead, work_through

# Lines of a product, and its columns of outputs.
LINES, COLUMNS = 16, 8
# Loads of a unit that are under way together while it stages.
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class Window:
    """An axis of a window: output i meets taps at ``i + low + shift + j``, maybe from the last on.

    ``low``: a distance at which accesses are aligned.
    """

    taps: int
    low: int
    shift: int
    reversed: bool

    def tap(self, place: kl.Index) -> kl.Index:
        """Return the tap at a place, counted from the first one that an output meets."""
        return self.taps - 1 - place if self.reversed else place


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged tile: ``rows`` by ``columns`` of some channels, from ``tops`` on for each block.

    ``tops``, ``steps``: of rows and of columns. ``wide``: the adjacent channels of an access, or
    ``run`` adjacent columns. ``whole``: whether the tile has the image, and zeros around it.
    """

    channels: int
    rows: int
    columns: int
    tops: tuple[int, int]
    steps: tuple[int, int]
    wide: int
    run: int
    whole: bool

    @property
    def pitch(self) -> int:
        """The distance between lines: eight of them begin in different banks."""
        return self.columns if self.columns // COLUMNS % 2 else self.columns + COLUMNS

    @property
    def plane(self) -> int:
        """The distance between channels."""
        return self.rows * self.pitch

    @property
    def layout(self) -> kl.Layout:
        """The layout of (row, column) of a channel."""
        return kl.Layout((self.rows, self.columns), (self.pitch, 1))

    def tile(self, dtype: DType) -> kl.Tile:
        """Return the tile as a stage of a pipeline."""
        return kl.Tile(dtype, kl.Layout(self.channels * self.plane, 1))

    def matrix(self, held: kl.Pointer, channel: kl.Number, turned: bool) -> kl.SharedMatrix:
        """Return the lines of a channel as rows, or as columns if ``turned``."""
        sizes, steps = (self.rows, self.columns), (self.pitch, 1)
        if turned:
            sizes, steps = (self.columns, self.rows), (1, self.pitch)
        return kl.SharedMatrix(held.at(channel * self.plane), kl.Layout(sizes, steps))

    @kl.helper
    def clear(self, held: kl.Pointer, units: int) -> None:
        """Set the tile to zeros."""
        access = ACCESS // held.dtype.itemsize
        none = kl.constant(0, held.dtype, access)
        for i in kl.loop_range(
            kl.unit_index() * access, self.channels * self.plane, units * access
        ):
            held.store(i, none, align=ACCESS)

    @kl.helper
    def stage(
        self,
        pipe: kl.Pipeline,
        number: int,
        x: kl.Pointer,
        at: kl.Number,
        channel_step: kl.Number,
        channels: kl.Number,
        place: tuple[kl.Number, kl.Number],
        sizes: tuple[kl.Number, kl.Number],
        strides: tuple[kl.Number, kl.Number],
        image: tuple[kl.FastDivmod, ...],
        units: int,
    ) -> None:
        """Copy the block at ``place`` of an image of ``sizes``; zeros are outside.

        ``at``: the first of ``channels`` that exist. ``image``: rows and accesses of a line of the
        whole image.
        """
        first = [p * s + t for p, s, t in zip(place, self.steps, self.tops, strict=True)]
        groups = self.channels // self.wide
        count: kl.Index = groups * (self.rows * (self.columns // self.run))
        if self.whole:
            count = groups * image[0].divisor * image[1].divisor
        single = self.wide > 1 or self.run == 1
        ahead = _AHEAD if single else 1
        for begin in kl.loop_range(kl.unit_index(), count, units * ahead):
            found = []
            for turn in kl.range(ahead):
                e = begin + turn * units
                there = e < count
                e = kl.select(there, e, 0) if turn else e
                if self.whole:
                    group, row, column = kl.unravel(e, (0, *image))
                    line, beside = row - self.tops[0], column * self.run - self.tops[1]
                    column, inside = column * self.run, there
                else:
                    line, beside = e // (self.columns // self.run), e % (self.columns // self.run)
                    group, line, beside = line // self.rows, line % self.rows, beside * self.run
                    row, column = first[0] + line, first[1] + beside
                    inside = there & (row >= 0) & (column >= 0)
                    inside = inside & (row < sizes[0]) & (column < sizes[1])
                channel = group * self.wide
                inside = inside & (channel < channels)
                of = channel * channel_step + row * strides[0] + column * strides[1]
                to = channel * self.plane + line * self.pitch + beside
                if single:
                    # A mask would be a branch for each element.
                    of = at + kl.select(inside, of, 0)
                    of = kl.assume_multiple(of, self.wide) if self.wide > 1 else of
                    found.append((there, inside, to, x.load(of, self.wide)))
                else:
                    of = kl.assume_multiple(at + of, self.run)
                    pipe.copy(number, kl.assume_multiple(to, self.run), x, of, self.run, inside)
            for there, inside, to, value in found:
                if self.whole:
                    if inside:
                        self._put(pipe, number, to, value)
                else:
                    mask = kl.splat(inside, self.wide) if self.wide > 1 else inside
                    value = kl.select(mask, value, kl.constant(0, value.dtype, self.wide))
                    if there:
                        self._put(pipe, number, to, value)

    @kl.helper
    def _put(self, pipe: kl.Pipeline, number: int, to: kl.Number, value: kl.Number) -> None:
        """Store a pixel of adjacent channels."""
        for k in kl.range(self.wide):
            pipe.put(number, to + k * self.plane, value[k] if self.wide > 1 else value)


@dataclass(frozen=True, slots=True)
class BandPlan:
    """The tile of a cube: ``rows`` by ``columns`` outputs of some channels, for some planes.

    ``wide``, ``run``, ``whole``: how x is staged, and a weight gradient's g.
    """

    dtype: DType
    windows: tuple[Window, Window]
    rows: int
    columns: int
    channels: int
    planes: int
    wide: tuple[int, int] = (1, 1)
    run: tuple[int, int] = (1, 1)
    whole: bool = False

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 32 * self.planes

    @property
    def shape(self) -> kl.MatrixShape:
        """The matrix instruction."""
        return mma_16x8(self.dtype)

    @property
    def tile(self) -> Staged:
        """The staged inputs."""
        down, across = self.windows
        sizes = self.rows + down.taps - 1, self.columns + COLUMNS
        steps = self.rows, self.columns
        tops = down.low, across.low
        return Staged(self.channels, *sizes, tops, steps, self.wide[0], self.run[0], self.whole)

    @property
    def given(self) -> Staged:
        """The staged output gradients."""
        steps = self.rows, self.columns
        return Staged(self.channels, *steps, (0, 0), steps, self.wide[1], self.run[1], self.whole)

    @property
    def per(self) -> int:
        """The planes that share a channel."""
        return max(1, self.planes // self.channels)

    @property
    def turns(self) -> int:
        """The channels of a plane, one after another."""
        return -(-self.channels * self.per // self.planes)

    @property
    def blocks(self) -> int:
        """The products of a channel."""
        return self.rows // LINES * (self.columns // COLUMNS)

    @kl.helper
    def own(self, turn: int) -> kl.Number:
        """Return the number of the plane's channel in a turn."""
        return kl.plane_position() // self.per + turn * (self.planes // self.per)

    @kl.helper
    def block(self, number: kl.Number) -> tuple[kl.Number, kl.Number]:
        """Return the first row and column of a product."""
        across = self.columns // COLUMNS
        return number // across * LINES, number % across * COLUMNS


@kl.helper
def _bands(
    w: kl.Pointer, of: kl.Number, lines: tuple[Line[kl.Number], ...], plan: BandPlan
) -> list[kl.Fragment]:
    """Return a channel's bands of weights, for each line of a window that an output meets."""
    down, across = plan.windows
    made = []
    for line in range(down.taps):
        band = kl.fragment(plan.shape, "b")
        begin = of + down.tap(line) * lines[0].b
        for part in range(len(band.parts.items)):
            found = []
            for register in range(part * band.width, (part + 1) * band.width):
                place, output = band.place(register)
                far = place - output - across.shift
                inside = (far >= 0) & (far < across.taps)
                tap = across.tap(kl.select(inside, far, 0))
                weight = w[begin + tap * lines[1].b]
                found.append(kl.select(inside, weight, kl.constant(0, w.dtype)))
            band.parts[part] = kl.pack(found)
        made.append(band)
    return made


@kl.helper
def _added(
    held: kl.Pointer,
    at: kl.Number,
    w: kl.Pointer,
    of: kl.Number,
    lines: tuple[Line[kl.Number], ...],
    plan: BandPlan,
) -> kl.Number:
    """Return an output as the sum of its products; ``at``: its first staged input."""
    down, across = plan.windows
    total = kl.registers(1, float32)
    for i in kl.loop_range(down.taps):
        for j in kl.loop_range(across.taps):
            weight = w[of + down.tap(i) * lines[0].b + across.tap(j) * lines[1].b].to(float32)
            value = held[at + i * plan.tile.pitch + (j + across.shift)].to(float32)
            total[0] = multiply_add(weight, value, total[0])
    return total[0]


@kl.helper
def _write(
    c: kl.Pointer,
    ends: Writer | None,
    to: kl.Number,
    value: kl.Number,
    channel: kl.Number,
    pixel: kl.Number,
) -> None:
    """Write adjacent outputs of a channel that begins at ``to``, or what follows them."""
    if value.width > 1:
        pixel = kl.assume_multiple(pixel, value.width)
    at = to + pixel
    if ends is None:
        c.store(at, value.to(c.dtype), align=value.width * c.dtype.itemsize)
    else:
        ends.write(at, value, channel, pixel)


@kl.kernel
def depthwise_bands(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    groups: kl.Size,
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    w_step: kl.Stride,
    c_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    of_x: tuple[kl.FastDivmod, ...],
    after: After | None,
    *,
    plan: BandPlan,
    run: int,
    together: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute a tile of each of a cube's channels; a convolution or its input gradient.

    ``parts``: the tiles of an image, by channels, down and across. ``run``: the adjacent outputs of
    an access, which divide a line. The axes of the strides are images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    tile, shape = plan.tile, plan.shape
    image, chunk, *tops = kl.unravel(kl.cube_position(0), (0, *parts))
    first = chunk * tile.channels
    pipe = kl.Pipeline(1, tile.tile(x.dtype), how=kl.way_of_units())
    if plan.whole:
        tile.clear(pipe.target(0), plan.units)
        kl.barrier()
    pipe.acquire()
    tile.stage(
        pipe, 0, x, x_steps.at(image, first), x_steps.middle, groups - first, (tops[0], tops[1]),
        (lines[0].size, lines[1].size), (lines[0].a, lines[1].a), of_x, plan.units,
    )  # fmt: skip
    pipe.commit()
    pipe.wait()
    held = pipe.stage(0)
    ends = writer(epilogue, after, c, image)
    for turn in range(plan.turns):
        near = plan.own(turn)
        channel = first + near
        if (near < tile.channels) & (channel < groups):
            of, to = channel * w_step, c_steps.at(image, channel)
            bands, matrix = _bands(w, of, lines, plan), tile.matrix(held, near, False)
            for number in kl.loop_range(kl.plane_position() % plan.per, plan.blocks, plan.per):
                row, column = plan.block(number)
                sums = kl.fragment(shape, "c")
                for i, band in enumerate(bands):
                    kl.mma(taken(matrix, shape, True, row + i, column), band, sums)
                for value, down, right, _ in sums.runs():
                    low, left = row + down, column + right
                    for k in range(0, value.width, run):
                        high = tops[0] * plan.rows + low
                        wide = tops[1] * plan.columns + left + k
                        if (high < lines[0].count) & (wide < lines[1].count):
                            found = kl.registers(run, float32)
                            good = finite([value[k + e] for e in range(run)])
                            for e in range(run):
                                found[e] = value[k + e]
                            if not good:
                                at = near * tile.plane + low * tile.pitch + left + k
                                for e in range(run):
                                    found[e] = _added(held, at + e, w, of, lines, plan)
                            made = kl.pack(list(found)) if run > 1 else found[0]
                            pixel = high * lines[0].c + wide
                            _write(c, ends, to, made, channel, pixel)


@kl.kernel
def depthwise_weight_bands(
    x: kl.In,
    g: kl.In,
    c: kl.Out,
    groups: kl.Size,
    items: Items[kl.Number],
    parts: tuple[kl.FastDivmod, ...],
    x_steps: Strides[kl.Number],
    g_steps: Strides[kl.Number],
    lines: tuple[Line[kl.Number], ...],
    of_x: tuple[kl.FastDivmod, ...],
    of_g: tuple[kl.FastDivmod, ...],
    *,
    plan: BandPlan,
    together: int,
    stages: int,
) -> None:
    """Compute a part of the weight gradients of a cube's channels: channels from x, parts from y.

    An item is a tile of an image, ``parts``: tiles down and across. The axes of the strides are
    images, channels, and none.
    """
    kl.launch_attributes(cubes_per_core=together)
    tile, given, shape = plan.tile, plan.given, plan.shape
    down, across = plan.windows
    first, split = kl.cube_position(0) * tile.channels, kl.cube_position(1)
    begin, end = items.ends(split)
    sums = [[kl.fragment(shape, "c") for _ in range(down.taps)] for _ in range(plan.turns)]
    pipe = kl.Pipeline(stages, tile.tile(x.dtype), given.tile(g.dtype), how=kl.way_of_units())
    if plan.whole:
        for number, staged in enumerate((tile, given)):
            for stage in range(stages):
                some = pipe.memory[number].at(stage * pipe.tiles[number].size)
                staged.clear(some, plan.units)
        kl.barrier()

    def take(item: kl.Number) -> None:
        if item < end:
            image, *tops = kl.unravel(item, (0, *parts))
            place = tops[0], tops[1]
            tile.stage(
                pipe, 0, x, x_steps.at(image, first), x_steps.middle, groups - first, place,
                (lines[0].size, lines[1].size), (lines[0].a, lines[1].a), of_x, plan.units,
            )  # fmt: skip
            given.stage(
                pipe, 1, g, g_steps.at(image, first), g_steps.middle, groups - first, place,
                (lines[0].count, lines[1].count), (lines[0].c, lines[1].c), of_g, plan.units,
            )  # fmt: skip

    def work(item: kl.Number) -> None:
        for turn in range(plan.turns):
            near = plan.own(turn)
            if near < tile.channels:
                left = tile.matrix(pipe.stage(0), near, True)
                right = given.matrix(pipe.stage(1), near, False)
                for number in kl.loop_range(kl.plane_position() % plan.per, plan.blocks, plan.per):
                    row, column = plan.block(number)
                    one = taken(right, shape, False, row, column)
                    for i in range(down.taps):
                        kl.mma(taken(left, shape, True, column, row + i), one, sums[turn][i])

    fill_ahead(pipe, take, begin, 1)
    if stages == 1:
        for item in kl.loop_range(begin, end):
            pipe.acquire()
            take(item)
            pipe.commit()
            pipe.wait()
            work(item)
            pipe.release()
    else:
        work_through(pipe, take, work, begin, end, 1)
    # A tap is a diagonal of a product; the planes that share a channel are added in order.
    area, taps = LINES * COLUMNS, prod(window.taps for window in plan.windows)
    room = kl.shared(plan.planes * area, float32, align=ACCESS)
    made = kl.shared(plan.planes * taps, float32)
    mine, lane, at_once = kl.plane_position(), kl.lane_position(), plan.planes // plan.per
    for turn in range(plan.turns):
        for i in range(down.taps):
            sums[turn][i].store(room.at(mine * area), (COLUMNS, 1))
            kl.barrier("plane")
            if lane < across.taps:
                total = kl.constant(0, float32)
                for k in range(COLUMNS):
                    place = (k + across.shift + lane) * COLUMNS + k
                    total = total + room[mine * area + place]
                made[mine * taps + i * across.taps + lane] = total
            kl.barrier("plane")
        kl.barrier()
        for e in kl.loop_range(kl.unit_index(), at_once * taps, plan.units):
            near, tap = e // taps, e % taps
            channel = first + near + turn * at_once
            if (near + turn * at_once < tile.channels) & (channel < groups):
                total = kl.constant(0, float32)
                for other in range(plan.per):
                    total = total + made[(near * plan.per + other) * taps + tap]
                if not finite([total]):
                    at, of = x_steps.at(0, channel), g_steps.at(0, channel)
                    images = (x_steps.outer, at), (g_steps.outer, of)
                    window = tap // across.taps, tap % across.taps
                    total = _added_pixels(x, g, images, (begin, end), parts, lines, plan, window)
                c[split * items.part_step + channel * taps + tap] = total.to(c.dtype)
        kl.barrier()


@kl.helper
def _added_pixels(
    x: kl.Pointer,
    g: kl.Pointer,
    images: tuple[tuple[kl.Number, kl.Number], tuple[kl.Number, kl.Number]],
    ends: tuple[kl.Number, kl.Number],
    parts: tuple[kl.FastDivmod, ...],
    lines: tuple[Line[kl.Number], ...],
    plan: BandPlan,
    tap: tuple[kl.Number, kl.Number],
) -> kl.Number:
    """Return a tap's part as the sum of its pixels' products; ``images``: steps and channels."""
    (x_step, at), (g_step, of) = images
    pixels = Pixels(
        (*ends, 1), parts, (plan.rows, plan.columns),
        lambda tops: (tops[0] * plan.rows, tops[1] * plan.columns),
        lambda image: (at + image * x_step, of + image * g_step, True),
    )  # fmt: skip
    reach = [Reach(1, 1, one.low + one.shift) for one in plan.windows]
    return pixels.added(x, g, lines, reach, tap, float32)
