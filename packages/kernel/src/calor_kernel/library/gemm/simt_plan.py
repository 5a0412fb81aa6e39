"""The blueprint of float32 products by SIMT register tiles: each unit sums tiles of 4 x 4.

Requirements: every order of updates updates each sum once in a step of the K axis, so results do
not depend on the order. The number of register reads does. NVIDIA registers lie in two banks, and
each bank delivers one register a cycle; a multiply-add needs three. A register is reused only if
the previous FMA read it in the same slot with the reuse flag. (Zhang et al., "Understanding the GPU
Microarchitecture", 2017; Huerta et al., "Analyzing Modern NVIDIA GPU cores", 2025; serpentine
orders are CUTLASS's.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo

# Elements of an access, and its bytes.
FOUR = 4
ACCESS = 16
# Registers of a core, registers of a unit beside its sums, and cubes that keep a core busy.
_REGISTERS, _OTHERS, _TOGETHER = 64 << 10, 64, 4
# The maximum of sums of a unit where planes are at least this wide; it is half elsewhere.
SUMS, _WIDE = 128, 32

Place = tuple[int, int]


def _rows(high: int, wide: int) -> list[Place]:
    return [(i, j) for i in range(high) for j in range(wide)]


def _columns(high: int, wide: int) -> list[Place]:
    """Go down one column and up the next."""
    return [(high - 1 - i if j % 2 else i, j) for j in range(wide) for i in range(high)]


def _row_pairs(high: int, wide: int) -> list[Place]:
    """Go along two rows together, and back along the next two."""
    found = []
    for top in range(0, high, 2):
        for number in range(wide):
            j = wide - 1 - number if top % 4 else number
            found += [(top + (number + q) % 2, j) for q in range(2)]
    return found


def _column_pairs(high: int, wide: int) -> list[Place]:
    return [(i, j) for j, i in _row_pairs(wide, high)]


ORDERS: Final[Mapping[str, Callable[[int, int], list[Place]]]] = MappingProxyType(
    {
        "rows": _rows,
        "columns": _columns,
        "row pairs": _row_pairs,
        "column pairs": _column_pairs,
    }
)


@cache
def numbers(order: str, high: int, wide: int) -> Mapping[Place, int]:
    """Return the index of each of ``high`` by ``wide`` sums, both even, in the order of updates.

    >>> dict(numbers("columns", 2, 2))
    {(0, 0): 0, (1, 0): 1, (1, 1): 2, (0, 1): 3}
    """
    return MappingProxyType({place: n for n, place in enumerate(ORDERS[order](high, wide))})


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

    def pieces(self, size: int) -> int:
        """Return the accesses of a unit to a tile with lines of ``size`` elements."""
        return -(-size * self.depth // (FOUR * self.units))

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return sum(tile.size for tile in self.tiles) * FOUR * (self.stages or 2)

    @property
    def tiles(self) -> tuple[kl.Tile, kl.Tile]:
        """The tiles of a step: lines of the K axis, padded so that each begins in other banks."""
        a, b = (
            kl.Tile(float32, kl.Layout((size, self.depth), (1, size + FOUR)), align=ACCESS)
            for size in (self.rows, self.columns)
        )
        return a, b


def sums_of(info: DeviceInfo) -> int:
    """Return the maximum of sums of a unit of a device."""
    return info.accumulators or (SUMS if info.planes[0] >= _WIDE else SUMS // 2)
