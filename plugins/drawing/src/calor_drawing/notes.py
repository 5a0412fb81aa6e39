"""What somebody has to say about a graph, for its picture: groups of nodes, lines, moved values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# (fill, stroke) of groups, in turn. The fills also differ in lightness, for colour-blind readers.
GROUP_COLOURS: Final = (
    ("#dbeafe", "#3b6fb6"),
    ("#fde5c4", "#b7791f"),
    ("#cfeed8", "#2f8550"),
    ("#e2d9f7", "#6f51b5"),
    ("#f9c6c6", "#b03a3a"),
    ("#f1f1f1", "#7a7a7a"),
)


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes for the picture of a graph.

    Parameters
    ----------
    groups : sequence of str
        The group of each node; nodes have the colour of their group, which the legend names.
    lines : mapping of int to sequence of str, optional
        Lines below those of a node, by its place in the graph.
    values : mapping of tuple to str, optional
        A text beside the lines of a value to the nodes of a group, which are drawn thick, by the
        value's number and the group.
    title : str, optional
        A line above the picture.

    Examples
    --------
    >>> import calor
    >>> from calor_drawing import Notes, graph_svg
    >>> graph = calor.trace(calor.exp, calor.ones(2))
    >>> ">on the left<" in graph_svg(graph, Notes(["left"], {0: ["on the left"]}))
    True
    """

    groups: Sequence[str]
    lines: Mapping[int, Sequence[str]] = field(default_factory=dict)
    values: Mapping[tuple[int, str], str] = field(default_factory=dict)
    title: str = ""

    def colours(self, node: int) -> tuple[str, str]:
        """Return the fill and the stroke of a node.

        Parameters
        ----------
        node : int
            Its place in the graph.

        Returns
        -------
        tuple of str
            The colours.
        """
        return self.legend()[self.groups[node]]

    def legend(self) -> dict[str, tuple[str, str]]:
        """Return the fill and the stroke of each group, in the order in which they occur.

        Returns
        -------
        dict of str to tuple of str
            The colours by the group's name.
        """
        names = dict.fromkeys(self.groups)
        return {
            name: GROUP_COLOURS[n % len(GROUP_COLOURS)] for n, name in enumerate(names)
        }  # fmt: skip
