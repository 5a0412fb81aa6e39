"""An OpenCL device keeps the device contract, and tensors are computed on it."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import float16, float32, int64
from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from calor_kernel.runtime.device import Slot, Step
from device_runs import run


@kernel
def scaled(x: Any, y: Any, n: Any, factor: Any) -> None:
    i = absolute_position()
    if i < n:
        y[i] = x[i] * factor


def built(units: int = 8) -> Any:
    signature: list[Any] = [
        Buffer(float32, writable=False),
        Buffer(float32),
        Scalar(int64),
        Scalar(float32),
    ]
    return scaled.build(signature, cube=(units, 1, 1))


def test_a_record_runs_again_with_other_memory(device: Any) -> None:
    made, memory, queue = built(), device.memory, device.queue
    function = queue.load(device.toolchain.compile(device.toolchain.source(made), "scaled"), made)
    pieces = [memory.alloc(256) for _ in range(3)]
    parts = [memory.part(p, 128, 128) for p in pieces]
    for number, piece in enumerate(pieces):
        memory.copy_in(piece, 0, np.full(64, number + 1, np.float32))
    # The second launch reads what the first one writes; the third has no cubes.
    steps = [
        Step(function, (2, 1, 1), (Slot(0), Slot(1, 16), 10, 2.0)),
        Step(function, (2, 1, 1), (Slot(1, 16), Slot(2), 10, -1.0)),
        Step(function, (0, 1, 1), (Slot(0), Slot(2), 10, 7.0)),
    ]
    recorded = queue.record(steps, 3)
    queue.run(recorded, parts)
    queue.run(recorded, [parts[2], pieces[1], pieces[0]])
    memory.copy(pieces[0], 128, pieces[2], 128, 64)
    queue.synchronize()
    got = [np.empty(64, np.float32) for _ in pieces]
    for piece, array in zip(pieces, got, strict=True):
        memory.copy_out(piece, 0, array)
    assert got[2].tolist() == [3.0] * 32 + [-2.0] * 10 + [3.0] * 22
    assert got[1].tolist() == [2.0] * 4 + [-4.0] * 10 + [2.0] * 22 + [2.0] * 10 + [2.0] * 18
    assert got[0][:10].tolist() == [4.0] * 10
    assert got[0][32:48].tolist() == [-2.0] * 10 + [3.0] * 6
    assert len(queue.seconds(recorded, parts)) == 3
    assert all(0 <= s < 1 for s in queue.seconds(recorded, parts))
    for piece in pieces:
        memory.free(piece)


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


def test_errors_are_typed_and_leave_the_device_usable(device: Any) -> None:
    with pytest.raises(
        CompileError, match="(?s)refuses kernel 'k'.*nothing_known.*nothing_known = 1"
    ):
        device.toolchain.compile("__kernel void k(void) { nothing_known = 1; }", "k")
    with pytest.raises(OutOfMemoryError, match="none of .* compute in parts"):
        device.memory.alloc(device.info.max_buffer_bytes + 1)
    arguments: list[Any] = [np.ones(8, np.float32), np.zeros(8, np.float32), 8, 3.0]
    run(device, built(), (1, 1, 1), arguments)
    assert arguments[1].tolist() == [3.0] * 8


def test_a_kernel_may_be_called_like_a_function_of_the_language(device: Any) -> None:
    @kernel
    def select(x: Any) -> None:
        x[absolute_position()] = 5.0

    x = np.zeros(4, np.float32)
    run(device, select.build([Buffer(float32)], cube=(2, 1, 1)), (2, 1, 1), [x])
    assert x.tolist() == [5.0] * 4


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [
        (-4, OutOfMemoryError, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
        (-5, OutOfMemoryError, "CL_OUT_OF_RESOURCES"),
        (-2, DeviceLostError, "CL_DEVICE_NOT_AVAILABLE"),
        (-36, DeviceLostError, "CL_INVALID_COMMAND_QUEUE"),
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
    with pytest.raises(DeviceError, match="0 OpenCL devices, and none of number 0"):
        OpenCLDevice(0)


def test_what_the_device_says_of_itself(device: Any) -> None:
    info = device.info
    assert info.has("atomics")
    assert info.has("barrier") == (info.max_units > 1)
    assert info.align % 64 == 0
    assert float32 in info.dtypes
    assert (float16 in info.dtypes) == device.toolchain.dialect.computes(float16)
    assert device.toolchain.target.startswith("opencl ")


def test_tensors_are_computed_on_it(device: Any) -> None:
    host = np.linspace(-2, 2, 37, dtype=np.float32)
    x = calor.asarray(host, device="opencl")
    y = calor.jit(lambda x: calor.maximum(x * x - 1, 0) + x)(x)
    assert y.device == calor.device("opencl").device
    np.testing.assert_allclose(y.numpy(), np.maximum(host * host - 1, 0) + host, rtol=1e-6)


def test_the_entry_module_loads_no_driver() -> None:
    program = "import sys, calor_opencl.plugin; print('pyopencl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
