"""The device keeps the device contract, on the imitated driver and on a GPU where there is one."""

import gc
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32
from calor.errors import DeviceError, DeviceLostError, OutOfMemoryError
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.language import (
    Buffer,
    barrier,
    kernel,
    shared,
    unit_position,
)
from calor_kernel.runtime.backend import KernelBackend
from device_contract import built, loaded
from device_runs import run
from imitated_cuda import CudaError


@pytest.fixture(params=["imitated", "by_pycuda", "gpu"])
def device(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_a_list_becomes_a_graph_that_takes_other_memory(device: Any) -> None:
    memory, queue, function = device.memory, device.queue, loaded(device, built())
    a, b, c = (memory.alloc(64) for _ in range(3))
    memory.copy_in(a, 0, np.arange(16, dtype=np.float32))
    memory.copy_in(c, 0, -np.arange(16, dtype=np.float32))
    steps = [
        Step(function, (2, 1, 1), (Slot(i % 2), Slot(1 - i % 2), 16, 1.0 + i)) for i in range(5)
    ]
    recorded = queue.record(steps, 2)
    got = np.empty(16, np.float32)
    for handles, start, graphs in (
        ((a, b), 1, 0),
        ((a, b), 24, 1),
        ((c, b), -1, 2),
        ((a, b), 24 * 24, 2),
    ):
        queue.run(recorded, handles)
        memory.copy_out(b, 0, got)
        assert got.tolist() == (np.arange(16) * 120 * start).tolist()
        assert len(recorded.graphs) == graphs
    for piece in (a, b, c):
        memory.free(piece)


def test_launches_are_timed_without_the_host(device: Any) -> None:
    memory, queue, function = device.memory, device.queue, loaded(device, built())
    a, b, c = (memory.alloc(64) for _ in range(3))
    memory.copy_in(a, 0, np.arange(16, dtype=np.float32))
    cubes = [(2, 1, 1), (0, 1, 1), (2, 1, 1)]
    recorded = queue.record(
        [Step(function, shape, (Slot(0), Slot(1), 16, 2.0)) for shape in cubes], 2
    )
    got = np.empty(16, np.float32)
    graphs = []
    for handles in ((a, b), (a, b), (a, c)):
        first, none, last = queue.seconds(recorded, handles)
        assert none == 0.0 < min(first, last)
        memory.copy_out(handles[1], 0, got)
        assert got.tolist() == (2 * np.arange(16)).tolist()
        graphs.append(recorded.timed(handles))
    assert graphs[0] is graphs[1] is not graphs[2]
    for piece in (a, b, c):
        memory.free(piece)


def test_only_what_differs_is_set_anew(fake: Any, imitated: Any) -> None:
    memory, queue, function = imitated.memory, imitated.queue, loaded(imitated, built())
    pieces = [memory.alloc(64) for _ in range(6)]
    steps = [Step(function, (1, 1, 1), (Slot(i), Slot(i + 1), 0, 1.0)) for i in (0, 1, 0, 1)]
    recorded = queue.record(steps, 3)
    for first in (0, 0, 3, 4):
        queue.run(recorded, [pieces[first], *pieces[1:3]])
    assert len(fake.graphs) == len(recorded.graphs) == 3
    before = len(fake.calls)
    queue.run(recorded, pieces[:3])
    assert fake.calls[before:] == ["setDevice", "graphLaunch"]
    made = fake.calls.count("cuGraphExecKernelNodeSetParams")
    # Of the graph that was used longest ago, the first and third launch read another buffer now.
    queue.run(recorded, [pieces[5], *pieces[1:3]])
    assert fake.calls.count("cuGraphExecKernelNodeSetParams") == made + 2
    assert len(recorded.graphs) == 3
    queue.run(recorded, pieces[:3])
    assert fake.calls.count("cuGraphExecKernelNodeSetParams") == made + 2


@kernel
def reversed_in_shared(x: Any, *, size: int, units: int) -> None:
    aside = shared(8, float32)
    box = shared(size, float32, align=128)
    unit = unit_position()
    if unit < 8:
        aside[unit] = 0.0
    for i in range(unit, size, units):
        box[i] = x[i]
    barrier()
    for i in range(unit, size, units):
        x[i] = box[size - 1 - i]


def test_shared_memory_beyond_what_is_static(device: Any) -> None:
    size = 40_000
    made = reversed_in_shared.build([Buffer(float32)], cube=(128, 1, 1), size=size, units=128)
    assert "launched_memory + 128" in device.toolchain.source(made)
    x = np.arange(size, dtype=np.float32)
    run(device, made, (1, 1, 1), [x])
    assert (x == np.arange(size)[::-1]).all()


def test_a_toolchain_goes_to_other_processes(imitated: Any) -> None:
    toolchain = pickle.loads(pickle.dumps(imitated.toolchain))
    assert toolchain.target == imitated.toolchain.target
    assert toolchain.architecture == "sm_90a"
    assert toolchain.compile(toolchain.source(built()), "scaled")[1:4] == b"ELF"


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [
        (2, OutOfMemoryError, "out of memory: waiting for kernels"),
        (700, DeviceLostError, "where there is no memory: waiting for kernels"),
        (719, DeviceLostError, "a kernel failed"),
        (100, DeviceError, "finds no GPU"),
        (1, DeviceError, "waiting for kernels: cudaError1"),
    ],
)
def test_codes_of_the_driver_become_errors(
    fake: Any, imitated: Any, code: int, error: type[Exception], word: str
) -> None:
    fake.fails = code
    with pytest.raises(error, match=word) as caught:
        imitated.queue.synchronize()
    assert type(caught.value) is error
    assert isinstance(caught.value.__cause__, CudaError)


def test_a_launch_that_fails_says_so(fake: Any, imitated: Any) -> None:
    function = loaded(imitated, built())
    piece = imitated.memory.alloc(64)
    recorded = imitated.queue.record([Step(function, (1, 1, 1), (Slot(0), Slot(0), 1, 1.0))], 1)
    fake.driver.launchKernel = lambda *given: (_ for _ in ()).throw(CudaError(719))
    with pytest.raises(DeviceLostError, match="a kernel failed: running kernels"):
        imitated.queue.run(recorded, [piece])


@pytest.mark.parametrize("call", ["setDevice", "launchKernel"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_run_on_a_gpu_that_is_lost_says_so(
    fake: Any, imitated: Any, call: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = loaded(imitated, built())
    piece = imitated.memory.alloc(64)
    step = Step(function, (1, 1, 1), (Slot(0), Slot(0), 1, 1.0))
    recorded = imitated.queue.record([step] * count, 1)

    def fails(*given: Any) -> None:
        raise CudaError(700)

    monkeypatch.setattr(fake.runtime if call == "setDevice" else fake.driver, call, fails)
    with pytest.raises(DeviceLostError, match="no memory: running kernels"):
        imitated.queue.direct(recorded)(piece)
    with pytest.raises(DeviceLostError, match="no memory: running kernels"):
        imitated.queue.run(recorded, [piece])


def test_a_kernel_that_failed_before_a_copy_says_so(
    fake: Any, imitated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = imitated.memory.alloc(64)

    def fails(stream: int) -> None:
        raise CudaError(700)

    monkeypatch.setattr(fake.runtime, "streamSynchronize", fails)
    with pytest.raises(DeviceLostError, match="before a copy"):
        imitated.memory.copy_in(piece, 0, np.zeros(4, np.float32))
    monkeypatch.undo()
    # The GPU stays lost.
    with pytest.raises(DeviceLostError, match="before a copy"):
        imitated.queue.synchronize()


def test_a_graph_that_fails_is_given_back(imitated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    function = loaded(imitated, built())
    piece = imitated.memory.alloc(64)
    step = Step(function, (1, 1, 1), (Slot(0), Slot(0), 1, 1.0))
    recorded = imitated.queue.record([step] * 4, 1)
    given: list[str] = []
    for name in ("cuGraphDestroy", "cuGraphExecDestroy"):
        monkeypatch.setattr(
            f"cuda.bindings.driver.{name}", lambda made, name=name: (given.append(name), (0,))[1]
        )
    monkeypatch.setattr("cuda.bindings.driver.cuGraphInstantiate", lambda graph, flags: (2,))
    imitated.queue.run(recorded, [piece])
    with pytest.raises(OutOfMemoryError, match="recording launches as a graph"):
        imitated.queue.run(recorded, [piece])
    gc.collect()
    assert given == ["cuGraphDestroy"]


def test_there_are_no_devices_without_a_driver(fake: Any) -> None:
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    assert count() == 1
    with pytest.raises(DeviceError, match="there is no CUDA device 1; the driver lists 1"):
        CudaDevice(1)
    fake.devices = []
    assert count() == 0
    with pytest.raises(DeviceError, match="no driver, or one that is older.*nvidia-smi"):
        CudaDevice(0)


def test_without_cupy_there_are_none_and_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", None)
    assert count() == 0
    with pytest.raises(DeviceError, match=r'not installed; pip install "calor-cuda\[cu13\]"'):
        CudaDevice(0)


def test_an_old_gpu_is_refused_and_a_new_one_gets_ptx(compiler: Any) -> None:
    from calor_cuda.toolchain import architecture

    assert architecture((8, 0)) == "sm_80"
    assert architecture((9, 0)) == "sm_90a"
    assert architecture((99, 9)).startswith("compute_1")
    with pytest.raises(DeviceError, match="8.0 or newer, and this one has 7.5; use calor-opencl"):
        architecture((7, 5))


def test_several_gpus_compute_side_by_side() -> None:
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    if count() < 2:
        pytest.skip("there are not two NVIDIA GPUs")
    backend = KernelBackend("cuda", CudaDevice, count)
    host = np.arange(2**20, dtype=np.float32)
    first, second = (calor.asarray(host, device=device_of(backend, i)) for i in (0, 1))
    made = [x * 2.0 for x in (first, second, first, second)]
    moved = made[1].to(made[0].device) + made[0]
    for x in made:
        assert (x.numpy() == host * 2).all()
    assert (moved.numpy() == host * 4).all()
    backend.close()


ENDS = """
from types import SimpleNamespace
from calor_cuda.launches import DriverGraph

def destroy(name):
    return lambda made: print(name, made)

driver = SimpleNamespace(
    cuGraphCreate=lambda flags: (0, "1"), cuGraphDestroy=destroy("graph"),
    cuGraphInstantiate=lambda graph, flags: (0, "2"), cuGraphExecDestroy=destroy("executable"),
)

def made():
    graph = DriverGraph(driver, ())
    graph._instantiate(driver)
    return graph

dropped, kept = made(), made()
del dropped
print("the end")
"""


def test_graphs_are_destroyed_when_they_are_dropped_and_not_at_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["executable 2", "graph 1", "the end"]
    assert done.stderr == ""
