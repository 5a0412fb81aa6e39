"""The text of graphs."""

import pytest

import calor
from calor.dtypes import float32
from calor.errors import GraphError
from calor.graph.graph import Builder, prune
from calor.ops import elementwise as e
from calor.specs import spec
from sample_graphs import GRAPHS, sample

TEXTS = {
    "empty": "graph() {\n  return \n}",
    "identity": "graph(%0: float32[2]) {\n  return %0, %0\n}",
    "hosts": """\
graph(%0: float32[2], %1: float32[] host, %2: float32[3] host) {
  %3: float32[1] = reshape(%1, shape=(1,))
  %4: float32[2] = expand(%3, shape=(2,))
  %5: float32[2] = mul(%0, %4)
  return %5, %0
}""",
    "constants": """\
graph() {
  %0: int16[2, 3] = constant(array=<int16[2, 3], 12 bytes>, weak=False)
  %1: int16[2, 3] = constant(array=<int16[2, 3], 12 bytes>, weak=False)
  %2: float32[0, 2] = full(value=nan, shape=(0, 2), dtype=float32)
  return %0, %1, %2
}""",
    "while": """\
graph(%0: float32[3]) {
  %1: float32[3] = while_loop(%0, captures=(0, 0))
    condition:
      graph(%0: float32[3]) {
        %1: float32[] = sum(%0, axes=(0,), dtype=float32)
        %2: float32[] = full(value=100.0, shape=(), dtype=float32)
        %3: bool[] = less(%1, %2)
        return %3
      }
    body:
      graph(%0: float32[3]) {
        %1: float32[3] = add(%0, %0)
        return %1
      }
  return %1
}""",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    assert sample(name).text() == TEXTS[name]


@pytest.mark.parametrize("name", GRAPHS)
def test_each_node_has_its_line(name: str) -> None:
    graph = sample(name)
    written = graph.text().splitlines()
    for node in graph.nodes:
        made = ", ".join(f"%{o}: {graph.specs[o]}" for o in node.outputs)
        assert any(line.startswith(f"  {made} = {node.op.name}(") for line in written)


@pytest.mark.parametrize("name", GRAPHS)
def test_equal_structure_is_equal_and_hashes_alike(name: str) -> None:
    with calor.device("numpy"):
        again = GRAPHS[name]()
    assert again == sample(name)
    assert hash(again) == hash(sample(name))
    others = [other for other in GRAPHS if other != name]
    assert all(sample(other) != again for other in others)


def test_prune_drops_what_no_output_needs_and_keeps_inputs() -> None:
    builder = Builder()
    x = builder.input(spec((2,), float32))
    builder.input(spec((3,), float32))
    (kept,) = builder.add(e.neg, [x])
    builder.add(e.exp, [kept])
    graph = prune(builder.build([kept]))
    assert [node.op.name for node in graph.nodes] == ["neg"]
    assert len(graph.inputs) == 2
    assert prune(graph) is graph


def test_last_uses_name_each_temporary_once() -> None:
    graph = sample("training step")
    ended = [v for ends in graph.last_uses() for v in ends]
    assert len(ended) == len(set(ended))
    made = {o for node in graph.nodes for o in node.outputs}
    assert set(ended) == made - set(graph.outputs)


def test_builder_refuses_late_inputs_and_wrong_counts() -> None:
    builder = Builder()
    (y,) = builder.add(e.neg, [builder.input(spec((2,), float32))])
    with pytest.raises(GraphError, match="inputs of a graph come before its first node"):
        builder.input(spec((2,), float32))
    with pytest.raises(GraphError, match="takes 5 inputs, not 1"):
        builder.inline(sample("training step"), [y])
