"""Weight gradients as one matrix product, summed over the pixels of all images.

Requirements: both operands are copied so that pixels, which are summed, are dense. The inputs of
each tap become a row (im2col), so TF32 instructions for operands dense along K apply, and the
product has the layout of the weights. The copy holds each input once for each tap, which pays while
it fits the device's cache. The pixels are cut into parts that fill all cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Dropped, Input, Output, Scratch, Work
from calor_kernel.library.conv.im2col import Sight, unfold_launch
from calor_kernel.library.conv.mma_operands import two_axes
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.split_sums import ALIGN, sums_launch
from calor_kernel.library.gemm.warpgroup import LINE
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.warpgroup_tma import Boxes
from calor_kernel.library.matmul.warpgroup_tma_launch import boxed

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier")
# With fewer rows and columns most of a tile would be empty.
_LEAST = 64
# Elements of a copy up to which this way comes first, by itemsize, and the maximum: half types have
# an equally fast way without copies beyond. Minimum of pixels for which it comes first, since
# copies of fewer leave most of a device idle.
_FEW, _MOST, _MANY = {2: 1 << 23, 4: 1 << 24}, 1 << 26, 1 << 10
# Rows and columns of a tile, and stages; rows of tiles that share their operands.
_TILES = ((64, 64, 8), (64, 128, 8), (128, 128, 6), (64, 256, 5), (192, 128, 4), (128, 256, 4))
_BAND = 16
# For a core of an H200: bytes of products computed in a cycle, and bytes read from the cache; the
# overhead cycles of a tile, and the bytes of parts moved in a cycle.
_COMPUTED, _READ, _TILE, _MOVED = 4096, 40, 2500, 10
# Maximum of parts, minimum of steps of a part, and the number of plans to time.
_PARTS, _STEPS, _TIMED = 64, 8, 6


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan, the parts of the pixels and the pixels of a part; its estimated cycles."""

    plan: Boxes
    parts: int
    share: int
    cycles: float


def weights_by_products(
    problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool
) -> Iterator[Work]:
    """Yield the works of a suitable weight gradient, the likeliest first."""
    if not all(map(info.has, _NEEDED)) or not _suits(problem, rounded):
        return
    copied = _columns(problem) * _places(problem)
    first = copied <= _FEW[problem.a.dtype.itemsize] and _places(problem) >= _MANY
    if not first and not (wanted and copied <= _MOST):
        return
    found = sorted(_plans(problem, info), key=lambda made: made.cycles)
    best: dict[tuple[int, int], _Made] = {}
    for made in found:
        best.setdefault((made.plan.rows, made.plan.columns), made)
    for made in list(best.values())[: _TIMED if wanted else 1]:
        work = _work(problem, made, info, rounded)
        if work is None:
            return
        plan = made.plan
        name = f"product of places, boxes {plan.rows}x{plan.columns} in {made.parts}"
        yield replace(work, variant=name, group=int(not first))


def _suits(problem: Correlation, rounded: bool) -> bool:
    p = problem
    sizes = [lead.size for lead in (*p.leads, p.depth)]
    sizes += [n for axis in p.axes for n in (axis.terms, axis.count)]
    known = all(type(n) is int for n in sizes)
    if not known or not p.by_weight or len(p.axes) > 2 or p.leads[0].size != 1:
        return False
    if not (p.a.dtype in (float16, bfloat16) or (rounded and p.a.dtype is float32)):
        return False
    # TMA writes whole accesses.
    whole = _columns(p) * p.a.dtype.itemsize % ALIGN == 0
    return whole and min(p.leads[1].size, _columns(p)) >= _LEAST and _places(p) > 0


def _columns(problem: Correlation) -> int:
    return int(problem.leads[2].size * prod(axis.count for axis in problem.axes))


def _places(problem: Correlation) -> int:
    return int(problem.depth.size * prod(axis.terms for axis in problem.axes))


def _plans(problem: Correlation, info: DeviceInfo) -> Iterator[_Made]:
    dtype, rows, columns = problem.a.dtype, problem.leads[1].size, _columns(problem)
    item, places = dtype.itemsize, _places(problem)
    depth = LINE // item
    for high, wide, stages in _TILES:
        plan = Boxes(dtype, float32, high, wide, stages, True, True, _BAND)
        if plan.shared_bytes > info.shared_bytes or plan.units > info.max_units:
            continue
        tiles = -(-rows // high) * -(-columns // wide)
        read = (min(high, rows) + min(wide, columns)) / _READ
        byte = max(high * wide / _COMPUTED, read)
        for parts in range(1, _PARTS + 1):
            share = -(-places // (parts * depth)) * depth
            if parts > 1 and (share < _STEPS * depth or share * (parts - 1) >= places):
                continue
            cycles = -(-tiles * parts // info.cores) * (share * item * byte + _TILE)
            if parts > 1:
                moved = 8 * parts * rows * columns
                cycles += _TILE + moved / (info.cores * _MOVED)
            made = plan if parts > 1 else replace(plan, result=dtype)
            yield _Made(made, parts, share, cycles)


def _work(problem: Correlation, made: _Made, info: DeviceInfo, rounded: bool) -> Work | None:
    """Return the work of a plan, None if TMA refuses it."""
    p, dtype, steps = problem, problem.a.dtype, Steps()
    _, outputs, channels = p.leads
    axes, images = two_axes(p), p.depth
    columns, room = _columns(p), made.parts * made.share
    left, right = (steps.memory(n * room * dtype.itemsize) for n in (outputs.size, columns))
    target: Output | Scratch = Output(0)
    count = outputs.size * columns
    if made.parts > 1:
        target = steps.memory(made.parts * count * float32.itemsize)
    whole = [Sight(a.terms, 1, a.terms, a.b) for a in axes]
    seen = [Sight(a.terms, a.count, a.size, a.a, a.start, a.summed, a.result) for a in axes]
    operand = Operand((0, made.share), room, 1, 0, dtype)
    product = Product(
        (1, made.parts), outputs.size, columns, made.share, operand, operand,
        made.plan.result, rounded and dtype is float32,
    )  # fmt: skip
    launch = boxed(product, (left, right), info, target)
    if isinstance(launch, Dropped):
        return None
    steps.launches += [
        unfold_launch(
            Input(1, p.b.offset), left, dtype, (images.size, outputs.size), (images.b, outputs.b),
            whole, room, info,
        ),
        unfold_launch(
            Input(0, p.a.offset), right, dtype, (images.size, channels.size),
            (images.a, channels.a), seen, room, info,
        ),
        launch(made.plan),
    ]  # fmt: skip
    if made.parts > 1:
        sizes = (1, 1, count, count)
        steps.launches.append(sums_launch(target, dtype, sizes, made.parts, count, info))
    return steps.work()
