"""Loads that a condition chooses, as branches around the loads, or as masked loads.

Requirements: a language with lazy choices reads memory only where the chosen value comes from
there, and WGSL's ``select`` always reads. On an H200 a depthwise convolution took five times as
long, because units read one element in place of the many that lie in padding. Only a load moves
that is used once, in its own block, and no further than the next change of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import bool_
from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Type
from calor_wgpu.passes.accesses import reads_beyond, reads_on

# Operations before the load of a branch that is a masked load, and those that only units compute
# that need them.
_BRIEF: Final = 12
_DEAR: Final = ("quotient", "modulo", "div", "sqrt")


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


def mask_branched_loads(kernel: Kernel, zeros: bool = False) -> Kernel:
    """Return the kernel with branches that only load four words as masked loads.

    On an H200 a unit waits for the load of a branch before it begins the next one: a norm of a
    single row took 4.75 µs, and takes 2.61. Loads of single words are left: those of products, of
    which many are ahead, are faster in branches.

    ``zeros``: for a device that reads zeros beyond a buffer. Then all loads of up to four bytes
    become masked loads, and no others.
    """
    return _Masked(zeros).run(kernel)


def _is_masked_load(operation: Operation, zeros: bool) -> bool:
    """Return whether a branch loads words at an index of a few operations, and no more."""
    if operation.name != "if" or len(operation.results) != 1:
        return False
    then, otherwise = operation.regions
    *before, last = then.operations or (operation,)
    if last.name != "load" or otherwise.operations or tuple(then.yields) != tuple(last.results):
        return False
    few = len(before) <= _BRIEF and all(
        OPS[one.name].pure and not one.regions and one.name not in _DEAR for one in before
    )
    if not few or last.attributes.get("masked"):
        return False
    if zeros:
        return reads_beyond(last)
    return reads_on(replace(last, attributes={**last.attributes, "masked": True}))


class _Masked(Rewriter):
    def __init__(self, zeros: bool) -> None:
        super().__init__()
        self.zeros = zeros

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit a branch as a masked load."""
        if not _is_masked_load(operation, self.zeros):
            return None
        then, otherwise = operation.regions
        *before, load = then.operations
        for one in before:
            self._step(one)
        mask, index = self.get(operation.operands[0]), self.get(load.operands[0])
        width = load.result.type.width
        if width > 1:
            (mask,) = self.emit("splat", (mask,), (Type(bool_, width),))
        operands = (index, mask, self.get(otherwise.yields[0]))
        return [self.again(load, operands, None, {**load.attributes, "masked": True})]
