"""Jitted functions in several threads at once: no update is lost, and traces take turns."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import TraceError
from calor.transforms.locks import turn_for
from calor.transforms.state import Stateful

from .objects import Momentum, parameter

# The strict device compares memory before and after each call, so it is for one thread at a time.
DEVICE = "numpy"
THREADS = 4
CALLS = 150


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Have threads switch as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with calor.device(DEVICE):
        yield
    sys.setswitchinterval(before)


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    """Return what functions return that begin together in threads of their own."""
    start = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(place: int) -> None:
        with calor.device(DEVICE):
            start.wait()
            try:
                results[place] = works[place]()
            except BaseException as error:
                results[place] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class Counter(Stateful):
    def __init__(self) -> None:
        self.n: Any = calor.asarray(0)
        self.large: Any = calor.zeros(100)

    def count(self, by: Any) -> Any:
        self.n += by
        self.large += 1.0
        return self.n * 1


def repeat(call: Callable[[], Any], times: int = CALLS) -> Callable[[], list[Any]]:
    return lambda: [call() for _ in range(times)]


@pytest.mark.parametrize("views", [False, True], ids=["in place", "seen by a view"])
@pytest.mark.parametrize("first", [False, True], ids=["traced before", "traced at once"])
def test_no_update_of_captured_state_is_lost(views: bool, first: bool) -> None:
    counter, one = Counter(), calor.asarray(1)
    held = [counter.n.numpy(), counter.large.numpy()] if views else []
    step = calor.jit(lambda by: counter.count(by))
    if not first:
        step(calor.asarray(0))
    seen = in_threads(*[repeat(lambda: step(one).item())] * THREADS)
    assert sorted(n for part in seen for n in part) == list(range(1, THREADS * CALLS + 1))
    assert counter.n.item() == THREADS * CALLS
    assert set(counter.large.tolist()) == {float(THREADS * CALLS + (not first))}
    assert step.trace_count == 1
    assert all(part.max() == 0 for part in held)


def test_no_update_of_arguments_is_lost() -> None:
    counter, other, x = Counter(), Counter(), calor.zeros(10)

    @calor.jit
    def step(counter: Counter, x: Any) -> None:
        counter.count(1)
        x += 1.0

    in_threads(*[repeat(lambda: step(counter, x))] * 2, *[repeat(lambda: step(other, x))] * 2)
    assert (counter.n.item(), other.n.item()) == (2 * CALLS, 2 * CALLS)
    assert x.tolist() == [4.0 * CALLS] * 10


def test_different_functions_take_turns_over_what_they_share() -> None:
    counter, p = Counter(), parameter(0.0)
    up = calor.jit(lambda by: counter.count(by))
    both = calor.jit(lambda c: (c.count(1), p.__iadd__(1.0))[0])
    one = calor.asarray(1)
    with calor.no_grad():
        p_only = calor.jit(lambda: p.__iadd__(1.0))

        def quietly(call: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> Any:
                with calor.no_grad():
                    return repeat(call)()

            return run

        in_threads(
            repeat(lambda: up(one)),
            quietly(lambda: both(counter)),
            quietly(p_only),
            quietly(lambda: both(counter)),
        )
    assert counter.n.item() == 3 * CALLS
    assert p.item() == 3 * CALLS


def test_functions_that_draw_never_draw_the_same_numbers() -> None:
    draws = [calor.jit(lambda: calor.random.bits((2,))) for _ in range(THREADS)]
    calor.random.seed(0)
    made = in_threads(*[repeat(lambda f=f: tuple(f().tolist())) for f in draws])
    drawn = [numbers for part in made for numbers in part]
    assert len(set(drawn)) == THREADS * CALLS
    calor.random.seed(0)
    assert set(drawn) == {tuple(draws[0]().tolist()) for _ in drawn}


def test_shapes_and_numbers_of_optimizers() -> None:
    p = parameter(*[1.0] * 8)
    optimizer = Momentum([p], rate=0.0)
    counter = calor.asarray(0)

    @calor.jit
    def step(x: Any) -> None:
        (p.sum() * x.sum()).backward()
        optimizer.step()
        counter.__iadd__(1)

    def work() -> None:
        for n in range(30):
            step(calor.ones(1 + n % 3, dtype=calor.float64))

    in_threads(*[work] * THREADS)
    assert counter.item() == THREADS * 30
    assert p.tolist() == [1.0] * 8
    assert optimizer.rate == 0.0
    assert step.trace_count == 3


def test_calls_go_on_while_another_thread_traces_with_their_tensors() -> None:
    counter, w = Counter(), calor.asarray(np.arange(4.0))
    optimizer = Momentum([w], rate=2.0)
    tracing, done = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        made = x * w + counter.n + optimizer.rate
        tracing.set()
        time.sleep(0.05)
        return made + counter.n

    quick = calor.jit(lambda x: x * w * optimizer.rate)
    step = calor.jit(lambda: counter.count(1))
    x = calor.ones(4, dtype=calor.float64)
    expected = quick(x).tolist()
    step()

    def trace() -> Any:
        made = calor.jit(slow)(x)
        done.set()
        return made

    def call() -> int:
        tracing.wait()
        early = not done.is_set()
        calls = 0
        while not done.is_set() or calls < 3:
            assert quick(x).tolist() == expected
            assert quick(w).tolist() == (w * w * 2.0).tolist() if done.is_set() else True
            step()
            calls += 1
        assert early
        return calls

    _, calls = in_threads(trace, call)
    assert counter.n.item() == 1 + calls


def test_bodies_traced_at_once_leave_captured_tensors_whole() -> None:
    w = calor.asarray(np.ones(3))
    total = calor.asarray(0)

    def work() -> list[float]:
        made = []
        for _ in range(10):
            end, _ = calor.scan(lambda c, _: (c + w, None), w * 0.0, length=3)
            made.append(end.sum().item())
        return made

    assert in_threads(*[work] * THREADS) == [[9.0] * 10] * THREADS
    assert w.tolist() == [1.0] * 3
    assert total.item() == 0


def test_a_tensor_that_is_traced_elsewhere_is_read_as_it_is() -> None:
    w = calor.asarray(np.ones(3))
    tracing = threading.Event()

    def slow(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            made = c + w
            tracing.set()
            time.sleep(0.05)
            return made, None

        return calor.scan(step, x * w, length=2)[0]

    def use() -> Any:
        tracing.wait(10)
        return w.tolist(), (w + 1).tolist(), (w * w + w).sum().item()

    made, seen = in_threads(lambda: calor.jit(slow)(w).tolist(), use)
    assert made == [3.0] * 3
    assert seen == ([1.0] * 3, [2.0] * 3, 6.0)
    assert w.tolist() == [1.0] * 3


def test_a_traced_value_is_none_of_another_thread_either() -> None:
    tracing, done = threading.Event(), threading.Event()
    kept = []

    def slow(x: Any) -> Any:
        kept.append(x * 2)
        tracing.set()
        done.wait(10)
        return x

    def use() -> Any:
        tracing.wait(10)
        done.set()
        return kept[0].tolist()

    with pytest.raises(TraceError, match="was kept and used"):
        in_threads(lambda: calor.jit(slow)(calor.ones(2)), use)


def test_what_has_nothing_in_common_does_not_wait() -> None:
    class Owner:
        pass

    a, b, c = Owner(), Owner(), Owner()
    first, second, third = turn_for([a, b]), turn_for([c]), turn_for([b])

    def blocked(turn: Any) -> bool:
        found: list[bool] = []

        def attempt() -> None:
            free = turn.locks[0] if hasattr(turn, "locks") else turn
            if free.acquire(timeout=0.05):
                free.release()
                found.append(False)
            else:
                found.append(True)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return found[0]

    first.acquire()
    assert not blocked(second)
    assert blocked(third)
    first.release()
    assert not blocked(third)
    assert turn_for([c]) is second


class _Counted(Stateful):
    def __init__(self) -> None:
        self.count = calor.zeros(())


def test_a_call_waits_for_a_trace_that_replaced_its_state() -> None:
    state, started = _Counted(), threading.Event()

    def plain(held: _Counted) -> Any:
        held.count = held.count + 1
        return held.count

    def slow(held: _Counted) -> Any:
        held.count = held.count + 1
        started.set()
        # Long enough for the other call to look at the object meanwhile.
        time.sleep(0.2)
        return held.count

    add = calor.jit(plain)
    add(_Counted())
    found: list[Any] = []

    def trace() -> None:
        with calor.device(DEVICE):
            found.append(calor.jit(slow)(state))

    tracer = threading.Thread(target=trace)
    tracer.start()
    assert started.wait(10)
    made = add(state)
    tracer.join()
    assert sorted(x.item() for x in (made, *found)) == [1.0, 2.0]
    assert state.count.item() == 2.0
