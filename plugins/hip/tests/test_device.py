"""The device keeps the device contract on the imitated driver, and errors are typed."""

import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import CompileError, DeviceError, DeviceLostError, OutOfMemoryError
from calor_hip import bindings
from calor_hip.device import HipDevice
from calor_hip.diagnosis import diagnosis
from calor_hip.toolchain import HipToolchain
from calor_host_shim.devices import HostHipDevice, hip_device
from calor_host_shim.hip import DEVICES, HipError, ImitatedHip
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.runtime.backend import KernelBackend
from device_contract import built, loaded


def on(fake: ImitatedHip, number: int = 0) -> HipDevice:
    return HostHipDevice(number, (fake.runtime, fake.driver))


def test_records_are_called_with_a_handle_for_each_slot(cdna: Any) -> None:
    memory, queue, function = cdna.memory, cdna.queue, loaded(cdna, built())
    source, target = memory.alloc(64), memory.alloc(64)
    memory.copy_in(source, 0, np.arange(16, dtype=np.float32))
    memory.copy_in(target, 0, np.zeros(16, np.float32))
    step = Step(function, (2, 1, 1), (Slot(0), Slot(1, 16), 10, 2.0))
    queue.direct(queue.record([step], 2))(source, target)
    got = np.empty(16, np.float32)
    memory.copy_out(target, 0, got)
    assert got.tolist() == [0.0] * 4 + [2.0 * i for i in range(10)] + [0.0] * 2
    back = Step(function, (2, 1, 1), (Slot(1, 16), Slot(0), 10, 2.0))
    queue.direct(queue.record([step, back], 2))(source, target)
    memory.copy_out(source, 0, got)
    assert got.tolist() == [4.0 * i for i in range(10)] + [10.0 + i for i in range(6)]


def test_calls_name_the_device_and_memory_is_freed_when_it_is_not_used(fake: ImitatedHip) -> None:
    device = on(fake, 1)
    assert fake.calls == [
        *("getDeviceCount", "getDeviceProperties", "driverGetVersion"),
        *("setDevice", "streamCreateWithFlags"),
    ]
    fake.calls.clear()
    piece = device.memory.alloc(0)
    device.memory.write(piece, b"1")
    device.memory.free(piece)
    assert fake.calls == [
        *("setDevice", "malloc", "setDevice", "memcpyAsync"),
        *("setDevice", "streamSynchronize", "free"),
    ]
    fake.calls.clear()
    device.close()
    assert fake.calls == ["setDevice", "streamSynchronize"]


def test_what_devices_say_of_themselves(fake: ImitatedHip) -> None:
    first, second, third = (on(fake, number).info for number in range(3))
    assert first.description == "imitated MI300X (gfx942, HIP 7.0)"
    assert [info.planes for info in (first, second, third)] == [(64,), (32,), (64,)]
    assert first.max_cubes == (2**22 - 1, 65536, 65536)
    assert "mfma_32x32x8_float16" in first.matrices
    assert "wmma_16x16x16_bfloat16" in second.matrices
    # It takes numbers below the smallest normal one for zero.
    assert "mfma_32x32x8_float16" not in third.matrices
    fake.devices = ({**DEVICES[0], "gcnArchName": "gfx906:sramecc+", "name": b""},)
    oldest = on(fake).info
    assert oldest.description.startswith("AMD GPU (gfx906")
    assert not oldest.has("matrix")
    fake.devices = ({**DEVICES[0], "warpSize": 16},)
    with pytest.raises(DeviceError, match="waves of 32 and 64 units, not 16"):
        HipDevice(0, (fake.runtime, fake.driver))


class Hiprtc(ModuleType):
    """hipRTC as CuPy shows it."""

    def __init__(self, fails: str = "") -> None:
        super().__init__("nvrtc")
        self.fails = fails
        self.programs: dict[int, str] = {}
        self.options: list[str] = []

    def getVersion(self) -> tuple[int, int]:
        return 7, 0

    def createProgram(self, source: str, name: str, headers: Any, names: Any) -> int:
        assert (name, headers, names) == ("scaled.hip", (), ())
        self.programs[5] = source
        return 5

    def compileProgram(self, program: int, options: list[str]) -> None:
        self.options = options
        if self.fails:
            raise RuntimeError("HIPRTC_ERROR_COMPILATION (6)")

    def getProgramLog(self, program: int) -> str:
        return self.fails

    def getPTX(self, program: int) -> bytes:
        return b"\x7fELF code"

    def destroyProgram(self, program: int) -> None:
        del self.programs[program]


def install(patch: pytest.MonkeyPatch, fake: ImitatedHip, hiprtc: Hiprtc) -> None:
    """Put modules in CuPy's place."""
    api = SimpleNamespace(runtime=fake.runtime, driver=fake.driver)
    for name, module in {
        "cupy_backends": ModuleType("c"),
        "cupy_backends.cuda": ModuleType("c"),
        "cupy_backends.cuda.api": api,
        "cupy_backends.cuda.libs": SimpleNamespace(nvrtc=hiprtc),
    }.items():
        patch.setitem(sys.modules, name, module)


def test_hiprtc_compiles_for_the_device(fake: ImitatedHip, monkeypatch: pytest.MonkeyPatch) -> None:
    hiprtc = Hiprtc()
    install(monkeypatch, fake, hiprtc)
    toolchain = HipDevice(1).toolchain
    source = toolchain.source(built())
    # The last byte, a zero, is one that CuPy leaves out.
    assert toolchain.compile(source, "scaled") == b"\x7fELF code\0"
    assert hiprtc.options[:2] == ["--offload-arch=gfx1100", "-mno-wavefrontsize64"]
    assert "-ffp-contract=off" in hiprtc.options
    assert toolchain.target.startswith("hiprtc 7.0 gfx1100 32 ")
    assert hiprtc.programs == {}
    hiprtc.fails = "error: no"
    with pytest.raises(CompileError, match="(?s)hipRTC refuses kernel 'scaled'.*error: no.*global"):
        toolchain.compile(source, "scaled")
    assert hiprtc.programs == {}


def test_a_toolchain_goes_to_other_processes(clang: str) -> None:
    made = HipToolchain("gfx942", clang=clang)
    toolchain = pickle.loads(pickle.dumps(made))
    assert toolchain.target == made.target
    assert toolchain.compile(toolchain.source(built()), "scaled")[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [
        (2, OutOfMemoryError, "hip:0: out of memory: waiting for kernels"),
        (700, DeviceLostError, "where there is no memory: waiting for kernels"),
        (719, DeviceLostError, "a kernel failed"),
        (100, DeviceError, "finds no GPU.*rocminfo"),
        (1, DeviceError, "waiting for kernels: hipError1"),
    ],
)
def test_codes_of_the_driver_become_errors(
    fake: ImitatedHip, code: int, error: type[Exception], word: str
) -> None:
    device = on(fake)
    fake.fails = code
    with pytest.raises(error, match=word) as caught:
        device.queue.synchronize()
    assert type(caught.value) is error
    assert isinstance(caught.value.__cause__, HipError)


def test_memory_that_is_not_there(fake: ImitatedHip) -> None:
    device = on(fake)
    with pytest.raises(OutOfMemoryError, match="out of memory: allocating .* in smaller parts"):
        device.memory.alloc(1 << 50)
    device.memory.free(device.memory.alloc(64))
    assert fake.pieces == {}


def test_there_are_no_devices_without_a_driver(
    fake: ImitatedHip, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, fake, Hiprtc())
    assert bindings.count() == 3
    with pytest.raises(DeviceError, match="there is no HIP device 3; the driver lists 3"):
        HipDevice(3)
    fake.devices = ()
    assert bindings.count() == 0
    with pytest.raises(DeviceError, match="finds no GPU.*groups render and video.*rocminfo"):
        HipDevice(0)
    monkeypatch.setattr(fake.runtime, "is_hip", False)
    assert bindings.count() == 0
    with pytest.raises(
        DeviceError, match="the installed one is for CUDA.*needs its own environment"
    ):
        HipDevice(0)


def test_without_cupy_there_are_none_and_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", None)
    assert bindings.count() == 0
    with pytest.raises(DeviceError, match=r'not installed.*pip install "calor-hip\[rocm7\]"'):
        HipDevice(0)


def test_the_doctor_is_told(fake: ImitatedHip, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, fake, Hiprtc())
    assert diagnosis()[:4] == [
        ("CuPy", "built for ROCm"),
        ("hipRTC", "7.0"),
        ("driver", "of HIP 7.0"),
        ("hip:0", "gfx942, waves of 64 units, matrix units"),
    ]
    fake.devices = ()
    assert "finds no GPU" in dict(diagnosis())["driver"]
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", None)
    assert 'pip install "calor-hip[rocm7]"' in dict(diagnosis())["CuPy"]


@pytest.mark.parametrize("connected", [True, False])
def test_gpus_copy_to_each_other_in_the_order_of_both(fake: ImitatedHip, connected: bool) -> None:
    fake.apart = set() if connected else {(0, 2)}
    backend = KernelBackend("hip", lambda number: on(fake, number), lambda: 3)
    first, second = device_of(backend, 0), device_of(backend, 2)
    host = np.arange(50, dtype=np.float32)
    x = calor.asarray(host, device=first)
    calor.eval(x)
    fake.calls.clear()
    moved = x.to(second)
    calls = ["eventRecord", "streamWaitEvent", "memcpyPeerAsync", "eventRecord", "streamWaitEvent"]
    assert [c for c in fake.calls if c in calls] == calls
    assert "memcpyAsync" not in fake.calls
    assert fake.reach == ({(2, 0), (0, 2)} if connected else set())
    assert moved.tolist() == host.tolist()
    assert moved.to(first).tolist() == host.tolist()
    backend.close()


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_large_products(cdna: Any, number: int, dtype: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, size).astype(np.float32) for size in ((66, 72), (72, 80)))
    backend = KernelBackend("hip", hip_device, lambda: len(DEVICES))
    with calor.device(device_of(backend, number)):
        left, right = (calor.asarray(x).astype(dtype) for x in (a, b))
        assert ((left @ right).astype("float32").numpy() == a @ b).all()
