"""calor-metal calls Metal in its order, with its arguments, and keeps the device contract."""

import pickle
import sys
from typing import Any

import numpy as np
import pytest

from calor.dtypes import bfloat16, float64
from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError
from calor_host_shim.compiler import Refused
from calor_host_shim.metal import Failure, ImitatedMetal
from calor_kernel.device.protocol import Slot, Step
from calor_metal import _bindings
from calor_metal.device import MetalDevice
from calor_metal.toolchain import MetalToolchain
from device_contract import built


class Kept:
    """A program that keeps what it is run with."""

    def __init__(self) -> None:
        self.runs: list[tuple[bytes, Any, Any, int]] = []
        self.fails: Failure | None = None

    def run(self, arguments: bytes, cubes: Any, units: Any, plane: int) -> str | None:
        self.runs.append((arguments, cubes, units, plane))
        return None if self.fails is None else self.fails.text


class Recorder:
    """A device whose calls of Metal are kept, and which computes nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.program = Kept()
        metal = ImitatedMetal(self.calls, self.build)

        class Toolchain(MetalToolchain):
            def metal(self) -> Any:
                return metal

            def pool(self) -> Any:
                return metal.autorelease_pool()

        self.device = MetalDevice(0, Toolchain("a fake", 0))

    def build(self, source: str) -> tuple[Kept, str]:
        if "kernel void" not in source:
            raise Refused("line 1: no kernel")
        return self.program, source.split("kernel void ")[1].split("(")[0]

    def recorded(self) -> tuple[Any, list[Any]]:
        device, made = self.device, built()
        image = device.toolchain.compile(device.toolchain.source(made), made.name)
        function = device.queue.load(image, made)
        pieces = [device.memory.alloc(256) for _ in range(2)]
        steps = [
            Step(function, (2, 1, 1), (Slot(0, 16), Slot(1), 10, 2.0)),
            Step(function, (0, 1, 1), (Slot(0), Slot(1), 10, 2.0)),
            Step(function, (3, 2, 1), (Slot(1), Slot(0), -1, -0.5)),
        ]
        return device.queue.record(steps, 2), pieces


def test_a_plan_is_one_command_buffer_and_one_encoder() -> None:
    recorder = Recorder()
    launches, pieces = recorder.recorded()
    first = recorder.device.memory.part(pieces[0], 64, 64)
    recorder.calls.clear()
    recorder.device.queue.run(launches, [first, pieces[1]])
    assert recorder.calls == [
        ("commandBuffer",),
        ("computeCommandEncoder",),
        ("useResources", 2, 3),
        ("setComputePipelineState", "scaled"),
        ("setBytes", 32, 0),
        ("dispatchThreadgroups", (2, 1, 1), (8, 1, 1)),
        ("setComputePipelineState", "scaled"),
        ("setBytes", 32, 0),
        ("dispatchThreadgroups", (3, 2, 1), (8, 1, 1)),
        ("endEncoding",),
        ("commit",),
    ]
    assert not recorder.program.runs
    recorder.device.queue.synchronize()
    x, y = (piece.buffer.address for piece in pieces)
    half = int(np.float32(-0.5).view(np.uint32))
    words = [np.frombuffer(a, np.uint64).tolist() for a, *_ in recorder.program.runs]
    assert words[0] == [x + 80, y, 10, int(np.float32(2).view(np.uint32))]
    assert words[1] == [y, x + 64, 2**64 - 1, half]
    assert len(recorder.device.queue.seconds(launches, pieces)) == 3


def test_a_text_is_compiled_once_by_metals_strict_rules() -> None:
    recorder = Recorder()
    recorder.recorded()
    compiled = [call[1] for call in recorder.calls if call[0] == "newLibrary"]
    options = {"languageVersion": 0x30002, "mathMode": 0, "mathFloatingPointFunctions": 1}
    assert compiled == [options]
    assert ("newBuffer", 256, 0) in recorder.calls


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [
        (1, DeviceError, "it failed"),
        (2, DeviceError, "Timeout"),
        (3, DeviceError, "PageFault"),
        (8, OutOfMemoryError, "OutOfMemory"),
        (11, DeviceLostError, "DeviceRemoved"),
    ],
)
def test_a_failed_command_buffer_is_a_typed_error_once(
    code: int, error: type[Exception], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    launches, pieces = recorder.recorded()
    recorder.program.fails = Failure("as asked")
    monkeypatch.setattr(Failure, "code", lambda self: code)
    queue = recorder.device.queue
    queue.run(launches, pieces)
    # What failed is told to who waits, and not to who runs something else.
    for _ in range(20):
        queue.run(launches, pieces)
    with pytest.raises(error, match=f"{word}.*as asked") as caught:
        queue.synchronize()
    assert type(caught.value) is error
    with pytest.raises(error, match=word):
        queue.seconds(launches, pieces)
    recorder.program.fails = None
    queue.run(launches, pieces)
    queue.synchronize()


def test_what_is_used_lives_until_it_is_done() -> None:
    recorder = Recorder()
    launches, pieces = recorder.recorded()
    queue = recorder.device.queue
    queue.run(launches, pieces)
    (held,) = queue._running
    assert held[1] == tuple(pieces)
    queue.run(launches, pieces)
    assert len(queue._running) == 2
    recorder.device.close()
    assert not queue._running


def test_nobody_waits_for_the_gpu_to_write() -> None:
    recorder = Recorder()
    memory, (launches, pieces) = recorder.device.memory, recorder.recorded()
    part = memory.part(pieces[1], 128, 64)
    numbers, got = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    memory.copy_in(part, 8, numbers)
    recorder.device.queue.run(launches, pieces)
    recorder.calls.clear()
    memory.copy_in(pieces[0], 16, numbers * 2)
    memory.copy(pieces[0], 4, part, 8, 8)
    copies = [call for call in recorder.calls if call[0] == "copyFromBuffer"]
    assert copies == [("copyFromBuffer", 0, 16, 32), ("copyFromBuffer", 136, 4, 8)]
    assert not recorder.program.runs
    # What are no whole words is written by the processor, when the GPU is done.
    memory.copy_in(pieces[0], 47, np.array([7], np.uint8))
    memory.copy(pieces[0], 19, pieces[0], 47, 1)
    assert [call for call in recorder.calls if call[0] == "copyFromBuffer"] == copies
    memory.copy_out(pieces[0], 16, got)
    assert got.tolist() == [7 << 24, *(numbers[1:7] * 2), 14 | 7 << 24]
    memory.copy_out(pieces[0], 4, got[:2])
    assert got[:2].tolist() == [0, 1]


def test_errors_say_what_was_refused() -> None:
    recorder = Recorder()
    with pytest.raises(CompileError, match="(?s)refuses kernel 'f': line 1: no kernel.*nothing"):
        recorder.device.toolchain.compile("nothing", "f")
    with pytest.raises(CompileError, match="no pipeline of 'f': there is no such function"):
        recorder.device.toolchain.compile("kernel void g(", "f")
    with pytest.raises(CompileError, match="compiles for no device"):
        MetalToolchain("none").compile("", "f")
    with pytest.raises(OutOfMemoryError, match="the limit is .*; free tensors"):
        recorder.device.memory.alloc(1 << 40)


def test_a_toolchain_goes_to_other_processes(device: Any) -> None:
    toolchain = pickle.loads(pickle.dumps(device.toolchain))
    source = toolchain.source(built())
    assert toolchain.compile(source, "scaled") == source.encode()


def test_without_metal_there_are_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Metal", None)
    assert _bindings.devices() == []
    with pytest.raises(DeviceError, match="pip install pyobjc-framework-Metal"):
        MetalDevice(0)

    class Without(MetalToolchain):
        def metal(self) -> Any:
            return ImitatedMetal()

    with pytest.raises(DeviceError, match="there is no GPU 3 with Metal 3; the system lists 1"):
        MetalDevice(3, Without("a fake", 3))


def test_what_the_device_says_of_itself(device: Any) -> None:
    info = device.info
    assert info.planes == (32,)
    assert info.has("barrier")
    assert {float64, bfloat16}.isdisjoint(info.dtypes)
    assert info.shared_bytes == 32768
