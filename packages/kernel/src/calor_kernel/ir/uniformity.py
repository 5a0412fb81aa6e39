"""Uniformity analysis: data flow over a kernel, loops included.

A barrier that some units do not reach hangs or is undefined, so the condition of a collective
operation must be uniform over its scope. The answer is "differs" in doubt.

Memory shared by units is read without a race, so a load at one index gives all units the same
value. A load with an order observes other units and differs. A unit's private memory, atomics and
scans differ. Planes are full, and units of a cube with one axis are numbered plane by plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value, carried_from
from calor_kernel.ir.ops import OPS

# Planes in a warpgroup.
WARPGROUP = 4


class Level(IntEnum):
    """The largest group of units over which a value is uniform."""

    UNIT = 0
    PLANE = 1
    WARPGROUP = 2
    CUBE = 3
    CLUSTER = 4
    LAUNCH = 5


_POSITIONS = {
    "cube_count": Level.LAUNCH,
    "cube_position": Level.CUBE,
    "plane_position": Level.PLANE,
    "unit_position": Level.UNIT,
    "lane_position": Level.UNIT,
}
_SHARED_RESULTS = frozenset(("plane_reduce", "plane_ballot"))


class Uniformity:
    """The levels of a kernel's values.

    ``level(value)`` holds for the units that reach it; ``within[block]`` is the level of the
    conditions under which a block runs.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.within: dict[Block, Level] = {}
        self._levels: dict[Value, Level] = {}
        # Numbers of units in their cube.
        self._numbers: set[Value] = set()
        self._alone = kernel.units == 1
        self._one_plane = kernel.units <= kernel.plane
        for parameter in kernel.parameters:
            if parameter.value is not None:
                self._levels[parameter.value] = Level.LAUNCH
        # Levels only sink, and loop arguments start at the top: the first fixed point is the
        # answer.
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(kernel.body, Level.LAUNCH)

    def level(self, value: Value) -> Level:
        """Return the level of a value."""
        return self._levels.get(value, Level.LAUNCH)

    def meet(self, values: Sequence[Value]) -> Level:
        """Return the minimum level of several values."""
        return min(map(self.level, values), default=Level.LAUNCH)

    def _set(self, value: Value, level: Level) -> None:
        if self._alone:
            level = max(level, Level.CUBE)
        elif self._one_plane and level == Level.PLANE:
            level = Level.CUBE
        before = self.level(value)
        if level < before:
            self._changed = True
            self._levels[value] = level

    def _block(self, block: Block, control: Level) -> None:
        self.within[block] = control
        for operation in block.operations:
            self._operation(operation, control)

    def _operation(self, operation: Operation, control: Level) -> None:
        if operation.name in ("for", "while"):
            self._loop(operation, control)
        elif operation.name == "if":
            inner = min(control, self.level(operation.operands[0]))
            for region in operation.regions:
                self._block(region, inner)
            condition = self.level(operation.operands[0])
            for place, result in enumerate(operation.results):
                sides = [region.yields[place] for region in operation.regions]
                self._set(result, min(condition, self.meet(sides)))
        elif operation.name == "role":
            planes = WARPGROUP * self.kernel.plane
            said = operation.attributes
            whole = said.get("first", 0) % planes == 0 and said.get("count", 0) % planes == 0
            inner = Level.WARPGROUP if whole else Level.PLANE
            self._block(operation.regions[0], min(control, inner))
        else:
            level = self._simple(operation)
            for result in operation.results:
                self._set(result, level)

    def _loop(self, operation: Operation, control: Level) -> None:
        regions, first = operation.regions, carried_from(operation)
        lead = int(first > 0)
        asked = operation.operands[:3] if lead else regions[0].yields
        if lead:
            start, _, step = asked
            self._set(regions[0].arguments[0], self.meet((start, step)))
        for region in regions:
            carried = zip(operation.operands[first:], regions[-1].yields, strict=True)
            for argument, values in zip(region.arguments[lead:], carried, strict=True):
                self._set(argument, self.meet(values))
        # Of a while, only the units that continue evaluate the condition again.
        rounds = self.meet(asked)
        for region in regions:
            self._block(region, min(control, rounds))
        for result, argument in zip(operation.results, regions[0].arguments[lead:], strict=True):
            self._set(result, min(rounds, self.level(argument)))

    def _simple(self, operation: Operation) -> Level:
        name = operation.name
        if name in _POSITIONS:
            if name == "unit_position" and tuple(self.kernel.cube[1:]) == (1, 1):
                self._numbers.update(operation.results)
            return _POSITIONS[name]
        among = self.meet(operation.operands)
        if name in ("quotient", "shr") and operation.operands[0] in self._numbers:
            return max(self._quotient(operation), among)
        if name == "load":
            memory = operation.memory
            private = memory is not None and memory.space == "private"
            return Level.UNIT if private or operation.attributes.get("order") else among
        if name in _SHARED_RESULTS:
            return max(Level.PLANE, among)
        if name == "plane_shuffle":
            value, lane = map(self.level, operation.operands)
            to_all = operation.attributes.get("kind") == "index" and lane >= Level.PLANE
            return max(Level.PLANE, value) if to_all else value if value >= Level.PLANE else among
        return among if OPS[name].pure else Level.UNIT

    def _quotient(self, operation: Operation) -> Level:
        """Return the level of a unit's number, divided by a number known when it is built."""
        by = operation.operands[1].known
        if not isinstance(by, int):
            return Level.UNIT
        units = 1 << by if operation.name == "shr" else by
        if units % (WARPGROUP * self.kernel.plane) == 0:
            return Level.WARPGROUP
        return Level.PLANE if units % self.kernel.plane == 0 else Level.UNIT


def conditions(uniformity: Uniformity, block: Block) -> Iterator[tuple[Operation, Level]]:
    """Yield each operation with the level of its enclosing conditions."""
    for operation in block.operations:
        yield operation, uniformity.within[block]
        for region in operation.regions:
            yield from conditions(uniformity, region)
