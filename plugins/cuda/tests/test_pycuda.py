"""PyCUDA in CuPy's place: which library calls the driver, its rules, and what its errors mean."""

import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import calor
from calor import dtypes
from calor.backends.device import device_of
from calor.errors import DeviceError, DeviceLostError, ExchangeError, OutOfMemoryError
from calor.specs import spec
from calor_cuda.bindings import count, library
from calor_cuda.device import CudaDevice
from calor_cuda.diagnosis import diagnosis
from calor_cuda.pycuda_capsules import capsule_of, contents
from calor_cuda.pycuda_driver import PyCudaError
from calor_kernel.runtime.backend import KernelBackend
from imitated_cuda import H200


def test_cupy_calls_the_driver_where_it_is(fake: Any) -> None:
    assert library() == ("CuPy", (fake.runtime, fake.driver))


def test_pycuda_does_where_cupy_is_not(pycuda: Any) -> None:
    name, (runtime, driver) = library()
    assert (name, runtime) == ("PyCUDA", driver)
    assert runtime.pycuda is pycuda.module
    assert count() == 1


def test_a_variable_chooses(pycuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALOR_CUDA_DRIVER", "cupy")
    with pytest.raises(DeviceError, match=r"as CALOR_CUDA_DRIVER says, on CuPy, which is not"):
        CudaDevice(0)
    monkeypatch.setenv("CALOR_CUDA_DRIVER", "cuda")
    with pytest.raises(DeviceError, match="CALOR_CUDA_DRIVER is 'cuda'; set it to cupy or pycuda"):
        CudaDevice(0)


def test_a_variable_chooses_pycuda_beside_cupy(
    fake: Any, pycuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.install(monkeypatch)
    assert library()[0] == "CuPy"
    monkeypatch.setenv("CALOR_CUDA_DRIVER", "pycuda")
    assert library()[0] == "PyCUDA"


def test_without_both_the_error_names_both_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cupy_backends.cuda.api", "pycuda", "pycuda.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    assert count() == 0
    with pytest.raises(DeviceError, match=r"(?s)on CuPy or PyCUDA.*\[cu13\].*\[pycuda\].*CuPy \("):
        CudaDevice(0)


def test_what_pycuda_says_of_a_device_is_what_cupy_says(fake: Any, by_pycuda: Any) -> None:
    info = by_pycuda.info
    assert info.description == "NVIDIA H200, imitated (compute capability 9.0, driver of CUDA 13.0)"
    assert info.max_cube == (1024, 1024, 64)
    assert info.shared_bytes == H200["sharedMemPerBlockOptin"]
    assert info.has("tensor_copy")
    # NCCL is called by CuPy.
    assert not info.has("links")


def test_contexts_are_on_the_stack_only_while_something_is_made(
    pycuda: Any, by_pycuda: Any
) -> None:
    backend = KernelBackend("cuda", lambda number: by_pycuda)
    found: list[Any] = []

    def elsewhere() -> None:
        with calor.device(device_of(backend, 0)):
            found.append((calor.arange(8) * 2).numpy().tolist())
        found.append(list(pycuda.stack))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [list(range(0, 16, 2)), []]
    assert not pycuda.stack


def test_events_are_kept_and_used_again(pycuda: Any, by_pycuda: Any) -> None:
    runtime = by_pycuda.memory.on.runtime
    first, second = runtime.eventCreate(), runtime.eventCreate()
    runtime.eventDestroy(first)
    assert runtime.eventCreate().event is first.event
    assert runtime.eventCreateWithFlags(runtime.eventDisableTiming).event.flags == 2
    assert second.event is not first.event
    assert pycuda.events == 3


def test_gpus_copy_to_each_other(fake: Any, pycuda: Any) -> None:
    fake.devices = [H200] * 2
    backend = KernelBackend("cuda", CudaDevice, count)
    host = np.arange(100, dtype=np.float32)
    x = calor.asarray(host, device=device_of(backend, 0))
    moved = x.to(device_of(backend, 1))
    order = ["record 0", "1 waits for 0", "copy 0 to 1", "record 1", "0 waits for 1"]
    assert fake.log == order
    assert moved.numpy().tolist() == host.tolist()


class Producer:
    """An array of another library on the imitated device."""

    def __init__(self, address: int, dtype: Any, shape: tuple[int, ...], old: bool = False) -> None:
        self.address, self.spec, self.old = address, spec(shape, dtype), old
        self.asked: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and "max_version" in options:
            raise TypeError("max_version is unknown here")
        self.asked.append(options.pop("stream"))
        return capsule_of(self.address, self.spec, (2, 0), self, **options)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "bool", "complex64", "uint8"])
def test_memory_is_exchanged_without_cupy(fake: Any, by_pycuda: Any, name: str, old: bool) -> None:
    there = device_of(KernelBackend("cuda", lambda number: by_pycuda), 0)
    dtype = calor.dtypes.as_dtype(name)
    x = calor.asarray(np.arange(6).reshape(2, 3), device=there).astype(dtype)
    assert x.__dlpack_device__() == (2, 0)
    capsule = x.__dlpack__(max_version=None if old else (1, 0), copy=None if old else False)
    address, known = contents(capsule)
    assert (known.shape, known.dtype) == ((2, 3), dtype)
    assert old or address == x._value.buffer.handle
    assert "cuStreamSynchronize" in fake.calls
    del capsule
    producer = Producer(x._value.buffer.handle, dtypes.as_dtype("uint16"), (2, 3), old)
    if dtype.itemsize == 2:
        back = calor.from_dlpack(producer, device=there, copy=False)
        assert back._value.buffer.handle == producer.address
        assert back.tolist() == x.numpy().view(np.uint16).tolist()
        assert calor.from_dlpack(producer, device=there).tolist() == back.tolist()
        assert producer.asked == [77, 77]
    assert calor.from_dlpack(Given(x), device=there).tolist() == x.tolist()
    assert x.__cuda_array_interface__["stream"] == 77


class Given:
    """A tensor as a stranger's array."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.__dlpack__ = tensor.__dlpack__
        self.__dlpack_device__ = tensor.__dlpack_device__


def test_a_capsule_keeps_the_owner_of_its_memory() -> None:
    held, owner = np.arange(4.0), Owner()
    alive = weakref.ref(owner)
    capsule = capsule_of(held.ctypes.data, spec((4,), dtypes.float64), (2, 0), owner)
    del owner
    assert alive() is not None
    del capsule
    assert alive() is None


class Owner:
    """What memory belongs to."""


def test_memory_that_is_not_dense_is_refused(by_pycuda: Any) -> None:
    turned = np.arange(6.0).reshape(2, 3).T
    with pytest.raises(ExchangeError, match="where CuPy is not installed; pass a dense copy"):
        contents(turned.__dlpack__())
    capsule = turned.T.__dlpack__()
    assert contents(capsule) == (turned.ctypes.data, spec((2, 3), dtypes.float64))
    np.from_dlpack(
        type(
            "Used",
            (),
            {
                "__dlpack__": lambda self, **options: capsule,
                "__dlpack_device__": lambda self: (1, 0),
            },
        )()
    )
    with pytest.raises(ExchangeError, match="was used before"):
        contents(capsule)


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [
        (2, OutOfMemoryError, "out of memory: waiting for kernels"),
        (700, DeviceLostError, "where there is no memory: waiting for kernels"),
        (719, DeviceLostError, "a kernel failed"),
        (100, DeviceError, "finds no GPU"),
        (1, DeviceError, "waiting for kernels: cuStreamSynchronize failed: invalid argument"),
    ],
)
def test_words_of_the_driver_become_errors(
    pycuda: Any, by_pycuda: Any, code: int, error: type[Exception], word: str
) -> None:
    pycuda.fails = code
    with pytest.raises(error, match=word) as caught:
        by_pycuda.queue.synchronize()
    assert type(caught.value) is error
    assert isinstance(caught.value.__cause__, PyCudaError)
    assert caught.value.__cause__.status == code


def test_there_are_no_devices_without_a_gpu(fake: Any, pycuda: Any) -> None:
    fake.devices = []
    assert count() == 0
    with pytest.raises(DeviceError, match=r"finds no GPU.*nvidia-smi"):
        CudaDevice(0)


def test_the_doctor_says_who_calls_the_driver(pycuda: Any) -> None:
    found = dict(diagnosis())
    assert found["driver"] == "of CUDA 13.0; PyCUDA is for CUDA 13.0, and calls it"
    assert found["cuda:0"].endswith("compiled for sm_90a")
