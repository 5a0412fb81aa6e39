"""bind: what a bound call skips, and what it still sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import tree
from calor.errors import TraceError
from calor.transforms.bound import Route

from .objects import Linear, Momentum, parameter


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


def weights(count: int) -> dict[str, Any]:
    return {f"w{i}": tensor(i, i + 1) for i in range(count)}


@calor.jit
def total(weights: dict[str, Any], x: Any, scale: float = 1.0) -> Any:
    return sum(weights.values()) * x * scale


@pytest.mark.parametrize("count", [1, 3, 20])
class TestTensors:
    def test_a_bound_call_gives_what_the_call_gives(self, count: int) -> None:
        held = weights(count)
        bound = total.bind(held)
        for x, scale in [(tensor(1, 2), 1.0), (tensor(3, 4), 2.0), (tensor(5, 6), 0.5)]:
            assert bound(x, scale).tolist() == total(held, x, scale).tolist()
            assert bound(x, scale=scale).tolist() == total(held, x, scale=scale).tolist()
            assert bound(x).tolist() == total(held, x).tolist()
        assert bound(tensor(2)).tolist() == total(held, tensor(2)).tolist()
        assert bound(np.ones(2)).tolist() == total(held, np.ones(2)).tolist()
        assert bound(np.ones(2)).tolist() == total(held, np.ones(2)).tolist()

    def test_changes_of_tensors_are_seen_and_of_containers_are_not(self, count: int) -> None:
        held = weights(count)
        bound = total.bind(held)
        x = tensor(1, 1)
        before = [bound(x).tolist() for _ in range(2)][-1]
        held["w0"] += 10.0
        assert bound(x).tolist() == bound(x).tolist() == [before[0] + 10, before[1] + 10]
        held["w0"] = tensor(1000, 1000)
        assert bound(x).tolist() == [before[0] + 10, before[1] + 10]
        assert bound(tensor(1, 1) * 1).tolist() == [before[0] + 10, before[1] + 10]
        held["w1"] = tensor(0, 0)
        assert bound(tensor(1)).tolist() == [before[0] + 10, before[1] + 10]

    def test_gradients(self, count: int) -> None:
        held = weights(count)
        bound = total.bind(held)
        x = tensor(1, 2)
        assert not bound(x).requires_grad
        held["w0"].requires_grad = True
        for _ in range(2):
            bound(x).sum().backward()
        assert held["w0"].grad.tolist() == [2.0, 4.0]
        held["w0"].requires_grad = False
        assert not bound(x).requires_grad
        y: Any = tensor(1, 2)
        y.requires_grad = True
        bound(y).sum().backward()
        assert y.grad.tolist() == total(held, tensor(1, 1)).tolist()
        with calor.no_grad():
            assert not bound(y).requires_grad

    def test_backward_inside_reaches_bound_tensors(self, count: int) -> None:
        held = weights(count)

        @calor.jit
        def step(weights: dict[str, Any], x: Any) -> None:
            (sum(weights.values()) * x).sum().backward()

        for w in held.values():
            w.requires_grad = True
        bound = step.bind(held)
        for _ in range(3):
            bound(tensor(1, 2))
        assert [w.grad.tolist() for w in held.values()] == [[3.0, 6.0]] * count

    def test_bound_tensors_that_are_changed_inside(self, count: int) -> None:
        held = weights(count)

        @calor.jit
        def step(weights: dict[str, Any], x: Any) -> Any:
            weights["w0"] += x
            return weights["w0"] * 1

        bound = step.bind(held)
        assert [bound(tensor(1, 1)).tolist() for _ in range(3)] == [
            [1.0, 2.0],
            [2.0, 3.0],
            [3.0, 4.0],
        ]
        assert held["w0"].tolist() == [3.0, 4.0]


class TestQuickWay:
    """Tensors alone and one result take a shorter way, until something is not as it was."""

    def test_it_is_taken_again_and_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        w = tensor(2, 3)
        bound = calor.jit(lambda w, x: w * x + 1.0).bind(w)
        assert bound(tensor(1, 1)).tolist() == [3.0, 4.0]
        monkeypatch.setattr(bound, "routes", [])
        monkeypatch.setattr(bound, "jitted", None)
        assert bound(tensor(2, 2)).tolist() == [5.0, 7.0]
        w += 1.0
        calor.eval(w)
        assert bound(tensor(2, 2)).tolist() == [7.0, 9.0]

    def test_objects_count_where_the_function_reads_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        layer = Linear([[1.0]], [0.0])
        plain = calor.jit(lambda w, x: w * x).bind(tensor(2, 3))
        named = calor.jit(lambda w, x: w * len(layer.name) + x).bind(tensor(2, 3))
        for _ in range(2):
            assert named(tensor(1, 1)).tolist() == [13.0, 19.0]
            assert plain(tensor(1, 1)).tolist() == [2.0, 3.0]
        layer.name = "other"
        assert named(tensor(1, 1)).tolist() == [11.0, 16.0]
        monkeypatch.setattr(plain, "routes", [])
        monkeypatch.setattr(plain, "jitted", None)
        assert plain(tensor(1, 1)).tolist() == [2.0, 3.0]

    @pytest.mark.parametrize("many", [False, True])
    def test_what_does_not_fit_takes_the_long_way(self, many: bool) -> None:
        w = tensor(2, 3)
        function = (lambda w, x: (w * x, w)) if many else (lambda w, x: w * x)
        bound = calor.jit(function).bind(w)

        def first(x: Any, **keywords: Any) -> Any:
            made = bound(x, **keywords)
            return made[0].tolist() if many else made.tolist()

        assert first(tensor(1, 1)) == [2.0, 3.0]
        assert (bound.quick is None) is many
        assert first(tensor(2)) == [4.0, 6.0]
        assert first(np.array([1.0, 2.0])) == [2.0, 6.0]
        assert first(2.0) == [4.0, 6.0]
        pending = tensor(1, 1) * 3
        assert first(pending) == [6.0, 9.0]
        with calor.no_grad():
            assert first(tensor(1, 1)) == [2.0, 3.0]
        w += 1.0
        assert first(tensor(1, 1)) == [3.0, 4.0]
        with pytest.raises(TypeError):
            bound()
        with pytest.raises(TypeError):
            bound(w, w)


def test_bound_arguments_are_not_taken_apart_again() -> None:
    class Watched(dict[str, Any]):
        walks = 0

    def flatten(x: Any) -> Any:
        Watched.walks += 1
        return list(x.values()), tuple(x)

    tree.register(Watched, flatten, lambda aux, xs: Watched(zip(aux, xs, strict=True)))
    try:
        held = Watched(weights(20))
        bound = total.bind(held)
        x = tensor(1, 2)
        bound(x)
        bound(x)
        walks = Watched.walks
        bound(x)
        assert Watched.walks == walks
        total(held, x)
        assert Watched.walks == walks + 1
    finally:
        del tree._NODES[Watched]
    assert isinstance(bound.routes[0][1], Route)


def test_objects_numbers_and_static_values() -> None:
    layer = Linear([[2.0]], [0.5])
    optimizer = Momentum([layer.w, layer.b])

    def step(m: Linear, o: Momentum, factor: float, mode: str, x: Any, times: int) -> Any:
        loss = ((m(x) * factor) ** 2).sum()
        for _ in range(times):
            loss = loss * 2 if mode == "twice" else loss
        loss.backward()
        o.step()
        return loss

    other = Linear([[2.0]], [0.5])
    theirs = Momentum([other.w, other.b])
    jitted = calor.jit(step, static_argnums=(3, 5))
    bound = jitted.bind(layer, optimizer, 0.5, "twice")
    for n in range(4):
        x = calor.asarray([[1.0 + n]], dtype=calor.float64)
        if n == 2:
            optimizer.rate = theirs.rate = 0.05
        assert bound(x, 2).item() == pytest.approx(step(other, theirs, 0.5, "twice", x, 2).item())
    assert layer.w.tolist() == other.w.tolist()
    assert layer.calls.item() == 4
    assert jitted.trace_count == 1
    assert bound(x, times=1).item() > 0
    assert repr(bound) == "<step with 4 bound arguments>"


def test_attributes_of_bound_objects_may_change() -> None:
    layer = Linear([[2.0]], [0.5])
    bound = calor.jit(lambda m, x: m(x)).bind(layer)
    x = calor.asarray([[1.0]], dtype=calor.float64)
    assert [bound(x).item() for _ in range(2)] == [2.5, 2.5]
    layer.w = calor.asarray([[10.0]], dtype=calor.float64, requires_grad=True)
    assert [bound(x).item() for _ in range(2)] == [10.5, 10.5]
    layer.name = "another"
    assert bound(x).item() == 10.5
    assert layer.calls.item() == 5


def test_shapes_may_alternate() -> None:
    bound = total.bind(weights(20))
    traces = total.trace_count
    for _ in range(3):
        for x in (tensor(1, 2), tensor(1), calor.ones((2, 2), dtype=calor.float64)):
            assert bound(x).tolist() == total(weights(20), x).tolist()
    assert total.trace_count - traces <= 3
    assert len(bound.routes) == 3


def test_host_arrays_are_read_at_each_call() -> None:
    array = np.ones(2)
    bound = calor.jit(lambda a, x: a * x).bind(array)
    assert bound(tensor(3, 3)).tolist() == [3.0, 3.0]
    array += 1
    assert bound(tensor(3, 3)).tolist() == [6.0, 6.0]


def test_inside_jit_it_is_part_of_the_trace() -> None:
    layer = Linear([[2.0]], [0.5])
    optimizer = Momentum([layer.w, layer.b], rate=0.0)

    def step(m: Linear, o: Momentum, x: Any) -> Any:
        loss = m(x).sum()
        loss.backward()
        o.step()
        return loss

    bound, plain = calor.jit(step).bind(layer, optimizer), calor.jit(step)
    x = calor.asarray([[1.0]], dtype=calor.float64)
    for outer in (
        calor.jit(lambda x: bound(x)),
        calor.jit(lambda x: plain(layer, optimizer, x)),
    ):
        optimizer.rate = 0.0
        outer(x)
        before = layer.w.item()
        optimizer.rate = 1.0
        outer(x)
        assert layer.w.item() != before


def test_a_jitted_function_within_another_follows_numbers_of_its_objects() -> None:
    p = parameter(1.0)
    optimizer = Momentum([p], rate=0.0)

    @calor.jit
    def inner() -> None:
        (p * 2).sum().backward()
        optimizer.step()

    outer = calor.jit(lambda: inner())
    outer()
    assert p.item() == 1.0
    optimizer.rate = 1.0
    outer()
    assert p.item() == pytest.approx(1.0 - (0.9 * 2 + 2))


def test_wrong_arguments_raise_what_the_function_raises() -> None:
    bound = total.bind(weights(3))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        bound()
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        bound(tensor(1), y=1)
    with pytest.raises(TraceError, match="asks for the value"):
        calor.jit(lambda w, x: x if w > 0 else w).bind(tensor(1))(tensor(1))
