"""Stride-2 input gradients by TMA: one tile computes both phases of a row.

Requirements: alternating pixels of a row are in one tile and are written together, so memory lines
are written whole. A tap that only one phase has is multiplied by zeros for the other, which costs
less than a separate write of each phase. Phases of other rows have fewer taps, so they are launches
of their own and share the copies of both operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from math import prod

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Output, Work
from calor_kernel.library.conv.implicit_gemm_mma_launch import in_turn, phases_of
from calor_kernel.library.conv.implicit_gemm_tma import PlaceBoxes, Turns
from calor_kernel.library.conv.implicit_gemm_tma_launch import (
    SHARE,
    TIMED,
    Result,
    copies_of,
    cycles_of,
    idle,
    launch_of,
    plans_of,
    suits,
    together,
)
from calor_kernel.library.conv.implicit_gemm_tma_store import Writes
from calor_kernel.library.conv.padded_rows import Steps
from calor_kernel.library.conv.problem import Axis, Correlation, Part, undivided

# Phases of a row, and minimum of channels, which fill the rows of a tile with their phases.
_TWO, _LEAST = 2, 32


def phases_by_boxes(
    problem: Correlation, info: DeviceInfo, wanted: bool, rounded: bool
) -> Iterator[Work]:
    """Yield the works of an input gradient with two phases in a row, the likeliest first."""
    known = len(problem.axes) <= 2 and all(type(axis.count) is int for axis in problem.axes)
    if not known or not in_turn(problem) or problem.leads[2].size < _LEAST:
        return
    windows = [_seen(row) for row in _rows(undivided(problem))]
    # The rows of tiles are those of both phases.
    images, group, outputs = problem.leads
    leads = images, group, replace(outputs, size=_TWO * outputs.size)
    whole = [replace(window, leads=leads) for window in windows if window is not None]
    if len(whole) < len(windows):
        return
    if not all(suits(window, problem.size, info, rounded) for window in whole):
        return
    # The window with most taps takes longest.
    most = max(whole, key=lambda window: window.terms)
    rows = 128 if leads[2].size > 64 else 64
    found = [one for one in plans_of(most, problem.size, info, rows, SHARE) if one[2] == 1]
    found.sort(key=cycles_of)
    few = not found or idle(most, found[0], info)
    if few and not wanted:
        return
    for _, plan, _ in found[: TIMED if wanted else 1]:
        steps = Steps()
        _of_phases(problem, plan, steps, info)
        box = "x".join(map(str, plan.box))
        name = f"phases {plan.rows}x({box}) by {plan.units}"
        yield replace(steps.work(), variant=name, group=int(few))


def _rows(parts: list[Part]) -> list[list[Part]]:
    """Return the phases of each row of the cells."""
    ordered = sorted(parts, key=lambda part: part.offsets)
    return [list(row) for _, row in groupby(ordered, key=lambda part: part.offsets[:-1])]


def _seen(row: list[Part]) -> Correlation | None:
    """Return the problem of one window that covers all phases of a row, None if there is none."""
    if len(row) != _TWO or any(part.problem.depth.size == 0 for part in row):
        return None
    axes = [part.problem.axes[-1] for part in row]
    first, step = min(axis.start for axis in axes), axes[0].summed
    if any((axis.start - first) % step or axis.count != axes[0].count for axis in axes):
        return None
    terms = max(_shift(axis, first) + axis.terms for axis in axes)
    window = replace(axes[0], start=first, terms=terms)
    problem = row[0].problem
    return replace(problem, axes=(*problem.axes[:-1], window))


def _shift(axis: Axis, first: int) -> int:
    """Return the window column of an axis's first tap, relative to ``first``."""
    return int((axis.start - first) // axis.summed)


def _of_phases(problem: Correlation, plan: PlaceBoxes, steps: Steps, info: DeviceInfo) -> None:
    x, weights = copies_of(problem, plan, steps, info)
    for row in _rows(phases_of(problem, weights)):
        window = _seen(row)
        assert window is not None
        made = _result_of(problem, row, window, plan)
        steps.launches.append(launch_of(window, made, 1, x, weights, Output(0), info))


def _result_of(
    problem: Correlation, row: list[Part], window: Correlation, plan: PlaceBoxes
) -> Result:
    """Return the form of a plan's result for the phases of a row, and their taps."""
    taps = prod(axis.terms for axis in problem.axes)
    first, base = window.axes[-1].start, window.b.offset // plan.depth
    phases = tuple(
        (
            part.problem.b.offset // plan.depth - base,
            _shift(part.problem.axes[-1], first),
            part.problem.axes[-1].terms,
        )
        for part in row
    )
    wide = problem.axes[-1].count
    high = problem.axes[0].count if len(problem.axes) == _TWO else 1
    top, down = (0, *row[0].offsets)[-2], (1, *row[0].steps)[-2]
    most = max(16 // plan.result.itemsize // _TWO, 1)
    run = together(most, plan.box[2], wide // _TWO)
    ragged = problem.leads[2].size % (plan.rows // _TWO) != 0
    writes = Writes(run, ragged, phases=_TWO)
    made = replace(plan, writes=writes, turns=Turns(taps, phases))
    return Result(made, (down * wide, top * wide), high * wide, problem.size, _TWO * run)
