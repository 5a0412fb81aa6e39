"""The ways of products by TMA and asynchronous warp-group instructions: rows of "matmul".

Requirements: the conditions of a way on sizes and strides are checked here, so that a kernel reads
in whole accesses. Tiles are as large as possible with one for each core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from calor.dtypes import DType, float32
from calor_cuda.kernels.matmul.epilogue_operands import with_operands_ahead
from calor_cuda.kernels.matmul.operand_transpose import turned
from calor_cuda.kernels.matmul.split_k_launch import few_parts, parts_in_one
from calor_cuda.kernels.matmul.split_k_two_pass import divided, parts_of, sums_of
from calor_cuda.kernels.matmul.stage_transpose import stage_refusal, stage_works
from calor_cuda.kernels.matmul.summed_parts import Summed
from calor_cuda.kernels.matmul.summed_parts_launch import faster_parts, room_of, summed_task
from calor_cuda.kernels.matmul.tile_times import first_plan
from calor_cuda.kernels.matmul.warpgroup_tma_launch import lines_of_result, tma_launch, tma_refusal
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Row, Way
from calor_kernel.contract.work import Dropped, Request, Work
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.matmul.operand_padding import padded, ready
from calor_kernel.library.matmul.predicated_mma import COPIED, mma_plan
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import (
    by_plan,
    chosen,
    cubes_of,
    lack,
    mostly_empty,
    sparse,
    too_small,
)
from calor_kernel.library.matmul.task import Task

_COPIED = ("async_matrix", "tensor_copy", "mbarrier")
# With fewer rows or columns a product is faster than a transpose of its operands.
_WORTH = 512
# Rows and columns of a tile, stages, the rows of tiles that are computed at the same time, and
# whether it is ping-pong. Stages fill the shared memory: loads in flight bound the speed of small
# tiles. The value is the rate, measured in bfloat16 on an H200, of the last four on an H100.
_BOXES: Final[Mapping[tuple[int, ...], float]] = {
    (128, 256, 4, 16): 1.0,
    (192, 128, 4, 16): 0.966,
    (128, 192, 4, 16): 0.966,
    (128, 128, 6, 16): 0.941,
    (64, 128, 8, 16): 0.763,
    (64, 64, 8, 16): 0.523,
    (192, 192, 3, 16): 0.95,
    (64, 256, 4, 16, True): 0.9,
    (64, 192, 5, 16, True): 0.85,
    (64, 128, 7, 16, True): 0.763,
}
# Tiles for split-K in one launch.
_SHARED = ((128, 256, 4, 16), (128, 128, 6, 16), (64, 128, 8, 16))
# Tiles for split-K in two passes, if there are few tiles; the bytes of the K axis from which small
# tiles in parts are faster than smaller tiles, and from which larger tiles in parts are faster than
# those.
_DIVIDED = ((64, 128, 8, 16), (128, 128, 6, 16))
# Tiles in parts of which the last cubes add the sums, and the sums that a unit writes together.
_PAIR = 2
_SUMMED = ((64, 128, 8, 16), (64, 256, 4, 16), (128, 128, 6, 16), (128, 256, 4, 16))
_SMALL, _SMALLEST = (64, 128, 8, 16), (64, 64, 8, 16)
_DEEP, _LONG = 8 << 10, 32 << 10

# The rate of products with a stage less, relative to that of large tiles with this many.
_FEWER, _DEEPEST = 0.87, 4

# What TMA saves for an operation, of float32 if rounded, and what copies cost: seconds in 1e-17, by
# the rates of an H200.
_PER_FLOP: Final[Mapping[bool, int]] = {False: 700, True: 1_200}
_PER_BYTE, _PER_COPY = 66_667, 150_000_000_000
# Units of cubes that share a core, at most.
_SHARING = 128
# The terms that a tile could multiply while its first elements are copied through registers.
_THROUGH_REGISTERS = 64

Works = Iterator[Work | Dropped]
_SUM = 4  # Bytes.
_FAR = 1 << 31
_FEW = 4  # Parts that the cube of a tile's last part adds.
_CROWDED = 4  # Bytes of an element of all matrices that an epilogue reads.


def _tma_refusal(task: Task, request: Request) -> str | None:
    return _refused(task, task.product.dtype, by_units=True, slim=True)


def _refused(
    task: Task, written: DType, *, by_units: bool = False, slim: bool = False
) -> str | None:
    """Return why no tile of a product can be written in a dtype, None if it can.

    ``slim``: whether tiles may be as little as half full, if there is one for each core.
    """
    product = task.product
    if not (product.rounded or product.halves or product.narrow):
        return "no asynchronous matrix instruction takes its types"
    if task.tail is not None and task.tail.reach(product.batches, product.m, product.n) >= _FAR:
        return "positions of what its epilogue reads and writes have more than 31 bits"
    by_units = by_units and not product.pitch
    empty = mostly_empty(task)
    slim = slim and empty is not None
    if slim and any(_fills(product, _boxes(product, t), task.info) for t in (_SMALL, _SMALLEST)):
        empty = None
    return empty or tma_refusal(replace(product, dtype=written), task.info, by_units=by_units)


def _split_refusal(task: Task, request: Request) -> str | None:
    # Sums are wider than the result, so their rows may be aligned where the result's are not.
    reason = _refused(task, sums_of(task.product.dtype))
    usual = _usual_parts(task)
    if reason is None and not request.candidates and usual is None:
        return "there are enough tiles, or one launch does it"
    return reason


def _register_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not product.rounded or product.along != (True, False):
        return "it is not TF32 with a dense along K and b along its columns"
    return mostly_empty(task) or tma_refusal(product.swapped(), task.info, transposed=True)


def _transpose_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not (product.rounded or product.narrow) or all(product.along):
        return "the instruction reads both operands as they lie, or not at all"
    if not all(map(task.info.has, _COPIED)):
        return "the device has no TMA, or no asynchronous matrix instruction"
    return mostly_empty(task)


def _padding_refusal(task: Task, request: Request) -> str | None:
    product = task.product
    if not (product.rounded or product.halves or product.narrow):
        return "no asynchronous matrix instruction takes its types"
    if not all(map(task.info.has, _COPIED)):
        return "the device has no TMA, or no asynchronous matrix instruction"
    if not request.candidates and not _worth_padding(product, task.info):
        return "copies of its operands cost more than they save, or none is needed"
    return too_small(product)


def _worth_padding(product: Product, info: DeviceInfo) -> bool:
    """Return whether copies of operands cost less than elements copied one by one."""
    along = _along(product)
    both = ((product.a, product.m), (product.b, product.n))
    copied = [
        size * product.k * product.batches * int(operand.dtype.itemsize)
        for operand, size in both
        if not ready(operand, product, along=along)
    ]
    if not copied:
        return False
    plan, accesses = mma_plan(product, info)
    # Tiles without TMA compute whole steps.
    terms = -(-product.k // plan.depth) * plan.depth
    if min(accesses) * int(plan.dtype.itemsize) < COPIED:
        terms += _THROUGH_REGISTERS
    flops = 2 * _computed(product, plan, info) * terms
    cost = _PER_BYTE * sum(copied) + _PER_COPY * len(copied)
    return exceeds(_PER_FLOP[product.rounded] * flops, cost)


def _computed(product: Product, plan: MmaPlan, info: DeviceInfo) -> int:
    """Return the elements of results in the time of a product: large tiles are one for a core.

    A core without a tile in the last turn waits as long as the others compute, by either way.
    """
    tiles = cubes_of(product, plan)
    if plan.units <= _SHARING or not exceeds(tiles, info.cores):
        return product.batches * product.m * product.n
    return -(-tiles // info.cores) * info.cores * plan.rows * plan.columns


def _along(product: Product) -> bool:
    """Return whether the instruction reads operands along the K axis alone."""
    return bool(product.a.dtype.itemsize != 2)


def _boxes(product: Product, made: tuple[int, ...]) -> TmaPlan:
    rows, columns, stages, band, *pingpong = made
    types, along = (product.a.dtype, product.dtype), product.along
    plan = TmaPlan(*types, rows, columns, stages, *along, band, bool(pingpong), product.formats)
    return replace(plan, by_units=not lines_of_result(product, plan.transposed))


def _tma(task: Task, request: Request) -> Works:
    """Yield split-K in one launch, if there are few tiles, and whole tiles."""
    product, info = task.product, task.info
    usual, summed = _parted(product, info), _summed(task)
    if summed is not None:
        plan, of = summed
        _, made = task.room(room_of(plan, of))
        yield made.work(summed_task(made, plan, of), name=f"{plan.title} summed parts")
        usual = None
    equal = usual is not None and _equal_parts(product, usual, info) > 1
    if usual is not None and equal and not few_parts(product, usual, info):
        usual = None  # Two passes add them.
    shared = [_boxes(product, tile) for tile in _SHARED] if request.candidates else []
    for plan in dict.fromkeys([usual, *shared] if usual else shared):
        parts = parts_in_one(product, plan, info)
        if parts is None or lack(plan, info) is not None or sparse(product, plan):
            continue
        name = f"{plan.title} split-K"
        if not info.has("forward_progress"):
            yield Dropped(name, "cubes may not go on while others wait for them")
            continue
        _, made = task.room(parts.cubes * plan.rows * plan.columns * _SUM)
        launch = tma_launch(made, with_operands_ahead(plan, task.tail, info), parts=parts)
        yield made.work(launch, name=name, group=0 if plan == usual else 1)
    rates: Mapping[TmaPlan, float] = {_boxes(product, t): rate for t, rate in _BOXES.items()}
    weight = 0 if task.tail is None else task.tail.expression.weight
    if task.tail is not None and task.tail.matrices * product.dtype.itemsize > _CROWDED:
        # The registers of three warp groups do not hold the addresses of several operands.
        rates = {plan: rate for plan, rate in rates.items() if plan.groups < 3}
    rates = _with_operands_ahead(rates, task)
    first = first_plan(rates, product, weight, info)
    yield from chosen(first, rates, (), info, by_plan(task, tma_launch))


def _with_operands_ahead(rates: Mapping[TmaPlan, float], task: Task) -> Mapping[TmaPlan, float]:
    """Return plans that copy an epilogue's operands ahead, the same if memory lacks in each.

    Other plans would wait for what they read beside their sums.
    """
    made = {}
    for plan, rate in rates.items():
        one = with_operands_ahead(plan, task.tail, task.info)
        made[one] = rate * (_FEWER if one.stages < plan.stages <= _DEEPEST else 1)
    return {plan: rate for plan, rate in made.items() if plan.ahead is not None} or rates


def _fills(product: Product, plan: TmaPlan, info: DeviceInfo) -> bool:
    """Return whether tiles of a plan fill the device and are at least half full."""
    # A few idle cores cost less than the additional reads of smaller tiles.
    return not sparse(product, plan) and 5 * cubes_of(product, plan) >= 4 * info.cores


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
    for tile in _DIVIDED[::-1] if long else (*_DIVIDED, _SMALLEST):
        plan = _boxes(product, tile)
        fits = not sparse(product, plan) and lack(plan, info) is None
        if fits and (_equal_parts(product, plan, info) > 1 or _uneven(product, plan, info)):
            return _smaller(product, plan, info) or plan
    return None


def _equal_parts(product: Product, plan: TmaPlan, info: DeviceInfo) -> int:
    return parts_of(product, cubes_of(product, plan), info)


def _uneven(product: Product, plan: TmaPlan, info: DeviceInfo) -> bool:
    """Return whether the K axis has no equal parts, which one launch does not need."""
    made = parts_in_one(product, plan, info) if product.batch[0] == 1 else None
    return made is not None and product.k % 2 == 1


def _smaller(product: Product, plan: TmaPlan, info: DeviceInfo) -> TmaPlan | None:
    """Return the smallest tile if parts of a plan leave half of the cores idle, else None.

    Shorter parts would cost more than a tile of half the columns.
    """
    made = parts_in_one(product, plan, info)
    one = _boxes(product, _SMALLEST)
    if made is None or 2 * made.cubes > info.cores or made.parts > _FEW or one.rows >= plan.columns:
        return None
    halves = parts_in_one(product, one, info)
    return one if halves is not None and halves.parts == made.parts else None


def _summed(task: Task) -> tuple[TmaPlan, Summed[int]] | None:
    """Return the tile and parts that the last cubes of a launch add, if that is fastest."""
    product, info = task.product, task.info
    usual = None if task.tail is not None or product.pitch else _parted(product, info)
    if usual is None or (product.m if usual.transposed else product.n) % _PAIR:
        return None
    plans = [_boxes(product, tile) for tile in _SUMMED]
    plans = [p for p in plans if lack(p, info) is None and not sparse(product, p)]
    few = parts_in_one(product, usual, info) if few_parts(product, usual, info) else None
    parts = parts_of(product, cubes_of(product, usual), info) if few is None else few.parts
    return faster_parts(product, plans, usual, parts, info)


def _usual_parts(task: Task) -> TmaPlan | None:
    """Return the first tile for split-K in two passes, if one launch does not know the parts."""
    product, info = task.product, task.info
    plan = _parted(product, info)
    if plan is None or few_parts(product, plan, info) or _summed(task) is not None:
        return None
    return plan if _equal_parts(product, plan, info) > 1 else None


def _two_passes(task: Task, request: Request, transposed: bool = False) -> Works:
    """Yield large tiles, of which there are few, with the K axis in parts.

    ``transposed``: whether they are tiles of the product of the transposes.
    """
    product, info = task.product.swapped() if transposed else task.product, task.info
    usual = _usual_parts(replace(task, product=product))
    plans = [_boxes(product, tile) for tile in _DIVIDED] if request.candidates else []
    for plan in dict.fromkeys([usual, *plans] if usual else plans):
        many = parts_of(product, cubes_of(product, plan), info)
        if many == 1 or lack(plan, info) is not None:
            continue
        made, target, after = divided(task, many)
        made = made.swapped() if transposed else made
        reason = tma_refusal(made.product, info, transposed=transposed)
        name = f"{plan.title} in {many} parts"
        if reason is not None:
            yield Dropped(name, reason)
            continue
        launch = tma_launch(made, replace(plan, result=made.product.dtype, by_units=False), target)
        yield made.work(launch, after, name=name, group=0 if plan == usual else 1)


def _register_a(task: Task, request: Request) -> Works:
    """Yield TMA plans for the product of the transposes; A is read from registers."""
    yield from _named("transposed", _two_passes(task, request, transposed=True))
    yield from _named("transposed", _tma(task.swapped(), request))


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
    one = product.dtype is float32 and product.along == (False, False)
    made = turned(task, right=not one)
    after = made.product.swapped() if one else made.product
    reason = tma_refusal(after, task.info, transposed=one, by_units=not one)
    if reason is not None:
        yield Dropped("turned boxes", reason)
        return
    works = _register_a(made, request) if one else _tma(made, request)
    yield from _named("turned", works, 0 if _worth_turning(product, one) else 1)


def _padding(task: Task, request: Request) -> Works:
    """Yield TMA plans of operands that are copied to lines of whole accesses."""
    made = padded(task, along=_along(task.product))
    reason = tma_refusal(made.product, task.info, by_units=True)
    if reason is not None:
        yield Dropped("padded boxes", reason)
        return
    worth = _worth_padding(task.product, task.info)
    yield from _named("padded", _tma(made, request), 0 if worth else 1)


def _worth_turning(product: Product, one: bool) -> bool:
    """Return whether a copy, with the cost of some rows or columns, saves more than that.

    ``one``: whether the left operand alone is copied.
    """
    alike = all(s == 0 or n == 1 for n, s in zip(product.batch, product.a.batch, strict=True))
    if one and alike and exceeds(product.batches, 1):
        # The columns of all products share the copy, as images share weights.
        return exceeds(product.n * product.batches, _WORTH)
    return exceeds(product.m, _WORTH) and exceeds(product.n, _WORTH)


ROWS: Final[tuple[Row[Task], ...]] = (
    Row("MMA split-K", Way("stage transpose", stage_refusal, stage_works)),
    Row("staged MMA", Way("split-K in two passes", _split_refusal, _two_passes)),
    Row("staged MMA", Way("warp-group TMA", _tma_refusal, _tma, pitched=True)),
    Row("staged MMA", Way("register A", _register_refusal, _register_a)),
    Row("staged MMA", Way("operand transpose", _transpose_refusal, _transpose, spare=True)),
    Row("staged MMA", Way("operand padding", _padding_refusal, _padding, spare=True)),
)
