"""Fusers: what covers several nodes of a graph with one piece of work.

Requirements: a fuser says what it could do and what that costs, and the planner chooses, so that
fusers of different authors meet in one graph; what a group becomes is asked of a lowering like that
of any op, so it is kept by structure and tuned alike; a graph without fusers gives the same
results within the stated bounds.

A fuser is an object with a name and :meth:`Fuser.groups`. A package brings one by the hook
``calor_fusers``; a backend may be made with fusers of its own.

>>> class Nothing(Fuser):
...     name = "nothing"
...
...     def groups(self, graph, info):
...         return ()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from calor.graph.graph import Graph, part
from calor_kernel.contract.info import DeviceInfo


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that are done together.

    ``nodes`` are numbers of the graph's nodes; movement and sources may be among them. ``op`` names
    a lowering that does them, with ``attributes``, which are hashable: it gets the views of
    ``inputs`` as operands and makes the values ``outputs``. Values of the group that something else
    reads are outputs. No way leads from the group out of it and back. ``cost`` is in seconds, as
    :mod:`calor_kernel.contract.cost` counts them; the planner takes a group where it costs less
    than its nodes one by one.
    """

    nodes: tuple[int, ...]
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cost: float
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Fuser(ABC):
    """Finds groups in graphs."""

    name: str

    @abstractmethod
    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return what could be done together; groups may overlap, also with other fusers'."""


def boundary(graph: Graph, nodes: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the values that nodes read and do not make, and those that are read outside of them.

    Both in ascending order, the graph's results among the latter.
    """
    inside = set(nodes)
    made = {o for i in inside for o in graph.nodes[i].outputs}
    read = {v for i in inside for v in graph.nodes[i].inputs}
    outside = {v for i, n in enumerate(graph.nodes) if i not in inside for v in n.inputs}
    outside.update(graph.outputs)
    return tuple(sorted(read - made)), tuple(sorted(made & outside))


def group_of(graph: Graph, nodes: Iterable[int], op: str, cost: float, **attributes: Any) -> Group:
    """Return the group of some nodes for a lowering that takes the nodes as a graph of their own.

    The lowering finds that graph as the attribute ``graph``; its inputs are the operands.
    """
    chosen = tuple(sorted(nodes))
    inputs, outputs = boundary(graph, chosen)
    inner = part(graph, inputs, [graph.nodes[i] for i in chosen], outputs)
    return Group(chosen, op, inputs, outputs, cost, {"graph": inner, **attributes})
