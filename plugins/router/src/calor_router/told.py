"""The placement of a program for its reader: text, bytes moved, reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from calor.graph.graph import Graph
from calor.units import bytes_text


@dataclass(frozen=True)
class Placement:
    """Which member of a router runs which part of a program.

    Parameters
    ----------
    members : tuple of str
        The names of the members, and at the end that of the router, which steps through control
        flow of which no single member takes the body.
    graph : Graph
        The program.
    chosen : tuple of int
        The member of each node, by its place in ``members``.
    reasons : mapping of int to str
        Why a node is not on the first member, by its place in the graph.
    stages : tuple of tuple
        The member and the nodes of each part, in the order in which they run.
    streamed : tuple of tuple of int, optional
        Where a member's limit is less than its work: each value that a call moves, from which
        member and to which one; −1 is the host. None where values stay on members.
    peaks : mapping of int to int, optional
        Then the most bytes in use on each member with a limit.

    Examples
    --------
    >>> import calor
    >>> with calor.device("router:numpy"):
    ...     told = calor.router.explain(calor.exp, calor.ones(2))
    >>> told.members, told.chosen, told.moved_bytes
    (('numpy:0', 'router:numpy:0'), (0,), 0)
    """

    members: tuple[str, ...]
    graph: Graph
    chosen: tuple[int, ...]
    reasons: Mapping[int, str]
    stages: tuple[tuple[int, tuple[int, ...]], ...]
    streamed: tuple[tuple[int, int, int], ...] | None = None
    peaks: Mapping[int, int] = field(default_factory=dict)

    @property
    def moved(self) -> tuple[int, ...]:
        """The values that a call moves between members, once for each that receives it.

        Inputs are expected on the first member; those that stay there are moved once, and kept.
        """
        graph = self.graph
        if self.streamed is not None:
            return tuple(v for v, _, _ in self.streamed)
        places: dict[int, set[int]] = {v: {0} for v in graph.inputs}
        found: list[int] = []
        for member, nodes in self.stages:
            for i in nodes:
                for v in graph.nodes[i].inputs:
                    if v not in graph.host and member not in places[v]:
                        places[v].add(member)
                        found.append(v)
                for v in graph.nodes[i].outputs:
                    places[v] = {member}
        return tuple(found)

    @property
    def moved_bytes(self) -> int:
        """The bytes of the values that a call moves between members."""
        return sum(self.graph.specs[v].nbytes for v in self.moved)

    def __str__(self) -> str:
        names = ", ".join(dict.fromkeys(self.members[m] for m, _ in self.stages))
        moved = f"{len(self.moved)} values, {bytes_text(self.moved_bytes)}"
        parts = f"{len(self.stages)} part{'s' if len(self.stages) != 1 else ''}"
        lines = [f"{parts} on {names or 'no member'}; a call moves {moved}"]
        lines += [
            f"  {self.members[m]} is streamed, with at most {bytes_text(peak)} in use"
            for m, peak in self.peaks.items()
        ]
        for number, (member, nodes) in enumerate(self.stages, 1):
            ops = Counter(self.graph.nodes[i].op.name for i in nodes)
            listed = ", ".join(f"{n} {name}" for name, n in ops.most_common())
            lines.append(f"  {number}. {self.members[member]}: {listed}")
        whys = Counter(
            (self.graph.nodes[i].op.name, self.members[self.chosen[i]], why)
            for i, why in self.reasons.items()
        )
        lines += [f"  {n} {op} on {name}: {why}" for (op, name, why), n in whys.items()]
        return "\n".join(lines)
