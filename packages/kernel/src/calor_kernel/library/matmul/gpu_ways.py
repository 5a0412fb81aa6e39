"""The ways of large products by cubes of many units, and their launches.

Requirements: the conditions of a way on sizes and strides are checked here, so that a kernel reads
in whole accesses. Tiles are as large as possible with one for each core. Products that no way suits
are left to :mod:`generic_tiles`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from calor.dtypes import bfloat16, float16, float32, int8, int32, int64
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Dropped, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.gemm.mma import Fragments
from calor_kernel.library.gemm.simt_plan import FOUR, SUMS, Patches, sums_of
from calor_kernel.library.matmul.generic_tiles_launch import tiled, tiled_launch
from calor_kernel.library.matmul.operand_access import access_of, in_accesses, narrow
from calor_kernel.library.matmul.operand_transpose import turned
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import (
    Plan,
    Way,
    along_of,
    chosen,
    cubes_of,
    filling,
    found_any,
    kind_of,
    lack,
    name_of,
    too_much,
)
from calor_kernel.library.matmul.simt_gemm import matmul_patches
from calor_kernel.library.matmul.split_k_launch import few_parts, split_ways
from calor_kernel.library.matmul.split_k_two_pass import divided, parts_of
from calor_kernel.library.matmul.staged_mma import matmul_fragments
from calor_kernel.library.matmul.warp_mma import squares
from calor_kernel.library.matmul.warpgroup_tma import Boxes
from calor_kernel.library.matmul.warpgroup_tma_launch import boxed
from calor_kernel.library.matmul.wave_quantization import by_waves

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


def ways(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool, held: int = 0
) -> tuple[list[Way], list[Dropped]]:
    """Return the launches that can compute a product, the likeliest first, and dropped ones.

    ``wanted``: whether to return more than the cost model's. ``held``: the scratch reserved
    already.
    """
    found: list[Way | Dropped] = []
    types = {product.a.dtype, product.b.dtype}
    if product.m >= _LEAST and product.n >= _LEAST:
        by_squares = squares(product, places, info)
        if by_squares:
            found += [Way("squares", 0, launch) for launch in by_squares]
        elif types == {float32} and product.dtype is float32:
            if product.tf32:
                found += _by_divided_boxes(product, places, info, wanted, held)
                found += _by_boxes(product, places, info, wanted, held)
                found += _by_transposed_boxes(product, places, info, wanted, held)
                if not found_any(found):
                    found += _by_turned_boxes(product, places, info, wanted, held)
                if not found_any(found):
                    found += _by_fragments(product, places, info, wanted)
            if not found_any(found):
                found += _by_patches(product, places, info, wanted)
        elif len(types) == 1 and types <= set(_HALVES) and product.dtype in (*types, float32):
            found += _by_divided_boxes(product, places, info, wanted, held)
            found += _by_boxes(product, places, info, wanted, held)
            if not found_any(found):
                found += _by_groups(product, places, info, wanted)
                found += _by_fragments(product, places, info, wanted)
        elif product.formats is not None or (types == {int8} and product.dtype is int32):
            found += _by_divided_boxes(product, places, info, wanted, held)
            found += _by_boxes(product, places, info, wanted, held)
            found += _by_turned_boxes(product, places, info, wanted, held)
    better = found_any(found)
    if product.formats is None:
        found += _by_tiles(product, places, info, wanted, better)
    able = [way for way in found if isinstance(way, Way)]
    # The first plans of each way come first, in the cost model's order.
    able.sort(key=lambda way: way.group)
    return able, [one for one in found if isinstance(one, Dropped)]


def _by_patches(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool
) -> Iterator[Way | Dropped]:
    if not info.has("barrier") or not in_accesses(product, FOUR):
        return
    along = along_of(product)
    sums = sums_of(info)
    few, many = _LOADED
    loaded = many if sums >= SUMS else few
    table = _AHEAD if info.has("async_copy") else loaded
    rates = {_patches(made, along): rate for made, rate in table.items()}
    rates = {plan: rate for plan, rate in rates.items() if len(plan.numbers) <= sums}
    more = [_patches(made, along) for made in _MORE_PATCHES]
    more = [plan for plan in more if len(plan.numbers) <= sums]
    yield from chosen(
        by_waves(rates, product, info), rates, more, wanted, info,
        lambda plan: _launch(matmul_patches, plan, product, places, info, FOUR),
    )  # fmt: skip


def _patches(made: tuple[Any, ...], along: tuple[bool, bool]) -> Patches:
    down, across, high, wide, depth, *others = made
    return Patches(down, across, high, wide, depth, *along, *others)


def _by_boxes(
    product: Product,
    places: Sequence[Argument],
    info: DeviceInfo,
    wanted: bool,
    held: int,
    *,
    transposed: bool = False,
) -> Iterator[Way | Dropped]:
    made = boxed(product, places, info, transposed=transposed)
    if isinstance(made, Dropped):
        if wanted:
            yield made
        return
    plans = [_boxes(product, tile) for tile in _SHARED] if wanted else []
    yield from split_ways(product, _parted(product, info), plans, made, info, held)
    rates = {_boxes(product, tile): rate for tile, rate in _BOXES.items()}
    yield from chosen(by_waves(rates, product, info), rates, (), wanted, info, made)


def _fills(product: Product, plan: Plan, info: DeviceInfo) -> bool:
    """Return whether tiles of a plan fill the device and are at least half full."""
    # A few idle cores cost less than the additional reads of smaller tiles.
    return not _sparse(product, plan) and 5 * cubes_of(product, plan) >= 4 * info.cores


def _sparse(product: Product, plan: Plan) -> bool:
    """Return whether half of a tile is empty."""
    return plan.rows >= 2 * product.m or plan.columns >= 2 * product.n


def _boxes(product: Product, made: tuple[int, ...]) -> Boxes:
    rows, columns, stages, band = made
    types, along = (product.a.dtype, product.dtype), along_of(product)
    return Boxes(*types, rows, columns, stages, *along, band, product.formats)


def _parted(product: Product, info: DeviceInfo) -> Boxes | None:
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


def _by_divided_boxes(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool, held: int
) -> Iterator[Way | Dropped]:
    """Yield large tiles, of which there are few, with the K axis in parts."""
    if not all(map(info.has, _COPIED)):
        return
    parted = _parted(product, info)
    # One launch is faster than two, if the division of tiles among cubes is known.
    usual = parted if parted and few_parts(product, parted, info) == 1 else None
    plans = [_boxes(product, tile) for tile in _DIVIDED] if wanted else []
    for plan in dict.fromkeys([usual, *plans] if usual else plans):
        many = parts_of(product, cubes_of(product, plan), info)
        if many == 1 or lack(plan, info) is not None:
            continue
        made = divided(product, many, held, info)
        launch = boxed(made.product, places, info, made.target)
        name = f"{name_of(plan)} in {many} parts"
        if isinstance(launch, Dropped):
            yield replace(launch, variant=name)
        else:
            group, into = 0 if plan == usual else 1, replace(plan, result=made.product.dtype)
            yield Way(name, group, launch(into), (), (made.nbytes,), (made.after,))


def _by_transposed_boxes(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool, held: int
) -> Iterator[Way | Dropped]:
    """Yield TMA plans for the product of the transposes; A is read from registers."""
    if along_of(product) == (True, False) and all(map(info.has, _COPIED)):
        swapped = product.swapped(), places[::-1]
        for way in _by_boxes(*swapped, info, wanted, held, transposed=True):
            if isinstance(way, Way):
                yield replace(way, name=f"transposed {way.name}")
            else:
                yield replace(way, variant=f"transposed {way.variant}")


def _by_turned_boxes(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool, held: int
) -> Iterator[Way | Dropped]:
    """Yield TMA plans of copied operands, if an operand has not the instruction's layout."""
    if all(along_of(product)) or not all(map(info.has, _COPIED)):
        return
    # In float32 one operand may be dense along the other axis.
    one = product.dtype is float32 and along_of(product) == (False, False)
    made = turned(product, places, held, info, right=not one)
    worth = _worth_turning(product, one)
    boxes = _by_transposed_boxes if one else _by_boxes
    after = held + len(made.scratch)
    for way in boxes(made.product, made.places, info, wanted, after):
        if isinstance(way, Dropped):
            yield replace(way, variant=f"turned {way.variant}")
            continue
        group = way.group if worth else way.group + 1
        name = f"turned {way.name}"
        scratch = (*made.scratch, *way.scratch)
        yield replace(way, name=name, group=group, before=made.before, scratch=scratch)


def _worth_turning(product: Product, one: bool) -> bool:
    """Return whether a copy, with the cost of some rows or columns, saves more than that.

    ``one``: whether the left operand alone is copied.
    """
    alike = all(s == 0 or n == 1 for n, s in zip(product.batch, product.a.batch, strict=True))
    if one and alike and exceeds(product.batches, 1):
        # The columns of all products share the copy, as images share weights.
        return exceeds(product.n * product.batches, _WORTH)
    return exceeds(product.m, _WORTH) and exceeds(product.n, _WORTH)


def _by_groups(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool
) -> Iterator[Way | Dropped]:
    if not all(map(info.has, _GROUPED)) or info.planes[0] != 32:
        return
    if not in_accesses(product, access_of(product)):
        return
    along = along_of(product)
    usual = [Fragments(product.a.dtype, *made, *along, grouped=True) for made in _GROUPS]
    # Two of these cubes share a core; a smaller tile's reads cost more than a few idle cores.
    first = filling(usual, info, lambda plan: 4 * cubes_of(product, plan) >= info.cores)
    yield from chosen(
        first, usual, (), wanted, info,
        lambda plan: _launch(matmul_fragments, plan, product, places, info, plan.access),
    )  # fmt: skip


def _by_fragments(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool
) -> Iterator[Way | Dropped]:
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return
    if not in_accesses(product, access_of(product)):
        return
    along = along_of(product)
    usual = [Fragments(product.a.dtype, *made, *along) for made in _FRAGMENTS]
    more = [Fragments(product.a.dtype, *made, *along) for made in _MORE_FRAGMENTS]
    first = filling(usual, info, lambda plan: cubes_of(product, plan) >= info.cores)
    yield from chosen(
        first, usual, more, wanted, info,
        lambda plan: _launch(matmul_fragments, plan, product, places, info, plan.access),
    )  # fmt: skip


def _by_tiles(
    product: Product, places: Sequence[Argument], info: DeviceInfo, wanted: bool, better: bool
) -> Iterator[Way | Dropped]:
    """Yield tiles for any product; ``better``: whether there is another way."""
    if better and not wanted:
        return
    base = tiled(product)
    yield Way("tiled", 2 if better else 0, tiled_launch(product, base, places, info))
    for across, down, rows, columns in _TILED if wanted and not better else ():
        plan = replace(base, across=across, down=down, rows=rows, columns=columns)
        name = f"tiled {rows}x{columns} by {down}x{across}"
        reason = too_much(across * down, plan.shared_bytes, info)
        if across > info.max_cube[0] or down > info.max_cube[1]:
            reason = f"cubes are {info.max_cube} units at most"
        if reason is not None:
            yield Dropped(name, reason)
        elif plan != base:
            yield Way(name, 1, tiled_launch(product, plan, places, info))


def _launch(
    function: KernelFunction,
    plan: Plan,
    product: Product,
    places: Sequence[Argument],
    info: DeviceInfo,
    count: int,
) -> Launch:
    a, b = product.a, product.b
    # 64-bit addresses double the instructions beside the multiplications.
    index = int32 if function is matmul_patches and narrow(product) else int64
    size = Scalar(index, nonnegative=True)
    wide = Scalar(index, divisible=count, nonnegative=True)
    stride = Scalar(index, divisible=count)
    read = Buffer(a.dtype, writable=False, align=16)
    build = Build(
        function,
        (
            *(read, read, Buffer(product.dtype, align=16)),
            *(size, wide, size, stride, stride, size),
            *(stride,) * 6,
        ),
        (("plan", plan),),
        cube=(plan.units, 1, 1),
        plane=info.planes[0],
        index=index,
    )
    arguments = (
        *(*places, Output(0)),
        *(product.m, product.n, product.k),
        a.free if plan.a_along else a.depth,
        b.free if plan.b_along else b.depth,
        product.batch[1],
        *(*a.batch, a.offset),
        *(*b.batch, b.offset),
    )
    cubes = (-(-product.n // plan.columns), -(-product.m // plan.rows), product.batches)
    label = f"matmul {kind_of(plan)} {plan.rows}x{plan.columns}"
    if product.tf32 and isinstance(plan, Fragments):
        label = f"{label} tf32"
    return Launch(build, cubes, arguments, product.flops, product.nbytes, label)
