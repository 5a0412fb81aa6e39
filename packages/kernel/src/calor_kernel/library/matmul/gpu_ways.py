"""The ways of products by cubes of many units: the family's table, and the plans of each way.

Requirements: the conditions of a way on sizes and strides are checked here, so that a kernel reads
in whole accesses. Tiles are as large as possible with one for each core. Products that no way suits
are left to :mod:`generic_tiles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from calor.dtypes import float64
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Table, Way
from calor_kernel.contract.work import Dropped, Request, Work
from calor_kernel.library.gemm.mma import ACCESS, MmaPlan
from calor_kernel.library.gemm.simt_plan import FOUR, SUMS, SimtPlan, sums_of
from calor_kernel.library.matmul import (
    cooperative_products,
    predicated_mma,
    predicated_simt,
    skinny_mma,
    unit_blocks,
    unit_sums,
)
from calor_kernel.library.matmul.gemv_plan import gemv_parts, gemv_plan
from calor_kernel.library.matmul.gemv_planes import gemv_launches
from calor_kernel.library.matmul.generic_tiles import tiled, tiled_launch
from calor_kernel.library.matmul.operand_padding import dense
from calor_kernel.library.matmul.predicated_mma import mma_launches
from calor_kernel.library.matmul.predicated_simt import predicated_simt_launches, simt_plan
from calor_kernel.library.matmul.problem import Product, in_accesses
from calor_kernel.library.matmul.ranking import (
    by_plan,
    by_turns,
    by_waves,
    chosen,
    cubes_of,
    divided,
    filling,
    lack,
    sparse,
    too_much,
    too_small,
)
from calor_kernel.library.matmul.simt_gemm import simt_in_parts, simt_launch
from calor_kernel.library.matmul.staged_mma import staged_launch
from calor_kernel.library.matmul.task import Task
from calor_kernel.library.matmul.warp_mma import instruction_of, warp_mma_launch

_NEEDED = ("matrix", "load_matrix", "async_copy", "barrier", "planes")
_GROUPED = ("async_matrix", "async_copy", "barrier", "planes")
# The rows or columns up to which GEMV is the first choice: before matrix instructions, before SIMT
# tiles, and before tiles of any type.
_BEFORE_MMA, _BEFORE_SIMT, _BEFORE_TILES = 4, 8, 32
# The same where other ways copy an operand first, of which they read the whole.
_ALONE = 16
# The same before matrix instructions of planes, where memory and not a cache has the matrix: of
# more rows the multiply-adds of units take longer than its loads.
_BEYOND_CACHE = 2
# For each way the plans of the cost model, by sizes alone, and further ones for timing: rows and
# columns of a tile, terms of a step, planes down and across, stages.
# The value is the rate.
_FRAGMENTS: Final[Mapping[tuple[int, int, int, int, int, int], float]] = {
    (128, 256, 32, 2, 4, 4): 1.0,
    (128, 128, 32, 2, 2, 4): 0.95,
    (64, 64, 64, 2, 2, 3): 0.8,
}
_MORE_FRAGMENTS = ((128, 64, 32, 2, 2, 4), (64, 128, 32, 2, 2, 4), (128, 128, 64, 2, 2, 3))
# Plans of warp groups, each with 64 rows and all columns.
_GROUPS = ((128, 128, 64, 8, 1, 3), (64, 64, 64, 4, 1, 4))
# Units down and across, register tiles of each down and across, terms of a step, stages of
# asynchronous copies, the order of sums, and whether loads are early. The value is the rate,
# measured on an H200: with CUDA, with OpenCL, whose units have few sums, and without asynchronous
# copies with Vulkan, whose units have many.
_AHEAD: Final[Mapping[tuple[Any, ...], float]] = {
    (16, 16, 4, 2, 8, 0, "rows", True): 1.0,
    (16, 16, 2, 2, 8, 0, "row pairs"): 0.96,
    (16, 16, 1, 2, 16, 3): 0.92,
    (16, 8, 1, 2, 16, 3): 0.867,
}
_LOADED: Final[tuple[Mapping[tuple[Any, ...], float], ...]] = (
    {
        (16, 16, 2, 2, 8, 0, "rows", True): 1.0,
        (16, 16, 1, 2, 16, 0, "row pairs", True): 0.95,
        (16, 8, 1, 2, 16): 0.94,
    },
    {
        (8, 16, 2, 2, 8, 0, "row pairs", True): 1.0,
        (16, 16, 4, 2, 8, 0, "row pairs", True): 0.91,
        (16, 16, 2, 2, 8, 0, "row pairs", True): 0.93,
        (16, 16, 1, 2, 16, 0, "row pairs", True): 0.85,
        (16, 8, 1, 2, 16): 0.87,
    },
)
# Without asynchronous copies, the plan of sums of so few terms: their steps are few, and more units
# hide the time of their loads. On an H200 by Vulkan, sums of 128 terms take 0.77 of the time of the
# plans above so, and those of 64 terms 0.91.
_SHORT: Final = (16, 16, 1, 1, 16)
_SHORT_TERMS: Final = 128
# The best order for a register tile was found by counting the register reads of a Hopper GPU in the
# compiled code, since compilers preserve some orders better than others.
_MORE_PATCHES: Final[tuple[tuple[Any, ...], ...]] = (
    *((16, 16, 4, 2, 8, 0, "row pairs", True), (16, 16, 4, 2, 8, 0, "columns", True)),
    *((16, 16, 2, 4, 8, 0, "row pairs", True), (16, 16, 2, 4, 8, 0, "column pairs", True)),
    *((16, 16, 2, 4, 16, 3), (16, 16, 2, 4, 8), (8, 16, 2, 4, 8)),
    *((16, 16, 2, 2, 8), (16, 16, 2, 2, 8, 0, "row pairs", True), (16, 16, 2, 2, 16)),
    *((8, 16, 2, 2, 8), (16, 8, 2, 2, 8), (16, 16, 1, 1, 16), (8, 8, 2, 2, 16)),
)
# A launch of fewer multiplications takes as long by any way.
_FEW_TERMS: Final = 1 << 14
# Units across and down, sums of each down and across.
_TILED = ((16, 8, 4, 4), (16, 8, 2, 2), (16, 16, 4, 4), (8, 8, 4, 4), (16, 8, 4, 2), (8, 8, 2, 2))

Works = Iterator[Work | Dropped]


def _unit_sums_refusal(task: Task, request: Request) -> str | None:
    reason = unit_sums.refusal(task.product)
    return None if reason is None or unit_blocks.refusal(task.product) is None else reason


def _unit_sums(task: Task, request: Request) -> Works:
    if unit_sums.refusal(task.product) is None:
        yield task.work(unit_sums.unit_sums_launch(task), name="unit sums")
    else:
        yield task.work(unit_blocks.unit_blocks_launch(task), name="unit blocks")


def _team_sums_refusal(task: Task, request: Request) -> str | None:
    return cooperative_products.refusal(task.product, task.info)


def _team_sums(task: Task, request: Request) -> Works:
    yield task.work(cooperative_products.team_sums_launch(task), name="team sums")


def _gemv_refusal(task: Task, request: Request) -> str | None:
    product, info = task.product, task.info
    if product.formats is not None:
        return "it reads no float8"
    # The order of its sums follows the layout, which may differ op by op and compiled. Tiles keep
    # one order: in float64, and where GEMV saves no time.
    if product.dtype is float64 or product.batches * product.m * product.n * product.k < _FEW_TERMS:
        return "the order of its sums depends on the layout"
    if not (info.has("barrier") and info.has("planes")):
        return "units of a cube cannot add their sums"
    most = _BEFORE_SIMT if product.single else _BEFORE_TILES
    if task.alone:
        most = _ALONE
    elif _by_planes(product, info):
        most = _BEFORE_MMA
        if skinny_mma.refusal(product) is None and skinny_mma.is_beyond(product):
            most = _BEYOND_CACHE
    if min(product.m, product.n) > most:
        return f"it has more than {most} rows and columns"
    return None


def _gemv(task: Task, request: Request) -> Works:
    """Yield GEMV, for the transposes if those have fewer rows."""
    turned = task.product.n < task.product.m
    made = task.swapped() if turned else task
    plan = gemv_plan(made.product, task.info)
    parts = gemv_parts(made.product, plan, task.info)
    made, launches = gemv_launches(made, plan, parts, turned)
    yield made.work(*launches, name="gemv")


def _by_planes(product: Product, info: DeviceInfo) -> bool:
    """Return whether matrix instructions of a plane take a product's types."""
    fits = info.planes[0] == 32 and all(map(info.has, _NEEDED))
    return fits and (product.halves or product.rounded)


def _warp_mma_refusal(task: Task, request: Request) -> str | None:
    if instruction_of(task.product, task.info) is None:
        return "the device has no such matrix instruction for these types"
    return too_small(task.product)


def _staged_refusal(task: Task, request: Request) -> str | None:
    product, info = task.product, task.info
    if not (product.rounded or product.halves):
        return "no matrix instruction takes its types"
    plain = all(map(info.has, _NEEDED))
    if info.planes[0] != 32 or not (plain or (product.halves and all(map(info.has, _GROUPED)))):
        return "the device has no matrix instructions with asynchronous copies"
    if not in_accesses(product, ACCESS // product.a.dtype.itemsize):
        return "its lines are not of whole accesses"
    return too_small(product)


def _simt_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not product.single:
        return "it is not of float32"
    if not task.info.has("barrier"):
        return "units of a cube cannot wait for each other"
    if not in_accesses(product, FOUR):
        return "its lines are not of whole accesses"
    return too_small(product)


def _skinny_refusal(task: Task, request: Request) -> str | None:
    if not _by_planes(task.product, task.info):
        return "no matrix instruction of the device's planes takes its types"
    return "it has no terms" if task.product.k == 0 else skinny_mma.refusal(task.product)


def _skinny(task: Task, request: Request) -> Works:
    """Yield the plans of few rows, the one that takes least first."""
    product, info = task.product, task.info
    first = skinny_mma.skinny_plan(product, info)
    if first is None:
        yield Dropped("skinny MMA", "parts of the K axis and their sums, or whole tiles, take less")
    more = skinny_mma.plans_of(product, info) if request.candidates else ()
    for plan in dict.fromkeys((first, *more)):
        if plan is None or plan.shared_bytes > info.shared_bytes:
            continue
        made, launches = skinny_mma.skinny_launches(task, plan)
        yield made.work(*launches, name=plan.title, group=int(plan != first))


def _predicated_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not _by_planes(product, task.info):
        return "no matrix instruction of the device's planes takes its types"
    return "it has no terms" if product.k == 0 else None


def _divided_mma_refusal(task: Task, request: Request) -> str | None:
    reason = _predicated_refusal(task, request) or too_small(task.product)
    if reason is None and not predicated_mma.idle(task.product, task.info):
        return "there are enough tiles, or few terms"
    return reason


def _divided_refusal(task: Task, request: Request) -> str | None:
    reason = _predicated_simt_refusal(task, request) or too_small(task.product)
    if reason is None and not predicated_simt.idle(task.product, task.info):
        return "there are enough tiles, or few terms"
    return reason


def _predicated_simt_refusal(task: Task, request: Request) -> str | None:
    if not task.product.single:
        return "it is not of float32"
    if not task.info.has("barrier"):
        return "units of a cube cannot wait for each other"
    return None


def _tiled_refusal(task: Task, request: Request) -> str | None:
    return "it reads no float8" if task.product.formats is not None else None


def _warp_mma(task: Task, request: Request) -> Works:
    yield task.work(warp_mma_launch(task), name="warp MMA")


def _predicated(task: Task, request: Request) -> Works:
    made, launches = mma_launches(dense(task))
    yield made.work(*launches, name="predicated MMA")


def _predicated_simt(task: Task, request: Request) -> Works:
    plan = simt_plan(task.product, task.info)
    if plan is not None:
        made, launches = predicated_simt_launches(task, plan)
        yield made.work(*launches, name="predicated SIMT")


def _simt(task: Task, request: Request) -> Works:
    product, info = task.product, task.info
    along, sums = product.along, sums_of(info)
    few, many = _LOADED
    table = few if sums < SUMS else _AHEAD if info.has("async_copy") else many
    rates = {_patches(made, along): rate for made, rate in table.items()}
    rates = {plan: rate for plan, rate in rates.items() if len(plan.numbers) <= sums}
    parts = divided(rates, product, info)
    if parts is not None:
        plan, count = parts
        made, launches = simt_in_parts(task, plan, count)
        yield made.work(*launches, name=f"{plan.kind}, divided")
    first = by_waves(rates, product, info)
    if table is many and not exceeds(product.k, _SHORT_TERMS):
        short = _patches(_SHORT, along)
        first = first if lack(short, info) is not None else short
    more = [_patches(made, along) for made in _MORE_PATCHES] if request.candidates else []
    more = [plan for plan in more if len(plan.numbers) <= sums]
    yield from chosen(first, rates, more, info, by_plan(task, simt_launch))


def _patches(made: tuple[Any, ...], along: tuple[bool, bool]) -> SimtPlan:
    down, across, high, wide, depth, *others = made
    return SimtPlan(down, across, high, wide, depth, *along, *others)


def _staged(task: Task, request: Request) -> Works:
    product, info = task.product, task.info
    dtype, along = product.a.dtype, product.along
    work = by_plan(task, staged_launch)
    if product.halves and all(map(info.has, _GROUPED)):
        usual = [MmaPlan(dtype, *made, *along, grouped=True) for made in _GROUPS]
        # Two of these cubes share a core; a smaller tile's reads cost more than a few idle cores.
        first = filling(
            usual,
            info,
            lambda plan: not sparse(product, plan) and 4 * cubes_of(product, plan) >= info.cores,
        )
        yield from chosen(first, usual, (), info, work)
    if all(map(info.has, _NEEDED)):
        rates = {MmaPlan(dtype, *made, *along): rate for made, rate in _FRAGMENTS.items()}
        more = [MmaPlan(dtype, *made, *along) for made in _MORE_FRAGMENTS]
        yield from chosen(by_turns(rates, product, info), rates, more, info, work)


def _tiled(task: Task, request: Request) -> Works:
    """Yield tiles for any product."""
    info, base = task.info, tiled(task.product)
    yield task.work(tiled_launch(task, base), name="tiled")
    for across, down, rows, columns in _TILED:
        plan = replace(base, across=across, down=down, rows=rows, columns=columns)
        name = f"tiled {rows}x{columns} by {down}x{across}"
        reason = too_much(across * down, plan.shared_bytes, info)
        if across > info.max_cube[0] or down > info.max_cube[1]:
            reason = f"cubes are {info.max_cube} units at most"
        if reason is not None:
            yield Dropped(name, reason)
        elif plan != base:
            yield task.work(tiled_launch(task, plan), name=name, group=1)


WAYS: Final[Table[Task]] = Table(
    "matmul",
    Way("team sums", _team_sums_refusal, _team_sums),
    Way("unit sums", _unit_sums_refusal, _unit_sums),
    Way("GEMV", _gemv_refusal, _gemv),
    Way("skinny MMA", _skinny_refusal, _skinny),
    Way("warp MMA", _warp_mma_refusal, _warp_mma),
    Way("MMA split-K", _divided_mma_refusal, _predicated),
    Way("staged MMA", _staged_refusal, _staged, spare=True),
    Way("predicated MMA", _predicated_refusal, _predicated, spare=True),
    Way("SIMT split-K", _divided_refusal, _predicated_simt),
    Way("SIMT GEMM", _simt_refusal, _simt, spare=True),
    Way("predicated SIMT", _predicated_simt_refusal, _predicated_simt, spare=True),
    Way("tiles", _tiled_refusal, _tiled, tier=2),
)
