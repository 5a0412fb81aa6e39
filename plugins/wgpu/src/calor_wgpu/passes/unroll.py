"""Full unrolling of the loops that request it, for languages without an unroll pragma.

Sums of an index and constants are folded, so that rounds differ by a constant in an address.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.ir.nodes import Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter, keep


def unroll_loops(kernel: Kernel) -> Kernel:
    """Return the kernel with fully unrolled loops, for known rounds and a full unroll request.

    >>> from calor.dtypes import float32
    >>> from calor_kernel.language import Buffer, kernel, loop_range
    >>> @kernel
    ... def fill(x):
    ...     for i in loop_range(0, 3, unroll=3):
    ...         x[i] = 1.0
    >>> built = fill.build([Buffer(float32)])  # doctest: +SKIP
    >>> [o.name for o in unroll_loops(built).body.walk()].count("store")  # doctest: +SKIP
    3
    """
    return _Unroller().run(kernel)


class _Unroller(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        # Values as sums of another value and a constant.
        self.sums: dict[Value, tuple[Value, int]] = {}

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        if operation.name == "for":
            return self.loop(operation)
        if operation.name == "add" and operation.result.type.dtype.kind in ("int", "uint"):
            return self.sum(operation)
        return None

    def loop(self, operation: Operation) -> Sequence[Parts] | None:
        start, stop, step = (self.get(v).known for v in operation.operands[:3])
        if start is None or stop is None or not step:
            return None
        rounds = range(start, stop, step)
        if len(rounds) > operation.attributes.get("unroll", 1):
            return None
        (body,) = operation.regions
        index, *arguments = body.arguments
        carried = [self.parts(v) for v in operation.operands[3:]]
        for number in rounds:
            self.stand(index, (self.like(number, index),))
            for argument, parts in zip(arguments, carried, strict=True):
                self.stand(argument, parts)
            carried = self.inline(body)
        return carried

    def sum(self, operation: Operation) -> Sequence[Parts] | None:
        value, more = (self.get(v) for v in operation.operands)
        if value.type.width > 1 or not isinstance(more.known, int) or value.known is not None:
            return None
        base, number = self.sums.get(value, (value, 0))
        made = self.make("add", base, self.like(number + more.known, value))
        keep(made, operation.result)
        self.sums[made] = base, number + more.known
        return [(made,)]
