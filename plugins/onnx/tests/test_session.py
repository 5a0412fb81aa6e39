"""The interface of ONNX Runtime: what packages that were written against it touch."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as reference
import pytest

import calor_onnx as onnxruntime
from calor_onnx.capi import onnxruntime_pybind11_state as state

DOUBLE = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17], producer_name: "tests", model_version: 3,
     metadata_props: ["names": "a, b"]>
    double (float[N, 2] x, float[1] half = {0.5}) => (float[N, 2] y, float[N, 2] z) {
        y = Add (x, x)
        z = Mul (x, half)
    }""")
X = np.array([[1, 2], [3, 4]], np.float32)


@pytest.fixture
def session() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(DOUBLE.SerializeToString(), providers=["numpy"])


def test_runs_a_file_and_bytes(tmp_path: Path) -> None:
    onnx.save(DOUBLE, tmp_path / "double.onnx")
    for source in (tmp_path / "double.onnx", str(tmp_path / "double.onnx")):
        made = onnxruntime.InferenceSession(source, providers=["numpy"]).run(["y"], {"x": X})
        np.testing.assert_array_equal(made[0], X + X)


def test_tells_what_onnx_runtime_tells(session: onnxruntime.InferenceSession) -> None:
    other = reference.InferenceSession(DOUBLE.SerializeToString())
    for ask in ("get_inputs", "get_outputs", "get_overridable_initializers"):
        ours, theirs = getattr(session, ask)(), getattr(other, ask)()
        assert [(a.name, a.type, a.shape) for a in ours] == [
            (a.name, a.type, a.shape) for a in theirs
        ]
    ours, theirs = session.get_modelmeta(), other.get_modelmeta()
    for name in ("producer_name", "graph_name", "domain", "version", "custom_metadata_map"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_axes_of_unknown_size() -> None:
    """Exporters write a size of -1, a name, or nothing; any size fits."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        unknown (float[N, M, K] x) => (float[N, M, K] y) { y = Add (x, x) }""")
    negative, named, absent = model.graph.input[0].type.tensor_type.shape.dim
    negative.dim_value = -1
    absent.ClearField("dim_param")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    assert session.get_inputs()[0].shape == [None, named.dim_param, None]
    assert session.run(None, {"x": np.ones((5, 3, 2), np.float32)})[0].shape == (5, 3, 2)


def test_all_outputs_some_and_another_initializer(session: onnxruntime.InferenceSession) -> None:
    assert len(session.run(None, {"x": X})) == 2
    (z,) = session.run(["z"], {"x": X, "half": np.array([2], np.float32)})
    np.testing.assert_array_equal(z, X * 2)


@pytest.mark.parametrize(
    ("feed", "error", "message"),
    [
        ({}, ValueError, r"Required inputs \(\['x'\]\) are missing"),
        ({"x": X, "w": X}, state.InvalidArgument, "no input 'w'"),
        ({"x": X[0]}, state.InvalidArgument, r"has shape \[2\]"),
        ({"x": X.astype(np.float64)}, state.InvalidArgument, "convert it"),
        ({"x": None}, state.InvalidArgument, "'x' is None"),
    ],
)
def test_refuses_inputs_that_do_not_fit(
    session: onnxruntime.InferenceSession, feed: dict[str, object], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        session.run(None, feed)


def test_bytes_may_be_in_another_order(session: onnxruntime.InferenceSession) -> None:
    other = X.astype(">f4")
    np.testing.assert_array_equal(session.run(["y"], {"x": other})[0], X + X)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(other)
    np.testing.assert_array_equal(session.run(["y"], {"x": value})[0], X + X)


def test_outputs_are_their_callers() -> None:
    proto = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        kept (float[2] x) => (float[2] same, float[2] weight, string[1] text)
            <float[2] w = {1.0, 2.0}, string[1] t = {"a"}> {
            same = Identity (x)
            weight = Identity (w)
            text = Identity (t)
        }""")
    ours = onnxruntime.InferenceSession(proto.SerializeToString(), providers="numpy")
    given = np.ones(2, np.float32)
    for _ in range(2):
        same, weight, text = ours.run(None, {"x": given})
        assert given.tolist() == [1.0, 1.0]
        assert (same.tolist(), weight.tolist(), text.tolist()) == ([1.0, 1.0], [1.0, 2.0], ["a"])
        same[:], weight[:], text[:] = 7, 8, "b"


def test_refuses_an_output_that_is_not_there(session: onnxruntime.InferenceSession) -> None:
    with pytest.raises(state.InvalidArgument, match="the model has y, z"):
        session.run(["nothing"], {"x": X})


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nowhere.onnx", state.NoSuchFile, "does not exist; pass the path"),
        ("nowhere.onnx", FileNotFoundError, "NO_SUCHFILE"),
        (b"\x08\x08nothing", state.InvalidProtobuf, "no ONNX model"),
        (None, TypeError, "Unable to load .*; pass a path"),
    ],
)
def test_refuses_what_is_no_model(source: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        onnxruntime.InferenceSession(source)


def test_a_missing_operator_is_not_implemented() -> None:
    odd = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "my" : 1]>
        odd (float[N] x) => (float[N] y) { y = my.Odd (x) }""")
    with pytest.raises(state.NotImplemented, match="my::Odd"):
        onnxruntime.InferenceSession(odd.SerializeToString())


def test_providers_are_devices() -> None:
    data = DOUBLE.SerializeToString()
    with pytest.warns(UserWarning, match="'NoSuchProvider' is skipped"):
        made = onnxruntime.InferenceSession(data, providers=["NoSuchProvider", ("numpy", {})])
    assert made.device.name == "numpy:0"
    assert made.get_providers()[-1] == "CPUExecutionProvider"
    assert onnxruntime.InferenceSession(data).device.name == "numpy:0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxruntime.InferenceSession(data, providers=onnxruntime.get_available_providers()[-1:])


def test_a_session_moves(session: onnxruntime.InferenceSession) -> None:
    session.set_providers(["CPUExecutionProvider"])
    assert session.device.name == "cpu:0"
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], X + X)


def test_weights_move_with_their_session() -> None:
    weight = np.arange(6400, dtype=np.float32).reshape(2, 3200)
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        line (float[N, 2] x) => (float[N, 3200] y) { y = MatMul (x, w) }""")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["numpy"])
    for provider in ("CPUExecutionProvider", "numpy"):
        session.set_providers([provider])
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X @ weight)


def test_options_are_those_of_onnx_runtime() -> None:
    options, theirs = onnxruntime.SessionOptions(), reference.SessionOptions()
    names = [n for n in dir(theirs) if not n.startswith("_") and not callable(getattr(theirs, n))]
    for name in names:
        ours = getattr(options, name)
        assert int(ours) == int(getattr(theirs, name)) if isinstance(ours, int) else True, name
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with pytest.raises(AttributeError):
        options.no_such_option = 1  # type: ignore[attr-defined]
    with pytest.warns(UserWarning, match="no profile"):
        options.enable_profiling = True
    with pytest.warns(UserWarning, match="no optimized model"):
        options.optimized_model_filepath = "simplified.onnx"
    with pytest.raises(state.NotImplemented, match=r"@calor_onnx\.operator"):
        options.register_custom_ops_library("ops.so")


def test_a_run_that_is_to_end_raises(session: onnxruntime.InferenceSession) -> None:
    theirs = reference.RunOptions()
    theirs.terminate = True
    with pytest.raises(Exception, match="Exiting due to terminate") as caught:
        reference.InferenceSession(DOUBLE.SerializeToString()).run(None, {"x": X}, theirs)
    options = onnxruntime.RunOptions()
    options.terminate = True
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    binding = session.io_binding()
    for run in (
        lambda: session.run(None, {"x": X}, options),
        lambda: session.run_with_ort_values(None, {"x": value}, options),
        lambda: session.run_with_iobinding(binding, options),
    ):
        with pytest.raises(state.Fail, match="Exiting due to terminate"):
            run()
    assert type(caught.value).__name__ == "Fail"
    options.terminate = False
    assert len(session.run(None, {"x": X}, options)) == 2


def test_an_initializer_may_be_given() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        scaled (float[N] x) => (float[N] y) <float[1] w = {2}> { y = Mul (x, w) }""")
    options = onnxruntime.SessionOptions()
    three = onnxruntime.OrtValue.ortvalue_from_numpy(np.array([3], np.float32))
    options.add_initializer("w", three)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["numpy"])
    assert session.run(None, {"x": np.ones(1, np.float32)})[0].tolist() == [3.0]


def test_values_stay_between_runs(session: onnxruntime.InferenceSession) -> None:
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X, "numpy")
    assert (value.shape(), value.data_type(), value.device_name()) == (
        [2, 2],
        "tensor(float)",
        "cpu",
    )
    assert (value.element_type(), value.tensor_size_in_bytes()) == (1, 16)
    y, _ = session.run_with_ort_values(None, {"x": value})
    np.testing.assert_array_equal(y.numpy(), X + X)
    binding = session.io_binding()
    target = np.zeros((2, 2), np.float32)
    binding.bind_ortvalue_input("x", y)
    binding.bind_output("y", "cpu", 0, np.float32, target.shape, target.ctypes.data)
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    np.testing.assert_array_equal(target, X * 4)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X * 4)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), X * 4)
    again = onnxruntime.OrtValue.from_dlpack(value)
    np.testing.assert_array_equal(again.numpy(), X)
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(value.numpy(), X + 1)


def test_errors_are_caught_under_the_names_of_onnx_runtime() -> None:
    theirs = reference.capi.onnxruntime_pybind11_state
    for name in ("Fail", "InvalidArgument", "NoSuchFile", "NoModel", "EngineError",
                 "RuntimeException", "InvalidProtobuf", "NotImplemented", "InvalidGraph",
                 "EPFail"):  # fmt: skip
        assert issubclass(getattr(state, name), Exception)
        assert hasattr(theirs, name), name


def test_errors_come_from_other_processes_as_they_are() -> None:
    missing = onnxruntime.UnsupportedOperatorsError([("my.domain", "Odd", ("n",), "opset 1")])
    for error in (missing, state.InvalidArgument("wrong"), state.NoSuchFile("gone")):
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is type(error)
        assert str(copied) == str(error)
    assert copied.message == "gone"


PROGRAM = """
import importlib.metadata, importlib.util, sys
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession
import calor_onnx
from onnxruntime.capi import _pybind_state
assert _pybind_state.get_available_providers() == ort.get_available_providers()
assert ort.capi.onnxruntime_pybind11_state.InvalidArgument is InvalidArgument
assert InferenceSession is ort.InferenceSession is calor_onnx.InferenceSession
assert importlib.metadata.version("onnxruntime") == ort.__version__
assert importlib.util.find_spec("onnxruntime") is not None
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
print(session.device.name)
"""


def test_takes_the_place_of_onnxruntime(tmp_path: Path) -> None:
    onnx.save(DOUBLE, tmp_path / "double.onnx")
    program = tmp_path / "program.py"
    program.write_text("import calor_onnx; calor_onnx.replace_onnxruntime('numpy')" + PROGRAM)
    made = subprocess.run(
        [sys.executable, program, tmp_path / "double.onnx"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert made.stdout.strip() == "numpy:0"
