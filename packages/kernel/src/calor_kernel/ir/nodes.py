"""Kernel IR: operations with operands, results and regions, in static single assignment form.

Control flow is structured (a region is a block with arguments and a yield), because C wants ``for``
and LLVM wants phis, and both follow from regions. Memory is addressed by (memory, index).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Buffer, Scalar, Space, Type

Position = tuple[str, int]  # file name and line


class Value:
    """The result of an operation, or a block argument; compared by identity.

    ``known`` is the number if known at build time (a tuple for lanes), else None. ``nonnegative``:
    the value is known to be at least 0, which makes ``//`` and ``%`` cheap. ``divisible``: a known
    divisor, which permits wider accesses (0 means divisible by all).
    """

    __slots__ = ("divisible", "hint", "known", "nonnegative", "type")

    def __init__(
        self, type: Type, hint: str = "", known: Any = None, nonnegative: bool = False
    ) -> None:
        self.type = type
        self.hint = hint
        self.known = known
        self.nonnegative = nonnegative or (isinstance(known, int) and known >= 0)
        self.divisible = abs(known) if isinstance(known, int) else 1

    def __repr__(self) -> str:
        return f"<{self.hint or 'value'}: {self.type}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A kernel is sent to other processes without the builder that made its values.
        return _value, (self.type, self.hint, self.known, self.nonnegative, self.divisible)


def _value(type: Type, hint: str, known: Any, nonnegative: bool, divisible: int) -> Value:
    made = Value(type, hint, known, nonnegative)
    made.divisible = divisible
    return made


@dataclass(eq=False, slots=True)
class Memory:
    """Memory indexed by elements: a parameter's, or the own memory of a cube or unit.

    ``size`` is the number of elements, None for a parameter's memory; ``align`` in bytes.
    """

    name: str
    space: Space
    type: Type
    size: int | None = None
    align: int = 0
    writable: bool = True

    def __repr__(self) -> str:
        return f"<{self.space} {self.name}>"


@dataclass(eq=False, slots=True)
class Operation:
    """One operation. ``name`` is a key of :data:`calor_kernel.ir.ops.OPS`, which has its rules."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    regions: tuple[Block, ...] = ()
    memory: Memory | None = None
    position: Position | None = None

    @property
    def result(self) -> Value:
        """The single result."""
        (value,) = self.results
        return value


def carried_from(loop: Operation) -> int:
    """Return the index of a loop's first carried operand."""
    return 3 if loop.name == "for" else 0


@dataclass(eq=False, slots=True)
class Block:
    """Operations in order. ``arguments`` are bound on entry; ``yields`` are the block's results."""

    arguments: tuple[Value, ...] = ()
    operations: list[Operation] = field(default_factory=list)
    yields: tuple[Value, ...] = ()

    def walk(self) -> Iterator[Operation]:
        """Yield every operation of the block and of its nested regions, outer ones first."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.walk()


@dataclass(eq=False, slots=True)
class Parameter:
    """A run-time argument: ``value`` for a number, ``memory`` for a buffer."""

    name: str
    declared: Buffer | Scalar
    value: Value | None = None
    memory: Memory | None = None


@dataclass(eq=False, slots=True)
class Kernel:
    """A built kernel.

    Attributes: ``name``; ``parameters`` in the order of the launch; ``cube``, the units along x, y
    and z; ``plane``, the units in lock step (1 if the device has none); ``memories``, the body's
    shared and private memories; ``attributes``, further requests of the launch (register budgets,
    cluster sizes).
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: Block
    cube: tuple[int, int, int] = (1, 1, 1)
    plane: int = 1
    memories: tuple[Memory, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = sorted([parameter.name for parameter in self.parameters])
        twice = next((one for one, other in pairwise(names) if one == other), None)
        if twice is not None:
            # Passes add parameters, whose names a kernel's own may have.
            raise KernelTypeError(f"kernel {self.name} has two parameters {twice!r}; rename one")

    @property
    def units(self) -> int:
        """The number of units in a cube."""
        x, y, z = self.cube
        return x * y * z

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a cube in bytes, with each piece aligned."""
        total = 0
        for memory in self.memories:
            if memory.space == "shared":
                align = max(memory.align, memory.type.nbytes)
                total = -(-total // align) * align + memory.type.nbytes * (memory.size or 0)
        return total
