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
# Registers of a core, registers of a unit beside its sums, and cubes that keep a core busy.
_REGISTERS, _OTHERS, _TOGETHER = 64 << 10, 64, 4
# The maximum of sums of a unit where planes are at least this wide; it is half elsewhere.
SUMS, _WIDE = 128, 32


@dataclass(frozen=True, slots=True)
class SimtPlan:
    """A plan: ``down`` by ``across`` units, each with ``high`` by ``wide`` register tiles.

    A step has ``depth`` terms. ``a_along``, ``b_along``: whether the operand is dense along the K
    axis; otherwise it is dense along its rows or columns. ``stages``: the stages of shared memory,
    all but one of which are filled ahead by asynchronous copies; with 0 the next step is loaded to
    registers. ``order``: the order in which a unit adds to its sums. ``early``: whether operands
    are loaded to registers during the preceding multiplications, across steps too; only without
    stages.
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
    def kind(self) -> str:
        """The word for such plans in the names of candidates."""
        return "patches"

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        name = f"{self.kind} {self.rows}x{self.columns}x{self.depth} by {self.units}"
        ahead = f" {self.stages - 1} ahead" if self.stages else " early" if self.early else ""
        return f"{name}{ahead}{'' if self.order == 'rows' else f' by {self.order}'}"

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
        """The index of each of a unit's sums in the order of its updates."""
        return numbers(self.order, FOUR * self.high, FOUR * self.wide)

    @property
    def together(self) -> int:
        """The cubes that fit the registers of a core."""
        each = (FOUR * FOUR * self.high * self.wide + _OTHERS) * self.units
        return max(1, min(_REGISTERS // each, _TOGETHER))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return sum(tile.size for tile in self.tiles) * FOUR * (self.stages or 2)

    @property
    def tiles(self) -> tuple[Tile, Tile]:
        """The tiles of a step: lines of the K axis, padded so that each begins in other banks."""
        a, b = (
            Tile(float32, Layout((size, self.depth), (1, size + FOUR)), align=ACCESS)
            for size in (self.rows, self.columns)
        )
        return a, b


def sums_of(info: DeviceInfo) -> int:
    """Return the maximum of sums of a unit of a device."""
    return info.accumulators or (SUMS if info.planes[0] >= _WIDE else SUMS // 2)
