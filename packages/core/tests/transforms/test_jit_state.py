"""jit: captured tensors, objects whose state changes, and memory that is written in place."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import TraceError
from calor.transforms.state import Stateful

from .objects import Average, Linear, Momentum, Pair, parameter


def tensor(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64)


def address(t: Any) -> int:
    return int(t.numpy(copy=False).__array_interface__["data"][0])


class _TwoNumbers(Stateful):
    dynamic = ("rate", "other")

    def __init__(self, rate: float, other: float) -> None:
        self.rate, self.other = rate, other


class TestCaptures:
    def test_a_captured_tensor_is_read_at_each_call(self) -> None:
        w = tensor(2)
        f = calor.jit(lambda x: x * w)
        assert f(tensor(1)).tolist() == [2.0]
        w += 3
        assert f(tensor(1)).tolist() == [5.0]
        w[0] = 7.0
        assert f(tensor(1)).tolist() == [7.0]
        assert f.trace_count == 1

    def test_copies_made_inside_are_of_the_input(self) -> None:
        w = tensor(2)

        def f(x: Any) -> Any:
            a, b, c = w.detach(), calor.stop_gradient(w), w.copy()
            return x * a + b * 10 + c * 100

        jitted = calor.jit(f)
        assert jitted(tensor(1)).tolist() == [222.0]
        w += 1
        assert jitted(tensor(1)).tolist() == [333.0]

    def test_a_captured_tensor_may_be_changed(self) -> None:
        count = calor.asarray(0)

        @calor.jit
        def step(x: Any) -> Any:
            nonlocal count
            before = count.detach()
            count += 1
            return x + before

        assert [step(tensor(0)).item() for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
        assert count.item() == 4
        count *= 10
        assert step(tensor(0)).item() == 40.0
        assert step.trace_count == 1

    def test_written_elements(self) -> None:
        buffer = calor.zeros(3)

        @calor.jit
        def put(i: Any, v: Any) -> None:
            buffer[i] = v

        put(calor.asarray(1), 5.0)
        put(calor.asarray(2), 7.0)
        assert buffer.tolist() == [0.0, 5.0, 7.0]

    def test_two_names_of_one_tensor_are_one_input(self) -> None:
        w = tensor(2)
        again = w
        f = calor.jit(lambda x: x * w + again)
        assert f(tensor(1)).tolist() == [4.0]
        assert len(f.programs[0].graph.inputs) == 2

    def test_a_capture_of_another_spec_makes_a_new_trace(self) -> None:
        class Holder(Stateful):
            def __init__(self) -> None:
                self.w = tensor(1, 2)

        holder = Holder()
        f = calor.jit(lambda x: x + holder.w.sum())
        assert f(tensor(0)).tolist() == [3.0]
        holder.w = tensor(1, 2, 3)
        assert f(tensor(0)).tolist() == [6.0]
        assert f.trace_count == 2

    def test_pending_captures(self) -> None:
        w = tensor(1) + 1
        f = calor.jit(lambda x: x * w)
        assert f(tensor(3)).tolist() == [6.0]

    def test_a_tensor_of_another_device_is_refused(self) -> None:
        with calor.device("numpy"):
            w = tensor(2)
        with pytest.raises(TraceError, match="traced for strict:numpy.* on numpy:0; move it"):
            calor.jit(lambda x: x * w)(tensor(1))


class TestObjects:
    def test_state_changes_in_place(self) -> None:
        layer = Linear([[2.0]], [0.0])
        x = calor.asarray([[3.0]], dtype=calor.float64)
        f = calor.jit(lambda m, t: m(t))
        calls = layer.calls
        for n in range(1, 4):
            assert f(layer, x).item() == 6.0
            assert layer.calls.item() == n
        assert layer.calls is calls
        assert f.trace_count == 1

    def test_other_objects_of_the_same_structure_share_a_trace(self) -> None:
        f = calor.jit(lambda m, t: m(t))
        x = calor.asarray([[3.0]], dtype=calor.float64)
        a, b = Linear([[2.0]], [0.0]), Linear([[5.0]], [1.0])
        assert [f(m, x).item() for m in (a, b, a, b)] == [6.0, 16.0, 6.0, 16.0]
        assert (a.calls.item(), b.calls.item()) == (2, 2)
        assert f.trace_count == 1

    def test_closures_methods_and_globals_are_followed(self) -> None:
        layer = Linear([[2.0]], [0.0])
        x = calor.asarray([[3.0]], dtype=calor.float64)
        by_closure, by_method = calor.jit(lambda t: layer(t)), calor.jit(layer.__call__)
        assert by_closure(x).item() == by_method(x).item() == 6.0
        with calor.no_grad():
            layer.w[0, 0] = 5.0
        assert by_closure(x).item() == by_method(x).item() == 15.0
        layer.w = calor.asarray([[7.0]], dtype=calor.float64, requires_grad=True)
        assert by_closure(x).item() == by_method(x).item() == 21.0
        assert layer.calls.item() == 6

    def test_objects_that_are_defaults_are_followed(self) -> None:
        layer = Linear([[2.0]], [0.0])
        by_place, by_name = (
            calor.jit(lambda x, held=layer: held(x)), calor.jit(lambda x, *, held=layer: held(x))
        )  # fmt: skip
        for f in (by_place, by_name):
            layer.w = tensor(2).reshape(1, 1)
            assert f(tensor(3)).tolist() == [6.0]
            layer.w = tensor(5).reshape(1, 1)
            assert f(tensor(3)).tolist() == [15.0]

    def test_a_static_attribute_makes_a_new_trace(self) -> None:
        class Power(Stateful):
            def __init__(self) -> None:
                self.exponent, self.w = 2, tensor(3)

            def __call__(self, x: Any) -> Any:
                return (x * self.w) ** self.exponent

        power = Power()
        f = calor.jit(power.__call__)
        assert f(tensor(1)).item() == 9.0
        power.exponent = 3
        assert f(tensor(1)).item() == 27.0
        power.exponent = 2
        assert f(tensor(1)).item() == 9.0
        assert f.trace_count == 2

    def test_dynamic_attributes_do_not(self) -> None:
        p = parameter(1.0)
        optimizer = Momentum([p])

        @calor.jit
        def step() -> None:
            (p * 2).sum().backward()
            optimizer.step()

        step()
        assert p.item() == pytest.approx(0.8)
        optimizer.rate = 1.0
        step()
        assert p.item() == pytest.approx(0.8 - (0.9 * 2 + 2))
        assert step.trace_count == 1

    def test_assigned_tensors_are_writes(self) -> None:
        class Counter(Stateful):
            def __init__(self) -> None:
                self.n = calor.asarray(0)

            def step(self) -> Any:
                self.n = self.n + 1
                return self.n * 10

        counter = Counter()
        f = calor.jit(counter.step)
        assert [f().item() for _ in range(3)] == [10, 20, 30]
        assert counter.n.item() == 3
        assert f.trace_count == 1

    def test_a_changed_structure_is_refused(self) -> None:
        class Growing(Stateful):
            def __init__(self) -> None:
                self.w = tensor(1)

        growing = Growing()

        def grow(x: Any) -> Any:
            growing.more = x * 2
            return x

        with pytest.raises(TraceError, match="changes the structure of a Growing"):
            calor.jit(grow)(tensor(1))
        assert calor.jit(lambda x: x * growing.w)(tensor(2)).tolist() == [2.0]

    def test_equal_numbers_are_no_tied_tensors(self) -> None:
        f = calor.jit(lambda p, x: x * p.rate + p.other)
        rate = 0.05
        for other in (rate, float("0.05"), 0.5):
            two = _TwoNumbers(rate, other)
            assert f(two, tensor(2)).item() == 2 * rate + other
        assert f.trace_count == 1

    def test_tied_weights_are_one_input(self) -> None:
        model = Pair(tied=True)
        x = calor.asarray([[1.0, 1.0]], dtype=calor.float64)
        f = calor.jit(lambda m, t: m(t))
        assert f(model, x).tolist() == model(x).tolist()
        # x, one weight, two biases, two counts.
        assert len(f.programs[0].graph.inputs) == 6
        with calor.no_grad():
            model.layers[1].w *= 2
        assert model.layers[0].w is model.layers[1].w
        assert f(model, x).tolist() == model(x).tolist()
        assert f.trace_count == 1

    def test_untying_makes_a_new_trace(self) -> None:
        model = Pair(tied=True)
        x = calor.asarray([[1.0, 1.0]], dtype=calor.float64)
        f = calor.jit(lambda m, t: m(t))
        f(model, x)
        other = calor.asarray([[0.0, 0.0], [0.0, 0.0]], dtype=calor.float64, requires_grad=True)
        model.layers[1].w = other
        np.testing.assert_allclose(f(model, x).numpy(), [[0.5, -0.5]])
        assert f(model, x).tolist() == model(x).tolist()

    def test_tying_later_is_seen(self) -> None:
        model = Pair(tied=False)
        x = calor.asarray([[1.0, 1.0]], dtype=calor.float64)

        @calor.jit
        def train(m: Pair, t: Any) -> Any:
            loss = m(t).sum()
            loss.backward()
            with calor.no_grad():
                for layer in m.layers:
                    layer.w -= 0.1 * layer.w.grad
            return loss

        train(model, x)
        model.layers[1].w = model.layers[0].w
        model.layers[0].w.grad = None
        fresh = Pair(tied=True)
        for a, b in zip(model.layers, fresh.layers, strict=True):
            b.w.requires_grad = False
            b.w._rebind(a.w.detach())
            b.w.requires_grad = True
        fresh(x).sum().backward()
        expected = fresh.layers[0].w.detach() - 0.2 * fresh.layers[0].w.grad
        train(model, x)
        np.testing.assert_allclose(model.layers[0].w.numpy(), expected.numpy())


class TestMemory:
    def test_state_stays_at_its_address(self) -> None:
        p = calor.zeros(1000, dtype=calor.float64)

        @calor.jit
        def step() -> None:
            nonlocal p
            p += 1

        step()
        step()
        first = address(p)
        for _ in range(5):
            step()
        assert address(p) == first
        assert p[0].item() == 7.0

    def test_exported_views_are_not_overwritten(self) -> None:
        p = calor.zeros(3)

        @calor.jit
        def step() -> None:
            nonlocal p
            p += 1

        step()
        step()
        view = p.numpy()
        step()
        assert view.tolist() == [2.0, 2.0, 2.0]
        assert p.tolist() == [3.0, 3.0, 3.0]
        part = np.from_dlpack(p)[1:]
        step()
        assert part.tolist() == [3.0, 3.0]
        assert p.tolist() == [4.0, 4.0, 4.0]
        del view, part
        step()
        assert p.tolist() == [5.0, 5.0, 5.0]

    def test_copies_are_not_overwritten(self) -> None:
        p = calor.zeros(3)

        @calor.jit
        def step() -> None:
            nonlocal p
            p += 1

        step()
        copy, detached, other = p.copy(), p.detach(), p + 0
        calor.eval(other)
        step()
        assert copy.tolist() == detached.tolist() == other.tolist() == [1.0] * 3
        assert p.tolist() == [2.0] * 3
        step()
        assert detached.tolist() == [1.0] * 3

    def test_an_average_that_began_as_a_copy_keeps_apart(self) -> None:
        p = parameter(1.0, 1.0)
        average = Average([p])

        @calor.jit
        def step() -> None:
            with calor.no_grad():
                p.__isub__(1.0)
            average.update()

        expected, value = 1.0, 1.0
        for _ in range(4):
            step()
            value -= 1.0
            expected += (value - expected) * 0.5
            assert p.tolist() == [value] * 2
            assert average.values[0].tolist() == [expected] * 2

    def test_state_that_is_also_an_argument(self) -> None:
        p = calor.zeros(3)

        @calor.jit
        def step(x: Any) -> Any:
            nonlocal p
            p += 1
            return x + p

        assert step(p).tolist() == [2.0] * 3
        assert step(p).tolist() == [4.0] * 3
        assert p.tolist() == [2.0] * 3

    def test_state_that_is_also_returned(self) -> None:
        p = calor.zeros(3)

        @calor.jit
        def step() -> Any:
            nonlocal p
            p += 1
            return p

        kept = [step() for _ in range(3)]
        assert [k.tolist() for k in kept] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
        assert p.tolist() == [3.0] * 3

    def test_swapped_state(self) -> None:
        a, b = tensor(1), tensor(2)

        @calor.jit
        def swap() -> None:
            first = a.detach()
            a._rebind(b.detach())
            b._rebind(first)

        for n in range(4):
            assert (a.item(), b.item()) == ((1.0, 2.0) if n % 2 == 0 else (2.0, 1.0))
            swap()

    def test_two_tensors_of_one_value(self) -> None:
        a = calor.zeros(3)
        b = a.copy()

        @calor.jit
        def step() -> None:
            nonlocal a
            a += 1

        step()
        step()
        assert a.tolist() == [2.0] * 3
        assert b.tolist() == [0.0] * 3

    def test_memory_stays_flat(self, in_use: Any) -> None:
        p = calor.zeros(1000)

        @calor.jit
        def step(x: Any) -> Any:
            nonlocal p
            p += x
            return (p * p).sum()

        x = calor.ones(1000)
        for _ in range(3):
            step(x)
        start = in_use()
        for _ in range(50):
            loss = step(x)
        assert in_use() - start <= 64
        assert loss.item() == 53.0**2 * 1000

    def test_arguments_changed_in_place_are_changed_outside(self) -> None:
        @calor.jit
        def add(x: Any, y: Any) -> Any:
            x += y
            return x * 2

        x = tensor(1)
        assert add(x, tensor(2)).tolist() == [6.0]
        assert x.tolist() == [3.0]
        assert add(x, tensor(2)).tolist() == [10.0]
        assert x.tolist() == [5.0]

    def test_an_argument_given_twice_and_changed(self) -> None:
        @calor.jit
        def add(x: Any, y: Any) -> Any:
            x += 1
            return x + y

        x, y = tensor(1), tensor(10)
        assert add(x, y).tolist() == [12.0]
        one = tensor(1)
        plain = tensor(1)
        plain += 1
        expected = (plain + plain).tolist()
        assert add(one, one).tolist() == expected
        assert one.tolist() == [2.0]


@pytest.mark.parametrize("tied_first", [False, True])
def test_weights_that_become_one_tensor_are_another_program(tied_first: bool) -> None:
    class Weights(Stateful):
        def __init__(self, *tensors: Any) -> None:
            self.tensors = list(tensors)

    @calor.jit
    def step(weights: Weights, x: Any) -> None:
        for w in weights.tensors:
            w -= x

    shared = tensor(0)
    calls = [Weights(tensor(0), tensor(5)), Weights(shared, shared)]
    for weights in reversed(calls) if tied_first else calls:
        step(weights, tensor(1))
    assert [w.tolist() for w in calls[0].tensors] == [[-1.0], [4.0]]
    assert shared.tolist() == [-2.0]
    assert step.trace_count == 2


def test_nothing_of_a_trace_keeps_earlier_state() -> None:
    """What was replaced is gone at once, not when garbage is collected."""
    layer = Linear([[2.0]], [0.5])

    @calor.jit
    def step(x: Any) -> None:
        layer.w.grad = layer.b.grad = None
        (layer(x) ** 2).sum().backward()
        with calor.no_grad():
            layer.w -= 0.1 * layer.w.grad

    gc.collect()
    gc.disable()
    try:
        states = []
        for _ in range(4):
            before = weakref.ref(layer.w._value)
            view = layer.w.numpy(copy=False)
            step(tensor(1))
            del view
            states.append([before, weakref.ref(layer.b.grad._value)])
        assert step.trace_count == 2
        assert [[held() is None for held in state] for state in states] == [
            [True, True],
            [True, True],
            [True, True],
            [False, False],
        ]
    finally:
        gc.enable()
