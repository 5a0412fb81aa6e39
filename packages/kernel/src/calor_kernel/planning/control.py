"""Graphs with control flow: plans run by the host, which reads the conditions.

Requirements: a sub-graph is planned once for any number of runs. Carried values stay on the device.
The memory bound of a call is known before it runs, except for the number of steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from calor.backends.protocol import Executable
from calor.errors import OutOfMemoryError
from calor.graph.graph import Graph, Node
from calor.graph.host_call import HostCall
from calor.graph.segments import Segment
from calor_kernel.device.buffers import OPEN, KernelBuffer
from calor_kernel.device.outcomes import inherit, verify
from calor_kernel.device.protocol import Memory
from calor_kernel.planning.device_loop import DeviceLoop
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.flows import is_flow
from calor_kernel.planning.hosted import FACTORS, Factoring
from calor_kernel.planning.parts import Part, Place, places_of
from calor_kernel.planning.pitches import Pitches
from calor_kernel.planning.plan import Plan, copied
from calor_kernel.planning.stages import PARTS, PLANNED, stages_of
from calor_kernel.planning.steps import CHUNK, Steps
from calor_kernel.planning.whole import Refused, Stage, Whole

Compile = Callable[["Engine", Graph], Executable]
Array = np.ndarray[Any, Any]
Buffers = list[Any]
# The values that are read and made, and the executable.
_Stage = tuple[tuple[int, ...], tuple[int, ...], "Executable | _Flow"]
# The number of calls before weights are prepared, and the number of such attempts.
_SETTLED: Final = 6
_TRIES: Final = 4
# The bytes from which on copying a carry takes longer than a call of the body's plan.
_LARGE: Final = 1 << 16


class _Flow(ABC):
    """A node that runs sub-graphs. ``required``: the maximum bytes of a run."""

    required: int

    @property
    @abstractmethod
    def by_host(self) -> str | None:
        """Why the host takes part in each step; None where it queues the whole."""

    @abstractmethod
    def __call__(self, inputs: Buffers) -> Buffers:
        """Run on buffers; return new ones."""


class _Cond(_Flow):
    def __init__(self, engine: Engine, node: Node, graph: Graph, build: Compile) -> None:
        self.engine = engine
        branches = node.attributes["otherwise"], node.attributes["then"]
        self.branches = [build(engine, branch) for branch in branches]
        self.required = max(b.required_bytes for b in self.branches)

    @property
    def by_host(self) -> str:
        """The host chooses a branch."""
        return "it reads the predicate"

    def __call__(self, inputs: Buffers) -> Buffers:
        predicate, *operands = inputs
        return self.branches[truth(self.engine, predicate)](operands)


class _Onward:
    """The body of a loop, whose steps follow each other.

    The carries of a step are the loop's alone, so the next step may write over those that it makes
    in place, and waits for nothing. ``carried``: the bytes of each carry.
    """

    def __init__(self, body: Executable, carried: Sequence[int]) -> None:
        self.body = body
        self.carried = carried
        self._plan: Plan | None = None
        self._stay: list[int] = []

    @property
    def stay(self) -> list[int]:
        """The large carries that a step writes over those of the step before."""
        settled = self.body.settled if isinstance(self.body, Plan) else None
        # Plans of a template have no recorder.
        if self._plan is None and type(settled) is Plan:
            self._plan = settled
            in_place = settled.recorder.in_place(len(self.carried))
            self._stay = [k for k in in_place if self.carried[k] >= _LARGE]
        return self._stay

    def __call__(
        self, given: Buffers, own: Sequence[Any] | None, rows: Sequence[Any] = ()
    ) -> Buffers:
        """Run a step; ``own``: the carries of a step before, None for those of the caller.

        ``rows``: for each result after the carries, the memory to write it to, or None.
        """
        into: Buffers = [None] * len(self.carried) + [*rows]
        if own is not None:
            for k in self.stay:
                into[k] = own[k]
        if not any(target is not None for target in into):
            return self.body(given)
        if self._plan is None:
            return self.body(given, into)
        return self._plan.onward(given, into)


class _While(_Flow):
    def __init__(self, engine: Engine, node: Node, graph: Graph, build: Compile) -> None:
        self.engine = engine
        self.captures: tuple[int, int] = node.attributes["captures"]
        self.condition = build(engine, node.attributes["condition"])
        self.body = build(engine, node.attributes["body"])
        carried = [graph.specs[o].nbytes for o in node.outputs]
        self.onward = _Onward(self.body, carried)
        bodies = self.condition.required_bytes + self.body.required_bytes
        self.carried = carried
        self.required = bodies + 2 * sum(carried)
        self.loop: DeviceLoop | None = None

    @property
    def by_host(self) -> str | None:
        """Why the host reads the condition of each step; None where the device does."""
        return DeviceLoop.refusal(self.engine, self.condition, self.body)

    def __call__(self, inputs: Buffers) -> Buffers:
        one, two = self.captures
        first, second = inputs[:one], inputs[one : one + two]
        carry = start = inputs[one + two :]
        if self.engine.profiler is None and self.by_host is None:
            if self.loop is None:
                self.loop = DeviceLoop.of(self.condition, self.body, self.captures, self.carried)
            return self.loop.run(start, first, second)
        while truth(self.engine, self.condition([*carry, *first])[0]):
            carry = self.onward([*carry, *second], None if carry is start else carry)
        return [duplicate(self.engine, b) for b in carry] if carry is start else carry


class _Scan(_Flow):
    def __init__(self, engine: Engine, node: Node, graph: Graph, build: Compile) -> None:
        self.engine = engine
        attributes = node.attributes
        body: Graph = attributes["body"]
        self.captures: int = attributes["captures"]
        carries = self.carries = int(attributes["carries"])
        self.length: int = attributes["length"]
        self.reverse: bool = attributes["reverse"]
        self.keep: bool = attributes["keep"]
        self.stacked = _stacked(engine, node, graph)
        self.body = build(engine, _written_once(body, carries, self.stacked))
        # Bytes of each carry and each kept one; per row, of each x and of each stacked result.
        made = [s.nbytes for s in body.output_specs]
        given = [s.nbytes for s in body.input_specs]
        self.carried, self.rows = made[:carries], made[carries:]
        self.onward = _Onward(self.body, self.carried)
        self.kept = self.carried if self.keep else []
        self.slices = given[carries : len(given) - self.captures]
        # Whether each row is read and written in place, which needs aligned rows.
        align = engine.device.info.starts if engine.pool.parts else 0
        self.read = [bool(align) and n % align == 0 for n in self.slices]
        self.written = [bool(align) and n % align == 0 for n in self.rows]
        most = max(2 * sum(made), 4 * sum(self.carried)) + self.body.required_bytes
        results = sum(graph.specs[o].nbytes for o in node.outputs)
        self.required = results + most + sum(self.slices)
        # The stacks of batched steps, whose rows are addressed by offset alone.
        inputs, outputs = body.input_specs, body.output_specs
        given_rows = inputs[carries : len(inputs) - self.captures]
        self.xs = Pitches(engine, build, given_rows, self.length)
        self.stacks = Pitches(engine, build, outputs[carries:], self.length)
        self.keeps = Pitches(engine, build, outputs[:carries] if self.keep else [], self.length)
        self.required += self.xs.nbytes + self.stacks.nbytes + self.keeps.nbytes
        self.called = False
        self.steps: Steps | None = None

    @property
    def by_host(self) -> str | None:
        """Why steps are queued one by one; None where many are one list of launches."""
        if not (self.xs.fits and self.stacks.fits and self.keeps.fits):
            return "its rows are empty, or too many to be aligned"
        if not min(self.carried, default=1):
            return "a carry is empty"
        if not isinstance(self.body, Plan):
            return "it has control flow of its own"
        if self.body.settled is None:
            return "it is planned for several sizes"
        return None if Steps.take(self.body) else "it reads numbers of the host"

    def __call__(self, inputs: Buffers) -> Buffers:
        pool, carries, length = self.engine.pool, self.carries, self.length
        held, rest = inputs[: self.captures], inputs[self.captures :]
        carry, xs = rest[:carries], rest[carries:]
        start = carry
        steps = self._together()
        if steps is not None:
            made = [pool.take(n * length) for n in self.stacks.sizes]
            kept = [pool.take(n * length) for n in self.keeps.sizes]
            last = steps.run(carry, self.xs.spread(xs), held, made, length, kept)
            return [*last, *self.stacks.gathered(made), *self.keeps.gathered(kept)]
        homes = {j: k for k, j in self.stacked}
        stacks = [pool.take(n * length) for n in self.rows]
        kept = [pool.take(n * length) for n in self.kept]
        rows = [None if d else pool.take(n) for n, d in zip(self.slices, self.read, strict=True)]
        for i in reversed(range(length)) if self.reverse else range(length):
            for stack, value in zip(kept, carry, strict=False):
                _copy_row(pool.memory, stack, i, value)
                inherit(stack, [value])
            given: Buffers = []
            for row, x, n in zip(rows, xs, self.slices, strict=True):
                if row is None:
                    given.append(Row(pool.memory, x, i * n, n))
                else:
                    pool.memory.copy(row.handle, 0, x.handle, i * n, n)
                    row.outcomes = x.outcomes
                    row.stamp = 0
                    given.append(row)
            into = [
                Row(pool.memory, stack, i * n, n) if direct else None
                for j, (stack, n, direct) in enumerate(
                    zip(stacks, self.rows, self.written, strict=True)
                )
                if j not in homes
            ]
            own = None if carry is start else carry
            made = self.onward([*carry, *given, *held], own, into)
            carry, others = made[:carries], iter(made[carries:])
            for j, (stack, direct) in enumerate(zip(stacks, self.written, strict=True)):
                value = carry[homes[j]] if j in homes else next(others)
                if j in homes or not direct:
                    _copy_row(pool.memory, stack, i, value)
                inherit(stack, [value])
        if carry is start:
            carry = [duplicate(self.engine, b) for b in carry]
        return [*carry, *stacks, *kept]

    def _together(self) -> Steps | None:
        """Return the runner of batched steps; None if not possible, or not yet worthwhile."""
        again, self.called = self.called, True
        if self.steps is None and self.length > 1 and self.by_host is None:
            plan = self.body.settled if isinstance(self.body, Plan) else None
            assert plan is not None
            # Scans of other lengths, in programs of other sizes, may have the same body.
            plan.stepped += self.length
            if again or plan.together or plan.stepped > 2 * CHUNK:
                sizes = self.xs.sizes, self.stacks.sizes
                stay = [] if self.keep else {*self.onward.stay} - dict(self.stacked).keys()
                self.steps = Steps.of(
                    *(plan, self.carried, *sizes, self.captures, self.reverse),
                    *(sorted(stay), self.keeps.sizes, self.stacked),
                )
        return self.steps


def _stacked(engine: Engine, node: Node, graph: Graph) -> list[tuple[int, int]]:
    """Return pairs of a carry of a scan and the stacked result that is the same value.

    A final carry that the graph returns is written by the last step where stages may be one list,
    which has no copies.
    """
    carries: int = node.attributes["carries"]
    outputs: Sequence[int] = node.attributes["body"].outputs
    rows = [*outputs[carries:]]
    returned = set() if engine.tells_late else {*graph.outputs}
    pairs: dict[int, int] = {}
    for k, value in enumerate(outputs[:carries]):
        if value in rows and node.outputs[k] not in returned:
            pairs.setdefault(rows.index(value), k)
    return [(k, j) for j, k in pairs.items()]


def _written_once(body: Graph, carries: int, stacked: Sequence[tuple[int, int]]) -> Graph:
    """Return the body of a scan without the stacked results that are carries."""
    left = {carries + j for _, j in stacked}
    outputs = [v for n, v in enumerate(body.outputs) if n not in left]
    return Graph(body.specs, body.host, body.nodes, outputs, len(body.inputs)) if left else body


def _copy_row(memory: Memory, stack: KernelBuffer, row: int, value: KernelBuffer) -> None:
    memory.copy(stack.handle, row * value.nbytes, value.handle, 0, value.nbytes)


class _Parts(_Flow):
    """Parts of inputs that several stages read."""

    required = 0
    by_host = None

    def __init__(self, engine: Engine, segment: Segment, places: Mapping[int, Place]) -> None:
        self.memory = engine.pool.memory
        self.places = [(segment.inputs.index(places[v].source), places[v]) for v in segment.outputs]

    def __call__(self, inputs: Buffers) -> Buffers:
        return [Part(self.memory, inputs[i], place) for i, place in self.places]


class Row:
    """A non-owning row of a stack, on devices with handles of parts."""

    # Weakly known: the guard of a run is that of the memory it writes.
    __slots__ = ("__weakref__", "handle", "nbytes", "outcomes")

    stamp: Final = OPEN

    def __init__(self, memory: Memory, stack: KernelBuffer, offset: int, nbytes: int) -> None:
        self.handle = memory.part(stack.handle, offset, nbytes)
        self.nbytes = nbytes
        self.outcomes = stack.outcomes


class _Callback(_Flow):
    """A function of the host; its operands and results are copied."""

    by_host = "it is a function of the host"

    def __init__(self, engine: Engine, node: Node, graph: Graph, build: Compile) -> None:
        self.engine = engine
        results = [graph.specs[v] for v in node.outputs]
        self.call: Callable[..., Iterable[Array]]
        self.first = 0
        if node.op.name in FACTORS:
            self.call = Factoring(node, results)
        else:
            call: HostCall = node.attributes["call"]
            self.call = call
            # The token stays what it is.
            self.first = len(results) - len(call.results)
        self.specs = [graph.specs[v] for v in node.inputs]
        self.required = sum(graph.specs[v].nbytes for v in node.outputs)

    def __call__(self, inputs: Buffers) -> Buffers:
        pool = self.engine.pool
        arrays = [np.empty(s.shape, s.dtype.numpy) for s in self.specs]
        for buffer, array in zip(inputs, arrays, strict=True):
            verify(buffer)
            if array.size:
                pool.memory.copy_out(buffer.handle, 0, array)
        made = [duplicate(self.engine, b) for b in inputs[: self.first]]
        for array in self.call(*arrays[self.first :]):
            buffer = pool.take(array.nbytes)
            if array.size:
                pool.memory.copy_in(buffer.handle, 0, array)
            made.append(buffer)
        return made


_RUNNERS: Final[dict[str, Callable[[Engine, Node, Graph, Compile], _Flow]]] = {
    "cond": _Cond,
    "while_loop": _While,
    "scan": _Scan,
    "callback": _Callback,
    "ordered_callback": _Callback,
    **dict.fromkeys(FACTORS, _Callback),
}


def truth(engine: Engine, buffer: KernelBuffer) -> bool:
    """Return the value of a bool on the device."""
    verify(buffer)
    found = np.empty((), np.bool_)
    engine.pool.memory.copy_out(buffer.handle, 0, found.reshape(1))
    return bool(found)


def duplicate(engine: Engine, buffer: KernelBuffer) -> KernelBuffer:
    """Return a copy of a buffer."""
    made = engine.pool.take(buffer.nbytes)
    engine.pool.memory.copy(made.handle, 0, buffer.handle, 0, buffer.nbytes)
    inherit(made, [buffer])
    return made


def _plain(stage: _Stage, ends: Sequence[int]) -> Stage | None:
    """Return a stage whose launches are independent of data; None for others."""
    taken, made, runner = stage
    if isinstance(runner, _Parts):
        return Stage(taken, made, ends, None)
    if isinstance(runner, _Scan):
        steps = runner.steps
        if steps is None or steps.stay or steps.kept or runner.xs.wide or runner.stacks.wide:
            return None
        return Stage(taken, made, ends, (steps, runner.length))
    plan = runner.settled if isinstance(runner, Plan) else None
    # Plans of a template have no recorder.
    return Stage(taken, made, ends, plan) if type(plan) is Plan else None


class Staged(NamedTuple):
    """A graph with control flow, its segments in an order to run them, and parts of its inputs."""

    graph: Graph
    segments: Sequence[Segment]
    places: Mapping[int, Place]

    @classmethod
    def of(cls, engine: Engine, graph: Graph) -> Staged:
        """Return the stages of a graph, whose nodes may be repeated in several of them."""
        align = engine.device.info.starts if engine.pool.parts else 0
        flows = {n for n, node in enumerate(graph.nodes) if is_flow(engine, graph, node)}
        whole, segments = stages_of(graph, flows, places_of(graph, align))
        return cls(whole, segments, places_of(whole, align))

    def plans(self) -> Iterator[Graph]:
        """Return the graphs that are planned: all stages but flows and parts of inputs."""
        return (s.graph for s in self.segments if s.colour == PLANNED)

    def flows(self) -> Iterator[Node]:
        """Return the nodes that run by stages."""
        flows = (s for s in self.segments if s.colour not in (PLANNED, PARTS))
        return (self.graph.nodes[s.nodes[0]] for s in flows)


class ControlPlan:
    """The executable of a graph with control flow: stages in order, with buffers between them."""

    def __init__(self, engine: Engine, staged: Staged, build: Compile) -> None:
        self.engine = engine
        self._met: dict[Graph, int] = {}
        self.graph, self._parts, self.places = staged
        self.stages = [self._stage(segment, build) for segment in self._parts]
        last = {v: n for n, stage in enumerate(self.stages) for v in stage[0]}
        kept = {*self.graph.outputs, *self.graph.inputs}
        self.ends = [
            [v for v, n in last.items() if n == number and v not in kept]
            for number in range(len(self.stages))
        ]
        self.required_bytes, self.largest = self._required()
        # All stages as one list, and the number of calls until the next attempt to make it.
        self.whole: Whole | None = None
        self._until = _SETTLED
        self._tries = _TRIES

    def _stage(self, segment: Segment, build: Compile) -> _Stage:
        if segment.colour == PARTS:
            parts = _Parts(self.engine, segment, self.places)
            return segment.inputs, segment.outputs, parts
        if segment.colour == PLANNED:
            return segment.inputs, segment.outputs, build(self.engine, segment.graph)
        node = self.graph.nodes[segment.nodes[0]]
        flow = _RUNNERS[node.op.name](self.engine, node, self.graph, partial(self._body, build))
        return node.inputs, node.outputs, flow

    def parts(self) -> list[tuple[Segment, Any]]:
        """Return the segments of the graph with what runs them."""
        return [(s, stage[2]) for s, stage in zip(self._parts, self.stages, strict=True)]

    def _body(self, build: Compile, engine: Engine, graph: Graph) -> Executable:
        """Return the executable of a sub-graph, shared with other sizes of the program.

        Equal sub-graphs within a graph have separate executables, because each keeps the
        preparations of its own weights.
        """
        number = self._met[graph] = self._met.get(graph, -1) + 1
        found: Executable | None = engine.bodies.get((graph, number))
        if found is None:
            found = engine.bodies[graph, number] = build(engine, graph)
        return found

    def _required(self) -> tuple[int, str | None]:
        specs, graph = self.graph.specs, self.graph
        # Host numbers that control flow reads become buffers, and outputs may be copies.
        most = live = sum(specs[v].nbytes for v in graph.host)
        most += live
        lent: set[int] = set()
        for (_, made, runner), ends in zip(self.stages, self.ends, strict=True):
            needed = runner.required if isinstance(runner, _Flow) else runner.required_bytes
            most = max(most, live + needed)
            parts = made if isinstance(runner, _Parts) else ()
            lent.update(parts)
            live += sum(specs[v].nbytes for v in made if v not in lent)
            live -= sum(specs[v].nbytes for v in ends if v not in lent)
        copies = sum(specs[v].nbytes for v in graph.outputs)
        sizes = {sum(specs[o].nbytes for o in n.outputs): n.op.name for n in graph.nodes}
        return max(most, live) + copies, sizes[max(sizes)] if sizes else None

    def __call__(self, inputs: Sequence[Any], into: Sequence[Any] | None = None) -> Buffers:
        """Run; targets are written after everything is computed."""
        whole = self.whole
        try:
            if whole is not None and into is None and whole.fits(inputs):
                return whole.run(inputs)
            return self._by_stages(inputs, into)
        except OutOfMemoryError as error:
            error.op = error.op or self.largest
            raise

    def _by_stages(self, inputs: Sequence[Any], into: Sequence[Any] | None) -> Buffers:
        self.engine.pool.reserve(self.required_bytes, self.largest)
        self.engine.pool.settle()
        values: dict[int, Any] = dict(zip(self.graph.inputs, inputs, strict=True))
        for (taken, made, runner), ends in zip(self.stages, self.ends, strict=True):
            given = [values[v] for v in taken]
            if isinstance(runner, _Flow):
                given = [self._entered(v, x) for v, x in zip(taken, given, strict=True)]
            values.update(zip(made, runner(given), strict=True))
            for v in ends:
                del values[v]
        if self._tries:
            self._count(inputs)
        return self._outputs(values, into)

    def _count(self, inputs: Sequence[Any]) -> None:
        """After a few calls like this one, try to merge the stages into one list."""
        self._until -= 1
        if self._until:
            return
        self._until, self._tries = _SETTLED, self._tries - 1
        graph = self.graph
        stages = [s for s in map(_plain, self.stages, self.ends) if s is not None]
        self.whole = None
        if not graph.host and len(stages) == len(self.stages):
            places = graph.inputs, graph.outputs, self.places
            with suppress(Refused):
                self.whole = Whole(self.engine, *places, stages, inputs)
        if self.whole is None:
            self._tries = 0

    def _entered(self, number: int, given: Any) -> Any:
        """Return a buffer with a host number."""
        if number not in self.graph.host or isinstance(given, KernelBuffer):
            return given
        array = np.asarray(given, self.graph.specs[number].dtype.numpy)
        pool = self.engine.pool
        buffer = pool.take(array.nbytes)
        pool.memory.copy_in(buffer.handle, 0, np.ascontiguousarray(array))
        return buffer

    def _outputs(self, values: dict[int, Any], into: Sequence[Any] | None) -> Buffers:
        taken = {id(values[v]) for v in self.graph.inputs}
        made: Buffers = []
        for number in self.graph.outputs:
            buffer = self._entered(number, values[number])
            made.append(duplicate(self.engine, buffer) if id(buffer) in taken else buffer)
            taken.add(id(buffer))
        return copied(self.engine.pool.memory, made, into or ())
