"""Pictures of drawn graphs: each node, value and use is there, once, where it belongs, and apart.

The picture is read as a viewer reads it: boxes and texts at their places on the page, lines with
both ends. Graphs are drawn with branches, loops, values that are used far below, inputs that nobody
reads, and notes.
"""

from __future__ import annotations

import inspect
import re
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32
from calor.errors import ArgumentError
from calor.graph.graph import Graph

from .base import Check, Place

CONTRACT: Final = "a picture of a graph has each node and use at a place of its own, and its notes"
PACKAGE: Final = "calor_drawing"
_GRAPHS: Final = 8
_NEAR: Final = 0.11
# Families of ops that are drawn in one colour each.
_FAMILIES: Final = {
    "tanh": "elementwise", "add": "elementwise", "reshape": "movement", "permute": "movement",
    "flip": "movement", "sum": "reduction", "max": "reduction", "dot_general": "contraction",
    "gather": "indexing", "sort": "indexing", "cond": "control", "scan": "control",
    "while_loop": "control", "full": "source", "softmax": "composite",
}  # fmt: skip
Rng = np.random.Generator


def _graph(rng: Rng) -> Graph:
    """Return a graph of a drawn program."""
    steps = rng.choice(
        ["tanh", "add", "turned", "sum", "product", "softmax", "sort", "cond", "scan", "constant",
         "split"],
        int(rng.integers(2, 14)),
    )  # fmt: skip
    picks = rng.integers(0, 1 << 20, (len(steps), 2))

    def program(*operands: Any) -> list[Any]:
        values = list(operands)
        for step, (a, b) in zip(steps, picks, strict=True):
            x, y = values[a % len(values)], values[b % len(values)]
            match str(step):
                case "tanh":
                    made = calor.tanh(x)
                case "add":
                    made = x + y
                case "turned":
                    made = calor.flip(x.mT, axis=0).mT
                case "sum":
                    made = x - calor.sum(y, axis=0, keepdims=True)
                case "product":
                    made = x @ y.mT @ y
                case "softmax":
                    made = calor.softmax(x, axis=-1)
                case "sort":
                    made = calor.sort(x, axis=1)
                case "cond":
                    made = calor.cond(x.sum() > 0, calor.tanh, lambda v: v * 2 + 1, y)
                case "scan":
                    made = calor.scan(lambda c, v: (c + v, calor.tanh(c)), x[0], y)[1]
                case "constant":
                    made = x * calor.asarray(np.arange(4, dtype=np.float32))
                case _:
                    made = calor.concat([x[:1], y[1:]])
            values.append(made)
        return [values[-1], *([values[-2]] if picks[0, 0] % 2 else [])]

    given = [calor.zeros((3, 4)) for _ in range(int(rng.integers(1, 4)))]
    return calor.trace(program, *given)


@dataclass
class _Box:
    """A box of the page with the texts in it."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    kind: str
    title: str
    texts: list[str] = field(default_factory=list)

    def holds(self, x: float, y: float) -> bool:
        inside = self.x - _NEAR <= x <= self.x + self.width + _NEAR
        return inside and self.y - _NEAR <= y <= self.y + self.height + _NEAR


@dataclass
class _Line:
    title: str
    begin: tuple[float, float]
    end: tuple[float, float]
    kind: str


@dataclass
class _Page:
    """What a viewer sees of a picture, without what is in the frames of sub-graphs."""

    width: float
    height: float
    title: str
    boxes: list[_Box] = field(default_factory=list)
    lines: list[_Line] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    legend: dict[str, str] = field(default_factory=dict)


def _numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?[\d.]+", text)]


def _read(text: str) -> _Page:
    """Return the page of a picture: the marks of the graph itself, and the legend."""
    root = ET.fromstring(re.sub(r' xmlns="[^"]*"', "", text, count=1))
    width, height = (float(root.attrib[n]) for n in ("width", "height"))
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    title = root.find("title")
    page = _Page(width, height, "" if title is None else str(title.text))
    page.told = [str(t.text) for t in root.findall("text")]
    graph, *rest = root.findall("g")
    dx, dy = _numbers(graph.attrib["transform"])
    for mark in graph:
        _mark(page, mark, dx, dy)
    for group in rest:
        swatches = [r.attrib["fill"] for r in group.findall("rect")]
        names = [str(t.text) for t in group.findall("text")]
        page.legend = dict(zip(names, swatches, strict=True))
    return page


def _mark(page: _Page, mark: ET.Element, dx: float, dy: float) -> None:
    if mark.tag == "path":
        points = re.findall(r"-?[\d.]+ -?[\d.]+", mark.attrib["d"])
        ends = [_numbers(points[0]), _numbers(points[-1])]
        title = mark.find("title")
        (ax, ay), (bx, by) = ends
        page.lines.append(
            _Line(str(title.text if title is not None else ""), (ax + dx, ay + dy),
                  (bx + dx, by + dy), mark.attrib["class"])
        )  # fmt: skip
    elif mark.tag == "g":
        title = mark.find("title")
        box, *_ = mark.findall("rect")
        _box(page, box, dx, dy, "" if title is None else str(title.text), mark)
    elif mark.tag == "rect":
        _box(page, mark, dx, dy, "", None)
    elif mark.tag == "text" and mark.attrib.get("class") != "told":
        x, y = float(mark.attrib["x"]) + dx, float(mark.attrib["y"]) + dy
        holders = [b for b in page.boxes if b.holds(x, y)]
        assert len(holders) == 1, f"the text {mark.text} is in {len(holders)} boxes"
        holders[0].texts.append(str(mark.text))
    elif mark.tag == "text":
        page.told.append(str(mark.text))


def _box(
    page: _Page, rect: ET.Element, dx: float, dy: float, title: str, group: ET.Element | None
) -> None:
    x, y, width, height = (float(rect.attrib[n]) for n in ("x", "y", "width", "height"))
    box = _Box(x + dx, y + dy, width, height, rect.attrib["fill"], rect.attrib.get("class", ""),
               title)  # fmt: skip
    assert 0 <= box.x <= box.x + width <= page.width + _NEAR, f"{box} is beside the page"
    assert 0 <= box.y <= box.y + height <= page.height + _NEAR, f"{box} is beside the page"
    for other in page.boxes:
        apart = (
            box.x >= other.x + other.width or other.x >= box.x + width
            or box.y >= other.y + other.height or other.y >= box.y + height
        )  # fmt: skip
        assert apart, f"{box} is on {other}"
    page.boxes.append(box)
    if group is None:
        return
    for text in group.findall("text"):
        at = float(text.attrib["x"]) + dx, float(text.attrib["y"]) + dy
        # The names of frames within the node are not its own.
        if "text-anchor" in text.attrib:
            assert box.holds(*at), f"the text {text.text} is beside its box"
            box.texts.append(str(text.text))


def _node_boxes(page: _Page, graph: Graph) -> list[_Box]:
    """Return the box of each node, by the tooltip with its results."""
    found = []
    for node in graph.nodes:
        results = ", ".join(f"%{o}: {graph.specs[o]}" for o in node.outputs)
        head = f"{results} = {node.op.name}("[:590]
        boxes = [b for b in page.boxes if b.title.startswith(head)]
        assert len(boxes) == 1, f"{head} has {len(boxes)} boxes"
        box = boxes[0]
        assert box.texts[0] == node.op.name, f"{head} is named {box.texts[:1]}"
        for o in node.outputs[:3]:
            line = f"%{o} {graph.specs[o]}"
            assert line in box.texts, f"{head}: {line} is not among {box.texts}"
        found.append(box)
    return found


def _arrivals(page: _Page, box: _Box, value: int) -> list[float]:
    """Return where lines of a value reach a box, as shares of its width."""
    near = [
        line.end[0] for line in page.lines
        if line.title.startswith(f"%{value}: ") and abs(line.end[1] - box.y) <= _NEAR
        and box.x - _NEAR <= line.end[0] <= box.x + box.width + _NEAR
    ]  # fmt: skip
    return [(x - box.x) / box.width for x in near]


def _check(graph: Graph, page: _Page) -> None:
    inputs, nodes, outputs = len(graph.inputs), len(graph.nodes), len(graph.outputs)
    title = f"Graph of {inputs} inputs, {nodes} nodes, {outputs} outputs"
    assert page.title == title, f"the title is {page.title!r}, not {title!r}"
    boxes = _node_boxes(page, graph)
    kinds = [b.texts[0] for b in page.boxes if b.texts]
    assert kinds.count("input") + kinds.count("host input") == inputs, f"{kinds} of {inputs}"
    ends = [b for b in page.boxes if re.fullmatch(r"output( \d+)?", b.texts[0])]
    assert len(ends) == outputs, f"{len(ends)} outputs are drawn, not {outputs}"
    for v in graph.inputs:
        line = f"%{v} {graph.specs[v]}"
        assert any(line in b.texts and "input" in b.texts[0] for b in page.boxes), line
    for number, v in enumerate(graph.outputs):
        name = "output" if outputs == 1 else f"output {number}"
        held = [b for b in ends if b.texts[0] == name]
        assert held[0].texts[1] == f"%{v} {graph.specs[v]}", f"{name} is {held[0].texts}"
    made: dict[int, _Box] = {}
    for node, box in zip(graph.nodes, boxes, strict=True):
        for place, v in enumerate(node.inputs):
            if v in made:
                above = made[v]
                assert above.y + above.height < box.y, f"{box.title} is not below %{v}"
            want = (place + 1) / (len(node.inputs) + 1)
            found = _arrivals(page, box, v)
            near = any(abs(share - want) * box.width <= 2 * _NEAR for share in found)
            assert near, f"no line of %{v} reaches {box.title} at {want}: {found}"
        made.update(dict.fromkeys(node.outputs, box))
    for one in page.lines:
        assert one.begin[1] < one.end[1], f"the line of {one.title} goes up"
    rows = sorted({b.y for b in page.boxes})
    for a, b in pairwise(rows):
        assert b - a > 1, f"rows begin at {a} and {b}"


def _coloured(graph: Graph, page: _Page) -> None:
    for node, box in zip(graph.nodes, _node_boxes(page, graph), strict=True):
        family = _FAMILIES.get(node.op.name)
        if family is not None:
            want = page.legend.get(family)
            assert box.fill == want, f"{node.op.name} is {box.fill}, and {family} {want}"


def _noted(package: Any, graph: Graph, rng: Rng) -> None:
    """Groups have colours of their own, which the legend names; lines and a title are told."""
    names = ["left", "right", "<both>"]
    groups = [str(n) for n in rng.choice(names, len(graph.nodes))]
    at = int(rng.integers(len(graph.nodes)))
    lines = {at: ["told & noted", "twice"]}
    page = _read(package.graph_svg(graph, package.Notes(groups, lines, {}, "a title")))
    _check(graph, page)
    assert "a title" in page.told, f"the title is not among {page.told}"
    boxes = _node_boxes(page, graph)
    assert boxes[at].texts[-2:] == lines[at], f"{boxes[at].texts} misses {lines[at]}"
    wants = list(dict.fromkeys(groups))
    assert list(page.legend) == wants, f"the legend has {list(page.legend)}, not {wants}"
    assert len(set(page.legend.values())) == len(wants), "two groups have one colour"
    for box, group in zip(boxes, groups, strict=True):
        assert box.fill == page.legend[group], f"{box.title} of {group} is {box.fill}"


def _ask(rng: Rng) -> None:
    package = import_module(PACKAGE)
    graph = _graph(rng)
    text = package.graph_svg(graph)
    assert text == package.graph_svg(graph) == graph.svg(), "another picture at another time"
    page = _read(text)
    _check(graph, page)
    _coloured(graph, page)
    if graph.nodes:
        _noted(package, graph, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.SVG"
        (graph.draw if rng.random() < 0.5 else partial(package.draw, graph))(path)
        assert path.read_text("utf-8") == text, "the file is another picture"
        told = ""
        try:
            graph.draw(Path(folder) / "graph.png")
        except ArgumentError as error:
            told = str(error)
        assert 'graph.draw("graph.svg")' in told, f"for a PNG file is told {told!r}"


def _straight() -> None:
    """A chain is a straight line, and two chains beside each other do not cross."""
    graph = calor.trace(lambda x: calor.tanh(calor.tanh(calor.tanh(x))), calor.zeros(2))
    page = _read(import_module(PACKAGE).graph_svg(graph))
    middles = {round(b.x + b.width / 2) for b in page.boxes}
    assert max(middles) - min(middles) <= 1, f"a chain is at {middles}"
    pair = calor.trace(
        lambda x, y, z: (calor.tanh(z), calor.tanh(y), calor.tanh(x)), *[calor.zeros(2)] * 3
    )
    page = _read(import_module(PACKAGE).graph_svg(pair))
    lines = [(line.begin[0], line.end[0]) for line in page.lines]
    for a, b in lines:
        for c, d in lines:
            assert (a - c) * (b - d) >= -1, "lines cross that need not"


def _run(place: Place) -> None:
    for number in range(_GRAPHS):
        _ask(np.random.default_rng([place.seed, 951, number]))
    _straight()


def drawn_pictures() -> Iterator[Check]:
    """Yield the check, if calor-drawing is installed."""
    if find_spec(PACKAGE) is not None:
        yield Check(
            kind="graphs",
            subject="drawn-pictures",
            tier="full",
            contract=CONTRACT,
            run=_run,
            text=partial(inspect.getsource, _check),
            dtypes=(float32, bool_),
            looks=True,
        )
