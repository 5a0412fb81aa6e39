"""Computes several launches of one kernel in one: each cube belongs to one of them.

Requirements: launches with the same cubes and numbers differ in buffers alone, and lie along z. The
others follow each other along x, so no cube is idle, and each has its own numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeVar

from calor.dtypes import int32, int64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Value
from calor_kernel.ir.passes.rewriting import Parts, Rewriter, like
from calor_kernel.ir.types import Scalar, Type

T = TypeVar("T")
# A hidden parameter: the number of cubes of a launch along an axis, or in all before the next one.
CUBES: Final = Scalar(int32, nonnegative=True)


@dataclass(frozen=True, slots=True)
class Beside:
    """Launches of one kernel side by side.

    ``count``: how many there may be. ``apart``: the parameters, by number, of which each launch has
    its own; the others are of all. ``deep``: whether a launch has several cubes along z; there are
    exactly ``count`` then. ``along``: whether launches follow each other along x, and ``apart`` may
    be numbers; hidden parameters behind the others give the place where each launch ends, and the
    cubes of each along x and y if it is ``deep``, which is along y or z then.

    >>> two = Beside(2, (0, 2), False)
    >>> two.spread("axy"), list(two.gathered("aaxyy"))
    (('a', 'a', 'x', 'y', 'y'), [('a', 'a'), ('x',), ('y', 'y')])
    """

    count: int
    apart: tuple[int, ...]
    deep: bool
    along: bool = False

    @property
    def hidden(self) -> int:
        """The number of hidden parameters."""
        return self.count * (1 + 2 * self.deep) if self.along else 0

    def spread(self, signature: Sequence[T]) -> tuple[T, ...]:
        """Return the signature of the launches together, from that of one."""
        counts = (self.count if k in self.apart else 1 for k in range(len(signature)))
        return tuple(one for one, n in zip(signature, counts, strict=True) for _ in range(n))

    def gathered(self, signature: Sequence[T]) -> Iterator[tuple[T, ...]]:
        """Yield for each parameter of one launch those of the launches together."""
        left, k = iter(signature[: len(signature) - self.hidden]), 0
        while found := tuple(islice(left, self.count if k in self.apart else 1)):
            yield found
            k += 1

    def kernel(self, made: Kernel) -> Kernel:
        """Return the kernel of the launches together.

        A cube finds its launch by its position, and selects the buffers and numbers of that launch.
        KernelTypeError for a kernel with tensor maps, which the host makes for one launch.
        """
        if made.attributes.get("maps"):
            raise KernelTypeError(f"kernel {made.name} has tensor maps, and is launched by itself")
        return (_Along if self.along else _SideBySide)(self).run(made)


class _SideBySide(Rewriter):
    """Replaces the buffers of a launch by selected ones, and positions along z."""

    def __init__(self, beside: Beside) -> None:
        super().__init__()
        self.beside = beside
        self._selected: list[tuple[Memory, tuple[Memory, ...]]] = []
        self._numbers: list[tuple[Value, tuple[Value, ...]]] = []
        self._places: dict[tuple[str, int], Value] = {}

    def run(self, kernel: Kernel) -> Kernel:
        """Return the rewritten kernel."""
        parameters: list[Parameter] = []
        for k, parameter in enumerate(kernel.parameters):
            apart = k in self.beside.apart
            parameters += self._own(parameter) if apart else [self._parameter(parameter)]
        parameters += self.hidden()
        shared = tuple(self.memory(m) for m in kernel.memories)
        body, self.block = self.block, Block()
        self._visit(kernel.body, body)
        body.operations[:0] = self.constants
        return replace(kernel, parameters=tuple(parameters), memories=shared, body=body)

    def hidden(self) -> list[Parameter]:
        """Return the parameters behind those of the launches."""
        return []

    def _own(self, parameter: Parameter) -> list[Parameter]:
        """Return a parameter of each launch."""
        names = [f"{parameter.name}_of_{i}" for i in range(self.beside.count)]
        memory, value, declared = parameter.memory, parameter.value, parameter.declared
        if memory is None:
            assert value is not None
            values = tuple(like(value) for _ in names)
            self._numbers.append((value, values))
            return [Parameter(n, declared, v) for n, v in zip(names, values, strict=True)]
        memories = tuple(replace(memory, name=name) for name in names)
        made = self._memories[memory] = replace(memory, name=f"{memory.name}_selected")
        self._selected.append((made, memories))
        pairs = zip(names, memories, strict=True)
        return [Parameter(n, declared, memory=m) for n, m in pairs]

    def _visit(self, source: Block, target: Block) -> None:
        self.block = target
        number = self.launch()
        for made, memories in self._selected:
            self.emit("select_memory", (number,), (), {"memories": memories}, memory=made)
        super()._visit(source, target)

    def launch(self) -> Value:
        """Return the number of a cube's launch; set its places among the cubes of that launch."""
        number = self._position("cube_position", 2)
        if self.beside.deep:
            total, launches = self._position("cube_count", 2), self._number(self.beside.count)
            count = self.make("quotient", total, launches)
            self._places["cube_count", 2] = count
            self._places["cube_position", 2] = self.make("modulo", number, count)
            return self.make("quotient", number, count)
        self._places |= {("cube_position", 2): self._number(0), ("cube_count", 2): self._number(1)}
        return number

    def _number(self, number: int) -> Value:
        return self.constant(number, int64)

    def _position(self, name: str, axis: int) -> Value:
        (made,) = self.emit(name, (), (Type(int64),), {"axis": axis})
        made.nonnegative = True
        return made

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit the replacement of a position or count of cubes."""
        found = None
        if operation.name in ("cube_position", "cube_count"):
            found = self._places.get((operation.name, operation.attributes["axis"]))
        return None if found is None else [(self.convert(found, operation.result.type.dtype),)]


class _Along(_SideBySide):
    """Does the same for launches along x, and selects their numbers."""

    def hidden(self) -> list[Parameter]:
        """Return where each launch ends, and the cubes of each along x and y."""
        names = ("end", "across", "down")[: 3 if self.beside.deep else 1]
        self._counts = {
            name: [Value(Type(int32), nonnegative=True) for _ in range(self.beside.count)]
            for name in names
        }
        return [
            Parameter(f"cubes_{name}_of_{i}", CUBES, value)
            for name, values in self._counts.items()
            for i, value in enumerate(values)
        ]

    def launch(self) -> Value:
        """Return the number of a cube's launch; set its places among the cubes of that launch."""
        ends = self._counts["end"]
        place = self.convert(self._position("cube_position", 0), int32)
        before = [self.make("lt", place, end) for end in ends[:-1]]

        def of(values: Sequence[Value]) -> Value:
            """Return the value of the cube's launch."""
            found = values[-1]
            for inside, value in zip(reversed(before), reversed(values[:-1]), strict=True):
                found = self.select(inside, value, found)
            return found

        starts = [self.constant(0, int32), *ends[:-1]]
        place = self.make("sub", place, of(starts))
        count = self.make("sub", of(ends), of(starts))
        place.nonnegative = count.nonnegative = True
        one, first = self.constant(1, int32), self.constant(0, int32)
        counts, places = [count, one, one], [place, first, first]
        if self.beside.deep:
            across, down = of(self._counts["across"]), of(self._counts["down"])
            plane = self.make("mul", across, down)
            counts = [across, down, self.make("quotient", count, plane)]
            rest = self.make("quotient", place, across)
            places = [self.make("modulo", place, across), self.make("modulo", rest, down)]
            places.append(self.make("quotient", place, plane))
        for axis in range(3):
            self._places["cube_position", axis] = places[axis]
            self._places["cube_count", axis] = counts[axis]
        for value, values in self._numbers:
            self.stand(value, (of(values),))
        return of([self.constant(k, int64) for k in range(self.beside.count)])
