"""The parts of a plan: pieces of memory, values as views of them, ordered tasks, host numbers.

Requirements: a learning rate and a step counter cost a microsecond per call, not ten.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Launch, Line, View, Work, row_major

Kind = Literal["input", "host", "constant", "made", "kept"]
# The maximum number of ops that an error names if any of a graph's may be the cause.
_NAMED: Final = 6
_INTEGERS: Final = "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
# The formats of dtypes in a struct.
_CODES: Final = dict(zip(("bool", *_INTEGERS, "float64"), "?bBhHiIqQd", strict=True))
Depends = tuple[frozenset[int], frozenset[int]]


@dataclass(eq=False, slots=True)
class Piece:
    """Memory that holds values of a plan; compared by identity.

    ``number``: the number of the graph's input, or the byte offset in the block of host numbers, of
    constants or of kept memory. A made piece is the result of a task, or its scratch memory.
    ``line``: the elements of a line, and those from line to line; (0, 0) if it is dense.
    """

    kind: Kind
    nbytes: int
    number: int = 0
    line: Line = (0, 0)


@dataclass(frozen=True, slots=True)
class Value:
    """A value: a view of a piece of memory."""

    piece: Piece
    view: View

    @property
    def whole(self) -> bool:
        """Whether the value covers its piece, in order."""
        view, (length, pitch) = self.view, self.piece.line
        size = view.size * view.dtype.itemsize
        if not length:
            return view.offset == 0 and view.is_dense and size == self.piece.nbytes
        dense = View(view.shape, row_major(view.shape), view.dtype)
        return size * pitch == self.piece.nbytes * length and view == dense.pitched(length, pitch)

    @property
    def extent(self) -> tuple[int, int]:
        """The bytes of the piece where the value begins and ends; all of them if sizes vary."""
        view = self.view
        if any(map(is_size, (view.offset, *view.shape, *view.strides))):
            return 0, self.piece.nbytes
        steps = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
        first = view.offset + sum(min(step, 0) for step in steps)
        last = view.offset + sum(max(step, 0) for step in steps)
        return first * view.dtype.itemsize, (last + 1) * view.dtype.itemsize


@dataclass(eq=False, slots=True)
class Task:
    """A unit of work: candidates of one op, the input values, the result pieces.

    ``covers``: the ops of the graph that a group's task computes, and ``reads``: the places of the
    inputs that each of its results depends on, () if each may depend on all. ``members``: the tasks
    that this one computes side by side. ``pitches``: those of the results, () if all are dense.
    """

    op: str
    works: Sequence[Work]
    inputs: tuple[Value, ...]
    outputs: tuple[Piece, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[Spec, ...] = ()
    covers: tuple[str, ...] = ()
    members: tuple[Task, ...] = ()
    pitches: tuple[Line, ...] = ()
    reads: tuple[frozenset[int], ...] = ()


@dataclass(eq=False, slots=True)
class Draft:
    """A graph as ordered tasks, before the memory layout.

    ``constants``: the bytes of all constants. ``hosts``: for each host number of the graph, its
    input, spec and place in the block of host numbers. ``outputs``: the made pieces that are the
    graph's results, each whole. ``end``: where the constants end whose bytes are known later; None
    if there are no such constants.
    """

    graph: Graph
    tasks: list[Task]
    outputs: list[Piece]
    constants: bytes
    hosts: list[tuple[int, Spec, int]]
    host_bytes: int
    end: Any = None

    def behind(self, align: int) -> Any:
        """Return the byte offset of a plan's flags, which follow all constants."""
        if self.end is not None:
            return self.end
        return -(-len(self.constants) // align) * align

    def status(self, works: Sequence[Work], align: int) -> dict[int, int]:
        """Return the byte offset of each fallible task's status word, behind the host numbers."""
        failing = [n for n, work in enumerate(works) if work.failures]
        return {n: self.host_bytes + i * align for i, n in enumerate(failing)}

    def dependences(self, failing: Iterable[int], stopped: Collection[int] = ()) -> list[Depends]:
        """Return, for each output, the inputs and the tasks of ``failing`` that it depends on.

        Tasks that are ``stopped`` if one of these fails depend on all.
        """
        may_fail = frozenset(failing)
        known: dict[Piece, Depends] = {}
        halted = set[Piece]()
        parts = ((n, one) for n, task in enumerate(self.tasks) for one in task.members or (task,))
        for number, task in parts:
            # Of the members of a launch, those fail that have failures.
            sound = task is not self.tasks[number] and not any(w.failures for w in task.works)
            fails = frozenset() if sound else {number} & may_fail
            fails = may_fail if number in stopped else fails
            every = [frozenset(range(len(task.inputs)))] * len(task.outputs)
            for piece, places in zip(task.outputs, task.reads or every, strict=True):
                inputs, failures = set[int](), {*fails}
                for value in (task.inputs[k] for k in places):
                    if value.piece.kind == "input":
                        inputs.add(value.piece.number)
                    elif value.piece in known:
                        inputs |= known[value.piece][0]
                        failures |= known[value.piece][1]
                known[piece] = frozenset(inputs), frozenset(failures)
            if number in stopped or any(v.piece in halted for v in task.inputs):
                halted.update(task.outputs)
        reached = self._reached(may_fail) if may_fail else {}
        found = []
        for piece, number in zip(self.outputs, self.graph.outputs, strict=True):
            read, failures_of = known[piece]
            if may_fail and piece not in halted:
                # A launch computes values that do not depend on each other.
                own = reached[number]
                read = frozenset(i for i in read if own >> i & 1)
                failures_of = failures_of if own >> len(self.graph.inputs) else frozenset()
            found.append((read, failures_of))
        return found

    def _reached(self, failing: Iterable[int]) -> dict[int, int]:
        """Return, as bits, on which inputs each value of the graph depends.

        The bit behind those of the inputs says whether it depends on an op of ``failing`` tasks.
        """
        tasks = [self.tasks[n] for n in failing]
        names = {name for task in tasks for name in (task.op, *task.covers)}
        ops = {node.op.name for node in self.graph.nodes}
        if any(ops.isdisjoint((task.op, *task.covers)) for task in tasks):
            # An op of a loop's body, say: any node may be its.
            names = ops
        found = {number: 1 << i for i, number in enumerate(self.graph.inputs)}
        for node in self.graph.nodes:
            bits = 1 << len(self.graph.inputs) if node.op.name in names else 0
            for value in node.inputs:
                bits |= found[value]
            found.update(dict.fromkeys(node.outputs, bits))
        return found

    @property
    def named(self) -> str:
        """The op that the graph computes, or the first of several."""
        names = list(dict.fromkeys(task.op for task in self.tasks))
        if len(names) < 2:
            return "".join(names)
        return f"one of {', '.join(names[:_NAMED])}{' …' * (len(names) > _NAMED)}"


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch of a recording, with its task; ``source`` is None for a copy to a target."""

    task: int
    op: str
    launch: Launch
    source: Task | None = None


class HostBlock:
    """The layout of a plan's host numbers: input, spec and offset of each, and the total bytes."""

    def __init__(self, hosts: Sequence[tuple[int, Spec, int]], nbytes: int) -> None:
        self.hosts = tuple(hosts)
        self.nbytes = nbytes
        self.numbers = tuple(number for number, _, _ in hosts)
        self._struct = _layout(hosts, nbytes)

    def pack(self, inputs: Sequence[Any]) -> tuple[bytes, Sequence[tuple[int, Any]]]:
        """Return the block's bytes, and the places whose numbers are device buffers."""
        if self._struct is not None:
            try:
                return self._struct.pack(*[inputs[i] for i in self.numbers]), ()
            except (struct.error, TypeError, OverflowError):
                pass  # NumPy converts a number of another type than its dtype.
        block = np.zeros(self.nbytes, np.uint8)
        buffers = []
        for number, known, place in self.hosts:
            given = inputs[number]
            if hasattr(given, "handle"):
                buffers.append((place, given))
                continue
            array = np.asarray(given, known.dtype.numpy)
            block[place : place + known.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        return block.tobytes(), buffers


def _layout(hosts: Sequence[tuple[int, Spec, int]], nbytes: int) -> struct.Struct | None:
    """Return the struct for scalar numbers; None if one is an array or has no struct format."""
    text, end = "=", 0
    for _, known, place in hosts:
        code = _CODES.get(known.dtype.name)
        if code is None or known.shape:
            return None
        text += f"{place - end}x{code}"
        end = place + known.nbytes
    return struct.Struct(f"{text}{nbytes - end}x")
