"""Loads that a condition chooses, as branches around the loads.

Requirements: a language with lazy choices reads memory only where the chosen value comes from
there, and WGSL's ``select`` always reads. On an H200 a depthwise convolution took five times as
long, because units read one element in place of the many that lie in padding. Only a load moves
that is used once, in its own block, and no further than the next change of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.rewriting import Parts, Rewriter


def branch_chosen_loads(kernel: Kernel) -> Kernel:
    """Return the kernel with each load that is read under a condition in a branch.

    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, kernel, select
    >>> @kernel
    ... def copy(x, y, i, n):
    ...     y[0] = select(i < n, x[select(i < n, i, 0)], 0.0)
    >>> given = [Buffer(float32), Buffer(float32), Scalar(int64), Scalar(int64)]
    >>> made = branch_chosen_loads(copy.build(given))  # doctest: +SKIP
    >>> [o.name for o in made.body.walk() if o.regions]  # doctest: +SKIP
    ['if']
    """
    uses: Counter[Value] = Counter()
    for operation in kernel.body.walk():
        uses.update(operation.operands)
        for region in operation.regions:
            uses.update(region.yields)
    chosen: dict[int, Operation] = {}
    _find(kernel.body, uses, chosen)
    return _Chosen(chosen).run(kernel) if chosen else kernel


def _find(block: Block, uses: Mapping[Value, int], chosen: dict[int, Operation]) -> None:
    """Add the loads of a block and of its regions that move, by the choice that reads them."""
    ready: dict[Value, Operation] = {}
    for operation in block.operations:
        for region in operation.regions:
            _find(region, uses, chosen)
        if operation.name == "load":
            plain = operation.attributes.get("order") in (None, "relaxed")
            if plain and operation.memory is not None and operation.memory.space == "global":
                ready[operation.result] = operation
        elif operation.name == "select" and operation.operands[0].type.width == 1:
            loads = [ready.get(v) for v in operation.operands[1:] if uses[v] == 1]
            found = [load for load in loads if load is not None]
            # A load for either outcome reads no more than the choice needs, but both would branch.
            if len(found) == 1:
                chosen[id(operation)] = found[0]
        elif operation.regions or not OPS[operation.name].pure:
            ready.clear()


class _Chosen(Rewriter):
    def __init__(self, chosen: Mapping[int, Operation]) -> None:
        super().__init__()
        self.chosen = chosen
        self.moved = {id(load) for load in chosen.values()}

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit a choice as a branch with its load; nothing is emitted where the load was."""
        if id(operation) in self.moved:
            return [()]
        load = self.chosen.get(id(operation))
        if load is None:
            return None
        condition, *values = operation.operands
        regions = []
        for value in values:
            with self.inside(Block()) as region:
                if value is load.result:
                    region.yields = self.again(load, self.flat(load.operands))
                else:
                    region.yields = (self.get(value),)
            regions.append(region)
        types = [operation.result.type]
        return [self.emit("if", (self.get(condition),), types, regions=regions)]
