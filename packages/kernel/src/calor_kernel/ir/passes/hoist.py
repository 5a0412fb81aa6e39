"""Loop-invariant code motion.

Only operations without effects that cannot fail are hoisted, because the loop may run no round. A
load of read-only memory is hoisted if the loop surely runs.
"""

from __future__ import annotations

from calor_kernel.ir.emitting import reads_constant
from calor_kernel.ir.fold import may_fail
from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.ops import OPS


def hoist(kernel: Kernel) -> None:
    """Hoist loop-invariant operations in place, in a kernel without other references."""
    _block(kernel.body)


def _block(block: Block) -> None:
    result: list[Operation] = []
    for operation in block.operations:
        for region in operation.regions:
            _block(region)
        if operation.name in ("for", "while"):
            result += _invariants(operation)
        result.append(operation)
    block.operations = result


def _invariants(loop: Operation) -> list[Operation]:
    """Remove the invariant operations from a loop's regions, and return them."""
    inside: set[Value] = set()
    for region in loop.regions:
        inside.update(region.arguments)
        for operation in region.walk():
            inside.update(operation.results)
            for inner in operation.regions:
                inside.update(inner.arguments)
    moved: list[Operation] = []
    start, stop, step = (v.known for v in loop.operands[:3]) if loop.name == "for" else (0, 0, 0)
    known = None not in (start, stop, step)
    runs = known and bool(start < stop if step > 0 else start > stop)
    for region in loop.regions:
        stay: list[Operation] = []
        for operation in region.operations:
            if _movable(operation, runs) and inside.isdisjoint(operation.operands):
                moved.append(operation)
                inside.difference_update(operation.results)
            else:
                stay.append(operation)
        region.operations = stay
    return moved


def _movable(operation: Operation, runs: bool) -> bool:
    if OPS[operation.name].pure:
        return runs or not may_fail(operation.name, operation.operands)
    return runs and reads_constant(operation.name, operation.memory, operation.attributes)
