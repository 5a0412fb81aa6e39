"""Importing models: from where, with which weights, and what is refused."""

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import calor
import calor_onnx
from calor.plugins.discovery import importer
from calor_onnx import InputError, ModelError, UnsupportedOperatorsError

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text if text.strip().startswith("<") else f"{HEAD} {text}")


def same(kind: str) -> onnx.ModelProto:
    """A model that gives its input, of any type."""
    return parsed(f"""<ir_version: 10, opset_import: ["" : 21]>
                      f ({kind}[N] x) => ({kind}[N] y) {{ y = Identity (x) }}""")


def weighted(array: np.ndarray) -> onnx.ModelProto:
    """A model that adds a weight to its input."""
    model = parsed("f (float[A,B] x) => (float[A,B] y) { y = Add (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return model


WEIGHT = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)


@pytest.mark.parametrize("how", ["path", "text path", "bytes", "proto", "external", "other names"])
def test_every_source_gives_the_same_model(how: str, tmp_path: Path) -> None:
    proto, path = weighted(WEIGHT), tmp_path / "model.onnx"
    onnx.save(proto, path)
    source: object = path
    if how == "text path":
        source = str(path)
    elif how == "bytes":
        source = path.read_bytes()
    elif how == "proto":
        source = proto
    elif how == "external":
        onnx.save(weighted(WEIGHT), path, save_as_external_data=True, location="weights.bin")
    model = calor_onnx.load(source, device="numpy")
    x = np.ones((128, 128), np.float32)
    given = model(x=x) if how == "other names" else model(x)
    np.testing.assert_array_equal(given.numpy(), WEIGHT + 1)


@pytest.mark.parametrize("rows", [128, 10], ids=["large", "small"])
@pytest.mark.parametrize("apart", [False, True], ids=["one file", "external"])
def test_a_file_may_go_once_it_is_loaded(rows: int, apart: bool, tmp_path: Path) -> None:
    path, weight = tmp_path / "model.onnx", WEIGHT[:rows]
    onnx.save(weighted(weight), path, save_as_external_data=apart, location="weights.bin")
    model = calor_onnx.load(path, device="numpy")
    for file in tmp_path.iterdir():
        file.write_bytes(b"")
    np.testing.assert_array_equal(model(np.zeros_like(weight)).numpy(), weight)


NARROW = {
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
    "INT2": ml_dtypes.int2,
    "UINT2": ml_dtypes.uint2,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT16": np.float16,
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("count", [7, 9001])
def test_weights_of_few_bits_are_read(name: str, count: int) -> None:
    numbers = (np.arange(count) % 7 - 3).astype(np.float32)
    array = numbers.astype(NARROW[name])
    wanted = array.astype(np.float32)
    cast = helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT)
    graph = helper.make_graph(
        [cast, helper.make_node("Add", ["x", "f"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [count])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [count])],
        [numpy_helper.from_array(array, "w")],
    )
    model = calor_onnx.load(helper.make_model(graph, ir_version=13), device="numpy")
    np.testing.assert_array_equal(model(np.zeros(count, np.float32)).numpy(), wanted)


def test_what_is_missing_is_told_at_once() -> None:
    model = parsed("""
        <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        f (float[N] x) => (float[N] y) {
            [first] a = mine.Odd (x)
            [second] b = mine.Odd (a)
            [third] y = mine.Even (b)
        }""")
    with pytest.raises(UnsupportedOperatorsError, match=r"mine::Even \(opset 1\): third") as caught:
        calor_onnx.load(model)
    assert [(op, nodes) for _, op, nodes, _ in caught.value.operators] == [
        ("Even", ("third",)),
        ("Odd", ("first", "second")),
    ]


def test_what_is_missing_within_functions_is_told() -> None:
    model = parsed("""
        <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        f (float[N] x) => (float[N] y) { y = mine.Outer (x) }
        <domain: "mine", opset_import: ["" : 17, "mine" : 1]>
        Outer (x) => (y) { y = mine.Inner (x) }""")
    with pytest.raises(UnsupportedOperatorsError, match="Inner with output y in Outer"):
        calor_onnx.load(model)


def test_functions_of_a_model_take_attributes() -> None:
    model = parsed("""
        <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        f (float[N] x) => (float[N] y, float[N] z) {
            y = mine.Scale <by = 3.0> (x)
            z = mine.Scale <by = 0.5> (y)
        }
        <domain: "mine", opset_import: ["" : 17]>
        Scale <by> (x) => (y) {
            factor = Constant <value_float: float = @by> ()
            y = Mul (x, factor)
        }""")
    y, z = calor_onnx.load(model, device="numpy")([1.0, 2.0])
    assert (y.tolist(), z.tolist()) == ([3.0, 6.0], [1.5, 3.0])


def test_a_function_that_calls_itself_is_refused() -> None:
    model = parsed("""
        <ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
        f (float[N] x) => (float[N] y) { y = mine.Again (x) }
        <domain: "mine", opset_import: ["mine" : 1]>
        Again (x) => (y) { y = mine.Again (x) }""")
    with pytest.raises(ModelError, match="'Again' calls itself"):
        calor_onnx.load(model)


WRONG_INPUTS = [
    (([1.0, 2.0], [3.0]), {}, "2 inputs were given"),
    ((), {}, "'x' is missing; the model takes x: float32"),
    ((), {"z": [1.0]}, "no input 'z'; it takes x: float32"),
    (([1.0],), {"x": [1.0]}, "by position and by name; give it once"),
    ((np.ones(3),), {}, r"'x' is float64, the model takes float32; .*x.astype\('float32'\)"),
    ((np.ones((3, 1), np.float32),), {}, r"shape \[3, 1\], the model takes \['N'\]; reshape"),
]


@pytest.mark.parametrize(("args", "named", "message"), WRONG_INPUTS)
def test_wrong_inputs_are_told(args: tuple, named: dict, message: str) -> None:
    model = calor_onnx.load(parsed("f (float[N] x) => (float[N] y) { y = Add (x, x) }"))
    with pytest.raises(InputError, match=message):
        model(*args, **named)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("float", None, "'x' is None, the model takes float32; only optional"),
        ("int64", [1.7], "is float64, the model takes int64; convert it"),
        ("int4", [1.7], "is float64, the model takes int4; convert it"),
        ("uint8", [300, -1], "uint8 cannot hold: from -1 to 300"),
        ("int4", [8], "int4 cannot hold: from 8 to 8"),
        ("float", [1e39], "float32 cannot hold"),
        ("bool", [2], "is int64, the model takes bool"),
        ("float", [1j], "is complex128, the model takes float32"),
        ("bfloat16", [1j], "is complex128, the model takes bfloat16"),
        ("float", [[1.0], [2.0, 3.0]], "is not an array: .*rows of one length"),
        ("float", {"a": 1.0}, "an element of type dict; the model takes float32"),
        ("float", object(), "an element of type object"),
        ("int64", [2**70], "an element of type int; the model takes int64"),
        ("string", [None, "a"], "an element of type NoneType; the model takes string"),
    ],
)
def test_values_that_do_not_fit_the_type_are_told(kind: str, given: object, message: str) -> None:
    model = calor_onnx.load(same(kind))
    with pytest.raises(InputError, match=message):
        model(given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("uint8", [0, 255]), ("int64", [True, False]), ("float", [1, 2.5]), ("int64", []),
        ("int4", [-8, 7]), ("bfloat16", [1.5, float("inf")]), ("string", ["a", "b"]),
        ("complex64", [1.5]), ("uint64", [2**63]), ("float", np.array([1.5, 2.0], ">f4")),
        ("int64", np.array([1, 2], ">i8")),
    ],
)  # fmt: skip
def test_values_that_fit_are_taken(kind: str, given: object) -> None:
    model = calor_onnx.load(same(kind))
    assert list(model(given).tolist()) == list(np.asarray(given))


def test_nodes_may_come_in_any_order() -> None:
    model = parsed("""f (float[N] x) => (float[N] z) { z = Mul (y, y)
                                                         y = Add (x, x) }""")
    assert calor_onnx.load(model)([2.0]).tolist() == [16.0]


def test_a_tensor_of_another_device_is_moved() -> None:
    model = calor_onnx.load(parsed("f (float[N] x) => (float[N] y) { y = Add (x, x) }"), "numpy")
    with calor.device("strict:numpy"):
        x = calor.asarray([1.0])
    assert model(x).tolist() == [2.0]
    assert model(x).device == model.device


def test_inputs_with_defaults_may_be_given() -> None:
    proto = weighted(np.ones((1, 1), np.float32))
    proto.ir_version = 3
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1, 1]))
    model = calor_onnx.load(proto)
    assert [info.name for info in model.inputs] == ["x"]
    assert model([[1.0]]).tolist() == [[2.0]]
    assert model(x=[[1.0]], w=[[5.0]]).tolist() == [[6.0]]


def test_the_file_tells_of_itself() -> None:
    proto = weighted(WEIGHT)
    proto.producer_name = "somebody"
    helper.set_model_props(proto, {"stride": "32"})
    model = calor_onnx.load(proto)
    assert model.metadata["producer_name"] == "somebody"
    assert model.metadata["custom"] == {"stride": "32"}
    assert model.opsets == {"": 17}
    assert model.inputs[0].shape == ("A", "B")
    assert "1 nodes, x: float32['A', 'B']" in repr(model)


def test_weights_are_parameters_that_the_model_reads() -> None:
    model = calor_onnx.load(weighted(np.ones((1, 2), np.float32)))
    x = np.zeros((1, 2), np.float32)
    assert model(x).tolist() == [[1.0, 1.0]]
    model.parameters["w"] += 1
    assert model(x).tolist() == [[2.0, 2.0]]


def test_calor_finds_the_importer_by_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(weighted(WEIGHT), path)
    model = importer("onnx")(path, device="numpy")
    assert isinstance(model, calor_onnx.Model)


def test_a_program_that_runs_a_model_imports_neither_onnx_nor_the_exporter(tmp_path: Path) -> None:
    """They are large: a process would take tens of milliseconds and some ten megabytes more."""
    path = tmp_path / "model.onnx"
    onnx.save(weighted(WEIGHT), path)
    program = f"""
import sys, numpy, calor_onnx
early = "calor_onnx.operators" in sys.modules
model = calor_onnx.load({str(path)!r}, device="numpy")
assert (model(numpy.ones((128, 128), numpy.float32)).numpy() >= 1).all()
late = ("onnx", "google", "calor_onnx.exporting", "calor_onnx.writing")
print(early, *(name for name in late if name in sys.modules))
calor_onnx.export, calor_onnx.to_python, calor_onnx.as_module
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False"]
