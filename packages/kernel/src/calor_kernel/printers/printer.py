"""The state of printing a kernel: names, lines, pending expressions, elements."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from calor.dtypes import bool_
from calor.errors import CompileError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.elementwise import Scalars
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.helpers import HelperFunctions

# Longer expressions get a name. A long name counts as short, so that the names of parameters do not
# decide what stands in one expression: some compilers make slower code of conditions in parts.
_LONG: Final = 72
_LONG_NAME: Final = re.compile(r"\w{10,}")
_INDENT: Final = "  "


class Printer(ABC):
    """Prints one kernel: names, values, and the order of effects.

    A language's own statements are functions of a printer, an operation and its block.
    """

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        self.kernel = kernel
        self.dialect = dialect
        self.helpers = HelperFunctions(dialect)
        self.scalars = Scalars(dialect, self.helpers)
        self.elements = Elements(self)
        self.lines: list[str] = []
        self.depth = 1
        # The statement that leaves a while.
        self.leaving = ""
        self.taken: set[str] = set(dialect.reserved)
        # The last number that :meth:`fresh` gave to a base.
        self.numbers: dict[str, int] = {}
        self.memories: dict[Memory, str] = {}
        self.names: dict[str, str] = {}
        # The expression of each value, and the pending expressions with a single use.
        self.texts: dict[Value, Expression] = {}
        self.waiting: dict[Value, tuple[Expression, str]] = {}
        self.uses, self.homes = _uses(kernel.body)

    def text(self) -> str:
        """Return the text of the kernel."""
        for parameter in self.kernel.parameters:
            name = self.names[parameter.name] = self.fresh(parameter.name)
            if parameter.memory is not None:
                self.memories[parameter.memory] = name
                self.names[f"{parameter.name} offset"] = self.fresh(f"{name}_offset")
            elif parameter.value is not None:
                self.texts[parameter.value] = Expression(name)
        for own in self.kernel.memories:
            self.memories[own] = self.fresh(own.name)
        names = [self.memories[own] for own in self.kernel.memories]
        for line in self.dialect.declare_memories(self.kernel, names):
            self.line(line)
        self.block(self.kernel.body)
        body = "".join(f"{line}\n" for line in self.lines)
        return self.dialect.kernel(self.kernel, self.names, body, self.helpers.text())

    # Names and lines.
    def fresh(self, hint: str) -> str:
        """Return an unused name: the hint, with a number if it is taken."""
        base = re.sub(r"\W", "_", hint) or "t"
        if base[0].isdigit():
            base = f"v{base}"
        # Unnamed values are t1, t2 …; a named value gets a number if its name is taken.
        joint = "" if base == "t" or base.endswith("_") else "_"
        # A taken name stays taken, so the search goes on behind the last number of this base.
        number = self.numbers.get(base, 0)
        name = f"{base}{joint}{number}" if number else base
        while name in self.taken or name in self.helpers.texts or name == "t":
            number += 1
            name = f"{base}{joint}{number}"
        self.numbers[base] = number
        self.taken.add(name)
        return name

    def line(self, text: str) -> None:
        """Add a line, or several."""
        for one in text.splitlines():
            self.lines.append(f"{_INDENT * self.depth}{one}" if one else "")

    @contextmanager
    def braces(self, head: str, end: str = "}") -> Iterator[None]:
        """Wrap the printed lines in a block that begins with ``head``."""
        self.line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(end)

    # Values.
    def operand(self, value: Value) -> Expression:
        """Return a value's expression; a pending expression is used here."""
        waiting = self.waiting.pop(value, None)
        return waiting[0] if waiting is not None else self.texts[value]

    def atom(self, value: Value) -> Expression:
        """Return a name or number for a value, safe to repeat."""
        hint = self.waiting[value][1] if value in self.waiting else value.hint
        return self.named(self.operand(value), value.type, hint)

    def named(self, expression: Expression, type: Type, hint: str = "") -> Expression:
        """Return a name or number for an expression."""
        if expression.is_atom:
            return expression
        name = self.fresh(hint or "t")
        self.line(self.dialect.keep(type, name, expression))
        return Expression(name)

    def define(self, value: Value, expression: Expression, hint: str, block: Block) -> None:
        """Set a value's expression: inlined at its only use if possible, else named."""
        uses = self.uses[value]
        if uses == 0:
            return
        if expression.is_atom:
            self.texts[value] = expression
            return
        text = expression.text
        brief = len(text) <= _LONG or len(_LONG_NAME.sub(10 * "n", text)) <= _LONG
        brief = brief or expression.product is not None
        if uses == 1 and self.homes[value] is block and brief:
            self.waiting[value] = expression, value.hint or hint
        else:
            self.texts[value] = self.named(expression, value.type, value.hint or hint)

    def settle(self, *, loads: bool = False) -> None:
        """Name the pending expressions that read memory, before a write.

        ``loads``: before a loop or a barrier those that read memory which nothing writes, too. What
        a kernel loads early it uses late, and a compiler may leave a load where it is used.
        """
        for value, (expression, hint) in list(self.waiting.items()):
            if expression.reads or (loads and expression.loads):
                del self.waiting[value]
                self.texts[value] = self.named(expression, value.type, hint)

    # Operations.
    def block(self, block: Block) -> None:
        """Print the operations of a block."""
        for operation in block.operations:
            try:
                self.operation(operation, block)
            except CompileError as error:
                where = operation.position
                if where is None or str(error).startswith(where[0]):
                    raise
                raise CompileError(f"{where[0]}:{where[1]}: {error}") from error

    @abstractmethod
    def operation(self, operation: Operation, block: Block) -> None:
        """Print one operation."""

    def constant(self, operation: Operation) -> Expression:
        """Return a number, or a vector of numbers."""
        number, type = operation.attributes["value"], operation.result.type
        if type.width == 1:
            (number,) = number if isinstance(number, tuple) else (number,)
            return self.dialect.literal(number, type.dtype)
        lanes = number if isinstance(number, tuple) else (number,) * type.width
        return self.dialect.vector(type, [self.dialect.literal(n, type.dtype) for n in lanes])

    def effect(self, operation: Operation, block: Block, text: Expression, hint: str) -> None:
        """Print an expression with an effect, as a statement of its own."""
        self.settle()
        results = operation.results
        if results and self.uses[results[0]]:
            name = self.fresh(results[0].hint or hint)
            self.line(self.dialect.keep(results[0].type, name, text))
            self.texts[results[0]] = Expression(name)
        else:
            self.line(f"{text.text};")


class Elements:
    """Element accesses of memories in the C family."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer

    def place(self, memory: Memory, index: Expression) -> Expression:
        """Return an element in its stored form."""
        made = Expression(
            f"{self.printer.memories[memory]}[{index.text}]", reads=memory.writable, loads=True
        )
        return ex.reading(made, index)

    def value(self, memory: Memory, stored: Expression) -> Expression:
        """Return an element as a value: bools are bytes in memory."""
        if memory.type.dtype is not bool_:
            return stored
        return ex.infix("!=", ex.EQUAL, stored, Expression("0", bare=True))

    def written(self, memory: Memory, place: Expression, value: Expression) -> str:
        """Return the statement that writes an element."""
        return f"{place.text} = {value.text};"

    def changed(
        self, operation: Operation, index: Expression, values: Sequence[Expression]
    ) -> Expression:
        """Return an atomic update of an element; its value is the old element."""
        place = ex.prefix("&", self.place(memory_of(operation), index))
        return self.printer.dialect.atomic(operation, place, values, self.printer.helpers)


def memory_of(operation: Operation) -> Memory:
    """Return the memory of a load, store or atomic."""
    assert operation.memory is not None
    return operation.memory


def _uses(body: Block) -> tuple[Counter[Value], dict[Value, Block]]:
    """Return the number of uses of values, and the block of the last use."""
    uses: Counter[Value] = Counter()
    homes: dict[Value, Block] = {}

    def look(block: Block) -> None:
        def note(values: Sequence[Value]) -> None:
            for value in values:
                uses[value] += 1
                homes[value] = block

        for operation in block.operations:
            note(operation.operands)
            for region in operation.regions:
                look(region)
        note(block.yields)

    look(body)
    return uses, homes
