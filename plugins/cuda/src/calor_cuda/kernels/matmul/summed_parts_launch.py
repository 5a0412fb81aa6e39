"""Split-K in one launch whose last cubes add the parts: its plans, and how long they take.

Requirements: sizes are numbers, since the parts of symbolic ones would differ for each size. The
parts depend on the device and the sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from calor.dtypes import float32
from calor_cuda.kernels.matmul.summed_parts import AHEAD, WIDE, Summed
from calor_cuda.kernels.matmul.warpgroup_tma_launch import lines_of_result, tma_launch
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Input, Launch, Output, Scratch
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import cubes_of
from calor_kernel.library.matmul.task import Task

# For a core of an H200: bytes of products computed in a cycle, and bytes read from the cache; the
# overhead cycles of a tile and of adding, and the bytes of parts moved in a cycle.
COMPUTED, READ, TILE, MOVED = 4096, 40, 2500, 10
# Cycles in which a unit reads the parts that it reads at the same time.
LATENCY = 1200
# Minimum of steps of a part.
STEPS = 8
# Time in parts relative to another way's, from which the estimates tell that it is faster.
_FASTER = 0.9
_RESULT = Output(0)


def cycles_of(product: Product, plan: TmaPlan, of: Summed[int], info: DeviceInfo) -> float:
    """Return the cycles of a product in parts, with their addition."""
    moved = 2 * float32.itemsize * of.parts * product.m * product.n / (info.cores * MOVED)
    waited = -(-of.parts // AHEAD) * LATENCY
    return float(of.length * LINE * byte_of(product, plan) + TILE + moved + waited)


def byte_of(product: Product, plan: TmaPlan) -> float:
    """Return the cycles of a tile for a byte of the K axis."""
    read = (min(plan.rows, product.m) + min(plan.columns, product.n)) / READ
    return max(plan.rows * plan.columns * plan.crowding / COMPUTED, read)


def summed(product: Product, plan: TmaPlan, parts: int, info: DeviceInfo) -> Summed[int] | None:
    """Return the sum over all products in so many parts; None if it is not cut into those."""
    tiles = -(-product.m // plan.rows) * -(-product.n // plan.columns)
    steps = -(-product.k // plan.depth)
    whole = steps * product.batches
    length = -(-whole // parts)
    # A cube for each core at most: those that add are behind all others.
    if tiles * parts > info.cores or length < STEPS or (parts - 1) * length >= whole:
        return None
    slices = max(min(info.cores // tiles, plan.columns // 2 // WIDE), 1)
    return Summed(tiles, parts, length, steps, whole, slices)


def best_parts(product: Product, plan: TmaPlan, info: DeviceInfo) -> Summed[int] | None:
    """Return the parts that take least; None if cubes cannot wait, or there are enough tiles."""
    if not info.has("forward_progress"):
        return None
    found = [summed(product, plan, parts, info) for parts in range(2, info.cores + 1)]
    able = [of for of in found if of is not None]
    return min(able, key=lambda of: cycles_of(product, plan, of, info), default=None)


def summed_launch(
    product: Product,
    places: tuple[Input | Scratch, Input | Scratch],
    plan: TmaPlan,
    of: Summed[int],
    sums: Scratch,
    info: DeviceInfo,
    target: Output | Scratch = _RESULT,
) -> Launch:
    """Return the launch of the sum over all products, to a ``target`` of the plan's result dtype.

    ``sums``: the memory of the parts' sums, of as many bytes as :func:`room_of` tells.
    """
    if not lines_of_result(product, plan.transposed):
        plan = replace(plan, by_units=True)
    # The launch takes the last block of scratch memory for the sums.
    task = Task(product, places, info, scratch=(0,) * (sums.number + 1))
    return summed_task(task, plan, of, target)


def summed_task(
    task: Task, plan: TmaPlan, of: Summed[int], target: Output | Scratch = _RESULT
) -> Launch:
    """Return the launch of a task, whose last block of scratch memory is for the sums."""
    product = task.product
    made = tma_launch(task, plan, target, summed=of)
    result = product.m * product.n
    extra = 2 * of.parts * result * float32.itemsize
    repeated = (product.batches - 1) * result * product.dtype.itemsize
    return replace(made, nbytes=made.nbytes + extra - repeated)


def faster_parts(
    product: Product, plans: Iterable[TmaPlan], usual: TmaPlan, parts: int, info: DeviceInfo
) -> tuple[TmaPlan, Summed[int]] | None:
    """Return the tiles in parts that are faster than ``usual`` in ``parts``; None if none are."""
    if product.batches != 1 or any(map(is_size, (product.m, product.n, product.k))):
        return None
    found = [(plan, best_parts(product, plan, info)) for plan in plans]
    able = [(cycles_of(product, p, of, info), p, of) for p, of in found if of is not None]
    if not able:
        return None
    cycles, plan, of = min(able, key=lambda one: one[0])
    steps = -(-product.k // usual.depth)
    cubes = cubes_of(product, usual) * parts
    length = -(-cubes // info.cores) * -(-steps // parts)
    now = cycles_of(product, usual, Summed(1, parts, length, steps, steps, 1), info)
    return (plan, of) if cycles < _FASTER * now else None


def room_of(plan: TmaPlan, of: Summed[int]) -> int:
    """Return the bytes of the parts' sums."""
    return of.tiles * of.parts * plan.rows * plan.columns * int(float32.itemsize)
