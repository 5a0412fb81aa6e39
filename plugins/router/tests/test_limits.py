"""Members with less memory than the work: streaming, what it moves, cutting again, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn, router, train
from calor.backends.device import Device
from calor.errors import DeviceError, MemoryLimitError, OutOfMemoryError
from calor.graph.graph import Graph
from calor_router import cutting
from calor_router.chunks import chunked
from calor_router.speeds import Speeds
from calor_router.steps import Fetch

from .toys import PRODUCTS, routed, toy, with_costs

WIDE, DEEP = 32, 24
WEIGHTS = DEEP * WIDE * WIDE * 4


def layered(device: Any, deep: int = DEEP) -> Any:
    """Return a model whose weights were made on the host."""
    rng = np.random.default_rng(7)
    with calor.device(device):
        model = nn.Sequential(
            *[
                layer
                for _ in range(deep)
                for layer in (nn.Linear(WIDE, WIDE, bias=False), nn.Tanh())
            ]
        )
        with calor.no_grad():
            for p in model.parameters():
                p[:] = calor.asarray(rng.normal(size=p.shape).astype(np.float32) / 5)
    return model


def trained(device: Any, steps: int = 3) -> tuple[list[float], list[Any], Callable[[], Any]]:
    """Return losses, weights and what makes one more step."""
    model = layered(device)
    with calor.device(device):
        x = calor.asarray(np.random.default_rng(1).normal(size=(8, WIDE)).astype(np.float32))
        optimizer = train.AdamW(model.parameters(), lr=1e-2)

        @calor.jit
        def step(model: Any, optimizer: Any, x: Any) -> Any:
            loss = ((model(x) - 1) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        losses = [float(step(model, optimizer, x)) for _ in range(steps)]
    return losses, [p.numpy() for p in model.parameters()], lambda: (step, model, optimizer, x)


@pytest.mark.parametrize("share", [2, 3, 5])
def test_weights_larger_than_a_member_stream(share: int) -> None:
    member, limit = toy("small"), WEIGHTS // share
    device = routed(member, limits=(limit,))
    models = [layered(device), layered("numpy")]
    x = np.random.default_rng(0).normal(size=(8, WIDE)).astype(np.float32)
    infer = calor.jit(lambda model, x: model(x))
    with calor.no_grad(), calor.device(device):
        given = calor.asarray(x)
        first = infer(models[0], given)
        before = device.transfers, device.transferred_bytes
        again = infer(models[0], given)
        moved = device.transfers - before[0], device.transferred_bytes - before[1]
        told = router.explain(infer, models[0], given)
    with calor.no_grad(), calor.device("numpy"):
        want = infer(models[1], calor.asarray(x)).numpy()
    assert np.array_equal(first.numpy(), want)
    assert np.array_equal(again.numpy(), want)
    assert moved == (len(told.moved), told.moved_bytes)
    assert told.moved_bytes == WEIGHTS + 2 * x.nbytes, "each weight once, the operand, the result"
    assert member.memory.peak <= limit
    assert told.peaks[0] <= limit
    assert member.memory.in_use < WIDE * WIDE * 4, "no weight is left there"
    assert f"small:0 is streamed, with at most {told.peaks[0] / 1024:.1f} KiB" in str(told)


def test_training_streams() -> None:
    """Gradients and the optimizer's state are in memory for the update of their weights alone."""
    member, limit = toy("small"), WEIGHTS // 3
    device = routed(member, limits=(limit,))
    losses, weights, last = trained(device)
    wanted, known, _ = trained("numpy")
    assert losses == wanted
    assert all(np.array_equal(a, b) for a, b in zip(weights, known, strict=True))
    step, *arguments = last()
    with calor.device(device):
        before = device.transferred_bytes
        step(*arguments)
        moved = device.transferred_bytes - before
        told = router.explain(step, *arguments)
    assert moved == told.moved_bytes
    assert member.memory.peak <= limit
    # Weights twice and both moments come, and three of them go: 7. NumPy's update of one weight
    # needs more than fits at once, so some of its steps are apart.
    assert 7 * WEIGHTS <= moved <= 12 * WEIGHTS


def test_the_next_weights_come_while_a_part_runs() -> None:
    device = routed(toy("small"), limits=(WEIGHTS // 3,))
    model = layered(device)
    with calor.no_grad(), calor.device(device):
        infer = calor.jit(lambda model, x: model(x))
        infer(model, calor.zeros((8, WIDE)))
    cut = infer.programs[0].executable.cut
    stages = [n for n, step in enumerate(cut.steps) if step in cut.stages]
    assert len(stages) > 3
    for here, after in pairwise(stages):
        begun = {s.value for s in cut.steps[:here] if isinstance(s, Fetch)}
        read = {v for v in cut.steps[after].segment.inputs if v < len(cut.graph.inputs)}
        assert read <= begun, "before the part runs, whose work the copy has time for"


def test_what_fits_stays() -> None:
    member = toy("small")
    device = routed(member, limits=(2 * WEIGHTS,))
    model = layered(device)
    infer = calor.jit(lambda model, x: model(x))
    with calor.no_grad(), calor.device(device):
        x = calor.ones((8, WIDE))
        infer(model, x).numpy()
        before = device.transferred_bytes
        infer(model, x).numpy()
        assert device.transferred_bytes == before
        assert router.explain(infer, model, x).peaks == {}


def test_values_make_room_for_others() -> None:
    """What programs left on a member goes to the host, and comes back when it is read."""
    member, nbytes = toy("small"), 40_000
    device = routed(member, limits=(5 * nbytes,))
    arrays = [np.full((100, 100), n, np.float32) for n in range(12)]
    with calor.device(device):
        made = [calor.asarray(a) + 1 for a in arrays]
        calor.eval(*made)
        for t in made:
            calor.eval(t * 2)
        assert member.memory.peak <= 5 * nbytes
        assert all(np.array_equal(t.numpy(), a + 1) for t, a in zip(made, arrays, strict=True))
        assert np.array_equal(sum(made).numpy(), sum(arrays) + 12)
    assert member.memory.peak <= 5 * nbytes


def test_an_operation_that_is_too_large_says_what_it_wants() -> None:
    device = routed(toy("small"), limits=(100_000,))
    with calor.device(device):
        x = calor.asarray(np.ones((200, 200), np.float32))
        with pytest.raises(MemoryLimitError, match=r"tanh alone needs 312.5 KiB") as caught:
            calor.tanh(x).tolist()
        assert caught.value.smallest == 320_000
        assert 'router:small:0[320000]"' in str(caught.value)
        assert (calor.asarray([1.0]) + 1).tolist() == [2.0]


def test_what_is_too_large_for_one_runs_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, slow = Speeds(0.0, 1e-7, 1e-12, 1e-14), Speeds(0.0, 1e-6, 1e-9, 1e-9)
    with_costs(monkeypatch, {"fast": fast, "slow": slow}, (1e-6, 1e-12))
    member = toy("fast")
    device = routed(member, toy("slow"), limits=(100_000, None))
    with calor.device(device):
        x = calor.asarray(np.ones((200, 200), np.float32))
        told = router.explain(calor.jit(lambda x: calor.tanh(x).sum()), x)
        assert "tanh on slow:0: it does not fit the memory of fast:0" in str(told)
    assert member.memory.peak <= 100_000


@pytest.mark.parametrize(("byte", "streamed"), [(1e-13, True), (1e-7, False)])
def test_streaming_is_chosen_by_cost(
    monkeypatch: pytest.MonkeyPatch, byte: float, streamed: bool
) -> None:
    speeds = {"fast": Speeds(0.0, 1e-9, 1e-13, 1e-13), "slow": Speeds(0.0, 1e-5, 1e-8, 1e-8)}
    with_costs(monkeypatch, speeds, (1e-9, byte))
    monkeypatch.setattr(cutting, "transfer", lambda source, target: (1e-9, byte))
    device = routed(toy("fast"), toy("slow"), limits=(WEIGHTS // 3, None))
    model, same = layered(device), layered("numpy")
    infer = calor.jit(lambda model, x: model(x))
    x = np.ones((8, WIDE), np.float32)
    with calor.no_grad(), calor.device(device):
        told = router.explain(infer, model, calor.asarray(x))
        made = infer(model, calor.asarray(x)).numpy()
    assert (told.streamed is not None) is streamed
    with calor.no_grad(), calor.device("numpy"):
        assert np.array_equal(made, infer(same, calor.asarray(x)).numpy())


def limited(device: Device, nbytes: int | None) -> None:
    device.backend.set_memory_limit(device.index, nbytes)


def test_a_part_without_memory_is_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other places come first: what fits the member stays there."""
    equal = Speeds(0.0, 1e-9, 1e-12, 1e-12)
    slow = Speeds(0.0, 1e-6, 1e-9, 1e-9)
    with_costs(monkeypatch, {"first": equal, "second": slow}, (1e-6, 1e-12))
    first = toy("first")
    device = routed(first, toy("second"))
    model, same = layered(device), layered("numpy")
    infer = calor.jit(lambda model, x: model(x))
    x = np.ones((8, WIDE), np.float32)
    with calor.no_grad(), calor.device(device):
        given = calor.asarray(x)
        whole = router.explain(infer, model, given)
        limited(first, first.memory.in_use + 500)
        made = infer(model, given).numpy()
        told = router.explain(infer, model, given)
    assert {whole.members[m] for m, _ in whole.stages} == {"first:0"}
    assert "second:0" in {told.members[m] for m, _ in told.stages}
    assert told.streamed is None
    with calor.no_grad(), calor.device("numpy"):
        assert np.array_equal(made, infer(same, calor.asarray(x)).numpy())


def test_without_another_place_it_streams() -> None:
    first = toy("first")
    device = routed(first)
    model, same = layered(device), layered("numpy")
    x = np.ones((8, WIDE), np.float32)
    infer = calor.jit(lambda model, x: model(x).sum() + calor.tanh(model(x * 2)).sum())
    with calor.no_grad(), calor.device(device):
        given = calor.asarray(x)
        limited(first, first.memory.in_use + 500)
        made = infer(model, given).numpy()
        told = router.explain(infer, model, given)
        assert told.streamed is not None
        limited(first, 2000)
        with pytest.raises(MemoryLimitError, match=r"alone needs .* raise the limit") as caught:
            infer(model, given).numpy()
        assert isinstance(caught.value.__cause__, OutOfMemoryError)
        limited(first, None)
        assert np.array_equal(infer(model, given).numpy(), made)
    with calor.no_grad(), calor.device("numpy"):
        assert np.array_equal(made, infer(same, calor.asarray(x)).numpy())


def test_state_is_as_it_was_where_nothing_fits() -> None:
    first = toy("first")
    device = routed(first)

    @calor.jit
    def step(w: Any) -> None:
        w[:] = calor.tanh(w @ w) + w

    with calor.device(device):
        w = calor.asarray(np.eye(50, dtype=np.float32))
        limited(first, first.memory.in_use + 100)
        with pytest.raises(MemoryLimitError, match="first:0"):
            step(w)
        limited(first, None)
        assert np.array_equal(w.numpy(), np.eye(50))
        step(w)
        assert np.allclose(w.numpy(), np.tanh(np.eye(50)) + np.eye(50))


def test_a_device_that_only_says_that_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no limit that can be asked for, and refuses every large reservation."""
    first = toy("first")
    backend: Any = first.backend
    reserve = type(backend).reserve

    def full(self: Any, index: int, nbytes: int) -> None:
        if self is backend and self._memory.in_use + nbytes > WEIGHTS + 20_000:
            raise OutOfMemoryError("the device is full")
        reserve(self, index, nbytes)

    device = routed(first)
    model, same = layered(device), layered("numpy")
    x = np.ones((200, WIDE), np.float32)
    infer = calor.jit(lambda model, x: model(x))
    with calor.no_grad(), calor.device(device):
        given = calor.asarray(x)
        monkeypatch.setattr(type(backend), "reserve", full)
        made = infer(model, given).numpy()
    with calor.no_grad(), calor.device("numpy"):
        assert np.array_equal(made, infer(same, calor.asarray(x)).numpy())


@pytest.mark.parametrize(
    "text", ["router:numpy[]", "router:numpy[many],cpu", "router:numpy[-1]", "router:numpy[1 PiB]"]
)
def test_wrong_limits(text: str) -> None:
    told = re.escape(f'"{text}" has a limit of [') + ".*; write the most bytes"
    with pytest.raises(DeviceError, match=told):
        calor.device(text)


@pytest.mark.parametrize("text", ["router:numpy[1 MiB", "router:numpy]", "router:[1MiB]"])
def test_wrong_brackets(text: str) -> None:
    with pytest.raises(DeviceError, match="misses the name of a device"):
        calor.device(text)


def test_limits_are_part_of_the_name() -> None:
    device = calor.device("router:numpy[2MiB], strict:numpy")
    assert device.name == "router:numpy:0[2097152],strict:numpy:0"
    assert calor.device(device.name) is device
    assert device is not calor.device("router:numpy,strict:numpy")


def drawn(seed: int) -> Graph:
    """Return a graph of operations on values that were drawn among those before."""
    rng = np.random.default_rng(seed)

    def function(x: Any, w: Any) -> Any:
        values = [x, w, x @ w]
        for _ in range(30):
            a, b = (values[i] for i in rng.integers(0, len(values), 2))
            values.append([a + b, calor.tanh(a), a @ b, a * 0.5][rng.integers(4)])
        return values[-1], values[-2], values[3]

    return calor.trace(function, calor.ones((16, 16)), calor.ones((16, 16)))


@pytest.mark.parametrize("seed", range(12))
def test_chunks_are_a_schedule(seed: int) -> None:
    """Each node is in one chunk, and behind what it reads."""
    graph = drawn(seed)
    chunks = chunked(graph, range(len(graph.nodes)), 1024 * (1 + seed))
    assert sorted(i for chunk in chunks for i in chunk) == [*range(len(graph.nodes))]
    known = set(graph.inputs)
    for chunk in chunks:
        for i in chunk:
            assert known.issuperset(graph.nodes[i].inputs)
            known.update(graph.nodes[i].outputs)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_programs_within_limits(seed: int) -> None:
    """Products on one member, the rest on another, both with a limit of few values."""
    a, b = toy("a", PRODUCTS), toy("b")
    limits: Mapping[Device, int] = {a: 1024 * (3 + seed % 3), b: 1024 * (4 + seed % 2)}
    device = routed(a, b, limits=tuple(limits.values()))
    graph = drawn(seed)
    backend: Any = device.backend
    rng = np.random.default_rng(seed)
    given = [rng.normal(size=(16, 16)).astype(np.float32) / 4 for _ in range(2)]
    run = backend.compile(0, graph)
    want = calor.device("numpy").backend
    made = run([backend.upload(0, x) for x in given])
    known = want.compile(0, graph)([want.upload(0, x) for x in given])
    for one, other, spec in zip(made, known, graph.output_specs, strict=True):
        assert np.array_equal(backend.download(0, one, spec), want.download(0, other, spec))
    for member, limit in limits.items():
        assert member.memory.peak <= limit


def test_an_array_that_finds_no_memory_waits_on_the_host() -> None:
    first = toy("first")
    device = routed(first)
    with calor.device(device):
        limited(first, 50_000)
        kept = calor.asarray(np.ones((100, 100), np.float32))
        calor.eval(kept)
        # It does not fit beside the other one.
        more = calor.asarray(np.full((100, 100), 3.0, np.float32))
        assert (kept._value.buffer.home, more._value.buffer.home) == (0, -1)
        assert np.array_equal(more.numpy(), np.full((100, 100), 3.0))
        del kept
        limited(first, 100_000)
        assert float((more + 1)[0, 0]) == 4.0
    assert first.memory.peak <= 100_000


def test_the_host_keeps_nothing_that_a_member_without_limit_read() -> None:
    device = routed(toy("small", ("exp",)), toy("large"), limits=(100_000, None))
    with calor.device(device):
        x = calor.asarray(np.ones((10, 10), np.float32))
        assert [place for place, _ in x._value.buffer.places] == [-1]
        assert device.memory.in_use == 400
        calor.eval(calor.sin(x))
        assert [place for place, _ in x._value.buffer.places] == [1]
        assert np.allclose(calor.exp(x).numpy(), np.e)
