"""Computes launches of several kernels in one: each cube belongs to one of them.

Requirements: a cube finds its launch by its position along x, so the branch is the same for all
units of a cube, and barriers of one launch stay uniform. Each launch sees its own positions, counts
and units. A cube has the shared memory of one launch only, so all use the same. Hidden parameters
behind the others give the place where each launch ends, and the cubes along x and y of those that
have more axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from calor.dtypes import int32, int64
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Value
from calor_kernel.ir.passes.beside import CUBES
from calor_kernel.ir.passes.rewriting import Parts, Rewriter
from calor_kernel.ir.types import Type

# What shared memory has: a type, and an alignment.
Key = tuple[Type, int]
# The memories and values of a kernel, by those that they replace.
Known = tuple[dict[Memory, Memory], dict[Value, Parts]]


def mixed(kernels: Sequence[Kernel], deep: Sequence[bool]) -> Kernel:
    """Return the kernel of launches that follow each other along x.

    Cubes have one axis, and as many units as the largest; those beyond a smaller kernel's do
    nothing. If it has barriers they end before these, as the attribute "teams" says: how many units
    may meet there. ``deep``: which launches have cubes along y or z.
    """
    return _Mixed(kernels, deep).joined()


def can_idle(kernel: Kernel) -> bool:
    """Return whether units beyond those of a kernel's cube may do nothing, beside those that act.

    >>> can_idle(Kernel("empty", (), Block()))
    True
    """
    shared = any(memory.space == "shared" for memory in kernel.memories)
    named = {operation.name for operation in kernel.body.walk()}
    together = any(n == "barrier" or n.startswith(("plane_", "lane_", "warpgroup")) for n in named)
    return not (shared or together)


def shared_by(kernels: Sequence[Kernel]) -> dict[Key, list[Memory]]:
    """Return the shared memories of a launch of kernels, in the order in which each takes them.

    >>> two = [Memory("held", "shared", Type(int32), size) for size in (4, 8)]
    >>> kernels = [Kernel("one", (), Block(), memories=(memory,)) for memory in two]
    >>> [[memory.size for memory in found] for found in shared_by(kernels).values()]
    [[8]]
    """
    found: dict[Key, list[Memory]] = {}
    for kernel in kernels:
        own: dict[Key, int] = {}
        for memory in kernel.memories:
            if memory.space != "shared":
                continue
            key = memory.type, memory.align
            place = own[key] = own.get(key, -1) + 1
            held = found.setdefault(key, [])
            if place == len(held):
                held.append(_like(memory))
            held[place].size = max(held[place].size or 0, memory.size or 0)
    return found


def shared_bytes(kernels: Sequence[Kernel]) -> int:
    """Return the bytes of shared memory of a cube of a launch of kernels."""
    memories = tuple(m for held in shared_by(kernels).values() for m in held)
    return Kernel("shared", (), Block(), memories=memories).shared_bytes


def _like(memory: Memory) -> Memory:
    return Memory(
        memory.name, memory.space, memory.type, memory.size, memory.align, memory.writable
    )


class _Mixed(Rewriter):
    """Emits the bodies of kernels in branches."""

    def __init__(self, kernels: Sequence[Kernel], deep: Sequence[bool]) -> None:
        super().__init__()
        self.kernels, self.deep = kernels, deep
        self.units = max(kernel.units for kernel in kernels)
        self._shared = shared_by(kernels)
        # How many shared memories of a kind the present launch has taken.
        self._taken: dict[Key, int] = {}
        self._places: dict[tuple[str, int], Value] = {}
        self._ends = [Value(Type(int32), nonnegative=True) for _ in kernels]
        self._axes = {
            k: [Value(Type(int32), nonnegative=True) for _ in range(2)]
            for k, several in enumerate(deep)
            if several
        }

    def memory_of(self, memory: Memory) -> Memory:
        """Return memory of the launch's own, for one kernel may be in several launches."""
        if memory.space != "shared":
            return _like(memory)
        key = memory.type, memory.align
        place = self._taken[key] = self._taken.get(key, -1) + 1
        return self._shared[key][place]

    def joined(self) -> Kernel:
        """Return the kernel of all launches."""
        parameters: list[Parameter] = []
        memories = [m for held in self._shared.values() for m in held]
        known: list[Known] = []
        for k, kernel in enumerate(self.kernels):
            self._memories, self._parts, self._taken = {}, {}, {}
            for parameter in kernel.parameters:
                made = self._parameter(parameter)
                name = f"{made.name}_of_{k}"
                parameters.append(Parameter(name, made.declared, made.value, made.memory))
            own = [self.memory(m) for m in kernel.memories]
            memories += [m for m in own if m.space != "shared"]
            known.append((self._memories, self._parts))
        body = self.block
        place = self.convert(self._own("cube_position"), int32)
        unit = self.convert(self._own("unit_position"), int32)
        self._branch(0, place, unit, known)
        body.operations[:0] = self.constants
        name, given = f"mixed_{self.kernels[0].name}", (*parameters, *self._hidden())
        cube, plane = (self.units, 1, 1), max(kernel.plane for kernel in self.kernels)
        fewer = [k for k in self.kernels if k.units < self.units and not can_idle(k)]
        teams = {"teams": tuple(sorted({self.units, *(k.units for k in fewer)}))} if fewer else {}
        return Kernel(name, given, body, cube, plane, tuple(memories), teams)

    def _hidden(self) -> Iterator[Parameter]:
        for k, end in enumerate(self._ends):
            yield Parameter(f"cubes_end_of_{k}", CUBES, end)
            for name, value in zip(("across", "down"), self._axes.get(k, ()), strict=False):
                yield Parameter(f"cubes_{name}_of_{k}", CUBES, value)

    def _own(self, name: str) -> Value:
        (made,) = self.emit(name, (), (Type(int64),), {"axis": 0})
        made.nonnegative = True
        return made

    def _branch(self, number: int, place: Value, unit: Value, known: Sequence[Known]) -> None:
        """Emit the launches from a number on, as branches."""
        if number == len(self.kernels) - 1:
            self._launch(number, place, unit, known)
            return
        inside, regions = self.make("lt", place, self._ends[number]), []
        for follow in (self._launch, self._next):
            with self.inside(Block()) as region:
                follow(number, place, unit, known)
            regions.append(region)
        self.emit("if", (inside,), (), regions=regions)

    def _next(self, number: int, place: Value, unit: Value, known: Sequence[Known]) -> None:
        self._branch(number + 1, place, unit, known)

    def _launch(self, number: int, place: Value, unit: Value, known: Sequence[Known]) -> None:
        """Emit the body of a launch."""
        kernel = self.kernels[number]
        self._memories, self._parts = known[number]
        self._find_cube(number, place)
        self._find_unit(kernel.cube, unit)
        if kernel.units == self.units:
            self._body(kernel)
            return
        exists = self.make("lt", unit, self.like(kernel.units, unit))
        with self.inside(Block()) as region:
            self._body(kernel)
        self.emit("if", (exists,), (), regions=(region, Block()))

    def _body(self, kernel: Kernel) -> None:
        for operation in kernel.body.operations:
            self._step(operation)

    def _find_cube(self, number: int, place: Value) -> None:
        """Set the positions and counts of a launch's cubes."""
        zero, one = self.like(0, place), self.like(1, place)
        start = self._ends[number - 1] if number else zero
        place = self.make("sub", place, start)
        count = self.make("sub", self._ends[number], start)
        place.nonnegative = count.nonnegative = True
        places, counts = [place, zero, zero], [count, one, one]
        if self.deep[number]:
            across, down = self._axes[number]
            plane = self.make("mul", across, down)
            rest = self.make("quotient", place, across)
            places = [self.make("modulo", place, across), self.make("modulo", rest, down)]
            places.append(self.make("quotient", place, plane))
            counts = [across, down, self.make("quotient", count, plane)]
        for axis in range(3):
            places[axis].nonnegative = counts[axis].nonnegative = True
            self._places["cube_position", axis] = places[axis]
            self._places["cube_count", axis] = counts[axis]

    def _find_unit(self, cube: tuple[int, int, int], unit: Value) -> None:
        """Set the positions of a launch's units, which are numbered with x fastest."""
        for axis, size in enumerate(cube):
            before = prod(cube[:axis])
            made = self.make("quotient", unit, self.like(before, unit)) if before > 1 else unit
            if size == 1:
                made = self.like(0, unit)
            elif prod(cube[axis + 1 :]) > 1:
                made = self.make("modulo", made, self.like(size, unit))
            made.nonnegative = True
            self._places["unit_position", axis] = made

    def operation(self, operation: Operation) -> Sequence[Parts] | None:
        """Emit the replacement of a position or count."""
        if operation.name not in ("cube_position", "cube_count", "unit_position"):
            return None
        found = self._places[operation.name, operation.attributes["axis"]]
        return [(self.convert(found, operation.result.type.dtype),)]
