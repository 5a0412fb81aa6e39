"""The order of the sum of a short row, for kernels of other families that compute one.

Requirements: an op has the same bits alone and in a longer graph, so a kernel that has a sum among
other work adds its terms as the launch of the sum does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Input, Output, View
from calor_kernel.library.math.base import exactly
from calor_kernel.library.reduce.job import Job, Placed, Problem
from calor_kernel.library.reduce.launches import held_team, holding
from calor_kernel.library.reduce.program import Recipe
from calor_kernel.library.reduce.reduction_ops import ReductionOp

# The most terms of a row that one unit adds, all of them in one expression.
_MOST: Final = 128
Term = Callable[[int], kl.Number]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order of a sum that ``team`` units hold, ``held`` vectors of ``width`` terms each."""

    team: int
    held: int
    width: int

    @property
    def terms(self) -> int:
        """The places for terms; those behind the row's last one are zeros."""
        return self.team * self.held * self.width

    @exactly
    def total(self, term: Term, dtype: DType) -> kl.Number:
        """Return the sum of a row in one unit; ``term`` returns the term of a column."""
        op = ReductionOp("sum", dtype)
        return op.tree([self._of_unit(op, term, unit) for unit in range(self.team)])

    def _of_unit(self, op: ReductionOp, term: Term, unit: int) -> kl.Number:
        """Return what a unit of the sum's launch has before units are joined."""
        starts = [(unit + v * self.team) * self.width for v in range(self.held)]
        vectors = [[term(start + i) for i in range(self.width)] for start in starts]
        lanes = [_halves(op, column) for column in zip(*vectors, strict=True)]
        return op.over_lanes(lanes[0] if len(lanes) == 1 else kl.pack(lanes))


def _halves(op: ReductionOp, values: Sequence[kl.Number]) -> kl.Number:
    """Return the sum of a lane's terms, the two halves by themselves, as rows are held."""
    if len(values) == 1:
        return values[0]
    half = (len(values) + 1) // 2
    return op.combine(_halves(op, values[:half]), _halves(op, values[half:]))


def order_of_sum(length: int, dtype: DType, info: DeviceInfo) -> RowOrder | None:
    """Return the order of sums along rows of a length; None if one unit does not follow it.

    Parameters
    ----------
    length : int
        The terms of a row.
    dtype : DType
        The dtype of the terms and of the sum.
    info : DeviceInfo
        The device.

    Returns
    -------
    RowOrder or None
        The order, which depends on the length alone.
    """
    # A row of one term is no sum.
    if exceeds(length, _MOST) or not exceeds(length, 1):
        return None
    recipe = Recipe()
    program = recipe.program([recipe.fold("sum", recipe.operand(dtype))])
    rows, totals = (View.dense(spec_of(shape, dtype)) for shape in ((2, length), (2,)))
    job = Job(rows.shape, (1,), (Placed(Input(0), rows),), (Placed(Output(0), totals),), (), "")
    problem = Problem(program, job, info)
    team = held_team(problem)
    if team is None:
        return None
    plan = holding(problem, team)
    found = RowOrder(plan.team, plan.held, plan.width)
    return found if found.terms <= _MOST else None
