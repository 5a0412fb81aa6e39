"""The epilogue by TMA: whole lines from shared memory.

Requirements: each warp group writes its own sums while the others' products continue. While one
part of them is copied, the next is stored. Sums stay in their registers.
"""

from __future__ import annotations

from calor_cuda.kernels.matmul.register_a import store_turned
from calor_cuda.kernels.matmul.warpgroup_tma_plan import PARTS, TmaPlan
from calor_kernel import language as kl
from calor_kernel.language.tensor_maps import TensorMap


@kl.helper
def write_tile(
    c_map: TensorMap,
    parts: kl.Pointer,
    sums: kl.Fragment,
    there: tuple[kl.Index, kl.Index, kl.Index],
    group: kl.Index,
    plan: TmaPlan,
) -> None:
    """Write a warp group's sums. ``there``: the product, row and column of the tile."""
    for part in range(plan.columns // plan.part):
        write_part(c_map, parts, sums, there, group, part, plan.pending, plan)


@kl.helper
def write_part(
    c_map: TensorMap,
    parts: kl.Pointer,
    sums: kl.Fragment,
    there: tuple[kl.Index, kl.Index, kl.Index],
    group: kl.Index,
    part: int,
    pending: int,
    plan: TmaPlan,
) -> None:
    """Write a part of a warp group's columns, while ``pending`` copies may be in flight."""
    unit, part_size = kl.unit_index() % 128, 64 * plan.part
    batch, row, column = there
    top, start = plan.top(group), part * plan.part
    place = parts.at((group * PARTS + part % PARTS) * part_size)
    kl.wait_puts(pending, read=True)
    kl.barrier("warpgroup")
    if plan.transposed:
        store_turned(sums, place, start, plan)
        kl.barrier("warpgroup")
        for block in range(64 // plan.part):
            to = (batch, column + start, row + top + block * plan.part)
            c_map.put(place.at(block * plan.part * plan.part), to, unit, 128)
    else:
        store_part(sums, place, start, plan.part, plan.swizzle(plan.result))
        kl.barrier("warpgroup")
        c_map.put(place, (batch, row + top, column + start), unit, 128)


@kl.helper
def store_part(
    sums: kl.Fragment, target: kl.Pointer, start: int, part: int, swizzle: kl.Swizzle
) -> None:
    """Store some columns of sums in the layout of TMA.

    The pieces of a line are swizzled by the row's index modulo eight. It is the same for all sums
    of a unit, so few addresses are computed, and the sums keep their registers.
    """
    row, column = sums.lane_place()
    begin = row * part
    within = column ^ (row % 8 << swizzle.base)
    for block in range(0, part, 8):
        place = kl.assume_multiple(begin + (within ^ block), 2)
        for down in (0, 1):
            register = (start + block) // 2 + 2 * down
            pair = kl.shuffle(sums.parts[0], (register, register + 1))
            target.store(place + 8 * down * part, pair.to(target.dtype))
