"""Scans as repeated launches: the launches of a step, recorded once, whose addresses move.

Requirements: a device that repeats launches itself needs no host between steps, and a list as long
as a step for any number of steps. So a scan is a task like any other, in the plan of its graph, and
the number of steps is a number of that plan. Rows are read and written in place. Carries alternate
between two blocks of memory, or are rows of a stacked result that they are the same as. What a step
prepares of captured values is prepared before the first step, and may be kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from calor.dtypes import uint8
from calor.errors import CompileError
from calor.graph.graph import Graph, Node
from calor_kernel.contract.choices import greatest, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Input,
    Launch,
    Output,
    Refusal,
    Scratch,
    View,
    Work,
    flags_of,
)
from calor_kernel.device.protocol import Slot
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.planner import Planner
from calor_kernel.planning.preparations import preparations, written
from calor_kernel.planning.recording import Arguments, Recorder, fitted
from calor_kernel.planning.values import Draft, Launched, Piece, Task, Value

# A step with more launches takes longer than the host needs between steps.
_LAUNCHES: Final = 256
Move = tuple[Any, Any]
_STILL: Final = (0, 0)


class Unrepeated(CompileError):
    """The steps of a scan cannot be repeated as launches; the host runs them."""


def repeats(info: DeviceInfo, graph: Graph) -> bool:
    """Return whether all control flow of a graph is scans that a device may repeat itself."""
    flows = [n for n in graph.nodes if any(type(v) is Graph for v in n.attributes.values())]
    return bool(flows) and info.has("repeats") and all(map(_may_repeat, flows))


def _may_repeat(node: Node) -> bool:
    if node.op.name != "scan" or node.attributes["keep"] or not node.attributes["length"]:
        return False
    body: Graph = node.attributes["body"]
    return not body.host and not any(
        type(v) is Graph for inner in body.nodes for v in inner.attributes.values()
    )


def stacked_carries(node: Node) -> dict[int, int]:
    """Return the stacked result that is the same value as a carry, by the carry's number."""
    carries: int = node.attributes["carries"]
    outputs: Sequence[int] = node.attributes["body"].outputs
    rows, pairs = [*outputs[carries:]], dict[int, int]()
    for k, value in enumerate(outputs[:carries]):
        if value in rows and rows.index(value) not in pairs.values():
            pairs[k] = rows.index(value)
    return pairs


@dataclass(slots=True)
class _Body:
    """The planned step of a scan: its draft and works, and what is prepared before all steps.

    ``pieces``: the memory of preparations, by task and scratch number; ``done``: their launches.
    """

    draft: Draft
    works: list[Work]
    pieces: dict[tuple[int, int], Piece]
    done: set[tuple[int, int]]


class Scans:
    """Makes tasks of the scans of a graph; ``plan`` plans a step, ``choose`` chooses its works."""

    def __init__(
        self,
        engine: Engine,
        plan: Callable[[Graph], tuple[Planner, Draft]],
        choose: Callable[[Task], Work],
    ) -> None:
        self.engine = engine
        self.plan = plan
        self.choose = choose

    @classmethod
    def of(
        cls,
        engine: Engine,
        plan: Callable[[Graph], tuple[Planner, Draft]],
        choose: Callable[[Task], Work],
    ) -> Scans | None:
        """Return what makes tasks of scans; None where a family or the host runs these."""
        return cls(engine, plan, choose) if engine.device.info.has("repeats") else None

    def emit(self, planner: Planner, node: Node, given: Sequence[Value]) -> list[Value]:
        """Add the task of a scan; Unrepeated if its steps cannot be."""
        made = _Scan(self, planner, node, given)
        results = tuple(planner.graph.specs[o] for o in node.outputs)
        pieces = tuple(Piece("made", s.nbytes) for s in results)
        task = Task("scan", [made.work()], made.inputs, pieces, node.attributes, results)
        planner.tasks.append(task)
        return [Value(p, View.dense(s)) for p, s in zip(pieces, results, strict=True)]


class _Scan:
    def __init__(self, scans: Scans, planner: Planner, node: Node, given: Sequence[Value]) -> None:
        if not _may_repeat(node):
            raise Unrepeated("the scan is control flow of the host", op="scan")
        self.engine, self.scans = scans.engine, scans
        self.lowerings = planner.lowerings
        attributes = node.attributes
        self.captures: int = attributes["captures"]
        self.carries: int = attributes["carries"]
        self.length: Any = attributes["length"]
        self.reverse: bool = attributes["reverse"]
        self.stacked = stacked_carries(node)
        body: Graph = attributes["body"]
        homes = {*self.stacked.values()}
        outputs = [v for n, v in enumerate(body.outputs) if n - self.carries not in homes]
        step = Graph(body.specs, body.host, body.nodes, outputs, len(body.inputs))
        self.specs = body.output_specs
        # The stacked results that a step writes beside the carries, by their numbers.
        stacks = len(body.outputs) - self.carries
        self.rows = [j for j in range(stacks) if j not in homes]
        self.given = [s.nbytes for s in body.input_specs]
        self.starts = self.engine.device.info.starts
        xs = range(self.carries, len(body.inputs) - self.captures)
        moved = [self.given[i] for i in xs] + [s.nbytes for s in self.specs]
        if any(n == 0 or n % self.starts for n in moved):
            raise Unrepeated("rows of the scan are not aligned", op="scan")
        self.inputs = tuple(self._placed(planner, value) for value in given)
        # The bytes of what is prepared before all steps.
        self.kept: Any = 0
        self.body = self._planned(step)
        if self.body.draft.constants:
            constants = np.frombuffer(self.body.draft.constants, np.uint8)
            self.inputs = (*self.inputs, planner.constant(constants))
        self.scratch: list[Any] = []

    def _placed(self, planner: Planner, value: Value) -> Value:
        """Return an operand in contiguous memory that kernels may read from its start."""
        value = planner.dense(value)
        if value.view.offset * value.view.dtype.itemsize % self.starts:
            value = planner.copied(value)
        return value

    # The step.
    def _planned(self, step: Graph) -> _Body:
        planner, draft = self.scans.plan(step)
        works = [self.scans.choose(task) for task in draft.tasks]
        pieces: dict[tuple[int, int], Piece] = {}
        done: set[tuple[int, int]] = set()
        first = len(step.inputs) - self.captures
        for number, task in enumerate(draft.tasks):
            staying = frozenset(
                k
                for k, value in enumerate(task.inputs)
                if value.piece.kind == "constant"
                or (value.piece.kind == "input" and value.piece.number >= first)
            )
            work = works[number] = self._kept(planner, task, works[number], staying)
            for order, operands in preparations(work).items():
                if operands <= staying:
                    done.add((number, order))
                    for place in written(work, order):
                        if (number, place) not in pieces:
                            nbytes = work.scratch[place]
                            pieces[number, place] = Piece("kept", nbytes, self.kept)
                            self.kept += self._aligned(nbytes)
        if draft.hosts or any(work.failures for work in works) or flags_of(works):
            raise Unrepeated("a step of the scan may fail, or counts in memory", op="scan")
        return _Body(draft, works, pieces, done)

    def _kept(self, planner: Planner, task: Task, usual: Work, staying: frozenset[int]) -> Work:
        """Return the work for a task whose captured operands are prepared once."""
        lowerings = planner.lowerings
        if not staying or planner.deterministic or task.op not in lowerings or task.members:
            return usual
        if not any(p.nbytes for p in task.outputs):
            return usual
        given = task.attributes, tuple(v.view for v in task.inputs), task.results
        found = lowerings.ask(task.op, *given, kept=staying, pitches=task.pitches)
        return usual if isinstance(found, Refusal) or not found else found[0]

    # The launches.
    def work(self) -> Work:
        """Return the launches of all steps."""
        body = self.body
        recorder = Recorder(self.engine, body.draft, body.works, {})
        every = {
            (n, order) for n, work in enumerate(body.works) for order in range(len(work.launches))
        }
        before = recorder.laid({}, body.pieces, every - body.done)
        step = recorder.laid({}, body.pieces, body.done)
        if len(step.lists) != 1 or len(step.lists[0]) > _LAUNCHES:
            raise Unrepeated("a step of the scan has too many launches", op="scan")
        self.scratch += [step.arena, self.kept]
        self.between: dict[int, int] = {}
        for k in range(self.carries):
            if k not in self.stacked:
                self.between[k] = len(self.scratch)
                self.scratch.append(2 * self.room(k))
        places = _Places(self, recorder)
        launches = [places.launch(la, given, None) for la, given in before.lists[0]]
        launches += [places.launch(la, given, 0) for la, given in step.lists[0]]
        if not isinstance(self.length, int) or self.length > 1:
            repeated = [places.launch(la, given, 1) for la, given in step.lists[0]]
            if repeated:
                repeated[-1] = replace(repeated[-1], loop=(len(repeated), self.length - 1))
            launches += repeated
        launches += [self._last(k) for k in range(self.carries)]
        return Work(tuple(launches), tuple(self.scratch), variant="repeated")

    def _aligned(self, nbytes: Any) -> Any:
        align = self.engine.device.info.align
        return -(-greatest(nbytes, 1) // align) * align

    def room(self, k: int) -> Any:
        """Return the bytes from one block of a carry to the other."""
        return self._aligned(self.specs[k].nbytes)

    def _last(self, k: int) -> Launch:
        """Return the launch that copies a carry from its last place to the result."""
        known = self.specs[k]
        flat = spec_of((known.nbytes,), uint8)
        works = self.lowerings.ask("copy", {}, (View.dense(flat),), (flat,))
        assert not isinstance(works, Refusal)
        launch = fitted(works[0].launches[0], self.engine.device.info, "copy")
        source: Argument
        if k in self.stacked:
            row = 0 if self.reverse else (self.length - 1) * known.nbytes
            source = Output(self.carries + self.stacked[k], row)
        else:
            source = Scratch(self.between[k], (self.length - 1) % 2 * self.room(k))
        places: Mapping[type, Argument] = {Input: source, Output: Output(k)}
        arguments = tuple(places.get(type(a), a) for a in launch.arguments)
        return replace(launch, arguments=arguments, copies=None, alone=True)


class _Places:
    """The arguments of launches for the steps: the places of slots, and how these move."""

    def __init__(self, scan: _Scan, recorder: Recorder) -> None:
        self.scan = scan
        self.slots = recorder.slots
        self.inputs = {slot: number for number, slot in recorder.slots.inputs.items()}

    def launch(self, launched: Launched, given: Arguments, step: int | None) -> Launch:
        """Return a launch of the first step (0), of the later ones (1), or before all (None)."""
        launch = launched.launch
        signature = launch.build.signature
        pairs = [
            (argument, _STILL)
            if not isinstance(argument, Slot)
            else self._moved(argument, declared.dtype.itemsize, step or 0)
            for argument, declared in zip(given, signature, strict=True)
        ]
        made = replace(
            launch, arguments=tuple(a for a, _ in pairs), copies=None, alone=True,
            prepares=step is None,
        )  # fmt: skip
        if not step:
            return made
        moves = tuple(move for _, move in pairs)
        # What does not move is read from memory once.
        repeats, moved = self.scan.length - 1, sum(abs(by) for by, _ in moves)
        return replace(
            made, moves=moves, flops=repeats * launch.flops,
            nbytes=launch.nbytes + (repeats - 1) * moved,
        )  # fmt: skip

    def _moved(self, slot: Slot, itemsize: int, step: int) -> tuple[Argument, Move]:
        """Return an argument, and how its address moves between steps."""
        place, start, move = self._place(slot.number, step)
        offset = (start + slot.offset) // itemsize
        return replace(place, offset=offset), move

    def _place(self, number: int, step: int) -> tuple[Any, Any, Move]:
        """Return the buffer of a slot, its byte offset at a step, and how it moves."""
        scan, slots = self.scan, self.slots
        if number in self.inputs:
            return self._input(self.inputs[number], step)
        if number == slots.constants:
            return self._operand(len(scan.inputs) - 1, 0, _STILL)
        if number in (slots.arena, slots.kept):
            return Scratch(int(number == slots.kept)), 0, _STILL
        assert number >= slots.outputs, "a step has no host numbers"
        output = number - slots.outputs
        if output >= scan.carries:
            return self._row(scan.rows[output - scan.carries], step)
        if output in scan.stacked:
            return self._row(scan.stacked[output], step)
        room = scan.room(output)
        return Scratch(scan.between[output]), step * room, (-room, room)

    def _input(self, number: int, step: int) -> tuple[Any, Any, Move]:
        scan = self.scan
        rows = len(scan.given) - scan.captures
        if number >= rows:
            return self._operand(number - rows, 0, _STILL)
        operand = scan.captures + number
        if number >= scan.carries:
            start, by = self._along(scan.given[number], step)
            return self._operand(operand, start, (by, by))
        if not step:
            return self._operand(operand, 0, _STILL)
        if number in scan.stacked:
            # The row that the step before wrote.
            return self._row(scan.stacked[number], step - 1)
        room = scan.room(number)
        return Scratch(scan.between[number]), 0, (room, -room)

    def _operand(self, number: int, start: Any, move: Move) -> tuple[Any, Any, Move]:
        view = self.scan.inputs[number].view
        return Input(number), view.offset * view.dtype.itemsize + start, move

    def _row(self, stack: int, step: int) -> tuple[Any, Any, Move]:
        start, by = self._along(self.scan.specs[self.scan.carries + stack].nbytes, step)
        return Output(self.scan.carries + stack), start, (by, by)

    def _along(self, nbytes: Any, step: int) -> tuple[Any, Any]:
        """Return the byte offset of a step's row in its stack, and the bytes between steps."""
        if self.scan.reverse:
            return (self.scan.length - 1 - step) * nbytes, -nbytes
        return step * nbytes, nbytes
