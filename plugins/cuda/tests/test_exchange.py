"""Memory goes to CuPy and torch and comes back without a copy, in the right order."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ExchangeError
from calor_host_shim.cupy_arrays import Array, ImitatedCupy
from calor_kernel.runtime.backend import KernelBackend

DTYPES = ["float32", "float64", "float16", "int64", "uint8", "bool", "complex64"]


@pytest.fixture
def place(gpu: Any) -> Any:
    return device_of(KernelBackend("cuda", lambda number: gpu), 0)


@pytest.fixture
def cupy(gpu: Any) -> Any:
    return pytest.importorskip("cupy")


def test_the_interface_says_where_a_tensor_is(imitated: Any, fake: Any) -> None:
    with calor.device(device_of(KernelBackend("cuda", lambda number: imitated), 0)):
        x = calor.asarray(np.arange(6, dtype=np.int16).reshape(2, 3))
        found = x.__cuda_array_interface__
        assert x.__dlpack_device__() == (2, 0)
    address, only_read = found.pop("data")
    assert fake.memory(address)[:12].view(np.int16).tolist() == list(range(6))
    assert only_read
    wanted = {"shape": (2, 3), "typestr": "<i2", "strides": None, "stream": 77, "version": 3}
    assert found == wanted
    assert x._value.buffer.exported


class Held:
    """A capsule, as NumPy takes it: the memory of the imitated device is the host's."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_capsules_are_of_the_memory_on_the_imitated_driver(imitated: Any, fake: Any) -> None:
    exchange = imitated.exchange
    exchange.cupy = lambda: ImitatedCupy(fake.runtime, 2, imitated.memory.alloc)
    there = device_of(KernelBackend("cuda", lambda number: imitated), 0)
    x = calor.asarray(np.arange(6, dtype=np.float32), device=there) * 2
    fake.calls.clear()
    seen = np.from_dlpack(Held(x.__dlpack__(max_version=(1, 0))))
    assert seen.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert seen.ctypes.data == x._value.buffer.handle
    assert "streamSynchronize" in fake.calls
    cupy = exchange.cupy()
    array = Array(cupy, seen.reshape(2, 3), 0, x)
    back = calor.from_dlpack(array, device=there, copy=False)
    assert back._value.buffer.handle == seen.ctypes.data
    assert back.tolist() == seen.reshape(2, 3).tolist()
    turned = Array(cupy, seen.reshape(2, 3).T, 0, x)
    assert calor.from_dlpack(turned, device=there).tolist() == seen.reshape(2, 3).T.tolist()
    with pytest.raises(ExchangeError, match="copy=False needs dense"):
        calor.from_dlpack(turned, device=there, copy=False)


def test_a_tensor_elsewhere_has_no_such_interface() -> None:
    assert not hasattr(calor.ones(3, device="numpy"), "__cuda_array_interface__")


@pytest.mark.parametrize("dtype", DTYPES)
def test_cupy_sees_the_same_memory(place: Any, cupy: Any, dtype: str) -> None:
    host = np.arange(12).reshape(3, 4).astype(dtype)
    x = calor.asarray(host, device=place)
    for seen in (cupy.from_dlpack(x), cupy.asarray(x)):
        assert seen.data.ptr == x._value.buffer.handle
        assert (cupy.asnumpy(seen) == host).all()
    back = calor.from_dlpack(seen, device=place, copy=False)
    assert back._value.buffer.handle == seen.data.ptr
    assert (back.numpy() == host).all()
    copied = calor.asarray(seen, device=place)
    assert copied._value.buffer.handle != seen.data.ptr
    assert (copied.numpy() == host).all()


def test_a_view_is_copied_or_refused(place: Any, cupy: Any) -> None:
    view = cupy.arange(12.0).reshape(3, 4).T
    assert (calor.asarray(view, device=place).numpy() == cupy.asnumpy(view)).all()
    with pytest.raises(ExchangeError, match="copy=False needs dense"):
        calor.from_dlpack(view, device=place, copy=False)


def test_the_order_of_streams(place: Any, cupy: Any) -> None:
    big = np.ones((2048, 2048), np.float32)
    x = calor.asarray(big, device=place)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for turn in range(5):
            y = x @ x * float(turn)
            seen = cupy.from_dlpack(y)
            total = seen + 1
            back = calor.from_dlpack(total, device=place, copy=False) - 1.0
            total = None
            assert (back.numpy() == 2048 * turn).all()
        stream.synchronize()


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_torch_sees_the_same_memory(place: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = calor.ones((3, 4), dtype=getattr(calor, dtype), device=place)
    seen = torch.from_dlpack(x)
    assert str(seen.dtype) == f"torch.{dtype}"
    assert seen.data_ptr() == x._value.buffer.handle
    assert (seen.cpu() == torch.ones(3, 4).to(seen.dtype)).all()
    made = torch.full((5,), 3.0, device="cuda").to(seen.dtype)
    if dtype != "bfloat16":
        back = calor.from_dlpack(made, device=place, copy=False)
        assert back._value.buffer.handle == made.data_ptr()
        assert (back.astype(calor.float32 if dtype != "complex64" else calor.complex64) != 0).all()
