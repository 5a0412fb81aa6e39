"""OpTable: the ready base for simple devices.

A subclass gives a table, op name to function, and memory; graphs run op by op, temporaries are
freed at their last use, and everything a plan needs is known before it runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calor.backends.protocol import Backend, Buffer, Claim
from calor.graph.graph import Graph
from calor.specs import Spec

Function = Callable[..., Any]


class OpTable(Backend):
    """A backend whose graphs run one op after another.

    A subclass provides ``table`` and the four conversions between buffers and the values that its
    functions compute with (for NumPy both are arrays).
    """

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
    def own(self, index: int, value: Any, taken: Sequence[Any]) -> Any:
        """Return the value in memory of its own: shared with nothing in ``taken``."""

    @abstractmethod
    def leave(self, index: int, value: Any, spec: Spec, into: Buffer | None) -> Buffer:
        """Turn an owned value into a buffer, or write it into ``into`` and return that."""

    def claim(self, index: int, graph: Graph) -> Claim:
        """Take every node whose op is in the table and whose dtypes the device has."""
        table, info = self.table(index), self.info(index)
        reasons: dict[int, str] = {}
        for number, node in enumerate(graph.nodes):
            if node.op.name not in table:
                reasons[number] = "not in the device's op table"
                continue
            for value in (*node.inputs, *node.outputs):
                state = info.supports(node.op.name, graph.specs[value].dtype)
                if not state:
                    reasons[number] = f"{graph.specs[value].dtype.name} is {state}"
                    break
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def compile(self, index: int, graph: Graph) -> OpTableExecutable:
        """Prepare the list of calls."""
        return OpTableExecutable(self, index, graph)


class OpTableExecutable:
    """A graph as a list of (function, operand slots, result slots, slots to free)."""

    def __init__(self, backend: OpTable, index: int, graph: Graph) -> None:
        self.backend = backend
        self.index = index
        self.graph = graph
        table = backend.table(index)
        self.steps = [
            (table[node.op.name], node.inputs, dict(node.attributes), node.outputs, ends)
            for node, ends in zip(graph.nodes, graph.last_uses(), strict=True)
        ]
        self.required_bytes = peak_bytes(graph)

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Buffer]:
        """Run op by op; nothing is written in place before every output is computed."""
        backend, index, graph = self.backend, self.index, self.graph
        backend.reserve(index, self.required_bytes)
        specs = graph.specs
        values: list[Any] = [
            backend.enter(index, given, specs[i]) for i, given in enumerate(inputs)
        ]
        values.extend([None] * (len(specs) - len(values)))
        for function, operands, attributes, results, ends in self.steps:
            out = function(*[values[i] for i in operands], **attributes)
            if len(results) == 1:
                values[results[0]] = out[0] if type(out) is tuple else out
            else:
                for slot, value in zip(results, out, strict=True):
                    values[slot] = value
            for slot in ends:
                values[slot] = None
        # Inputs and outputs never share memory; all of it is reserved before the first write.
        taken = [values[i] for i in graph.inputs]
        for number in graph.outputs:
            taken.append(backend.own(index, values[number], taken))
        owned = taken[len(graph.inputs) :]
        targets = into if into is not None else [None] * len(owned)
        fresh = [
            None if target is not None else backend.leave(index, value, specs[number], None)
            for value, number, target in zip(owned, graph.outputs, targets, strict=True)
        ]
        return [
            made if made is not None else backend.leave(index, value, specs[number], target)
            for made, value, number, target in zip(
                fresh, owned, graph.outputs, targets, strict=True
            )
        ]


def peak_bytes(graph: Graph) -> int:
    """Return the most bytes that values computed by the graph occupy at once."""
    in_use = peak = 0
    for node, ends in zip(graph.nodes, graph.last_uses(), strict=True):
        in_use += sum(graph.specs[o].nbytes for o in node.outputs)
        peak = max(peak, in_use)
        in_use -= sum(graph.specs[v].nbytes for v in ends)
    return peak
