"""An OpenCL device keeps the device contract, and tensors are computed on it."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import float16, float32
from calor.errors import (
    CompileError,
    DeviceError,
    DeviceLostError,
    ElementIndexError,
    OutOfMemoryError,
)
from calor_kernel.device.protocol import Slot, Step
from calor_opencl.plane_probe import planes_hold
from device_contract import built


def test_an_image_is_a_binary_with_its_text(device: Any) -> None:
    made, toolchain = built(), pickle.loads(pickle.dumps(device.toolchain))
    source = toolchain.source(made)
    image = toolchain.compile(source, made.name)
    text = 8 + int.from_bytes(image[:8], "little")
    assert image[8:text].decode() == source
    assert len(image) > text
    for given in (image, image[:text], image[:text] + b"no binary"):
        function = device.queue.load(given, made)
        recorded = device.queue.record([Step(function, (1, 1, 1), (Slot(0), Slot(1), 3, 4.0))], 2)
        pieces = [device.memory.alloc(64) for _ in range(2)]
        device.memory.copy_in(pieces[0], 0, np.arange(16, dtype=np.float32))
        device.memory.copy_in(pieces[1], 0, np.zeros(16, np.float32))
        device.queue.run(recorded, pieces)
        got = np.empty(4, np.float32)
        device.memory.copy_out(pieces[1], 0, got)
        assert got.tolist() == [0.0, 4.0, 8.0, 0.0]


def test_a_run_sets_what_is_another(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_opencl._bindings import Launch

    made, memory, queue = built(), device.memory, device.queue
    function = queue.load(device.toolchain.compile(device.toolchain.source(made), made.name), made)
    steps = [
        Step(function, (n, 1, 1), (Slot(a), Slot(b), 16, 2.0))
        for n, a, b in ((2, 0, 1), (0, 1, 0), (2, 1, 2))
    ]
    recorded = queue.record(steps, 3)
    set_, places = Launch.set, []

    def counted(launch: Launch, place: int, *given: Any) -> None:
        places.append(place)
        set_(launch, place, *given)

    def run(*pieces: Any) -> int:
        places.clear()
        queue.run(recorded, pieces)
        return len(places)

    monkeypatch.setattr(Launch, "set", counted)
    x = np.arange(16, dtype=np.float32)
    # Each launch has two buffers with their beginnings, and two numbers. Eight sets of buffers have
    # kernels of their own; then beginnings and numbers stay, and are not set again.
    for expected in (*[18] * 8, 6, 6):
        # What is allocated may have the address of what was freed.
        pieces = [memory.alloc(64) for _ in range(3)]
        memory.copy_in(pieces[0], 0, x)
        assert [run(*pieces), run(*pieces)] == [expected, 0]
        got = np.empty(16, np.float32)
        memory.copy_out(pieces[2], 0, got)
        assert got.tolist() == (4 * x).tolist()
        assert [s > 0 for s in queue.seconds(recorded, pieces)] == [True, False, True]
        for piece in pieces:
            memory.free(piece)


@pytest.mark.parametrize("launches", [1, 40])
def test_results_that_take_turns_set_nothing(
    device: Any, launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_opencl._bindings import Launch

    made, memory, queue = built(), device.memory, device.queue
    function = queue.load(device.toolchain.compile(device.toolchain.source(made), made.name), made)
    step = Step(function, (2, 1, 1), (Slot(0), Slot(1), 16, 2.0))
    recorded = queue.record([step] * launches, 2)
    x, *results = pieces = [memory.alloc(64) for _ in range(3)]
    memory.copy_in(x, 0, np.arange(16, dtype=np.float32))
    for result in results:
        queue.run(recorded, [x, result])
    monkeypatch.setattr(Launch, "set", None)
    for result in results * 3:
        queue.run(recorded, [x, result])
    for result in results:
        got = np.empty(16, np.float32)
        memory.copy_out(result, 0, got)
        assert got.tolist() == list(range(0, 32, 2))
    for piece in pieces:
        memory.free(piece)


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [
        (-4, OutOfMemoryError, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
        (-5, OutOfMemoryError, "CL_OUT_OF_RESOURCES"),
        (-2, DeviceLostError, "CL_DEVICE_NOT_AVAILABLE"),
        (-36, DeviceLostError, "CL_INVALID_COMMAND_QUEUE"),
        (-9999, DeviceLostError, "a kernel read or wrote where there is no memory"),
        (-30, DeviceError, "copying"),
    ],
)
def test_codes_of_the_driver_become_errors(
    code: int, error: type[Exception], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cl = pytest.importorskip("pyopencl")
    from calor_opencl._bindings import typed

    class Failure(Exception):
        def __init__(self) -> None:
            super().__init__("a failure")
            self.code = code

    monkeypatch.setattr(cl, "Error", Failure)
    with pytest.raises(error, match=word) as caught, typed("copying"):
        raise Failure
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("code", "error"), [(-6, OutOfMemoryError), (-2, DeviceLostError), (-11, CompileError)]
)
def test_a_build_that_fails_for_another_reason_than_the_kernel(
    code: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    cl = pytest.importorskip("pyopencl")
    from calor_opencl._bindings import build

    class Failure(Exception):
        def __init__(self) -> None:
            super().__init__("a failure")
            self.code = code

    def program(*given: Any) -> Any:
        raise Failure

    monkeypatch.setattr(cl, "Error", Failure)
    monkeypatch.setattr(cl, "Program", program)
    with pytest.raises(error, match="kernel 'scaled'") as caught:
        build(None, "text", "", "scaled")
    assert type(caught.value) is error


def test_an_argument_that_the_driver_refuses(device: Any) -> None:
    import pyopencl as cl

    from calor_opencl._bindings import Launch, enqueue

    made = built()
    source = device.toolchain.source(made)
    function = device.queue.load(device.toolchain.compile(source, made.name), made)
    launch = Launch(cl.Kernel(function.program, function.name), [1, 1, 1], [1, 1, 1])
    with pytest.raises(DeviceError, match="setting an argument: code -49"):
        launch.set(99, 0)
    with pytest.raises(DeviceError, match="running kernels: code"):
        enqueue([launch.on(device.queue.queue.int_ptr)])


def test_devices_are_those_of_the_platforms_asked_for(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_opencl._bindings import devices
    from calor_opencl.device import OpenCLDevice

    every = devices()
    name = every[0].platform.name
    monkeypatch.setenv("CALOR_OPENCL_PLATFORM", name[2:7].upper())
    assert devices()[0].platform.name == name
    monkeypatch.setenv("CALOR_OPENCL_PLATFORM", "of nobody")
    assert devices() == []
    with pytest.raises(DeviceError, match="there is no OpenCL device 0; the drivers list 0"):
        OpenCLDevice(0)


def test_a_program_is_built_once_where_it_is_compiled_and_loaded(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_opencl import _bindings
    from calor_opencl import toolchain as module

    built: list[type] = []
    build = _bindings.build

    def counted(found: Any, text: Any, *rest: Any) -> Any:
        built.append(type(text))
        return build(found, text, *rest)

    monkeypatch.setattr(_bindings, "build", counted)
    monkeypatch.setattr(module, "_KEPT", 2)
    toolchain = pickle.loads(pickle.dumps(device.toolchain))
    texts = [f"__kernel void k{n}(__global float *x) {{ x[{n}] = 1.0f; }}" for n in range(3)]
    images = [toolchain.compile(text, "k") for text in texts]
    assert built == [str, str, str]
    for number in (2, 1):
        (one,) = toolchain.program(images[number], "k").all_kernels()
        assert one.function_name == f"k{number}"
    assert built == [str, str, str]
    # The oldest is not kept, nor one that was loaded.
    for number in (0, 2):
        toolchain.program(images[number], "k")
    assert len(built) == 5
    assert pickle.loads(pickle.dumps(toolchain))._built == {}


def test_what_the_device_says_of_itself(device: Any) -> None:
    info = device.info
    assert info.has("atomics")
    assert info.has("barrier") == (info.max_units > 1)
    assert info.align % 64 == 0
    assert float32 in info.dtypes
    assert (float16 in info.dtypes) == device.toolchain.dialect.computes(float16)
    assert device.toolchain.target.startswith("opencl ")


@pytest.mark.parametrize(
    ("listed", "size", "taken"),
    [
        ("", 32, False),
        ("cl_nv_device_attribute_query", 32, True),
        ("cl_nv_device_attribute_query", 64, False),
    ],
)
def test_assembly_is_tried_on_nvidias_warps(listed: str, size: int, taken: bool) -> None:
    pytest.importorskip("pyopencl")
    from calor_opencl._bindings import takes_ptx

    device = SimpleNamespace(extensions=f"cl_khr_fp64 {listed}", warp_size_nv=size)
    assert takes_ptx(device) == taken


@pytest.mark.parametrize("major", [0, 6, 7, 8, 9])
def test_cubes_of_nvidias_devices_wait_for_each_other(
    device: Any, monkeypatch: pytest.MonkeyPatch, major: int
) -> None:
    from calor_opencl import description
    from calor_opencl._bindings import capability, devices

    listed = "cl_nv_device_attribute_query" if major else ""
    given = SimpleNamespace(extensions=listed, compute_capability_major_nv=major)
    assert capability(given) == major
    monkeypatch.setattr(description, "capability", lambda found: major)
    (found, *_) = devices()
    for subgroups in ("", "ptx"):
        dialect, _ = description.language(found, subgroups)
        progress = dialect.subgroups == "ptx" and major >= 7
        made = description.describe(found, dialect)
        assert made.has("forward_progress") == dialect.fences == progress
        assert made.has("together") == progress
        # Units that end are not waited for, as joined launches of unlike cubes need.
        assert made.has("early_exit") == (dialect.subgroups == "ptx")
        assert made.choices == 32
        copies = dialect.subgroups == "ptx" and major >= 8
        assert made.has("async_copy") == dialect.copies == dialect.extremes == copies


def test_extensions_may_be_left_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    from calor_opencl._bindings import has, takes_ptx

    device = SimpleNamespace(
        extensions="cl_khr_fp16 cl_khr_fp64 cl_nv_device_attribute_query", warp_size_nv=32
    )
    assert has(device, "cl_khr_fp16", "cl_khr_fp64")
    without = "cl_khr_fp16, cl_nv_device_attribute_query"
    monkeypatch.setenv("CALOR_OPENCL_WITHOUT", without)
    assert not has(device, "cl_khr_fp16", "cl_khr_fp64")
    assert has(device, "cl_khr_fp64")
    assert not takes_ptx(device)


def test_warps_that_the_compiler_refuses_are_not_used(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calor_opencl import device as module

    tried = []
    # A device that lists planes has those.
    planes = device.info.planes if device.info.has("planes") else (32,)

    def answered(made: Any) -> bool:
        assert made.info.planes == planes
        tried.append(planes_hold(made))
        return tried[-1]

    monkeypatch.setattr(module, "takes_ptx", lambda found: True)
    monkeypatch.setattr(module, "planes_hold", answered)
    made = module.OpenCLDevice(0)
    dialect = made.toolchain.dialect
    if dialect.subgroups in ("", "ptx"):
        # Processors have no such assembly; a device that does computes with it.
        assert [dialect.subgroups == "ptx"] == tried
    assert made.info.has("planes") == bool(dialect.subgroups)
    made.close()


@pytest.mark.usefixtures("device")
def test_a_failure_that_is_told_late_names_the_index_and_the_users_line() -> None:
    x, indices = calor.arange(4.0, device="opencl"), calor.asarray([1, -6], device="opencl")
    failed = x[indices]
    calor.eval(failed)
    later = failed * 2
    wanted = (
        r"index -6 is out of range for axis 0 of size 4; in op 'gather' of x\[\.\.\.\]; recorded"
    )
    with pytest.raises(ElementIndexError, match=rf"{wanted} at {__file__}:"):
        later.numpy()
    assert x[calor.asarray([1, -4], device="opencl")].tolist() == [1.0, 0.0]
