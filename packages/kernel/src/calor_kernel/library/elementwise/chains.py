"""Chains of elementwise ops as one launch: what a fuser asks of the family, and its fuser.

Requirements: a chain gives the bits that its ops give one by one, so that a plan may be fused or
not; movement between the ops costs nothing, as it is pushed to the operands, whose views it
changes; a value that something else reads too is written beside the last one; nothing is computed
many times that would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from calor.dtypes import DType
from calor.graph.graph import Graph, Node
from calor.specs import Spec
from calor_kernel.contract.cost import ceilings_of, moved
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.redirection import redirected

CHAIN: Final = "elementwise_chain"
# What a chain may have at most: registers and parameters are not endless.
_OPERANDS: Final = 16
_RESULTS: Final = 6
_WEIGHT: Final = 400
# A value is computed again for each place that it is spread to, where it is as cheap as that.
_CHEAP: Final = 8
# Beyond so many nodes a chain has one result: looking for ways out and back would take long.
_LARGE: Final = 4000


@dataclass(frozen=True, slots=True)
class Move:
    """A movement op on the way from an operand to where the chain computes."""

    op: str
    attributes: tuple[tuple[str, Any], ...]
    result: Spec

    def apply(self, view: View) -> View | None:
        """Return the view moved, None where strides cannot say it."""
        return view_of(self.op, view, dict(self.attributes), self.result)


Path = tuple[Move, ...]


def along(path: Path, view: View) -> View | None:
    """Return a view at the end of a path."""
    found: View | None = view
    for move in path:
        found = None if found is None else move.apply(found)
    return found


@lowering(CHAIN, strided=True)
def lower_chain(request: Request) -> Sequence[Work] | Refusal:
    """Lower an ``expression`` of ``operands``: pairs of an input's number and a path."""
    expression: Expression = request.attributes["expression"]
    operands: tuple[tuple[int, Path], ...] = request.attributes["operands"]
    views = []
    for number, path in operands:
        view = along(path, request.inputs[number])
        if view is None:
            return Refusal(f"operand {number} has no strides on its way")
        views.append(view)
    (work,) = lower_expression(expression, views, request.outputs, request.info)
    places: dict[Argument, Argument] = {Input(k): Input(n) for k, (n, _) in enumerate(operands)}
    places |= {Output(k): Output(k) for k in range(len(request.outputs))}
    launches = tuple(redirected(launch, places) for launch in work.launches)
    return [Work(launches, in_place=_in_place(operands, views, request))]


def _in_place(
    operands: Sequence[tuple[int, Path]], views: Sequence[View], request: Request
) -> tuple[tuple[int, int], ...]:
    """Return the inputs that are read once, each element where its result is written.

    A single element is read by all units of a cube, of which one writes.
    """
    alone = request.info.max_units == 1
    numbers = [n for n, _ in operands]
    return tuple(
        (n, k)
        for (n, path), v in zip(operands, views, strict=True)
        for k, s in enumerate(request.outputs)
        if not path
        and (alone or s.size != 1)
        and numbers.count(n) == 1
        and v.strides == row_major(s.shape)
        and v.dtype.itemsize == s.dtype.itemsize
    )


class ElementwiseFuser(Fuser):
    """Finds chains of elementwise ops, with the movement between them."""

    name = "elementwise"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return chains that do not overlap, the last nodes' first."""
        search = _Search(graph, info)
        taken: set[int] = set()
        for number in reversed(range(len(graph.nodes))):
            if number in taken or not search.elementwise(number):
                continue
            chain = search.grow(number, taken)
            if chain is not None:
                taken.update(chain.nodes)
                yield chain.group(search)


@dataclass(slots=True)
class _Chain:
    """Nodes that are taken so far.

    ``places``: for each node that computes, the path from its result to where the chain computes;
    ``nodes``: these and the movement between; ``results``: the nodes whose values are written.
    """

    root: int
    places: dict[int, Path] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    results: set[int] = field(default_factory=set)
    weight: int = 0

    def group(self, search: _Search) -> Group:
        """Return the chain as a group of the planner."""
        graph = search.graph
        operands: dict[tuple[int, Path], int] = {}
        order = sorted(self.places)
        for number in order:
            for value in graph.nodes[number].inputs:
                key = self.operand(search, number, value)
                if key is not None:
                    operands.setdefault(key, len(operands))
        inputs = tuple(sorted({value for value, _ in operands}))
        made: dict[int, int] = {}
        steps: list[Step] = []
        for number in order:
            node = graph.nodes[number]
            read = [
                operands[key]
                if (key := self.operand(search, number, v)) is not None
                else made[search.behind(v)[0]]
                for v in node.inputs
            ]
            made[number] = len(operands) + len(steps)
            items = tuple(sorted(node.attributes.items()))
            steps.append(Step(node.op.name, tuple(read), graph.specs[node.outputs[0]].dtype, items))
        written = sorted(self.results)
        dtypes = tuple(graph.specs[v].dtype for v, _ in operands)
        expression = Expression(dtypes, tuple(steps), tuple(made[n] for n in written))
        outputs = tuple(graph.nodes[n].outputs[0] for n in written)
        cost = search.cost(inputs, outputs, self.places)
        pairs = tuple((inputs.index(v), path) for v, path in operands)
        attributes = {"expression": expression, "operands": pairs}
        return Group(tuple(sorted(self.nodes)), CHAIN, inputs, outputs, cost, attributes)

    def operand(self, search: _Search, number: int, value: int) -> tuple[int, Path] | None:
        """Return the operand that a node reads, None for what the chain computes."""
        source, path, _ = search.behind(value)
        full = (*path, *self.places[number])
        if source in self.places and self.places[source] == full:
            return None
        return value, self.places[number]


class _Search:
    """A graph with what growing chains asks of it."""

    def __init__(self, graph: Graph, info: DeviceInfo) -> None:
        self.graph = graph
        self.info = info
        self.ceilings = ceilings_of(info)
        self.maker = {o: i for i, n in enumerate(graph.nodes) for o in n.outputs}
        self.readers: dict[int, list[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.inputs:
                self.readers.setdefault(value, []).append(i)
        self.wanted = frozenset(graph.outputs)
        self._above: list[int] | None = None
        # Each is asked once for every node that a chain is tried with.
        self._behind: dict[int, tuple[int, Path, tuple[int, ...]]] = {}
        self._elementwise: dict[int, bool] = {}

    def elementwise(self, number: int) -> bool:
        """Return whether a node computes element by element."""
        found = self._elementwise.get(number)
        if found is None:
            found = self._elementwise[number] = self._computes(number)
        return found

    def _computes(self, number: int) -> bool:
        node = self.graph.nodes[number]
        if node.op.name not in ROWS or not self.graph.specs[node.outputs[0]].size:
            return False
        # What only says where elements are launches nothing.
        return len(node.inputs) != 1 or self._move(node) is None

    def _move(self, node: Node) -> Move | None:
        """Return a node as a movement, None where it is none for a dense operand."""
        if node.op.name not in MOVEMENTS or len(node.inputs) != 1:
            return None
        result = self.graph.specs[node.outputs[0]]
        move = Move(node.op.name, tuple(sorted(node.attributes.items())), result)
        return None if move.apply(View.dense(self.graph.specs[node.inputs[0]])) is None else move

    def behind(self, value: int) -> tuple[int, Path, tuple[int, ...]]:
        """Return the node that computes a value, −1 for none, and the movement between."""
        found = self._behind.get(value)
        if found is None:
            found = self._behind[value] = self._walk(value)
        return found

    def _walk(self, value: int) -> tuple[int, Path, tuple[int, ...]]:
        path: Path = ()
        between: tuple[int, ...] = ()
        while True:
            number = self.maker.get(value, -1)
            if number < 0 or self.elementwise(number):
                return number, path, between
            move = self._move(self.graph.nodes[number])
            # A view of other bits or of a part is no way on which the numbers stay what they are.
            if move is None or move.result.dtype is not self._dtype(number):
                return -1, path, between
            path, between = (move, *path), (*between, number)
            value = self.graph.nodes[number].inputs[0]

    def _dtype(self, number: int) -> DType:
        return self.graph.specs[self.graph.nodes[number].inputs[0]].dtype

    def grow(self, root: int, taken: set[int]) -> _Chain | None:
        """Return the chain that ends at a node, None where it is the node alone."""
        chain = _Chain(root)
        self._add(chain, root, (), ())
        waiting = [root]
        while waiting:
            number = waiting.pop(0)
            for value in self.graph.nodes[number].inputs:
                source, path, between = self.behind(value)
                if source < 0 or source in taken or source in chain.places:
                    continue
                full = (*path, *chain.places[number])
                if self._fits(chain, source, full, between):
                    waiting.append(source)
        return chain if len(chain.places) > 1 and chain.results else None

    def _add(self, chain: _Chain, number: int, path: Path, between: Sequence[int]) -> None:
        chain.places[number] = path
        chain.nodes |= {number, *between}
        chain.weight += ROWS[self.graph.nodes[number].op.name].weight
        chain.results = {n for n in chain.places if self._outside(chain, n)}

    def _fits(self, chain: _Chain, number: int, path: Path, between: tuple[int, ...]) -> bool:
        """Take a node into the chain where that is right and pays, and say whether."""
        root = self.graph.specs[self.graph.nodes[chain.root].outputs[0]]
        spec = self.graph.specs[self.graph.nodes[number].outputs[0]]
        weight = ROWS[self.graph.nodes[number].op.name].weight
        if chain.weight + weight > _WEIGHT:
            return False
        if prod(spec.shape) < root.size and weight > _CHEAP:
            return False
        if self.view(number, path) is None:
            return False
        tried = _Chain(
            chain.root, dict(chain.places), set(chain.nodes), set(chain.results), chain.weight
        )
        self._add(tried, number, path, between)
        # What others read must be where the chain writes, and no way may lead out and back.
        if any(tried.places[n] for n in tried.results) or len(tried.results) > _RESULTS:
            return False
        inputs = self._inputs(tried)
        if len(inputs) > _OPERANDS or self._cyclic(tried, inputs):
            return False
        chain.places, chain.nodes = tried.places, tried.nodes
        chain.results, chain.weight = tried.results, tried.weight
        return True

    def view(self, number: int, path: Path) -> View | None:
        """Return where a node's dense result would be read, as a test of the path."""
        return along(path, View.dense(self.graph.specs[self.graph.nodes[number].outputs[0]]))

    def _inputs(self, chain: _Chain) -> set[tuple[int, Path]]:
        keys = (chain.operand(self, n, v) for n in chain.places for v in self.graph.nodes[n].inputs)
        return {key for key in keys if key is not None}

    def _outside(self, chain: _Chain, number: int) -> bool:
        """Return whether anything but the chain reads a node's value."""
        waiting = [self.graph.nodes[number].outputs[0]]
        while waiting:
            value = waiting.pop()
            if value in self.wanted:
                return True
            for reader in self.readers.get(value, ()):
                if reader in chain.places:
                    if chain.operand(self, reader, value) is not None:
                        return True
                elif reader in chain.nodes:
                    waiting.append(self.graph.nodes[reader].outputs[0])
                else:
                    return True
        return False

    def _cyclic(self, chain: _Chain, inputs: set[tuple[int, Path]]) -> bool:
        """Return whether a way leads from the chain out of it and back."""
        if any(self.behind(value)[0] in chain.places for value, _ in inputs):
            return True
        if len(chain.results) == 1:
            return False
        if len(self.graph.nodes) > _LARGE:
            return True
        mine = sum(1 << n for n in chain.nodes)
        makers = {self.maker.get(value, -1) for value, _ in inputs}
        return any(self.above[n] & mine for n in makers - {-1})

    @property
    def above(self) -> list[int]:
        """Per node the nodes that it depends on, as bits."""
        if self._above is None:
            self._above = []
            for node in self.graph.nodes:
                bits = 0
                for value in node.inputs:
                    number = self.maker.get(value)
                    if number is not None:
                        bits |= self._above[number] | 1 << number
                self._above.append(bits)
        return self._above

    def cost(self, inputs: Sequence[int], outputs: Sequence[int], nodes: Iterable[int]) -> float:
        """Return the seconds of a chain, counted as the planner counts its nodes."""
        graph = self.graph
        flops = sum(graph.specs[graph.nodes[n].outputs[0]].size for n in nodes)
        return self.ceilings.seconds(moved(graph, inputs, outputs), flops)
