"""OpTable: the ready base for simple devices.

A subclass gives a table, op name to function, and memory; graphs run op by op, temporaries are
freed at their last use, and everything a plan needs is known before it runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from numpy.linalg import LinAlgError

from calor.backends.protocol import Backend, Buffer, Claim
from calor.errors import (
    CalorError,
    DeviceError,
    ElementIndexError,
    LinearAlgebraError,
    OutOfMemoryError,
)
from calor.graph.graph import Graph, Node
from calor.specs import Spec

Function = Callable[..., Any]
Sharing = Literal["always", "maybe"]


class OpTable(Backend):
    """A backend whose graphs run one op after another.

    A subclass provides ``table`` and the four conversions between buffers and the values that its
    functions compute with (for NumPy both are arrays). ``views`` names the ops whose result may
    share the memory of their first operand: "always" allocates nothing. ``constants`` names ops
    without operands whose results an executable computes once and keeps; nobody may write to them.
    """

    views: Mapping[str, Sharing] = MappingProxyType({})
    constants: frozenset[str] = frozenset()

    @abstractmethod
    def table(self, index: int) -> Mapping[str, Function]:
        """Return op name to function; each takes operand values and the op's attributes."""

    @abstractmethod
    def reserve(self, index: int, nbytes: int) -> None:
        """Raise OutOfMemoryError when a plan's bytes do not fit; allocate nothing."""

    @abstractmethod
    def enter(self, index: int, given: Any, spec: Spec) -> Any:
        """Turn an input (a buffer, or a host number or array) into a value of the table."""

    @abstractmethod
    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Return results, dense, each in memory of its own: shared with no input and no other."""

    @abstractmethod
    def leave(self, index: int, value: Any, spec: Spec, into: Buffer | None) -> Buffer:
        """Turn an owned value into a buffer, or write it into ``into`` and return that."""

    def failure(self, error: Exception, op: str) -> Exception:
        """Return what to raise for an error of a function of the table: a typed error, as a rule.

        An error of calor's own stays, with the op's name added.
        """
        if isinstance(error, DeviceError) and error.op is None:
            error.op = op
        if isinstance(error, CalorError):
            return error
        if isinstance(error, IndexError):
            return ElementIndexError(str(error), op=op)
        if isinstance(error, LinAlgError):
            return LinearAlgebraError(str(error), op=op)
        if isinstance(error, MemoryError):
            return OutOfMemoryError(f"{self.name} ran out of memory: {error}", op=op)
        return DeviceError(f"{self.name} failed: {type(error).__name__}: {error}", op=op)

    def claim(self, index: int, graph: Graph) -> Claim:
        """Take every node whose op is in the table and whose dtypes the device has."""
        table = self.table(index)
        reasons = self.info(index).objections(graph)
        for number, node in enumerate(graph.nodes):
            if node.op.name not in table:
                reasons[number] = "not in the device's op table"
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def compile(self, index: int, graph: Graph) -> OpTableExecutable:
        """Prepare the list of calls."""
        return OpTableExecutable(self, index, graph)


class Step(NamedTuple):
    """One call: up to two operands are read without a list, one value is freed without a loop.

    ``first`` and ``second`` are −1 where they do not exist; ``operands`` is None unless there are
    none or more than two. ``slot`` is −1 where there are several results, in ``slots``.
    """

    name: str
    function: Function
    first: int
    second: int
    operands: tuple[int, ...] | None
    slot: int
    slots: tuple[int, ...]
    end: int
    ends: tuple[int, ...]


def _step(function: Function, node: Node, ends: tuple[int, ...]) -> Step:
    # A precision lets a device be less exact, which no function of a table has to hear of.
    given = {name: v for name, v in node.attributes.items() if name != "precision"}
    if given:
        function = partial(function, **given)
    operands, outputs = node.inputs, node.outputs
    count = len(operands)
    return Step(
        node.op.name,
        function,
        operands[0] if count else -1,
        operands[1] if count > 1 else -1,
        operands if count not in (1, 2) else None,
        outputs[0] if len(outputs) == 1 else -1,
        outputs,
        ends[0] if ends else -1,
        ends[1:],
    )


class OpTableExecutable:
    """A graph as a list of calls."""

    def __init__(self, backend: OpTable, index: int, graph: Graph) -> None:
        self.backend = backend
        self.index = index
        self.graph = graph
        table = backend.table(index)
        self.steps: list[Step] = []
        # What the list of values holds after the inputs before a run: the constants.
        self._room: list[Any] = [None] * (len(graph.specs) - len(graph.inputs))
        for node, ends in zip(graph.nodes, graph.last_uses(), strict=True):
            step = _step(table[node.op.name], node, ends)
            if node.op.name in backend.constants:
                self._room[step.slot - len(graph.inputs)] = step.function()
            else:
                self.steps.append(step)
        kept: dict[str, Sharing] = dict.fromkeys(backend.constants, "always")
        self.required_bytes, self.largest = bytes_needed(graph, {**backend.views, **kept})
        self._given = graph.input_specs
        self._made = graph.output_specs

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Buffer]:
        """Run op by op; nothing is written in place before every output is computed."""
        backend, index = self.backend, self.index
        try:
            backend.reserve(index, self.required_bytes)
        except OutOfMemoryError as error:
            error.op = error.op or self.largest
            raise
        given = list(map(backend.enter, repeat(index), inputs, self._given))
        results = backend.own(index, self._run(given), given)
        del given
        leave, specs = backend.leave, self._made
        if into is None:
            return list(map(leave, repeat(index), results, specs, repeat(None)))
        # All that is fresh is made first; from then on nothing can fail.
        made = [
            target or leave(index, value, known, None)
            for value, known, target in zip(results, specs, into, strict=True)
        ]
        for value, known, target in zip(results, specs, into, strict=True):
            if target is not None:
                leave(index, value, known, target)
        return made

    def _run(self, given: Sequence[Any]) -> list[Any]:
        values: list[Any] = [*given, *self._room]
        step = None
        try:
            for step in self.steps:
                _, function, first, second, operands, slot, slots, end, ends = step
                if operands is not None:
                    out = function(*[values[i] for i in operands])
                elif second < 0:
                    out = function(values[first])
                else:
                    out = function(values[first], values[second])
                if slot >= 0:
                    values[slot] = out if type(out) is not tuple else out[0]
                else:
                    for i, value in zip(slots, out, strict=True):
                        values[i] = value
                if end >= 0:
                    values[end] = None
                    for i in ends:
                        values[i] = None
        except Exception as error:
            assert step is not None
            failure = self.backend.failure(error, step.name)
            if failure is error:
                raise
            raise failure from error
        return [values[i] for i in self.graph.outputs]


def bytes_needed(graph: Graph, views: Mapping[str, Sharing]) -> tuple[int, str | None]:
    """Return the most bytes that a run occupies at once, and the op with the largest result.

    Counted are the values, with what a view keeps alive, and copies of outputs that would share
    memory; what a function needs for its own work is not.
    """
    # For each value, the allocations that it keeps alive, named by the value that made them.
    holds: list[frozenset[int]] = [frozenset()] * len(graph.specs)
    users: dict[int, int] = {}
    in_use = peak = most = 0
    largest: str | None = None
    for node, ends in zip(graph.nodes, graph.last_uses(), strict=True):
        sharing = views.get(node.op.name)
        below = holds[node.inputs[0]] if sharing is not None and node.inputs else frozenset()
        for o in node.outputs:
            own = frozenset() if sharing == "always" else frozenset((o,))
            holds[o] = own | below
            for allocation in holds[o]:
                users[allocation] = users.get(allocation, 0) + 1
        if sharing != "always":
            nbytes = sum(graph.specs[o].nbytes for o in node.outputs)
            in_use += nbytes
            peak = max(peak, in_use)
            if nbytes > most:
                most, largest = nbytes, node.op.name
        for v in ends:
            for allocation in holds[v]:
                users[allocation] -= 1
                if not users[allocation]:
                    in_use -= graph.specs[allocation].nbytes
    seen: set[int] = set()
    for o in graph.outputs:
        # A result that may be a view has an allocation of its own, or is copied to one.
        copied = o in seen or o not in holds[o]
        seen.add(o)
        if copied:
            in_use += graph.specs[o].nbytes
    return max(peak, in_use), largest
