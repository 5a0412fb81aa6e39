"""Weight gradients by warp-group matrix instructions, fed by TMA from the images as they are.

Requirements: nothing is copied. Pixels, which are summed, are dense in rows of both operands, so a
line of pixels of some channels is a tile that TF32 instructions take. A tap reads a line of the
input at an offset, which neither TMA nor an instruction's operand in shared memory may have: both
begin at multiples of 16 bytes. So a line of the input is a box with the pixels of all taps of a
row, and a warp group loads the pixels of its taps into registers. These are operand A: rows of the
sums are input channels, and columns are output channels. Each load serves several rows of taps: one
line of the input meets a line of the output gradient for each of them. Steps go down the images, so
the next line of the input meets lines that are still in shared memory, and both are read from the
cache once for all taps of a tile. TMA fills positions outside of the tensors with zeros: these are
the padding, and the end of a row's last line. The lines of all images are cut into parts that fill
all cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor.dtypes import DType
from calor_cuda.kernels.conv.implicit_gemm_tma import whole_and_rest
from calor_cuda.kernels.warpgroup import ASKING, LINE, MULTIPLYING, following, release
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.language.matrices import MatrixShape, register_places, wgmma_64
from calor_kernel.library.conv.implicit_gemm_mma import columns_of, rows_of

# Elements of 16 bytes, and of all banks of shared memory.
ACCESS, _BANKS = 4, 32
# Channels of a warp group.
CHANNELS = 64


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """A plan: tiles of ``blocks`` times 64 input channels and ``outputs`` output channels.

    A tile has ``downs`` rows of taps, ``move`` rows of the images apart. Of each row ``beside``
    warp groups have ``own`` adjacent taps each. A step is a line of the input, ``pitch`` pixels of
    each channel for all taps; shared memory has ``stages`` of them, and ``lines`` of the output
    gradient. ``whole``: whether no tile has rows of taps or output channels beyond the last.
    """

    dtype: DType
    blocks: int
    beside: int
    own: int
    downs: int
    move: int
    outputs: int
    pitch: int
    stages: int
    lines: int
    whole: bool = False

    @property
    def depth(self) -> int:
        """The pixels of a line."""
        return LINE // int(self.dtype.itemsize)

    @property
    def channels(self) -> int:
        """The input channels of a tile."""
        return CHANNELS * self.blocks

    @property
    def acrosses(self) -> int:
        """The adjacent taps of a row in a tile."""
        return self.beside * self.own

    @property
    def reach(self) -> int:
        """The lines of the output gradient that a line of the input meets, with those between."""
        return (self.downs - 1) * self.move + 1

    @property
    def groups(self) -> int:
        """The warp groups that multiply."""
        return self.beside * self.blocks

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.groups + 1)

    @property
    def sums(self) -> int:
        """The sums of a unit."""
        return self.own * self.downs * self.outputs // 2

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.outputs, self.dtype)

    @property
    def x_bytes(self) -> int:
        """The bytes of a line of the input."""
        return int(self.dtype.itemsize) * self.channels * self.pitch

    @property
    def g_bytes(self) -> int:
        """The bytes of a line of the output gradient."""
        return LINE * self.outputs

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.stages * self.x_bytes + self.lines * self.g_bytes + 1024

    def swizzled(self, *sizes: int) -> kl.Swizzled:
        """Return the swizzled layout of lines along the last axis."""
        return kl.Swizzled(kl.Swizzle(3, 2, 3), kl.Layout.rows(*sizes))


def pitch_of(pixels: int) -> int:
    """Return the least pitch of channels for some pixels.

    It is a whole number of accesses, and odd: a fragment's eight rows of four terms are in 32
    different banks.
    """
    return (-(-pixels // ACCESS) | 1) * ACCESS


@dataclass(frozen=True, slots=True)
class Taps(Generic[N]):
    """The taps of a window, ``down`` and ``across``.

    Tap (i, j) of the first line's pixel reads at ``start + (i, j) * move``; ``step``: the input
    rows between rows of pixels.
    """

    down: kl.SizeOf[N]
    across: kl.SizeOf[N]
    start_down: kl.StrideOf[N]
    start_across: kl.StrideOf[N]
    move_down: kl.StrideOf[N]
    move_across: kl.StrideOf[N]
    step: kl.SizeOf[N]


@kl.kernel
def conv_weight_tma(
    g: kl.In,
    x: kl.In,
    c: kl.Out,
    g_sizes: tuple[kl.Size, ...],
    g_strides: tuple[kl.Size, ...],
    x_sizes: tuple[kl.Size, ...],
    x_strides: tuple[kl.Size, ...],
    taps: Taps[kl.Number],
    first_row: kl.Size,
    rows: kl.Size,
    share: kl.Size,
    room: kl.Size,
    part_step: kl.Size,
    *,
    plan: WeightPlan,
) -> None:
    """Compute a tile of each part: rows are x's channels, columns g's channels of a row of taps.

    Sizes are images, channels, rows and columns. The first row of taps of a tile has ``rows`` rows
    of pixels, from ``first_row`` on; further rows of taps read theirs above. ``share``: the lines
    of a part; y selects the part. ``room``: the channels of a tap in the result.
    """
    kl.launch_attributes(cubes_per_core=1)
    depth = plan.depth
    g_box, x_box = (1, plan.outputs, 1, depth), (1, plan.channels, 1, plan.pitch)
    g_map = kl.tensor_map(g, g_sizes, (*g_strides, 1), g_box, plan.swizzled(*g_box), rounded=True)
    x_map = kl.tensor_map(x, x_sizes, (*x_strides, 1), x_box, rounded=True)
    x_size, g_size = plan.channels * plan.pitch, plan.outputs * depth
    left = kl.shared(plan.stages * x_size, plan.dtype, align=1024)
    right = kl.shared(plan.lines * g_size, plan.dtype, align=1024)
    full = kl.Mbarriers(plan.stages, 1, meet=False)
    empty = kl.Mbarriers(plan.stages, 4 * plan.groups)
    right_at = kl.Swizzled(
        plan.swizzled(plan.outputs, depth).swizzle, kl.Layout((depth, plan.outputs), (1, depth))
    )
    images, outputs, _, wide = g_sizes
    beside_lines = -(-wide // depth)
    blocks, beside = -(-room // plan.channels), -(-taps.across // plan.acrosses)
    # Adjacent tiles read the same lines of g.
    tile, split = kl.cube_position(0), kl.cube_position(1)
    channel, rest = tile % blocks * plan.channels, tile // blocks
    column, above = rest % beside * plan.acrosses, rest // beside
    high = -(-taps.down // plan.downs)
    tap_row, output = above % high * plan.downs, above // high * plan.outputs
    begin = split * share
    length = kl.min(share, images * beside_lines * rows - begin)
    # The access in which the first tap's first pixel is, and the pixels before it there.
    access, before = whole_and_rest(taps.start_across + column * taps.move_across, ACCESS)
    with kl.role(0, registers=ASKING[plan.groups]):
        if kl.unit_index() == 0:
            stage, parity, newest = images * 0, images * 0 + 1, images * 0
            for number in kl.range(length):
                step = begin + number
                strip, down = step // rows, step % rows
                image, first = strip // beside_lines, strip % beside_lines * depth
                alone = (number == 0) | (down == 0)
                y = first_row + down
                newest = next_line(newest, alone, plan)
                empty.wait(stage, parity)
                some = kl.select(alone, plan.reach, 1)
                full.expect(stage, plan.x_bytes + some * plan.g_bytes)
                seen = taps.start_down + tap_row * taps.move_down + y * taps.step
                at = first + access * ACCESS
                x_map.fetch(left.at(stage * x_size), (image, channel, seen, at), full, stage)
                g_map.fetch(right.at(newest * g_size), (image, output, y, first), full, stage)
                if alone:
                    # The lines above, which the line before would have left.
                    for k in kl.range(1, plan.reach):
                        to = right.at(line_before(newest, k, plan) * g_size)
                        g_map.fetch(to, (image, output, y - k, first), full, stage)
                full.arrive(stage)
                stage, parity = following(stage, parity, plan.stages)
    with kl.role(1, plan.groups, registers=MULTIPLYING[plan.groups]):
        shape = plan.shape
        group = kl.unit_index() // 128 - 1
        own, block = group % plan.beside * plan.own, group // plan.beside
        starts = [
            block * (CHANNELS * plan.pitch) + before + (own + k) * taps.move_across
            for k in kl.range(plan.own)
        ]
        stage, parity, newest = images * 0, images * 0, images * 0
        down = begin % rows
        sums = [[kl.fragment(shape, "c") for _ in kl.range(plan.downs)] for _ in starts]
        for number in kl.range(length):
            newest = next_line(newest, (number == 0) | (down == 0), plan)
            down = kl.select(down + 1 == rows, 0, down + 1)
            full.wait(stage, parity)
            for k in kl.range(plan.own):
                pixels = [kl.fragment(shape, "a") for _ in kl.range(0, depth, shape.k)]
                for i in kl.range(len(pixels)):
                    at = stage * x_size + starts[k] + i * shape.k
                    pixels[i].load(left.at(at), (plan.pitch, 1))
                for j in kl.range(plan.downs):
                    to = right.at(line_before(newest, j * plan.move, plan) * g_size)
                    grads = kl.SharedMatrix(to, right_at)
                    kl.issue_mma(
                        sums[k][j],
                        [
                            (pixels[i], grads.tile((shape.k, shape.n), (i * shape.k, 0)))
                            for i in kl.range(len(pixels))
                        ],
                    )
                # Operand registers are read until their products are done.
                kl.wait_mma()
            release(empty, stage, True)
            stage, parity = following(stage, parity, plan.stages)
        below, near = sums[0][0].lane_place()
        line = taps.down * taps.across * room
        first, place = output + near, channel + block * CHANNELS + below
        for k in kl.range(plan.own):
            across = column + own + k
            start = split * part_step + first * line + place
            start = start + (tap_row * taps.across + across) * room
            for j in kl.range(plan.downs):
                kl.wait_mma(sums[k][j])
            for r in dict.fromkeys(r for r, _ in register_places(shape, "c")):
                # A mask would apply to each element.
                if (across < taps.across) & (place + r < room):
                    for j, far in columns_of(sums[k]):
                        found = dict(rows_of(sums[k][j], far))[r]
                        for i in kl.range(len(found)):
                            to = start + r + j * taps.across * room + (far + i) * line
                            inside = (tap_row + j < taps.down) & (first + far + i < outputs)
                            if plan.whole or inside:
                                c.store(to, found[i])


@kl.helper
def next_line(newest: kl.Number, alone: kl.Mask, plan: WeightPlan) -> kl.Number:
    """Return the place of a step's newest line of g; a step ``alone`` brings those above too."""
    later = newest + kl.select(alone, plan.reach, 1)
    return kl.select(later >= plan.lines, later - plan.lines, later)


@kl.helper
def line_before(newest: kl.Number, count: int, plan: WeightPlan) -> kl.Number:
    """Return the place of the line some rows above the newest one."""
    if count == 0:
        return newest
    place = newest - count
    return kl.select(place < 0, place + plan.lines, place)
