"""The parts of a plan: pieces of memory, values as views of them, and ordered tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.work import Launch, View, Work

Kind = Literal["input", "host", "constant", "made", "kept"]
# The maximum number of ops that an error names if any of a graph's may be the cause.
_NAMED: Final = 6


@dataclass(eq=False, slots=True)
class Piece:
    """Memory that holds values of a plan; compared by identity.

    ``number``: the number of the graph's input, or the byte offset in the block of host numbers, of
    constants or of kept memory. A made piece is the result of a task, or its scratch memory.
    """

    kind: Kind
    nbytes: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Value:
    """A value: a view of a piece of memory."""

    piece: Piece
    view: View

    @property
    def whole(self) -> bool:
        """Whether the value covers its piece, in order."""
        view = self.view
        size = view.size * view.dtype.itemsize
        return view.offset == 0 and view.is_dense and size == self.piece.nbytes


@dataclass(eq=False, slots=True)
class Task:
    """A unit of work: candidates of one op, the input values, the result pieces."""

    op: str
    works: Sequence[Work]
    inputs: tuple[Value, ...]
    outputs: tuple[Piece, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[Spec, ...] = ()


@dataclass(eq=False, slots=True)
class Draft:
    """A graph as ordered tasks, before the memory layout.

    ``constants``: the bytes of all constants. ``hosts``: for each host number of the graph, its
    input, spec and place in the block of host numbers. ``outputs``: the made pieces that are the
    graph's results, each whole.
    """

    graph: Graph
    tasks: list[Task]
    outputs: list[Piece]
    constants: bytes
    hosts: list[tuple[int, Spec, int]]
    host_bytes: int

    def status(self, works: Sequence[Work], align: int) -> dict[int, int]:
        """Return the byte offset of each fallible task's status word, behind the host numbers."""
        failing = [n for n, work in enumerate(works) if work.failures]
        return {n: self.host_bytes + i * align for i, n in enumerate(failing)}

    @property
    def named(self) -> str:
        """The op that the graph computes, or the first of several."""
        names = list(dict.fromkeys(task.op for task in self.tasks))
        if len(names) < 2:
            return "".join(names)
        return f"one of {', '.join(names[:_NAMED])}{' …' * (len(names) > _NAMED)}"


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch of a recording, with its task."""

    task: int
    op: str
    launch: Launch
