"""Computes several launches of one kernel in one: cubes along z belong to one launch each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from calor.dtypes import int64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Type

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Beside:
    """Launches of one kernel side by side.

    ``count``: how many there may be. ``apart``: the parameters, by number, of which each launch has
    its own buffer; the others are of all. ``deep``: whether a launch has several cubes along z;
    there are exactly ``count`` then.

    >>> two = Beside(2, (0, 2), False)
    >>> two.spread("axy"), list(two.gathered("aaxyy"))
    (('a', 'a', 'x', 'y', 'y'), [('a', 'a'), ('x',), ('y', 'y')])
    """

    count: int
    apart: tuple[int, ...]
    deep: bool

    def spread(self, signature: Sequence[T]) -> tuple[T, ...]:
        """Return the signature of the launches together, from that of one."""
        counts = (self.count if k in self.apart else 1 for k in range(len(signature)))
        return tuple(one for one, n in zip(signature, counts, strict=True) for _ in range(n))

    def gathered(self, signature: Sequence[T]) -> Iterator[tuple[T, ...]]:
        """Yield for each parameter of one launch those of the launches together."""
        left, k = iter(signature), 0
        while found := tuple(islice(left, self.count if k in self.apart else 1)):
            yield found
            k += 1

    def kernel(self, made: Kernel) -> Kernel:
        """Return the kernel of the launches together.

        A cube finds its launch by its position along z, and selects the buffers of that launch.
        KernelTypeError for a kernel with tensor maps, which the host makes for one launch.
        """
        if made.attributes.get("maps"):
            raise KernelTypeError(f"kernel {made.name} has tensor maps, and is launched by itself")
        return _SideBySide(self).run(made)


class _SideBySide(Rewriter):
    """Replaces the buffers of a launch by selected ones, and positions along z."""

    def __init__(self, beside: Beside) -> None:
        super().__init__()
        self.beside = beside
        self._selected: list[tuple[Memory, tuple[Memory, ...]]] = []

    def run(self, kernel: Kernel) -> Kernel:
        """Return the rewritten kernel."""
        own = {k: kernel.parameters[k] for k in self.beside.apart}
        parameters: list[Parameter] = []
        for k, parameter in enumerate(kernel.parameters):
            memory = parameter.memory
            if k not in own or memory is None:
                parameters.append(self._parameter(parameter))
                continue
            names = [f"{parameter.name}_of_{i}" for i in range(self.beside.count)]
            memories = tuple(replace(memory, name=name) for name in names)
            made = replace(memory, name=f"{memory.name}_selected")
            self._memories[memory] = made
            self._selected.append((made, memories))
            pairs = zip(names, memories, strict=True)
            parameters += [Parameter(n, parameter.declared, memory=m) for n, m in pairs]
        shared = tuple(self.memory(m) for m in kernel.memories)
        body, self.block = self.block, Block()
        self._visit(kernel.body, body)
        body.operations[:0] = self.constants
        return replace(kernel, parameters=tuple(parameters), memories=shared, body=body)

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        number, self._place, self._count = self._own("cube_position"), None, None
        if self.beside.deep:
            count = self.constant(self.beside.count, int64)
            self._count = self.make("quotient", self._own("cube_count"), count)
            place = number
            number = self.make("quotient", place, self._count)
            self._place = self.make("modulo", place, self._count)
        for made, memories in self._selected:
            self.emit("select_memory", (number,), (), {"memories": memories}, memory=made)
        super()._visit(source, target)

    def _own(self, name: str) -> Value:
        (made,) = self.emit(name, (), (Type(int64),), {"axis": 2})
        made.nonnegative = True
        return made

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit the replacement of a position or count of cubes along z."""
        name = operation.name
        if name not in ("cube_position", "cube_count") or operation.attributes["axis"] != 2:
            return None
        value, dtype = self._place, operation.result.type.dtype
        if name == "cube_count":
            value = self._count
        if value is None:
            return [(self.constant(int(name == "cube_count"), dtype),)]
        return [(self.convert(value, dtype),)]
