"""Weight gradients by warp-group matrix instructions, fed by TMA from the images as they are.

Requirements: nothing is copied. Pixels, which are summed, are dense in rows of both operands, so a
line of pixels of some channels is a tile that TF32 instructions take. A tap reads the same line of
the input at an offset, and TMA fills positions outside of the tensor with zeros: these are the
padding, and the end of a row's last line. Adjacent taps of a row share a tile, and so the lines of
the output gradient. The lines of all images are cut into parts that fill all cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from calor.dtypes import DType
from calor_cuda.kernels.warpgroup import ASKING, LINE, MULTIPLYING, Ring
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.language.matrices import MatrixShape, wgmma_64
from calor_kernel.library.conv.implicit_gemm_mma import columns_of, rows_of


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """A plan: ``rows`` output channels, and ``channels`` of each of some adjacent ``taps``.

    A step is a line of pixels, and ``stages`` of them are in shared memory.
    """

    dtype: DType
    rows: int
    channels: int
    taps: int
    stages: int

    @property
    def depth(self) -> int:
        """The pixels of a line."""
        return LINE // int(self.dtype.itemsize)

    @property
    def columns(self) -> int:
        """The columns of sums."""
        return self.channels * self.taps

    @property
    def groups(self) -> int:
        """The warp groups that multiply."""
        return self.rows // 64

    @property
    def units(self) -> int:
        """The units of a cube."""
        return 128 * (self.groups + 1)

    @property
    def shape(self) -> MatrixShape:
        """The instruction."""
        return wgmma_64(self.columns, self.dtype)

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return LINE * self.stages * (self.rows + self.columns) + 1024

    def swizzled(self, *sizes: int) -> kl.Swizzled:
        """Return the swizzled layout of lines along the last axis."""
        return kl.Swizzled(kl.Swizzle(3, 2, 3), kl.Layout.rows(*sizes))


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
    share: kl.Size,
    room: kl.Size,
    part_step: kl.Size,
    *,
    plan: WeightPlan,
) -> None:
    """Compute a tile of each part: rows are g's channels, columns the taps of x's channels.

    Sizes are images, channels, rows and columns. ``share``: the lines of a part; y selects the
    part. ``room``: the channels of a tap in the result.
    """
    kl.launch_attributes(cubes_per_core=1)
    depth = plan.depth
    rows_box, columns_box = (1, plan.rows, 1, depth), (1, plan.channels, 1, depth)
    g_map = kl.tensor_map(
        g, g_sizes, (*g_strides, 1), rows_box, plan.swizzled(*rows_box), rounded=True
    )
    x_map = kl.tensor_map(
        x, x_sizes, (*x_strides, 1), columns_box, plan.swizzled(*columns_box), rounded=True
    )
    g_size, x_size = plan.rows * depth, plan.columns * depth
    left = kl.shared(plan.stages * g_size, plan.dtype, align=1024)
    right = kl.shared(plan.stages * x_size, plan.dtype, align=1024)
    full = kl.Mbarriers(plan.stages, 1, meet=False)
    empty = kl.Mbarriers(plan.stages, 4 * plan.groups)
    left_at = plan.swizzled(plan.rows, depth)
    right_at = kl.Swizzled(left_at.swizzle, kl.Layout((depth, plan.columns), (1, depth)))
    ring = Ring(left, right, (g_size, x_size), right_at, full, empty, plan.stages, depth)
    images, outputs, high, wide = g_sizes
    lines = -(-wide // depth)
    blocks, beside = -(-room // plan.channels), taps.across // plan.taps
    # Tiles of one row of output channels are adjacent, since they read the same lines of g.
    tile, split = kl.cube_position(0), kl.cube_position(1)
    channel, rest = tile % blocks * plan.channels, tile // blocks
    column, above = rest % beside * plan.taps, rest // beside
    tap_row, row = above % taps.down, above // taps.down * plan.rows
    begin = split * share
    length = kl.min(share, images * high * lines - begin)
    with kl.role(0, registers=ASKING[plan.groups]):
        if kl.unit_index() == 0:

            def copy(stage: kl.Number, step: kl.Number) -> None:
                line, first = step // lines, step % lines * depth
                image, y = line // high, line % high
                g_map.fetch(left.at(stage * g_size), (image, row, y, first), full, stage)
                seen = taps.start_down + tap_row * taps.move_down + y * taps.step
                for k in kl.range(plan.taps):
                    far = taps.start_across + (column + k) * taps.move_across
                    to = right.at(stage * x_size + k * plan.channels * depth)
                    x_map.fetch(to, (image, channel, seen, first + far), full, stage)

            stage, parity = images * 0, images * 0 + 1
            nbytes = (g_size + x_size) * plan.dtype.itemsize
            for number in kl.range(length):
                stage, parity = ring.load(stage, parity, nbytes, copy, begin + number)
    with kl.role(1, plan.groups, registers=MULTIPLYING[plan.groups]):
        shape = plan.shape
        top = (kl.unit_index() // 128 - 1) * 64
        stage, parity = images * 0, images * 0

        def left_of(stage: kl.Number) -> Callable[[int], kl.SharedMatrix]:
            lefts = kl.SharedMatrix(left.at(stage * g_size), left_at)
            return lambda p: lefts.tile((shape.m, shape.k), (top, p))

        sums = kl.fragment(shape, "c")
        stage, parity = ring.multiply(sums, shape, length, 1, stage, parity, left_of)
        below, near = sums.lane_place()
        line, first = taps.down * taps.across * room, tap_row * taps.across + column
        for _, far in columns_of([sums]):
            place = channel + far % plan.channels + near
            at = split * part_step + (first + far // plan.channels) * room + place
            for r, found in rows_of(sums, far):
                output = row + top + below + r
                to = kl.assume_multiple(at + output * line, len(found))
                # A mask would apply to each element and split the access.
                if (place < room) & (output < outputs):
                    c.store(to, kl.pack(found))
