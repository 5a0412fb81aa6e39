"""Unrolling of the loops that request it, for languages without an unroll pragma.

A loop of few known rounds is unrolled whole; another becomes a loop of several rounds at a time and
one of the rest. Sums of an index and constants are folded, so that rounds differ by a constant in
an address.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter, keep


def unroll_loops(kernel: Kernel) -> Kernel:
    """Return the kernel with the loops unrolled that ask for it.

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
        wanted = operation.attributes.get("unroll", 1)
        if wanted == 1 or not isinstance(step, int):
            return None
        if start is None or stop is None:
            return self.in_turns(operation, step, wanted)
        rounds = range(start, stop, step)
        if len(rounds) > wanted:
            return self.in_turns(operation, step, wanted)
        (body,) = operation.regions
        index, *arguments = body.arguments
        carried = [self.parts(v) for v in operation.operands[3:]]
        for number in rounds:
            self.stand(index, (self.like(number, index),))
            for argument, parts in zip(arguments, carried, strict=True):
                self.stand(argument, parts)
            carried = self.inline(body)
        return carried

    def in_turns(self, operation: Operation, step: int, wanted: int) -> Sequence[Parts] | None:
        """Emit a loop of ``wanted`` rounds at a time, and one of the remaining rounds."""
        start, stop = (self.get(v) for v in operation.operands[:2])
        if step < 1 or start.type.dtype.kind != "int":
            return None
        (body,) = operation.regions
        index, *arguments = body.arguments
        given = [start, *self.flat(operation.operands[3:])]

        def rounds(first: Value, last: Value, count: int, carried: Sequence[Value]) -> Parts:
            """Emit a loop; it carries the index of the next round before the kernel's values."""
            place, *values = (Value(v.type, index.hint) for v in (first, *carried))
            place.divisible = gcd(start.divisible, step)
            place.nonnegative = start.nonnegative
            with self.inside(Block((place, *values))) as made:
                next_: Value = place
                for number in range(count):
                    if number:
                        next_ = self.make("add", place, self.like(number * step, place))
                    self.stand(index, (next_,))
                    for argument, value in zip(arguments, values[1:], strict=True):
                        self.stand(argument, (value,))
                    values[1:] = (v for parts in self.inline(body) for v in parts)
                far = self.make("add", place, self.like(count * step, place))
                made.yields = (far, *values[1:])
            types = [v.type for v in carried]
            by = self.like(count * step, first)
            return self.emit("for", (first, last, by, *carried), types, regions=(made,))

        known = start.known, stop.known
        whole = None not in known and len(range(*known, step)) % wanted == 0
        before = self.make("sub", stop, self.like((wanted - 1) * step, stop))
        done = rounds(start, before, wanted, given)
        made = done if whole else rounds(done[0], stop, 1, done)
        return [(value,) for value in made[1:]]

    def sum(self, operation: Operation) -> Sequence[Parts] | None:
        value, more = (self.get(v) for v in operation.operands)
        if value.type.width > 1 or not isinstance(more.known, int) or value.known is not None:
            return None
        base, number = self.sums.get(value, (value, 0))
        made = self.make("add", base, self.like(number + more.known, value))
        keep(made, operation.result)
        self.sums[made] = base, number + more.known
        return [(made,)]
