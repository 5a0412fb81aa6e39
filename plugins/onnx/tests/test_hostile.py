"""Models that are damaged or made to do harm: refused by name, with nothing read or taken."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import calor_onnx
from calor_onnx import ModelError, UnsupportedOperatorsError
from calor_onnx.limits import BYTES

HEAD = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>'
ADD = "f (float[N] x) => (float[N] y) { [sum] y = Add (x, x) }"


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text if text.startswith("<") else f"{HEAD} {text}")


def changed(change: Callable[[onnx.ModelProto], Any], text: str = ADD) -> onnx.ModelProto:
    proto = parsed(text)
    change(proto)
    return proto


def weight(**fields: Any) -> onnx.ModelProto:
    """A model with one constant, some of whose fields are other than they should be."""
    proto = parsed("f (float[N] x) => (float[N] y) { y = Add (x, w) }")
    held = proto.graph.initializer.add()
    held.name, held.data_type = "w", TensorProto.FLOAT
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(held, name).extend(value)
        else:
            setattr(held, name, value)
    return proto


def nested(depth: int) -> onnx.ModelProto:
    """Branches within branches."""
    proto = parsed("f (bool c) => (float[1] y) { z = Neg (c) }")
    graph = proto.graph
    for _ in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=["y"])
        attribute = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        graph = attribute.g
    return proto


def chain(depth: int, calls: int, last: str = "Relu (x)") -> onnx.ModelProto:
    """Functions that each call the next one several times."""
    text = f"{HEAD} f (float[2] x) => (float[2] y) {{ y = mine.F0 (x) }}"
    for place in range(depth):
        body, name = "", "x"
        for turn in range(calls):
            body += f" a{turn} = mine.F{place + 1} ({name})"
            name = f"a{turn}"
        text += f' <domain: "mine", opset_import: ["" : 17, "mine" : 1]> F{place} (x) => ({name})'
        text += f" {{{body} }}"
    text += f' <domain: "mine", opset_import: ["" : 17, "mine" : 1]> F{depth} (x) => (y)'
    return parsed(text + f" {{ y = {last} }}")


LOADING = {
    "nothing": (b"\xff\xff\xff\xff", "no ONNX model"),
    "cut short": (parsed(ADD).SerializeToString()[:-9], "cut short|no graph|which nothing"),
    "no graph": (onnx.ModelProto(ir_version=8), "no graph"),
    "a ring of nodes": (
        parsed("f (float[N] x) => (float[N] y) { [one] a = Add (x, y) y = Neg (a) }"),
        "one is in a circle",
    ),
    "a function that calls itself": (chain(2, 1, "mine.F0 (x)"), "F0' calls itself"),
    "functions that are too deep": (chain(80, 1), "50 deep"),
    "functions that double": (chain(40, 2), "nodes with the functions that it calls"),
    "branches that are too deep": (nested(60), "nested more than 50 deep"),
    "two values of a name": (
        parsed("f (float[N] x) => (float[N] y) { y = Neg (x) [again] y = Neg (x) }"),
        "again defines 'y'",
    ),
    "a value of an input's name": (
        parsed("f (float[N] x) => (float[N] x) { [again] x = Neg (x) }"), "again defines 'x'",
    ),
    "two constants of a name": (
        changed(lambda p: p.graph.initializer.extend([p.graph.initializer[0]]),
                "f (float[1] x) => (float[1] y) <float[1] w = {1}> { y = Add (x, w) }"),
        "two constants have the name 'w'",
    ),
    "a value that nothing makes": (
        parsed("f (float[N] x) => (float[N] y) { y = Add (x, z) }"),
        "'z', which no node, input or constant defines",
    ),
    "an output that nothing makes": (
        parsed("f (float[N] x) => (float[N] z) { y = Add (x, x) }"),
        "'z', which no node, input or constant defines",
    ),
    "an operand too few": (
        parsed("f (float[N] x) => (float[N] y) { [sum] y = Add (x) }"), "sum: Add takes 2 inputs",
    ),
    "a result too many": (
        parsed("f (float[N] x) => (float[N] y) { [sum] y, z = Add (x, x) }"), "up to 1 outputs",
    ),
    "an attribute of another type": (
        parsed("""f (float[N] x) => (float[N] y) { [wrong] y = Softmax <axis = "last"> (x) }"""),
        "wrong: the attribute 'axis' of Softmax is of type int",
    ),
    "an attribute of no type": (
        changed(lambda p: p.graph.node[0].attribute.add(name="axis", type=0)),
        "'axis' has the type 0, which ONNX lacks",
    ),
    "an opset of the future": (
        parsed(f'<ir_version: 8, opset_import: ["" : 999]> {ADD}'),
        "opset 999, and this version knows",
    ),
    "an operator that there is not": (
        parsed("f (float[N] x) => (float[N] y) { [odd] y = Addd (x, x) }"), "Addd .*: odd",
    ),
    "a domain that there is not": (
        parsed("f (float[N] x) => (float[N] y) { [odd] y = mine.Add (x, x) }"), "mine::Add .*odd",
    ),
    "a negative size": (weight(dims=[-4], raw_data=b""), "w: shape .* negative"),
    "terabytes of which there are none": (weight(dims=[2**40], raw_data=b"1234"), "w: .* damaged"),
    "sizes whose product overflows": (weight(dims=[2**32, 2**32, 2**32]), "w: the elements"),
    "bytes too few": (weight(dims=[4], raw_data=b"1234567"), "w: .* needs 16 bytes, not 7"),
    "bytes too many": (weight(dims=[1], raw_data=b"12345678"), "w: .* needs 4 bytes, not 8"),
    "numbers too few": (weight(dims=[4], float_data=[1.0]), "w: the elements do not fit"),
    "a type that there is not": (weight(dims=[1], data_type=99), "w has the element type 99"),
    "texts as raw bytes": (weight(dims=[1], data_type=8, raw_data=b"abcd"), "w: strings"),
    "texts that are not UTF-8": (
        weight(dims=[1], data_type=8, string_data=[b"\xff\xfe"]), "w: the elements do not fit",
    ),
    "a name that is not UTF-8": (
        parsed(ADD.replace("sum", "marker")).SerializeToString()
        .replace(b"marker", b"mark\xff\xfe"),
        "not UTF-8|no ONNX model",
    ),
    "a file beside bytes": (weight(dims=[1], data_location=1), "load the model by its path"),
    "a sparse constant of terabytes": (
        changed(lambda p: p.graph.sparse_initializer.append(helper.make_sparse_tensor(
            numpy_helper.from_array(np.ones(1, np.float32), "w"),
            numpy_helper.from_array(np.zeros(1, np.int64), "w_indices"), [2**45]))),
        "the sparse tensor 'w' has the shape .* bytes",
    ),
    "a sparse constant beyond its shape": (
        changed(lambda p: p.graph.sparse_initializer.append(helper.make_sparse_tensor(
            numpy_helper.from_array(np.ones(1, np.float32), "w"),
            numpy_helper.from_array(np.full(1, 9, np.int64), "w_indices"), [3]))),
        "the sparse tensor 'w'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADING)
def test_what_is_wrong_is_told_when_it_is_loaded(name: str) -> None:
    source, message = LOADING[name]
    with pytest.raises((ModelError, UnsupportedOperatorsError), match=message):
        calor_onnx.load(source, device="numpy")


# name: (model, inputs, message)
RUNNING = {
    "ConstantOfShape": ("""f (int64[2] n) => (float[A,B] y) { [huge] y = ConstantOfShape (n) }""",
                        [[2**30, 2**30]], "huge has the shape"),
    "ConstantOfShape, negative": (
        "f (int64[1] n) => (float[A] y) { [odd] y = ConstantOfShape (n) }", [[-5]], "negative size",
    ),
    "Expand": ("f (float[1] x, int64[2] n) => (float[A,B] y) { [huge] y = Expand (x, n) }",
               [[1.0], [2**30, 2**30]], "huge has the shape"),
    "Expand of a constant": (
        """f (float[1] x) => (float[A,B] y)
            <int64[2] n = {1073741824, 1073741824}, float[1] c = {1}> {
            [huge] d = Expand (c, n) y = Add (d, x) }""", [[1.0]], "huge has the shape",
    ),
    "Tile": ("f (float[1] x, int64[1] n) => (float[A] y) { [huge] y = Tile (x, n) }",
             [[1.0], [2**50]], "huge has the shape"),
    "Range": (("f (int64 n) => (int64[A] y) <int64 a = {0}, int64 d = {1}> "
              "{ [huge] y = Range (a, n, d) }"), [2**60], "huge has the shape"),
    "Range without a step": (("f (int64 n) => (int64[A] y) <int64 a = {0}, int64 d = {0}> "
                             "{ [odd] y = Range (a, n, d) }"), [3], "odd: Range has a step of 0"),
    "Pad": ("f (float[1] x, int64[2] n) => (float[A] y) { [huge] y = Pad (x, n) }",
            [[1.0], [2**50, 0]], "huge has the shape"),
    "OneHot": (("f (int64[1] x, int64 n) => (float[A,B] y) <float[2] v = {0, 1}> "
               "{ [huge] y = OneHot (x, n, v) }"), [[0], 2**50], "bytes"),
    "RandomNormal": (("f (float[1] x) => (float[A] y) { [huge] r = RandomNormal "
                     "<shape = [1099511627776]> () y = Add (r, x) }"), [[1.0]], "huge has"),
    "Resize": ("""f (float[1,1,2,2] x, int64[4] n) => (float[A,B,C,D] y) {
                   [huge] y = Resize <mode = "nearest"> (x, , , n) }""",
               [np.ones((1, 1, 2, 2), np.float32), [1, 1, 2**45, 2**45]], "shape|sizes"),
    "Reshape": ("f (float[4] x, int64[2] n) => (float[A,B] y) { [odd] y = Reshape (x, n) }",
                [[1.0] * 4, [3, -1]], "reshape|fit"),
    "a sum of texts": (
        """f (string[1] x) => (string[1] y) { y = mine.Twice (x) }
        <domain: "mine", opset_import: ["" : 17]> Twice (x) => (y) { [odd] y = Add (x, x) }""",
        [np.array(["a"], np.object_)], "strings",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("simplify", [True, False], ids=["simplified", "as it is"])
def test_sizes_are_compared_before_memory_is_taken(name: str, simplify: bool) -> None:
    text, inputs, message = RUNNING[name]
    model = calor_onnx.load(parsed(text), device="numpy", simplify=simplify)
    with pytest.raises(calor_onnx.errors.CalorError, match=message) as caught:
        model(*inputs)
    assert any("huge" in note or "odd" in note for note in [
        str(caught.value), *getattr(caught.value, "__notes__", [])
    ])  # fmt: skip
    assert BYTES >= 1 << 32


def outside(tmp_path: Path, location: str) -> Path:
    """A model in a folder, whose constant is in a file at a place; a secret lies beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"\0" * 16)
    proto = weight(dims=[4], data_location=TensorProto.EXTERNAL)
    entry = proto.graph.initializer[0].external_data.add()
    entry.key, entry.value = "location", location
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "sub/../../secret.bin", "{tmp}/secret.bin", "/dev/zero", "/etc/hostname",
     "link", "folder/secret.bin", "pipe", "", ".", "missing.bin", "a\0b", "x" * 5000],
)  # fmt: skip
def test_no_file_outside_of_the_models_folder_is_read(tmp_path: Path, location: str) -> None:
    path = outside(tmp_path, location.format(tmp=tmp_path))
    (path.parent / "link").symlink_to(tmp_path / "secret.bin")
    (path.parent / "folder").symlink_to(tmp_path)
    os.mkfifo(path.parent / "pipe")
    with pytest.raises(ModelError, match="w is in .* no file in the model's folder"):
        calor_onnx.load(path, device="numpy")


@pytest.mark.parametrize(
    ("place", "message"),
    [({"offset": "-4"}, "bytes"), ({"length": "99"}, "cut short"), ({"offset": "x"}, "no number"),
     ({"length": "8"}, "needs 16 bytes, not 8"), ({"offset": str(2**70)}, "bytes")],
)  # fmt: skip
def test_places_in_files_are_checked(tmp_path: Path, place: dict[str, str], message: str) -> None:
    path = outside(tmp_path, "w.bin")
    (path.parent / "w.bin").write_bytes(b"\0" * 16)
    proto = onnx.load(path, load_external_data=False)
    for key, value in place.items():
        entry = proto.graph.initializer[0].external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=message):
        calor_onnx.load(path, device="numpy")


def test_a_sparse_file_of_terabytes_is_refused(tmp_path: Path) -> None:
    path = outside(tmp_path, "w.bin")
    with (path.parent / "w.bin").open("wb") as file:
        try:
            file.truncate(BYTES + 4096)
        except OSError:
            pytest.skip("this file system has no such large files")
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].dims[0] = (BYTES + 4096) // 4
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="w has the shape"):
        calor_onnx.load(path, device="numpy")


def test_many_nodes_in_reverse_are_brought_in_order_quickly() -> None:
    count = 3000
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in reversed(range(count))]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    start = time.perf_counter()
    calor_onnx.load(helper.make_model(graph, ir_version=8), device="numpy")
    assert time.perf_counter() - start < 10


# What is raised while an object is finalised Python drops, and tells pytest.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_without_end_can_be_interrupted() -> None:
    model = calor_onnx.load(
        parsed("""f (float[2] x, bool go) => (float[2] y) {
            y = Loop (, go, x) <body = g (int64 i, bool c, float[2] k) => (bool d, float[2] l)
                { d = Identity (c) l = Neg (k) }>
        }"""),
        device="numpy",
    )

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    # Again and again, for one may be dropped.
    signal.setitimer(signal.ITIMER_REAL, 1.5, 1.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            model([1.0, 2.0], True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
