"""Folding after other passes and unrolling, and if-conversion of cheap branches.

A branch that selects between numbers becomes a few operations without a jump, which keeps vector
lanes and units of a plane converged.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.ir.fold import may_fail
from calor_kernel.ir.nodes import Block, Kernel, Operation
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes.rewriting import Parts, Rewriter, keep

# The maximum cost of an untaken branch that is computed anyway, in simple operations.
CHEAP = 8
_DEAR = {"div": 8, "sqrt": 8, "quotient": 8, "modulo": 8, "vreduce": 4, "constant": 0, "splat": 0}


def simplify(kernel: Kernel) -> Kernel:
    """Return the kernel with known values folded, and equal operations shared."""
    return Simplifier().run(kernel)


class Simplifier(Rewriter):
    """The pass of :func:`simplify`."""

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        if operation.name == "if":
            return self._branch(operation)
        if operation.name == "for":
            return self._loop(operation)
        return None

    def _branch(self, operation: Operation) -> Sequence[Parts] | None:
        condition = self.get(operation.operands[0])
        if isinstance(condition.known, bool):
            return self.inline(operation.regions[0 if condition.known else 1])
        then, otherwise = regions = [self.region(r) for r in operation.regions]
        self.source = operation.position
        if not (_cheap(then) and _cheap(otherwise)):
            types = [r.type for r in operation.results]
            made = self.emit("if", (condition,), types, regions=regions)
            for new, old in zip(made, operation.results, strict=True):
                keep(new, old)
            return [(value,) for value in made]
        self.block.operations += [*then.operations, *otherwise.operations]
        pairs = zip(then.yields, otherwise.yields, strict=True)
        return [
            (self.select(self.splat(condition, a.type.width), a, b),) if a is not b else (a,)
            for a, b in pairs
        ]

    def _loop(self, operation: Operation) -> Sequence[Parts] | None:
        start, stop, step, *carried = operation.operands
        first, last, by = (self.get(v).known for v in (start, stop, step))
        if first is None or last is None or not by:
            return None
        rounds = len(range(first, last, by))
        if rounds > 1:
            return None
        if rounds == 0:
            return [self.parts(v) for v in carried]
        body = operation.regions[0]
        for argument, value in zip(body.arguments, (start, *carried), strict=True):
            self.stand(argument, self.parts(value))
        return self.inline(body)


def _cheap(block: Block) -> bool:
    """Return whether a block can be executed unconditionally at little cost."""
    cost = 0
    for operation in block.operations:
        if not OPS[operation.name].pure or may_fail(operation.name, operation.operands):
            return False
        size = max((v.type.nbytes for v in (*operation.operands, *operation.results)), default=0)
        # An operation takes a vector register for each 64 bytes.
        cost += _DEAR.get(operation.name, 1) * max(-(-size // 64), 1)
    return cost <= CHEAP
