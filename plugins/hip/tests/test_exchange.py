"""Memory goes to other libraries and comes back by CuPy's DLPack, in the order of the stream."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ExchangeError
from calor_hip.device import ROCM
from calor_host_shim.cupy_arrays import Array, ImitatedCupy
from calor_kernel.runtime.backend import KernelBackend


@pytest.fixture
def place(cdna: Any) -> Any:
    return device_of(KernelBackend("hip", lambda number: cdna), 0)


def on_device(device: Any, host: np.ndarray[Any, Any]) -> Array:
    """Return an array of the imitated CuPy, in memory of the device."""
    memory = device.memory
    cupy = ImitatedCupy(memory.on.runtime, ROCM, memory.alloc)
    address = memory.alloc(host.nbytes)
    memory.copy_in(address, 0, host)
    with cupy.cuda.Device(0), cupy.cuda.Stream.from_external(memory.on):
        pointer = cupy.cuda.MemoryPointer((address, host.nbytes, None, 0), 0)
        return cupy.ndarray(host.shape, host.dtype, pointer)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_a_capsule_is_of_the_memory_when_it_is_computed(place: Any, dtype: str) -> None:
    host = np.arange(12).reshape(3, 4).astype(dtype)
    # What is queued runs late on the imitated driver: without the stream's order this reads what
    # was there before.
    x = calor.reshape(calor.asarray(host, device=place), (4, 3)).T
    x = calor.where(x == x, x, x)
    assert x.__dlpack_device__() == (ROCM, 0)
    assert place.info.feature("dlpack")
    capsule = x.__dlpack__(max_version=(1, 0))
    seen = np.from_dlpack(Held(capsule))
    assert (seen == host.reshape(4, 3).T).all()
    assert seen.ctypes.data == x._value.buffer.handle


class Held:
    """A capsule, as NumPy takes it: the memory of the imitated device is the host's."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_arrays_come_without_a_copy_or_with_one(place: Any, cdna: Any) -> None:
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = on_device(cdna, host)
    back = calor.from_dlpack(array, device=place, copy=False)
    assert back._value.buffer.handle == array.data.ptr
    assert (back + 1).tolist() == (host + 1).tolist()
    copied = calor.from_dlpack(array, device=place)
    assert copied._value.buffer.handle != array.data.ptr
    assert copied.tolist() == host.tolist()


def test_a_view_is_copied_or_refused(place: Any, cdna: Any) -> None:
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = on_device(cdna, host)
    view = Array(array.cupy, array.array.T, 0, array)
    assert calor.from_dlpack(view, device=place, copy=True).tolist() == host.T.tolist()
    with pytest.raises(ExchangeError, match="copy=False needs dense"):
        calor.from_dlpack(view, device=place, copy=False)


def test_numba_s_interface_is_cuda_s_alone(place: Any) -> None:
    assert not hasattr(calor.ones(3, device=place), "__cuda_array_interface__")
