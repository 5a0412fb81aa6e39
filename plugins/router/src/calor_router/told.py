"""The placement of a program for its reader: text, bytes moved, reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from calor.graph.graph import Graph
from calor.units import bytes_text

if TYPE_CHECKING:
    from calor_drawing import Notes

# The characters of a line of a reason in a picture.
_WIDTH: Final = 34
_HOST: Final = "the host"


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
        return tuple(v for v, _ in self._moves())

    @property
    def moved_bytes(self) -> int:
        """The bytes of the values that a call moves between members."""
        return sum(self.graph.specs[v].nbytes for v in self.moved)

    def svg(self) -> str:
        """Return a picture of the program with the member of each node, as the text of an SVG file.

        Nodes have the colours of their members, and lines with the part and, where it is not on the
        first member, the reason. Lines of values that a call moves are thick, with the bytes and
        where they go.

        Returns
        -------
        str
            The SVG document.

        Raises
        ------
        PluginError
            If calor-drawing is not installed.
        """
        from calor.drawing import graph_svg

        return graph_svg(self.graph, self._notes())

    def draw(self, path: str | PathLike[str]) -> None:
        """Write the picture of `svg` to a file.

        Parameters
        ----------
        path : str or path-like
            The file; its name ends in ".svg".

        Raises
        ------
        ArgumentError
            If the name has another suffix.
        PluginError
            If calor-drawing is not installed.
        """
        from calor.drawing import draw

        draw(self.graph, path, self._notes())

    def _notes(self) -> Notes:
        from calor.drawing import Notes

        parts = {i: n for n, (_, nodes) in enumerate(self.stages, 1) for i in nodes}
        lines = {
            i: [f"part {part}", *wrap(self.reasons.get(i, ""), _WIDTH)] for i, part in parts.items()
        }
        specs = self.graph.specs
        maker = {v: i for i, node in enumerate(self.graph.nodes) for v in node.outputs}
        values: dict[tuple[int, str], str] = {}
        for v, target in self._moves():
            size = bytes_text(specs[v].nbytes)
            if target == _HOST:
                lines[maker[v]].append(f"%{v}: {size} to the host")
            else:
                values[v, target] = f"{size} to {target}"
        groups = [self.members[member] for member in self.chosen]
        return Notes(groups, lines, values, str(self).partition("\n")[0])

    def _moves(self) -> Iterator[tuple[int, str]]:
        """Yield the values that a call moves, each with the name of where it goes."""
        if self.streamed is not None:
            for v, _, target in self.streamed:
                yield v, _HOST if target < 0 else self.members[target]
            return
        graph = self.graph
        places: dict[int, set[int]] = {v: {0} for v in graph.inputs}
        for member, nodes in self.stages:
            for i in nodes:
                for v in graph.nodes[i].inputs:
                    if v not in graph.host and member not in places[v]:
                        places[v].add(member)
                        yield v, self.members[member]
                for v in graph.nodes[i].outputs:
                    places[v] = {member}

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
