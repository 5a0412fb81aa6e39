"""TF32 products of operands that are both dense off the K axis, as gradients of weights are.

Requirements: for four-byte types the matrix unit reads shared memory along the K axis alone. So A
comes from registers, as in :mod:`.register_a`, and planes beside the unit that asks for copies
transpose the stages of B in place. That crowds shared memory, but nothing is copied before. Tiles,
and the parts of their sums, are those whose last core ends first by an estimate; where an operand
is small beside the products, a copy of it takes less, and another way does that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calor_cuda.kernels.matmul.epilogue_operands import with_operands_ahead
from calor_cuda.kernels.matmul.split_k_launch import Parts
from calor_cuda.kernels.matmul.summed_parts import AHEAD, Summed
from calor_cuda.kernels.matmul.summed_parts_launch import (
    LATENCY,
    MOVED,
    STEPS,
    TILE,
    byte_of,
    room_of,
    summed,
    summed_task,
)
from calor_cuda.kernels.matmul.warpgroup_tma_launch import tma_launch, tma_refusal
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Request, Work
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import cubes_of, lack, mostly_empty
from calor_kernel.library.matmul.task import Task

# Rows and columns of a tile, stages, and the rows of tiles that are computed at the same time.
_TILES = (
    *((64, 64, 8, 16), (64, 128, 8, 16), (128, 128, 6, 16), (128, 192, 4, 16)),
    *((192, 128, 4, 16), (128, 256, 4, 16), (192, 192, 3, 16)),
)
# Parts that the cube of a tile's last one adds; of more, the last cubes of the launch add slices.
_FEW = 4
# Cycles of another launch, and the bytes of memory that all cores move in one.
_LAUNCH, _MEMORY = 4000, 2400
# Instructions for each sum that is written, beside those of an epilogue, and the lanes of a core.
_WRITING, _LANES = 4, 128
# The estimate of a way with a copy beside this one's from which it takes less, and the same where
# several products share the operand, whose tiles would be transposed again for each.
_BETTER, _REPEATED = 0.93, 1.1
_SUM, _TIMED = 4, 6  # Bytes of a sum; candidates for timing.


@dataclass(frozen=True, slots=True)
class Choice:
    """A tile and the parts of its sum, with the estimated cycles; ``summed`` parts or few."""

    cycles: float
    plan: TmaPlan
    parts: int = 1
    summed: Summed[int] | None = None


def stage_refusal(task: Task, request: Request) -> str | None:
    """Return why B is not transposed in each tile, None if it is."""
    product = task.product
    if not product.rounded or product.along != (False, False):
        return "it is not TF32 with both operands dense off the K axis"
    made = task.swapped()
    reason = mostly_empty(task) or tma_refusal(made.product, task.info, transposed=True)
    if reason is not None or request.candidates:
        return reason
    if any(map(is_size, (product.m, product.n, product.k, product.batches))):
        return "its sizes are not known"
    found = next(iter(choices(made)), None)
    if found is None:
        return "no tile fits shared memory"
    copied = next(iter(choices(made, turning=False))).cycles + _copying(product)
    better = _BETTER if product.batches == 1 or not _shared(product) else _REPEATED
    if copied < better * found.cycles:
        return "a copy of an operand takes less than its transposition in each tile"
    return None


def stage_works(task: Task, request: Request) -> Iterator[Work]:
    """Yield the works of a product that :func:`stage_refusal` accepts, the likeliest first."""
    made = task.swapped()
    for number, choice in enumerate(choices(made)[:_TIMED]):
        plan, parts = choice.plan, choice.parts
        name, group = f"transposed {plan.title}", int(number > 0)
        if choice.summed is not None:
            _, of = made.room(room_of(plan, choice.summed))
            launch = summed_task(of, plan, choice.summed)
            yield of.work(launch, name=f"{name} in {parts} summed parts", group=group)
            continue
        ahead = with_operands_ahead(plan, made.tail, made.info)
        if parts == 1:
            yield made.work(tma_launch(made, ahead), name=name, group=group)
            continue
        tiles, steps = cubes_of(made.product, plan), -(-made.product.k // plan.depth)
        _, of = made.room(tiles * parts * plan.rows * plan.columns * _SUM)
        launch = tma_launch(of, ahead, parts=Parts(tiles, parts, steps))
        yield of.work(launch, name=f"{name} in {parts} parts", group=group)


def choices(task: Task, *, turning: bool = True) -> list[Choice]:
    """Return the best parts of each tile, the one whose last core ends first before others.

    ``turning``: whether planes transpose B, which else lies along the K axis.
    """
    found = []
    for rows, columns, stages, band in _TILES:
        dtype = task.product.a.dtype
        plan = TmaPlan(dtype, task.product.dtype, rows, columns, stages, False, not turning, band)
        if lack(plan, task.info) is None:
            found.append(min(_of_tile(task, plan), key=lambda one: one.cycles))
    return sorted(found, key=lambda one: one.cycles)


def _of_tile(task: Task, plan: TmaPlan) -> Iterator[Choice]:
    """Yield whole tiles of a plan, and those in parts that cubes of one wave compute."""
    product, info = task.product, task.info
    tiles, steps = cubes_of(product, plan), -(-product.k // plan.depth)
    yield Choice(_cycles(task, plan, -(-tiles // info.cores), steps), plan)
    if not info.has("forward_progress"):
        return
    # The last cubes add parts of one product, without an epilogue, in pairs of rows.
    able = task.tail is None and not product.pitch and product.batches == 1 and product.m % 2 == 0
    most = min(info.cores // tiles, steps // STEPS)
    # Of many parts, eighths of the most: the estimate has one minimum, which is flat.
    counts = {*range(2, min(most, 2 * _FEW) + 1), *(most * n // 8 for n in range(1, 9))}
    for parts in sorted(count for count in counts if count > 1):
        of = summed(product, plan, parts, info) if able and parts > _FEW else None
        if of is not None or parts <= _FEW:
            # Of few parts the last one's sums stay in registers.
            written = parts if of is not None else parts - 1
            moved = 2 * _SUM * written * product.m * product.n * product.batches
            added = moved / (info.cores * MOVED) + -(-written // AHEAD) * LATENCY
            yield Choice(_cycles(task, plan, 1, -(-steps // parts)) + added, plan, parts, of)


def _cycles(task: Task, plan: TmaPlan, waves: int, steps: int) -> float:
    """Return the cycles of waves of tiles of some steps; not less than memory takes."""
    product, sums = task.product, plan.rows * plan.columns
    weight = 0 if task.tail is None else task.tail.expression.weight
    each = steps * LINE * byte_of(product, plan) + TILE + sums * (weight + _WRITING) / _LANES
    return float(max(waves * each, product.nbytes / _MEMORY))


def _copying(product: Product) -> float:
    """Return the cycles of a copy of the left operand, one for all products that share it."""
    count = product.m * product.k * (1 if _shared(product) else product.batches)
    return float(_LAUNCH + 2 * count * product.a.dtype.itemsize / _MEMORY)


def _shared(product: Product) -> bool:
    """Return whether all products have the same left operand."""
    return all(s == 0 or n == 1 for n, s in zip(product.batch, product.a.batch, strict=True))
