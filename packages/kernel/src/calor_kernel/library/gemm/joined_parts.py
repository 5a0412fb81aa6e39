"""Parts of sums in one launch: the last cube of a tile adds the sums of all its parts.

Requirements: where launches are dear, few parts are added in less time than a launch takes to
start. Cubes leave sums as units hold them, so that each unit adds its own by whole accesses. They
are added in the order of the parts, whichever cube is the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calor.dtypes import float32, uint32
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Flags, Scratch
from calor_kernel.library.arrivals import is_last
from calor_kernel.library.gemm.simt import SimtTile
from calor_kernel.library.gemm.simt_plan import ACCESS, FOUR, SimtPlan

# Parts that a unit adds, half of which are on their way at the same time, and their bytes of a
# cube: those that a core of an H200 reads in a microsecond.
_MOST: Final = 8
_BYTES: Final = 128 << 10
# By Vulkan on an H200, some tiles of products have the first and the third of each unit's four rows
# in each other's place, in every run alike and whatever the barriers are, so cubes do not race. The
# reason is not known yet; Mesa's software device has the rows of such tiles right.
# Vulkan's cubes are not known to run together.
_NEEDED: Final = ("barrier", "atomics", "together")

# The arguments of a launch whose cubes add no parts.
ALONE: Final[Mapping[str, object]] = MappingProxyType(
    {"left_sums": None, "flags": None, "many": None}
)


def joins(count: int, plan: SimtPlan, info: DeviceInfo) -> bool:
    """Return whether the last cubes of a plan's tiles add so many parts."""
    able = info.launch_ns > 0 and all(map(info.has, _NEEDED))
    most = min(_MOST, _BYTES // (plan.rows * plan.columns * int(float32.itemsize)))
    return able and count > 1 and not exceeds(count, most)


def joint_bytes(count: int, tiles: int, plan: SimtPlan) -> int:
    """Return the bytes of scratch memory for the sums of ``count`` parts of each tile."""
    return count * tiles * plan.rows * plan.columns * int(float32.itemsize)


def joint_memory(place: Scratch, count: int, tiles: int) -> dict[str, object]:
    """Return the arguments of a launch whose cubes add ``count`` parts of each tile."""
    flags = Bound(Flags(tiles), uint32)
    return {"left_sums": Bound(place, float32, ACCESS), "flags": flags, "many": count}


@kl.helper
def completes(
    tile: SimtTile, sums: kl.Pointer, flags: kl.Pointer, many: kl.Number, products: kl.Number
) -> kl.Mask:
    """Leave the sums of a part, and return whether those of all ``many`` parts are there now.

    Parts of ``products`` follow each other along z.
    """
    plan = tile.plan
    vectors = len(plan.numbers) // FOUR
    own = _number(kl.cube_position(2)) * vectors
    for v in range(vectors):
        at = ((own + v) * plan.units + kl.unit_index()) * FOUR
        sums.store(at, kl.pack([tile.sums[FOUR * v + q] for q in range(FOUR)]))
    return is_last(flags, _number(kl.cube_position(2) % products), many)


@kl.helper
def add_parts(tile: SimtTile, sums: kl.Pointer, many: kl.Number, products: kl.Number) -> None:
    """Make a unit's sums those of all parts of its tile."""
    plan = tile.plan
    vectors = len(plan.numbers) // FOUR
    for k in range(FOUR * vectors):
        tile.sums[k] = 0.0
    first = _number(kl.cube_position(2) % products)
    tiles = products * kl.cube_count(1) * kl.cube_count(0)
    for part in kl.loop_range(0, many, 1, unroll=_MOST // 2):
        own = (part * tiles + first) * vectors
        for v in range(vectors):
            four = sums.load(((own + v) * plan.units + kl.unit_index()) * FOUR, FOUR)
            for q in range(FOUR):
                tile.sums[FOUR * v + q] = tile.sums[FOUR * v + q] + four[q]


@kl.helper
def _number(z: kl.Number) -> kl.Number:
    """Return the number of the cube at a place along z, for the tile of this one."""
    row = z * kl.cube_count(1) + kl.cube_position(1)
    return row * kl.cube_count(0) + kl.cube_position(0)
