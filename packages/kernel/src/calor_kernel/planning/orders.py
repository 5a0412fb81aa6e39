"""The order in memory of the axes of results, as those want it that read them.

Requirements: a model moves the heads of attention behind the rows and joins them before it
multiplies, which no strides express. So a family that can writes its result in the order to which
its readers permute it, and the permuted value is dense. A lowering finds the orders as the
attribute ``orders``, one for each result, None if it is dense; if it refuses them, it is asked
again without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Final

from calor.graph.graph import Graph, Node
from calor.specs import Spec
from calor_kernel.contract.work import View, row_major

# The ops whose results may have another order.
ORDERED: Final = frozenset(("attention", "attention_gradient", "attention_gradient_of_result"))
Order = tuple[int, ...] | None


class Orders:
    """The orders that a graph's readers want; ``dense``: whether an op needs a dense operand."""

    def __init__(self, graph: Graph, dense: Callable[[str, int], bool]) -> None:
        self.graph, self.dense = graph, dense

    @cached_property
    def _readers(self) -> Mapping[int, list[tuple[Node, int]]]:
        found: dict[int, list[tuple[Node, int]]] = {}
        for node in self.graph.nodes:
            for place, value in enumerate(node.inputs):
                found.setdefault(value, []).append((node, place))
        return found

    def of(self, op: str, outputs: Iterable[int]) -> tuple[Order, ...]:
        """Return the order of each result of an op, () if all are dense."""
        if op not in ORDERED:
            return ()
        orders = tuple(self._wanted(value) for value in outputs)
        return orders if any(order is not None for order in orders) else ()

    def _wanted(self, value: int) -> Order:
        """Return the order to which a value is permuted, None unless its other readers read it."""
        if value in self.graph.outputs:
            return None
        wanted: Order = None
        for node, place in self._readers.get(value, ()):
            if node.op.name == "permute":
                axes = tuple(node.attributes["axes"])
                if wanted not in (None, axes):
                    return None
                wanted = axes
            elif self.dense(node.op.name, place):
                return None
        return wanted


def ordered(spec: Spec, order: Order) -> View:
    """Return the view of a value whose axes lie in memory in an order."""
    if order is None:
        return View.dense(spec)
    steps = row_major([spec.shape[axis] for axis in order])
    strides = [0] * spec.ndim
    for axis, step in zip(order, steps, strict=True):
        strides[axis] = step
    return View(spec.shape, tuple(strides), spec.dtype)
