"""Norms in a graph with the product of few rows that reads them, and with what follows that.

Requirements: a step of decoding normalises one row before most products, each time by a launch that
reads and writes next to nothing. The product's cubes do that work themselves, if the product reads
the normalised rows and no other node does. A group is offered only where one launch computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property
from heapq import heappop, heappush
from typing import Final, cast

from calor.graph.graph import Graph
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Request, View
from calor_kernel.library.matmul.gemv_plan import ROWS
from calor_kernel.library.matmul.problem import free_axes
from calor_kernel.library.matmul.product_chain import PRODUCT_CHAIN
from calor_kernel.library.matmul.product_search import ProductSearch
from calor_kernel.library.matmul.row_product import ROW_PRODUCT, task_with_epilogue, with_prologue
from calor_kernel.library.reduce.fusion_groups import Rows, Search
from calor_kernel.library.reduce.job import Problem
from calor_kernel.library.reduce.row_fuser import RowAttributes, group_of, job_of

# Maximum of nodes of a row program that are looked at.
_REACH: Final = 64


class RowProducts:
    """A graph with the queries of products and those of row programs."""

    def __init__(self, products: ProductSearch, info: DeviceInfo) -> None:
        self.products, self.graph, self.info = products, products.graph, info

    @cached_property
    def rows(self) -> Search:
        """The queries of row programs."""
        return Search(self.graph, self.products.units, self.info.arguments)

    def groups(self, grouped: Set[int]) -> Iterator[Group]:
        """Yield disjoint groups of the nodes that no group has taken, first products first."""
        if self.info.max_units == 1 or not (self.info.has("planes") and self.info.has("barrier")):
            return
        taken = set(grouped)
        for number in self.products.products:
            if number in taken or not _few(self.graph, number):
                continue
            group = self.group(number, taken)
            if group is not None:
                taken.update(group.nodes)
                yield group

    def group(self, number: int, taken: set[int]) -> Group | None:
        """Return a product with the rows before it and what follows; None if that is no launch."""
        products, node = self.products, self.graph.nodes[number]
        value, between = self.rows.behind(node.inputs[0])
        if node.inputs[0] == node.inputs[1] or value not in self.rows.maker:
            return None
        if not all(map(products.keeps, between)):
            return None
        found = self._rows(value, {number, *between}, taken)
        if found is None:
            return None
        before = group_of(self.rows, found, products.ceilings)
        chain = products.product(number, taken | found.nodes)
        op, inputs, outputs, attributes = (
            "dot_general", node.inputs, node.outputs, dict(node.attributes),
        )  # fmt: skip
        nodes = {number, *between, *found.nodes}
        if chain is not None:
            made = products.group(chain)
            op, inputs, outputs, attributes = (
                PRODUCT_CHAIN, made.inputs, made.outputs, dict(made.attributes),
            )  # fmt: skip
            nodes.update(made.nodes)
        count = len(inputs)
        places = [0, *range(count, count + len(before.inputs) - 1)]
        rows = {
            **before.attributes,
            "operands": tuple(places[k] for k in before.attributes["operands"]),
        }
        inputs = (before.inputs[0], *inputs[1:], *before.inputs[1:])
        if 2 * (len(inputs) + len(outputs)) > self.info.arguments:
            return None
        attributes |= {
            "rows": tuple(sorted(rows.items())),
            "left": self.graph.specs[node.inputs[0]],
            "count": count,
        }
        made = Group(tuple(sorted(nodes)), ROW_PRODUCT, inputs, outputs, 0.0, attributes)
        return made if self._suits(made, op, number) else None

    def _rows(self, value: int, reading: set[int], taken: set[int]) -> Rows | None:
        """Return the row program that makes a value for a product alone, None if none does."""
        rows, shape = self.rows, self.graph.specs[value].shape
        lone = self._lone(value, reading, taken)
        others = set(range(len(self.graph.nodes))) - lone
        for seed in sorted(lone):
            found = rows.grow(seed, others)
            if found is None:
                continue
            last = found.shape == shape and found.axes == (len(shape) - 1,)
            if last and found.roles.get(value) == "along" and rows.results(found) == [value]:
                return found
        return None

    def _lone(self, value: int, reading: set[int], taken: set[int]) -> set[int]:
        """Return the nodes before a value whose results are read by each other, or are ``reading``.

        Readers come after what they read, so the last nodes are looked at first.
        """
        rows, wanted = self.rows, self.rows.wanted
        found, waiting, inside = set[int](), [-rows.maker[value]], set(reading)
        while waiting and len(found) < _REACH:
            number = -heappop(waiting)
            if number in inside or number in taken:
                continue
            outputs = self.graph.nodes[number].outputs
            if any(v in wanted or not inside.issuperset(rows.readers.get(v, ())) for v in outputs):
                continue
            inside.add(number)
            found.add(number)
            for read in self.graph.nodes[number].inputs:
                if read in rows.maker:
                    heappush(waiting, -rows.maker[read])
        return found

    def _suits(self, group: Group, op: str, number: int) -> bool:
        """Return whether one launch computes a group, on the views that the planner will have."""
        graph, own = self.graph, ("rows", "left", "count")
        views = [self.products.view(v) for v in group.inputs]
        attributes = {n: v for n, v in group.attributes.items() if n not in own}
        left = View.dense(group.attributes["left"])
        results = tuple(graph.specs[v] for v in group.outputs)
        inputs = (left, *views[1 : group.attributes["count"]])
        task, alone = task_with_epilogue(Request(op, attributes, inputs, results, self.info))
        found = job_of(cast(RowAttributes, dict(group.attributes["rows"])), views)
        if task is None or found is None:
            return False
        return with_prologue(task, Problem(*found, self.info), alone) is not None


def _few(graph: Graph, number: int) -> bool:
    """Return whether a product has few rows, in one matrix."""
    node = graph.nodes[number]
    if node.op.name != "dot_general":
        return False
    (contract, _), (batch, _) = node.attributes["contract"], node.attributes["batch"]
    left = graph.specs[node.inputs[0]]
    if left.dtype.kind != "float":
        return False
    rows = 1
    for axis in free_axes(View.dense(left), contract, ()):
        rows *= hinted(left.shape[axis])
    return not batch and rows <= ROWS[-1]
