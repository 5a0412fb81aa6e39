"""Updates of several threads: jitted functions that change the same state lose none.

Jitted calls that change the same state take turns, whatever else they are: one function or several,
bound or closed over the state, of the same objects in another order. Threads switch every few
bytecodes here, so what is not done in one turn is seen. What all of them add is there at the end,
random numbers are drawn once, and threads with a state of their own find no one else's in it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32
from calor.transforms.state import Stateful

from .base import Check, Place
from .threads import THREADS, together

CONTRACT: Final = "jitted calls of several threads that change the same state lose no update"
_CALLS, _DRAWN, _INTERVAL = 12, 2, 1e-6
_NN, _TRAIN = "calor_nn", "calor_train"
Rng = np.random.Generator


class _State(Stateful):
    """A total and a count of calls."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total = calor.zeros(shape, dtype=float32)
        self.count = calor.zeros((), dtype=int32)


def _add(state: _State, by: Any) -> Any:
    state.total += by
    state.count += 1
    return calor.sum(state.total)


def _add_in_parts(state: _State, by: Any) -> Any:
    """Add the same as _add does, in another order."""
    state.count = state.count + 1
    state.total = state.total - 1
    state.total = state.total + (by + 1)
    return state.count


def _move(one: _State, other: _State, by: Any) -> Any:
    one.total += by
    other.total -= by
    one.count += 1
    other.count += 1
    return one.count


@contextmanager
def _often() -> Iterator[None]:
    """Let threads switch as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Drawn:
    """A shape, what each call adds, and the place where all of it runs."""

    def __init__(self, place: Place, rng: Rng) -> None:
        self.place, self.rng = place, rng
        self.shape = tuple(int(n) for n in rng.integers(1, 9, int(rng.integers(0, 3))))
        numbers = rng.integers(-9, 10, (THREADS, _CALLS, *self.shape)).astype(np.float32)
        self.numbers = numbers
        self.given = [[calor.asarray(each) for each in line] for line in numbers]
        self.want = numbers.sum(axis=(0, 1))

    def state(self) -> _State:
        return _State(self.shape)

    def run(self, work: Callable[[int, Any], Any]) -> None:
        """Call ``work(thread, what to add)`` in all threads."""
        with _often():
            together(self.place, lambda n: self.calls(work, n))

    def calls(self, work: Callable[[int, Any], Any], number: int) -> None:
        for given in self.given[number]:
            work(number, given)

    def same(self, state: _State, want: Any, count: int, what: str) -> None:
        made, calls = state.total.numpy(), state.count.item()
        assert calls == count, f"{what}: {calls} calls of {count} are counted"
        assert (made == want).all(), f"{what}: {made.tolist()}, not {np.asarray(want).tolist()}"


def _one_function(drawn: _Drawn) -> None:
    state, step = drawn.state(), calor.jit(_add)
    drawn.run(lambda n, by: step(state, by))
    drawn.same(state, drawn.want, THREADS * _CALLS, "one function")


def _two_functions(drawn: _Drawn) -> None:
    state = drawn.state()
    steps = [calor.jit(f) for f in (_add, _add_in_parts)]
    drawn.run(lambda n, by: steps[n % 2](state, by))
    drawn.same(state, drawn.want, THREADS * _CALLS, "two functions")


def _bound_and_closed(drawn: _Drawn) -> None:
    state = drawn.state()
    steps: list[Callable[..., Any]] = [
        calor.jit(_add).bind(state), partial(calor.jit(_add_in_parts), state),
        calor.jit(lambda by: _add(state, by)), calor.jit(_add).bind(state),
    ]  # fmt: skip
    drawn.run(lambda n, by: steps[n % len(steps)](by))
    drawn.same(state, drawn.want, THREADS * _CALLS, "bound and closed functions")


def _other_orders(drawn: _Drawn) -> None:
    one, other, move = drawn.state(), drawn.state(), calor.jit(_move)
    drawn.run(lambda n, by: move(one, other, by) if n % 2 else move(other, one, by))
    signs = np.array([1 if n % 2 else -1 for n in range(THREADS)], np.float32)
    by = np.tensordot(signs, drawn.numbers.sum(axis=1), 1)
    drawn.same(one, by, THREADS * _CALLS, "two objects, in both orders")
    drawn.same(other, -by, THREADS * _CALLS, "two objects, in both orders")


def _own_states(drawn: _Drawn) -> None:
    states, step = [drawn.state() for _ in range(THREADS)], calor.jit(_add)
    drawn.run(lambda n, by: step(states[n], by))
    for n, state in enumerate(states):
        drawn.same(state, drawn.numbers[n].sum(axis=0), _CALLS, f"a state of thread {n} alone")


def _random_numbers(drawn: _Drawn) -> None:
    """What threads draw of one generator is what one thread draws, in some order."""
    seed, shape = int(drawn.rng.integers(1 << 30)), (*drawn.shape, 2)
    found: list[Any] = []

    def draw(generator: Any, by: Any) -> Any:
        return calor.random.uniform(shape, generator=generator)

    steps = [calor.jit(draw), calor.jit(lambda g, by: draw(g, by) * 1)]
    alone, shared = calor.random.Generator(seed), calor.random.Generator(seed)
    drawn.run(lambda n, by: found.append(steps[n % 2](shared, by)))
    want = [steps[0](alone, drawn.given[0][0]) for _ in range(THREADS * _CALLS)]
    got, wanted = (sorted(t.numpy().tobytes() for t in every) for every in (found, want))
    twice = len(got) - len(set(got))
    assert got == wanted, f"{twice} of {len(got)} draws of one generator came twice in threads"


def _optimizer(drawn: _Drawn) -> None:
    """Descent by constant gradients; a step by a jitted function is one turn."""
    train = import_module(_TRAIN)
    w = calor.asarray(np.zeros(drawn.shape, np.float32), requires_grad=True)
    holder = train.SGD([w], lr=1.0)

    def step(optimizer: Any, by: Any) -> Any:
        loss = calor.sum(w * by)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    jitted = calor.jit(step)
    drawn.run(lambda n, by: jitted(holder, by))
    made = w.detach().numpy()
    assert (made == -drawn.want).all(), f"SGD: {made.tolist()}, not {(-drawn.want).tolist()}"


def _module(drawn: _Drawn) -> None:
    nn = import_module(_NN)
    norm = nn.BatchNorm1d(3)

    @calor.jit
    def forward(norm: Any, x: Any) -> Any:
        with calor.no_grad():
            return norm(x)

    x = calor.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    drawn.run(lambda n, by: forward(norm, x))
    seen = norm.num_batches_tracked.item()
    assert seen == THREADS * _CALLS, f"BatchNorm1d counts {seen} batches of {THREADS * _CALLS}"


_WAYS: Final = (_one_function, _two_functions, _bound_and_closed, _other_orders, _own_states,
                _random_numbers)  # fmt: skip

# What every device is asked, also where programs have to be compiled.
_ALWAYS: Final = (_one_function, _own_states)


def _run(place: Place) -> None:
    ways = [*_WAYS]
    ways += [_optimizer] * (find_spec(_TRAIN) is not None)
    ways += [_module] * (find_spec(_NN) is not None)
    for number in range(_DRAWN):
        for turn, way in enumerate(ways):
            if way in _ALWAYS or place.tries(turn + number, 4):
                way(_Drawn(place, np.random.default_rng([place.seed, 274, number, turn])))


def drawn_updates() -> Iterator[Check]:
    """Yield the check of updates by threads."""
    yield Check(
        kind="threads",
        subject="drawn-updates",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Drawn),
        dtypes=(float32, int32),
        looks=True,
    )
