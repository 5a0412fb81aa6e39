"""Chains of elementwise ops in a graph, and how they grow.

Requirements: no value is recomputed if that costs more than it saves. A chain is one launch: no
path leads out of it and back, and its operands and results are few.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from math import prod
from typing import Final

from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.contract.cost import ceilings_of, moved
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.elementwise.links import Links, once_of_graph
from calor_kernel.library.elementwise.operations import ROWS, Expression, Step
from calor_kernel.library.elementwise.paths import Move, Path, along, move_of

CHAIN: Final = "elementwise_chain"
# Maximum of operands of a chain, since registers and parameters are limited.
_OPERANDS: Final = 16
_RESULTS: Final = 6
_WEIGHT: Final = 400
# Maximum cost of a value that is recomputed for each element of a broadcast, unless all of them
# together take less time than the start of a launch.
_CHEAP: Final = 8
# In a graph of more nodes a chain has one result, since what nodes depend on takes much memory.
_LARGE: Final = 20000


@dataclass(slots=True)
class Chain:
    """The chain so far.

    ``places``: for each computing node, the path from its result to the chain's computation;
    ``nodes``: these and the movement between; ``results``: the nodes whose values are written;
    ``operands``: for each value that is read, with the path of its reader, the node that computes
    it and the path from there.
    """

    root: int
    places: dict[int, Path] = field(default_factory=dict)
    nodes: frozenset[int] = frozenset()
    results: frozenset[int] = frozenset()
    operands: dict[tuple[int, Path], tuple[int, Path]] = field(default_factory=dict)
    weight: int = 0


class ChainSearch(Links):
    """A graph, with the queries of growing chains."""

    def __init__(self, graph: Graph, info: DeviceInfo, units: Sequence[int | Group]) -> None:
        super().__init__(graph, units)
        self.ceilings = ceilings_of(info)
        self.arguments = info.arguments
        # Operations that the device does while a launch starts.
        self.spare = int(info.launch_ns * 1e-9 * self.ceilings.flops)
        self.elementwise = [*map(self._computes, range(len(graph.nodes)))]

    def group(self, chain: Chain) -> Group:
        """Return a chain as a group of the planner."""
        graph = self.graph
        expression, operands = self.expression(chain)
        inputs = tuple(sorted({value for value, _ in operands}))
        outputs = tuple(graph.nodes[n].outputs[0] for n in sorted(chain.results))
        flops = sum(self.result(n).size for n in chain.places)
        cost = self.ceilings.seconds(moved(graph, inputs, outputs), flops)
        pairs = tuple((inputs.index(v), path) for v, path in operands)
        attributes = {"expression": expression, "operands": pairs}
        return Group(tuple(sorted(chain.nodes)), CHAIN, inputs, outputs, cost, attributes)

    def expression(
        self, chain: Chain, first: int | None = None, written: Sequence[int] | None = None
    ) -> tuple[Expression, list[tuple[int, Path]]]:
        """Return what a chain computes, and the values that it reads with their paths.

        ``first``: a node of the chain that the expression does not compute; its value is operand 0.
        ``written``: the nodes whose values are written, by default the chain's results in order.
        """
        graph = self.graph
        order = [n for n in sorted(chain.places) if n != first]
        read = [(n, v, (v, chain.places[n])) for n in order for v in graph.nodes[n].inputs]
        keys = dict.fromkeys(key for _, _, key in read if key in chain.operands)
        given = [] if first is None else [first]
        operands = {key: k for k, key in enumerate(keys, len(given))}
        made = {n: k for k, n in enumerate(given)}
        made |= {n: len(given) + len(operands) + k for k, n in enumerate(order)}
        values: dict[int, list[int]] = {n: [] for n in order}
        for n, v, key in read:
            values[n].append(operands[key] if key in operands else made[self.behind(v)[0]])
        steps = []
        for n in order:
            node = graph.nodes[n]
            items = tuple(sorted(node.attributes.items()))
            steps.append(Step(node.op.name, tuple(values[n]), self.result(n).dtype, items))
        dtypes = (*(self.result(n).dtype for n in given), *(graph.specs[v].dtype for v, _ in keys))
        results = sorted(chain.results) if written is None else written
        made_of = tuple(made[n] for n in results)
        return Expression(dtypes, tuple(steps), made_of), list(keys)

    def result(self, number: int) -> Spec:
        """Return the spec of a node's value."""
        return self.graph.specs[self.graph.nodes[number].outputs[0]]

    @once_of_graph
    def _computes(self, number: int) -> bool:
        """Return whether a node is elementwise; a view needs no launch."""
        node = self.graph.nodes[number]
        if node.op.name not in ROWS or not self.result(number).size:
            return False
        return len(node.inputs) != 1 or self._move(number) is None

    @once_of_graph
    def _move(self, number: int) -> Move | None:
        """Return a node as a movement, None if it is none for a dense operand."""
        return move_of(self.graph, number)

    @once_of_graph
    def behind(self, value: int) -> tuple[int, Path, tuple[int, ...]]:
        """Return the node that computes a value, −1 for none, and the movement between."""
        path: Path = ()
        between: tuple[int, ...] = ()
        while True:
            number = self.maker.get(value, -1)
            if number < 0 or self.elementwise[number]:
                return number, path, between
            move = self._move(number)
            if move is None:
                return -1, path, between
            value = self.graph.nodes[number].inputs[0]
            # A view of other bits or of a part changes the numbers, so it is no path.
            if move.result.dtype is not self.graph.specs[value].dtype:
                return -1, path, between
            path, between = (move, *path), (*between, number)

    def chains(self, taken: Set[int]) -> Iterator[Chain]:
        """Yield chains of nodes that are not taken, which the caller takes before the next."""
        order = range(len(self.graph.nodes) - 1, -1, -1)
        for number in order:
            if self.graph.nodes[number].op.name == "concat" and number not in taken:
                chain = self.parts(number, taken)
                if chain is not None:
                    yield chain
        for number in order:
            if self._free(number, taken):
                chain = self.grow(number, taken)
                if chain.results:
                    yield chain

    def grow(self, root: int, taken: Set[int]) -> Chain:
        """Return the chain that ends at a node."""
        made = self.extended(self._with(Chain(root), root, (), ()), [root], taken)
        return self._with_readers(made, taken) if len(made.results) > 1 else made

    def extended(self, chain: Chain, waiting: list[int], taken: Set[int]) -> Chain:
        """Return a chain with what its nodes read, as far as that is correct and pays.

        ``waiting``: the nodes whose operands are tried, and then those of the nodes found.
        """
        while waiting:
            number = waiting.pop(0)
            for value in self.graph.nodes[number].inputs:
                source, path, between = self.behind(value)
                if source < 0 or source in taken or source in chain.places:
                    continue
                if self.postponed.get(number) in self.graph.nodes[source].outputs:
                    continue
                way = self.settled(source, (*path, *chain.places[number]))
                grown = self._grown(chain, source, way, between)
                if grown is not None:
                    chain = grown
                    waiting.append(source)
        return chain

    def parts(self, concat: int, taken: Set[int]) -> Chain | None:
        """Return a chain of several parts of a concat, if together they move less than apart.

        The gradients of gates are such parts: they read the same values, and depend on each other
        only through those. Parts of concats that share some with this one are taken too, if that
        is possible.
        """
        nodes = self.graph.nodes
        beside = {r for v in nodes[concat].inputs for r in self.readers[v]}
        shared = [r for r in sorted(beside) if nodes[r].op.name == "concat" and r != concat]
        both = self._parts([concat, *shared], taken) if shared else None
        return both or self._parts([concat], taken)

    def _parts(self, concats: Sequence[int], taken: Set[int]) -> Chain | None:
        nodes = self.graph.nodes
        values = (v for concat in concats for v in nodes[concat].inputs)
        makers = {self.maker[v] for v in values if v in self.maker}
        free = sorted((n for n in makers if self._free(n, taken)), reverse=True)
        roots = [n for n in free if self.result(n).shape == self.result(free[0]).shape]
        if not 1 < len(roots) <= _RESULTS:
            return None
        apart, used, made = 0, {*taken}, Chain(roots[0])
        for root in roots:
            if root not in used:
                alone = self.grow(root, used)
                apart += self._moved(alone)
                used |= alone.nodes
            made = self._with(made, root, (), ())
        made = self._with_readers(self.extended(made, roots, taken), taken)
        return made if self._fits(made) and self._moved(made) < apart else None

    def _free(self, number: int, taken: Set[int]) -> bool:
        return number not in taken and self.elementwise[number]

    def _with_readers(self, chain: Chain, taken: Set[int]) -> Chain:
        """Return a chain with the nodes that read only its values, where less is written then."""
        nodes, shape = self.graph.nodes, self.result(chain.root).shape
        written = [nodes[n].outputs[0] for n in sorted(chain.results)]
        for number in sorted({r for v in written for r in self.readers.get(v, ())}):
            if number in chain.places or not self._free(number, taken):
                continue
            if self.result(number).shape != shape:
                continue
            sources = [self.behind(v) for v in nodes[number].inputs]
            if any(path or source not in chain.places for source, path, _ in sources):
                continue
            made = self._grown(chain, number, (), ())
            if made is not None and self._written(made) < self._written(chain):
                chain = made
        return chain

    def _moved(self, chain: Chain) -> int:
        """Return the bytes that a chain reads and writes; parts of a value are read once."""
        read: defaultdict[int, set[int]] = defaultdict(set)
        for value, _ in chain.operands:
            read[self._whole(value)].add(value)
        wholes = (moved(self.graph, [whole], ()) for whole in read)
        parts = (moved(self.graph, values, ()) for values in read.values())
        return self._written(chain) + sum(map(min, wholes, parts))

    def _whole(self, value: int) -> int:
        """Return the value of which a value is a view."""
        number = self.maker.get(value, -1)
        while number >= 0 and self._move(number) is not None:
            value = self.graph.nodes[number].inputs[0]
            number = self.maker.get(value, -1)
        return value

    def _written(self, chain: Chain) -> int:
        """Return the bytes that a chain writes."""
        return sum(self.result(n).nbytes for n in chain.results)

    def weight(self, number: int) -> int:
        """Return the instructions of a node."""
        return ROWS[self.graph.nodes[number].op.name].weight

    def reads(self, number: int) -> Sequence[int]:
        """Return the values that a node reads elementwise."""
        return self.graph.nodes[number].inputs

    def settled(self, number: int, path: Path) -> Path:
        """Return the shortest path from a node's result that means the same as this one."""
        return path

    def _with(self, chain: Chain, number: int, path: Path, between: Sequence[int]) -> Chain:
        places, nodes = chain.places | {number: path}, chain.nodes | {number, *between}
        weight = chain.weight + self.weight(number)
        read = dict(chain.operands)
        for value in self.reads(number):
            source, first, _ = self.behind(value)
            read[value, path] = source, self.settled(source, (*first, *path))
        # Of the earlier operands and results, the new node can only remove some.
        operands = {key: (n, way) for key, (n, way) in read.items() if places.get(n) != way}
        made = Chain(chain.root, places, nodes, operands=operands, weight=weight)
        made.results = frozenset(n for n in (*chain.results, number) if self._outside(made, n))
        return made

    def _grown(
        self, chain: Chain, number: int, path: Path, between: tuple[int, ...]
    ) -> Chain | None:
        """Return the chain with one more node, None if that is not correct or does not pay."""
        if self._repeated(chain, number) > self.spare:
            return None
        value = self.graph.nodes[number].outputs[0]
        if chain.weight + self.weight(number) > _WEIGHT or along(path, self.dense(value)) is None:
            return None
        made = self._with(chain, number, path, between)
        return made if self._fits(made) else None

    def _repeated(self, chain: Chain, number: int) -> int:
        """Return the operations of what a chain repeats for a broadcast, with one more node."""
        size = self.result(chain.root).size
        if not self._is_repeated(number, size):
            return 0
        known = (n for n in chain.places if self._is_repeated(n, size))
        return size * sum(self.weight(n) for n in (*known, number))

    def _is_repeated(self, number: int, size: int) -> bool:
        """Return whether a node's value is dear, and smaller than what is computed of it."""
        return self.weight(number) > _CHEAP and prod(self.result(number).shape) < size

    def _fits(self, chain: Chain) -> bool:
        """Return whether a chain is one launch: convex, and with few operands and results."""
        # Values that others read must have the chain's shape.
        if any(chain.places[n] for n in chain.results) or len(chain.results) > _RESULTS:
            return False
        count = len(chain.operands)
        if count > _OPERANDS or count + len(chain.results) > self.arguments:
            return False
        return not self._cyclic(chain)

    def _outside(self, chain: Chain, number: int) -> bool:
        """Return whether a node outside the chain reads a node's value."""
        waiting = [self.graph.nodes[number].outputs[0]]
        while waiting:
            value = waiting.pop()
            if value in self.wanted:
                return True
            for reader in self.readers.get(value, ()):
                if reader in chain.places:
                    if (value, chain.places[reader]) in chain.operands:
                        return True
                elif reader in chain.nodes:
                    waiting.append(self.graph.nodes[reader].outputs[0])
                else:
                    return True
        return False

    def _cyclic(self, chain: Chain) -> bool:
        """Return whether a path leads from the chain out of it and back."""
        if any(source in chain.places for source, _ in chain.operands.values()):
            return True
        if len(chain.results) == 1 and not self.grouped:
            return False
        read = (value for value, _ in chain.operands)
        return len(self.graph.nodes) > _LARGE or self.depend(read, chain.nodes)
