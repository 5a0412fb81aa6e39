"""Products of a large batch, each of few rows and columns: a team of lanes for each of their sums.

Requirements: the operands of a product are a few lines, so a cube has many products. Lanes of a
team read adjacent accesses along the K axis; where neither operand is dense along it, a unit adds
a sum alone, and neighbours have neighbouring products. All accesses of a lane are in flight at
once, up to a limit. The order of a sum depends on the plan alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calor.dtypes import DType, float64, int32, int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.gemm.epilogue import After, Epilogue, writer
from calor_kernel.library.matmul.blueprints import accumulator
from calor_kernel.library.matmul.gemv_plan import access_of
from calor_kernel.library.matmul.gemv_planes import scaled, taken
from calor_kernel.library.matmul.problem import Product, narrow
from calor_kernel.library.matmul.task import Batches, Given, Strides, Task

# The units of a cube, and the accesses of a lane to an operand that are in flight.
_UNITS: Final = 256
_TURNS: Final = 4
# Terms from which lanes that read adjacent accesses take less than units alone.
_TERMS: Final = 16
# The products of a core with fewer of which cubes of one product take less, for short sums and for
# longer ones, and the most sums of a product, each of which reads its lines again.
_BATCHES: Final = 2
_BATCHES_OF_LONG: Final = 8
_LONG: Final = 1024
_SUMS: Final = 16


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """Teams of ``lanes``, which read accesses of ``width`` elements, ``turns`` at a time.

    ``along``: whether both operands are dense along the K axis.
    """

    accumulate: DType
    lanes: int
    width: int
    turns: int
    along: bool


@kl.kernel
def team_sums(
    a: kl.In,
    b: kl.In,
    c: kl.Out,
    count: kl.Size,
    rows: kl.FastDivmod,
    columns: kl.FastDivmod,
    terms: kl.Size,
    strides: Strides[kl.Number],
    batches: Batches[kl.Number],
    after: After | None,
    *,
    plan: TeamPlan,
    epilogue: Epilogue | None = None,
) -> None:
    """Compute an element of C by each team."""
    unit, width, step = kl.absolute_position(), plan.width, plan.lanes * plan.width
    # Teams beyond the last take part in the exchanges of their plane.
    place, lane = kl.min(unit // plan.lanes, count - 1), unit % plan.lanes
    line, column = columns.divmod(place)
    batch, row = rows.divmod(line)
    left, right = batches.starts(batch)
    left = left + row * strides.a_row
    right = right + column * strides.b_column
    total = kl.registers(1, plan.accumulate)
    for p in kl.loop_range(lane * width, terms, step * plan.turns):
        places = [p + turn * step for turn in range(plan.turns)]
        read = []
        for source, start, depth in ((a, left, strides.a_depth), (b, right, strides.b_depth)):
            moved = [at if plan.along else at * depth for at in places]
            read.append(
                [
                    taken(source, start + m, width, at, terms)
                    for m, at in zip(moved, places, strict=True)
                ]
            )
        for x, y in zip(*read, strict=True):
            first, second = x.to(plan.accumulate), y.to(plan.accumulate)
            for i in range(width):
                total[0] = scaled(first[i], second[i], total[0])
    distance = 1
    while distance < plan.lanes:
        total[0] = total[0] + kl.plane_shuffle(total[0], distance, "xor")
        distance *= 2
    if (lane == 0) & (unit // plan.lanes < count):
        ends = writer(epilogue, after, c, batch)
        if ends is None:
            c[place] = total[0].to(c.dtype)
        else:
            ends.write(place, total[0], row, column)


def refusal(product: Product, info: DeviceInfo) -> str | None:
    """Return why teams do not compute a product, None if they may."""
    if product.formats is not None:
        return "it reads no float8"
    if not info.has("planes"):
        return "the device has no planes"
    if product.dtype is float64:
        return "the order of its sums depends on the layout"
    if product.a.depth != product.b.depth and 1 in (product.a.depth, product.b.depth):
        return "one operand alone is dense along the K axis"
    if product.k < _TERMS:
        return "a unit adds few terms as fast"
    if product.m * product.n > _SUMS:
        return f"its products have more than {_SUMS} sums"
    least = _BATCHES if product.k <= _LONG else _BATCHES_OF_LONG
    if product.batches < least * info.cores:
        return "there are few products"
    return None


@choice()
def _lanes(k: int, width: int, most: int) -> int:
    """Return the lanes of a team: as many as have all their accesses in flight.

    >>> _lanes(50, 2, 32), _lanes(512, 8, 32), _lanes(5000, 1, 32), _lanes(3, 1, 32)
    (8, 16, 32, 1)
    """
    lanes = 1
    while lanes < most and lanes * width * _TURNS < k:
        lanes *= 2
    return lanes


def team_plan(product: Product, info: DeviceInfo) -> TeamPlan:
    """Return the plan for the sizes and strides of a product."""
    a, b = product.a, product.b
    if not a.depth == b.depth == 1:
        return TeamPlan(accumulator(product), 1, 1, _TURNS, False)
    sizes = (a, product.m), (b, product.n)
    width = min(access_of(operand, size, product.k) for operand, size in sizes)
    lanes = int(_lanes(product.k, width, info.planes[0]))
    return TeamPlan(accumulator(product), lanes, width, _TURNS, True)


def team_sums_launch(task: Task) -> Launch:
    """Return the launch."""
    p, info = task.product, task.info
    plan = team_plan(p, info)
    item, width = p.a.dtype.itemsize, plan.width
    a, b = task.operands(width * item, width * item)
    count = p.batches * p.m * p.n
    units = max(info.planes[0], min(_UNITS, info.max_units))
    reach = count if task.tail is None else task.tail.reach(p.batches, p.m, p.n)
    strides, batches = task.strides(), task.batches()
    if width > 1:
        given: Strides[Given] = Strides(Multiple(p.a.free, width), 1, 1, Multiple(p.b.free, width))
        strides, batches = given, task.batches(width, width)
    return launch(
        team_sums,
        Grid.line(
            -(-count * plan.lanes // units), units, info.planes[0],
            int32 if narrow(p) and kl.index_dtype(reach * plan.lanes) is int32 else int64,
        ),
        task.effort(f"matmul team sums of {plan.lanes}"),
        a=a, b=b, c=task.result(), count=count, rows=p.m, columns=p.n,
        terms=Multiple(p.k, width), strides=strides, batches=batches, plan=plan,
        **task.following(),
    )  # fmt: skip
