"""Launches of attention whose keys are split among cubes, for few queries.

Requirements: vectors are as wide as the alignment of all rows permits, so that operands of any
strides have a kernel. A split has enough keys for a step of a cube, and there are enough splits to
fill the device. The last cube joins the splits where a cube sees the memory of others in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from calor.dtypes import uint32
from calor_kernel.contract.choices import choice, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.contract.work import Flags, Request, Work
from calor_kernel.library.attention.mma_launch import index_of, matrices_win
from calor_kernel.library.attention.operands import (
    ScoreForm,
    contiguous,
    least_bytes,
    operands_of,
    results_of,
)
from calor_kernel.library.attention.problem import Attention
from calor_kernel.library.attention.split_join import add_join, split_rooms
from calor_kernel.library.attention.split_keys import (
    TOGETHER,
    Caches,
    attend_split,
)
from calor_kernel.library.attention.split_plan import SplitPlan, core_units, units_for
from calor_kernel.library.steps import Steps

# Maximum of queries, and of rows of a cube.
MOST_QUERIES: Final = 16
_ROWS: Final = 8
# Rows of a key head whose products units compute at the speed of memory, and multiplications of the
# scores up to which they compute more rows, though matrix instructions serve.
UNIT_ROWS: Final = 4
TERMS: Final = 1 << 23
# Cubes of a core.
_CUBES: Final = 2
# Bytes of an access, and maximum of bytes of a lane's queries, and of its sums.
_ACCESS: Final = 16
_HELD: Final = 256
# Bytes of shared memory for the sums of planes.
_SHARED: Final = 16 << 10
# Maximum of splits, which one unit joins.
_SPLITS: Final = 64
# What a cube takes beside its steps, and what joining splits takes beside reading them, in steps.
_START: Final = 1.0
_JOIN: Final = 2.0


def split_refusal(problem: Attention, request: Request) -> str | None:
    """Return why splits of the keys do not suit the device or the problem."""
    p, info = problem, request.info
    if not (info.has("planes") and info.has("barrier")):
        return "the device has no planes"
    # Heads that fill the device attend faster by whole tiles.
    most = MOST_QUERIES - int(p.batch * p.heads >= info.cores)
    if p.queries > most:
        return f"there are more than {most} queries"
    if not p.values:
        return "there are no values"
    if matrices_win(p, request, UNIT_ROWS, TERMS):
        return "there are many rows, for matrix instructions"
    access, lanes = access_of(p), info.planes[0]
    vectors = -(-max(p.features, p.values) // (access * lanes))
    if vectors * access * p.accumulate.itemsize > _HELD:
        return "rows are too wide for the registers of a plane"
    return None


def access_of(problem: Attention) -> int:
    """Return the elements of an access: rows begin at whole ones, and have whole ones."""
    p = problem
    if not all(contiguous(p)):
        return 1
    access: int = _ACCESS // p.dtype.itemsize
    starts = [n for o in (p.query, p.key, p.value) for n in (*o.strides[:3], o.offset)]
    for n in (p.features, p.values, *starts):
        while n % access:
            access //= 2
    return access


def _plan(problem: Attention, info: DeviceInfo) -> SplitPlan:
    p, access, plane = problem, access_of(problem), info.planes[0]
    widest = -(-max(p.features, p.values) // access)
    lanes = 1
    while lanes < plane and lanes < widest:
        lanes *= 2
    features, values = (max(1, -(-n // (access * lanes))) for n in (p.features, p.values))
    held = max(features, values) * access * p.accumulate.itemsize
    count, rows = p.group * p.queries, 1
    while rows < count and rows < _ROWS and 2 * rows * held <= _HELD:
        rows *= 2
    most = min(core_units(rows * held) // _CUBES, info.max_units)
    units = int(units_for(p.keys, lanes, plane, most))
    room = units // plane * lanes * values * access * p.accumulate.itemsize
    together = rows
    while together > 1 and together * room > min(_SHARED, info.shared_of(2)):
        together //= 2
    return SplitPlan(
        units // lanes,
        lanes,
        access,
        rows,
        max(1, (4 if rows <= 2 else 2) // max(features, values)),
        features,
        values,
        (features * lanes * access == p.features, values * lanes * access == p.values),
        p.dtype.itemsize == 2,
        p.accumulate.itemsize,
        together,
    )


def forward_by_splits(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the work of the forward pass."""
    steps = Steps()
    add_splits(steps, problem, request, results_of(problem, request))
    yield steps.work()


def add_splits(
    steps: Steps,
    problem: Attention,
    request: Request,
    results: dict[str, Bound | None],
    caches: Caches[Bound, int] | None = None,
) -> None:
    """Add the launches of the forward pass; with ``caches``, key and value are a row of them."""
    p, info = problem, request.info
    plan = _plan(p, info)
    for name in ("out", "rest"):
        result = results[name]
        if result is not None:
            results[name] = result.aligned(plan.joined * p.dtype.itemsize)
    count = p.group * p.queries
    blocks = -(-count // plan.rows)
    heads = p.batch * p.key_heads * blocks
    at_once = TOGETHER * plan.joining
    wanted = _splits(p.keys, heads, plan.cubes * info.cores, plan.teams, plan.unroll, at_once)
    length = _length(p.keys, wanted, plan)
    splits = greatest(1, -(-p.keys // length))
    plan = replace(plan, unroll=int(_steps(length, plan.teams, plan.unroll)))
    step = plan.teams * plan.unroll
    even = not p.causal and blocks == 1 and p.keys == splits * length and length % step == 0
    once = even and length == step
    index = index_of(p, request)
    numbers = (0, 2) if results["rest"] is not None else (0,)
    turned = tuple(p.steps(i, p.heads, p.queries, p.values, plan.access) for i in numbers)
    own: dict[str, Bound | None] = {"sums": None, "numbers": None}
    split = splits > 1
    joins = split and info.has("forward_progress") and info.has("atomics")
    rooms = split_rooms(steps, p, splits, plan.join) if split else ()
    own |= zip(own, rooms, strict=False)
    steps.add(
        attend_split,
        Grid((splits, p.key_heads * blocks, p.batch), (plan.units, 1, 1), info.planes[0], index),
        Effort(f"attention split keys {plan.rows}x{plan.teams}", p.flops(1, 1), least_bytes(p)),
        **results,
        value_width=Multiple(p.values, plan.access),
        blocks=blocks,
        splits=splits,
        length=length,
        steps=turned,
        caches=caches,
        g=operands_of(p, plan.access),
        plan=replace(plan, split=split, even=even, once=once),
        form=ScoreForm(p.kinds, p.causal, contiguous=contiguous(p)),
        flags=Bound(Flags(heads), uint32) if joins else None,
        **own,
    )
    if split and not joins:
        add_join(steps, p, info, index, results, rooms, splits, turned, plan.join, plan.access)


def _cost(
    splits: int, keys: int, heads: int, together: int, teams: int, unroll: int, at_once: int
) -> float:
    """Return the time of the cubes, of which so many run ``together``, in steps.

    ``at_once``: the splits that neighbours read together.
    """
    each = -(-keys // (splits * teams))
    steps, waves = -(-each // unroll), -(-heads * splits // together)
    joining = _JOIN + -(-splits // at_once) if splits > 1 else 0.0
    return waves * (_START + steps) + joining


@choice(cost=_cost, low=1)
def _splits(keys: int, heads: int, together: int, teams: int, unroll: int, at_once: int) -> int:
    """Return the splits of a head's keys that take the least time.

    >>> _splits(197, 256, 264, 32, 4, 64), _splits(8192, 8, 264, 16, 2, 16)
    (1, 32)
    """
    asked = keys, heads, together, teams, unroll, at_once
    return min(range(1, _SPLITS + 1), key=lambda splits: _cost(splits, *asked))


@choice(low=1)
def _steps(length: int, teams: int, most: int) -> int:
    """Return the keys of a team in a step, no more than a split has for it.

    >>> _steps(64, 32, 4), _steps(1000, 32, 4)
    (2, 4)
    """
    return max(1, min(most, -(-length // teams)))


def _length(keys: int, wanted: int, plan: SplitPlan) -> int:
    """Return the keys of a split: at least half a step, as even as whole teams permit."""
    step = plan.teams * plan.unroll
    splits = least(wanted, -(-keys // max(plan.teams, step // 2)), _SPLITS)
    each = -(-keys // greatest(1, splits))
    return greatest(1, -(-each // plan.teams)) * plan.teams
