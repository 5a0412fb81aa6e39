"""The choice of matrix instructions and tiles for convolutions.

Requirements: the device's features decide between warp-group, plane and named instructions. For
each, the first tiles fill the device; further ones are for timing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from calor.dtypes import bfloat16, float16, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Work
from calor_kernel.library.conv.implicit_gemm_mma_launch import in_turn, joins, of_places
from calor_kernel.library.conv.mma_tiles import Sides, fits, tiles_of
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Correlation
from calor_kernel.library.conv.weight_gradient_mma_launch import of_weights
from calor_kernel.library.gemm.mma import Fragments, instruction_for, loads_together

_NEEDED = ("matrix", "barrier", "planes")
# With fewer rows, columns or terms most of a tile would be empty.
_LEAST = 16
_HALVES = (float16, bfloat16)


def mma_refusal(problem: Correlation, info: DeviceInfo, rounded: bool) -> str | None:
    """Return why matrix instructions of planes do not suit a problem, None if they do.

    ``rounded``: whether float32 operands may be rounded to TF32.
    """
    p = problem
    if not all(map(info.has, _NEEDED)):
        return "the device has no matrix instructions of planes"
    # Named instructions take full float32.
    named = bool(instruction_for({p.a.dtype}, info))
    if not named and not loads_together(info):
        return "planes neither copy asynchronously nor load operands together"
    if p.a.dtype not in _HALVES and not ((rounded or named) and p.a.dtype is float32):
        return f"no matrix instruction takes {p.a.dtype}"
    if len(p.axes) > 2:
        return "it has more than two spatial axes"
    groups, rows, columns = (p.leads[i].size for i in p.roles)
    channels = columns if p.by_weight else p.depth.size
    if groups != 1:
        return "it has groups"
    if channels < 3 or rows < _LEAST:
        return f"it has fewer than {_LEAST} rows or 3 channels"
    places = prod(a.count for a in p.axes)
    taps = prod(a.terms for a in p.axes)
    deep = p.depth.size if p.by_weight else channels
    enough = columns * places >= _LEAST and deep * taps >= _LEAST
    return None if enough else f"it has fewer than {_LEAST} columns or terms"


def by_fragments(problem: Correlation, info: DeviceInfo, wanted: bool) -> Iterator[Work]:
    """Yield the works of a problem, the likeliest first; ``wanted``: more than one."""
    make = of_weights if problem.by_weight else of_places
    named = instruction_for({problem.a.dtype}, info)
    # TF32 operands have to be dense along the K axis; those of a weight gradient are not.
    beside = info.has("async_matrix") and (problem.a.dtype in _HALVES or not problem.by_weight)
    sides: Sides = tiles_of(problem.by_weight, named, beside)
    for grouped, usual, more in sides:
        plans = [_plan(problem, made, grouped, named) for made in (*usual, *more)]
        likely = [plan for plan in plans[: len(usual)] if fits(plan, info)]
        if not likely:
            continue
        first = next((plan for plan in likely if _fills(problem, plan, info)), likely[-1])
        for plan in (first, *(plan for plan in plans if plan != first and fits(plan, info))):
            steps = Steps()
            make(problem, plan, steps, info)
            name = f"{plan.kind} {plan.rows}x{plan.columns}x{plan.depth} by {plan.units}"
            yield replace(steps.work(), variant=name, group=0 if plan in likely else 1)
            if not wanted:
                return
            if (
                grouped
                and plan in likely
                and not problem.by_weight
                and in_turn(problem)
                and not joins(problem)
            ):
                steps = Steps()
                of_places(problem, plan, steps, info, joined=True)
                yield replace(steps.work(), variant=f"{name}, joined", group=1)


def _plan(
    problem: Correlation, made: tuple[int, int, int, int, int, int], grouped: bool, named: str
) -> Fragments:
    # Both operands of a weight gradient are dense along channels, which are not summed.
    along = not problem.by_weight
    plan = Fragments(problem.a.dtype, *made, along, along, grouped, named)
    # A float32 tile has half as many terms.
    return replace(plan, depth=plan.depth * 2 // plan.dtype.itemsize)


def _fills(problem: Correlation, plan: Fragments, info: DeviceInfo) -> bool:
    """Return whether tiles are little wider than the problem and fill the device."""
    _, row, column = (problem.leads[i] for i in problem.roles)
    columns = column.size * prod(a.count for a in problem.axes)
    if row.size <= plan.rows // 2:
        return False
    tiles = -(-row.size // plan.rows) * -(-columns // plan.columns)
    # A weight gradient's long sums are split for any tile.
    return problem.by_weight or bool(tiles >= info.cores)
