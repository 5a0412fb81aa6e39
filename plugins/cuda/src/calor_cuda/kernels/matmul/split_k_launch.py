"""The conditions for split-K by TMA in one launch.

Requirements: if there are few tiles with a long K axis, each is cut into parts of nearly as many
steps, one for each cube. An exchange writes and reads sums once more, so every part has several
steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.ranking import cubes_of

# Minimum of steps of a part.
_LEAST = 8
# With more parts of a tile, the cube that ends it would read sums for too long.
_FEW = 4


@dataclass(frozen=True, slots=True)
class Parts:
    """Each of the ``tiles`` of ``steps`` is cut into ``parts``, one for each cube."""

    tiles: int
    parts: int
    steps: int

    @property
    def cubes(self) -> int:
        """The cubes of the launch."""
        return self.tiles * self.parts


def parts_in_one(product: Product, plan: TmaPlan, info: DeviceInfo) -> Parts | None:
    """Return the parts of each tile of a plan; None if tiles are not cut.

    Parts of symbolic sizes would differ for each size.
    """
    tiles = cubes_of(product, plan)
    if is_size(tiles) or is_size(product.k):
        return None
    steps = -(-product.k // plan.depth)
    parts = parts_of_tile(tiles, steps, info.cores)
    return None if parts == 1 else Parts(tiles, parts, steps)


def few_parts(product: Product, plan: TmaPlan, info: DeviceInfo) -> bool:
    """Return whether split-K in one launch is the first choice."""
    made = parts_in_one(product, plan, info) if info.has("forward_progress") else None
    return made is not None and made.parts <= _FEW


def parts_of_tile(tiles: int, steps: int, cores: int) -> int:
    """Return the number of parts of each tile that fills most cores; 1: no split.

    >>> parts_of_tile(64, 64, 132), parts_of_tile(36, 64, 132), parts_of_tile(100, 64, 132)
    (2, 3, 1)
    >>> parts_of_tile(24, 64, 132), parts_of_tile(0, 64, 132)
    (4, 8)
    """
    most = max(min(cores // max(tiles, 1), steps // _LEAST), 1)
    if most <= _FEW:
        return most
    # Many parts are equal: two passes may add them.
    return next((parts for parts in range(most, _FEW, -1) if steps % parts == 0), _FEW)
