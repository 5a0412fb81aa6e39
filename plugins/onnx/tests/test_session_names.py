"""Every name that ONNX Runtime's interface has is here, or says that it is not and what to do."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as reference
import pytest

import calor
import calor_onnx as onnxruntime
from calor_onnx.capi import onnxruntime_pybind11_state as state
from calor_onnx.session.absent import ABSENT

DOUBLE = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    double (float[N] x) => (float[N] y) { [twice] y = Add (x, x) }""").SerializeToString()
X = np.array([1, 2], np.float32)
# Modules that ONNX Runtime's own imports leave behind.
LEFT_BEHIND = {"contextlib", "import_capi_exception", "onnxruntime_validation"}
CLASSES = [
    "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtArenaCfg", "OrtDevice",
    "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtEpDevice", "OrtHardwareDevice", "OrtValue",
    "RunOptions", "SessionOptions",
]  # fmt: skip
ENUMS = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "OrtAllocatorType",
    "OrtDeviceMemoryType", "OrtDeviceVendorId", "OrtExecutionProviderDevicePolicy",
    "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfoDeviceType",
]  # fmt: skip


def public(what: object) -> set[str]:
    return {name for name in dir(what) if not name.startswith("_")}


def session(options: onnxruntime.SessionOptions | None = None) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(DOUBLE, options, providers=["numpy"])


def test_the_modules_names() -> None:
    missing = public(reference) - public(onnxruntime) - LEFT_BEHIND
    assert missing <= ABSENT.keys()
    for name in ABSENT:
        assert not hasattr(onnxruntime, name)
        with pytest.raises(state.NotImplemented, match=f"has no {name}: "):
            getattr(onnxruntime, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onnxruntime.nothing


def test_the_compiled_modules_names() -> None:
    assert state.OrtValue is onnxruntime.OrtValue
    assert state.OrtMemoryInfo is onnxruntime.OrtMemoryInfo
    assert isinstance(state.OrtValueVector(), list)
    with pytest.raises(state.NotImplemented, match="has no SparseTensor: "):
        state.SparseTensor


@pytest.mark.parametrize("name", CLASSES)
def test_the_names_of_a_class(name: str) -> None:
    ours = public(getattr(onnxruntime, name)) | {
        *getattr(getattr(onnxruntime, name), "__dataclass_fields__", ())
    }
    assert public(getattr(reference, name)) - ours == set()


@pytest.mark.parametrize("name", ENUMS)
def test_the_numbers_of_a_choice(name: str) -> None:
    theirs = getattr(reference, name).__members__
    ours = getattr(onnxruntime, name).__members__
    assert {key: int(value) for key, value in theirs.items()} == {
        key: int(value) for key, value in ours.items()
    }


def test_memory_and_devices_are_told() -> None:
    here = session()
    kept = reference.InferenceSession(DOUBLE)
    theirs = kept.get_input_memory_infos()[0]
    for info in (*here.get_input_memory_infos(), *here.get_output_memory_infos()):
        for name in public(theirs) - {"create_v2"}:
            assert getattr(info, name) == getattr(theirs, name), name
    (device,) = here.get_input_epdevices()
    assert device.device.metadata["name"] == "numpy:0"
    assert device.memory_info().name == "Cpu"
    known = {found.ep_name for found in onnxruntime.get_ep_devices()}
    assert known == {*onnxruntime.get_available_providers()}
    with pytest.raises(state.NotImplemented, match="synchronize"):
        device.create_sync_stream()
    (part,) = here.get_provider_graph_assignment_info()
    assert [(node.name, node.op_type) for node in part.get_nodes()] == [("twice", "Add")]
    assert here.get_profiling_start_time_ns() > 0


def test_options_choose_a_provider() -> None:
    options = onnxruntime.SessionOptions()
    assert not options.has_providers()
    options.add_provider("numpy", {})
    assert options.has_providers()
    made = onnxruntime.InferenceSession(DOUBLE, options)
    assert made.device is calor.device("numpy")
    options = onnxruntime.SessionOptions()
    options.set_provider_selection_policy(
        onnxruntime.OrtExecutionProviderDevicePolicy.PREFER_CPU  # type: ignore[arg-type]
    )
    assert onnxruntime.InferenceSession(DOUBLE, options).get_providers() == ["CPUExecutionProvider"]
    asked = []

    def last(devices: list[object], *more: object) -> list[object]:
        asked.append(len(devices))
        return [d for d in devices if d.ep_name == "CPUExecutionProvider"]  # type: ignore[attr-defined]

    options.set_provider_selection_policy_delegate(last)
    assert onnxruntime.InferenceSession(DOUBLE, options).get_providers() == ["CPUExecutionProvider"]
    assert asked == [len(onnxruntime.get_ep_devices())]
    options.set_provider_selection_policy_delegate(lambda *asked: [])
    with pytest.raises(state.Fail, match="returned no device"):
        onnxruntime.InferenceSession(DOUBLE, options)
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "CPUExecutionProvider"]
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(devices, {})
    assert options.providers == [("CPUExecutionProvider", {})]
    with pytest.raises(state.InvalidArgument, match="of one provider"):
        options.add_provider_for_devices([], {})


def test_loading_may_be_cancelled() -> None:
    options = onnxruntime.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(state.Fail, match="cancelled"):
        session(options)
    options.set_load_cancellation_flag(False)
    assert session(options).run(None, {"x": X})[0].tolist() == [2, 4]


def test_files_of_weights_may_be_in_memory(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        scaled (float[N] x) => (float[N] y) { y = Mul (x, w) }""")
    held = model.graph.initializer.add(name="w", data_type=1, dims=[2], data_location=1)
    for key, value in {"location": "w.bin", "offset": "4", "length": "8"}.items():
        held.external_data.add(key=key, value=value)
    data = np.array([9, 3, 5], np.float32).tobytes() + b"more"
    for module in (onnxruntime, reference):
        options = module.SessionOptions()
        options.add_external_initializers_from_files_in_memory(["w.bin"], [data], [12])
        made = module.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        assert made.run(None, {"x": X})[0].tolist() == [3, 10]
    options = onnxruntime.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [data], [8])
    with pytest.raises(state.InvalidGraph, match="'w.bin' has 8 bytes, not 8 at 4"):
        onnxruntime.InferenceSession(model.SerializeToString(), options)


def test_values_in_lists_and_copies() -> None:
    here = session()
    made: list[onnxruntime.OrtValue] = []
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    here.run_with_ortvaluevector(None, ["x"], [value], ["y"], made, [])
    assert made[0].numpy().tolist() == [2, 4]
    zeros = here.create_ortvalue_from_shape_and_type([2], np.float32)
    onnxruntime.copy_tensors(made, [zeros])
    assert zeros.numpy().tolist() == [2, 4]
    with pytest.raises(state.InvalidArgument, match=r"cannot be copied to tensor\(double\)"):
        onnxruntime.copy_tensors(
            made, [here.create_ortvalue_from_shape_and_type([2], np.float64)]
        )  # fmt: skip
    binding = here.io_binding()
    binding.bind_cpu_input("x", X)
    here.run_with_iobinding(binding)
    assert [v.numpy().tolist() for v in binding.get_outputs_as_ortvaluevector()] == [[2, 4]]


def test_what_is_refused_says_what_to_do() -> None:
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    for call, message in (
        (lambda: onnxruntime.RunOptions().add_active_adapter(None), "before loading it"),
        (value.as_sparse_tensor, "no sparse tensors"),
        (lambda: onnxruntime.OrtValue.ort_value_from_sparse_tensor(None), "no sparse tensors"),
        (
            lambda: onnxruntime.SessionOptions().set_ep_context_data_read_func(None, 1),
            "load it unchanged",
        ),
    ):
        with pytest.raises(state.NotImplemented, match=message):
            call()


def test_what_changes_nothing_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    here = session()
    here.set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"})
    here.set_tuning_results(here.get_tuning_results())
    here.release_captured_graph()
    onnxruntime.SessionOptions().clear_ep_context_data_read_func()
    onnxruntime.set_global_thread_pool_sizes(1, 1)
    info = onnxruntime.OrtMemoryInfo("Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0)
    onnxruntime.create_and_register_allocator(info, onnxruntime.OrtArenaCfg())
    onnxruntime.create_and_register_allocator_v2("CPUExecutionProvider", info)
    assert onnxruntime.has_collective_ops() is False
    onnxruntime.set_default_logger_callback(print)
    onnxruntime.print_debug_info()
    assert "CPUExecutionProvider" in capsys.readouterr().out
