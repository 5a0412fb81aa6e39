"""Launches of attention by matrix instructions: requirements on operands, and tiles.

Requirements: operands of half types with dense, aligned rows, so that a copy is a whole access. The
first tiles that fill the device are the first choice, and the others are for timing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Final, TypeVar

from calor.dtypes import DType, bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice, greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch, Output, Request, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.language.matrices import PAIRS
from calor_kernel.library.attention.folding import folded
from calor_kernel.library.attention.gradient_parts import Joined, parts_of
from calor_kernel.library.attention.mma import (
    attend_mma,
    key_gradient_mma,
    query_gradient_mma,
)
from calor_kernel.library.attention.mma_plan import MmaPlan
from calor_kernel.library.attention.mma_tiles import LINE, KeyParts
from calor_kernel.library.attention.operands import (
    ScoreForm,
    least_bytes,
    operands_of,
    results_of,
    upstream_of,
)
from calor_kernel.library.attention.problem import Attention, attention_of
from calor_kernel.library.attention.split_join import add_join, join_plan, split_rooms
from calor_kernel.library.gemm.mma import instruction_for, loads_together, shape_of
from calor_kernel.library.steps import Steps

T = TypeVar("T")
_NEEDED = ("matrix", "barrier", "planes")
# Minimum of rows for a tile, and of the rows of the other operand if there are fewer.
_LEAST = 16
_FILLED = 64
_ROOMS = (16, 32, 64, 128, 256)
# The part of the cores that tiles of queries fill at most for a forward pass in parts, the cubes of
# a core, and the most parts. In blocks: what a cube takes beside its own, and a launch that joins
# parts.
FILL: Final = 0.5
_CUBES: Final = 2
MOST_PARTS: Final = 64
_START: Final = 1
_JOIN: Final = 4
# The widest rows whose gradients of keys and values fit registers together.
_BOTH = 128
# By instruction, pass, and the room of a row: planes, times 16 rows of a plane, rows of a step,
# whether operands stay in registers. No unit spills more than 8 bytes. A cube has as many warp
# groups as registers allow. Named instructions are those of devices with 64 KiB or 32 KiB of shared
# memory.
_Tiles = tuple[int, int, int, bool]
TILES: Final[Mapping[str, Mapping[str, Mapping[int, tuple[_Tiles, ...]]]]] = MappingProxyType(
    {
        "planes": {
            "forward": {
                64: ((4, 2, 64, True), (4, 1, 64, True)),
                128: ((4, 2, 32, False), (4, 1, 64, False)),
                256: ((4, 1, 32, False), (8, 1, 32, False)),
            },
            "query": {
                64: ((4, 2, 64, False), (4, 1, 64, True)),
                128: ((4, 2, 32, False), (4, 1, 64, False)),
                256: ((4, 1, 32, False), (4, 1, 16, False)),
            },
            "key": {
                64: ((4, 2, 32, False), (4, 1, 64, True), (8, 1, 64, False)),
                128: ((4, 1, 64, False), (4, 1, 32, False), (8, 1, 64, False)),
                256: ((4, 1, 32, False), (4, 1, 16, False)),
            },
            # For timing alone.
            "further forward": {
                64: ((4, 2, 64, False), (8, 1, 64, True), (4, 2, 128, False)),
                128: ((4, 2, 64, False), (8, 1, 64, True), (8, 1, 64, False)),
            },
        },
        "warp groups": {
            "forward": {
                64: (
                    (8, 1, 64, False),
                    (12, 1, 128, False),
                    (16, 1, 64, False),
                    (8, 1, 128, False),
                ),
                128: ((8, 1, 128, False), (4, 1, 64, False), (12, 1, 64, False), (8, 1, 64, False)),
            },
            "query": {
                64: ((8, 1, 64, False), (12, 1, 64, False), (4, 1, 64, False)),
                128: ((12, 1, 64, False), (8, 1, 64, False), (4, 1, 64, False)),
            },
            "key": {
                64: ((8, 1, 64, False), (12, 1, 64, False), (4, 1, 64, False)),
                128: ((8, 1, 64, False), (8, 1, 32, False), (4, 1, 64, False)),
            },
        },
        # TF32.
        "mma_16x8x8_float32": {
            "forward": {
                64: ((4, 2, 32, True), (4, 1, 32, True), (4, 2, 64, False)),
                128: ((4, 2, 32, False), (4, 1, 32, False)),
                256: ((4, 1, 32, False), (4, 1, 16, False)),
            },
            "query": {
                64: ((4, 2, 32, False), (4, 1, 32, False)),
                128: ((4, 1, 32, False), (8, 1, 32, False)),
                256: ((4, 1, 16, False),),
            },
            "key": {
                64: ((4, 2, 32, False), (4, 1, 32, False)),
                128: ((4, 1, 32, False), (4, 1, 16, False)),
                256: ((4, 1, 16, False),),
            },
        },
        "mfma_32x32x8": {
            "forward": {64: ((4, 1, 64, True), (2, 1, 64, True)), 128: ((2, 1, 32, True),)},
            "query": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((1, 1, 32, False),)},
            "key": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((1, 1, 32, False),)},
        },
        "wmma_16x16x16": {
            "forward": {64: ((8, 1, 64, True), (4, 1, 64, True)), 128: ((4, 1, 32, True),)},
            "query": {64: ((8, 1, 32, False), (4, 1, 32, False)), 128: ((4, 1, 16, False),)},
            "key": {64: ((8, 1, 16, False), (4, 1, 16, False)), 128: ((4, 1, 16, False),)},
        },
        "simdgroup_8x8x8": {
            "forward": {64: ((4, 1, 32, True), (2, 1, 32, True)), 128: ((4, 1, 16, False),)},
            "query": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((2, 1, 16, False),)},
            "key": {64: ((4, 1, 32, False), (2, 1, 32, False)), 128: ((2, 1, 16, False),)},
        },
    }
)


def mma_refusal(problem: Attention, request: Request) -> str | None:
    """Return why the device or the operands do not suit matrix instructions."""
    p, info = problem, request.info
    if not all(map(info.has, _NEEDED)):
        return "the device has no matrix instructions"
    if p.dtype not in (float16, bfloat16, float32):
        return f"operands are {p.dtype}, not float16, bfloat16 or float32"
    if p.dtype is float32 and p.exact:
        return "factors of float32 must not be rounded"
    if not _named(p, info) and (not loads_together(info) or p.dtype is float32):
        return "the device has no suitable matrix instruction"
    widest = max(TILES[_named(p, info).rpartition("_")[0] or "planes"]["forward"])
    if any(not 0 < n <= widest for n in (p.features, p.values)):
        return f"rows are not of 1 to {widest} elements"
    fewest, most = least(p.queries, p.keys), greatest(p.queries, p.keys)
    if fewest < (1 if most >= _FILLED else _LEAST):
        return f"there are less than {_LEAST} queries or keys"
    access, starts = (
        p.access,
        [n for o in (p.query, p.key, p.value) for n in (*o.strides[:3], o.offset)],
    )
    if any(n % access for n in (request.inputs[0].offset, *starts)):
        return "rows do not begin at whole accesses"
    if any(operand.strides[3] != 1 for operand in (p.query, p.key, p.value)):
        return "rows are not dense"
    return None


def matrices_win(problem: Attention, request: Request, rows: int, terms: int) -> bool:
    """Return whether matrix instructions serve, and the products of scores are too many for units.

    ``rows``: those of a key head whose products units compute one by one at the speed of memory.
    ``terms``: the multiplications of one product of scores up to which launches take longer than
    work.
    """
    p = problem
    if p.group * p.queries <= rows or p.rows * p.keys * p.features <= terms:
        return False
    return mma_refusal(p, request) is None


def forward_by_mma(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the forward pass, the likeliest first."""
    request = folded(problem, request)
    p, info = attention_of(request), request.info
    plans = plans_of(p, "forward", (p.queries, p.heads), request)
    further: list[MmaPlan] = []
    if request.candidates and not _named(p, info):
        tiles = TILES["planes"]["further forward"].get(_room(p), ())
        made = [_plan(p, tile) for tile in tiles]
        further = [plan for plan in made if _fits(plan, info, False)]
    for plan in [*plans, *further] if request.candidates else plans[:1]:
        yield replace(
            _forward(p, plan, request), variant=_name(plan), group=0 if plan in plans else 1
        )


def _forward(problem: Attention, plan: MmaPlan, request: Request) -> Work:
    """Return the work of the forward pass by a plan; cubes share the keys if they are few."""
    p, info, steps = problem, request.info, Steps()
    tiles, blocks = -(-p.queries // plan.rows), -(-p.keys // plan.block)
    together = _CUBES if plan.shared_bytes(False) <= info.shared_of(_CUBES) else 1
    parts = forward_parts(tiles * p.heads * p.batch, blocks, info.cores, together)
    results, index = results_of(p, request, 16), index_of(p, request)
    which = (0, 2) if results["rest"] is not None else (0,)
    turned = tuple(p.steps(i, p.heads, p.queries, p.values, p.access) for i in which)
    own: dict[str, object] = {**results, "steps": turned[0], "rest_steps": turned[-1]}
    cubes, effort = (tiles * parts, p.heads, p.batch), p.flops(1, 1)
    if parts == 1:
        return Work((launch_of(attend_mma, plan, p, request, cubes, effort, **own, parts=None),))
    join = join_plan(p, parts, fast=True)
    sums, numbers = rooms = split_rooms(steps, p, parts, join)
    given: KeyParts[Bound, int] = KeyParts(sums, numbers, parts)
    steps.launches.append(
        launch_of(attend_mma, plan, p, request, cubes, effort, **own, parts=given)
    )
    add_join(steps, p, info, index, results, rooms, parts, turned, join, p.access)
    return steps.work()


def gradients_by_mma(problem: Attention, request: Request) -> Iterator[Work]:
    """Yield the works of the gradients of query, key and value, the likeliest first."""
    request = folded(problem, request)
    p = attention_of(request, problem.query.number)
    up = upstream_of(request, p.access * p.dtype.itemsize)
    results = [Bound(Output(i), p.dtype, 16) for i in range(3)]
    query_plans = plans_of(p, "query", (p.queries, p.heads), request)
    key_plans = plans_of(p, "key", (p.keys, p.key_heads), request)
    # The sums of wide rows do not fit registers together.
    both = ((True, True),) if _room(p) <= _BOTH else ((True, False), (False, True))
    for first, second in paired(query_plans, key_plans, request.candidates):
        joined = Joined(request.info, index_of(p, request), p.accumulate, p.access)
        parts, counts = _parts(p, first, second, request), gradient_counts(p)
        targets = [
            joined.target(out, count, parts[i > 0])
            for i, (out, count) in enumerate(zip(results, counts, strict=True))
        ]
        tiles = -(-p.queries // first.rows) * parts[0], p.heads, p.batch
        own: dict[str, object] = {"up": up, "for_query": targets[0], "parts": many(parts[0])}
        own["steps"] = p.steps(0, p.heads, p.queries, p.features, p.access)
        joined.steps.launches.append(
            launch_of(query_gradient_mma, first, p, request, tiles, p.flops(2, 1), **own)
        )
        tiles = -(-p.keys // second.rows) * parts[1], p.key_heads, p.batch
        own = {"up": up, "for_key": targets[1], "for_value": targets[2], "parts": many(parts[1])}
        own["key_steps"] = p.steps(1, p.key_heads, p.keys, p.features, p.access)
        own["value_steps"] = p.steps(2, p.key_heads, p.keys, p.values, p.access)
        joined.steps.launches += (
            launch_of(
                key_gradient_mma, second, p, request, tiles, p.flops(2, 2), **own, which=which
            )
            for which in both
        )
        joined.join()
        yield joined.steps.work(f"{_name(first)}, {_name(second)}")


@choice(low=1)
def forward_parts(tiles: int, blocks: int, cores: int, together: int) -> int:
    """Return the parts of the keys if tiles of queries leave cores idle; ``together``: on a core.

    >>> forward_parts(8, 256, 132, 2), forward_parts(64, 32, 132, 2), forward_parts(67, 64, 132, 2)
    (32, 4, 1)
    """
    if tiles > FILL * cores:
        return 1

    def time(parts: int) -> int:
        waves = -(-tiles * parts // (together * cores))
        return waves * (_START + -(-blocks // parts)) + (_JOIN if parts > 1 else 0)

    return min(range(1, MOST_PARTS + 1), key=time)


def gradient_counts(problem: Attention) -> tuple[int, int, int]:
    """Return the elements of the gradients of query, key and value."""
    p = problem
    keys = p.batch * p.key_heads * p.keys
    return p.rows * p.features, keys * p.features, keys * p.values


def many(parts: int) -> int | None:
    """Return the number of parts if there are several."""
    return None if parts == 1 else parts


def _parts(
    problem: Attention, first: MmaPlan, second: MmaPlan, request: Request
) -> tuple[int, int]:
    """Return the parts of the pass over keys, and of the pass over queries."""
    p, cores = problem, request.info.cores
    of_queries = -(-p.queries // first.rows) * p.heads * p.batch
    of_keys = -(-p.keys // second.rows) * p.key_heads * p.batch
    return (
        parts_of(of_queries, -(-p.keys // first.block), cores),
        parts_of(of_keys, -(-p.queries // second.block) * p.group, cores),
    )


def paired(firsts: Sequence[T], seconds: Sequence[T], candidates: bool) -> Iterator[tuple[T, T]]:
    """Yield pairs of plans: each of one pass beside the likeliest of the other pass."""
    for first, second in product(firsts, seconds):
        if first is firsts[0] or second is seconds[0]:
            yield first, second
        if not candidates:
            return


def _named(problem: Attention, info: DeviceInfo) -> str:
    """Return the name of a suitable instruction of the device, "" for none."""
    if problem.dtype is float32:
        return PAIRS if loads_together(info) else ""
    name = instruction_for({problem.dtype}, info)
    return name if name.rpartition("_")[0] in TILES else ""


def _room(problem: Attention) -> int:
    widest = max(problem.features, problem.values)
    return next(room for room in _ROOMS[2:] if widest <= room)


def _plan(problem: Attention, made: _Tiles, grouped: bool = False, named: str = "") -> MmaPlan:
    p = problem
    least = LINE if grouped else shape_of(named, p.dtype, 0).m
    rooms = [room for room in _ROOMS if room >= least]
    features, values = (next(room for room in rooms if n <= room) for n in (p.features, p.values))
    planes, high, block, held = made
    return MmaPlan(p.dtype, planes, high, block, features, values, held, grouped, named, p.access)


def plans_of(
    problem: Attention, kind: str, sizes: tuple[int, int], request: Request
) -> list[MmaPlan]:
    """Return tiles that fit; the first fills the device and is half full, or is the smallest.

    Warp groups come before planes if a device has their instruction, but for a forward pass that
    none of their tiles fill: planes have smaller ones, whose rows stay in registers.
    """
    info, (count, heads) = request.info, sizes

    def fills(plan: MmaPlan) -> bool:
        full = -(-count // plan.rows) * heads * problem.batch >= info.cores
        return bool(full and plan.rows < 2 * count)

    found: list[MmaPlan] = []
    named = _named(problem, info)
    grouped = ("warp groups", "planes") if info.has("async_matrix") else ("planes",)
    for name in (named.rpartition("_")[0],) if named else grouped:
        tiles = TILES[name][kind].get(_room(problem), ())
        plans = [_plan(problem, made, name == "warp groups", named) for made in tiles]
        plans = [plan for plan in plans if _fits(plan, info, kind != "forward")]
        least = min(plan.rows for plan in plans) if plans else 0
        chosen = [plan for plan in plans if plan.rows == least or fills(plan)][:1]
        made = chosen + [plan for plan in plans if plan not in chosen]
        sparse = kind == "forward" and found and not fills(found[0])
        found = [*made, *found] if sparse else [*found, *made]
    return found


def _fits(plan: MmaPlan, info: DeviceInfo, gradient: bool) -> bool:
    return plan.units <= info.max_units and plan.shared_bytes(gradient) <= info.shared_bytes


def _name(plan: MmaPlan) -> str:
    kind = "warp-group mma" if plan.grouped else "warp mma"
    held = " from registers" if plan.held else ""
    return f"{kind} {plan.rows}x{plan.block} by {plan.units}{held}"


def launch_of(
    function: KernelFunction,
    plan: MmaPlan,
    problem: Attention,
    request: Request,
    cubes: tuple[int, int, int],
    flops: int,
    **own: object,
) -> Launch:
    """Return a launch of a body by matrix instructions with its own arguments."""
    p = problem
    return launch(
        function,
        Grid(cubes, (plan.units, 1, 1), request.info.planes[0], index_of(p, request)),
        Effort(f"{function.name} {plan.rows}x{plan.block}", flops, least_bytes(p)),
        value_width=Multiple(p.values, p.access),
        g=operands_of(p, p.access),
        plan=plan,
        form=ScoreForm(p.kinds, p.causal, adjusted=bool(p.kinds) or p.scale <= 0),
        **own,
    )


def index_of(problem: Attention, request: Request) -> DType:
    """Return the index dtype that reaches all operands and results."""
    p, views = problem, request.inputs
    spans = [sum((n - 1) * abs(s) for n, s in zip(v.shape, v.strides, strict=True)) for v in views]
    # Results are dense, even if operands broadcast over heads or batches.
    spans += [o.size for o in request.outputs]
    # Half of an index's range, since positions beyond the last rows are computed too.
    return kl.index_dtype(*(2 * n for n in spans), 2 * p.rows * max(p.features, p.values))
