"""Graphs as SVG pictures, laid out here, so that drawing needs no other package.

Requirements: the same graph gives the same bytes. Text from a graph cannot break the file. About 40
nodes are readable on a screen, and 500 are still drawn quickly and in order. Sub-graphs of control
flow are drawn within their node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from calor.errors import ArgumentError
from calor.graph.graph import Graph
from calor_drawing import labels, svg
from calor_drawing.layers import Layers
from calor_drawing.layout import Link, place
from calor_drawing.notes import Notes

MARGIN: Final = 16.0
_ARROW: Final = "calor-arrow"
_PILL: Final = ("#e9edf2", "#4a5562")
_TAG: Final = ("#ffffff", "#b5bac2")
_SWATCH: Final = 12.0


def graph_svg(graph: Graph, notes: Notes | None = None) -> str:
    """Return a picture of a graph as the text of an SVG file.

    Inputs are on top, outputs below. A box is a node with the name of its op, the specs of its
    results and its attributes; its colour is that of the op's family. A tag such as ``%4`` stands
    for a value computed far above.

    Parameters
    ----------
    graph : Graph
        The graph, as `calor.trace` returns it. Its size is not limited.
    notes : Notes, optional
        What is told of its nodes and values; colours are then those of the notes' groups.

    Returns
    -------
    str
        The SVG document. It depends on the graph and the notes only.

    See Also
    --------
    draw : Writes the picture to a file.

    References
    ----------
    K. Sugiyama, S. Tagawa and M. Toda, "Methods for visual understanding of hierarchical system
    structures", IEEE Trans. Syst. Man Cybern. 11(2), 1981.

    Examples
    --------
    >>> import calor
    >>> from calor_drawing import graph_svg
    >>> graph_svg(calor.trace(calor.exp, calor.ones(2)))[:4]
    '<svg'
    """
    picture = _Picture(graph, notes)
    if notes is None:
        families = sorted(_families(graph), key=list(labels.COLOURS).index)
        legend, legend_width = _legend({name: labels.COLOURS[name] for name in families})
    else:
        legend, legend_width = _legend(notes.legend())
    title = [] if notes is None or not notes.title else [notes.title]
    width = max(picture.width, legend_width, svg.text_size("", title)[0]) + 2 * MARGIN
    top = MARGIN + len(title) * (svg.LINE_HEIGHT + svg.PADDING)
    height = top + picture.height + MARGIN + (svg.LINE_HEIGHT + MARGIN if legend else 0)
    right, lower = svg.number(width), svg.number(height)
    size = f'width="{right}" height="{lower}" viewBox="0 0 {right} {lower}"'
    shift = MARGIN + (width - 2 * MARGIN - picture.width) / 2
    counts = f"{len(graph.inputs)} inputs, {len(graph.nodes)} nodes, {len(graph.outputs)} outputs"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="calor-graph" role="img" {size}>',
            f"<title>Graph of {counts}</title>",
            f"<defs>{svg.ARROW.format(id=_ARROW)}</defs>",
            f"<style>{svg.STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *(svg.label(MARGIN, MARGIN + svg.PADDING, line, "name") for line in title),
            _group(shift, top, picture.marks),
            _group(MARGIN, height - MARGIN - svg.LINE_HEIGHT, legend),
            "</svg>\n",
        ]
    )


def draw(graph: Graph, path: str | os.PathLike[str], notes: Notes | None = None) -> None:
    """Write the picture of a graph to an SVG file.

    Parameters
    ----------
    graph : Graph
        The graph, as `calor.trace` returns it.
    path : str or path-like
        The file to write, with the suffix ``.svg``. An existing file is replaced.
    notes : Notes, optional
        What is told of its nodes and values.

    Raises
    ------
    ArgumentError
        If `path` has another suffix. The message names a command that converts SVG.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import calor, tempfile
    >>> from pathlib import Path
    >>> from calor_drawing import draw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw(calor.trace(calor.exp, calor.ones(2)), Path(folder, "graph.svg"))
    """
    target = Path(path)
    if target.suffix.lower() != ".svg":
        wrong = f"the suffix {target.suffix}" if target.suffix else "no suffix"
        raise ArgumentError(
            f"{target.name} has {wrong}, and graphs are drawn as SVG; write "
            f'graph.draw("{target.stem}.svg"), and convert it if needed with '
            f"rsvg-convert -o {target.stem}.png {target.stem}.svg"
        )
    target.write_text(graph_svg(graph, notes), encoding="utf-8")


class _Picture:
    """A graph laid out from (0, 0), with its size and its marks; lines come first."""

    def __init__(self, graph: Graph, notes: Notes | None = None) -> None:
        self.graph, self.notes = graph, notes
        self._noted: set[str] = set()
        self.layers = Layers(graph)
        self.bodies = {
            i: [(name, _Picture(body)) for name, body in labels.bodies(node)]
            for i, node in enumerate(graph.nodes)
        }
        self.texts = [self._text(i) for i in range(len(self.layers.parts))]
        self.boxes = self.layers.boxes([self._size(i) for i in range(len(self.texts))])
        frame = place(self.boxes, self.layers.links)
        self.width, self.height, self.bottoms = frame.width, frame.height, frame.bottoms
        values = zip(self.layers.links, self.layers.values, strict=True)
        self.marks = [self._line(link, value) for link, value in values]
        for i in range(len(self.boxes)):
            self.marks += self._marks(i)

    def _text(self, index: int) -> tuple[str, list[str]]:
        part, graph = self.layers.parts[index], self.graph
        if part.kind == "node":
            node = graph.nodes[part.number]
            return node.op.name, self._lines(part.number)
        if part.kind == "input":
            host = "host input" if part.number in graph.host else "input"
            return host, [f"%{part.number} {graph.specs[part.number]}"]
        if part.kind == "output":
            value = graph.outputs[part.number]
            name = "output" if len(graph.outputs) == 1 else f"output {part.number}"
            return name, [f"%{value} {graph.specs[value]}"]
        return f"%{part.number}", []

    def _lines(self, number: int) -> list[str]:
        told = () if self.notes is None else self.notes.lines.get(number, ())
        return [*labels.lines(self.graph, self.graph.nodes[number]), *told]

    def _size(self, index: int) -> tuple[float, float]:
        part = self.layers.parts[index]
        if part.kind == "bend":
            return 0.0, 0.0
        width, height = svg.text_size(*self.texts[index])
        if part.kind != "node" or not self.bodies[part.number]:
            return width, height
        frames = [_framed(picture) for _, picture in self.bodies[part.number]]
        inner = sum(w for w, _ in frames) + svg.PADDING * (len(frames) + 1)
        return max(width, inner), height + max(h for _, h in frames) + svg.PADDING

    def _line(self, link: Link, value: int) -> str:
        source, target = self.boxes[link.source], self.boxes[link.target]
        x = source.x + source.width * link.leaves
        points = [(x, source.y + source.height), (x, self.bottoms[source.layer])]
        points.append((target.x + target.width * link.enters, target.y))
        arrow = _ARROW if target.width else None
        note = f"%{value}: {self.graph.specs[value]}"
        told = self._told(link, value)
        if not told:
            return svg.curve(points, arrow, note)
        line = svg.curve(points, arrow, f"{note}; {told}", kind="line told")
        key = f"%{value} {told}"
        if key in self._noted:
            return line
        # Once for a value and a group, where its line begins.
        self._noted.add(key)
        below = points[1][1] + svg.LINE_HEIGHT
        return line + svg.label(x + svg.PADDING / 2, below, told, "told")

    def _told(self, link: Link, value: int) -> str:
        """Return the text beside a line of a value to a node."""
        part = self.layers.parts[link.target]
        if self.notes is None or part.kind != "node":
            return ""
        return self.notes.values.get((value, self.notes.groups[part.number]), "")

    def _marks(self, index: int) -> list[str]:
        part, box = self.layers.parts[index], self.boxes[index]
        if part.kind == "bend":
            return []
        name, lines = self.texts[index]
        size = (box.width, box.height)
        marks = svg.words(box.x, box.y, name, lines, box.width)
        if part.kind == "node":
            return self._node(part.number, box.x, box.y, size, marks)
        if part.kind == "tag":
            return [svg.box(box.x, box.y, size, _TAG, radius=box.height / 2), *marks]
        kind = ""
        if part.kind == "input":
            kind = "host" if part.number in self.graph.host else ""
        group = [svg.box(box.x, box.y, size, _PILL, kind=kind, radius=14), *marks]
        if part.kind == "input" and part.number in self.layers.unused:
            return ['<g class="unused">', "<title>no node reads this input</title>", *group, "</g>"]
        return group

    def _node(
        self, number: int, x: float, y: float, size: tuple[float, float], text: list[str]
    ) -> list[str]:
        node = self.graph.nodes[number]
        if self.notes is None:
            colours = labels.COLOURS[labels.family(node.op)]
        else:
            colours = self.notes.colours(number)
        note = svg.clean(labels.note(self.graph, node))
        marks = ["<g>", f"<title>{note}</title>", svg.box(x, y, size, colours), *text]
        framed = self.bodies[number]
        spare = size[0] - svg.PADDING - sum(_framed(p)[0] + svg.PADDING for _, p in framed)
        left = x + svg.PADDING + spare / 2
        top = y + svg.text_size(node.op.name, self._lines(number))[1]
        for name, picture in framed:
            width, height = _framed(picture)
            marks.append(svg.box(left, top, (width, height), ("#fff", "#b9ae5a")))
            marks.append(svg.label(left + svg.PADDING, top + svg.LINE_HEIGHT, name))
            inset = left + (width - picture.width) / 2
            marks.append(_group(inset, top + svg.LINE_HEIGHT + svg.PADDING, picture.marks))
            left += width + svg.PADDING
        return [*marks, "</g>"]


def _framed(picture: _Picture) -> tuple[float, float]:
    """Return the size of a sub-graph's frame, its name included."""
    width = max(picture.width, 60.0) + 2 * svg.PADDING
    return width, picture.height + svg.LINE_HEIGHT + 2 * svg.PADDING


def _group(x: float, y: float, marks: list[str]) -> str:
    inner = "\n".join(marks)
    return f'<g transform="translate({svg.number(x)} {svg.number(y)})">\n{inner}\n</g>'


def _families(graph: Graph) -> set[str]:
    found = set()
    for node in graph.nodes:
        found.add(labels.family(node.op))
        for _, body in labels.bodies(node):
            found |= _families(body)
    return found


def _legend(colours: Mapping[str, tuple[str, str]]) -> tuple[list[str], float]:
    """Return the marks of the legend, of names and their colours, and its width."""
    marks: list[str] = []
    x = 0.0
    for name, pair in colours.items():
        marks.append(svg.box(x, 0, (_SWATCH, _SWATCH), pair, radius=2))
        marks.append(svg.label(x + _SWATCH + 4, _SWATCH - 2, name))
        x += _SWATCH + 4 + svg.text_size("", [name])[0]
    return marks, x
