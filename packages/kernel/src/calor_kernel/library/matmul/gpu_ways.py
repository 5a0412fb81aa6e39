"""The ways of products by cubes of many units: the family's table, and the plans of each way.

Requirements: the conditions of a way on sizes and strides are checked here, so that a kernel reads
in whole accesses. Tiles are as large as possible with one for each core. Products that no way suits
are left to :mod:`generic_tiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from calor.dtypes import bfloat16, float16, float32, int8, int32
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Way
from calor_kernel.contract.work import Dropped, Request, Work
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.gemm.simt_plan import FOUR, SUMS, SimtPlan, sums_of
from calor_kernel.library.matmul.generic_tiles import tiled, tiled_launch
from calor_kernel.library.matmul.operand_access import access_of, in_accesses
from calor_kernel.library.matmul.operand_transpose import turned
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import (
    Plan,
    along_of,
    by_waves,
    chosen,
    cubes_of,
    filling,
    lack,
    name_of,
    too_much,
)
from calor_kernel.library.matmul.simt_gemm import simt_launch
from calor_kernel.library.matmul.split_k_launch import few_parts, parts_in_one
from calor_kernel.library.matmul.split_k_two_pass import divided, parts_of
from calor_kernel.library.matmul.staged_mma import staged_launch
from calor_kernel.library.matmul.task import Task
from calor_kernel.library.matmul.warp_mma import instruction_of, warp_mma_launch
from calor_kernel.library.matmul.warpgroup_tma import TmaPlan
from calor_kernel.library.matmul.warpgroup_tma_launch import tma_launch, tma_refusal

# Smaller products leave most of a tile empty.
_LEAST = 64
_NEEDED = ("matrix", "load_matrix", "async_copy", "barrier", "planes")
_GROUPED = ("async_matrix", "async_copy", "barrier", "planes")
_COPIED = ("async_matrix", "tensor_copy", "mbarrier")
# With fewer rows or columns a product is faster than a transpose of its operands.
_WORTH = 512
_HALVES = (float16, bfloat16)
# For each way the plans of the cost model, by sizes alone, and further ones for timing: rows and
# columns of a tile, terms of a step, planes down and across, stages.
_FRAGMENTS = ((128, 256, 32, 2, 4, 4), (128, 128, 32, 2, 2, 4), (64, 64, 64, 2, 2, 3))
_MORE_FRAGMENTS = ((128, 64, 32, 2, 2, 4), (64, 128, 32, 2, 2, 4), (128, 128, 64, 2, 2, 3))
# Plans of warp groups, each with 64 rows and all columns.
_GROUPS = ((128, 128, 64, 8, 1, 3), (64, 64, 64, 4, 1, 4))
# Rows and columns of a tile, stages, and the rows of tiles that are computed at the same time.
# Stages fill the shared memory: loads in flight bound the speed of small tiles. The value is the
# rate, measured in bfloat16 on an H200.
_BOXES: Final[Mapping[tuple[int, ...], float]] = {
    (128, 256, 4, 16): 1.0,
    (192, 128, 4, 16): 0.966,
    (128, 192, 4, 16): 0.966,
    (128, 128, 6, 16): 0.941,
    (64, 128, 8, 16): 0.763,
    (64, 64, 8, 16): 0.523,
}
# Tiles for split-K in one launch.
_SHARED = ((128, 256, 4, 16), (128, 128, 6, 16), (64, 128, 8, 16))
# Tiles for split-K in two passes, if there are few tiles; the bytes of the K axis from which small
# tiles in parts are faster than smaller tiles, and from which larger tiles in parts are faster than
# those.
_DIVIDED = ((64, 128, 8, 16), (128, 128, 6, 16))
_SMALL, _SMALLEST = (64, 128, 8, 16), (64, 64, 8, 16)
_DEEP, _LONG = 8 << 10, 32 << 10
# Units down and across, register tiles of each down and across, terms of a step, stages of
# asynchronous copies, the order of sums, and whether loads are early. The value is the rate,
# measured on an H200: with CUDA, and without asynchronous copies with OpenCL, whose units have few
# sums, and with Vulkan, whose units have many.
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
        (16, 16, 4, 2, 8, 0, "row pairs", True): 1.0,
        (16, 16, 2, 2, 8, 0, "row pairs"): 0.855,
        (16, 16, 1, 2, 16, 0, "row pairs", True): 0.71,
        (16, 8, 1, 2, 16): 0.69,
    },
)
# The best order for a register tile was found by counting the register reads of a Hopper GPU in the
# compiled code, since compilers preserve some orders better than others.
_MORE_PATCHES: Final[tuple[tuple[Any, ...], ...]] = (
    *((16, 16, 4, 2, 8, 0, "row pairs", True), (16, 16, 4, 2, 8, 0, "columns", True)),
    *((16, 16, 2, 4, 8, 0, "row pairs", True), (16, 16, 2, 4, 8, 0, "column pairs", True)),
    *((16, 16, 2, 4, 16, 3), (16, 16, 2, 4, 8), (8, 16, 2, 4, 8)),
    *((16, 16, 2, 2, 8), (16, 16, 2, 2, 8, 0, "row pairs", True), (16, 16, 2, 2, 16)),
    *((8, 16, 2, 2, 8), (16, 8, 2, 2, 8), (16, 16, 1, 1, 16), (8, 8, 2, 2, 16)),
)
# Units across and down, sums of each down and across.
_TILED = ((16, 8, 4, 4), (16, 8, 2, 2), (16, 16, 4, 4), (8, 8, 4, 4), (16, 8, 4, 2), (8, 8, 2, 2))

Works = Iterator[Work | Dropped]
_SUM = 4  # Bytes.


def _rounded(product: Product) -> bool:
    """Return whether a product is of float32 operands that may be rounded to TF32."""
    return product.tf32 and _single(product)


def _single(product: Product) -> bool:
    return product.a.dtype is product.b.dtype is product.dtype is float32


def _halves(product: Product) -> bool:
    dtype = product.a.dtype
    same = product.b.dtype is dtype and product.dtype in (dtype, float32)
    return same and dtype in _HALVES


def _bytes(product: Product) -> bool:
    integers = product.a.dtype is product.b.dtype is int8 and product.dtype is int32
    return product.formats is not None or integers


def _small(product: Product) -> str | None:
    if product.m < _LEAST or product.n < _LEAST:
        return f"with fewer than {_LEAST} rows or columns most of a tile would be empty"
    return None


def _warp_mma_refusal(task: Task, request: Request) -> str | None:
    if instruction_of(task.product, task.info) is None:
        return "the device has no such matrix instruction for these types"
    return _small(task.product)


def _tma_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not (_rounded(product) or _halves(product) or _bytes(product)):
        return "no asynchronous matrix instruction takes its types"
    return _small(product) or tma_refusal(product, task.info)


def _split_refusal(task: Task, request: Request) -> str | None:
    reason = _tma_refusal(task, request)
    if reason is None and not request.candidates and _usual_parts(task) is None:
        return "there are enough tiles, or one launch does it"
    return reason


def _register_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not _rounded(product) or along_of(product) != (True, False):
        return "it is not TF32 with a dense along K and b along its columns"
    return _small(product) or tma_refusal(product.swapped(), task.info, transposed=True)


def _transpose_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not (_rounded(product) or _bytes(product)) or all(along_of(product)):
        return "the instruction reads both operands as they lie, or not at all"
    if not all(map(task.info.has, _COPIED)):
        return "the device has no copy engine, or no products beside its units"
    return _small(product)


def _staged_refusal(task: Task, request: Request) -> str | None:
    product, info = task.product, task.info
    if not (_rounded(product) or _halves(product)):
        return "no matrix instruction takes its types"
    plain = all(map(info.has, _NEEDED))
    if info.planes[0] != 32 or not (plain or (_halves(product) and all(map(info.has, _GROUPED)))):
        return "the device has no matrix instructions with asynchronous copies"
    if not in_accesses(product, access_of(product)):
        return "its lines are not of whole accesses"
    return _small(product)


def _simt_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not _single(product):
        return "it is not of float32"
    if not task.info.has("barrier"):
        return "units of a cube cannot wait for each other"
    if not in_accesses(product, FOUR):
        return "its lines are not of whole accesses"
    return _small(product)


def _tiled_refusal(task: Task, request: Request) -> str | None:
    return "it reads no float8" if task.product.formats is not None else None


def _warp_mma(task: Task, request: Request) -> Works:
    yield task.work(warp_mma_launch(task), name="squares")


def _simt(task: Task, request: Request) -> Works:
    product, info = task.product, task.info
    along, sums = along_of(product), sums_of(info)
    few, many = _LOADED
    loaded = many if sums >= SUMS else few
    table = _AHEAD if info.has("async_copy") else loaded
    rates = {_patches(made, along): rate for made, rate in table.items()}
    rates = {plan: rate for plan, rate in rates.items() if len(plan.numbers) <= sums}
    first = by_waves(rates, product, info)
    more = [_patches(made, along) for made in _MORE_PATCHES] if request.candidates else []
    more = [plan for plan in more if len(plan.numbers) <= sums]
    yield from chosen(first, rates, more, info, _one(task, simt_launch))


def _one(task: Task, launch: Callable[..., Any]) -> Callable[..., Work]:
    """Return what makes the work of a plan, of one launch."""
    return lambda plan, name, group: task.work(launch(task, plan), name=name, group=group)


def _patches(made: tuple[Any, ...], along: tuple[bool, bool]) -> SimtPlan:
    down, across, high, wide, depth, *others = made
    return SimtPlan(down, across, high, wide, depth, *along, *others)


def _boxes(product: Product, made: tuple[int, ...]) -> TmaPlan:
    rows, columns, stages, band = made
    types, along = (product.a.dtype, product.dtype), along_of(product)
    return TmaPlan(*types, rows, columns, stages, *along, band, product.formats)


def _tma(task: Task, request: Request) -> Works:
    """Yield split-K in one launch, if there are few tiles, and whole tiles."""
    product, info = task.product, task.info
    usual = _parted(product, info)
    if usual is not None and not few_parts(product, usual, info):
        usual = None
    shared = [_boxes(product, tile) for tile in _SHARED] if request.candidates else []
    for plan in dict.fromkeys([usual, *shared] if usual else shared):
        parts = parts_in_one(product, plan, info)
        if parts is None or lack(plan, info) is not None or _sparse(product, plan):
            continue
        name = f"{name_of(plan)} split-K"
        if not info.has("forward_progress"):
            yield Dropped(name, "cubes may not go on while others wait for them")
            continue
        _, made = task.room(parts.cubes * plan.rows * plan.columns * _SUM)
        launch = tma_launch(made, plan, parts=parts)
        yield made.work(launch, name=name, group=0 if plan == usual else 1)
    rates = {_boxes(product, tile): rate for tile, rate in _BOXES.items()}
    yield from chosen(by_waves(rates, product, info), rates, (), info, _one(task, tma_launch))


def _sparse(product: Product, plan: Plan) -> bool:
    """Return whether half of a tile is empty."""
    return plan.rows >= 2 * product.m or plan.columns >= 2 * product.n


def _fills(product: Product, plan: Plan, info: DeviceInfo) -> bool:
    """Return whether tiles of a plan fill the device and are at least half full."""
    # A few idle cores cost less than the additional reads of smaller tiles.
    return not _sparse(product, plan) and 5 * cubes_of(product, plan) >= 4 * info.cores


def _parted(product: Product, info: DeviceInfo) -> TmaPlan | None:
    """Return the first tile for split-K; None if whole tiles are as fast."""
    # If there are few of the smallest tiles; and if the axis is so long that larger tiles in parts
    # save more than the exchange of sums costs.
    nbytes = product.k * product.a.dtype.itemsize
    small, smallest = (_fills(product, _boxes(product, tile), info) for tile in (_SMALL, _SMALLEST))
    few = not smallest or (not small and exceeds(nbytes, _DEEP - 1))
    long = not few and exceeds(nbytes, _LONG - 1)
    if not few and not long:
        return None
    for tile in _DIVIDED[:: -1 if long else 1]:
        plan = _boxes(product, tile)
        fits = not _sparse(product, plan) and lack(plan, info) is None
        if fits and parts_of(product, cubes_of(product, plan), info) > 1:
            return plan
    return None


def _usual_parts(task: Task) -> TmaPlan | None:
    """Return the first tile for split-K in two passes, if one launch does not know the parts."""
    plan = _parted(task.product, task.info)
    return None if plan is None or few_parts(task.product, plan, task.info) else plan


def _two_passes(task: Task, request: Request) -> Works:
    """Yield large tiles, of which there are few, with the K axis in parts."""
    product, info = task.product, task.info
    usual = _usual_parts(task)
    plans = [_boxes(product, tile) for tile in _DIVIDED] if request.candidates else []
    for plan in dict.fromkeys([usual, *plans] if usual else plans):
        many = parts_of(product, cubes_of(product, plan), info)
        if many == 1 or lack(plan, info) is not None:
            continue
        made, target, after = divided(task, many)
        reason = tma_refusal(made.product, info)
        name = f"{name_of(plan)} in {many} parts"
        if reason is not None:
            yield Dropped(name, reason)
            continue
        launch = tma_launch(made, replace(plan, result=made.product.dtype), target)
        yield made.work(launch, after, name=name, group=0 if plan == usual else 1)


def _register_a(task: Task, request: Request) -> Works:
    """Yield TMA plans for the product of the transposes; A is read from registers."""
    return _named("transposed", _tma(task.swapped(), request))


def _named(word: str, works: Works, group: int = 0) -> Works:
    """Yield works with a word before their names, in later groups."""
    for one in works:
        name = f"{word} {one.variant}"
        if isinstance(one, Dropped):
            yield replace(one, variant=name)
        else:
            yield replace(one, variant=name, group=one.group + group)


def _transpose(task: Task, request: Request) -> Works:
    """Yield TMA plans of copied operands, if an operand has not the instruction's layout."""
    product = task.product
    # In float32 one operand may be dense along the other axis.
    one = product.dtype is float32 and along_of(product) == (False, False)
    made = turned(task, right=not one)
    after = made.product.swapped() if one else made.product
    reason = tma_refusal(after, task.info, transposed=one)
    if reason is not None:
        yield Dropped("turned boxes", reason)
        return
    works = _register_a(made, request) if one else _tma(made, request)
    yield from _named("turned", works, 0 if _worth_turning(product, one) else 1)


def _worth_turning(product: Product, one: bool) -> bool:
    """Return whether a copy, with the cost of some rows or columns, saves more than that.

    ``one``: whether the left operand alone is copied.
    """
    alike = all(s == 0 or n == 1 for n, s in zip(product.batch, product.a.batch, strict=True))
    if one and alike and exceeds(product.batches, 1):
        # The columns of all products share the copy, as images share weights.
        return exceeds(product.n * product.batches, _WORTH)
    return exceeds(product.m, _WORTH) and exceeds(product.n, _WORTH)


def _staged(task: Task, request: Request) -> Works:
    product, info = task.product, task.info
    dtype, along = product.a.dtype, along_of(product)
    work = _one(task, staged_launch)
    if _halves(product) and all(map(info.has, _GROUPED)):
        usual = [MmaPlan(dtype, *made, *along, grouped=True) for made in _GROUPS]
        # Two of these cubes share a core; a smaller tile's reads cost more than a few idle cores.
        first = filling(usual, info, lambda plan: 4 * cubes_of(product, plan) >= info.cores)
        yield from chosen(first, usual, (), info, work)
    if all(map(info.has, _NEEDED)):
        usual = [MmaPlan(dtype, *made, *along) for made in _FRAGMENTS]
        more = [MmaPlan(dtype, *made, *along) for made in _MORE_FRAGMENTS]
        first = filling(usual, info, lambda plan: cubes_of(product, plan) >= info.cores)
        yield from chosen(first, usual, more, info, work)


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


WAYS: Final[tuple[Way[Task], ...]] = (
    Way("warp MMA", _warp_mma_refusal, _warp_mma),
    Way("split-K in two passes", _split_refusal, _two_passes),
    Way("warp-group TMA", _tma_refusal, _tma),
    Way("register A", _register_refusal, _register_a),
    Way("operand transpose", _transpose_refusal, _transpose, spare=True),
    Way("staged MMA", _staged_refusal, _staged, spare=True),
    Way("SIMT GEMM", _simt_refusal, _simt, spare=True),
    Way("tiles", _tiled_refusal, _tiled, tier=2),
)
