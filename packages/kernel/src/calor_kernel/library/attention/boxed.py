"""Which attention a device's copy engine can feed, and its launches.

Requirements: the engine takes rows that lie dense and aligned, with strides above zero; operands
that repeat along an axis have no such stride, and go another way; the tiles after the first are
there to be timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor.dtypes import float32
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.attention.boxes import LINE, AttentionBoxes, attend_boxes
from calor_kernel.library.attention.fragment_plan import Fragments
from calor_kernel.library.attention.fragments import ACCESS
from calor_kernel.library.attention.launches import index_of, launch_of, wide
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.work import Launch, Output, Request, Work, row_major
from calor_kernel.planning.choices import greatest, least

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
# By the room of a row: warp groups, keys of a step, stages, and whether warp groups take turns.
_Tiles = tuple[int, int, int, bool]
FORWARD: dict[int, tuple[_Tiles, ...]] = {
    64: ((3, 128, 2, False), (2, 128, 3, True), (2, 128, 3, False)),
    128: ((2, 128, 2, True), (2, 128, 2, False), (2, 64, 3, True)),
}
# The bytes of keys and values that the cache of the device shall hold, as a part of it.
_KEPT = 2


def forward_by_boxes(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the forward pass by boxes, if any, the likeliest first."""
    if not _suits(problem, request):
        return
    p = _whole(problem)
    rooms = [-(-n // LINE) * LINE for n in (p.features, p.values)]
    for groups, block, stages, turns in FORWARD[max(rooms)]:
        tiles = Fragments(p.dtype, 4 * groups, 1, block, rooms[0], rooms[1], grouped=True)
        plan = AttentionBoxes(tiles, stages, turns)
        name = f"boxes {plan.rows}x{plan.block}, {stages} stages{' in turn' if turns else ''}"
        yield Work((_launch(plan, p, request),), variant=name)
        if not request.candidates:
            return


def _suits(problem: Attention, request: Request) -> bool:
    info, p = request.info, problem
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return False
    sizes = (p.batch, p.heads), (p.batch, p.key_heads), (p.batch, p.key_heads)
    return all(
        n == 1 or step > 0
        for operand, size in zip((p.query, p.key, p.value), sizes, strict=True)
        for n, step in zip((*size, 2), operand.strides[:3], strict=True)
    )


def _whole(problem: Attention) -> Attention:
    """Return the problem with strides that the engine takes for axes of one element."""
    p = problem

    def above(operand: Operand) -> Operand:
        steps = tuple(step if step > 0 else ACCESS for step in operand.strides[:3])
        return replace(operand, strides=(*steps, 1))

    return replace(p, query=above(p.query), key=above(p.key), value=above(p.value))


def _launch(plan: AttentionBoxes, problem: Attention, request: Request) -> Launch:
    p, info = problem, request.info
    index = index_of(p, request)
    heads = p.batch * p.heads
    item = int(p.dtype.itemsize)
    # Heads whose keys and values the cache holds, and all that share them.
    a_head = greatest(p.keys * (p.features + p.values) * item, 1)
    kept = info.caches[-1] // _KEPT if info.caches else 1
    band = least(greatest(kept // a_head, 1) * p.group, greatest(heads, 1))
    batch_step, head_step, _, _ = row_major((p.batch, p.heads, p.queries, p.values))
    own = (Output(0), Output(1), p.values, p.batch, band, head_step, batch_step)
    size = Scalar(index, nonnegative=True)
    declared = (
        *(Buffer(p.dtype, align=16), Buffer(float32), wide(index)),
        *(size, size, wide(index), wide(index)),
    )
    tiles = -(-p.queries // plan.rows) * heads
    cubes = (least(tiles, info.cores), 1, 1)
    flops = 2 * p.pairs * (p.features + p.values)
    return launch_of(attend_boxes, plan, p, request, cubes, own, declared, flops)
