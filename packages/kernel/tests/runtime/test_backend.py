"""The backend as core uses it: memory, claims, copies of what is there, forked children."""

import os
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32, float64, int32
from calor.errors import OutOfMemoryError, UnsupportedError
from calor.specs import spec
from calor_conformance.strict.backend import StrictBackend
from calor_interpreter.device import ONE_UNIT, LanesDevice, LanesMemory
from calor_kernel.runtime.backend import KernelBackend

FLOATS = spec((3,), float32)


class Apart(LanesMemory):
    """Memory that the host does not see."""

    def address(self, handle):
        return None


def backend_of(info=ONE_UNIT, apart=False, count=1):
    def opened(index):
        device = LanesDevice(info, checks=False)
        if apart:
            device.memory = Apart()
        return device

    return KernelBackend("tested", opened, lambda: count)


@pytest.fixture(params=[False, True], ids=["host", "apart"])
def backend(request):
    return backend_of(apart=request.param, count=2)


def test_threads_that_ask_at_once_open_a_device_once():
    opened, met = [], threading.Barrier(2)

    def opens(index):
        opened.append(index)
        # The other thread is on its way here, if it may come.
        time.sleep(0.05)
        return LanesDevice(ONE_UNIT, checks=False)

    backend, found = KernelBackend("tested", opens), []

    def asks():
        met.wait()
        found.append(backend.engine(0))

    threads = [threading.Thread(target=asks) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == [0]
    assert found[0] is found[1]


def test_what_is_uploaded_is_copied_and_downloaded(backend):
    array = np.arange(3, dtype=np.float32)
    buffer = backend.upload(0, array)
    array[:] = 9
    for index in range(2):
        copied = backend.copy(0, buffer, FLOATS, index)
        assert copied is not buffer
        assert backend.download(index, copied, FLOATS).tolist() == [0.0, 1.0, 2.0]
    assert backend.memory(1).in_use == 12
    del buffer, copied
    assert backend.memory(0).in_use == backend.memory(1).in_use == 0
    assert backend.memory(0).peak == 24


def test_views_of_host_memory():
    backend = backend_of()
    buffer = backend.upload(0, np.ones(3, np.float32))
    view = backend.download(0, buffer, FLOATS)
    part = view[1:]
    assert not view.flags.writeable
    assert buffer.exported
    del view, buffer
    assert backend.memory(0).in_use == 12
    assert part.tolist() == [1.0, 1.0]
    del part
    assert backend.memory(0).in_use == 0


@pytest.mark.parametrize("start", [0, 1], ids=["aligned", "elsewhere"])
def test_adopted_arrays_are_shared(start):
    backend = backend_of()
    raw = np.zeros(128, np.float32)
    shift = -raw.ctypes.data % 64 // 4
    array = raw[shift + start : shift + start + 3]
    buffer = backend.adopt(0, array)
    assert buffer.exported
    assert backend.memory(0).in_use == 0
    with calor.device(device_of(backend, 0)):
        graph = calor.trace(lambda x: x + x, calor.ones(3))
    plan = backend.compile(0, graph)
    for turn in range(3):
        array[:] = turn
        (made,) = plan([buffer])
        assert backend.download(0, made, FLOATS).tolist() == [2.0 * turn] * 3


def test_a_device_with_memory_of_its_own_shares_none():
    backend = backend_of(apart=True)
    info = backend.info(0)
    assert not info.feature("host_views")
    assert not info.feature("dlpack")
    buffer = backend.upload(0, np.ones(3, np.float32))
    with pytest.raises(UnsupportedError):
        backend.dlpack(0, buffer, FLOATS)
    with pytest.raises(UnsupportedError):
        backend.adopt(0, np.ones(3, np.float32))
    backend.download(0, buffer, FLOATS)
    assert not buffer.exported


def test_dlpack_is_read_only_where_that_can_be_said():
    backend = backend_of()
    x = calor.asarray(np.arange(3.0), device=device_of(backend, 0)) + 1
    array = np.from_dlpack(x)
    assert array.tolist() == [1.0, 2.0, 3.0]
    assert not array.flags.writeable
    del x
    assert array.tolist() == [1.0, 2.0, 3.0]


def test_dtypes_follow_from_the_device():
    dtypes = frozenset((float32, int32, calor.bool, calor.uint8, calor.uint16, calor.uint32))
    info = backend_of(replace(ONE_UNIT, dtypes=dtypes)).info(0)
    known = {d.name for d, state in info.dtypes.items() if state}
    assert known == {
        "bool", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32",
        "complex64", "float8_e4m3fn", "float8_e5m2",
    }  # fmt: skip
    assert "float64" in info.dtypes[calor.complex128].reason
    assert info.dtypes[float64].level == "impossible"


def test_a_device_that_flushes_float32_says_of_which_dtypes():
    info = backend_of(replace(ONE_UNIT, flushes=True)).info(0)
    assert {d.name for d in info.flushes} == {"float32", "bfloat16", "complex64"}
    for dtype, state in info.dtypes.items():
        assert (state.level == "partial") is (dtype in info.flushes)
    assert not backend_of().info(0).flushes


def test_claims_have_reasons():
    backend = backend_of()
    with calor.device("numpy"):
        # Larger matrices are left to the host.
        x = calor.ones((3, 3))
        graph = calor.trace(lambda x: calor.linalg.qr(x)[0] + x.T, x)
    claim = backend.claim(0, graph)
    taken = {graph.nodes[i].op.name for part in claim.parts for i in part}
    assert {"permute", "add"} <= taken
    refused = {graph.nodes[i].op.name: why for i, why in claim.reasons.items()}
    assert refused == {"qr": "a cube has fewer than 64 units"}


def test_behind_the_proxy_that_checks_the_protocol():
    device = device_of(StrictBackend(backend_of()), 0)
    with calor.device(device):
        x = calor.asarray(np.arange(6.0).reshape(2, 3))
        scale = calor.jit(lambda x, a: (x.T * a, x[:, ::-1] + x, x))
        for n in range(3):
            made = scale(x, n)
            assert made[0].tolist() == (np.arange(6.0).reshape(2, 3).T * n).tolist()
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        device.backend.set_memory_limit(0, device.memory.in_use + 30)
        with pytest.raises(OutOfMemoryError):
            (x + 1).numpy()


def test_stored_graphs():
    backend = backend_of()
    graph = calor.trace(lambda x: calor.flip(x + x, axis=0), calor.ones((2, 3)))
    data = backend.serialize(0, backend.compile(0, graph))
    plan = backend_of().deserialize(0, data)
    assert plan.graph == graph


def test_devices_are_opened_when_they_are_used_and_closed():
    opened = []

    class Watched(LanesDevice):
        def close(self):
            opened.append("closed")

    def make(index):
        opened.append(index)
        return Watched(ONE_UNIT)

    backend = KernelBackend("watched", make, lambda: 3)
    assert backend.enumerate() == 3
    assert opened == []
    backend.upload(2, np.ones(3, np.float32))
    backend.upload(2, np.ones(3, np.float32))
    backend.close()
    assert opened == [2, "closed"]


def test_a_device_is_opened_by_its_first_use():
    backend = KernelBackend("first", lambda index: LanesDevice(ONE_UNIT, checks=False))
    device = device_of(backend, 0)
    assert not backend.opened(0)
    calor.asarray([1.0], device=device)
    assert backend.opened(0)


def test_a_forked_child_computes():
    class Restarted(LanesDevice):
        restarts = 0

        def restart(self):
            self.restarts += 1

    device = Restarted(replace(ONE_UNIT, features=ONE_UNIT.features | {"fork"}), checks=False)
    backend = KernelBackend("forked", lambda index: device)
    with calor.device(device_of(backend, 0)):
        x = calor.ones(3) + 1
        x.numpy()
        child = os.fork()
        if child == 0:
            try:
                assert device.restarts == 1
                assert (x * 2).tolist() == [4.0, 4.0, 4.0]
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert device.restarts == 0
