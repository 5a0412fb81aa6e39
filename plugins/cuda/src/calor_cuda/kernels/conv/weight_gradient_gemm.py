"""Weight gradients as one matrix product, summed over the pixels of all images.

Requirements: both operands are copied so that pixels, which are summed, are dense. The inputs of
each tap become a row (im2col), so TF32 instructions for operands dense along K apply, and the
product has the layout of the weights. The copy holds each input once for each tap, which pays while
it fits the device's cache. The pixels are cut into parts that fill all cores. If a request has room
for less, some images are copied at a time, and the sums of all are added at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_cuda.kernels.conv.im2col import SightAxis, Viewed, unfold_launch
from calor_cuda.kernels.conv.im2col_transpose import turned, turned_launch
from calor_cuda.kernels.matmul.summed_parts import Summed
from calor_cuda.kernels.matmul.summed_parts_launch import (
    COMPUTED,
    MOVED,
    READ,
    STEPS,
    TILE,
    cycles_of,
    room_of,
    summed,
    summed_launch,
)
from calor_cuda.kernels.matmul.warpgroup_tma_launch import boxed, tma_refusal
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, operand
from calor_kernel.contract.work import Dropped, Output, Request, Scratch, Work
from calor_kernel.library.conv.implicit_gemm_operands import two_axes
from calor_kernel.library.conv.problem import Convolution, Correlation, Lead
from calor_kernel.library.conv.split_sums import ALIGN, later, launch_sum, target_of
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.steps import Steps

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier")
# With fewer rows and columns most of a tile would be empty.
_LEAST = 64
# Elements of a copy up to which this way comes first, by itemsize, and the maximum: half types of
# few rows have an equally fast way without copies beyond. Minimum of pixels for which it comes
# first, since copies of fewer leave most of a device idle.
_FEW, _MOST, _MANY = {2: 1 << 23, 4: 1 << 24}, 5 << 24, 1 << 10
# Rows of a product from which copies beyond the cache pay, by an H200's rates of both instructions
# and of memory.
_ROWS = 256
# Rows and columns of a tile, and stages; rows of tiles that share their operands.
_TILES = ((64, 64, 8), (64, 128, 8), (128, 128, 6), (64, 256, 5), (192, 128, 4), (128, 256, 4))
_BAND = 16
# Maximum of parts, the number of plans to time, the most chunks of images, and the part of its
# scratch memory that another chunk saves at least.
_PARTS, _TIMED, _CHUNKS, _GAIN = 64, 6, 8, 16


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan, the parts of the pixels and the pixels of a part; its estimated cycles.

    ``summed``: whether the last cubes of the launch add the parts, None for another launch.
    """

    plan: TmaPlan
    parts: int
    share: int
    cycles: float
    summed: Summed[int] | None = None


def weight_product_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a weight gradient is not one product with copies, None if it is."""
    p = one.seen
    if not p.by_weight or len(p.axes) > 2:
        return "it is no weight gradient with at most two spatial axes"
    if p.leads[0].size != 1:
        return "it has groups"
    return _refusal(one, request)


def group_products_refusal(one: Convolution, request: Request) -> str | None:
    """Return why a weight gradient is not a product for each group of one launch, None if it is."""
    p = one.seen
    if not p.by_weight or len(p.axes) > 2 or p.leads[0].size == 1:
        return "it is no weight gradient of groups with at most two spatial axes"
    if not one.rounded:
        return "it is not of TF32"
    groups, outputs, channels = p.leads
    if groups.a != channels.size * channels.a or groups.b != outputs.size * outputs.b:
        return "the channels of groups do not follow each other"
    reason = _refusal(one, request)
    if reason is None:
        tiles = -(-outputs.size // _LEAST) * -(-_columns(p) // _LEAST)
        if 2 * tiles > one.info.cores:
            return "groups have tiles for most of the cores, one after another"
    return reason


def _refusal(one: Convolution, request: Request) -> str | None:
    """Return why pixels are not copied for products, None if they are."""
    p, info = one.seen, one.info
    if not all(map(info.has, _NEEDED)):
        return "the device has no TMA with matrix instructions of warp groups"
    sizes = [lead.size for lead in (*p.leads, p.depth)]
    sizes += [n for axis in p.axes for n in (axis.terms, axis.count)]
    if not all(type(n) is int for n in sizes):
        return "its sizes are not known yet"
    if not (p.a.dtype in (float16, bfloat16) or one.rounded):
        return f"no matrix instruction of warp groups takes {p.a.dtype}"
    columns, pixels = _columns(p), _pixels(p)
    if columns * p.a.dtype.itemsize % ALIGN:
        return "TMA writes whole accesses"
    if min(p.leads[1].size, columns) < _LEAST or not pixels:
        return f"it has fewer than {_LEAST} rows or columns, or no pixels"
    copied = p.leads[0].size * columns * pixels
    if not copies_first(p) and not request.candidates:
        return "its copies exceed the cache, or leave most of the device idle"
    return "its copies exceed memory that pays" if not copies_first(p) and copied > _MOST else None


def copies_first(problem: Correlation) -> bool:
    """Return whether this way is likely to be the fastest of those that copy."""
    columns, pixels, item = _columns(problem), _pixels(problem), problem.a.dtype.itemsize
    # The product of many rows saves more than copies beyond the cache cost.
    groups, rows, _ = (lead.size for lead in problem.leads)
    most = _MOST if groups * rows >= _ROWS else _FEW[item]
    return groups * columns * pixels <= most and pixels >= _MANY


def weight_product_works(one: Convolution, request: Request) -> Iterator[Work | Dropped]:
    """Yield the works of a suitable weight gradient, the likeliest first."""
    problem, info = one.seen, one.info
    most = 1 if request.room is None else min(problem.depth.size, _CHUNKS)
    least, found = 0, list[tuple[_Made, Work | Dropped]]()
    for chunks in range(1, most + 1):
        made_of = _made_of(_some(problem, chunks), problem, info, one.rounded)
        scratch = next((sum(w.scratch) for _, w in made_of if isinstance(w, Work)), 0)
        # The sums of many chunks take more memory than their copies save.
        if not found or scratch < least - least // _GAIN:
            least, found = scratch, made_of
        if request.room is None or scratch <= request.room:
            break
    for made, work in found:
        if isinstance(work, Dropped):
            yield work
            return
        plan = made.plan
        name = f"product of places, boxes {plan.rows}x{plan.columns} in {made.parts}"
        if made.summed is not None:
            name = f"{name}, one launch"
        yield replace(work, variant=name, group=int(not copies_first(problem)))


def _some(problem: Correlation, chunks: int) -> Correlation:
    """Return the problem of so many images that ``chunks`` of them are all."""
    return replace(problem, depth=replace(problem.depth, size=-(-problem.depth.size // chunks)))


def _made_of(
    some: Correlation, whole: Correlation, info: DeviceInfo, rounded: bool
) -> list[tuple[_Made, Work | Dropped]]:
    """Return plans of a chunk of images, the fastest first, and their works for all images."""
    best: dict[tuple[int, int, bool], _Made] = {}
    for made in sorted(_plans(some, info), key=lambda made: made.cycles):
        key = made.plan.rows, made.plan.columns, made.summed is None
        best.setdefault(key, made)
    return [
        (made, _work(whole, some.depth.size, made, info, rounded))
        for made in list(best.values())[:_TIMED]
    ]


def _columns(problem: Correlation) -> int:
    return int(problem.leads[2].size * prod(axis.count for axis in problem.axes))


def _pixels(problem: Correlation) -> int:
    return int(problem.depth.size * prod(axis.terms for axis in problem.axes))


def _plans(problem: Correlation, info: DeviceInfo) -> Iterator[_Made]:
    dtype, rows, columns = problem.a.dtype, problem.leads[1].size, _columns(problem)
    groups, item, pixels = problem.leads[0].size, dtype.itemsize, _pixels(problem)
    depth = LINE // item
    for high, wide, stages in _TILES:
        plan = TmaPlan(dtype, float32, high, wide, stages, True, True, _BAND)
        if plan.shared_bytes > info.shared_bytes or plan.units > info.max_units:
            continue
        tiles = groups * -(-rows // high) * -(-columns // wide)
        read = (min(high, rows) + min(wide, columns)) / READ
        byte = max(high * wide / COMPUTED, read)
        for parts in range(1, _PARTS + 1):
            share = -(-pixels // (parts * depth)) * depth
            if parts > 1 and (share < STEPS * depth or share * (parts - 1) >= pixels):
                continue
            cycles = -(-tiles * parts // info.cores) * (share * item * byte + TILE)
            if parts > 1:
                moved = 8 * parts * groups * rows * columns
                cycles += TILE + moved / (info.cores * MOVED)
            made = plan if parts > 1 else replace(plan, result=dtype)
            yield _Made(made, parts, share, cycles)
            if groups > 1:
                continue
            product = _whole(problem, parts * share)
            of = summed(product, plan, parts, info) if parts > 1 else None
            if of is not None and info.has("forward_progress"):
                cycles = cycles_of(product, plan, of, info)
                yield _Made(replace(plan, result=dtype), parts, share, cycles, of)


def _whole(problem: Correlation, room: int, rounded: bool = False) -> Product:
    """Return the product of both copies, with all pixels of a ``room`` as its K axis."""
    dtype = problem.a.dtype
    copy = Operand((0, 0), room, 1, 0, dtype)
    rows = problem.leads[1].size
    return Product((1, 1), rows, _columns(problem), room, copy, copy, dtype, rounded)


def _work(
    problem: Correlation, some: int, made: _Made, info: DeviceInfo, rounded: bool
) -> Work | Dropped:
    """Return the work of a plan for ``some`` images at a time, or why TMA refuses it."""
    p, dtype, steps = problem, problem.a.dtype, Steps()
    (groups, outputs, channels), images, axes = p.leads, p.depth, two_axes(p)
    columns, room = _columns(p), made.parts * made.share
    sizes = groups.size * outputs.size, groups.size * columns
    left, right = (steps.memory(n * room * dtype.itemsize) for n in sizes)
    count, firsts = sizes[0] * columns, range(0, images.size, some)
    parts = made.parts if made.summed is None else 1
    every = len(firsts) * parts
    target = target_of(steps, dtype, every * count if every > 1 else 0)
    plan = replace(made.plan, result=float32 if every > 1 else dtype)
    product = replace(_whole(p, room, rounded and dtype is float32), dtype=plan.result)
    if made.summed is None:
        operands = Operand((0, made.share), room, 1, 0, dtype)
        product = replace(product, batch=(1, parts), k=made.share, a=operands, b=operands)
        if groups.size > 1:
            # Products of a part are those of all groups.
            a, b = (
                replace(operands, batch=(made.share, n * room)) for n in (outputs.size, columns)
            )
            product = replace(product, batch=(parts, groups.size), a=a, b=b)
    reason = tma_refusal(product, info)
    if reason is not None:
        return Dropped("boxes", reason)
    sums = None if made.summed is None else steps.memory(room_of(plan, made.summed))
    places = (axes[0].terms, axes[1].terms)
    whole = [SightAxis(a.terms, a.b, 0, 1, 0) for a in axes]
    seen = [SightAxis(a.size, a.a, a.start, a.summed, a.result) for a in axes]
    taps = axes[0].count, axes[1].count
    for number, first in enumerate(firsts):
        size = min(some, images.size - first)
        g, x = (later(operand(k, v), first * n)
                for k, v, n in ((1, p.b, images.b), (0, p.a, images.a)))  # fmt: skip
        of_g = Lead(size, images.b, 0), Lead(sizes[0], outputs.b, 0)
        of_x = replace(images, size=size), replace(channels, size=groups.size * channels.size)
        both = (
            Viewed(g, Bound(left, dtype), *of_g, (whole[0], whole[1]), (1, 1)),
            Viewed(x, Bound(right, dtype), *of_x, (seen[0], seen[1]), taps),
        )
        # Copies of one form can be one launch with those of other gradients, copies of two cannot.
        plain = [one for one in both if not turned(one)]
        copied = [plain] if taps != (1, 1) and plain else [[one] for one in plain]
        steps.launches += [unfold_launch(few, places, room, info) for few in copied]
        steps.launches += [turned_launch(one, places, room, info) for one in both if turned(one)]
        place = later(target, number * parts * count).place
        assert isinstance(place, Output | Scratch)
        if made.summed is None or sums is None:
            build = boxed(product, (left, right), info, place)
            assert not isinstance(build, Dropped)
            steps.launches.append(build(plan))
        else:
            given = product, (left, right), plan, made.summed, sums, info
            steps.launches.append(summed_launch(*given, place))
    launch_sum(steps, target, dtype, (1, 1, count, count), every, count, info)
    return steps.work()
