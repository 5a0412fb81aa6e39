"""Adds operations to blocks, for the language's builder and for passes.

Equal pure operations of a scope are shared, and known results are constants, so that passes see
small kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel.ir import fold
from calor_kernel.ir.nodes import Block, Memory, Operation, Position, Value
from calor_kernel.ir.ops import OPS, Row
from calor_kernel.ir.types import Type

V = TypeVar("V", bound=Value)


class Emitter(Generic[V]):
    """Adds operations to the end of ``block``; ``V`` is the class of their results."""

    # Whether equal loads of read-only memory are shared too.
    shares_loads = False

    def __init__(self) -> None:
        self.block = Block()
        self.constants: list[Operation] = []
        # The blocks whose values are in scope; None for parameters and constants.
        self.open: set[Block | None] = {None, self.block}
        self.numbers: dict[Any, V] = {}
        # The operations that may be shared here, and which of them end with each open scope, the
        # innermost last. A key is made once in all open scopes.
        self.shared: dict[Any, V] = {}
        self.ending: list[list[Any]] = [[]]

    def new(self, type: Type, known: Any = None, home: Block | None = None) -> V:
        """Return a fresh value, of a block if it is no constant."""
        raise NotImplementedError

    def position(self) -> Position | None:
        """Return the position of new operations in the source."""
        raise NotImplementedError

    def check(self, row: Row, operands: Sequence[V]) -> None:
        """Refuse operands that do not fit an operation's row."""

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Redirect new operations to the end of another block."""
        before, self.block = self.block, block
        self.ending.append([])
        self.open.add(block)
        try:
            yield block
        finally:
            self.block = before
            for key in self.ending.pop():
                del self.shared[key]
            self.open.remove(block)

    def constant(self, number: Any, dtype: DType, width: int = 1) -> V:
        """Return a number, or a tuple as lanes; constants precede all other operations."""
        if isinstance(number, tuple) and len(number) == 1:
            (number,) = number
        if isinstance(number, tuple):
            known: Any = tuple(fold.convert(n, dtype) for n in number)
            width = len(known)
        else:
            known = fold.convert(number, dtype)
            if width > 1:
                return self.splat(self.constant(number, dtype), width)
        type = Type(dtype, width)
        key = (type, fold.bits(known))
        made = self.numbers.get(key)
        if made is None:
            made = self.numbers[key] = self.new(type, known)
            self.constants.append(Operation("constant", (), (made,), {"value": known}))
        return made

    def emit(
        self,
        name: str,
        operands: Sequence[V] = (),
        types: Sequence[Type] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        memory: Memory | None = None,
        regions: Sequence[Block] = (),
    ) -> tuple[V, ...]:
        """Add an operation and return its results; known or available results are reused."""
        attributes, row = attributes or {}, OPS[name]
        pure = row.pure
        self.check(row, operands)
        if pure:
            folded = fold.fold(name, operands, types, attributes)
            if folded is not None:
                known = not isinstance(folded, Value)
                return (self.constant(folded, types[0].dtype, types[0].width) if known else folded,)
        shared = pure or (self.shares_loads and reads_constant(name, memory, attributes))
        if shared:
            key = (name, memory, *operands, *types, *attributes.items())
            made = self.shared.get(key)
            if made is not None:
                return (made,)
        results = tuple([self.new(t, None, self.block) for t in types])
        if pure:
            fold.mark(name, operands, results[0])
        given = tuple(operands), results, attributes, tuple(regions), memory, self.position()
        self.block.operations.append(Operation(name, *given))
        if shared:
            self.shared[key] = results[0]
            self.ending[-1].append(key)
        return results

    def splat(self, value: V, width: int) -> V:
        """Return a vector with a scalar broadcast to every lane."""
        if width == value.type.width:
            return value
        return self.emit("splat", (value,), (value.type.wide(width),))[0]


def reads_constant(name: str, memory: Memory | None, attributes: Mapping[str, Any]) -> bool:
    """Return whether an operation loads from memory that is read-only during the kernel."""
    if name != "load" or memory is None or memory.writable:
        return False
    return not attributes.get("order") and not attributes.get("nontemporal")
