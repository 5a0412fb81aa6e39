"""The blueprint of float32 products by SIMT register tiles: each unit sums tiles of 4 x 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calor.dtypes import float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.language import Layout, Tile
from calor_kernel.library.gemm.fma_orders import Place, numbers

# Elements of an access, and its bytes.
FOUR = 4
ACCESS = 16
# Registers of a core, those of a unit beside sums, and the cubes that are enough for a core.
_REGISTERS, _OTHERS, _TOGETHER = 64 << 10, 64, 4
# A unit has so many sums at most where planes are as wide as this, and half of them elsewhere.
SUMS, _WIDE = 128, 32


@dataclass(frozen=True, slots=True)
class Patches:
    """How a product is computed: ``down`` by ``across`` units, of ``high`` by ``wide`` patches.

    A tile takes ``depth`` of the summed axis at a time. ``a_along``, ``b_along``: whether the
    operand is dense along that axis; else it is dense along its rows or columns. ``stages``: of
    which all but one are on their way by asynchronous copies; 0: a step is loaded to registers.
    ``order``: of a unit's sums. ``early``: whether factors are loaded while those before are
    multiplied, also the first of a step; without stages alone.
    """

    down: int
    across: int
    high: int
    wide: int
    depth: int
    a_along: bool
    b_along: bool
    stages: int = 0
    order: str = "rows"
    early: bool = False

    @property
    def rows(self) -> int:
        """The rows of a tile."""
        return FOUR * self.down * self.high

    @property
    def columns(self) -> int:
        """The columns of a tile."""
        return FOUR * self.across * self.wide

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.down * self.across

    @property
    def numbers(self) -> Mapping[Place, int]:
        """Which of a unit's sums, in the order in which it adds to them, are those of a place."""
        return numbers(self.order, FOUR * self.high, FOUR * self.wide)

    @property
    def together(self) -> int:
        """The cubes that a core has registers for: those of sums, and of all else."""
        each = (FOUR * FOUR * self.high * self.wide + _OTHERS) * self.units
        return max(1, min(_REGISTERS // each, _TOGETHER))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return sum(tile.size for tile in self.tiles) * FOUR * (self.stages or 2)

    @property
    def tiles(self) -> tuple[Tile, Tile]:
        """What a step takes: lines of the summed axis, of which the next begins in other banks."""
        a, b = (
            Tile(float32, Layout((size, self.depth), (1, size + FOUR)), align=ACCESS)
            for size in (self.rows, self.columns)
        )
        return a, b


def sums_of(info: DeviceInfo) -> int:
    """Return how many sums a unit of a device has at most."""
    return info.accumulators or (SUMS if info.planes[0] >= _WIDE else SUMS // 2)
