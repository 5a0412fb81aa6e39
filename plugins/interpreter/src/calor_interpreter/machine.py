"""The state of a launch on lanes: active units, their values, and error positions.

Requirements: the units of a batch of cubes run in lock step, each operation once for all of them. A
value is an array with one row per unit, or one row if it is uniform, so uniform work costs one
unit's. A mask is None while all units are active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from math import prod
from typing import Any, NoReturn, Protocol

import numpy as np

from calor_interpreter.state import State
from calor_kernel.errors import KernelCheckError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value

Array = np.ndarray[Any, Any]
Step = Callable[["Batch"], None]
# Planes in a warpgroup.
WARPGROUP = 4


class Compiler(Protocol):
    """Compiles a kernel's blocks to steps; values live in numbered slots."""

    kernel: Kernel
    values: list[Any]

    def slot(self, value: Value) -> int:
        """Return the slot of a value."""

    def slots(self, values: Iterable[Value]) -> list[int]:
        """Return the slots of values."""

    def number(self, memory: Memory | None) -> int:
        """Return a memory's number."""

    def block(self, block: Block) -> Sequence[Step]:
        """Return the steps of a block."""

    def step(self, operation: Operation) -> Step:
        """Return the step of an operation."""

    def apply(self, operation: Operation, function: Callable[..., Array]) -> Step:
        """Return the step of an operation that is a function of its operands."""


class Party(Protocol):
    """Roles that run concurrently; ``numbers``: those of their threads, by identifier."""

    numbers: dict[int, int]

    def moved(self) -> None:
        """Note an event for which others may wait."""

    def give_way(self) -> bool:
        """Let the other roles run; False on a deadlock: all wait and nothing moved."""


class Launch:
    """The state shared by the batches of one launch.

    ``clock`` counts synchronizations and releases. ``published``: whether there was any release.
    ``released`` and ``acquired`` hold the clock at each cube's last release and acquire at device
    scope.
    """

    def __init__(
        self,
        kernel: Kernel,
        cubes: tuple[int, int, int],
        checks: bool,
        output: Callable[[str], object],
    ) -> None:
        self.kernel = kernel
        self.cubes = cubes
        self.checks = checks
        self.output = output
        self.clock = 1
        self.published = False
        count = cubes[0] * cubes[1] * cubes[2]
        self.released = np.zeros(count, np.int64)
        self.acquired = np.zeros(count, np.int64)


class Batch:
    """The units of some consecutive cubes, and their values by slot.

    Attributes: ``values``, by the program's slots; ``mask``, the active units; ``states``, the
    memories by number; ``every``, the units' indices in the batch; ``cubes``, each unit's cube
    number; ``who``, its number in the launch plus one; ``spreads``, the units' indices repeated for
    vectors, by width; ``last_barrier`` and ``last_meeting``, the clock at each unit's last barrier
    of its cube, and of its plane or cube; ``all_passed``, the least ``last_barrier``; ``flights``,
    the
    asynchronous copies by group name; ``named``, the named barriers; ``mbarriers``, those in memory
    by its number; ``crew``, the cubes of a cluster; ``peers``, their units; ``known``, for barriers
    of some units, a vector clock per unit and peer that orders earlier accesses; ``party``, the
    concurrent roles.
    """

    __slots__ = (
        "all_passed",
        "count",
        "crew",
        "cubes",
        "every",
        "first",
        "flights",
        "known",
        "lanes",
        "last_barrier",
        "last_meeting",
        "launch",
        "mask",
        "mbarriers",
        "named",
        "party",
        "peers",
        "spreads",
        "states",
        "units",
        "values",
        "who",
    )

    def __init__(
        self,
        launch: Launch,
        first: int,
        count: int,
        values: list[Any],
        states: list[State],
        named: bool = False,
    ) -> None:
        self.launch = launch
        self.first = first
        self.count = count
        self.units = launch.kernel.units
        self.crew = cluster_of(launch.kernel)
        self.peers = self.crew * self.units
        self.lanes = count * self.units
        self.values = values
        self.states = states
        self.mask: Array | None = None
        self.flights: dict[Any, Any] = {}
        # The modules of these barriers make and read the entries.
        self.named: dict[int, Any] = {}
        self.mbarriers: dict[int, Any] = {}
        self.known = np.zeros((self.lanes if named else 0, self.peers), np.int64)
        self.party: Party | None = None
        self.every = np.arange(self.lanes)
        self.spreads: dict[int, Array] = {}
        self.who = self.every + (first * self.units + 1)
        self.cubes = self.every // self.units + first
        self.last_barrier = np.zeros(self.lanes, np.int64)
        self.last_meeting = self.last_barrier
        self.all_passed = 0

    def passed(self, last_barrier: Array) -> None:
        """Set the clock at each unit's last barrier of its cube."""
        self.last_barrier = last_barrier
        self.all_passed = int(last_barrier.min())

    def fork(self, mask: Array) -> Batch:
        """Return the same batch with another mask and barriers of its own."""
        made = copy(self)
        made.mask = mask
        return made

    def active(self) -> Array:
        """Return the active units as an array of bools."""
        return np.ones(self.lanes, np.bool_) if self.mask is None else self.mask

    def full(self, value: Array) -> Array:
        """Return a value with one row per unit."""
        # NumPy repeats a row faster than it makes a view of strides 0.
        return value if len(value) == self.lanes else value.repeat(self.lanes, 0)

    def spread(self, width: int) -> Array:
        """Return the index of the unit of each element of vectors, one after the other."""
        found = self.spreads.get(width)
        if found is None:
            found = self.spreads[width] = self.every.repeat(width)
        return found

    def cube_position(self, axis: int) -> Array:
        """Return each unit's cube position along an axis."""
        x, y, _ = self.launch.cubes
        linear = np.arange(self.first, self.first + self.count)
        along = (linear % x, linear // x % y, linear // (x * y))[axis]
        return along if self.units == 1 else np.repeat(along, self.units)

    def unit_position(self, axis: int) -> Array:
        """Return each unit's position in its cube along an axis."""
        x, y, _ = self.launch.kernel.cube
        linear = np.arange(self.units)
        along = (linear % x, linear // x % y, linear // (x * y))[axis]
        return np.tile(along, self.count)

    def linear_position(self) -> Array:
        """Return each unit's linear position in its cube, x fastest."""
        return self.every % self.units

    def fail(
        self,
        operation: Operation,
        rule: str,
        lane: int | None,
        message: str,
        *,
        memory: str | None = None,
        index: int | None = None,
    ) -> NoReturn:
        """Raise the KernelCheckError of an operation for one unit of the batch."""
        where = operation.position
        cube = unit = None
        who = ""
        if lane is not None:
            cube, unit = self.name(self.first * self.units + int(lane))
            who = f" by unit {unit} of cube {cube}"
        line = f"{where[0]}:{where[1]}: " if where is not None else ""
        what = operation.name if memory is None else f"{operation.name} of {memory}[{index}]"
        raise KernelCheckError(
            f"{line}{what}{who} in kernel {self.launch.kernel.name}: {message}",
            rule=rule,
            memory=memory,
            index=index,
            cube=cube,
            unit=unit,
            position=where,
        )

    def name(self, unit: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Return the positions of cube and unit, from the unit's number."""
        cube, linear = divmod(unit, self.units)
        return _place(cube, self.launch.cubes), _place(linear, self.launch.kernel.cube)


def _place(linear: int, size: Sequence[int]) -> tuple[int, int, int]:
    return linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])


def cluster_of(kernel: Kernel) -> int:
    """Return the number of cubes that run together and share access to shared memory."""
    return prod(kernel.attributes.get("cluster", (1,)))


def run_steps(steps: Sequence[Step], batch: Batch) -> None:
    """Run the steps of a block in order."""
    for step in steps:
        step(batch)
