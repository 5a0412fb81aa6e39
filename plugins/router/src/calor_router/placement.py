"""Which member runs which node: the placement of least cost.

With two members the least cost of nodes and of transfers between them is a minimum cut (Stone,
"Multiprocessor scheduling with the aid of network flow algorithms", IEEE Trans. Softw. Eng. 3(1),
1977). With more members, one after another takes over what lowers the cost, each by a cut (Boykov,
Veksler and Zabih, "Fast approximate energy minimization via graph cuts", IEEE Trans. PAMI 23(11),
2001).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from calor.backends.device import Device
from calor.compiling.partition import claim_of
from calor.errors import UnsupportedError
from calor.graph.decompose import decompose, plain
from calor.graph.graph import Graph
from calor_router.cuts import sink_side
from calor_router.effort import effort
from calor_router.flows import FLOWS, graphs_of
from calor_router.speeds import Speeds, speeds_of, transfer

# More nodes than this are placed by claims, and not by cost: a cut takes too long.
_LIMIT: Final = 5000


# What is charged of moving an input that is none of the first ones: mostly state, which stays.
_KEPT: Final = 1 / 64
_FIRST: Final = 4

# Seconds, and what `placed` returns.
Found = tuple[float, Graph, tuple[int, ...], dict[int, str]]
# Seconds, the member of each node, and why it is not the first one.
Apart = tuple[float, tuple[int, ...], dict[int, str]]


@dataclass(frozen=True, slots=True)
class Problem:
    """A graph's nodes with what they cost on each member.

    Parameters
    ----------
    graph : Graph
        The graph.
    allowed : tuple of tuple of int
        The members that take each node.
    costs : tuple of tuple of float
        The seconds of each node on each member; infinite where it is not allowed.
    edges : tuple of tuple of int
        Pairs of nodes: one makes what the other reads, with the value between them. −1 stands for
        the inputs, which are expected on the first member.
    moves : mapping of tuple of int to tuple of float
        For each pair of members the seconds of a transfer: to begin, and for each byte.
    """

    graph: Graph
    allowed: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[float, ...], ...]
    edges: tuple[tuple[int, int, int], ...]
    moves: Mapping[tuple[int, int], tuple[float, float]]

    def moving(self, value: int, source: int, target: int) -> float:
        """Return the seconds of moving a value between members."""
        if source == target:
            return 0.0
        start, byte = self.moves.get((source, target), (0.0, 0.0))
        return start + byte * self.graph.specs[value].nbytes

    def entering(self, value: int, member: int) -> float:
        """Return the seconds that an input is charged for being read on a member."""
        share = 1.0 if value < _FIRST else _KEPT
        return share * self.moving(value, 0, member)

    def total(self, chosen: Sequence[int]) -> float:
        """Return the seconds of a placement."""
        work = sum(row[n] for row, n in zip(self.costs, chosen, strict=True))
        return work + sum(
            self.entering(v, chosen[j]) if i < 0 else self.moving(v, chosen[i], chosen[j])
            for i, j, v in self.edges
        )


def refusals(members: Sequence[Device], graph: Graph) -> dict[int, str]:
    """Return the nodes that no member takes and that the router does not step through itself.

    Parameters
    ----------
    members : sequence of Device
        The members.
    graph : Graph
        The graph.

    Returns
    -------
    dict of int to str
        What every member says, by the node's place.
    """
    claims = [claim_of(member, graph) for member in members]
    common = set(claims[0].reasons).intersection(*(claim.reasons for claim in claims[1:]))
    return {
        i: ", ".join(f"{m.name} says {c.reasons[i]}" for m, c in zip(members, claims, strict=True))
        for i in sorted(common)
        if not _steps_through(members, graph, i)
    }


def _steps_through(members: Sequence[Device], graph: Graph, number: int) -> bool:
    """Tell whether a node is control flow whose bodies the members take together."""
    node = graph.nodes[number]
    return node.op.name in FLOWS and all(_takes(members, one) for one in graphs_of(graph, node))


def _takes(members: Sequence[Device], graph: Graph) -> bool:
    """Tell whether the members take a graph, composites that all of them refuse decomposed."""
    graph = plain(graph)
    while refused := refusals(members, graph):
        smaller = decompose(graph, frozenset(refused))
        if smaller is graph:
            return False
        graph = smaller
    return True


def placed(
    members: Sequence[Device], graph: Graph
) -> tuple[Graph, tuple[int, ...], dict[int, str]]:
    """Return the graph to run, the member of each node, and why it is not the first one.

    A composite may be one operation of one member, or several of another: the graph is taken as it
    is, and with what a member refuses decomposed, whichever costs less.

    Parameters
    ----------
    members : sequence of Device
        The members, the preferred one first.
    graph : Graph
        A graph of which a member takes each node.

    Returns
    -------
    tuple
        The graph, the place in ``members`` for each of its nodes (one past the last for control
        flow that the router steps through), and a reason for each node that is not on the first.
    """
    return min(placements(members, graph), key=lambda found: found[0])[1:]


def placements(members: Sequence[Device], graph: Graph) -> list[Found]:
    """Return the cheapest placement of each form of a graph, with its seconds first.

    Parameters
    ----------
    members : sequence of Device
        The members, the preferred one first.
    graph : Graph
        A graph of which a member takes each node.

    Returns
    -------
    list of tuple
        The seconds, and what `placed` returns.

    Raises
    ------
    UnsupportedError
        If no member takes a node.
    """
    found: list[Found] = []
    for candidate, refused, problem in _problems(members, graph):
        if not refused and not candidate.nodes:
            return [(0.0, candidate, (), {})]
        chosen = _cheapest(problem, len(members))
        total = problem.total(chosen)
        found.append((total, candidate, chosen, _reasons(members, refused, chosen)))
    if not found:
        raise UnsupportedError(
            f"no member of {', '.join(m.name for m in members)} takes a node of {graph!r}, of "
            f"which each was claimed; a member's claim is at fault"
        )
    return found


def alone(members: Sequence[Device], graph: Graph) -> list[Found]:
    """Return the placements of each form of a graph on one member, as of `placements`.

    Parameters
    ----------
    members : sequence of Device
        The members.
    graph : Graph
        The graph.

    Returns
    -------
    list of tuple
        The seconds, and what `placed` returns; members that refuse a node are left out.
    """
    found: list[Found] = []
    for candidate, refused, problem in _problems(members, graph):
        for member in range(len(members)):
            if all(member in row for row in problem.allowed):
                chosen = (member,) * len(candidate.nodes)
                reasons = _reasons(members, refused, chosen)
                found.append((problem.total(chosen), candidate, chosen, reasons))
    return found


def _problems(
    members: Sequence[Device], graph: Graph
) -> Iterator[tuple[Graph, Mapping[int, str], Problem]]:
    """Yield the forms of a graph whose nodes all run somewhere, and what the first refuses."""
    for candidate in _candidates(members, graph):
        claims = [claim_of(member, candidate) for member in members]
        allowed = tuple(
            tuple(n for n, claim in enumerate(claims) if i not in claim.reasons)
            or ((len(members),) if _steps_through(members, candidate, i) else ())
            for i in range(len(candidate.nodes))
        )
        if all(allowed):
            yield candidate, claims[0].reasons, _problem(members, candidate, allowed)


def _reasons(
    members: Sequence[Device], refused: Mapping[int, str], chosen: Sequence[int]
) -> dict[int, str]:
    """Return why nodes are not on the first member."""
    first = members[0].name
    return {
        i: f"{first} refuses it: {refused[i]}"
        if i in refused
        else f"it costs less than on {first}, transfers included"
        for i, n in enumerate(chosen)
        if n
    }


def placed_apart(
    members: Sequence[Device], graph: Graph, barred: Collection[tuple[int, int]]
) -> Apart | None:
    """Return the cheapest placement of a graph in which some nodes are not on some members.

    Parameters
    ----------
    members : sequence of Device
        The members.
    graph : Graph
        A graph that `placed` returned.
    barred : collection of tuple of int
        Pairs: the node, by its place in the graph, and the member that it must not be on.

    Returns
    -------
    tuple or None
        The seconds of the placement, the place of each node and the reasons, as of `placed`; None
        if a node may be on no member.
    """
    claims = [claim_of(member, graph) for member in members]
    allowed = tuple(
        tuple(n for n, c in enumerate(claims) if i not in c.reasons and (i, n) not in barred)
        or ((len(members),) if _steps_through(members, graph, i) else ())
        for i in range(len(graph.nodes))
    )
    if not all(allowed):
        return None
    problem = _problem(members, graph, allowed)
    chosen = _cheapest(problem, len(members))
    reasons = _reasons(members, claims[0].reasons, chosen)
    for i, member in barred:
        if member == 0 and chosen[i]:
            reasons[i] = f"it does not fit the memory of {members[0].name}"
    return seconds_of(members, graph, chosen), chosen, reasons


def seconds_of(members: Sequence[Device], graph: Graph, chosen: Sequence[int]) -> float:
    """Return the seconds of a placement by the measured speeds, with inputs where they are read.

    Parameters
    ----------
    members : sequence of Device
        The members.
    graph : Graph
        The graph.
    chosen : sequence of int
        The member of each node.

    Returns
    -------
    float
        The seconds, transfers between members included.
    """
    places = tuple(range(len(members) + 1))
    problem = _problem(members, graph, (places,) * len(graph.nodes))
    inner = tuple(edge for edge in problem.edges if edge[0] >= 0)
    return replace(problem, edges=inner).total(chosen)


def _candidates(members: Sequence[Device], graph: Graph) -> Iterator[Graph]:
    """Yield the graph, and what is left of it where a member's refusals are decomposed."""
    seen = [graph]
    yield graph
    for member in members:
        smaller = graph
        while True:
            refused = frozenset(claim_of(member, smaller).reasons)
            made = decompose(smaller, refused)
            if made is smaller:
                break
            smaller = made
        if all(smaller is not other and smaller.key != other.key for other in seen):
            seen.append(smaller)
            yield smaller


def _problem(
    members: Sequence[Device], graph: Graph, allowed: tuple[tuple[int, ...], ...]
) -> Problem:
    maker = {o: i for i, node in enumerate(graph.nodes) for o in node.outputs}
    edges = tuple(
        (maker.get(v, -1), j, v)
        for j, node in enumerate(graph.nodes)
        for v in dict.fromkeys(node.inputs)
        if v not in graph.host
    )
    if all(len(row) == 1 for row in allowed):
        # There is nothing to choose, and nothing to measure.
        places = range(len(members) + 1)
        costs = tuple(tuple(0.0 if n in row else inf for n in places) for row in allowed)
        free = {(a, b): (0.0, 0.0) for a in places for b in places}
        return Problem(graph, allowed, costs, edges, free)
    # What the router steps through costs what its bodies do, wherever that is.
    speeds = [*(speeds_of(member) for member in members), Speeds(0.0, 0.0, 0.0, 0.0)]
    costs = tuple(
        tuple(seconds(speed, graph, i) if n in row else inf for n, speed in enumerate(speeds))
        for i, row in enumerate(allowed)
    )
    moves = {}
    for a, source in enumerate(members):
        for b, target in enumerate(members):
            if a != b:
                start, byte = transfer(source, target)
                # What is moved is read by a call of its own.
                moves[a, b] = start + speeds[b].call, byte
    return Problem(graph, allowed, costs, edges, moves)


def seconds(speeds: Speeds, graph: Graph, number: int) -> float:
    """Return the seconds of a node on a member of these speeds.

    Parameters
    ----------
    speeds : Speeds
        The member's speeds.
    graph : Graph
        The graph.
    number : int
        The node's place in it.

    Returns
    -------
    float
        The seconds.
    """
    count, nbytes, flops = effort(graph, graph.nodes[number])
    return count * speeds.node + nbytes * speeds.byte + flops * speeds.flop


def _cheapest(problem: Problem, count: int) -> tuple[int, ...]:
    """Return the member of each node: the cheapest placement that was found."""
    starts = [_on(problem, member) for member in range(count)]
    if len(problem.graph.nodes) > _LIMIT or not any(len(row) > 1 for row in problem.allowed):
        return starts[0]
    best = min(starts, key=problem.total)
    least = problem.total(best)
    improved = True
    while improved:
        improved = False
        for member in range(count):
            tried = _expanded(problem, best, member)
            total = problem.total(tried)
            # Below a thousandth there is only rounding to gain.
            if total < least * 0.999:
                best, least, improved = tried, total, True
    return best


def _on(problem: Problem, member: int) -> tuple[int, ...]:
    """Return the placement on one member, as far as it takes the nodes."""
    return tuple(
        member if member in row else min(row, key=costs.__getitem__)
        for row, costs in zip(problem.allowed, problem.costs, strict=True)
    )


def _expanded(problem: Problem, chosen: Sequence[int], member: int) -> tuple[int, ...]:
    """Return the cheapest placement in which nodes stay where they are, or go to one member."""
    stay = {i: row[chosen[i]] for i, row in enumerate(problem.costs)}
    go = {i: row[member] for i, row in enumerate(problem.costs)}
    between: dict[tuple[int, int], float] = {}
    for i, j, v in problem.edges:
        if i < 0:
            stay[j] += problem.entering(v, chosen[j])
            go[j] += problem.entering(v, member)
            continue
        here = chosen[i]
        both, last = problem.moving(v, here, chosen[j]), problem.moving(v, here, member)
        first = problem.moving(v, member, chosen[j])
        # The cost is both, with changes where one or the other goes (none where both do).
        stay[j] += both
        go[i] += first - both
        go[j] += both - first
        pair = first + last - both
        between[i, j] = between.get((i, j), 0.0) + max(pair, 0.0)
    taken = sink_side(len(problem.costs), stay, go, between)
    return tuple(member if i in taken else n for i, n in enumerate(chosen))
