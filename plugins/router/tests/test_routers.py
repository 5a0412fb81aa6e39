"""Routers: names, who runs what and why, what is moved, state, memory, refusals."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn, router
from calor.backends.device import Device
from calor.backends.numpy_backend import NumpyBackend
from calor.dtypes import bool_, float32, int32
from calor.errors import ArgumentError, DeviceError, OutOfMemoryError, UnsupportedError
from calor.plugins.discovery import installed
from calor_router import cutting, options, placement
from calor_router.speeds import Speeds
from calor_router.steps import Fetch, Stage

from .toys import PRODUCTS, routed, toy, with_costs


@pytest.fixture
def products() -> Device:
    """A router of a device with products and little else, and of NumPy."""
    return routed(toy("products", PRODUCTS), calor.device("numpy"))


def test_a_router_has_one_device_by_its_name() -> None:
    device = calor.device("router:numpy, strict:numpy")
    assert device.name == "router:numpy:0,strict:numpy:0"
    assert calor.device(device.name) is device
    assert pickle.loads(pickle.dumps(device)) is device


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("router:", 'misses the name of a device; write "router:cuda,cpu"'),
        ("router:numpy,,numpy", "misses the name of a device"),
        ("router:numpy,numpy:0", "names numpy:0 twice"),
        ("router:group:numpy", "has groups among its members"),
        ("router:router:numpy", "has routers among its members"),
        ("router:nowhere", 'no device "nowhere"'),
    ],
)
def test_wrong_names(text: str, told: str) -> None:
    with pytest.raises(DeviceError, match=told):
        calor.device(text)


def test_it_can_what_one_member_can() -> None:
    few = routed(toy("few", (), (float32, bool_)), toy("more", ("add", "expand"), (float32, int32)))
    assert {t for t, state in few.info.dtypes.items() if state} == {float32, bool_, int32}
    with calor.device(few):
        assert (calor.asarray([1, 2], dtype=int32) + 1).tolist() == [2, 3]
        with pytest.raises(UnsupportedError, match=r"exp: few:0 says .*, more:0 says .*"):
            calor.exp(calor.asarray([1.0])).tolist()


def test_what_a_member_refuses_runs_on_another(
    monkeypatch: pytest.MonkeyPatch, products: Device
) -> None:
    slow, quick = Speeds(0.0, 1e-6, 1e-9, 1e-3), Speeds(0.0, 1e-6, 1e-9, 1e-12)
    with_costs(monkeypatch, {"products": quick, "numpy": slow}, (1e-6, 1e-9))

    @calor.jit
    def layer(x: Any, w: Any) -> Any:
        return calor.tanh(x @ w) @ w

    with calor.device(products):
        x, w = (calor.asarray(a.astype(np.float32)) for a in (np.ones((2, 3)), np.eye(3)))
        made = layer(x, w)
        before = products.fallbacks
        layer(x, w).tolist()
        assert products.fallbacks == before + 1, "a tanh"
        told = router.explain(layer, x, w)
    assert np.allclose(made.numpy(), np.tanh(np.ones((2, 3))))
    assert [told.members[m] for m, _ in told.stages] == ["products:0", "numpy:0", "products:0"]
    assert told.moved_bytes == 2 * 24, "the product's result there, and back"
    assert str(told).splitlines() == [
        "3 parts on products:0, numpy:0; a call moves 2 values, 48 B",
        "  1. products:0: 1 dot_general",
        "  2. numpy:0: 1 tanh",
        "  3. products:0: 1 dot_general",
        "  1 tanh on numpy:0: products:0 refuses it: not in the device's op table",
    ]


def test_strict_refuses_what_runs_elsewhere(products: Device) -> None:
    with calor.device(products):
        x = calor.ones((2, 2))
        calor.eval(x)
        with router.strict():
            assert (x @ x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
            with pytest.raises(UnsupportedError, match=r"tanh: products:0 refuses it"):
                calor.tanh(x).tolist()
        assert calor.tanh(x * 0).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_explain_wants_a_router() -> None:
    with pytest.raises(ArgumentError, match=r"this one ran on numpy:0"), calor.device("numpy"):
        router.explain(calor.exp, calor.ones(2))


def test_a_value_is_moved_once(products: Device) -> None:
    with calor.device(products):
        x = calor.asarray(np.ones((4, 4), np.float32))
        calor.eval(calor.tanh(x))
        before = products.transfers
        calor.eval(calor.exp(x), calor.sin(x))
        assert products.transfers == before


def test_copies_are_given_up_where_memory_runs_out() -> None:
    second = toy("second")
    device = routed(toy("first", PRODUCTS), second)
    backend: Any = second.backend
    kept = [np.full((100, 100), n, np.float32) for n in range(3)]
    with calor.device(device):
        x, y, z = (calor.asarray(a) for a in kept)
        calor.eval(calor.tanh(x))
        held = second.memory.in_use
        assert held >= 40_000, "a copy of x"
        # The operand and the result fit beside nothing else.
        backend.set_memory_limit(0, held + 80_000)
        assert np.allclose(calor.tanh(y).numpy(), np.tanh(kept[1]))
        assert np.allclose(calor.tanh(z).numpy(), np.tanh(kept[2]))
        backend.set_memory_limit(0, 30_000)
        with pytest.raises(OutOfMemoryError):
            calor.tanh(z).tolist()
        backend.set_memory_limit(0, None)
        assert np.array_equal(x.numpy(), kept[0])
        assert np.allclose(calor.tanh(z).numpy(), np.tanh(kept[2]))


def test_state_lives_where_it_is_made(products: Device) -> None:
    @calor.jit
    def step(w: Any, x: Any) -> None:
        w[:] = calor.tanh(w) + x @ x

    with calor.device(products):
        w, x = calor.zeros((3, 3)), calor.ones((3, 3))
        step(w, x)
        step(w, x)
        assert np.allclose(w.numpy(), np.tanh(3.0) + 3.0)
        assert w._value.buffer.home == 1


def test_training_is_that_of_one_device(products: Device) -> None:
    def trained(device: Any) -> list[Any]:
        with calor.device(device):
            calor.random.seed(3)
            model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
            x = calor.random.normal((16, 4), key=calor.random.key(1))
            y = calor.asarray(np.arange(16) % 2)

            @calor.jit
            def step(model: Any) -> Any:
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                with calor.no_grad():
                    for p in model.parameters():
                        p -= 0.1 * p.grad
                        p.grad = None
                return loss

            return [float(step(model)) for _ in range(3)]

    assert np.allclose(trained(products), trained("numpy"), rtol=1e-6)


def test_a_stored_program_wants_its_members(products: Device) -> None:
    backend: Any = products.backend
    graph = calor.trace(lambda x: calor.tanh(x @ x), calor.ones((2, 2)))
    data = backend.serialize(0, backend.compile(0, graph))
    again = backend.deserialize(0, data)
    given = backend.upload(0, np.eye(2, dtype=np.float32))
    made = backend.download(0, again([given])[0], graph.output_specs[0])
    assert np.allclose(made, np.tanh(np.eye(2)))
    with pytest.raises(DeviceError, match=r"stored for a router of products:0, numpy:0"):
        calor.device("router:numpy").backend.deserialize(0, data)


@pytest.mark.parametrize("size", [4, 400])
def test_work_goes_where_it_costs_least(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The second member has fast products, and is far away: small ones stay."""
    speeds = {
        "near": Speeds(0.0, 1e-6, 1e-9, 1e-9),
        "far": Speeds(0.0, 1e-6, 1e-9, 1e-12),
    }
    with_costs(monkeypatch, speeds, (20e-6, 1e-9))
    with calor.device(routed(toy("near"), toy("far"))):
        x = calor.ones((size, size))
        told = router.explain(calor.jit(lambda x: calor.tanh(x @ x @ x)), x)
    ran = {told.graph.nodes[i].op.name: told.members[m] for i, m in enumerate(told.chosen)}
    assert ran["dot_general"] == ("far:0" if size == 400 else "near:0")
    if size == 400:
        assert "2 dot_general on far:0: it costs less than on near:0" in str(told)


@pytest.mark.parametrize("seed", range(20))
def test_no_placement_is_cheaper(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of two members a cut is the least of all placements, tried one by one."""
    rng = np.random.default_rng(seed)
    names = ("near", "far")
    speeds = {n: Speeds(0.0, *rng.uniform(0, 1e-6, 1), *rng.uniform(0, 1e-9, 2)) for n in names}
    with_costs(monkeypatch, speeds, (float(rng.uniform(0, 3e-6)), 0.0))
    members = [toy(n) for n in names]

    def drawn(x: Any) -> Any:
        values = [x]
        choose = np.random.default_rng(seed)
        ops: list[Callable[[Any, Any], Any]] = [calor.add, calor.matmul, lambda a, _: calor.tanh(a)]
        for _ in range(7):
            a, b = (values[i] for i in choose.integers(0, len(values), 2))
            values.append(ops[choose.integers(3)](a, b))
        return values[-1] + values[-2]

    graph = calor.trace(drawn, calor.ones((16, 16)))
    found, chosen, _ = placement.placed(members, graph)
    problem = placement._problem(members, found, tuple((0, 1) for _ in found.nodes))
    count = len(found.nodes)
    every = (tuple((number >> i) & 1 for i in range(count)) for number in range(1 << count))
    assert problem.total(chosen) <= min(map(problem.total, every)) * 1.001


def test_three_members() -> None:
    """The third one alone has sines, the second one alone cosines."""
    device = routed(toy("a", ("add", *PRODUCTS)), toy("b", ("cos", "add")), toy("c", ("sin",)))
    with calor.device(device):
        x = calor.asarray([0.0, 1.0])
        made = calor.sin(x) + calor.cos(x)
        assert np.allclose(made.numpy(), np.sin([0.0, 1.0]) + np.cos([0.0, 1.0]))


def drawn_flow(x: Any, w: Any) -> Any:
    """Branches, loops that end by a condition, and scans, with products and sines inside."""

    def body(carry: Any, row: Any) -> Any:
        made = calor.sin(carry @ w) + row
        return made, (made * 2, row @ w)

    last, (rows, others) = calor.scan(body, x[0], x)
    chosen = calor.cond(calor.sum(last) > 0, lambda t: calor.sin(t) @ w, lambda t: t @ w, last)
    ended = calor.while_loop(
        lambda t: calor.sum(t) < 50, lambda t: calor.sin(t @ w) + t + 3, calor.abs(chosen)
    )
    return last, rows, others, chosen, ended


@pytest.mark.parametrize("jitted", [False, True])
def test_control_flow_across_a_cut(jitted: bool) -> None:
    """One member has products alone, the other one lacks them, and neither has control flow."""
    known = NumpyBackend().table(0)
    lacks = {*PRODUCTS[:2], "cond", "scan", "while_loop"}
    device = routed(
        toy("products", PRODUCTS[:1]), toy("rest", [n for n in known if n not in lacks])
    )
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((5, 3, 3), (3, 3))]

    def outcome(where: Any) -> list[Any]:
        with calor.device(where):
            x, w = map(calor.asarray, arrays)
            function = calor.jit(drawn_flow) if jitted else drawn_flow
            made = [t.numpy() for t in function(x, w)]
            slopes = calor.grad(
                lambda x, w: calor.sum(
                    calor.scan(lambda c, row: (calor.sin(c @ w) + row, c), x[0], x)[0]
                ),
                argnums=(0, 1),
            )(x, w)
            return [*made, *(t.numpy() for t in slopes)]

    for got, want in zip(outcome(device), outcome("numpy"), strict=True):
        assert np.allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_of_no_rows_across_a_cut(reverse: bool) -> None:
    lacks = {*PRODUCTS[:2], "cond", "scan", "while_loop"}
    known = NumpyBackend().table(0)
    device = routed(
        toy("products", PRODUCTS[:1]), toy("rest", [n for n in known if n not in lacks])
    )
    with calor.device(device):
        c, xs = calor.ones((2, 2)), calor.ones((0, 2, 2))
        last, rows = calor.scan(lambda c, x: (c @ x, calor.sum(c)), c, xs, reverse=reverse)
        assert np.array_equal(last.numpy(), np.ones((2, 2)))
        assert rows.numpy().shape == (0,)


def test_members_work_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only has to be begun is begun first; the host waits for it when nothing else is left."""
    late, here = toy("late", ("sin", "add")), toy("here", ("cos", "mul"))
    monkeypatch.setattr(cutting, "returns_at_once", lambda device: device is late)
    monkeypatch.setattr(cutting, "speeds_of", lambda device: Speeds(0.0, 1e-6, 1e-9, 1e-9))
    device = routed(here, late)

    def function(x: Any) -> Any:
        second = calor.sin(x)
        return calor.cos(x) * x, second + x, calor.cos(second)

    graph = calor.trace(function, calor.ones(4))
    made: Any = device.backend.compile(0, graph)
    told = [
        (here.name, late.name)[step.member]
        if isinstance(step, Stage)
        else f"{graph.specs[step.value].shape} to {(here.name, late.name)[step.member]}"
        for step in made.cut.steps
        if isinstance(step, Stage | Fetch)
    ]
    assert told == ["late:0", "here:0", "(4,) to here:0", "here:0"]
    given = np.linspace(0, 1, 4, dtype=np.float32)
    want = [np.cos(given) * given, np.sin(given) + given, np.cos(np.sin(given))]
    found = made([device.backend.upload(0, given)])
    for one, other, spec in zip(found, want, graph.output_specs, strict=True):
        assert np.allclose(device.backend.download(0, one, spec), other)


def test_what_is_there_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of a member that computes at once is on its way before the next part runs."""
    late, here = toy("late", ("sin", "add")), toy("here", ("cos", "mul"))
    monkeypatch.setattr(cutting, "returns_at_once", lambda device: device is late)
    device = routed(here, late)

    def function(x: Any) -> Any:
        first = calor.cos(x)
        second = calor.sin(first)
        return calor.cos(first), second, calor.cos(second)

    made: Any = device.backend.compile(0, calor.trace(function, calor.ones(4)))
    steps = [s for s in made.cut.steps if isinstance(s, Stage | Fetch)]
    assert [(type(s).__name__, s.member) for s in steps] == [
        ("Stage", 0), ("Fetch", 1), ("Stage", 1), ("Fetch", 0), ("Stage", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("names", ["router:cpu", "router:numpy,cpu"])
@pytest.mark.skipif("cpu" not in installed(), reason="calor-cpu is not installed")
def test_a_bound_call_is_the_members_own(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """It is compiled with the router's part in it, and falls back where something is unusual."""
    member = len(names.split(",")) - 1
    quick, slow = Speeds(0.0, 0.0, 0.0, 0.0), Speeds(1.0, 1.0, 1.0, 1.0)
    with_costs(monkeypatch, {"cpu": quick, "numpy": slow}, (0.0, 0.0))
    device = calor.device(names)
    with calor.device(device), calor.no_grad():
        w, x = calor.asarray([1.0, 2.0]), calor.asarray([3.0, 4.0])
        scale = calor.jit(lambda w, x: calor.tanh(w * x)).bind(w)
        before = device.fallbacks
        for _ in range(80):
            made = scale(x)
        compiled = type(scale).__name__ == "Compiled"
        if not compiled:
            pytest.skip("this interpreter has no compiled calls")
        assert device.fallbacks - before == 80 * 2 * member
        assert np.allclose(made.numpy(), np.tanh([3.0, 8.0]))
        assert made._value.buffer.home == member
        # An operand on another member, then strictness.
        other = calor.asarray([5.0, 6.0])
        assert np.allclose(scale(other).numpy(), np.tanh([5.0, 12.0]))
        before = device.fallbacks
        scale(other)
        assert device.fallbacks - before == 2 * member
        with router.strict():
            if member:
                with pytest.raises(UnsupportedError, match=r"refuses that: .*tanh"):
                    scale(x)
            else:
                scale(x)
        w[:] = calor.asarray([2.0, 2.0])
        assert np.allclose(scale(x).numpy(), np.tanh([6.0, 8.0]))


@pytest.mark.skipif(find_spec("calor_drawing") is None, reason="calor-drawing is not installed")
def test_the_cut_is_drawn(
    monkeypatch: pytest.MonkeyPatch, products: Device, tmp_path: Path
) -> None:
    slow, quick = Speeds(0.0, 1e-6, 1e-9, 1e-3), Speeds(0.0, 1e-6, 1e-9, 1e-12)
    with_costs(monkeypatch, {"products": quick, "numpy": slow}, (1e-6, 1e-9))
    with calor.device(products):
        x = calor.ones((2, 2))
        told = router.explain(calor.jit(lambda x: calor.tanh(x @ x) @ x), x)
    told.draw(tmp_path / "cut.svg")
    text = (tmp_path / "cut.svg").read_text("utf-8")
    assert text == told.svg()
    for said in (
        "3 parts on products:0, numpy:0; a call moves 2 values, 32 B",
        ">16 B to numpy:0<",
        ">16 B to products:0<",
        ">part 2<",
        ">products:0 refuses it: not in the<",
        ">products:0<",
        ">numpy:0<",
    ):
        assert said in text, said
    assert text.count('class="line told"') == 2


def test_places_that_are_near_each_other_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model prefers the member that is slow, and a trial finds out; results depend on none."""
    near, slow = toy("near"), toy("slow")
    speeds = {"near": Speeds(0.0, 1e-3, 1e-9, 1e-9), "slow": Speeds(0.0, 9e-4, 1e-9, 1e-9)}
    monkeypatch.setattr(placement, "speeds_of", lambda device: speeds[device.backend.name])
    monkeypatch.setattr(placement, "transfer", lambda source, target: (0.0, 0.0))
    ran: list[str] = []

    def seconds(backend: Any, option: Any, compiled: Any) -> float:
        name = backend.members[option.chosen[0]].backend.name
        ran.append(name)
        assert compiled(option).chosen == option.chosen
        return {"near": 1.0, "slow": 2.0}[name]

    monkeypatch.setattr(options, "_seconds", seconds)
    with calor.device(routed(near, slow)):
        x = calor.asarray(np.arange(7.0))
        told = router.explain(calor.jit(lambda x: calor.tanh(calor.exp(x))), x)
    assert sorted(ran) == ["near", "slow"]
    assert {told.members[m] for m in told.chosen} == {"near:0"}


def test_a_trial_counts_nothing_and_survives_what_fails() -> None:
    """Made up operands may be none that an operation takes."""
    device = routed(toy("one"), toy("two"))
    backend: Any = device.backend
    graph = calor.trace(lambda x: calor.linalg.cholesky(x), calor.ones((3, 3)))
    option = options.Option(1.0, graph, (1,) * len(graph.nodes), dict.fromkeys(range(9), "said"))
    assert options._seconds(backend, option, backend._compiled) == float("inf")
    graph = calor.trace(lambda x: calor.tanh(x), calor.ones((3, 3)))
    option = options.Option(1.0, graph, (1,), {0: "said"})
    assert 0 < options._seconds(backend, option, backend._compiled) < 60
    assert (device.fallbacks, device.transfers, device.transferred_bytes) == (0, 0, 0)
    assert options._tried(backend, [option, option], lambda _: _broken()) == (
        1.0,
        1.0,
    )


def test_a_trial_does_not_count_what_the_first_call_prepares() -> None:
    """A device may compile in its first call, for longer than a slow member runs."""
    device = routed(toy("one"), toy("two"))
    backend: Any = device.backend
    graph = calor.trace(lambda x: calor.tanh(x), calor.ones((3, 3)))
    option = options.Option(1.0, graph, (0,), {})
    calls = []

    def prepares(option: Any) -> Any:
        run = backend._compiled(option)

        def call(inputs: Any) -> Any:
            calls.append(inputs)
            if len(calls) == 1:
                sleep(0.6)
            return run(inputs)

        return call

    assert options._seconds(backend, option, prepares) < 0.5
    assert len(calls) >= 2


def _broken() -> Any:
    def run(inputs: Any) -> Any:
        raise UnsupportedError("no")

    return run


@pytest.mark.parametrize("limits", [(), (4000, 4000)])
def test_control_flow_takes_numbers_of_the_host(limits: tuple[int, ...]) -> None:
    """A loop that no member takes begins with a number that a call passes."""
    known = NumpyBackend().table(0)
    rest = [n for n in known if n not in {*PRODUCTS[:2], "cond", "scan", "while_loop"}]
    device = routed(toy("products", PRODUCTS[:1]), toy("rest", rest), limits=limits)

    @calor.jit
    def powers(w: Any, start: float) -> Any:
        def body(carry: Any) -> Any:
            return carry[0] + 1, carry[1] @ w

        return calor.while_loop(lambda carry: carry[0] < 3, body, (calor.asarray(start), w))

    with calor.device(device):
        w = calor.asarray(np.eye(3, dtype=np.float32) * 2)
        for start in (0.0, 1.0):
            count, made = powers(w, start)
            assert float(count) == 3.0
            assert np.array_equal(made.numpy(), np.eye(3) * 2 ** (4 - start))


def test_memory_of_two_names_is_counted_once() -> None:
    with calor.device("router:numpy,strict:numpy") as device:
        x = calor.ones((1000,)) + 1
        calor.eval(x)
        alone, both = calor.memory("numpy"), calor.memory(device)
        assert both.in_use == alone.in_use >= x.nbytes
        assert both.peak <= alone.peak
        assert both.limit == alone.limit


def test_a_profile_tells_once_of_a_member_that_has_two_names() -> None:
    with calor.device("router:numpy,strict:numpy") as device:
        x = calor.ones((3,))
        calor.eval(calor.tanh(x) + 1)
        with calor.profile(device) as profile:
            calor.eval(calor.tanh(x) + 1)
        with (
            pytest.raises(ArgumentError, match="another profile"),
            calor.profile(device),
            calor.profile("numpy"),
        ):
            pass
        with calor.profile("numpy") as after:
            pass
    assert [event.op for event in profile.events].count("tanh") == 1
    assert after.events == []
