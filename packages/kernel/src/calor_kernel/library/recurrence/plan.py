"""The plan of a recurrent scan in one launch: which cube has which features, and what planes sum.

Requirements: a cube for each core at most, since all cubes wait for each other in each step. Units
hold the weights of their cube's features for the whole scan, in registers as far as these go and
else in shared memory, so a step reads only the product's other factor, which lies in memory in the
order in which lanes hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.language.matrices import Side, mma_16x8
from calor_kernel.library.recurrence.cell import Cell

# Planes of a cube, and the registers of a unit with so many: for weights and sums, beside those
# that addresses and a step of a feature take.
_PLANES: Final = {4: 150, 8: 104, 16: 52}
# Samples of a scan: beyond, a step is a product that fills the device.
_MOST: Final = 128
# A kernel serves so many numbers of samples.
_SAMPLES: Final = 4
# The parts of the cores that have a cube: with fewer cubes less is read.
_PARTS: Final = (1, 2, 3, 4)
# Bytes of factors that a core reads in a cycle; cycles of a plane for each matrix instruction and
# each tile of its sums, of a unit for each part of a sum, each instruction of a step and each
# number of a row; cycles of a step for each plane and each cube. Fitted to 60 plans of an H200 by
# least squares: the first choice is the fastest there, or within 6 % of it.
_READ, _MULTIPLIED, _STORED, _ADDED, _EVALUATED, _ROW = 61, 12, 10, 19, 3.1, 47
_PLANE, _CUBE = 40, 10
# Cycles of a step that no plan changes.
_SAME: Final = 1600
# Cycles of a core for each tile of weights that a plane reads from shared memory.
_SHARED = 2
# Cycles of rows that are read behind the wait, and of each number of one that is read before it.
_LATE, _EARLY = 120, 28


@dataclass(frozen=True, slots=True)
class RecurrencePlan:
    """How cubes divide the features of a recurrent scan, and planes the terms of their sums.

    ``samples``: the most of them. ``features``: of a cube. ``terms``: of the product, in whole
    tiles. ``sums``: of a feature. ``planes``: of a cube. ``held``: the tiles of terms of a plane
    whose weights are in registers. ``at_once``: the tiles of samples whose sums are.
    """

    dtype: DType
    samples: int
    features: int
    terms: int
    sums: int
    planes: int
    held: int = 0
    at_once: int = 1

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        return f"persistent {self.features} by {self.planes}"

    @property
    def shape(self) -> kl.MatrixShape:
        """The shape of the instruction: samples by sums."""
        return mma_16x8(self.dtype)

    @property
    def units(self) -> int:
        """The units of a cube."""
        return self.planes * self.shape.lanes

    @property
    def rows(self) -> int:
        """The samples of whole tiles."""
        return -(-self.samples // self.shape.m) * self.shape.m

    @property
    def down(self) -> int:
        """The tiles of samples."""
        return self.rows // self.shape.m

    @property
    def across(self) -> int:
        """The tiles of a cube's sums."""
        return -(-self.sums * self.features // self.shape.n)

    @property
    def deep(self) -> int:
        """The tiles of terms."""
        return self.terms // self.shape.k

    @property
    def steps(self) -> int:
        """The tiles of terms that a plane sums."""
        return -(-self.deep // self.planes)

    @property
    def turns(self) -> int:
        """The features of samples of a unit."""
        return -(-self.samples * self.features // self.units)

    @property
    def pitch(self) -> int:
        """The sums of a sample in shared memory."""
        return self.across * self.shape.n

    @property
    def room(self) -> int:
        """The elements of the product's factor, with a tile of zeros behind it."""
        return (self.deep + 1) * self.rows * self.shape.k

    @property
    def registers(self) -> int:
        """The registers of a unit for weights and sums."""
        shape = self.shape
        held = shape.layout("b")[1].size * int(self.dtype.itemsize) // 4
        weights: int = self.held * self.across * held
        return weights + self.at_once * self.across * shape.layout("c")[1].size

    @property
    def stored(self) -> int:
        """The elements of weights in shared memory."""
        tile = self.shape.k * self.shape.n
        return (self.steps - self.held) * self.planes * self.across * tile

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return self.planes * self.rows * self.pitch * 4 + self.stored * int(self.dtype.itemsize)


def plans_of(cell: Cell, samples: int, features: int, info: DeviceInfo) -> list[RecurrencePlan]:
    """Return the plans of a scan whose cubes hold the weights.

    Parameters
    ----------
    cell : Cell
        What a step computes.
    samples, features : int
        The shape of a carry.
    info : DeviceInfo
        The device.
    """
    if samples > _MOST:
        return []
    depth = mma_16x8(cell.factor).k
    most = -(-samples // _SAMPLES) * _SAMPLES
    terms = -(-cell.factors * features // depth) * depth
    own = dict.fromkeys(-(-features // max(info.cores // part, 1)) for part in _PARTS)
    made = (
        _holding(RecurrencePlan(cell.factor, most, count, terms, cell.sums, planes), cell)
        for count in own
        for planes in _PLANES
    )
    return [
        plan
        for plan in made
        if plan is not None
        and plan.units <= info.max_units
        and plan.shared_bytes <= info.shared_bytes
    ]


def _holding(plan: RecurrencePlan, cell: Cell) -> RecurrencePlan | None:
    """Return a plan with as many weights in registers as go there; None if sums do not."""
    # What is above has room for the numbers of one feature.
    room = _PLANES[plan.planes] - (plan.turns - 1) * (
        cell.carries + cell.rows + cell.stacked + cell.kept
    )
    fitting = (
        replace(plan, held=held, at_once=down)
        for down in range(plan.down, 0, -1)
        for held in (plan.steps, plan.steps * 3 // 4, plan.steps // 2, plan.steps // 4, 0)
    )
    return max(
        (one for one in fitting if one.registers <= room),
        key=lambda one: (one.held * one.at_once, one.held),
        default=None,
    )


def cycles_of(plan: RecurrencePlan, cell: Cell, features: int) -> float:
    """Return the cycles of a step, for a number of features in all."""
    shape, cubes, item = plan.shape, -(-features // plan.features), int(plan.dtype.itemsize)
    # Of a lane's rows both are read if one has a sample.
    lines = min(plan.rows, -(-plan.samples // (shape.m // 2)) * (shape.m // 2))
    read = plan.terms * lines * item / _READ
    multiplied = plan.steps * plan.down * plan.across * _MULTIPLIED
    added = plan.planes * plan.sums * _ADDED
    evaluated = (cell.before.weight + cell.after.weight) * _EVALUATED
    stored = plan.planes * plan.down * plan.across * _STORED
    passes = -(-plan.down // plan.at_once)
    tiles = passes * plan.planes * (plan.steps - plan.held) * plan.across
    own = plan.turns * (added + evaluated + (cell.rows + cell.stacked) * _ROW)
    waits = plan.planes * _PLANE + cubes * _CUBE
    return _SAME + read + multiplied + stored + tiles * _SHARED + own + waits


@kl.helper
def place_in(
    shape: kl.MatrixShape, side: Side, row: kl.Index, column: kl.Index
) -> tuple[kl.Index, kl.Index]:
    """Return the lane and its register that hold an element of a tile.

    ``row``, ``column``: below those of the tile. Each mode of a layout of an instruction is a digit
    of the element's number.
    """
    number = row + column * shape.extent(side)[0]

    def digits(layout: kl.Layout) -> kl.Index:
        found: kl.Index = 0
        whole = 1
        for size, stride in layout.modes():
            if size > 1:
                found = found + number // stride % size * whole
                whole *= size
        return found

    return digits(shape.layout(side)[0]), digits(shape.layout(side)[1])
