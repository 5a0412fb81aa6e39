"""Prints a kernel in a C-like language.

People read the text, in golden files and in compilers' messages, so values with a single use are
inlined and names are those of the kernel. No read of memory moves across a write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.passes import (
    branch_uniform_masks,
    load_early,
    optimize,
    split_vectors,
    sweep,
)
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import memory, units, vectors
from calor_kernel.printers.dialect import Dialect, Statement
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer


def print_kernel(kernel: Kernel, dialect: Dialect) -> str:
    """Return a kernel as text; CompileError names an unsupported construct.

    >>> from calor.dtypes import float32, int64
    >>> from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
    >>> from calor_kernel.printers import PlainC
    >>> @kernel
    ... def double(x, n):
    ...     i = absolute_position()
    ...     if i < n:
    ...         x[i] = x[i] * 2.0
    >>> built = double.build([Buffer(float32), Scalar(int64)])  # doctest: +SKIP
    >>> print(print_kernel(built, PlainC()))  # doctest: +SKIP
    """
    fitting = split_vectors(branch_uniform_masks(optimize(kernel)), dialect.widths)
    sweep(fitting)
    if dialect.loads_early:
        load_early(fitting)
    return KernelPrinter(fitting, dialect).text()


class KernelPrinter(Printer):
    """Prints the operations and regions of one kernel."""

    def operation(self, operation: Operation, block: Block) -> None:
        name = operation.name
        if name == "constant":
            self.texts[operation.result] = self.constant(operation)
        elif name in self.dialect.statements:
            self.dialect.statements[name](self, operation, block)
        elif name in _STATEMENTS:
            _STATEMENTS[name](self, operation, block)
        elif OPS[name].pure:
            if self.uses[operation.result]:
                self.define(operation.result, self.pure(operation), _hint(operation), block)
        else:
            self.dialect.refuse(name)

    def pure(self, operation: Operation) -> Expression:
        """Return an operation that depends only on its operands."""
        result = operation.result.type
        types = [v.type for v in operation.operands]
        if operation.name.endswith("_position") or operation.name == "cube_count":
            axis = operation.attributes.get("axis", 0)
            return self.dialect.position(operation.name, axis, result.dtype)
        wide = result.width > 1 or any(t.width > 1 for t in types)
        if wide or operation.name in vectors.OF_LANES:
            return vectors.vector(self, operation, wide)
        operands = [self.operand(v) for v in operation.operands]
        safe = operation.result.nonnegative and all(v.nonnegative for v in operation.operands)
        return self.scalars.operation(
            operation.name, result, types, operands, operation.attributes, safe
        )

    # Regions.
    def loop(self, operation: Operation, block: Block) -> None:
        """Print ``for``."""
        (body,) = operation.regions
        start, stop, step = operation.operands[:3]
        first, last, stride = self.operand(start), self.atom(stop), self.atom(step)
        index, *arguments = body.arguments
        self.carry(operation, operation.operands[3:], [arguments])
        self.settle(loads=True)
        name = self.fresh(index.hint or "i")
        self.texts[index] = Expression(name)
        number = step.known
        below, above = (ex.infix(sign, ex.ORDER, self.texts[index], last) for sign in "<>")
        if number is None:
            forth = Expression(f"{stride.text} > 0", ex.ORDER)
            test = self.dialect.choose(forth, below, above).text
        else:
            test = (below if number > 0 else above).text
        forward = {1: f"{name}++", -1: f"{name}--"}.get(number, f"{name} += {stride.text}")
        unroll = operation.attributes.get("unroll", 1)
        if unroll != 1 or waits(body):
            self.line(self.dialect.unroll(unroll))
        begin = self.dialect.declare(index.type, name, first)
        with self.rounds(self.texts[index], index.type, begin, test, forward):
            self.block(body)
            self.assign(arguments, body.yields)

    @contextmanager
    def rounds(
        self, index: Expression, type: Type, begin: str, test: str, forward: str
    ) -> Iterator[None]:
        """Wrap the printed lines in a loop."""
        with self.braces(f"for ({begin} {test}; {forward})"):
            yield

    def repeat(self, operation: Operation, block: Block) -> None:
        """Print ``while``."""
        question, body = operation.regions
        self.carry(operation, operation.operands, [question.arguments, body.arguments])
        self.settle(loads=True)
        before, self.lines = self.lines, []
        self.depth += 1
        self.block(question)
        condition = self.operand(question.yields[0])
        self.depth -= 1
        asked, self.lines = self.lines, before
        inside = bool(asked or self.leaving)
        with self.braces(f"while ({'true' if inside else condition.text})"):
            if inside:
                self.lines += asked
                self.line(f"if ({ex.prefix('!', condition).text}) {{ {self.leaving}break; }}")
            self.block(body)
            self.assign(body.arguments, body.yields)

    def carry(
        self, operation: Operation, initial: Sequence[Value], arguments: Sequence[Sequence[Value]]
    ) -> None:
        """Declare the variables of a loop: its arguments inside, its results after it."""
        for i, (value, result) in enumerate(zip(initial, operation.results, strict=True)):
            inside = [group[i] for group in arguments]
            hints = [v.hint for v in (*inside, result, value) if v.hint]
            given = self.operand(value)
            name = self.fresh(hints[0] if hints else "carried")
            self.line(self.dialect.declare(result.type, name, given))
            for one in (*inside, result):
                self.texts[one] = Expression(name)

    def branch(self, operation: Operation, block: Block) -> None:
        """Print ``if``."""
        condition = self.operand(operation.operands[0])
        then, otherwise = operation.regions
        if self.chosen(operation, condition, block):
            return
        self.settle_for(operation)
        for result in operation.results:
            name = self.fresh(result.hint or "t")
            self.line(self.dialect.declare(result.type, name))
            self.texts[result] = Expression(name)
        if not then.operations and not operation.results:
            then, otherwise, condition = otherwise, then, ex.prefix("!", condition)
        more = bool(otherwise.operations or operation.results)
        with self.braces(f"if ({condition.text})", "} else {" if more else "}"):
            self.block(then)
            self.assign(operation.results, then.yields)
        if more:
            self.depth += 1
            self.block(otherwise)
            self.assign(operation.results, otherwise.yields)
            self.depth -= 1
            self.line("}")

    def chosen(self, operation: Operation, condition: Expression, block: Block) -> bool:
        """Print a branch that only selects between scalars as an expression."""
        ways = operation.regions
        simple = all(not r.operations for r in ways) and len(operation.results) == 1
        if not simple or operation.result.type.width > 1:
            return False
        a, b = (self.operand(r.yields[0]) for r in ways)
        made = self.dialect.choose_as(operation.result.type.dtype, condition, a, b)
        self.define(operation.result, made, "t", block)
        return True

    def assign(self, targets: Sequence[Value], values: Sequence[Value]) -> None:
        """Assign a region's yields to variables, simultaneously."""
        pairs = [
            (self.texts[t].text, self.operand(v), t) for t, v in zip(targets, values, strict=True)
        ]
        pairs = [(name, given, t) for name, given, t in pairs if given.text != name]
        written: set[str] = set()
        for i, (name, given, target) in enumerate(pairs):
            if written & set(re.findall(r"\w+", given.text)):
                held = self.fresh(f"{name}_next")
                self.line(self.dialect.keep(target.type, held, given))
                pairs[i] = (name, Expression(held), target)
            written.add(name)
        for name, given, _ in pairs:
            self.line(f"{name} = {given.text};")

    def settle_for(self, operation: Operation) -> None:
        """Name the pending expressions if an operation of the regions may write memory.

        A loop or barrier in a region would name those that load inside it, where the operations
        behind the branch do not see the names.
        """
        names = {one.name for region in operation.regions for one in region.walk()}
        waits = not names.isdisjoint(("for", "while", "barrier"))
        if waits or any(not OPS[name].pure and name != "load" for name in names):
            self.settle(loads=waits)


def waits(body: Block) -> bool:
    """Return whether the rounds of a loop wait for copies.

    Compilers unroll it otherwise, which saves no time then, and take half as long again.
    """
    return any(operation.name == "mbarrier_wait" for operation in body.walk())


def _hint(operation: Operation) -> str:
    name = operation.name
    if name.endswith("_position") or name == "cube_count":
        axis: Any = operation.attributes.get("axis")
        base = name.removesuffix("_position") if name != "cube_count" else "cubes"
        return base if axis is None else f"{base}_{'xyz'[axis]}"
    return "t"


_STATEMENTS: Final[Mapping[str, Statement]] = {
    "for": KernelPrinter.loop,
    "while": lambda printer, operation, block: printer.repeat(operation, block),
    "if": lambda printer, operation, block: printer.branch(operation, block),
    "load": memory.load,
    "store": memory.store,
    "atomic": memory.atomic,
    "prefetch": memory.prefetch,
    "select_memory": memory.select,
    "copy_async": memory.copy,
    "commit_async": memory.nothing,
    "wait_async": memory.nothing,
    "barrier": units.barrier,
    "fence": units.fence,
    "plane_shuffle": units.plane,
    "plane_reduce": units.plane,
    "plane_scan": units.plane,
    "plane_ballot": units.plane,
    "role": units.role,
    "print": units.printed,
    "assert": units.asserted,
    "inline": units.inline,
}
