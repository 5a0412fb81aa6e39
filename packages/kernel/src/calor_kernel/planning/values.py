"""What a plan is made of: pieces of memory, values as views of them, and tasks in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.work import Launch, View, Work

Kind = Literal["input", "host", "constant", "made", "kept"]
# Ops that an error names when it may be any of a graph's.
_NAMED: Final = 6


@dataclass(eq=False, slots=True)
class Piece:
    """Memory that holds values of a plan; used by identity.

    ``number``: which input of the graph it is, or where it begins in the block of host numbers, of
    constants or of what is kept from call to call, in bytes. A made piece is the result of a task,
    or its scratch memory.
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
        """Whether the value is all of its piece, in order."""
        view = self.view
        size = view.size * view.dtype.itemsize
        return view.offset == 0 and view.is_dense and size == self.piece.nbytes


@dataclass(eq=False, slots=True)
class Task:
    """Work to do: candidates of one op, the values it reads, the pieces it makes."""

    op: str
    works: Sequence[Work]
    inputs: tuple[Value, ...]
    outputs: tuple[Piece, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    results: tuple[Spec, ...] = ()


@dataclass(eq=False, slots=True)
class Draft:
    """A graph as tasks in order, before memory is laid out.

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

    @property
    def named(self) -> str:
        """The op that the graph computes, or the first of several."""
        names = list(dict.fromkeys(task.op for task in self.tasks))
        if len(names) < 2:
            return "".join(names)
        return f"one of {', '.join(names[:_NAMED])}{' …' * (len(names) > _NAMED)}"


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch of a recording: the task that it belongs to, and what it is."""

    task: int
    op: str
    launch: Launch
