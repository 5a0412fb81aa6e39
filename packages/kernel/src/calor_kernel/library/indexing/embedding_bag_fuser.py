"""Sums and maxima of gathered rows, found in a graph.

Requirements: a row is gathered, may be converted and multiplied by a factor of its own, and all
rows of a bag are summed; nothing else reads what is between. Cubes of many units gather the rows of
several bags at once, so there the ops stay apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from calor.dtypes import DType, bfloat16, float16, float32, float64
from calor.graph.graph import Graph, Node
from calor_kernel.contract.cost import ceilings_of
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.graph_links import links_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.library.reduce.reduction_ops import working

OP: Final = "embedding_bag"
_FLOATS: Final = (bfloat16, float16, float32, float64)
_FOLDS: Final = ("sum", "max")
# Rows of a bag up to which one running sum is as exact as sums of parts.
_TERMS: Final = 1024


class EmbeddingBagFuser(Fuser):
    """Covers a reduction with the gather that it reads."""

    name = "embedding bags"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return a group for each reduction of gathered rows."""
        if info.max_units > 1:
            return ()
        found = [i for i, node in enumerate(graph.nodes) if node.op.name == "gather"]
        groups = (_group(graph, info, i) for i in found)
        return [group for group in groups if group is not None]


@dataclass
class _Walk:
    """What follows a gather, up to the reduction: its nodes, dtypes, and the factors of rows."""

    nodes: list[int]
    product: DType
    term: DType
    factors: int | None = None


def _group(graph: Graph, info: DeviceInfo, number: int) -> Group | None:
    node = graph.nodes[number]
    x, indices = node.inputs
    source, picks = graph.specs[x], graph.specs[indices]
    if node.attributes["axis"] != 0 or source.dtype not in _FLOATS or not picks.ndim:
        return None
    walk = _Walk([number], source.dtype, source.dtype)
    value: int = node.outputs[0]
    while True:
        reader = _only_reader(graph, value)
        if reader is None:
            return None
        after = graph.nodes[reader]
        walk.nodes.append(reader)
        if after.op.name in _FOLDS:
            break
        if not _follows(graph, after, value, picks.ndim, walk):
            return None
        (value,) = after.outputs
    (made,) = after.outputs
    result = graph.specs[made]
    suits = after.attributes["axes"] == (picks.ndim - 1,) and result.dtype in _FLOATS
    if not suits or not 0 < picks.shape[-1] <= _TERMS or not result.size:
        return None
    inputs = (x, indices) if walk.factors is None else (x, indices, walk.factors)
    read = picks.size * prod(source.shape[1:]) * source.dtype.itemsize
    cost = ceilings_of(info).seconds(read + picks.nbytes + result.nbytes, 2 * picks.size)
    attributes: dict[str, Any] = {
        "product": walk.product,
        "term": walk.term,
        "wide": working(after.op.name, walk.term, result.dtype),
        "greatest": after.op.name == "max",
    }
    return Group(tuple(sorted(walk.nodes)), OP, inputs, (made,), cost, attributes)


def _only_reader(graph: Graph, value: int) -> int | None:
    links = links_of(graph)
    readers = links.readers.get(value, [])
    return readers[0] if len(readers) == 1 and value not in links.wanted else None


def _follows(graph: Graph, node: Node, value: int, ndim: int, walk: _Walk) -> bool:
    """Return whether a node converts rows or multiplies them by their factors; note it."""
    if node.op.name == "cast":
        if not _widens(graph, node):
            return False
        walk.term = node.attributes["dtype"]
        if walk.factors is None:
            walk.product = walk.term
        return True
    if node.op.name != "mul" or walk.factors is not None or node.inputs[0] == node.inputs[1]:
        return False
    other = node.inputs[1 - node.inputs.index(value)]
    return _finds_factors(graph, other, ndim, walk)


def _widens(graph: Graph, node: Node) -> bool:
    """Return whether a cast gives a floating type with more digits, so that casts may be joined."""
    before, after = graph.specs[node.inputs[0]].dtype, node.attributes["dtype"]
    return before in _FLOATS and after in _FLOATS and before.itemsize < after.itemsize


def _finds_factors(graph: Graph, value: int, ndim: int, walk: _Walk) -> bool:
    """Return whether a value is one factor for each row, and note where it comes from."""
    links, found = links_of(graph), []
    while value in links.makers:
        number = links.makers[value]
        node = graph.nodes[number]
        if node.op.name != "expand" and not (node.op.name == "cast" and _widens(graph, node)):
            return False
        if _only_reader(graph, value) is None:
            return False
        found.append(number)
        (value,) = node.inputs
        if node.op.name == "expand":
            shape, whole = graph.specs[value].shape, graph.specs[node.outputs[0]].shape
            rows = (*whole[:ndim], *(1 for _ in whole[ndim:]))
            if shape != rows or graph.specs[value].dtype not in _FLOATS:
                return False
            walk.nodes += found
            walk.factors = value
            return True
    return False
