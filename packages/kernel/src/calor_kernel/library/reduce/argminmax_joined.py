"""Indices of extremes of few long rows, in one launch: the last cube of a row joins its parts.

Requirements: a row of scores, as of a language model's words, is read by all cores, and no launch
waits for another. The index is that of the first extreme, whichever cube ends last.
"""

from __future__ import annotations

from calor_kernel import language as kl
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.reduce.argminmax import (
    ArgPlan,
    ArgTasks,
    over_units,
    unit_best,
    write_best,
)
from calor_kernel.library.reduce.reduction_ops import ReductionOp


@kl.kernel
def argminmax_joined(
    x: kl.In,
    values: kl.InOut,
    indices: kl.InOut,
    out: kl.Out,
    flags: kl.InOut,
    over: ArgTasks[kl.Number],
    parts: kl.Size,
    *,
    plan: ArgPlan,
    units: int,
) -> None:
    """Find the index of a part of a result, and that of all in the last of its cubes.

    ``values``, ``indices``: of the parts, no more than a cube has units. ``flags`` counts the cubes
    of each result.
    """
    task, mine = kl.cube_position(), kl.unit_position()
    row, part = task % over.results, task // over.results
    base = kl.offset_of(kl.unravel(row, over.sizes), over.strides)
    begin = part * over.chunk
    end = kl.min(begin + over.chunk, over.terms)
    found = unit_best(x, plan, base, (begin + mine, end), over.step, units)
    found = over_units(plan, found, units, 1)
    if mine == 0:
        write_best(values, indices, task, found, None)
    if is_last(flags, row, parts):
        best = plan.op.neutral()
        index = ReductionOp("min", plan.index).neutral()
        if mine < parts:
            at = mine * over.results + row
            best, index = values[at], indices[at]
        best, index = over_units(plan, (best, index), units, 1)
        if mine == 0:
            out[row] = kl.cast(index, out.dtype)
