"""Activations that a gradient writes again, so that they are not stored for it.

Requirements: a layer multiplies what an activation makes of x, and the gradient of its weights
reads that again, while the gradient of the activation reads x. Both wait in memory from the forward
pass to the backward pass. The activation is elementwise in x and cheap, so the launch that reads x
for its gradient writes it once more, beside its own result, and the product reads that. The numbers
are the same. That takes time to read x and to write the activation: so only the largest are written
again, up to a share of what the graph makes, and none if that is little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from calor.graph.graph import Builder, Graph, Node
from calor.ops.base import TABLE
from calor_kernel.contract.movement import MOVEMENTS
from calor_kernel.library.elementwise.operations import ROWS

# The products that read an activation for the gradient of weights.
_PRODUCTS: Final = frozenset(("dot_general", "conv_weight_gradient"))
# A reader is late if so many times the value's bytes are made before it.
_LATE: Final = 16
# A value of a smaller share of another's elements is one of rows or of a channel.
_SMALL: Final = 8
# What is written again has at least so many bytes, and at most a share of those that a graph makes.
_MUCH: Final = 64 << 20
_SHARE: Final = 160


@dataclass
class _Activation:
    """An activation: its node and what it is elementwise in.

    ``late``: the movement nodes and products that read it again. ``gradient``: the late nodes that
    read ``source`` elementwise.
    """

    node: Node
    source: int
    late: list[int] = field(default_factory=list)
    gradient: list[int] = field(default_factory=list)


def rewriting_activations(graph: Graph) -> Graph:
    """Return the graph in which gradients write activations again, or the graph itself."""
    search = _Search(graph)
    found = [one for one in map(search.activation, range(len(graph.nodes))) if one is not None]
    sizes = {one.node.outputs[0]: graph.specs[one.node.outputs[0]].nbytes for one in found}
    left, chosen = search.done[-1] // _SHARE, list[_Activation]()
    # Of equal ones the first wait longest.
    for one in sorted(found, key=lambda a: (-sizes[a.node.outputs[0]], a.node.outputs)):
        if sizes[one.node.outputs[0]] <= left:
            left -= sizes[one.node.outputs[0]]
            chosen.append(one)
    if sum(sizes[one.node.outputs[0]] for one in chosen) < _MUCH:
        return graph
    return _rewritten(graph, chosen)


class _Search:
    """A graph, with the readers of each value and the bytes made before each node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.wanted = frozenset(graph.outputs)
        self.readers: dict[int, list[int]] = {}
        self.makers: dict[int, int] = {}
        for number, node in enumerate(graph.nodes):
            self.makers.update(dict.fromkeys(node.outputs, number))
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(number)
        moving = (node.op.name in MOVEMENTS for node in graph.nodes)
        self.done = [0, *accumulate(
            0 if moves else sum(graph.specs[v].nbytes for v in node.outputs)
            for node, moves in zip(graph.nodes, moving, strict=True)
        )]  # fmt: skip

    def activation(self, number: int) -> _Activation | None:
        """Return a node as an activation that is worth to be written again."""
        node = self.graph.nodes[number]
        if node.op.name not in ROWS or node.op.name == "cast" or self.wanted & {*node.outputs}:
            return None
        (value,), specs = node.outputs, self.graph.specs
        whole = [
            v for v in dict.fromkeys(node.inputs) if specs[v].size * _SMALL > specs[value].size
        ]
        if len(whole) != 1 or whole[0] not in self.makers or specs[whole[0]] != specs[value]:
            return None
        found = _Activation(node, whole[0])
        late = self._late(value, value)
        if not late or any(self.graph.nodes[n].op.name not in _PRODUCTS for n, _ in late):
            return None
        found.late = sorted({n for n, _ in late})
        found.gradient = [
            n
            for n in self.readers[found.source]
            if self._is_late(found.source, n) and self.graph.nodes[n].op.name in ROWS
        ]
        return found if found.gradient else None

    def _late(self, value: int, first: int) -> list[tuple[int, int]]:
        """Return the late readers of a value behind movement, with what they read."""
        found: list[tuple[int, int]] = []
        for number in self.readers.get(value, ()):
            node = self.graph.nodes[number]
            if node.op.name in MOVEMENTS and len(node.inputs) == 1:
                (moved,) = node.outputs
                found += [(number, -1)] if moved in self.wanted else self._late(moved, first)
            elif self._is_late(first, number):
                found.append((number, value))
        return found

    def _is_late(self, value: int, number: int) -> bool:
        size = self.graph.specs[value].nbytes
        return self.done[number] - self.done[self.makers[value] + 1] >= _LATE * size


def _rewritten(graph: Graph, found: list[_Activation]) -> Graph:
    """Return the graph with copies of activations before their late readers."""
    builder, specs = Builder(), graph.specs
    numbers = {i: builder.input(specs[i], i in graph.host) for i in graph.inputs}
    makers = {v: node for node in graph.nodes for v in node.outputs}
    of = {n: one for one in found for n in one.late}
    sources = {n: one.source for one in found for n in one.gradient}
    behind: dict[int, int] = {}
    again: dict[int, int] = {}

    def late(source: int) -> int:
        # A barrier keeps what reads it from the launch that makes it.
        if source not in behind:
            like = specs[source]
            (behind[source],) = builder.add(TABLE["barrier"], [numbers[source]], {}, [like])
        return behind[source]

    def copied(value: int, one: _Activation) -> int:
        node = makers[value]
        if value in again:
            return again[value]
        like = specs[value]
        if node is one.node:
            read = [late(v) if v == one.source else numbers[v] for v in node.inputs]
            (copy,) = builder.add(node.op, read, node.attributes, [like])
            # And one behind it tells fusers that it is a result beside others.
            (again[value],) = builder.add(TABLE["barrier"], [copy], {}, [like])
        else:
            read = [copied(node.inputs[0], one)]
            (again[value],) = builder.add(node.op, read, node.attributes, [like])
        return again[value]

    def path(value: int, one: _Activation) -> bool:
        while value in makers and makers[value] is not one.node:
            node = makers[value]
            if node.op.name not in MOVEMENTS or len(node.inputs) != 1:
                return False
            (value,) = node.inputs
        return value in makers

    for number, node in enumerate(graph.nodes):
        instead: dict[int, int] = {}
        if number in of:
            one = of[number]
            instead = {v: copied(v, one) for v in node.inputs if path(v, one)}
        if number in sources:
            instead[sources[number]] = late(sources[number])
        known = {**numbers, **instead} if instead else numbers
        builder.take(graph, [node], known)
        numbers.update((v, known[v]) for v in node.outputs)
    return builder.build([numbers[o] for o in graph.outputs])
