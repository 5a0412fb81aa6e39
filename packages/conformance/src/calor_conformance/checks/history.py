"""History: the result of an executable depends on its inputs only, not on earlier calls.

A driver that records a plan, has a ring of descriptors or reuses memory is right at the first call.
Calls are therefore repeated with other numbers, other buffers and other programs in between.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, bool_, complex128, float32, float64, int64, uint64
from calor.transforms.state import Stateful

from .base import Place, plain_array
from .contract import Contracts

contract = Contracts("history")
CALLS = 300
# Nodes of a program that a device may find worth storing.
_LARGE = 120


def _tensor(*numbers: float) -> Any:
    return calor.asarray(plain_array(numbers))


class _Pair(Stateful):
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@contract("a program is as right at its 300th call as at its first", tier="compiled", looks=False)
def many_calls(place: Place) -> None:
    step = calor.jit(lambda x, y: (x * 2 + y, y - x))
    for n in range(CALLS):
        total, rest = step(_tensor(n % 50, 1), _tensor(3, n % 7))
        assert total.tolist() == [2 * (n % 50) + 3, 2 + n % 7], f"at call {n + 1}"
        assert rest.tolist() == [3 - n % 50, n % 7 - 1], f"at call {n + 1}"


@contract("Python numbers reach a program at every call", tier="compiled", looks=False)
def numbers(place: Place) -> None:
    step = calor.jit(lambda x, rate: x * rate)
    for rate in (2, 3, 5, 0, -1):
        got = step(_tensor(1, 2, 3), rate).tolist()
        assert got == [rate, 2 * rate, 3 * rate], f"with {rate}: {got}"
    assert step.trace_count == 1, f"{step.trace_count} traces for one structure"


@contract(
    "Python numbers arrive with the digits that they have",
    tier="compiled",
    of=(int64, uint64, float64, complex128),
    looks=False,
)
def digits_of_numbers(place: Place, dtype: DType) -> None:
    step = calor.jit(lambda x, number: x + number)
    x = calor.asarray(np.array([0, 0], dtype.numpy))
    digits: dict[DType, list[Any]] = {float64: [0.1, 1 / 3, 1e300], complex128: [0.1 - 1j / 3]}
    for number in digits.get(dtype, [(1 << 53) + 1, (1 << 62) + 3]):
        assert step(x, number).tolist() == [number, number], f"{step(x, number)} for {number!r}"


@contract("results stay as they are while their program goes on", tier="compiled", looks=False)
def results_stay(place: Place) -> None:
    step = calor.jit(lambda x: (x + 1, x * 2))
    made = [step(_tensor(n, -n)) for n in range(20)]
    for n, (more, twice) in enumerate(made):
        assert more.tolist() == [n + 1, 1 - n], f"the first result of call {n + 1}"
        assert twice.tolist() == [2 * n, -2 * n], f"the second result of call {n + 1}"


@contract("one buffer may be given for two inputs", tier="compiled", looks=False)
def one_buffer_twice(place: Place) -> None:
    step = calor.jit(lambda x, y: (x - y * 2, x))
    x = _tensor(1, 2, 3)
    for _ in range(2):
        assert step(_tensor(5, 5, 5), x)[0].tolist() == [3, 1, -1]
        assert step(x, x)[0].tolist() == [-1, -2, -3]
    assert x.tolist() == [1, 2, 3]


@contract(
    "a result that is the same at every call can be changed, and comes again as it was",
    tier="compiled",
    looks=False,
)
def constants(place: Place) -> None:
    start = calor.jit(lambda x: (calor.full((3,), 4, dtype=x.dtype), x))

    @calor.jit
    def lower(pair: _Pair) -> None:
        pair.a -= pair.b

    for n in range(3):
        fixed, moving = start(_tensor(n, 1, 1))
        assert fixed.tolist() == [4, 4, 4], f"at call {n + 1}"
        lower(_Pair(fixed, moving))
        assert fixed.tolist() == [4 - n, 3, 3], f"at call {n + 1}"


@contract(
    "a branch is chosen at every call",
    tier="compiled",
    features=("control_flow",),
    dtypes=(bool_,),
    looks=False,
)
def branches(place: Place) -> None:
    step = calor.jit(lambda p, x: calor.cond(p, lambda x: x + 1, lambda x: x * 2, x))
    for truth in (True, False, False, True, False):
        got = step(calor.asarray(np.array(truth)), _tensor(3, 4)).tolist()
        assert got == ([4, 5] if truth else [6, 8]), f"for {truth}: {got}"


@contract(
    "what is written in place is computed from the numbers before the step",
    tier="compiled",
    looks=False,
)
def updates_read_the_old_numbers(place: Place) -> None:
    @calor.jit
    def turn(pair: _Pair) -> Any:
        pair.a, pair.b = pair.b * 1, pair.a + pair.b
        return pair.a * 3

    @calor.jit
    def momentum(pair: _Pair, x: Any) -> Any:
        before = pair.a * 1
        pair.b = pair.b * 2 + x
        pair.a -= pair.b
        return before

    pair, a, b = _Pair(_tensor(1, 2), _tensor(3, 4)), [1, 2], [3, 4]
    for n in range(4):
        assert turn(pair).tolist() == [3 * v for v in b], f"the result of step {n + 1}"
        a, b = b, [v + w for v, w in zip(a, b, strict=True)]
        assert (pair.a.tolist(), pair.b.tolist()) == (a, b), f"after step {n + 1}"
    pair, w, v = _Pair(_tensor(9, 9), _tensor(0, 0)), 9, 0
    for n in range(4):
        assert momentum(pair, _tensor(1, 1)).tolist() == [w, w], f"before step {n + 1}"
        v = v * 2 + 1
        w -= v
        assert (pair.a.tolist(), pair.b.tolist()) == ([w, w], [v, v]), f"after step {n + 1}"


@contract(
    "what is written in place may be its own numbers in another order",
    tier="compiled",
    looks=False,
)
def moves_in_place(place: Place) -> None:
    moves: dict[str, tuple[Any, Any]] = {
        "transposed": (lambda x: calor.permute_dims(x, (1, 0)), lambda x: x.T),
        "turned": (lambda x: x[::-1] * 1, lambda x: x[::-1]),
        "shifted": (lambda x: calor.concat([x[1:], x[:1]]), lambda x: np.roll(x, -1, 0)),
        "multiplied": (lambda x: x @ x, lambda x: x @ x),
        "summed": (lambda x: x + calor.sum(x, axis=0, keepdims=True), lambda x: x + x.sum(0)),
    }
    for name, (move, meaning) in moves.items():
        want = plain_array([[1, 0, 2], [0, 1, -1], [1, 1, 0]])
        pair = _Pair(calor.asarray(want), _tensor(0))
        step = calor.jit(partial(_moved, move))
        for n in range(3):
            step(pair)
            want = meaning(want)
            assert pair.a.tolist() == want.tolist(), f"{name} {n + 1} times: {pair.a}"


def _moved(move: Any, pair: _Pair) -> None:
    pair.a = move(pair.a)


@contract("a state may be a single number, or have no elements", tier="compiled", looks=False)
def small_states(place: Place) -> None:
    @calor.jit
    def step(pair: _Pair) -> None:
        pair.a += 1
        pair.b += 1

    pair = _Pair(calor.asarray(plain_array(3)), calor.asarray(plain_array(np.zeros((0, 2)))))
    for n in range(1, 4):
        step(pair)
        assert (pair.a.shape, pair.a.item()) == ((), 3 + n), f"after step {n}"
        assert pair.b.shape == (0, 2), f"after step {n}"


@contract("one program serves two states in turns", tier="compiled", looks=False)
def states_in_turns(place: Place) -> None:
    @calor.jit
    def step(pair: _Pair) -> None:
        pair.a += pair.b

    one, other = _Pair(_tensor(0, 0), _tensor(1, 2)), _Pair(_tensor(50, 60), _tensor(-1, -2))
    for n in range(1, 5):
        step(one)
        step(other)
        assert one.a.tolist() == [n, 2 * n], f"the first state in turn {n}"
        assert other.a.tolist() == [50 - n, 60 - 2 * n], f"the second state in turn {n}"


@contract("programs that look alike and differ in a number are two", tier="compiled", looks=False)
def programs_that_look_alike(place: Place) -> None:
    def plan(k: int) -> Any:
        return calor.jit(lambda x: calor.where(x > k, x - k, x * k))

    steps = {k: plan(k) for k in (1, 2, 3)}
    for _ in range(2):
        for k, step in steps.items():
            want = [v - k if v > k else v * k for v in (0, 2, 5)]
            assert step(_tensor(0, 2, 5)).tolist() == want, f"with {k}"


# Numbers that differ in their last bits, their first, and between.
_ALIKE = (1.5, 1.5 + 2.0**-23, 1.5 + 2.0**-12, -1.5, 3.0, 1.5 * 2.0**-60)


@contract(
    "large programs that differ in one number, which may be stored, are as many",
    tier="compiled",
    dtypes=(float32,),
    looks=False,
)
def large_programs_that_look_alike(place: Place) -> None:
    x = np.linspace(-2, 2, 7, dtype=np.float32)
    for at in (0, _LARGE // 2, _LARGE - 1):
        for number in _ALIKE:
            step = calor.jit(partial(_chain, at, number))
            got, want = step(calor.asarray(x)).numpy(), _chain(at, number, x)
            assert got.tobytes() == want.tobytes(), f"{number!r} at node {at}: {got}, not {want}"


def _chain(at: int, number: float, x: Any) -> Any:
    """Return steps that are exact but for one number of the program, not of its arguments."""
    for n in range(_LARGE):
        x = abs(x) if n % 2 else -x
        if n == at:
            constant = np.full(7, number, np.float32)
            x = x * (constant if isinstance(x, np.ndarray) else calor.full((7,), number))
    return x


CHECKS = contract.checks
