"""The launch that joins the sums of split keys, of any way to make them."""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.library.attention.problem import Attention, ResultSteps
from calor_kernel.library.attention.split_keys import TOGETHER, join_splits
from calor_kernel.library.attention.split_plan import NEIGHBOURS, JoinPlan
from calor_kernel.library.steps import Steps

# Units of a cube that joins splits.
_JOINING: Final = 128


def join_plan(problem: Attention, splits: int, fast: bool) -> JoinPlan:
    """Return the plan of a launch that joins splits: neighbours share what is not read at once."""
    access, lanes = min(problem.access, 4), 1
    while lanes < NEIGHBOURS and exceeds(splits, TOGETHER * lanes):
        lanes *= 2
    return JoinPlan(access, fast, lanes)


def split_rooms(
    steps: Steps, problem: Attention, splits: int, plan: JoinPlan
) -> tuple[Bound, Bound]:
    """Return scratch memory for the sums of splits, and for the numbers of their rows."""
    p = problem
    sums = steps.room(p.rows * splits * p.values, p.accumulate)
    numbers = steps.room(p.rows * splits * 2, p.accumulate)
    return sums.aligned(plan.joined * p.accumulate.itemsize), numbers


def add_join(
    steps: Steps, problem: Attention, info: DeviceInfo, index: DType,
    results: dict[str, Bound | None], rooms: tuple[Bound, ...], splits: int,
    turned: tuple[ResultSteps[Multiple] | None, ...], plan: JoinPlan, access: int,
) -> None:  # fmt: skip
    """Add the launch of the results from ``rooms``; ``access`` divides the values of a row."""
    p, (sums, numbers) = problem, rooms
    values = p.rows * p.values
    units = values // plan.joined * plan.lanes
    steps.add(
        join_splits,
        Grid.line(-(-units // _JOINING), _JOINING, info.planes[0], index),
        Effort("attention splits", 2 * values * splits, 4 * values * splits),
        **results,
        sums=sums,
        numbers=numbers,
        value_width=Multiple(p.values, access),
        splits=splits,
        rows=p.rows,
        steps=turned,
        plan=plan,
    )
