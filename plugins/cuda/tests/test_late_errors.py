"""Indices out of range on a GPU: nobody waits for their check, and nobody misses its answer."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ElementIndexError
from calor.ops.movement import dynamic_update_slice
from calor_kernel.runtime.backend import KernelBackend

X = np.arange(3, dtype=np.float32)
GOOD, BAD = np.array([2, 0]), np.array([0, 7])
PAGE = 1 << 16


@pytest.fixture
def device(imitated: Any) -> Any:
    return device_of(KernelBackend("late", lambda index: imitated), 0)


def gather(x: Any, indices: Any) -> Any:
    return calor.take(x, indices, axis=0)


def compiled(device: Any, function: Any, *arrays: Any) -> Any:
    with calor.device("numpy"):
        graph = calor.trace(function, *[calor.asarray(a) for a in arrays])
    return device.backend.compile(0, graph)


@pytest.fixture
def plan(device: Any) -> Any:
    return compiled(device, lambda x, i: (gather(x, i),), X, GOOD)


def given(device: Any, *arrays: Any) -> list[Any]:
    return [device.backend.upload(0, a) for a in arrays]


def look(device: Any, buffer: Any, size: int = 2) -> list[float]:
    found = device.backend.download(0, buffer, calor.specs.spec((size,), calor.float32))
    return list(found.tolist())


def test_words_of_many_runs_are_read_at_once(fake: Any, device: Any, plan: Any) -> None:
    good = given(device, X, GOOD)
    kept = [plan(good)[0] for _ in range(2)]
    device.backend.synchronize(0)
    fake.calls.clear()
    for _ in range(20):
        plan(good)
    assert {*fake.calls} == {"setDevice", "launchKernel"}
    device.backend.synchronize(0)
    assert fake.calls.count("memcpyAsync") == 1
    fake.calls.clear()
    for buffer in kept:
        assert look(device, buffer) == [2.0, 0.0]
    # What is known to be fine is not asked for again.
    assert fake.calls.count("memcpyAsync") == 2


def test_an_error_is_its_own_runs_alone(device: Any, plan: Any) -> None:
    good, bad = given(device, X, GOOD), given(device, X, BAD)
    for _ in range(2):
        made = [plan(bad if n in (4, 7) else good)[0] for n in range(10)]
        for n, buffer in enumerate(made):
            if n in (4, 7):
                with pytest.raises(ElementIndexError, match="out of range for axis 0 of size 3"):
                    look(device, buffer)
            else:
                assert look(device, buffer) == [2.0, 0.0]
    device.backend.synchronize(0)


def test_more_runs_than_a_page_has_words_for(device: Any, plan: Any) -> None:
    good, bad = given(device, X, GOOD), given(device, X, BAD)
    for _ in range(10):
        plan(good)
    (lost,) = plan(bad)
    for _ in range(PAGE // plan.block_bytes + 10):
        (fine,) = plan(good)
    with pytest.raises(ElementIndexError):
        device.backend.synchronize(0)
    device.backend.synchronize(0)
    assert look(device, fine) == [2.0, 0.0]
    with pytest.raises(ElementIndexError):
        look(device, lost)


def test_who_reads_while_another_run_is_on_its_way(
    device: Any, plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = given(device, X, GOOD), given(device, X, BAD)
    board = device.backend.engine(0).board
    (first,) = plan(good)
    put = board.put

    def reading(*arguments: Any) -> Any:
        # As another thread may: after the launch, before its outcome is known.
        with monkeypatch.context() as patch:
            patch.setattr(board, "put", put)
            assert look(device, first) == [2.0, 0.0]
            assert look(device, plan(good)[0]) == [2.0, 0.0]
        return put(*arguments)

    monkeypatch.setattr(board, "put", reading)
    (lost,) = plan(bad)
    monkeypatch.undo()
    fine = [plan(good)[0] for _ in range(3)]
    assert look(device, fine[2]) == [2.0, 0.0]
    with pytest.raises(ElementIndexError):
        look(device, lost)
    assert not board._unread
    device.backend.synchronize(0)


def test_words_of_a_run_that_was_not_queued_serve_again(
    device: Any, plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = given(device, X, GOOD)
    plan(good)
    (fine,) = plan(good)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "short", None)
        patch.setattr(plan.queue, "run", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            plan(good)
    assert look(device, fine) == [2.0, 0.0]
    assert not device.backend.engine(0).board._unread


def test_numbers_of_the_host_beside_words(device: Any, plan: Any) -> None:
    scaled = calor.jit(lambda x, i, factor: gather(x, i) * factor)
    good, bad = given(device, X, GOOD), given(device, X, BAD)
    with calor.device(device):
        x, i = calor.asarray(X), calor.asarray(GOOD)
        wrong = calor.asarray(BAD)
        for n in range(1, 6):
            made, lost = scaled(x, i, n * 1e9), scaled(x, wrong, n * 1e9)
            (fine,), (worse,) = plan(good), plan(bad)
            for _ in range(2):
                with pytest.raises(ElementIndexError):
                    look(device, worse)
                with pytest.raises(ElementIndexError):
                    lost.numpy()
            assert made.tolist() == [2e9 * n, 0.0]
            assert look(device, fine) == [2.0, 0.0]
    device.backend.synchronize(0)


def test_a_graph_of_the_drivers(fake: Any, device: Any) -> None:
    def long(x: Any, i: Any) -> Any:
        for _ in range(4):
            x = gather(x, i)
        return x

    call = calor.jit(long)
    with calor.device(device):
        x = calor.asarray(X)
        good, bad = calor.asarray([2, 1, 0]), calor.asarray([2, 1, -4])
        bound = call.bind(x)
        for indices in (good, good, good, bad, good):
            made = bound(indices)
            if indices is good:
                assert made.tolist() == [0.0, 1.0, 2.0]
                continue
            with pytest.raises(ElementIndexError) as caught:
                made.tolist()
            assert caught.value.op == "gather"
    assert "graphLaunch" in fake.calls
    calor.synchronize(device)


def test_what_is_known_to_be_fine_is_forgotten(device: Any) -> None:
    plan = compiled(device, lambda x, i: (gather(x, i),), X, np.array([2, 0, 1]))
    x, i = given(device, X, np.array([2, 0, 1]))
    for _ in range(5):
        (x,) = plan([x, i])
    assert len(x.outcomes) == 5
    device.backend.synchronize(0)
    (y,) = plan([x, i])
    assert len(y.outcomes) == 1
    assert x.outcomes == ()


@pytest.mark.parametrize("bad", [False, True])
def test_steps_of_a_loop_write_in_place_and_nobody_waits(fake: Any, device: Any, bad: bool) -> None:
    cache = np.zeros((8, 4096), np.float32)

    def loops(table: Any, cache: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            row = calor.broadcast_to(gather(table, i - 1), (1, carry.shape[1]))
            return dynamic_update_slice(carry, row, calor.stack([i, i * 0]))

        return (calor.fori_loop(1, 6 if bad else 4, step, cache),)

    loop = compiled(device, loops, X, cache)
    buffers = given(device, X, cache)
    # The second call queues several steps at once, and compiles what copies the indices.
    for _ in range(3):
        loop(buffers)
    fake.calls.clear()
    (made,) = loop(buffers)
    assert "graphLaunch" in fake.calls
    assert not [call for call in fake.calls if call.endswith("ynchronize")]
    found = calor.specs.spec(cache.shape, calor.float32)
    if bad:
        with pytest.raises(ElementIndexError, match="out of range for axis 0 of size 3"):
            device.backend.download(0, made, found)
        return
    cache[1:4] = X[:, None]
    np.testing.assert_array_equal(device.backend.download(0, made, found), cache)


class State:
    """A state that steps change in place: by one launch and by several, and by a late copy."""

    def __init__(self) -> None:
        self.sums, self.table = calor.zeros(2048), calor.ones((3, 2048))
        self.last = calor.zeros((2, 2048))

    def tensors(self) -> list[Any]:
        return [self.sums, self.table, self.last]

    def read(self) -> list[Any]:
        return [tensor.numpy().copy() for tensor in self.tensors()]


def test_steps_on_state_are_graphs_that_nobody_waits_for(fake: Any, device: Any) -> None:
    with calor.device(device):
        state = State()

        def step(indices: Any, scale: float) -> Any:
            picked = gather(state.table, indices)
            state.last[...] = picked * scale
            state.sums[...] = state.sums + calor.softmax(picked.sum(axis=0), axis=0)
            state.table[...] = state.table * 2
            return picked.sum()

        call = calor.jit(step)
        good, bad = calor.asarray(GOOD), calor.asarray(BAD)
        for _ in range(3):
            call(good, 0.5)
        before = state.read()
        call(good, 0.5).item()
        fake.calls.clear()
        made = [call(bad if n == 2 else good, 0.5 + n) for n in range(5)]
        assert fake.calls.count("graphLaunch") == 5
        # The host's number is a copy that the driver takes at once.
        assert fake.calls.count("memcpyAsync") == 5
        assert "streamSynchronize" not in fake.calls
        for n, result in enumerate(made):
            if n < 2:
                assert result.item() == before[1][GOOD].sum() * 2 ** (n + 1)
            else:
                with pytest.raises(ElementIndexError) as caught:
                    result.item()
                assert caught.value.op == "gather"
        after = state.read()
        np.testing.assert_array_equal(after[1], before[1] * 8)
        np.testing.assert_array_equal(after[2], before[1][GOOD] * 4 * 1.5)
        np.testing.assert_allclose(after[0], before[0] + 3 / 2048, rtol=1e-6)
        call(good, 1.0).item()
        np.testing.assert_array_equal(state.read()[1], before[1] * 16)
    calor.synchronize(device)
