"""OpTable: the ready base for simple devices.

A subclass gives a table, op name to function, and memory; graphs run op by op, temporaries are
freed at their last use, and everything a plan needs is known before it runs.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import repeat
from time import perf_counter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from numpy.linalg import LinAlgError

from calor.backends.events import Event, Listener
from calor.backends.protocol import Backend, Buffer, Claim
from calor.errors import (
    ArgumentError,
    CalorError,
    DeviceError,
    ElementIndexError,
    LinearAlgebraError,
    OutOfMemoryError,
)
from calor.graph.graph import Graph, Node
from calor.graph.host_call import of_host
from calor.specs import Spec

# What the references say of an index out of range.
_INDEX = re.compile(r"index (-?\d+) is out of range for axis (\d+) of size (\d+)")
Function = Callable[..., Any]
Sharing = Literal["always", "maybe"]


class OpTable(Backend):
    """A backend whose graphs run one op after another.

    A subclass provides ``table`` and the conversions between buffers and the values that its
    functions compute with (with NumPy both are arrays). ``views`` names the ops whose result may
    share the memory of their first operand; "always" means that they allocate nothing.
    ``constants`` names ops without operands whose results an executable computes once and keeps;
    they are read-only.
    """

    views: Mapping[str, Sharing] = MappingProxyType({})
    constants: frozenset[str] = frozenset()
    # Who is told of each op, by the device's index.
    _listeners: Mapping[int, Listener] = MappingProxyType({})

    @abstractmethod
    def table(self, index: int) -> Mapping[str, Function]:
        """Return the functions of the ops.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        mapping of str to callable
            A function for each op's name; it takes the operands' values and, by keyword, the
            attributes.
        """

    @abstractmethod
    def reserve(self, index: int, nbytes: int) -> None:
        """Check that a plan's bytes fit; allocate nothing.

        Parameters
        ----------
        index : int
            The device.
        nbytes : int
            What the plan allocates at most.

        Raises
        ------
        OutOfMemoryError
            If they do not fit.
        """

    @abstractmethod
    def enter(self, index: int, given: Any, spec: Spec) -> Any:
        """Return an input as a value that the functions compute with.

        Parameters
        ----------
        index : int
            The device.
        given : Any
            A buffer, or a host number or array.
        spec : Spec
            Its shape and dtype.

        Returns
        -------
        Any
            The value.
        """

    @abstractmethod
    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """Return results in dense memory that no input and no other result shares.

        Parameters
        ----------
        index : int
            The device.
        values : sequence
            The results.
        inputs : sequence
            The inputs' values, which results may share memory with.

        Returns
        -------
        list
            The values, copied where they shared memory.
        """

    @abstractmethod
    def leave(self, index: int, value: Any, spec: Spec, into: Buffer | None) -> Buffer:
        """Return a value in a buffer.

        Parameters
        ----------
        index : int
            The device.
        value : Any
            A value that `own` returned.
        spec : Spec
            Its shape and dtype.
        into : Buffer or None
            The buffer to write to; None for a new one.

        Returns
        -------
        Buffer
            The buffer with the value.
        """

    def scratch(self, index: int, node: Node, graph: Graph) -> int:
        """Return how many bytes a function allocates for its own work, beside its results.

        `required_bytes` includes them for as long as the function runs.

        Parameters
        ----------
        index : int
            The device.
        node : Node
            The op, its attributes, and the numbers of its operands and results.
        graph : Graph
            The graph, whose ``specs`` have a shape and a dtype for each number.

        Returns
        -------
        int
            The bytes. By default 0.
        """
        return 0

    def failure(self, error: Exception, op: str) -> Exception:
        """Return the typed error for what a function of the table raised.

        Parameters
        ----------
        error : Exception
            What it raised. An error of calor's own is returned with the op's name added.
        op : str
            The op's name.

        Returns
        -------
        Exception
            The error to raise.
        """
        if isinstance(error, DeviceError) and error.op is None:
            error.op = op
        if isinstance(error, CalorError) or of_host(error):
            return error
        if isinstance(error, IndexError):
            found = _INDEX.search(str(error))
            if found is None:
                return ElementIndexError(str(error), op=op)
            number, axis, size = map(int, found.groups())
            return ElementIndexError(str(error), op=op, index=number, axis=axis, size=size)
        if isinstance(error, LinAlgError):
            return LinearAlgebraError(str(error), op=op)
        if isinstance(error, MemoryError):
            return OutOfMemoryError(f"{self.name} ran out of memory: {error}", op=op)
        return DeviceError(f"{self.name} failed: {type(error).__name__}: {error}", op=op)

    @contextmanager
    def profiling(self, index: int, listener: Listener) -> Iterator[None]:
        """Report each op with the time of its function.

        Parameters
        ----------
        index : int
            The device.
        listener : callable
            Called with one event for each op, also where it listens already.

        Yields
        ------
        None
            In the context.

        Raises
        ------
        ArgumentError
            If another listener is active.
        """
        active = self._listeners.get(index)
        if active is not None:
            if active != listener:
                raise ArgumentError("profile: another profile of this device is active")
            # Two members of a router may be one device by two names.
            yield
            return
        self._listeners = {**self._listeners, index: listener}
        try:
            yield
        finally:
            self._listeners = {k: v for k, v in self._listeners.items() if k != index}

    def claim(self, index: int, graph: Graph) -> Claim:
        """Claim every node whose op is in the table and whose dtypes the device has.

        Parameters
        ----------
        index : int
            The device.
        graph : Graph
            The graph.

        Returns
        -------
        Claim
            One part, and the reasons for the nodes that are not in it.
        """
        table = self.table(index)
        reasons = self.info(index).objections(graph)
        for number, node in enumerate(graph.nodes):
            if node.op.name not in table:
                reasons[number] = "not in the device's op table"
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def compile(self, index: int, graph: Graph) -> OpTableExecutable:
        """Return the graph as a list of calls.

        Parameters
        ----------
        index : int
            The device.
        graph : Graph
            The graph.

        Returns
        -------
        OpTableExecutable
            The executable.
        """
        return OpTableExecutable(self, index, graph)


class Step(NamedTuple):
    """One call. Up to two operands are read without a list, one value is freed without a loop.

    Attributes
    ----------
    name : str
        The op's name.
    function : callable
        The table's function, with the attributes.
    first : int
        The first operand; −1 if there is none.
    second : int
        The second operand; −1 if there is none.
    operands : tuple of int or None
        All operands, if there are none or more than two.
    slot : int
        The result; −1 if there are several.
    slots : tuple of int
        All results.
    end : int
        The first value to free after the call; −1 if there is none.
    ends : tuple of int
        The other values to free.
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
    """A graph as a list of calls.

    Parameters
    ----------
    backend : OpTable
        The backend with the table.
    index : int
        The device.
    graph : Graph
        The graph.
    """

    def __init__(self, backend: OpTable, index: int, graph: Graph) -> None:
        self.backend = backend
        self.index = index
        self.graph = graph
        table = backend.table(index)
        self.steps: list[Step] = []
        # What the list of values holds after the inputs before a run: the constants.
        self._room: list[Any] = [None] * (len(graph.specs) - len(graph.inputs))
        every = graph.last_uses()
        for node, ends in zip(graph.nodes, every, strict=True):
            step = _step(table[node.op.name], node, ends)
            if node.op.name in backend.constants:
                self._room[step.slot - len(graph.inputs)] = step.function()
            else:
                self.steps.append(step)
        kept: dict[str, Sharing] = dict.fromkeys(backend.constants, "always")
        scratch = [backend.scratch(index, node, graph) for node in graph.nodes]
        views = {**backend.views, **kept}
        self.required_bytes, self.largest = bytes_needed(graph, views, scratch, every)
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
        runner = self
        if backend._listeners and index in backend._listeners:
            runner = self._timed(backend._listeners[index])
        results = backend.own(index, runner._run(given), given)
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

    def _timed(self, listener: Listener) -> Self:
        """Return the executable with functions that report their time."""
        specs = self.graph.specs
        makers = {node.outputs: node for node in self.graph.nodes}

        def timed(step: Step) -> Step:
            node = makers[step.slots]
            nbytes = sum(specs[v].nbytes for v in (*node.inputs, *node.outputs))
            results = tuple(str(specs[v]) for v in node.outputs)

            def function(*operands: Any) -> Any:
                start = perf_counter()
                made = step.function(*operands)
                took = perf_counter() - start
                name = step.name
                listener([Event(name, "", start, took, nbytes, covers=(name,), results=results)])
                return made

            return step._replace(function=function)

        made = copy(self)
        made.steps = list(map(timed, self.steps))
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


def bytes_needed(
    graph: Graph,
    views: Mapping[str, Sharing],
    scratch: Sequence[int] = (),
    ends: Sequence[Sequence[int]] | None = None,
) -> tuple[int, str | None]:
    """Return how many bytes a run occupies at most, and the op with the largest result.

    It counts values, what views keep alive, copies of outputs that would share memory, and scratch
    memory.

    Parameters
    ----------
    graph : Graph
        The graph.
    views : mapping of str to {"always", "maybe"}
        The ops whose result shares the memory of their first operand.
    scratch : sequence of int, optional
        The bytes that each node's function allocates for its own work; by default none.
    ends : sequence, optional
        What `Graph.last_uses` returns, where it is known.

    Returns
    -------
    tuple
        The number of bytes, and the op's name or None.
    """
    specs = graph.specs
    # For each value, the allocations that it keeps alive, named by the value that made them.
    holds: list[tuple[int, ...]] = [()] * len(specs)
    users = [0] * len(specs)
    in_use = peak = most = 0
    largest: str | None = None
    beside = iter(scratch)
    for node, ended in zip(graph.nodes, graph.last_uses() if ends is None else ends, strict=True):
        sharing = views.get(node.op.name)
        below = holds[node.inputs[0]] if sharing is not None and node.inputs else ()
        fresh = in_use
        for o in node.outputs:
            if sharing == "always":
                holds[o] = below
            else:
                # What a node makes is none of what was there before.
                holds[o] = (o, *below)
                fresh += specs[o].nbytes
            for allocation in holds[o]:
                users[allocation] += 1
        if fresh - in_use > most:
            most, largest = fresh - in_use, node.op.name
        in_use = fresh
        peak = max(peak, in_use + next(beside, 0))
        for v in ended:
            for allocation in holds[v]:
                users[allocation] -= 1
                if not users[allocation]:
                    in_use -= specs[allocation].nbytes
    seen: set[int] = set()
    for o in graph.outputs:
        # A result that may be a view has an allocation of its own, or is copied to one.
        copied = o in seen or o not in holds[o]
        seen.add(o)
        if copied:
            in_use += graph.specs[o].nbytes
    return max(peak, in_use), largest
