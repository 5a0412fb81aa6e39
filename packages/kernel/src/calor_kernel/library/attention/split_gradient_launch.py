"""Launches of the gradients of attention of few queries: one pass over keys that cubes share.

Requirements: vectors are as wide as the alignment of all rows permits. The rows of all query heads
of a key head are in one cube, so there are few of them. More rows are for matrix instructions where
these serve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from calor.dtypes import uint32
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.contract.work import Flags, Output, Request, View, Work
from calor_kernel.library.attention.mma_launch import index_of, matrices_win, mma_refusal
from calor_kernel.library.attention.operand_copies import with_copies
from calor_kernel.library.attention.operands import (
    ScoreForm,
    contiguous,
    least_bytes,
    operands_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention, attention_of
from calor_kernel.library.attention.split_gradient import (
    GradientPlan,
    gradient_split,
    join_gradients,
)
from calor_kernel.library.attention.split_keys_launch import access_of
from calor_kernel.library.attention.split_plan import SplitPlan, units_for
from calor_kernel.library.reduce.row_order import order_of_sum
from calor_kernel.library.steps import Steps

# By the rows of a block: the maximum of elements of an access, the keys of a team in a step, and
# the rows whose products are reduced together. Vectors of a lane divide the keys.
SHAPES: Final[dict[int, tuple[int, int, int]]] = {
    1: (8, 4, 1),
    2: (8, 2, 2),
    4: (8, 2, 2),
    8: (4, 2, 4),
}
# Maximum of rows of a key head, and of queries if matrix instructions serve.
MOST_ROWS: Final = 64
MOST_QUERIES: Final = 16
# Rows of a key head whose products units compute at the speed of memory, which are a block; and
# multiplications of the scores up to which units compute more, though matrix instructions serve.
UNIT_ROWS: Final = 8
TERMS: Final = 1 << 23
# Units of a block of rows if there is one, and maximum of units of a cube; cubes of a core of the
# former units.
UNITS: Final = 128
MOST_UNITS: Final = 256
CUBES: Final = 4
# Maximum of splits, and of the sums that the last cube of a head adds.
SPLITS: Final = 128
LAST: Final = 1 << 16
# Bytes of a lane's sums of a row that registers hold for the rows of a block.
_HELD: Final = 256
# Bytes of shared memory to join planes.
_SHARED: Final = 16 << 10
# Units of a cube that joins splits.
_JOINING: Final = 128


def gradient_split_refusal(problem: Attention, request: Request) -> str | None:
    """Return why a pass over split keys does not suit the device or the problem."""
    p, info = problem, request.info
    if not (info.has("planes") and info.has("barrier")):
        return "the device has no planes"
    if p.group * p.queries > MOST_ROWS:
        return f"there are more than {MOST_ROWS} rows of a key head"
    # Heads that fill the device have whole tiles.
    most = MOST_QUERIES - int(p.batch * p.heads >= info.cores)
    if p.queries > most and _has_mma(p, request):
        return f"there are more than {most} queries, for matrix instructions"
    if not (p.rows and p.features and p.values):
        return "there are no queries, features or values"
    if matrices_win(p, request, UNIT_ROWS, TERMS):
        return "there are many rows, for matrix instructions"
    plan = gradient_plan(p, request)
    if plan.team.rows * _held_bytes(p, plan.team) > _HELD or plan.units > info.max_units:
        return "rows are too wide for the registers of a plane"
    if plan.shared_bytes(p.accumulate.itemsize, info.planes[0]) > info.shared_bytes:
        return "shared memory does not hold the rows"
    return _result_refusal(request, plan)


def _has_mma(problem: Attention, request: Request) -> bool:
    """Return whether matrix instructions serve, possibly after copies of operands."""
    asked = with_copies(problem, request)
    if asked is None:
        return mma_refusal(problem, request) is None
    return mma_refusal(attention_of(asked, problem.query.number), asked) is None


def _held_bytes(problem: Attention, team: SplitPlan) -> int:
    item: int = problem.accumulate.itemsize
    return max(team.features, team.values) * team.access * item


def gradient_plan(problem: Attention, request: Request) -> GradientPlan:
    """Return the plan: the largest blocks of rows that registers hold."""
    p, info, count = problem, request.info, problem.group * problem.queries
    plane, most = info.planes[0], access_of(p)
    # What depends on the result must not change the order of other sums.
    while request.inputs[0].offset % most:
        most //= 2
    for rows in sorted(SHAPES, reverse=True):
        widest_access, unroll, turn = SHAPES[rows]
        access = min(most, widest_access)
        widest = -(-max(p.features, p.values) // access)
        lanes = 1
        while lanes < plane and lanes < widest:
            lanes *= 2
        features, values = (max(1, -(-n // (access * lanes))) for n in (p.features, p.values))
        held = rows * max(features, values) * access * int(p.accumulate.itemsize)
        if rows == 1 or (rows < 2 * count and held <= _HELD):
            break
    blocks = 1
    while blocks * rows < count:
        blocks *= 2
    most_units = max(plane, min(MOST_UNITS, info.max_units) // blocks // plane * plane)
    units = int(units_for(p.keys, lanes, plane, min(UNITS, most_units)))
    item, together = int(p.accumulate.itemsize), rows
    room = units * blocks // plane * lanes * features * access * item
    while together > 1 and together * room > min(_SHARED, info.shared_of(4)):
        together //= 2
    team = SplitPlan(
        units // lanes,
        lanes,
        access,
        rows,
        max(1, unroll // max(features, values)),
        features,
        values,
        (features * lanes * access == p.features, values * lanes * access == p.values),
        p.dtype.itemsize == 2,
        item,
        together,
    )
    order = order_of_sum(p.values, p.accumulate, info) if _results(request) else None
    plan = GradientPlan(team, blocks, min(turn, rows), order)
    # Fewer sums are joined at once where the rows leave less room.
    while plan.team.together > 1 and plan.shared_bytes(item, plane) > info.shared_bytes:
        plan = replace(plan, team=replace(plan.team, together=plan.team.together // 2))
    # Fewer keys are in a step where that is not enough.
    while plan.team.unroll > 1 and plan.shared_bytes(item, plane) > info.shared_bytes:
        plan = replace(plan, team=replace(plan.team, unroll=plan.team.unroll // 2))
    return plan


def _results(request: Request) -> list[View]:
    """Return the result of the forward pass and its rest, as far as they are given for delta."""
    if len(request.inputs[1].shape) <= 3:
        return []
    return [request.inputs[i] for i in (1, *((3,) if request.attributes.get("rest") else ()))]


def _result_refusal(request: Request, plan: GradientPlan) -> str | None:
    """Return why cubes do not compute delta from the result of the forward pass."""
    results = _results(request)
    if results and plan.order is None:
        return "a unit does not add a row as the launch of a sum does"
    for result in results:
        pairs = zip(result.shape[:3], result.strides[:3], strict=True)
        starts = [result.offset, *(step for n, step in pairs if n > 1)]
        if any(start % plan.team.access for start in starts):
            return "rows of the result do not begin at whole accesses"
    return None


def gradients_by_splits(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the gradients of query, key and value."""
    p, info = problem, request.info
    plan = gradient_plan(p, request)
    heads, access = p.batch * p.key_heads, plan.team.access
    length = _length(p, -(-CUBES * info.cores * UNITS // (heads * plan.units)), plan)
    splits = greatest(1, -(-p.keys // length))
    split = splits > 1
    sums = p.rows * splits * p.features
    steps, index, g = Steps(), index_of(p, request), operands_of(p, access)
    joins = split and info.has("forward_progress") and info.has("atomics") and sums <= heads * LAST
    results = [Bound(Output(i), p.dtype, access * p.dtype.itemsize) for i in range(3)]
    room = steps.room(sums, p.accumulate).aligned(access * p.accumulate.itemsize) if split else None
    of_query = p.steps(0, p.heads, p.queries, p.features, access)
    name = f"attention gradients split keys {plan.rows}x{plan.step}"
    steps.add(
        gradient_split,
        Grid((splits, p.key_heads, p.batch), (plan.units, 1, 1), info.planes[0], index),
        Effort(name, p.flops(3, 2), 2 * least_bytes(p)),
        up=upstream_of(request, access * p.dtype.itemsize),
        for_query=results[0],
        for_key=results[1],
        for_value=results[2],
        query_steps=of_query,
        key_steps=p.steps(1, p.key_heads, p.keys, p.features, access),
        value_steps=p.steps(2, p.key_heads, p.keys, p.values, access),
        sums=room,
        flags=Bound(Flags(heads), uint32) if joins else None,
        value_width=Multiple(p.values, access),
        splits=splits,
        length=length,
        g=g,
        plan=replace(plan, team=replace(plan.team, split=split)),
        form=ScoreForm(p.kinds, p.causal, contiguous=contiguous(p)),
    )
    if split and not joins:
        vectors = p.rows * p.features // access
        steps.add(
            join_gradients,
            Grid.line(-(-vectors // _JOINING), _JOINING, info.planes[0], index),
            Effort("attention gradient splits", 2 * sums, 4 * sums),
            for_query=results[0],
            sums=room,
            splits=splits,
            rows=p.rows,
            steps=of_query,
            g=g,
            access=access,
        )
    yield steps.work()


def _length(problem: Attention, wanted: int, plan: GradientPlan) -> int:
    """Return the keys of a split: whole steps, and enough for the sums of the rows."""
    steps = -(-problem.keys // plan.step)
    splits = greatest(1, least(wanted, steps, SPLITS))
    return greatest(1, -(-steps // splits)) * plan.step
