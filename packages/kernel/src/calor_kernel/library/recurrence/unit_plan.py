"""The plan of a recurrent scan by units: which cubes share samples, what units hold of the weights.

Requirements: a launch takes any real dtype, where matrix instructions take some, and few samples,
of which a matrix instruction would leave most rows empty. Samples are independent, so *groups* of
cubes share nothing but the launch. The cubes of a group divide the features; a group of one cube
waits for no other, and every device with barriers runs it. Where cubes wait, all cubes of the
launch run at the same time: some that started would wait for others that may never start. On
devices that do not promise that, a cube reads weights for which it has no room at each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calor.dtypes import DType, float32, float64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.recurrence.cell import Cell

# What cubes that wait for each other need of a device.
_WAITING: Final = ("atomics", "atomics_64", "together")
# The most bytes of weights that a cube reads at each step.
_STREAMED_BYTES: Final = 1 << 21
# Bytes of a vector of weights and factors.
_VECTOR: Final = 16
# The registers of a unit beside weights, sums and rows.
_OTHERS: Final = 68
# Registers of a core, its parts, and the most registers of a unit.
_CORE_REGISTERS, _PARTS, _MOST_REGISTERS = 1 << 16, 4, 240
_MOST_UNITS: Final = 1024
# Units of a feature; features of a unit; samples of a group.
_LANES: Final = (1, 2, 4, 8, 16, 32)
_OWN: Final = (1, 2, 4, 8)
_SAMPLES: Final = (1, 2, 4, 8, 16, 32, 64)
# Sums of a unit at the same time: powers of two.
_SUMS: Final = 32
_CUBES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 44, 66)
# Multiply-adds of a unit that a kernel writes out: more are a loop, or take long to compile.
_WRITTEN: Final = 2048
# Multiply-adds of a unit that run at the same time.
_CHAINS: Final = 4
# Cycles of a step for each four multiply-adds of a plane, each vector of factors or of weights that
# it reads from shared memory, each exchange of sums, each level of these; of a unit for each
# instruction of a step, alone and with other planes of its part of a core; and what cubes that wait
# add: in all, for each factor, each word of a unit, each cube. Fitted to 84 plans of an H200 by
# least squares, before sigmoids and tangents lost their branches. Of 35 plans since, steps take 0.4
# to 0.8 of these cycles, and the first choice is within 10 % of the fastest in the mean.
_STEP, _ADDED, _FACTORS, _WEIGHTS, _EXCHANGED, _LEVEL = 315, 0.88, 2.24, 3.16, 0.91, 31.5
_EVALUATED, _BESIDE = 3.58, 0.33
_WAITED, _FACTOR, _WORD, _CUBE = 438, 0.38, 61, 15
# Cycles in which a core reads a plane's vector of weights from the device's cache, where half of
# all cores do: 64 bytes a cycle at most.
_READ: Final = 10


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """How cubes and units divide a recurrent scan.

    ``dtype``: of the sums. ``samples``: of a group of cubes. ``features``: of a cube. ``terms``: of
    the product. ``sums``: of a feature. ``lanes``: the units that share a feature's sums. ``own``:
    the features of a unit. ``at_once``: the samples whose sums a unit has at the same time.
    ``held``: the vectors of terms of a unit whose weights are in registers; ``streamed``: of which
    it reads them from memory at each step; those between are in shared memory.
    ``waits``: whether a group has several cubes. ``wide``: whether adjacent weights of a unit lie
    at whole accesses.
    """

    dtype: DType
    samples: int
    features: int
    terms: int
    sums: int
    lanes: int
    own: int
    at_once: int = 1
    held: int = 0
    streamed: int = 0
    waits: bool = False
    wide: bool = False

    @property
    def title(self) -> str:
        """The plan's name among the candidates."""
        return f"by units {self.samples} x {self.features} by {self.lanes}, {self.own}"

    @property
    def width(self) -> int:
        """The elements of a vector."""
        return _VECTOR // int(self.dtype.itemsize)

    @property
    def across(self) -> int:
        """The places of units with features of their own."""
        return -(-self.features // self.own)

    @property
    def units(self) -> int:
        """The units of a cube, in whole planes."""
        return -(-self.across * self.lanes // 32) * 32

    @property
    def vectors(self) -> int:
        """The vectors of terms of a unit."""
        return -(-self.terms // (self.lanes * self.width))

    @property
    def pitch(self) -> int:
        """The terms of all units of a feature."""
        return self.vectors * self.lanes * self.width

    @property
    def items(self) -> int:
        """The features of samples of which units that share sums have these at the same time."""
        return self.at_once * self.own

    @property
    def blocks(self) -> int:
        """How often a unit sums some samples."""
        return self.samples // self.at_once

    @property
    def alike(self) -> int:
        """The units that have the same sums after their exchange; each has a block of its own."""
        return max(1, self.lanes // self.items)

    @property
    def rounds(self) -> int:
        """The blocks of a unit that are its own."""
        return -(-self.blocks // self.alike)

    @property
    def each(self) -> int:
        """The features of samples of a unit's own block."""
        return max(1, self.items // self.lanes)

    @property
    def turns(self) -> int:
        """The features of samples of a unit."""
        return self.rounds * self.each

    @property
    def columns(self) -> int:
        """The sums of a unit for a sample."""
        return self.sums * self.own

    @property
    def chains(self) -> int:
        """The parts of each sum that a unit adds side by side."""
        few = _CHAINS // (self.at_once * self.columns)
        return min(self.width, 1 << max(few.bit_length() - 1, 0))

    @property
    def room(self) -> int:
        """The elements of a group's factors in a step."""
        return self.samples * self.pitch

    @property
    def stored(self) -> int:
        """The elements of weights in shared memory."""
        return (self.vectors - self.held - self.streamed) * self.line

    @property
    def line(self) -> int:
        """The elements of a vector of weights of all units and columns."""
        return self.columns * self.units * self.width

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube."""
        return (2 * self.room + self.stored) * int(self.dtype.itemsize)

    def groups(self, samples: int) -> int:
        """Return the groups of cubes for a number of samples."""
        return -(-samples // self.samples)


def unit_plans(
    cell: Cell, samples: int, features: int, info: DeviceInfo
) -> list[tuple[float, UnitPlan]]:
    """Return the plans of a scan with the cycles of a step by a model, the fastest first.

    Parameters
    ----------
    cell : Cell
        What a step computes.
    samples, features : int
        The shape of a carry.
    info : DeviceInfo
        The device.

    Returns
    -------
    list
        Pairs of cycles and a plan; none if cubes do not hold the weights.
    """
    made = dict.fromkeys(_plans(cell, samples, features, info))
    found = [(unit_cycles(plan, cell, samples, features, info), plan) for plan in made]
    return sorted(found, key=lambda pair: pair[0])


def _plans(cell: Cell, samples: int, features: int, info: DeviceInfo) -> Iterator[UnitPlan]:
    dtype = float64 if cell.dtype is float64 else float32
    waits = all(map(info.has, _WAITING)) and dtype is float32
    # Units share sums within a plane.
    lanes = [n for n in _LANES if n == 1 or info.planes[0] == 32]
    most = min(info.max_units, _MOST_UNITS)
    divided = [-(-features // cubes) for cubes in (*_CUBES, info.cores) if cubes <= info.cores]
    if features % 4 == 0:
        # Weights of four features are one access.
        divided = [-(-own // 4) * 4 if own > 4 else own for own in divided]
    for own in dict.fromkeys(divided):
        cubes = -(-features // own)
        if cubes > 1 and not waits:
            continue
        terms = cell.factors * features
        shapes = [
            (near, count)
            for near in lanes
            for count in _OWN
            # Units without features or terms of their own would only wait.
            if count <= own and near * -(-own // count) <= most and near <= max(1, terms // 2)
        ]
        for group in _groups(samples, info.cores // cubes, cubes > 1):
            for near, count in shapes:
                fitting = max(1, _SUMS // (cell.sums * count))
                at_once = min(group, 1 << fitting.bit_length() - 1)
                plan = UnitPlan(
                    *(dtype, group, own, terms, cell.sums, near, count),
                    *(at_once, 0, 0, cubes > 1),
                )
                found = _holding(plan, cell, info)
                if found is not None:
                    yield found


def _groups(samples: int, most: int, waits: bool) -> Sequence[int]:
    """Return the samples of a group for which ``most`` groups run together.

    Groups that wait for none have many samples where they do not all run together.
    """
    fitting = [n for n in _SAMPLES if n < 2 * samples and -(-samples // n) <= most]
    return fitting[:2] or ([] if waits else _SAMPLES[4:5])


def _holding(plan: UnitPlan, cell: Cell, info: DeviceInfo) -> UnitPlan | None:
    """Return a plan with as many weights in registers as go there, None if it has no room."""
    words = int(plan.dtype.itemsize) // 4
    units = plan.units
    if units > min(info.max_units, _MOST_UNITS):
        return None
    # Each part of a core has its planes, and registers for these.
    planes = -(-units // 32 // _PARTS)
    limit = min(_CORE_REGISTERS // _PARTS // 32 // planes, _MOST_REGISTERS) - _OTHERS
    sums = plan.items * plan.sums * plan.chains * words
    rows = (plan.turns - 1) * (cell.carries + cell.rows + cell.stacked + cell.kept)
    room = (limit - sums - rows) // (plan.columns * plan.width * words)
    written = _WRITTEN // (plan.rounds * plan.items * plan.sums * plan.width)
    # Sums wait in registers, at least for a vector of weights.
    if room < 1 or written < 1:
        return None
    made = replace(plan, held=min(room, written, plan.vectors))
    beyond = made.shared_bytes - info.shared_bytes
    if beyond <= 0:
        return made
    nbytes = made.line * int(plan.dtype.itemsize)
    streamed = -(-beyond // nbytes)
    if plan.waits or info.has("together") or streamed * nbytes > _STREAMED_BYTES:
        return None
    return replace(made, streamed=streamed) if streamed <= made.vectors - made.held else None


def unit_cycles(plan: UnitPlan, cell: Cell, samples: int, features: int, info: DeviceInfo) -> float:
    """Return the cycles of a step of a plan."""
    planes, cubes = plan.units / 32, -(-features // plan.features)
    words = int(plan.dtype.itemsize) // 4
    read = plan.samples * plan.vectors
    added = read * plan.width * plan.columns * words
    stored = plan.blocks * (plan.vectors - plan.held - plan.streamed) * plan.columns
    streamed = plan.blocks * plan.streamed * plan.columns
    levels = plan.lanes.bit_length() - 1
    of_planes = _ADDED * added / 4 + _FACTORS * read + _WEIGHTS * stored
    of_planes += _EXCHANGED * plan.blocks * _shuffles(plan)
    of_planes += _READ * streamed * max(1, 2 * cubes * plan.groups(samples) / info.cores)
    evaluated = plan.turns * (cell.before.weight + cell.after.weight)
    made = _STEP + planes * of_planes + _LEVEL * plan.blocks * levels
    made += evaluated * (_EVALUATED + _BESIDE * planes)
    if plan.waits:
        factors = plan.samples * plan.terms
        made += _WAITED + _FACTOR * factors + _WORD * -(-factors // plan.units) + _CUBE * cubes
    # Cubes beyond one for each core wait for their turn.
    return made * -(-cubes * plan.groups(samples) // info.cores)


def _shuffles(plan: UnitPlan) -> int:
    """Return the exchanges of a unit that add the sums of its lanes."""
    left, count, items = plan.lanes, 0, plan.items
    while left > 1:
        items = max(1, items // 2)
        count += items * plan.sums
        left //= 2
    return count
