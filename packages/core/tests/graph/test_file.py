"""The file form: what is saved comes back, and a hostile file is refused with a GraphError."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.numpy_backend import NumpyBackend
from calor.dtypes import ALL, float32
from calor.errors import GraphError
from calor.graph.file import FORMAT, MAGIC, load, save
from calor.graph.graph import Builder, Graph
from calor.graph.interpreter import interpret
from calor.ops import elementwise as e
from calor.ops.base import TABLE, Scalar, op
from calor.ops.rules import numbers
from calor.ops.sources import HostArray, constant, full
from calor.specs import spec
from sample_graphs import GRAPHS, sample
from sample_graphs import TABLE as ARRAY


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_saved_comes_back(name: str) -> None:
    graph = sample(name)
    again = load(save(graph))
    assert again == graph
    assert again.specs == graph.specs
    assert again.host == graph.host
    assert again.text() == graph.text()
    assert save(again) == save(graph)


@pytest.mark.parametrize("name", ["training step", "scan", "while", "convolution", "hosts"])
def test_what_comes_back_computes_the_same(name: str) -> None:
    graph = sample(name)
    given = [np.full(s.shape, 0.5, s.dtype.numpy) for s in graph.input_specs]
    for found, wanted in zip(
        interpret(load(save(graph)), given), interpret(graph, given), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_numbers_and_arrays_of_every_type_keep_their_bits(dtype: Any) -> None:
    builder = Builder()
    value = Scalar.of(1, dtype)
    array = HostArray.of(np.ones((2, 0, 3), dtype.numpy))
    (first,) = builder.add(full, [], {"value": value, "shape": (2,), "dtype": dtype})
    (second,) = builder.add(constant, [], {"array": array, "weak": False})
    graph = builder.build([first, second])
    again = load(save(graph))
    assert again == graph
    assert again.nodes[0].attributes["dtype"] is dtype


def test_equal_constants_are_stored_once() -> None:
    assert save(sample("constants")).count(ARRAY.tobytes()) == 1


def test_bits_of_nan_and_of_minus_zero_are_kept() -> None:
    for bits in (b"\x01\x00\xa0\x7f", b"\x00\x00\x00\x80"):
        builder = Builder()
        attributes = {"value": Scalar("float32", bits), "shape": (), "dtype": float32}
        graph = load(save(builder.build(builder.add(full, [], attributes))))
        assert graph.nodes[0].attributes["value"].bits == bits


def test_the_reference_stores_its_executables() -> None:
    backend = NumpyBackend()
    graph = sample("training step")
    stored = backend.serialize(0, backend.compile(0, graph))
    assert backend.deserialize(0, stored).graph == graph


def test_a_new_process_reads_ops_that_it_has_not_imported(tmp_path: Any) -> None:
    (tmp_path / "graph").write_bytes(save(sample("linear algebra")))
    program = (
        "import sys; from pathlib import Path; from calor.graph.file import load; "
        "print([node.op.name for node in load(Path(sys.argv[1]).read_bytes()).nodes])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "graph")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "['svd', 'cholesky']", done.stderr


def test_an_op_of_a_package_that_is_not_imported_is_named() -> None:
    row = op("tests.unknown", numbers, decompose=lambda x: x)
    builder = Builder()
    x = builder.input(spec((2,), float32))
    try:
        stored = save(builder.build(builder.add(row, [x])))
        assert load(stored).nodes[0].op is row
    finally:
        del TABLE["tests.unknown"]
    with pytest.raises(GraphError, match="import the package that adds the ops of 'tests'"):
        load(stored)


def test_a_graph_that_breaks_the_grammar_is_not_saved() -> None:
    graph = Graph([spec((2,), float32)], (), [], [1], 1)
    with pytest.raises(GraphError, match="order: the graph returns %1, which does not exist"):
        save(graph)


Header = dict[str, Any]


def parts(data: bytes) -> tuple[Header, bytes]:
    length = int.from_bytes(data[8:16], "little")
    return json.loads(data[16 : 16 + length]), data[16 + length :]


def assemble(header: Any, rest: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MAGIC + len(text).to_bytes(8, "little") + text + rest


def put(*path: Any, value: Any) -> Callable[[Header], None]:
    """Return a change of a header: the entry at a path becomes a value."""

    def change(header: Header) -> None:
        place: Any = header
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


def both(*changes: Callable[[Header], None]) -> Callable[[Header], None]:
    def change(header: Header) -> None:
        for part in changes:
            part(header)

    return change


def drop(name: str) -> Callable[[Header], None]:
    def change(header: Header) -> None:
        del header[name]

    return change


NODE = ("graphs", -1, "nodes", 0)
HUGE = 1 << 62

# Of the graph "hosts" (an expand and a mul), unless the row names another.
CHANGES: dict[str, tuple[str, Callable[[Header], None], str]] = {
    "newer format": (
        "hosts",
        put("format", value=FORMAT + 1),
        f"format {FORMAT + 1}, this calor reads up to {FORMAT}: pip install --upgrade calor",
    ),
    "format of no release": ("hosts", put("format", value=0), "the unknown format 0"),
    "format of another type": ("hosts", put("format", value=True), "the unknown format True"),
    "format as text": ("hosts", put("format", value="1"), "the unknown format '1'"),
    "no format": ("hosts", drop("format"), "damaged: KeyError"),
    "no ops": ("hosts", drop("ops"), "damaged: KeyError"),
    "no graphs": ("hosts", put("graphs", value=[]), "the file holds 0 graphs"),
    "newer op": (
        "hosts",
        put("ops", 0, value=["fold", "7.3"]),
        "op 'fold', which this calor does not have; it came with calor 7.3: pip install --upgrade",
    ),
    "op without a name": ("hosts", put("ops", 0, value=[None, "1"]), "op None"),
    "op that is a list": ("hosts", put("ops", 0, value=[[], "1"]), "damaged: TypeError"),
    "op of traces": ("hosts", put("ops", 0, value=["input", "0.1"]), "op 'input' belongs to"),
    "another op": (
        "hosts",
        put("ops", 2, value=["sort", "0.1"]),
        "operands: sort of 2 operands: too many",
    ),
    "op out of the table": ("hosts", put(*NODE, 0, value=99), "entry 99 of a table of 3"),
    "op below the table": ("hosts", put(*NODE, 0, value=-1), "entry -1 of a table of 3"),
    "op that is true": ("hosts", put(*NODE, 0, value=True), "entry True of a table"),
    "huge size": ("hosts", put("specs", 0, 1, value=[HUGE]), "is larger than"),
    "huge product": ("hosts", put("specs", 0, 1, value=[1 << 40, 1 << 40]), "is larger than"),
    "huge beside nothing": ("hosts", put("specs", 0, 1, value=[HUGE, 0]), "is larger than"),
    "negative size": ("hosts", put("specs", 0, 1, value=[-2]), "a size that is no count"),
    "many axes": ("hosts", put("specs", 0, 1, value=[1] * 99), "99 axes are more than 64"),
    "size that is true": ("hosts", put("specs", 0, 1, value=[True]), "no list of whole numbers"),
    "size that is broken": ("hosts", put("specs", 0, 1, value=[2.5]), "no list of whole numbers"),
    "shape that is text": ("hosts", put("specs", 0, 1, value="ab"), "no list of whole numbers"),
    "unknown type": ("hosts", put("specs", 0, 0, value="float7"), "damaged: DTypeError.*float7"),
    "weakness": ("hosts", put("specs", 0, 2, value=0), "a spec's weakness is 0"),
    "wrong spec": ("hosts", put("specs", 0, 1, value=[5]), "specs: .*(the graph says|refuses)"),
    "spec out of the table": ("hosts", put(*NODE, 3, value=[7]), "entry 7 of a table"),
    "output too many": ("hosts", put(*NODE, 3, value=[0, 0]), "specs: .* the graph says"),
    "forward reference": ("hosts", put(*NODE, 1, value=[5]), "order: reshape reads %5 before"),
    "its own result": ("hosts", put(*NODE, 1, value=[3]), "order: reshape reads %3 before"),
    "negative operand": ("hosts", put(*NODE, 1, value=[-1]), "order: reshape reads %-1 before"),
    "operand as text": ("hosts", put(*NODE, 1, value=["0"]), "no list of whole numbers"),
    "operand too many": ("hosts", put(*NODE, 1, value=[0, 1]), "operands: reshape of 2 operands"),
    "result that is not there": ("hosts", put("graphs", 0, "outputs", value=[9]), "returns %9"),
    "host that is no input": ("hosts", put("graphs", 0, "host", value=[3]), "counts: %3 is host"),
    "attribute unknown": ("hosts", put(*NODE, 2, "colour", value=1), "operands: .*'colour'"),
    "attribute missing": ("hosts", put(*NODE, 2, value={}), "operands: .*'shape'"),
    "attribute of another type": (
        "hosts",
        put(*NODE, 2, "shape", value="wide"),
        "specs: reshape .* refuses",
    ),
    "attribute of no kind": (
        "hosts",
        put(*NODE, 2, "shape", value={"module": "os"}),
        "of kind 'module', which the format does not have",
    ),
    "attribute of two kinds": (
        "hosts",
        put(*NODE, 2, "shape", value={"spec": 0, "array": 0}),
        "which the format does not have",
    ),
    "number as an attribute": (
        "hosts",
        put(*NODE, 2, "shape", value=1.5),
        "attribute is 1.5, which the format does not have",
    ),
    "float that is none": (
        "hosts",
        put(*NODE, 2, "shape", value={"float": "many"}),
        "damaged: ValueError",
    ),
    "graph that is not there": (
        "hosts",
        put(*NODE, 2, "shape", value={"graph": 0}),
        "entry 0 of a table of 0 does not exist",
    ),
    "graph within itself": (
        "while",
        put("graphs", 1, "nodes", 0, 2, "body", value={"graph": 1}),
        "(entry 1 of a table of 1|refuses)",
    ),
    "later graph": ("while", put(*NODE, 2, "body", value={"graph": 2}), "entry 2 of a table of 2"),
    "branches swapped": (
        "while",
        put(*NODE, 2, "condition", value={"graph": 1}),
        "the condition must return a 0-d bool",
    ),
    "scalar too short": (
        "constants",
        put("graphs", -1, "nodes", 2, 2, "value", value={"scalar": ["float32", "00"]}),
        "attributes: full: value: float32.. has 4 bytes, 1 are there",
    ),
    "scalar in no hexadecimal": (
        "constants",
        put("graphs", -1, "nodes", 2, 2, "value", value={"scalar": ["float32", "xyz"]}),
        "damaged: ValueError",
    ),
    "constant too long": ("constants", put("constants", 0, 2, value=999), "has 999 bytes, or is"),
    "constant too large": (
        "constants",
        put("constants", 0, value=["int16", [1 << 40], 1 << 41]),
        "or is cut off",
    ),
    "constant of negative size": (
        "constants",
        put("constants", 0, value=["int16", [-3], -6]),
        "no count",
    ),
    "constant of another shape": (
        "constants",
        put("constants", 0, 1, value=[3, 2]),
        r"constant of \(\) makes .*\[3, 2\].*, the graph says",
    ),
    "constants forgotten": ("constants", put("constants", value=[]), "12 bytes follow the last"),
    "iota without end": (
        "constants",
        both(
            put("ops", 1, value=["iota", "0.1"]),
            put(
                *("graphs", -1, "nodes", 2, 2),
                value={"length": 10**30, "dtype": {"dtype": "float32"}},
            ),
        ),
        "specs: iota of .*, the graph says",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_hostile_header_is_refused(case: str) -> None:
    name, change, match = CHANGES[case]
    header, rest = parts(save(sample(name)))
    change(header)
    with pytest.raises(GraphError, match=match):
        load(assemble(header, rest))


TEXTS = {
    "no JSON": (b"{", "damaged: JSONDecodeError"),
    "no object": (b"[]", "damaged: TypeError"),
    "no UTF-8": (b"\xff\xfe\xfd", "damaged: UnicodeDecodeError"),
    "nested": (b"[" * 100_000, "nested too deep"),
    "nested attribute": (
        b'{"format":1,"ops":[["neg","0.1"]],"specs":[],"constants":[],"graphs":[{"inputs":[],'
        b'"host":[],"nodes":[[0,[],{"a":' + b"[" * 50 + b"]" * 50 + b'},[]]],"outputs":[]}]}',
        "nested more than 16 deep",
    ),
    "NaN": (b'{"format":NaN}', "holds NaN, which is no JSON"),
    "infinity": (b'{"format":-Infinity}', "holds -Infinity, which is no JSON"),
    "endless number": (b'{"format":' + b"9" * 10_000 + b"}", "damaged: ValueError"),
    "empty": (b"", "damaged: JSONDecodeError"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_header_that_is_no_header_is_refused(case: str) -> None:
    text, match = TEXTS[case]
    with pytest.raises(GraphError, match=match):
        load(assemble(text, b""))


def test_another_kind_of_file_is_refused() -> None:
    for data in (b"", b"CALORGR", b"PK\x03\x04" + bytes(100), save(sample("hosts"))[1:]):
        with pytest.raises(GraphError, match="this is not a graph file"):
            load(data)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 20])
def test_a_header_longer_than_the_file_is_not_read(length: int) -> None:
    data = save(sample("hosts"))
    with pytest.raises(GraphError, match=f"cut off or damaged: a header of {length} bytes"):
        load(data[:8] + length.to_bytes(8, "little") + data[16:])


@pytest.mark.parametrize("name", ["constants", "while"])
def test_a_file_cut_off_anywhere_is_refused(name: str) -> None:
    data = save(sample(name))
    for length in range(len(data)):
        with pytest.raises(GraphError):
            load(data[:length])


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(GraphError, match="3 bytes follow the last constant"):
        load(save(sample("constants")) + b"abc")


@pytest.mark.parametrize("name", ["constants", "hosts", "scan", "types", "indexing"])
def test_flipped_bytes_give_a_graph_or_a_graph_error(name: str) -> None:
    data = save(sample(name))
    chance = random.Random(name)
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            graph = load(bytes(damaged))
        except GraphError:
            refused += 1
        else:
            # What is accepted is a graph in every respect.
            assert load(save(graph)) == graph
    assert refused > 200


@pytest.mark.parametrize("name", ["constants", "hosts", "scan"])
def test_digits_that_were_changed_give_a_graph_or_a_graph_error(name: str) -> None:
    header, rest = parts(save(sample(name)))
    text = json.dumps(header)
    places = [i for i, c in enumerate(text) if c.isdigit()]
    chance = random.Random(name)
    for _ in range(300):
        i = chance.choice(places)
        other = chance.choice(["-1", "0", "1", "7", str(HUGE), "1e3", "null", "true", '"1"', "[]"])
        try:
            graph = load(assemble((text[:i] + other + text[i + 1 :]).encode(), rest))
        except GraphError:
            continue
        assert load(save(graph)) == graph


def test_loading_runs_no_reference_and_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = save(sample("training step"))
    monkeypatch.setattr(NumpyBackend, "compile", None)
    monkeypatch.setattr("calor.graph.interpreter.interpret", None)
    assert len(load(data).nodes) == len(sample("training step").nodes)


def test_deep_graphs_come_back() -> None:
    builder = Builder()
    x = builder.input(spec((2,), float32))
    for _ in range(5000):
        (x,) = builder.add(e.neg, [x])
    graph = builder.build([x])
    assert load(save(graph)) == graph


def test_the_file_of_a_traced_function_computes_on_a_device() -> None:
    graph = load(save(calor.trace(lambda x: x * 2 + 1, calor.ones(3))))
    assert interpret(graph, [np.ones(3, np.float32)])[0].tolist() == [3, 3, 3]
