"""Chains of elementwise ops as one launch: their lowering, and the fuser that finds them.

Requirements: a chain gives the bits of its single ops, so that fusion is optional. Movement between
the ops costs nothing: it is pushed to the operands and changes their views. A value that other
nodes read too is written beside the last one. No value is recomputed if that costs more than it
saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
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
    Candidates,
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.operations import ROWS, Expression, Step
from calor_kernel.library.redirection import redirected

CHAIN: Final = "elementwise_chain"
# Maximum of operands of a chain, since registers and parameters are limited.
_OPERANDS: Final = 16
_RESULTS: Final = 6
_WEIGHT: Final = 400
# Maximum cost of a value that is recomputed for each element of a broadcast.
_CHEAP: Final = 8
# A chain of more nodes has one result, since the search for cycles would take long.
_LARGE: Final = 4000


@dataclass(frozen=True, slots=True)
class Move:
    """A movement op between an operand and the chain's computation."""

    op: str
    attributes: tuple[tuple[str, Any], ...]
    result: Spec

    def apply(self, view: View) -> View | None:
        """Return the moved view, None if strides cannot express it."""
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
    """Lower an ``expression`` of ``operands``: pairs of an input's index and a path."""
    expression: Expression = request.attributes["expression"]
    operands: tuple[tuple[int, Path], ...] = request.attributes["operands"]
    views = []
    for number, path in operands:
        view = along(path, request.inputs[number])
        if view is None:
            return Refusal(f"operand {number} has no strides on its way")
        views.append(view)
    found = lower_expression(expression, views, request.outputs, request.info)
    places: dict[Argument, Argument] = {Input(k): Input(n) for k, (n, _) in enumerate(operands)}
    places |= {Output(k): Output(k) for k in range(len(request.outputs))}
    launches = tuple(redirected(launch, places) for launch in found[0].launches)
    work = replace(found[0], launches=launches, in_place=_in_place(operands, views, request))
    return Candidates.of([work], found.dropped)


def _in_place(
    operands: Sequence[tuple[int, Path]], views: Sequence[View], request: Request
) -> tuple[tuple[int, int], ...]:
    """Return the inputs that are read once, each element where its result is written.

    A single element is excluded: all units of a cube read it, and one of them writes.
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
    """Finds chains of elementwise ops and the movement between them."""

    name = "elementwise"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return disjoint chains, those of the last nodes first."""
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
    """The chain so far.

    ``places``: for each computing node, the path from its result to the chain's computation;
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
        """Return the operand that a node reads, None for a value of the chain."""
        source, path, _ = search.behind(value)
        full = (*path, *self.places[number])
        if source in self.places and self.places[source] == full:
            return None
        return value, self.places[number]


class _Search:
    """A graph, with the queries of growing chains."""

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
        # Caches: each is asked for every node that may join a chain.
        self._behind: dict[int, tuple[int, Path, tuple[int, ...]]] = {}
        self._elementwise: dict[int, bool] = {}

    def elementwise(self, number: int) -> bool:
        """Return whether a node is elementwise."""
        found = self._elementwise.get(number)
        if found is None:
            found = self._elementwise[number] = self._computes(number)
        return found

    def _computes(self, number: int) -> bool:
        node = self.graph.nodes[number]
        if node.op.name not in ROWS or not self.graph.specs[node.outputs[0]].size:
            return False
        # A view needs no launch.
        return len(node.inputs) != 1 or self._move(node) is None

    def _move(self, node: Node) -> Move | None:
        """Return a node as a movement, None if it is none for a dense operand."""
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
            # A view of other bits or of a part changes the numbers, so it is no path.
            if move is None or move.result.dtype is not self._dtype(number):
                return -1, path, between
            path, between = (move, *path), (*between, number)
            value = self.graph.nodes[number].inputs[0]

    def _dtype(self, number: int) -> DType:
        return self.graph.specs[self.graph.nodes[number].inputs[0]].dtype

    def grow(self, root: int, taken: set[int]) -> _Chain | None:
        """Return the chain that ends at a node, None if it has one node."""
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
        """Add a node to the chain if that is correct and pays; return whether it was added."""
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
        # Values that others read must have the chain's shape, and the chain must stay convex.
        if any(tried.places[n] for n in tried.results) or len(tried.results) > _RESULTS:
            return False
        inputs = self._inputs(tried)
        if len(inputs) > _OPERANDS or self._cyclic(tried, inputs):
            return False
        chain.places, chain.nodes = tried.places, tried.nodes
        chain.results, chain.weight = tried.results, tried.weight
        return True

    def view(self, number: int, path: Path) -> View | None:
        """Return the view of a node's dense result at the end of a path, as a test of the path."""
        return along(path, View.dense(self.graph.specs[self.graph.nodes[number].outputs[0]]))

    def _inputs(self, chain: _Chain) -> set[tuple[int, Path]]:
        keys = (chain.operand(self, n, v) for n in chain.places for v in self.graph.nodes[n].inputs)
        return {key for key in keys if key is not None}

    def _outside(self, chain: _Chain, number: int) -> bool:
        """Return whether a node outside the chain reads a node's value."""
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
        """Return whether a path leads from the chain out of it and back."""
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
        """For each node the nodes that it depends on, as bits."""
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
        """Return the estimated seconds of a chain, with the planner's cost of nodes."""
        graph = self.graph
        flops = sum(graph.specs[graph.nodes[n].outputs[0]].size for n in nodes)
        return self.ceilings.seconds(moved(graph, inputs, outputs), flops)
