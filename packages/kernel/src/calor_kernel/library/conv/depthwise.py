"""Depthwise convolutions and their gradients, row by row.

Requirements: memory is the limit, so rows are read and written in place, with strides too; only
weight gradients copy rows that are not contiguous. Masks handle the ends of rows; the middle needs
none. The unit that writes an element of the input gradient computes its whole sum.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Input, Launch, Output, View
from calor_kernel.library.conv.padded_rows import Placement, effort, is_flat, three, vectors
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.conv.row_windows import (
    AHEAD,
    Along,
    Back,
    Extent,
    GivenRows,
    ask_ahead,
    each_row,
    masks_of,
    read_taps,
    write_phases,
)
from calor_kernel.library.conv.vector_tiles import (
    LineStrides,
    Strides,
    below,
    multiply_add,
    sums,
    within,
)
from calor_kernel.library.steps import Steps


@kl.kernel
def depthwise_rows(
    x: kl.In,
    w: kl.In,
    c: kl.Out,
    over: GivenRows[kl.Number],
    blocks: kl.Size,
    groups: kl.Size,
    wide: Extent[kl.Number],
    x_steps: Strides[kl.Number],
    w_steps: LineStrides[kl.Number],
    c_steps: LineStrides[kl.Number],
    *,
    along: Along,
    down: Along,
    rows: int,
    outputs: int,
    lanes: int,
    masked: bool,
    accumulate: DType,
) -> None:
    """Compute blocks of ``rows`` rows of pixels of ``outputs`` output channels each.

    Each input is read once for all rows of a block; a plane has ``blocks`` of them. The inner axis
    of x is its rows. The axes of w are groups, output channels and rows of taps. ``masked``:
    whether selected lanes are stored as fast as all.
    """
    high, alike = over.high, windows_of_rows(down, rows)

    def block(line: kl.Number, image: kl.Number, group: kl.Index, number: kl.Number) -> None:
        y = number * rows
        top = y * down.stride + high.start
        at = x_steps.at(image, group) + top * x_steps.inner
        to = c_steps.at(image, group) + y * c_steps.line
        of = group * w_steps.outer

        def weight(i: int, j: int, r: int) -> kl.Number:
            place = of + r * w_steps.middle + i * w_steps.inner + j * w_steps.line
            return w[place].to(accumulate)

        few = down.taps * along.taps * outputs <= _HELD
        held = {
            (k, j, r): weight(k, j, r)
            for k in kl.range(down.taps if few else 0)
            for j in kl.range(along.taps)
            for r in kl.range(outputs)
        }

        def add(acc: kl.Registers, left: kl.Number, masks: list[list[kl.Mask]] | None) -> None:
            for far, windows in alike.items():
                row = top + far
                if (row >= 0) & (row < high.size):
                    seen = at + far * x_steps.inner + left
                    for j, value in enumerate(read_taps(x, seen, along, lanes, masks)):
                        wider = value.to(accumulate)
                        for i, k in windows:
                            for r in kl.range(outputs):
                                scale = held[k, j, r] if few else weight(k, j, r)
                                scale = kl.splat(scale, lanes)
                                acc[i, r] = multiply_add(scale, wider, acc[i, r])

        for begin in kl.range(0, wide.count, lanes):
            # Where masks are slow, the last vector overlaps the one before.
            o = begin if masked else kl.min(begin, kl.max(wide.count - lanes, 0))
            left = o * along.stride + wide.start
            acc = kl.registers((rows, outputs), accumulate, lanes)
            ask_ahead(x, at + left, x_steps.inner, rows * down.stride, along, lanes)
            if (left >= 0) and (left + along.spread(lanes) <= wide.size):
                add(acc, left, None)
            else:
                add(acc, left, masks_of(left, along, lanes, wide.size))
            inside = below(wide.count - o, lanes)
            for i in kl.range(rows):
                if y + i < high.count:
                    for r in kl.range(outputs):
                        place = to + i * c_steps.line + r * c_steps.inner + o
                        c.store(place, acc[i, r].to(c.dtype), mask=inside)

    each_row(over, blocks, groups, block)


def windows_of_rows(down: Along, rows: int) -> dict[int, list[tuple[int, int]]]:
    """Return the rows that a block of windows reads, each with the windows and taps that do."""
    found: dict[int, list[tuple[int, int]]] = {}
    for i in range(rows):
        for k in range(down.taps):
            found.setdefault(i * down.stride + k * down.dilation, []).append((i, k))
    return dict(sorted(found.items()))


@kl.kernel
def depthwise_weight_rows(
    x: kl.In,
    g: kl.In,
    c: kl.Out,
    images: kl.Size,
    outputs: kl.Size,
    x_steps: Strides[kl.Number],
    g_steps: LineStrides[kl.Number],
    high: Extent[kl.Number],
    wide: Extent[kl.Number],
    taps_down: kl.Size,
    taps_along: kl.Size,
    *,
    along: Along,
    down: Along,
    rows: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute the weight gradient of output channel y and its input channel x.

    A window is computed in tiles of ``down.taps`` by ``along.taps``, of which the last ones overlap
    those before them. The inner axis of x is its rows. An output row reads ``down.taps`` rows of it
    for a tile; each is read once for ``rows`` output rows.
    """
    group, output = kl.cube_position(0), kl.cube_position(1)

    def add(
        acc: kl.Registers,
        count: int,
        top: kl.Number,
        at: kl.Number,
        g_at: kl.Number,
        inside: kl.Mask | None,
        masks: list[list[kl.Mask]] | None,
    ) -> None:
        """Add the products of a vector of each of ``count`` output rows."""
        values = [
            g.load(g_at + i * g_steps.line, lanes, mask=inside).to(accumulate)
            for i in kl.range(count)
        ]
        for far, windows in windows_of_rows(down, count).items():
            row = top + far
            if (row >= 0) & (row < high.size):
                seen = read_taps(x, at + far * x_steps.inner, along, lanes, masks)
                for j, value in enumerate(list(seen)):
                    wider = value.to(accumulate)
                    for i, k in windows:
                        acc[k, j] = multiply_add(values[i], wider, acc[k, j])

    def block(
        acc: kl.Registers,
        count: int,
        corner: tuple[kl.Number, kl.Number],
        x_at: kl.Number,
        g_at: kl.Number,
        y: kl.Number,
    ) -> None:
        """Add the products of ``count`` output rows from y on, whose first tile is at a corner."""
        top = y * down.stride + corner[0]
        for o in kl.range(0, wide.count, lanes):
            left = o * along.stride + corner[1]
            g_place = g_at + y * g_steps.line + o
            start = x_at + top * x_steps.inner + left
            ask_ahead(x, start, x_steps.inner, count * down.stride, along, lanes)
            for i in kl.range(count):
                g.prefetch(g_place + i * g_steps.line + AHEAD // g.dtype.itemsize)
            spread = along.spread(lanes)
            if (left >= 0) and (left + spread <= wide.size) and (o + lanes <= wide.count):
                add(acc, count, top, start, g_place, None, None)
            else:
                # For the last, partial vector of an output row only the inputs of its pixels are
                # read.
                limit = kl.min(wide.count - o, lanes) * along.stride
                masks = masks_of(left, along, lanes, wide.size, limit)
                add(acc, count, top, start, g_place, below(wide.count - o, lanes), masks)

    tiles = (taps_along + along.taps - 1) // along.taps
    for tile in kl.range((taps_down + down.taps - 1) // down.taps * tiles):
        row = kl.min(tile // tiles * down.taps, taps_down - down.taps)
        column = kl.min(tile % tiles * along.taps, taps_along - along.taps)
        corner = high.start + row * down.dilation, wide.start + column * along.dilation
        acc = kl.registers((down.taps, along.taps), accumulate, lanes)
        for image in kl.range(images):
            x_at = x_steps.at(image, group)
            g_at = g_steps.at(image, group) + output * g_steps.inner
            main = high.count // rows * rows
            for y in kl.range(0, main, rows):
                block(acc, rows, corner, x_at, g_at, y)
            if rows > 1:
                for y in kl.range(main, high.count):
                    block(acc, 1, corner, x_at, g_at, y)
        to = ((group * outputs + output) * taps_down + row) * taps_along + column
        for number, total in enumerate(sums(list(acc))):
            place = to + number // along.taps * taps_along + number % along.taps
            c[place] = total.to(c.dtype)


@kl.kernel
def depthwise_input_rows(
    g: kl.In,
    w: kl.In,
    c: kl.Out,
    over: GivenRows[kl.Number],
    groups: kl.Size,
    g_steps: LineStrides[kl.Number],
    w_steps: LineStrides[kl.Number],
    *,
    back: Back,
    down: Along,
    outputs: int,
    lanes: int,
    accumulate: DType,
) -> None:
    """Compute rows of the dense input gradient, each from ``outputs`` output channels.

    The axes of w are groups, output channels and rows of taps.
    """
    high, span = over.high, back.stride

    def row(line: kl.Number, image: kl.Number, group: kl.Index, y: kl.Number) -> None:
        at = g_steps.at(image, group)
        for j in kl.range(0, (over.width + (span - 1)) // span, lanes):
            acc = kl.registers(span, accumulate, lanes)
            for r in kl.range(outputs):
                for k in kl.range(down.taps):
                    place = y - high.start - k * down.dilation
                    if (
                        (place >= 0)
                        & (place % down.stride == 0)
                        & (place < high.count * down.stride)
                    ):
                        windows = at + r * g_steps.inner + place // down.stride * g_steps.line
                        of = group * w_steps.outer + r * w_steps.middle + k * w_steps.inner
                        near, far = back.reach()
                        if (j + near >= 0) and (j + far + lanes <= over.out_width):
                            add_windows(acc, g, windows, j, None, w, of, w_steps.line, back)
                        else:
                            end = over.out_width
                            add_windows(acc, g, windows, j, end, w, of, w_steps.line, back)
            write_phases(list(acc), c, line * over.width + j * span, over.width - j * span)

    each_row(over, high.size, groups, row)


def add_windows(
    acc: kl.Registers,
    g: kl.Pointer,
    windows: kl.Number,
    j: kl.Number,
    end: kl.Number | None,
    w: kl.Pointer,
    of: kl.Number,
    w_width: kl.Number,
    back: Back,
) -> None:
    """Add an output row's part to each stride phase of the elements from ``stride * j`` on.

    ``end``: the windows of the row, if some that are read are not among them.
    """
    lanes, wide = acc.type.width, acc.type.dtype
    read: dict[int, kl.Number] = {}
    for phase in kl.range(back.stride):
        for k, further in back.phase(phase):
            if further not in read:
                inside = None if end is None else within(j + further, lanes, end)
                read[further] = g.load(windows + j + further, lanes, mask=inside).to(wide)
            weight = kl.splat(w[of + k * w_width].to(wide), lanes)
            acc[phase] = multiply_add(weight, read[further], acc[phase])


# Maxima of the output channels of an input channel, and of taps along a row or down an image, in
# one kernel.
_OUTPUTS, _TAPS = 4, 31
_WEIGHTED = 2
# Vectors of sums in the registers of a unit.
_SUMS = 25
# Maximum of output rows that a weight gradient reads together.
_ROWS = 4
# Maxima of the rows of a block, and of its products with a vector.
_BLOCK, _UNROLLED = 8, 400
# Maximum of weights that stay in registers; others are read when they are multiplied.
_HELD = 12
# Bytes of the result of a cube.
_GRAIN = 1 << 16


def depthwise_refusal(problem: Correlation, to: Placement) -> str | None:
    """Return why a convolution is not computed row by row as a depthwise one, None if it may be."""
    axes = three(problem)
    if not is_flat(axes) or to.axes[2] != 1:
        return "it has three spatial axes, or rows that are not contiguous"
    if problem.depth.size != 1 or problem.leads[2].size > _OUTPUTS:
        return f"a group has several input or more than {_OUTPUTS} output channels"
    over = max(axes[1].terms, axes[2].terms) > _TAPS
    return f"its window has more than {_TAPS} taps along an axis" if over else None


def _rows(high: Axis[int], taps: int, outputs: int, info: DeviceInfo) -> int:
    """Return the rows of a block: few passes, each of which reads few rows."""
    most = _BLOCK if info.native.get("vector_registers", 16) >= 32 else _BLOCK // 2
    most = max(1, min(most // outputs, _UNROLLED // taps))
    count = hinted(high.count)

    def cost(rows: int) -> int:
        reach = (rows - 1) * high.result + (high.terms - 1) * high.summed + 1
        return int(-(-count // rows) * (min(reach, rows * high.terms) + 1))

    return min(range(1, most + 1), key=cost)


def depthwise_forward(
    problem: Correlation, to: Placement, info: DeviceInfo, source: Bound | None = None
) -> Launch:
    """Return the launch of a convolution that :func:`depthwise_refusal` takes.

    ``source``: the memory of the images, by default the first operand.
    """
    images, groups, outputs = problem.leads
    _, high, wide = three(problem)
    accumulate, lanes = vectors(problem, info)
    rows = _rows(high, high.terms * wide.terms, outputs.size, info)
    blocks = -(-high.count // rows)
    total = images.size * groups.size * blocks
    turns = max(1, _GRAIN // (rows * wide.count * outputs.size * problem.a.dtype.itemsize))
    return launch(
        depthwise_rows,
        Grid.line(-(-total // turns)),
        effort(problem, "conv depthwise"),
        x=operand(0, problem.a) if source is None else source,
        w=operand(1, problem.b),
        c=Bound(to.memory, problem.a.dtype),
        over=GivenRows(total, turns, _extent(high), wide.size, wide.count),
        blocks=blocks,
        groups=groups.size,
        wide=_extent(wide),
        x_steps=Strides(images.a, groups.a, high.a),
        w_steps=LineStrides(groups.b, outputs.b, high.b, wide.b),
        c_steps=LineStrides(*to.leads, to.axes[1]),
        along=Along(wide.terms, wide.result, wide.summed),
        down=Along(high.terms, high.result, high.summed),
        rows=rows,
        outputs=outputs.size,
        accumulate=accumulate,
        lanes=lanes,
        masked=info.has("masked_access"),
    )


def depthwise_weights_refusal(forward: Correlation) -> str | None:
    """Return why a weight gradient is not computed row by row as a depthwise one, or None.

    ``forward`` is the convolution, with the output gradient for its second operand.
    """
    deep, high, wide = three(forward)
    if not is_flat((deep, high, replace(wide, a=1))):
        return "it has three spatial axes"
    if forward.depth.size != 1:
        return "a group has several input channels"
    if forward.leads[2].size > _WEIGHTED:
        return f"tiles of a group's output channels read its input less often from {_WEIGHTED} on"
    return None


def _tile_of(high: int, wide: int, registers: int) -> tuple[int, int]:
    """Return the taps of a tile of a window down and along an image, about equal ones.

    A tile is high rather than wide, since each row of the image is read once for all its windows.

    >>> _tile_of(5, 5, 32), _tile_of(7, 7, 32), _tile_of(7, 7, 16), _tile_of(1, 51, 32)
    ((5, 5), (7, 3), (7, 1), (1, 17))
    """
    if high * wide <= _SUMS:
        return high, wide
    # Beside the sums there are vectors of all rows that are read together.
    most = registers - _ROWS - 3
    down = -(-high // -(-high // most))
    return down, -(-wide // -(-wide // (most // down)))


def depthwise_weights_steps(forward: Correlation, steps: Steps, info: DeviceInfo) -> None:
    """Add the launches of a weight gradient that :func:`depthwise_weights_refusal` takes.

    Operands whose rows are not contiguous are copied.
    """
    images, groups, outputs = forward.leads
    _, high, wide = three(forward)
    x, g = operand(0, forward.a), operand(1, forward.b)
    if wide.size != 1 and wide.a != 1:
        shape = images.size, groups.size, high.size, wide.size
        x = _contiguous(0, forward.a, shape, (images.a, groups.a, high.a, wide.a), steps, info)
        plane = high.size * wide.size
        images, groups = replace(images, a=groups.size * plane), replace(groups, a=plane)
        high, wide = replace(high, a=wide.size), replace(wide, a=1)
    if wide.count != 1 and wide.b != 1:
        sizes = images.size, groups.size, outputs.size, high.count, wide.count
        strides = images.b, groups.b, outputs.b, high.b, wide.b
        g = _contiguous(1, forward.b, sizes, strides, steps, info)
        plane = high.count * wide.count
        group = outputs.size * plane
        images, groups = replace(images, b=groups.size * group), replace(groups, b=group)
        outputs = replace(outputs, b=plane)
        high, wide = replace(high, b=wide.count), replace(wide, b=1)
    given = replace(forward, leads=(images, groups, outputs), axes=(high, wide))
    steps.launches.append(_depthwise_weights(given, x, g, info))


def _contiguous(
    number: int,
    view: View,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    steps: Steps,
    info: DeviceInfo,
) -> Bound:
    """Return memory with an operand's elements in the order of its axes."""
    made = steps.room(prod(sizes), view.dtype)
    source = View(sizes, strides, view.dtype, view.offset)
    steps.copy(source, Input(number), made.place, info)
    return made


def _depthwise_weights(forward: Correlation, x: Bound, g: Bound, info: DeviceInfo) -> Launch:
    """Return the launch of a weight gradient whose rows are contiguous."""
    images, groups, outputs = forward.leads
    _, high, wide = three(forward)
    dtype = forward.a.dtype
    accumulate, lanes = vectors(forward, info)
    registers = info.native.get("vector_registers", 16)
    tall, long = _tile_of(high.terms, wide.terms, registers)
    # Registers beside the sums hold a vector of each row, and one of the input.
    rows = registers - tall * long - 3
    products = (
        images.size * groups.size * outputs.size * prod(a.count * a.terms for a in (high, wide))
    )
    nbytes = (forward.a.size + forward.b.size) * dtype.itemsize
    return launch(
        depthwise_weight_rows,
        Grid((groups.size, outputs.size, 1)),
        Effort("conv depthwise weights", 2 * products, nbytes),
        x=x,
        g=g,
        c=Bound(Output(), dtype),
        images=images.size,
        outputs=outputs.size,
        x_steps=Strides(images.a, groups.a, high.a),
        g_steps=LineStrides(images.b, groups.b, outputs.b, high.b),
        high=_extent(high),
        wide=_extent(wide),
        taps_down=high.terms,
        taps_along=wide.terms,
        along=Along(long, wide.result, wide.summed),
        down=Along(tall, high.result, high.summed),
        rows=min(max(rows, 1), _ROWS),
        lanes=lanes,
        accumulate=accumulate,
    )


def depthwise_input_refusal(problem: Correlation) -> str | None:
    """Return why an input gradient is not computed row by row as a depthwise one, or None.

    ``problem`` is the result of ``for_input``.
    """
    if len(problem.axes) > 2:
        return "it has three spatial axes"
    if problem.leads[2].size != 1 or problem.depth.size > _OUTPUTS:
        return f"a group has several input or more than {_OUTPUTS} output channels"
    wide = three(problem)[2]
    if all(axis.divide == 1 for axis in problem.axes):
        return "its stride is 1"
    if wide.terms * wide.divide > _SUMS:
        return f"a row has more than {_SUMS} taps and phases"
    return "its rows are not contiguous" if wide.a != 1 and wide.size != 1 else None


def depthwise_input(problem: Correlation, info: DeviceInfo) -> Launch:
    """Return the launch of an input gradient that :func:`depthwise_input_refusal` takes."""
    images, groups, _ = problem.leads
    _, high, wide = three(problem)
    dtype = problem.a.dtype
    accumulate, lanes = vectors(problem, info)
    rows = images.size * groups.size * high.count
    turns = max(1, _GRAIN // (wide.count * dtype.itemsize))
    flops = 2 * problem.b.size * problem.a.size // max(groups.size * problem.depth.size, 1)
    # The windows are the rows of the output gradient.
    high_extent = Extent(-high.start, high.size, high.count)
    return launch(
        depthwise_input_rows,
        Grid.line(-(-rows // turns)),
        Effort("conv depthwise input", flops, (problem.a.size + problem.size) * dtype.itemsize),
        g=operand(0, problem.a),
        w=operand(1, problem.b),
        c=Bound(Output(), dtype),
        over=GivenRows(rows, turns, high_extent, wide.count, wide.size),
        groups=groups.size,
        g_steps=LineStrides(images.a, groups.a, problem.depth.a, high.a),
        w_steps=LineStrides(groups.b, problem.depth.b, high.b, wide.b),
        back=Back(wide.terms, wide.divide, -wide.summed, -wide.start),
        down=Along(high.terms, high.divide, -high.summed),
        outputs=problem.depth.size,
        lanes=lanes,
        accumulate=accumulate,
    )


def _extent(axis: Axis[int]) -> Extent[int]:
    return Extent(axis.start, axis.count, axis.size)
