"""Covers a graph: groups of fusers if they cost less, single nodes otherwise.

Requirements: the choice depends only on the graph and the device, so equal graphs get equal plans.
It is cheap relative to planning. No two groups depend on each other cyclically.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from calor.graph.graph import Graph
from calor_kernel.contract.cost import ceilings_of, node_seconds
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.info import DeviceInfo

Unit = int | Group


def cover(graph: Graph, fusers: Sequence[Fuser], info: DeviceInfo) -> list[Unit]:
    """Return node numbers and groups in topological order."""
    chosen = _choose(graph, fusers, info)
    while chosen:
        order, stuck = _schedule(graph, chosen)
        if not stuck:
            return order
        # Groups in a cycle: drop the one that saves least.
        worst = min(stuck, key=lambda g: chosen[g])
        del chosen[worst]
    return list(range(len(graph.nodes)))


def _choose(graph: Graph, fusers: Sequence[Fuser], info: DeviceInfo) -> dict[Group, float]:
    """Return disjoint groups, the greatest savings first, with their savings."""
    groups = [group for fuser in fusers for group in fuser.groups(graph, info)]
    if not groups:
        return {}
    ceilings = ceilings_of(info)
    alone = [node_seconds(graph, node, ceilings) for node in graph.nodes]
    found = [(sum(alone[i] for i in group.nodes) - group.cost, group) for group in groups]
    found.sort(key=lambda pair: (-pair[0], pair[1].nodes))
    taken: set[int] = set()
    chosen: dict[Group, float] = {}
    for saved, group in found:
        if saved > 0 and taken.isdisjoint(group.nodes):
            taken.update(group.nodes)
            chosen[group] = saved
    return chosen


def _schedule(graph: Graph, chosen: dict[Group, float]) -> tuple[list[Unit], list[Group]]:
    """Return the units in order, and the groups that never became ready."""
    unit: list[Unit] = list(range(len(graph.nodes)))
    for group in chosen:
        for i in group.nodes:
            unit[i] = group
    maker = {o: unit[i] for i, node in enumerate(graph.nodes) for o in node.outputs}
    waits: dict[Unit, set[Unit]] = {}
    users: dict[Unit, list[Unit]] = {}
    for i, node in enumerate(graph.nodes):
        mine = waits.setdefault(unit[i], set())
        for value in node.inputs:
            other = maker.get(value)
            if other is not None and other != unit[i] and other not in mine:
                mine.add(other)
                users.setdefault(other, []).append(unit[i])
    ready: list[int] = []
    counts = {u: len(w) for u, w in waits.items()}
    for u, count in counts.items():
        if not count:
            heappush(ready, _last(u))
    order: list[Unit] = []
    while ready:
        u = unit[heappop(ready)]
        order.append(u)
        for user in users.get(u, ()):
            counts[user] -= 1
            if not counts[user]:
                heappush(ready, _last(user))
    done = set(order)
    return order, [g for g in chosen if g not in done]


def _last(unit: Unit) -> int:
    return unit if isinstance(unit, int) else unit.nodes[-1]
