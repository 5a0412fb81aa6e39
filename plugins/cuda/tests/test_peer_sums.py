"""Small sums of GPUs, by kernels that reach the memory of all: imitated and real."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.distributed import Group, all_gather, all_reduce, group
from calor.errors import DeviceError, DeviceLostError
from calor_kernel.device.buffers import ForeignBuffer
from calor_kernel.runtime.backend import KernelBackend
from imitated_cuda import CudaError
from imitated_nccl import Nccl

WAYS = {"alone": (1 << 18, 0, 2), "together": (0, 1 << 22, 3)}


@pytest.fixture
def members(nccl: Nccl) -> Group:
    """A group of the imitated GPUs."""
    return three()


@pytest.fixture(params=["members", "real"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def real() -> Group:
    """A group of three GPUs, or a skip."""
    from calor_cuda.bindings import count

    if count() < 3:
        pytest.skip("there are not three NVIDIA GPUs")
    return three()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Who adds: one GPU alone, or all together."""
    for name, most in zip(("ALONE", "TOGETHER", "FEW"), WAYS[request.param], strict=True):
        monkeypatch.setattr(f"calor_kernel.runtime.communicator.{name}", most)
    return request.param


def three() -> Group:
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    backend = KernelBackend("cuda", CudaDevice, count)
    return group(*(device_of(backend, n) for n in range(3)))


ARRAYS = {
    "float32": (1, 4099),
    "float16": (7,),
    "bfloat16": (4099,),
    "float64": (7,),
    "int32": (4099,),
    "uint8": (7,),
}


@pytest.mark.parametrize(
    ("dtype", "count"), [(d, n) for d, counts in ARRAYS.items() for n in counts]
)
def test_sums_are_what_copies_give(either: Group, way: str, dtype: str, count: int) -> None:
    host = (np.arange(3 * count) % 13).reshape(3, count).astype(calor.dtypes.as_dtype(dtype).numpy)
    plain = group("numpy", "numpy", "numpy")
    made, wanted = all_reduce(either.join(host)), all_reduce(plain.join(host))
    for got, part in zip(either.split(made), plain.split(wanted), strict=True):
        assert got.numpy().tobytes() == part.numpy().tobytes()
    assert either.device.fallbacks == either.device.transfers == 0


def test_calls_that_follow_each_other(either: Group, way: str) -> None:
    host = np.arange(3 * 1000, dtype=np.float32).reshape(3, 1000) % 7
    bound = calor.jit(lambda x: all_reduce(x) - x).bind(x := either.join(host))
    for _ in range(50):
        made = bound()
    for row, part in zip(host, either.split(made), strict=True):
        assert part.tolist() == (host.sum(0) - row).tolist()
    assert either.split(x)[2].tolist() == host[2].tolist()


def test_one_gpu_adds_after_all_and_before_all(fake: Any, nccl: Nccl, members: Group) -> None:
    x = members.join(np.ones((3, 8), np.float32))
    assert all_reduce(x).tolist() == [3.0] * 8
    fake.log.clear()
    calor.eval(all_reduce(x))
    gather = ["record 1", "0 waits for 1", "record 2", "0 waits for 2"]
    assert fake.log == [*gather, "launch on 0", "record 0", "1 waits for 0", "2 waits for 0"]
    assert nccl.groups == []


def test_parts_are_added_between_two_meetings(
    fake: Any, members: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in zip(("ALONE", "TOGETHER", "FEW"), WAYS["together"], strict=True):
        monkeypatch.setattr(f"calor_kernel.runtime.communicator.{name}", most)
    x = members.join(np.ones((3, 3072), np.float32))
    calor.eval(all_reduce(x))
    fake.log.clear()
    calor.eval(all_reduce(x))
    gather = ["record 1", "0 waits for 1", "record 2", "0 waits for 2"]
    meeting = [*gather, "record 0", "1 waits for 0", "2 waits for 0"]
    assert fake.log == [*meeting, *(f"launch on {n}" for n in range(3)), *meeting]


def test_two_share_what_more_leave_to_nccl(fake: Any, nccl: Nccl) -> None:
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    backend = KernelBackend("cuda", CudaDevice, count)
    elements = (1 << 18) // 4 + 1
    for members, shared in ((2, True), (3, False)):
        made = group(*(device_of(backend, n) for n in range(members)))
        fake.log.clear()
        nccl.groups.clear()
        calor.eval(all_reduce(made.join(np.ones((members, elements), np.float32))))
        assert (nccl.groups == []) == shared
        assert ("launch on 1" in fake.log) == shared


def test_what_is_too_short_for_two_shares_is_added_by_one(nccl: Nccl) -> None:
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    backend = KernelBackend("cuda", CudaDevice, count)
    pair = group(*(device_of(backend, n) for n in range(2)))
    large, one = np.arange(2 << 16).reshape(2, -1) % 7, np.array([[2.0], [3.0]])
    x, y = (pair.join(a.astype(np.float32)) for a in (large, one))
    made, single = calor.jit(lambda x, y: (all_reduce(x), all_reduce(y)))(x, y)
    assert made.tolist() == large.sum(0).tolist()
    assert single.tolist() == [5.0]
    assert nccl.groups == []


def test_what_is_large_or_no_sum_is_for_nccl(
    nccl: Nccl, members: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calor_kernel.runtime.communicator.ALONE", 32)
    x = members.join(np.ones((3, 8), np.float32))
    calor.eval(all_reduce(x))
    assert nccl.groups == []
    others: list[Callable[[], Any]] = [
        lambda: all_reduce(members.join(np.ones((3, 9), np.float32))),
        lambda: all_gather(x),
        lambda: all_reduce(x, "prod"),
        lambda: all_reduce(members.join(np.ones((3, 2), np.complex64))),
    ]
    for count, other in enumerate(others):
        calor.eval(other())
        assert len(nccl.groups) == count + 1


def test_gpus_that_are_not_connected_go_by_nccl(
    fake: Any, nccl: Nccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_P2P_DIRECT_DISABLE", "1")
    fake.apart = {(1, 2)}
    assert all_reduce(three().join(np.ones((3, 2), np.float32))).tolist() == [3.0, 3.0]
    assert nccl.groups == [1]


def test_memory_of_other_libraries_goes_by_nccl(nccl: Nccl, members: Group) -> None:
    x = members.join(np.ones((3, 2), np.float32))
    value: Any = x._value
    mine = value.buffer.parts[1]
    other = ForeignBuffer(mine.pool, mine.handle, mine.nbytes, None, lambda: None)
    value.buffer.parts = (value.buffer.parts[0], other, value.buffer.parts[2])
    assert all_reduce(x).tolist() == [3.0, 3.0]
    assert nccl.groups == [1]


@pytest.mark.parametrize(
    ("code", "error", "word"),
    [(700, DeviceLostError, "a kernel read or wrote"), (400, DeviceError, "wait for each other")],
)
def test_failures_are_typed(
    fake: Any, members: Group, code: int, error: type[Exception], word: str
) -> None:
    x = members.join(np.ones((3, 2), np.float32))
    assert all_reduce(x).tolist() == [3.0, 3.0]
    made, record = all_reduce(x), fake.runtime.eventRecord

    def fails(*given: Any) -> None:
        raise CudaError(code)

    fake.runtime.eventRecord = fails
    with pytest.raises(error, match=f"{word}.*in op 'all_reduce'"):
        made.numpy()
    fake.runtime.eventRecord = record


def test_events_are_given_back(fake: Any, members: Group) -> None:
    assert all_reduce(members.join(np.ones((3, 2), np.float32))).tolist() == [3.0, 3.0]
    members.device.backend.close()
    assert fake.calls.count("eventCreateWithFlags") == fake.calls.count("eventDestroy") == 3
