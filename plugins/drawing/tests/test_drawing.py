"""Pictures of graphs: well-formed, deterministic, complete, and nothing lies on anything else."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest

import calor
from calor.dtypes import float32
from calor.errors import ArgumentError
from calor.graph.graph import Builder, Graph, Node
from calor.ops import elementwise as e
from calor.ops.base import TABLE, find
from calor.specs import spec
from calor_drawing import Notes, graph_svg
from calor_drawing.labels import COLOURS, LINE_LIMIT, family, lines
from calor_drawing.layers import REACH, Layers
from calor_drawing.layout import Box, Link, place
from sample_graphs import GRAPHS, sample

SVG = "{http://www.w3.org/2000/svg}"


def texts(graph: Graph) -> list[str]:
    """Return the texts of the picture, in its order."""
    return [element.text or "" for element in ET.fromstring(graph.svg()).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", GRAPHS)
def test_every_node_input_and_output_is_drawn(name: str) -> None:
    graph = sample(name)
    written = texts(graph)
    for node in graph.nodes:
        assert node.op.name in written
        for v in node.outputs[:3]:
            assert any(text.startswith(f"%{v} ") for text in written)
    assert len([t for t in written if re.fullmatch("output( [0-9]+)?", t)]) >= len(graph.outputs)
    assert len([t for t in written if t in ("input", "host input")]) >= len(graph.inputs)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_view_box_holds_the_picture(name: str) -> None:
    root = ET.fromstring(sample(name).svg())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"

    def check(element: ET.Element, x: float, y: float) -> None:
        shift = re.findall(r"[-\d.]+", element.attrib.get("transform", "0 0"))
        x, y = x + float(shift[0]), y + float(shift[1])
        if element.tag == f"{SVG}rect" and element.attrib["width"] != "100%":
            left, top = x + float(element.attrib["x"]), y + float(element.attrib["y"])
            assert left >= 0
            assert top >= 0
            assert left + float(element.attrib["width"]) <= width
            assert top + float(element.attrib["height"]) <= height
        for child in element:
            if child.tag != f"{SVG}defs":
                check(child, x, y)

    check(root, 0, 0)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_same_structure_gives_the_same_bytes(name: str) -> None:
    with calor.device("numpy"):
        assert GRAPHS[name]().svg() == GRAPHS[name]().svg()


@pytest.mark.parametrize("name", GRAPHS)
def test_no_box_overlaps_another_and_lines_run_downwards(name: str) -> None:
    layers = Layers(sample(name))
    sizes = [(0.0, 0.0) if p.kind == "bend" else (90.0, 30.0) for p in layers.parts]
    boxes = layers.boxes(sizes)
    frame = place(boxes, layers.links)
    rows: dict[int, list[Box]] = {}
    for box in boxes:
        rows.setdefault(box.layer, []).append(box)
        assert -0.01 <= box.x <= box.x + box.width <= frame.width + 0.01
    for row in rows.values():
        for first, second in combinations(sorted(row, key=lambda b: b.x), 2):
            assert first.x + first.width < second.x
    for link in layers.links:
        assert boxes[link.source].layer + 1 == boxes[link.target].layer
        assert boxes[link.source].y + boxes[link.source].height < boxes[link.target].y


def test_inputs_are_on_top_and_outputs_below() -> None:
    layers = Layers(sample("training step"))
    for part, layer in zip(layers.parts, layers.layers, strict=True):
        assert part.kind != "input" or layer == 0
        assert part.kind != "output" or layer == max(layers.layers)


def test_every_use_is_joined_to_its_value() -> None:
    graph = sample("many")
    layers = Layers(graph)
    place_of = {part: i for i, part in enumerate(layers.parts) if part.kind == "node"}
    arriving: dict[int, list[int]] = {}
    for link, value in zip(layers.links, layers.values, strict=True):
        arriving.setdefault(link.target, []).append(value)
    for part, at in place_of.items():
        assert sorted(arriving.get(at, [])) == sorted(graph.nodes[part.number].inputs)


def test_a_use_far_below_is_joined_by_a_tag() -> None:
    def function(x: calor.Tensor) -> calor.Tensor:
        y = x
        for _ in range(REACH + 3):
            y = calor.tanh(y)
        return y + x

    layers = Layers(calor.trace(function, calor.ones(2)))
    assert [part.number for part in layers.parts if part.kind == "tag"] == [0]
    assert [part.number for part in layers.parts if part.kind == "bend"] == []


def test_the_parts_of_a_long_graph_grow_with_its_nodes_only() -> None:
    graph = sample("many")
    operands = sum(len(node.inputs) for node in graph.nodes) + len(graph.outputs)
    assert len(Layers(graph).parts) <= len(graph.nodes) + (REACH + 1) * operands


def test_a_long_chain_does_not_wander_off() -> None:
    root = ET.fromstring(sample("many").svg())
    assert float(root.attrib["width"]) < 2000 < float(root.attrib["height"])


def test_crossings_are_taken_out() -> None:
    boxes = [Box(layer, 50, 20) for layer in (0, 0, 0, 1, 1, 1)]
    place(boxes, [Link(0, 5), Link(1, 4), Link(2, 3)])
    assert (boxes[0].x < boxes[1].x < boxes[2].x) == (boxes[5].x < boxes[4].x < boxes[3].x)


def test_sub_graphs_are_framed_in_their_node() -> None:
    written = texts(sample("scan"))
    assert {"body", "then", "otherwise"} <= set(written)
    assert written.index("scan") < written.index("body") < written.index("cond")


def test_host_and_unused_inputs_are_marked() -> None:
    root = ET.fromstring(sample("hosts").svg())
    kinds = [r.attrib.get("class") for r in root.iter(f"{SVG}rect")]
    assert kinds.count("host") == 2
    unused = [g for g in root.iter(f"{SVG}g") if g.attrib.get("class") == "unused"]
    (group,) = unused
    assert "%2 float32[3]" in "".join(group.itertext())


@pytest.mark.parametrize("text", ["<b>&\"'</b>", "]]>", "\x00\x1b[0m", "\ud800", "\ufffe", "π≤"])
def test_text_from_a_graph_cannot_break_the_file(text: str) -> None:
    node = Node(e.neg, (0,), {text: text}, (1,))
    graph = Graph([spec((2,), float32)] * 2, (), [node], [1], 1)
    ET.fromstring(graph.svg().encode())
    if text.isprintable():
        assert any(text in written for written in texts(graph))


def test_long_labels_are_shortened_and_whole_in_the_tooltip() -> None:
    node = Node(e.neg, (0,), {"path": "a" * 100}, (1,))
    graph = Graph([spec((2,), float32)] * 2, (), [node], [1], 1)
    assert all(len(line) <= LINE_LIMIT for line in lines(graph, node))
    assert "a" * 100 in graph.svg()
    assert not any("a" * 50 in written for written in texts(graph))


def test_attributes_that_say_nothing_are_left_out() -> None:
    node = Node(e.neg, (0,), {"a": None, "b": False, "c": ((), ()), "axis": 0, "shape": (2,)}, (1,))
    graph = Graph([spec((2,), float32)] * 2, (), [node], [1], 1)
    assert lines(graph, node) == ["%1 float32[2]", "axis=0"]


def test_every_op_of_core_has_a_family() -> None:
    find("solve")
    assert [name for name, row in TABLE.items() if family(row) == "other"] == ["input"]


def test_colours_are_named_in_the_legend() -> None:
    written = texts(sample("training step"))
    for named in ("elementwise", "contraction", "reduction", "source"):
        assert named in written
    assert "control" not in written
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_draw_writes_the_picture(tmp_path: Path) -> None:
    graph = sample("scan")
    graph.draw(tmp_path / "scan.svg")
    graph.draw(str(tmp_path / "again.SVG"))
    assert (tmp_path / "scan.svg").read_text(encoding="utf-8") == graph.svg()
    assert (tmp_path / "again.SVG").read_text(encoding="utf-8") == graph.svg()


@pytest.mark.parametrize("name", ["graph.png", "graph.pdf", "graph"])
def test_other_formats_say_how_to_convert(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArgumentError, match=r"rsvg-convert -o graph\.png graph\.svg"):
        sample("scan").draw(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_graph_without_inputs_or_nodes_is_drawn() -> None:
    assert "0 inputs, 0 nodes, 0 outputs" in Builder().build([]).svg()


def test_notes_colour_groups_and_mark_values() -> None:
    graph = calor.trace(lambda x: calor.tanh(calor.exp(x)) + calor.exp(x), calor.ones(2))
    exp, tanh, add = (v for node in graph.nodes for v in node.outputs)
    notes = Notes(
        ["here", "there", "here"],
        {1: ["because <of> it"]},
        {(exp, "there"): "8 B over", (tanh, "here"): "8 B back", (add, "here"): "nowhere"},
        "a title & more",
    )
    text = graph_svg(graph, notes)
    fills = re.findall(r'rx="4" fill="(#\w+)"', text)
    assert len(set(fills)) == 2
    assert fills.count(fills[0]) == 2
    for said in (">because &lt;of&gt; it<", ">a title &amp; more<", ">here<", ">there<"):
        assert said in text
    assert text.count(">8 B over<") == text.count(">8 B back<") == 1
    assert text.count('class="line told"') == 2
    assert "nowhere" not in text, "no node reads it"
    assert text == graph_svg(graph, notes)
