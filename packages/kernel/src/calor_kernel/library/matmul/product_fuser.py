"""The fuser of products and convolutions with the elementwise work around them.

Requirements: what follows a product is its epilogue; see :mod:`product_search`. Rows of a norm that
a product of few rows alone reads are its prologue; see :mod:`row_products`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calor.graph.graph import Graph
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.matmul.product_search import ProductSearch
from calor_kernel.library.matmul.row_products import RowProducts


class ProductFuser(Fuser):
    """Finds products and the elementwise ops that follow them."""

    name = "products"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return disjoint groups, those of the first products first."""
        return self.among(graph, info, range(len(graph.nodes)))

    def apart(self, graph: Graph, info: DeviceInfo) -> Iterable[tuple[int, int, str | None]]:
        """Yield each product, each reader of its value, and why the reader cannot follow it."""
        search = ProductSearch(graph, info, range(len(graph.nodes)))
        for number in search.products:
            for reader in search.following(number):
                yield number, reader, search.apart(number, reader)

    def among(
        self, graph: Graph, info: DeviceInfo, units: Sequence[int | Group]
    ) -> Iterable[Group]:
        """Return disjoint groups of the nodes that no group has taken."""
        search = ProductSearch(graph, info, units)
        taken = set(search.grouped)
        for group in RowProducts(search, info).groups(taken):
            taken.update(group.nodes)
            yield group
        for number in search.products:
            if number in taken:
                continue
            chain = search.product(number, taken)
            if chain is not None:
                taken.update(chain.nodes)
                yield search.group(chain)
