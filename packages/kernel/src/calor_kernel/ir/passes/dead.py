"""Dead code elimination: operations, unused results of regions, unused carried values.

A carried value stays only if it is read after the loop or by a live operation; an accumulator that
only reads itself is removed.
"""

from __future__ import annotations

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value, carried_from
from calor_kernel.ir.ops import OPS


def has_effect(operation: Operation) -> bool:
    """Return whether an operation must stay even if its results are unused."""
    row = OPS[operation.name]
    if row.pure:
        return False
    # A load with an order synchronises.
    if not row.droppable or operation.attributes.get("order"):
        return True
    return any(has_effect(inner) for region in operation.regions for inner in region.operations)


def sweep(kernel: Kernel) -> None:
    """Remove dead code in place from a kernel without other references."""
    marks = _Marks()
    marks.block(kernel.body, None)
    marks.run()
    _drop(kernel.body, marks)


class _Marks:
    """The live operations and values: those on the way to an effect."""

    def __init__(self) -> None:
        self.live: set[Operation] = set()
        self.values: set[Value] = set()
        # The dependences of a value: its operation, and other values.
        self.makers: dict[Value, Operation] = {}
        self.ties: dict[Value, tuple[Value, ...]] = {}
        self.parents: dict[Operation, Operation | None] = {}
        self.todo: list[Value] = []

    def block(self, block: Block, parent: Operation | None) -> None:
        """Scan a block: the operation of each value, and live effects."""
        for operation in block.operations:
            self.parents[operation] = parent
            if (not operation.regions and has_effect(operation)) or operation.name == "role":
                self._operation(operation)
            for result in operation.results:
                self.makers[result] = operation
            for region in operation.regions:
                self.block(region, operation)
            self._tie(operation)

    def _tie(self, operation: Operation) -> None:
        """Record which values are live if a result or argument of a region is."""
        for place, result in enumerate(operation.results):
            if operation.name == "if":
                self.ties[result] = tuple(r.yields[place] for r in operation.regions)
            elif operation.name in ("for", "while"):
                first = carried_from(operation)
                body = operation.regions[-1]
                tied = (operation.operands[first + place], body.yields[place])
                self.ties[result] = tied
                for region in operation.regions:
                    argument = region.arguments[place + (operation.name == "for")]
                    self.ties[argument] = (*tied, result)
                    self.makers[argument] = operation
        if operation.name == "for":
            self.makers[operation.regions[0].arguments[0]] = operation

    def run(self) -> None:
        """Mark everything on the way to an effect."""
        while self.todo:
            value = self.todo.pop()
            self._operation(self.makers.get(value))
            for tied in self.ties.get(value, ()):
                self._value(tied)

    def _operation(self, operation: Operation | None) -> None:
        while operation is not None and operation not in self.live:
            self.live.add(operation)
            loop = operation.name in ("for", "while")
            for value in operation.operands[: carried_from(operation) if loop else None]:
                self._value(value)
            if operation.name == "while":
                for value in operation.regions[0].yields:
                    self._value(value)
            operation = self.parents[operation]

    def _value(self, value: Value) -> None:
        if value not in self.values:
            self.values.add(value)
            self.todo.append(value)


def _drop(block: Block, marks: _Marks) -> None:
    block.operations = [o for o in block.operations if o in marks.live]
    for operation in block.operations:
        if operation.name in ("for", "while", "if"):
            _narrow(operation, marks.values)
        for region in operation.regions:
            _drop(region, marks)


def _narrow(operation: Operation, values: set[Value]) -> None:
    """Remove unused results and their carried values."""
    body = operation.regions[-1]
    lead = int(operation.name == "for")

    def needed(place: int, result: Value) -> bool:
        if result in values:
            return True
        loop = operation.name != "if"
        return loop and any(r.arguments[place + lead] in values for r in operation.regions)

    kept = [i for i, result in enumerate(operation.results) if needed(i, result)]
    if len(kept) == len(operation.results):
        return
    operation.results = tuple(operation.results[i] for i in kept)
    if operation.name == "if":
        for region in operation.regions:
            region.yields = tuple(region.yields[i] for i in kept)
        return
    first = carried_from(operation)
    operands = operation.operands
    operation.operands = (*operands[:first], *(operands[first + i] for i in kept))
    body.yields = tuple(body.yields[i] for i in kept)
    for region in operation.regions:
        arguments = region.arguments
        region.arguments = (*arguments[:lead], *(arguments[lead + i] for i in kept))
