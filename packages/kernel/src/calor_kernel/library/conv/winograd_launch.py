"""Convolutions by Winograd's algorithm: the launches of both transforms and of the product between.

Requirements: a launch that transforms weights depends on them alone, so an inference plan keeps its
result. The sums of a weight gradient are added in a fixed order: by the product, then over parts
and chunks of images. Small problems are left to direct sums, by the estimates of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd, prod
from typing import NamedTuple

from calor.config import DIRECT, HIGHEST
from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, operand
from calor_kernel.contract.work import Output, Request, Scratch, View, Work
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.implicit_gemm_simt_launch import (
    cycles_of,
    reach_of,
    simt_refusal,
)
from calor_kernel.library.conv.problem import Convolution, Correlation, Lead
from calor_kernel.library.conv.split_sums import ending, later
from calor_kernel.library.conv.winograd import (
    FOUR,
    Exact,
    ResultAxis,
    TileAxis,
    Tiles,
    transform_sums,
    transform_tiles,
)
from calor_kernel.library.conv.winograd_plan import (
    BOUND,
    ITEM,
    SLOWER,
    Layer,
    Plan,
    layer_of,
    plans_of,
)
from calor_kernel.library.conv.winograd_transforms import Matrix
from calor_kernel.library.steps import Steps

# Units of a cube, and where there are few tiles.
_UNITS, _FEW = 128, 32
# The most plans to time.
_TIMED = 4
# A plan in a room takes at most this much of the time of one that only the device bounds: chunks
# of few images leave cores idle.
_PRICE = 1.25


def winograd_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a convolution is not computed by Winograd's algorithm, None if it is."""
    if one.rounded:
        return "TF32 is allowed"
    if request.attributes.get("precision") == DIRECT:
        return "sums are to be direct"
    if request.lean:
        return "memory is short"
    layer = layer_of(one.problem)
    if isinstance(layer, str):
        return layer
    reason = simt_refusal(one, request)
    if reason is not None:
        return reason
    if all(layer.taps(i) == 1 for i in (0, 1)):
        return "its windows have one tap"
    plans = _plans(layer, one, request)
    if not plans:
        return "its transforms need too much memory"
    if not request.candidates and plans[0].cycles >= _direct(one):
        return "its transforms cost more than they save"
    return None


def _plans(layer: Layer, one: Convolution, request: Request) -> list[Plan]:
    """Return the plans in a room, or in more if those take too long."""
    kept, room = 1 in request.kept, request.room
    plans = plans_of(layer, one.info, kept, room)
    if room is None:
        return plans
    whole = plans_of(layer, one.info, kept)[:1]
    most = min([_direct(one), *(_PRICE * plan.cycles for plan in whole)])
    while room < BOUND and not (plans and plans[0].cycles < most):
        room = 2 * max(room, 1)
        plans = plans_of(layer, one.info, kept, room)
    return plans


def _direct(one: Convolution) -> float:
    """Return the cycles of direct sums."""
    return SLOWER * cycles_of(one.seen, one.info)


def winograd_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a suitable convolution, the likeliest first."""
    layer = layer_of(one.problem)
    assert not isinstance(layer, str)
    direct = _direct(one)
    plans = _plans(layer, one, request)
    for number, plan in enumerate(plans[:_TIMED]):
        group = int(number > 0 or plan.cycles >= direct)
        made = _of_weights if layer.by_weight else _of_pixels
        yield replace(made(one, layer, plan, request), variant=plan.title, group=group)


class _Source(NamedTuple):
    """An operand: its memory, the strides of rows and images, and both axes of its tiles."""

    memory: Bound
    row: int
    image: int
    axes: tuple[TileAxis[int], TileAxis[int]]


def _transform(
    steps: Steps,
    source: _Source,
    target: Bound,
    rows: int,
    tiles: Tiles[int, int],
    matrices: tuple[Matrix, Matrix],
    info: DeviceInfo,
    whole: bool = False,
) -> None:
    """Add the launch that transforms the tiles of ``rows`` channels."""
    total = rows * tiles.room
    units = _units(total, info)
    points = prod(len(m) for m in matrices)
    reach = sum(axis.size * abs(axis.stride) for axis in source.axes)
    reach += rows * abs(source.row) + tiles.count // tiles.image * abs(source.image)
    steps.add(
        transform_tiles,
        Grid.line(
            -(-total // units), units, info.planes[0],
            kl.index_dtype(points * total + _UNITS, reach),
        ),
        Effort(
            "conv tiles transformed", total * 2 * points,
            total * (points + prod(axis.step for axis in source.axes)) * ITEM,
        ),
        x=source.memory, y=target, total=total, point_step=Multiple(total, FOUR), tiles=tiles,
        row=source.row, image=source.image, down=source.axes[0], across=source.axes[1],
        matrices=matrices, whole=whole,
    )  # fmt: skip


def _units(total: int, info: DeviceInfo) -> int:
    """Return the units of a cube for a number of tiles, so that each core has cubes."""
    return _UNITS if total >= 2 * _UNITS * info.cores else max(_FEW, info.planes[0])


def _image_axes(layer: Layer, plan: Plan) -> tuple[TileAxis[int], TileAxis[int]]:
    """Return the axes of tiles on the first operand."""
    down, across = (
        TileAxis(n, axis.start, axis.size, axis.a)
        for n, axis in zip(plan.outputs, layer.axes, strict=True)
    )
    return down, across


def _of_pixels(one: Convolution, layer: Layer, plan: Plan, request: Request) -> Work:
    """Return the launches of a convolution or of an input gradient."""
    p, info, steps = one.problem, one.info, Steps()
    filters, points = layer.filters(plan), layer.points(plan)
    lines, taps, results = (
        (getattr(filters[0], name), getattr(filters[1], name)) for name in ("line", "taps", "sums")
    )
    outputs, channels = p.leads[2], p.depth
    rows = layer.rows_room
    weights = steps.room(points * channels.size * rows, float32)
    _transform(
        steps, _weights(p, layer), weights, channels.size,
        Tiles(outputs.size, rows, 1, 1), taps, info, True,
    )  # fmt: skip
    steps.launches[-1] = replace(steps.launches[-1], prepares=True)
    room = layer.tiles(plan, plan.images).room
    given = steps.room(points * channels.size * room, float32)
    sums = steps.room(points * rows * room, float32)
    source, spare = operand(0, p.a), list[Scratch]()
    for first, images in layer.chunks(plan):
        tiles = layer.tiles(plan, images)
        seen = _Source(
            later(source, first * p.leads[0].a), channels.a, p.leads[0].a,
            _image_axes(layer, plan),
        )  # fmt: skip
        _transform(steps, seen, given, channels.size, tiles, lines, info)
        left = View((points, channels.size, rows), (channels.size * rows, rows, 1), float32)
        right = View(
            (points, channels.size, tiles.room), (channels.size * tiles.room, tiles.room, 1),
            float32,
        )  # fmt: skip
        _product(
            steps, request, (left, weights), (right, given), 1,
            (points, rows, tiles.room), sums, spare,
        )  # fmt: skip
        _results(steps, one, sums, tiles, results, (p.leads[0], outputs), rows * tiles.room, first)
    return steps.work()


def _weights(problem: Correlation, layer: Layer) -> _Source:
    """Return the weights as tiles of channels that cover their image."""
    p = problem
    start = sum(
        (axis.terms - 1) * axis.b
        for axis, own in zip(two_axes(p), layer.axes, strict=True)
        if own.b != axis.b
    )
    down, across = (TileAxis(0, 0, axis.terms, axis.b) for axis in layer.axes)
    source = later(operand(1, p.b), start)
    return _Source(source, p.depth.b, p.leads[2].b, (down, across))


def _product(
    steps: Steps,
    request: Request,
    left: tuple[View, Bound],
    right: tuple[View, Bound],
    summed: int,
    shape: tuple[int, ...],
    target: Bound,
    spare: list[Scratch],
) -> None:
    """Add the products of all points; ``summed``: the summed axis of both operands.

    ``spare``: the scratch memory of the products of earlier chunks.
    """
    batch = tuple(range(len(shape) - 2))
    attributes = {
        "contract": ((summed,), (summed,)),
        "batch": (batch, batch),
        "dtype": float32,
        "precision": HIGHEST,
    }
    operands = [(view, memory.place) for view, memory in (left, right)]
    result = spec_of(shape, float32)
    alone = replace(request, candidates=False, kept=frozenset())
    made = [(result, target.place)]
    steps.include(alone, "dot_general", attributes, operands, made, spare)


def _results(
    steps: Steps,
    one: Convolution,
    sums: Bound,
    tiles: Tiles[int, int],
    matrices: tuple[Matrix, Matrix],
    leads: tuple[Lead[int], Lead[int]],
    point_step: int,
    first_image: int = 0,
    parts: tuple[int, int] = (1, 0),
) -> None:
    """Add the launch that writes results; ``leads``: of images and of rows.

    ``parts``: the number of parts of the sums, and the elements from part to part.
    """
    p, info = one.problem, one.info
    image, row = leads
    down, across = two_axes(p)
    total, pixels = row.size * tiles.room, down.count * across.count
    image_step, row_step = (pixels, image.size * pixels) if p.by_weight else (
        row.size * pixels, pixels
    )  # fmt: skip
    run = gcd(len(matrices[1]), across.count, FOUR)
    target, following = ending(Bound(Output(0), float32), one.tail, run)
    points, units = prod(len(m[0]) for m in matrices), _units(total, info)
    spans = points * parts[0] * point_step + _UNITS, p.size, reach_of(p.a), reach_of(p.b)
    steps.add(
        transform_sums,
        Grid.line(-(-total // units), units, info.planes[0], kl.index_dtype(*spans)),
        Effort(
            "conv sums transformed", 2 * points * parts[0] * total,
            (points * parts[0] * total + row.size * tiles.count // tiles.image * pixels) * ITEM,
        ),
        sums=sums, c=target.aligned(run * target.dtype.itemsize),
        a=operand(0, p.a), b=operand(1, p.b),
        total=total, point_step=Multiple(point_step, 1), parts=parts[0], part_step=parts[1],
        tiles=tiles, first_image=first_image, row=row_step, image=image_step,
        down=ResultAxis(down.count, across.count), across=ResultAxis(across.count, 1),
        exact=Exact(image, row, p.depth, p.axes),
        matrices=matrices, run=run, split=parts[0] > 1, **following,
    )  # fmt: skip


def _of_weights(one: Convolution, layer: Layer, plan: Plan, request: Request) -> Work:
    """Return the launches of a weight gradient."""
    p, info, steps = one.problem, one.info, Steps()
    filters, points = layer.filters(plan), layer.points(plan)
    lines, taps, results = (
        (getattr(filters[0], name), getattr(filters[1], name)) for name in ("line", "taps", "sums")
    )
    rows, channels = p.leads[1], p.leads[2]
    room = layer.tiles(plan, plan.images).room
    seen = steps.room(points * channels.size * room, float32)
    given = steps.room(points * rows.size * room, float32)
    part_step = points * rows.size * channels.size
    chunks = list(layer.chunks(plan))
    sums = steps.room(len(chunks) * plan.parts * part_step, float32)
    pixels = [
        TileAxis(n, 0, axis.terms, axis.b) for n, axis in zip(plan.outputs, layer.axes, strict=True)
    ]
    spare: list[Scratch] = []
    for number, (first, images) in enumerate(chunks):
        tiles = layer.tiles(plan, images)
        x = _Source(
            later(operand(0, p.a), first * p.depth.a), channels.a, p.depth.a,
            _image_axes(layer, plan),
        )  # fmt: skip
        g = _Source(
            later(operand(1, p.b), first * p.depth.b), rows.b, p.depth.b, (pixels[0], pixels[1])
        )
        _transform(steps, x, seen, channels.size, tiles, lines, info)
        _transform(steps, g, given, rows.size, tiles, taps, info)
        share = tiles.room // plan.parts
        left, right = (
            View(
                (plan.parts, points, count, share),
                (share, count * tiles.room, tiles.room, 1),
                float32,
            )
            for count in (rows.size, channels.size)
        )
        target = later(sums, number * plan.parts * part_step)
        shape = plan.parts, points, rows.size, channels.size
        _product(steps, request, (left, given), (right, seen), 3, shape, target, spare)
    _results(
        steps, one, sums, Tiles(channels.size, channels.size, 1, 1), results, (channels, rows),
        rows.size * channels.size, parts=(len(chunks) * plan.parts, part_step),
    )  # fmt: skip
    return steps.work()
