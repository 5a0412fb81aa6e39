"""Control flow whose bodies no single member takes: the router steps through it itself.

A branch or a body is a program of the router like any other, cut between its members. The host
reads the predicate of a branch or the condition of a loop, and counts the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from calor.backends.device import Device
from calor.backends.protocol import Executable
from calor.compiling.plans import plan_for
from calor.dtypes import bool_, int64
from calor.graph.graph import Builder, Graph, Node
from calor.ops import movement
from calor.specs import Spec, spec
from calor_router.buffer import RoutedBuffer

FLOWS: Final = frozenset(("cond", "while_loop", "scan"))
# So many rows are joined at a time.
_JOINED: Final = 64

Values = Sequence[Any]


def graphs_of(graph: Graph, node: Node) -> Iterator[Graph]:
    """Yield the programs that a router needs for a node of control flow.

    Parameters
    ----------
    graph : Graph
        The graph of the node.
    node : Node
        A node of one of the operations in `FLOWS`.

    Yields
    ------
    Graph
        The programs.
    """
    found = node.attributes
    if node.op.name == "cond":
        yield from (found["then"], found["otherwise"])
    elif node.op.name == "while_loop":
        yield from (found["condition"], found["body"])
    elif found["length"]:
        yield _step(graph, node)
        for known in _rows(graph, node):
            yield _joining([known] * min(found["length"], _JOINED))


class Flow:
    """A node of control flow, ready to run.

    Parameters
    ----------
    device : Device
        The router.
    graph : Graph
        The graph of the node.
    node : Node
        The node.
    """

    def __init__(self, device: Device, graph: Graph, node: Node) -> None:
        self.device = device
        self.node = node
        self._graph = graph
        self._programs = [self._compiled(one) for one in graphs_of(graph, node)]
        self.required_bytes = sum(program.required_bytes for program in self._programs)

    def run(self, given: Values) -> list[RoutedBuffer]:
        """Return the results for operands, each in memory of its own.

        Parameters
        ----------
        given : sequence
            Buffers of the router, or host numbers.

        Returns
        -------
        list of RoutedBuffer
            The results.
        """
        runs: dict[str, Callable[[Values], Values]] = {
            "cond": self._cond,
            "while_loop": self._while,
            "scan": self._scan,
        }
        backend, specs = self.device.backend, self._graph.specs
        # Bodies take buffers, where the program may have numbers of the host.
        given = [
            value
            if isinstance(value, RoutedBuffer)
            else backend.upload(0, np.asarray(value, specs[v].dtype.numpy))
            for v, value in zip(self.node.inputs, given, strict=True)
        ]
        made = runs[self.node.op.name](given)
        taken = {id(value) for value in given}
        found: list[RoutedBuffer] = []
        for value, number in zip(made, self.node.outputs, strict=True):
            if not isinstance(value, RoutedBuffer):
                value = backend.upload(0, np.asarray(value, specs[number].dtype.numpy))
            elif id(value) in taken:
                value = backend.copy(0, value, specs[number], 0)
            taken.add(id(value))
            found.append(value)
        return found

    def _cond(self, given: Values) -> Values:
        predicate, *operands = given
        then, otherwise = self._programs
        return (then if self._holds(predicate) else otherwise)(operands)

    def _while(self, given: Values) -> Values:
        first, second = self.node.attributes["captures"]
        condition, body = self._programs
        held, captured = given[:first], given[first : first + second]
        carry = given[first + second :]
        while self._holds(condition([*carry, *held])[0]):
            carry = body([*carry, *captured])
        return carry

    def _scan(self, given: Values) -> Values:
        found = self.node.attributes
        captures, carries, length = found["captures"], found["carries"], found["length"]
        held, carry = given[:captures], [*given[captures : captures + carries]]
        rest = given[captures + carries :]
        specs = [self._graph.specs[v] for v in self.node.inputs[captures + carries :]]
        ranks = dict.fromkeys(s.ndim for s in specs)
        rows: list[list[Any]] = [[None] * length for _ in _rows(self._graph, self.node)]
        for i in reversed(range(length)) if found["reverse"] else range(length):
            starts = [np.array((i, *[0] * (n - 1)), np.int64) for n in ranks]
            made = self._programs[0]([*carry, *rest, *held, *starts])
            carry = made[:carries]
            for kept, row in zip(rows, made[carries:], strict=True):
                kept[i] = row
        stacked = [
            self._joined(known, kept)
            for known, kept in zip(_rows(self._graph, self.node), rows, strict=True)
        ]
        return [*carry, *stacked]

    def _holds(self, value: Any) -> bool:
        if not isinstance(value, RoutedBuffer):
            return bool(value)
        return bool(self.device.backend.download(0, value, spec((), bool_)))

    def _joined(self, known: Spec, rows: list[Any]) -> Any:
        """Return rows of one spec as one value."""
        if not rows:
            return np.empty((0, *known.shape[1:]), known.dtype.numpy)
        sizes = [known.shape[0]] * len(rows)
        while len(rows) > 1:
            parts = range(0, len(rows), _JOINED)
            made = []
            for start in parts:
                counts = sizes[start : start + _JOINED]
                specs = [spec((n, *known.shape[1:]), known.dtype) for n in counts]
                made.append(self._compiled(_joining(specs))(rows[start : start + _JOINED])[0])
            rows, sizes = made, [sum(sizes[s : s + _JOINED]) for s in parts]
        return rows[0]

    def _compiled(self, graph: Graph) -> Executable:
        return plan_for(self.device, ("flow", graph.key), lambda: graph, jit=True)


def _rows(graph: Graph, node: Node) -> list[Spec]:
    """Return the specs of what a step of a scan adds to each stacked result."""
    carries = node.attributes["carries"]
    stacked = (graph.specs[o] for o in node.outputs[carries:])
    return [spec((1, *s.shape[1:]), s.dtype) for s in stacked]


def _step(graph: Graph, node: Node) -> Graph:
    """Return a step of a scan: of carry, whole xs, captures and the number of the step.

    It returns the carry, and the rows of the stacked results, each with an axis of length 1.
    """
    found = node.attributes
    captures, carries, body = found["captures"], found["carries"], found["body"]
    given = [graph.specs[v] for v in node.inputs]
    held, carry = given[:captures], given[captures : captures + carries]
    rest = given[captures + carries :]
    builder = Builder()
    carried = [builder.input(s) for s in carry]
    whole = [builder.input(s) for s in rest]
    captured = [builder.input(s) for s in held]
    starts = {
        n: builder.input(spec((n,), int64), True) for n in dict.fromkeys(s.ndim for s in rest)
    }
    rows = []
    for number, known in zip(whole, rest, strict=True):
        sizes = (1, *known.shape[1:])
        (row,) = builder.add(movement.dynamic_slice, (number, starts[known.ndim]), {"sizes": sizes})
        (flat,) = builder.add(movement.reshape, (row,), {"shape": known.shape[1:]})
        rows.append(flat)
    made = builder.inline(body, [*carried, *rows, *captured])
    stacked = [*made[carries:], *(carried if found["keep"] else ())]
    longer = [
        builder.add(movement.reshape, (v,), {"shape": (1, *builder.specs[v].shape)})[0]
        for v in stacked
    ]
    return builder.build([*made[:carries], *longer])


def _joining(specs: Sequence[Spec]) -> Graph:
    builder = Builder()
    numbers = [builder.input(s) for s in specs]
    if len(numbers) == 1:
        return builder.build(numbers)
    return builder.build(builder.add(movement.concat, numbers, {"axis": 0}))
