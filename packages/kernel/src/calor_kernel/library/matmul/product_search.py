"""Products and convolutions in a graph, and the elementwise nodes that may follow each.

Requirements: what follows a product in its result's order of elements is computed on its sums, with
the elementwise ops that it needs and that depend on no other product. A value that other nodes read
too is written beside the last one. An operand is one that strides express along products, rows and
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from heapq import heapify, heappop, heappush
from math import prod
from typing import Final

from calor.graph.graph import Graph
from calor_kernel.contract.cost import moved, node_flops
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import reshaped_strides
from calor_kernel.contract.work import View
from calor_kernel.library.elementwise.chain_search import Chain, ChainSearch
from calor_kernel.library.elementwise.links import once, once_of_graph
from calor_kernel.library.elementwise.paths import Path, along
from calor_kernel.library.matmul.problem import free_axes
from calor_kernel.library.matmul.product_chain import PRODUCT_CHAIN

# The op of a group that begins with an op.
CHAINS: Final = {"dot_general": PRODUCT_CHAIN, "conv": "conv_chain"}
# Maximum of further operands that are no constants, of results and of instructions: each unit does
# the work for many sums.
_OPERANDS: Final = 8
_RESULTS: Final = 3
_WEIGHT: Final = 160
# Maximum of elementwise nodes after a product that are looked at.
_REACH: Final = 64


class ProductSearch(ChainSearch):
    """A graph, with the queries of growing chains behind products."""

    def __init__(self, graph: Graph, info: DeviceInfo, units: Sequence[int | Group]) -> None:
        super().__init__(graph, info, units)
        self.products = [n for n in range(len(graph.nodes)) if self._multiplies(n)]
        # A path to an operand ends at a product, as at any node that computes.
        for number in self.products:
            self.elementwise[number] = True

    def _multiplies(self, number: int) -> bool:
        return self.graph.nodes[number].op.name in CHAINS and self._plain(number)

    def _plain(self, number: int) -> bool:
        """Return whether all values of a node are numbers that kernels compute with."""
        node = self.graph.nodes[number]
        specs = [self.graph.specs[v] for v in (*node.inputs, *node.outputs)]
        return all(s.size and not s.dtype.is_complex and s.dtype.kind != "storage" for s in specs)

    def product(self, number: int, taken: Set[int]) -> Chain | None:
        """Return a product with what follows it, None if nothing does."""
        reach = self._reach(number, taken)
        chain = self._with(Chain(number), number, (), ())
        for last in sorted(n for n in reach if self._ends(n, reach)):
            chain = self._joined(chain, last, reach, taken) or chain
        return chain if len(chain.places) > 1 else None

    def group(self, chain: Chain) -> Group:
        """Return a product and its chain as a group of the planner."""
        graph, node = self.graph, self.graph.nodes[chain.root]
        expression, operands = self.expression(chain, chain.root)
        others = sorted({value for value, _ in operands} - set(node.inputs))
        inputs = (*node.inputs, *others)
        outputs = tuple(graph.nodes[n].outputs[0] for n in sorted(chain.results))
        flops = node_flops(graph, node) + sum(self.result(n).size for n in chain.places)
        cost = self.ceilings.seconds(moved(graph, set(inputs), outputs), flops)
        attributes = {
            **node.attributes,
            "product": self.result(chain.root),
            "expression": expression,
            "operands": tuple((inputs.index(v), path) for v, path in operands),
        }
        op = CHAINS[node.op.name]
        return Group(tuple(sorted(chain.nodes)), op, inputs, outputs, cost, attributes)

    def weight(self, number: int) -> int:
        """Return the instructions of a node, none for a product."""
        return 0 if number in self.products else super().weight(number)

    def reads(self, number: int) -> Sequence[int]:
        """Return the values that a node reads elementwise, none for a product."""
        return () if number in self.products else super().reads(number)

    def settled(self, number: int, path: Path) -> Path:
        """Return no path for one that keeps all elements in their order."""
        spec = self.result(number) if number >= 0 else None
        view = spec and along(path, View.dense(spec))
        kept = view and spec and view.is_dense and not view.offset and view.size == spec.size
        return () if kept else path

    @once_of_graph
    def keeps(self, number: int) -> bool:
        """Return whether a node is movement that keeps all elements in their order."""
        move, node = self._move(number), self.graph.nodes[number]
        spec = self.graph.specs[node.inputs[0]] if node.inputs else None
        if move is None or spec is None or move.result.dtype is not spec.dtype:
            return False
        view = move.apply(View.dense(spec))
        return view is not None and view.is_dense and not view.offset and view.size == spec.size

    def following(self, number: int) -> list[int]:
        """Return the readers of a node's value, also behind movement that keeps the order."""
        found, waiting = [], list(self.graph.nodes[number].outputs)
        while waiting:
            for reader in self.readers.get(waiting.pop(), ()):
                if self.keeps(reader):
                    waiting += self.graph.nodes[reader].outputs
                else:
                    found.append(reader)
        return sorted(found)

    def _reach(self, number: int, taken: Set[int]) -> list[int]:
        """Return the elementwise nodes that follow a node with its order of elements, in order."""
        size = self.result(number).size
        found: list[int] = []
        values = set(self.graph.nodes[number].outputs)
        waiting = [r for v in values for r in self.readers.get(v, ())]
        heapify(waiting)
        seen: set[int] = set()
        while waiting and len(found) < _REACH:
            n = heappop(waiting)
            if n in seen or n in taken:
                continue
            seen.add(n)
            if not self.keeps(n):
                if not self._follows(n, number, size, values):
                    continue
                found.append(n)
            values.update(self.graph.nodes[n].outputs)
            for value in self.graph.nodes[n].outputs:
                for reader in self.readers.get(value, ()):
                    heappush(waiting, reader)
        return found

    def _follows(self, number: int, product: int, size: int, values: Set[int]) -> bool:
        """Return whether a node computes elementwise on ``values``, which follow a product."""
        if not self.elementwise[number] or number in self.products or not self._plain(number):
            return False
        if self.result(number).size != size or self.postponed.get(number) in values:
            return False
        # What depends on the product by another way, or in another order, is computed after it.
        others = (v for v in self.graph.nodes[number].inputs if v not in values)
        return not self.above(others) >> product & 1

    def _ends(self, number: int, reach: Sequence[int]) -> bool:
        """Return whether a node is read by another one than those that follow with its order."""
        waiting = [self.graph.nodes[number].outputs[0]]
        while waiting:
            value = waiting.pop()
            if value in self.wanted:
                return True
            for reader in self.readers.get(value, ()):
                if self.keeps(reader):
                    waiting += self.graph.nodes[reader].outputs
                elif reader not in reach:
                    return True
        return False

    def _joined(
        self, chain: Chain, last: int, reach: Sequence[int], taken: Set[int]
    ) -> Chain | None:
        """Return a chain with a node and all between, None if that is not correct."""
        needed: set[int] = set()
        waiting = [last]
        while waiting:
            number = waiting.pop()
            if number in chain.places or number in needed:
                continue
            needed.add(number)
            waiting += [self.behind(v)[0] for v in self.reads(number) if self.behind(v)[0] in reach]
        made = self._followed(chain, sorted(needed))
        return None if self._unfit(made) else self.extended(made, sorted(needed), taken)

    def _followed(self, chain: Chain, nodes: Iterable[int]) -> Chain:
        """Return a chain with nodes that follow it, in order, and the movement between."""
        for number in nodes:
            links = [self.behind(v) for v in self.reads(number)]
            between = [n for source, _, some in links if source in chain.places for n in some]
            chain = self._with(chain, number, (), between)
        return chain

    def _grown(
        self, chain: Chain, number: int, path: Path, between: tuple[int, ...]
    ) -> Chain | None:
        """Return the chain with one more node that it reads, None if that is wrong or useless."""
        if number in self.products or not self._plain(number):
            return None
        made = super()._grown(chain, number, path, between)
        return None if made is None or self._unfit(made) else made

    def _unfit(self, chain: Chain) -> str | None:
        """Return why no kernel computes a chain after its product, None if one does."""
        if chain.weight > _WEIGHT:
            return f"it has more than {_WEIGHT} instructions"
        if len(chain.results) > _RESULTS:
            return f"more than {_RESULTS} of its values are read by others"
        if sum(self._varies(v) for v, _ in chain.operands) > _OPERANDS:
            return f"it reads more than {_OPERANDS} further values"
        if self._factors(chain.root) & self.bits(chain.nodes):
            return "the product reads it too"
        moves = chain.nodes - chain.places.keys()
        for value in (v for n in moves for v in self.graph.nodes[n].outputs):
            if value in self.wanted or any(r not in chain.nodes for r in self.readers[value]):
                return "another op reads the product in another shape"
        if not all(self._reads_by_strides(chain.root, *key) for key in chain.operands):
            return "a further value has no stride along rows or columns of the product"
        return (
            "what it reads depends on the product by another way" if self._cyclic(chain) else None
        )

    def apart(self, number: int, reader: int) -> str | None:
        """Return why a reader of a product's value cannot follow it, None if it can."""
        node = self.graph.nodes[reader]
        if self._move(reader) is not None or not self.elementwise[reader]:
            return f"{node.op.name} is not elementwise, or moves elements"
        if reader in self.products:
            return "it is a product itself"
        if not self._plain(reader):
            return "it has complex numbers or 8-bit floats"
        if self.result(reader).size != self.result(number).size:
            return "its result is of another size"
        if any(
            self.behind(v)[0] == number and self.settled(number, self.behind(v)[1])
            for v in node.inputs
        ):
            return "it reads the product in another order of elements"
        chain = self._with(Chain(number), number, (), ())
        return self._unfit(self._followed(chain, [reader]))

    @once
    def _factors(self, number: int) -> int:
        """Return the nodes that a product depends on, as bits."""
        return self.above(self.graph.nodes[number].inputs)

    @once_of_graph
    def _varies(self, value: int) -> bool:
        """Return whether a value is no constant of one number."""
        number = self.maker.get(value, -1)
        return number < 0 or self.graph.nodes[number].op.name != "full"

    @once_of_graph
    def view(self, value: int) -> View:
        """Return a value as the planner will have it: movement of dense memory is strides."""
        number = self.maker.get(value, -1)
        move = None if number < 0 else self._move(number)
        if move is not None:
            moved = move.apply(self.view(self.graph.nodes[number].inputs[0]))
            if moved is not None:
                return moved
        return View.dense(self.graph.specs[value])

    def _reads_by_strides(self, root: int, value: int, path: Path) -> bool:
        """Return whether an operand has one stride along products, rows and columns each."""
        view, wanted = along(path, self.view(value)), self._sizes(root)
        return view is not None and None is not reshaped_strides(view.shape, view.strides, wanted)

    @once_of_graph
    def _sizes(self, number: int) -> tuple[int, ...]:
        """Return the numbers of products, rows and columns of a result.

        Those of a convolution are images, channels and pixels.
        """
        node, specs, shape = self.graph.nodes[number], self.graph.specs, self.result(number).shape
        if "contract" not in node.attributes:
            return shape[0], shape[1], prod(shape[2:])
        contract, batch = node.attributes["contract"], node.attributes["batch"]
        first, count = (
            len(batch[0]),
            len(free_axes(View.dense(specs[node.inputs[0]]), contract[0], batch[0])),
        )
        sizes = shape[:first], shape[first : first + count], shape[first + count :]
        return tuple(prod(part) for part in sizes)
