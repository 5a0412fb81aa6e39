"""Several GPUs, imitated and real: copies between them, and collectives by NCCL."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.distributed import Group, all_gather, all_reduce, broadcast, group, reduce_scatter
from calor.errors import DeviceError, DeviceLostError
from calor_distributed.backend import group_of
from calor_kernel.runtime.backend import KernelBackend
from imitated_cuda import CudaError
from imitated_nccl import Nccl


@pytest.fixture
def backend(nccl: Nccl, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The backend of the imitated GPUs, which exchange by NCCL also what is small."""
    for name in ("ALONE", "TOGETHER"):
        monkeypatch.setattr(f"calor_kernel.runtime.communicator.{name}", 0)
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    return KernelBackend("cuda", CudaDevice, count)


@pytest.fixture
def real() -> Any:
    """The backend of two GPUs, or a skip."""
    from calor_cuda.bindings import count
    from calor_cuda.device import CudaDevice

    if count() < 2:
        pytest.skip("there are not two NVIDIA GPUs")
    return KernelBackend("cuda", CudaDevice, count)


@pytest.fixture(params=["backend", "real"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def pair(backend: Any, *numbers: int) -> Group:
    return group(*(device_of(backend, n) for n in numbers or (0, 1)))


def test_a_copy_goes_from_gpu_to_gpu_in_the_order_of_both(fake: Any, backend: Any) -> None:
    host = np.arange(100, dtype=np.float32)
    x = calor.asarray(host, device=device_of(backend, 0))
    calor.eval(x)
    fake.calls.clear()
    moved = x.to(device_of(backend, 1))
    order = ["record 0", "1 waits for 0", "copy 0 to 1", "record 1", "0 waits for 1"]
    assert fake.log == order
    # Nothing goes through the host, and nothing is waited for.
    assert not {"memcpyAsync", "streamSynchronize"} & set(fake.calls)
    assert fake.open == {(0, 1), (1, 0)}
    assert moved.numpy().tolist() == host.tolist()
    assert x.to(device_of(backend, 1)).to(device_of(backend, 0)).tolist() == host.tolist()


def test_gpus_that_are_not_connected_are_copied_by_the_driver(fake: Any, backend: Any) -> None:
    fake.apart = {(1, 0)}
    x = calor.asarray([1.0, 2.0], device=device_of(backend, 0))
    assert x.to(device_of(backend, 1)).tolist() == [1.0, 2.0]
    assert "copy 0 to 1" in fake.log


def test_copies_follow_the_stream_that_a_gpu_has_now(fake: Any, nccl: Nccl) -> None:
    from calor_cuda.device import CudaDevice

    first, second = CudaDevice(0), CudaDevice(1)
    target = second.memory.alloc(8)
    for sender in (first, CudaDevice(0)):
        assert second.memory.receive(target, 0, sender.memory, sender.memory.alloc(8), 0, 8)
        assert second.memory.peers.crossings[0].sender is sender.memory.on
    second.close()
    assert fake.calls.count("eventCreateWithFlags") == fake.calls.count("eventDestroy") == 4


def test_a_copy_inherits_what_failed_before_it(backend: Any) -> None:
    with calor.device(device_of(backend, 0)):
        x = calor.arange(4)[calor.asarray([7])]
    moved = x.to(device_of(backend, 1))
    with pytest.raises(DeviceError):
        moved.numpy()


def test_copies_between_real_gpus(real: Any) -> None:
    host = np.arange(1 << 22, dtype=np.float32)
    first, second = (device_of(real, n) for n in (0, 1))
    x = calor.asarray(host, device=first)
    for _ in range(20):
        # What is freed on the way is used again by what follows.
        y = (x + 1).to(second)
        x = (y + 1).to(first)
        del y
    assert (x.numpy() == host + 40).all()


RUNS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("sum", all_reduce, "allReduce"),
    ("mean", lambda x: all_reduce(x, "mean"), "allReduce"),
    ("prod", lambda x: all_reduce(x, "prod"), "allReduce"),
    ("gather", all_gather, "allGather"),
    ("scatter", reduce_scatter, "reduceScatter"),
    ("broadcast", lambda x: broadcast(x, 1), "broadcast"),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "complex64"])
@pytest.mark.parametrize("run", [r for _, r, _ in RUNS], ids=[n for n, _, _ in RUNS])
def test_collectives_are_what_copies_give(
    either: Any, run: Callable[[Any], Any], dtype: str
) -> None:
    if dtype in ("int32", "complex64") and run in (RUNS[1][1], RUNS[2][1]):
        return
    host = np.arange(8).reshape(2, 4).astype(calor.dtypes.as_dtype(dtype).numpy)
    members, plain = pair(either), group("numpy", "numpy")
    made = run(members.join(host))
    wanted = run(plain.join(host))
    for got, part in zip(members.split(made), plain.split(wanted), strict=True):
        assert got.numpy().tobytes() == part.numpy().tobytes()
    assert members.device.fallbacks == 0
    assert members.device.transfers == 0


def test_collectives_of_one_stage_are_one_group_of_calls(nccl: Nccl, backend: Any) -> None:
    members = pair(backend, 0, 1, 2)
    x = members.join(np.ones((3, 4), np.float32))

    @calor.jit
    def run(x: Any) -> Any:
        first, second, third = all_reduce(x), all_reduce(x * 2), all_gather(x)
        return all_reduce(first), second, third

    made = run(x)
    assert [t.tolist() for t in made] == [[9.0] * 4, [6.0] * 4, [1.0] * 12]
    assert sum(nccl.groups) == 4
    assert len(nccl.groups) < 4


@pytest.mark.parametrize(
    ("op", "dtype"), [("max", "float32"), ("sum", "int16"), ("prod", "complex64")]
)
def test_what_nccl_has_otherwise_goes_by_counted_copies(
    backend: Any, nccl: Nccl, op: str, dtype: str
) -> None:
    members = pair(backend)
    host = np.array([[1, 2], [3, 0]]).astype(dtype)
    if op == "max":
        host[0, 0] = np.nan
    wanted = {"max": np.maximum, "sum": np.add, "prod": np.multiply}[op](*host)
    got = all_reduce(members.join(host), op).numpy()
    np.testing.assert_array_equal(got, wanted)
    assert nccl.groups == []
    assert members.device.fallbacks == 1
    # There and back.
    assert members.device.transfers == 2


def test_groups_that_share_gpus_queue_one_after_the_other(
    backend: Any, nccl: Nccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = (pair(backend, *n).join(np.ones((2, 2), np.float32)) for n in ((0, 1), (1, 0)))
    most: list[int] = []
    end = nccl.end

    def late() -> None:
        # The other thread has time to begin.
        time.sleep(0.05)
        most.append(nccl.within)
        end()

    monkeypatch.setattr(nccl.module, "groupEnd", late)
    assert all_reduce(x).tolist() == all_reduce(y).tolist() == [2.0, 2.0]
    threads = [threading.Thread(target=lambda t=t: calor.eval(all_reduce(t))) for t in (x, y)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def test_a_device_twice_goes_by_copies(backend: Any, nccl: Nccl) -> None:
    members = pair(backend, 0, 0)
    assert all_reduce(members.join(np.ones((2, 2), np.float32))).tolist() == [2.0, 2.0]
    assert nccl.groups == []
    assert "counted" in members.device.info.supports("all_reduce", calor.float32).reason
    assert pair(backend).device.info.supports("all_reduce", calor.float32).level == "full"


def test_nccl_goes_through_its_own_buffers_where_gpus_are_not_connected(
    backend: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.delenv("NCCL_P2P_DIRECT_DISABLE", raising=False)
    fake.apart = {(0, 1)}
    assert all_reduce(pair(backend).join(np.ones((2, 2), np.float32))).tolist() == [2.0, 2.0]
    assert os.environ.pop("NCCL_P2P_DIRECT_DISABLE") == "1"


def test_without_nccl_the_error_says_what_to_install(
    backend: Any, nccl: Nccl, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = pair(backend).join(np.ones((2, 2), np.float32))
    nccl.module.available = False  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="NCCL, which is not installed; pip install nvidia-nccl"):
        all_reduce(x).numpy()
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(DeviceError, match="CuPy with NCCL.*nvidia-nccl-cu13"):
        all_reduce(x).numpy()


@pytest.mark.parametrize(
    ("code", "word"),
    [(1, "a call of the driver failed within NCCL"), (6, "another GPU"), (9, "answers")],
)
def test_failures_of_nccl_are_typed_and_the_group_stays_usable(
    backend: Any, nccl: Nccl, code: int, word: str
) -> None:
    members = pair(backend)
    x = members.join(np.ones((2, 2), np.float32))
    assert all_reduce(x).tolist() == [2.0, 2.0]
    nccl.fails = code
    made = all_reduce(x)
    # A failed plan is tried once more, output by output.
    nccl.module.groupStart = _failing(nccl, code)  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match=f"{word}.*NCCL_DEBUG=WARN.*in op 'all_reduce'"):
        made.numpy()
    nccl.module.groupStart = nccl.start  # type: ignore[attr-defined]
    nccl.fails = 0
    assert all_reduce(x).tolist() == [2.0, 2.0]
    members.device.backend.close()


def _failing(nccl: Nccl, code: int) -> Callable[[], None]:
    def start() -> None:
        nccl.fails = code
        nccl.start()

    return start


def test_a_gpu_that_is_lost_leaves_the_others_usable(backend: Any, fake: Any) -> None:
    first, second = (device_of(backend, n) for n in (0, 1))
    x, y = (calor.asarray([1.0, 2.0], device=d) for d in (first, second))
    launch = fake.driver.launchKernel

    def fails(*given: Any) -> None:
        if fake.current == 0:
            raise CudaError(700)
        launch(*given)

    fake.driver.launchKernel = fails
    with pytest.raises(DeviceLostError, match=r"cuda:0: a kernel read or wrote.*in op 'exp'"):
        calor.exp(x).numpy()
    fake.driver.launchKernel = launch
    # It stays lost, and says why; the process and the other GPU go on.
    with pytest.raises(DeviceLostError, match="cuda:0: a kernel read or wrote"):
        x.numpy()
    np.testing.assert_allclose(calor.exp(y).numpy(), np.exp([1, 2]), rtol=1e-6)


def test_a_fault_that_is_seen_late_names_what_ran_last(backend: Any, fake: Any) -> None:
    device = device_of(backend, 0)
    x = calor.asarray([1.0, 2.0], device=device)
    made = calor.exp(x)
    calor.eval(made)
    wait = fake.runtime.streamSynchronize

    def fails(stream: int) -> None:
        raise CudaError(700)

    fake.runtime.streamSynchronize = fails
    with pytest.raises(DeviceLostError, match="cuda:0: .* computing what was read.*in op 'exp'"):
        made.numpy()
    fake.runtime.streamSynchronize = wait
    with pytest.raises(DeviceLostError, match="no memory"):
        calor.synchronize(device)


def test_a_step_of_training_on_two_gpus(either: Any) -> None:
    members = group_of([device_of(either, 0), device_of(either, 1)])
    both = Group(members.backend.members)  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    host, target = rng.normal(size=(8, 4)), rng.normal(size=8)

    @calor.jit
    def step(w: Any, x: Any, y: Any) -> Any:
        loss = calor.mean((x @ w - y) ** 2)
        loss.backward()
        calor.distributed.average_gradients([w])
        with calor.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        return all_reduce(loss, "mean")

    def weights() -> Any:
        return calor.zeros(4).requires_grad_()

    with calor.device("numpy"):
        one = weights()
        alone = [
            step(one, *(calor.asarray(a, dtype=calor.float32) for a in (host, target))).item()
            for _ in range(3)
        ]
    with both:
        two = weights()
    parts = [both.scatter(a.astype(np.float32)) for a in (host, target)]
    together = [step(two, *parts).item() for _ in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    np.testing.assert_allclose(two.numpy(), one.numpy(), rtol=1e-5)
