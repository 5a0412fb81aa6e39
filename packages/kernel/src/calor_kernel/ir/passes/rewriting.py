"""Rewriter: copies a kernel's IR and applies the changes of a pass.

A value may map to several values (a vector split into parts that the device supports) or to one of
another type; the surrounding control flow is adapted. The input kernel is not modified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calor.dtypes import DType, bool_
from calor_kernel.ir.emitting import Emitter
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Position, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.types import Type

Parts = tuple[Value, ...]
CONTROL = frozenset(row.name for row in OPS.values() if row.regions)


class Rewriter(Emitter[Value]):
    """Copies a kernel operation by operation.

    A pass overrides :meth:`types` (type conversion), :meth:`memory_of` (memory conversion) and
    :meth:`operation`, which emits the replacement of an operation and returns the parts of each
    result, or None to copy the operation.
    """

    shares_loads = True

    def __init__(self) -> None:
        super().__init__()
        self.source: Position | None = None
        self._parts: dict[Value, Parts] = {}
        self._memories: dict[Memory, Memory] = {}

    def new(self, type: Type, known: Any = None, home: Block | None = None) -> Value:
        return Value(type, "", known)

    def position(self) -> Position | None:
        return self.source

    # Hooks for passes.
    def types(self, type: Type) -> tuple[Type, ...]:
        """Return the types of the parts that replace a value of a type."""
        return (type,)

    def memory_of(self, memory: Memory) -> Memory:
        """Return the replacement of a memory; called once per memory."""
        return memory

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit the replacement of an operation; None asks for a copy."""
        return None

    # Traversal.
    def run(self, kernel: Kernel) -> Kernel:
        """Return the rewritten kernel."""
        parameters = tuple(self._parameter(p) for p in kernel.parameters)
        memories = tuple(self.memory(m) for m in kernel.memories)
        body, self.block = self.block, Block()
        self._visit(kernel.body, body)
        body.operations[:0] = self.constants
        return replace(kernel, parameters=parameters, memories=memories, body=body)

    def function(self, arguments: Sequence[Value], make: Callable[[], Value]) -> Block:
        """Return a block of its own that computes a value from its arguments."""
        with self.inside(Block(tuple(arguments))) as block:
            block.yields = (make(),)
        block.operations[:0] = self.constants
        return block

    def _parameter(self, parameter: Parameter) -> Parameter:
        declared, value, memory = parameter.declared, None, None
        if parameter.value is not None:
            (value,) = self.bind(parameter.value)
        if parameter.memory is not None:
            memory = self.memory(parameter.memory)
            declared = replace(declared, dtype=memory.type.dtype)
        return Parameter(parameter.name, declared, value, memory)

    def memory(self, memory: Memory) -> Memory:
        """Return the replacement of a memory."""
        found = self._memories.get(memory)
        if found is None:
            found = self._memories[memory] = self.memory_of(memory)
        return found

    def bind(self, value: Value) -> Parts:
        """Return fresh values for a parameter or a block argument."""
        types = self.types(value.type)
        if types == (value.type,):
            made: Parts = (like(value),)
        else:
            made = tuple(Value(t, value.hint) for t in types)
        self._parts[value] = made
        return made

    def parts(self, value: Value) -> Parts:
        """Return the parts that replace a value."""
        return self._parts[value]

    def get(self, value: Value) -> Value:
        """Return the single value that replaces a value."""
        (made,) = self._parts[value]
        return made

    def flat(self, values: Sequence[Value]) -> list[Value]:
        """Return the parts that replace several values, concatenated."""
        return [part for value in values for part in self._parts[value]]

    def inline(self, block: Block) -> list[Parts]:
        """Emit a block's operations here and return the replacement of each yielded value.

        The replacements of its arguments must be set before, with :meth:`stand`.
        """
        for operation in block.operations:
            self._step(operation)
        return [self._parts[v] for v in block.yields]

    def stand(self, value: Value, parts: Parts) -> None:
        """Set the replacement of a value."""
        self._parts[value] = parts

    def region(self, block: Block) -> Block:
        """Return a rewritten copy of a block, arguments and yields included."""
        arguments = tuple(part for value in block.arguments for part in self.bind(value))
        with self.inside(Block(arguments)) as made:
            for operation in block.operations:
                self._step(operation)
            made.yields = tuple(self.flat(block.yields))
        return made

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        for operation in source.operations:
            self._step(operation)
        target.yields = tuple(self.flat(source.yields))

    def _step(self, operation: Operation) -> None:
        self.source = operation.position
        made = self.operation(operation)
        made = self.copy(operation) if made is None else made
        self._parts.update(zip(operation.results, made, strict=True))

    def copy(self, operation: Operation) -> list[Parts]:
        """Emit an operation again with replaced operands; regions are rewritten."""
        if operation.name == "constant":
            result = operation.result
            value = operation.attributes["value"]
            return [(self.constant(value, result.type.dtype, result.type.width),)]
        regions = [self.region(r) for r in operation.regions]
        self.source = operation.position
        counts = [self.types(r.type) for r in operation.results]
        attributes = operation.attributes and {
            k: tuple(map(self.memory, v))
            if k == "memories"
            else self.memory(v)
            if isinstance(v, Memory)
            else v
            for k, v in operation.attributes.items()
        }
        types_of_all = [t for types in counts for t in types]
        made = self.again(
            operation, self.flat(operation.operands), types_of_all, attributes, regions
        )
        results: list[Parts] = []
        for result, types in zip(operation.results, counts, strict=True):
            parts, made = made[: len(types)], made[len(types) :]
            if types == (result.type,):
                keep(parts[0], result)
            results.append(parts)
        return results

    def again(
        self,
        operation: Operation,
        operands: Sequence[Value],
        types: Sequence[Type] | None = None,
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Block] = (),
    ) -> tuple[Value, ...]:
        """Emit an operation again on other operands; types and attributes are its own if None."""
        types = [r.type for r in operation.results] if types is None else types
        attributes = operation.attributes if attributes is None else attributes
        memory = None if operation.memory is None else self.memory(operation.memory)
        return self.emit(
            operation.name, operands, types, attributes, memory=memory, regions=regions
        )

    # Short forms for passes.
    def like(self, number: Any, value: Value) -> Value:
        """Return a number as a constant with the type of a value."""
        return self.constant(number, value.type.dtype, value.type.width)

    def make(self, name: str, *operands: Value, **attributes: Any) -> Value:
        """Return an operation whose result has the first operand's type, or bool of its width."""
        type = operands[0].type
        if OPS[name].result == "bool":
            type = Type(bool_, type.width)
        return self.emit(name, operands, (type,), attributes)[0]

    def convert(self, value: Value, dtype: DType, name: str = "cast") -> Value:
        """Return a value cast to a dtype, or its bits reinterpreted as a dtype of the same size."""
        if value.type.dtype is dtype:
            return value
        return self.emit(name, (value,), (Type(dtype, value.type.width),))[0]

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Return ``a`` where the condition holds, else ``b``."""
        return self.emit("select", (condition, a, b), (a.type,))[0]

    def extract(self, value: Value, lane: int) -> Value:
        """Return one lane."""
        if value.type.width == 1:
            return value
        return self.emit("extract", (value,), (value.type.scalar,), {"lane": lane})[0]

    def pack(self, lanes: Sequence[Value]) -> Value:
        """Return a vector packed from scalars."""
        if len(lanes) == 1:
            return lanes[0]
        return self.emit("pack", lanes, (lanes[0].type.wide(len(lanes)),))[0]


def like(value: Value) -> Value:
    """Return a fresh value with the same known facts."""
    made = Value(value.type, value.hint, value.known, value.nonnegative)
    made.divisible = value.divisible
    return made


def keep(made: Value, value: Value) -> None:
    """Copy the known facts of a value to its replacement."""
    if made.known is None:
        made.hint = made.hint or value.hint
        made.nonnegative = made.nonnegative or value.nonnegative
        if made.divisible == 1:
            made.divisible = value.divisible


def clone(kernel: Kernel) -> Kernel:
    """Return a deep copy of a kernel: its own blocks, operations and values."""
    return Rewriter().run(kernel)


def on_copy(change: Callable[[Kernel], None]) -> Callable[[Kernel], Kernel]:
    """Return the pass that makes a change to a copy of a kernel."""

    def run(kernel: Kernel) -> Kernel:
        made = clone(kernel)
        change(made)
        return made

    return run
