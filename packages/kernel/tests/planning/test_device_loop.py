"""Loops that a device runs without the host: what they compute, and what the host runs instead."""

from typing import NamedTuple

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ElementIndexError
from calor_interpreter.device import ONE_UNIT, LanesDevice, LanesQueue
from calor_kernel.planning.control import ControlPlan
from calor_kernel.runtime.backend import KernelBackend


class Loop(NamedTuple):
    """A recorded loop."""

    before: object
    body: object
    flag: int
    words: int
    spaced: tuple[int, int]


class Looping(LanesQueue):
    """A queue with loops, which counts their steps."""

    loops = True
    steps = 0

    def record_loop(self, before, body, slots, flag, words, spaced):
        assert flag.offset == words.offset == 0
        lists = self.record(before, slots), self.record(body, slots)
        return Loop(*lists, flag.number, words.number, spaced)

    def run(self, recorded, handles):
        if not isinstance(recorded, Loop):
            super().run(recorded, handles)
            return
        super().run(recorded.before, handles)
        (count, apart), words = recorded.spaced, handles[recorded.words]
        while handles[recorded.flag][0] and not any(words[i * apart] for i in range(count)):
            self.steps += 1
            super().run(recorded.body, handles)


@pytest.fixture(scope="module")
def queue():
    made = LanesDevice(ONE_UNIT, checks=False)
    made.queue.__class__ = Looping
    return made


@pytest.fixture
def device(queue):
    queue.queue.steps = 0
    return device_of(KernelBackend("loops", lambda index: queue), 0)


def powers(x, w, n):
    """Multiply x by a transposed matrix n times."""
    body = lambda s: (s[0] + 1, calor.tanh(s[1] @ w.T))  # noqa: E731
    return calor.while_loop(lambda s: s[0] < n, body, (n * 0, x))[1]


def test_prepared_weights_are_those_of_now(device, queue):
    """The packed matrix is read by all steps, and made anew when the matrix changes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 64)).astype(np.float32)
    matrices = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2)]
    kept = set()
    with calor.device(device):
        loop = calor.jit(powers)
        given, n = calor.asarray(x), calor.asarray(3)
        tensors = [calor.asarray(m) for m in matrices]
        for which in (0, 0, 0, 0, 1, 1, 1, 1, 0):
            want = x
            for _ in range(3):
                want = np.tanh(want @ matrices[which].T)
            found = loop(given, tensors[which], n)
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)
            (plan,) = loop.programs
            (flow,) = [f for _, _, f in plan.executable.stages if hasattr(f, "by_host")]
            kept.add(flow.loop.program.variants[1].kept is not None)
    assert queue.queue.steps == 9 * 3
    assert kept == {False, True}


def swapped(x, n):
    """Two carries change places, and a third is the same."""
    body = lambda s: (s[0] + 1, s[2], s[1] * 2, s[3])  # noqa: E731
    return calor.while_loop(lambda s: s[0] < n, body, (n * 0, x, x + 1, x))[1:]


@pytest.mark.parametrize("steps", [0, 1, 4, 5])
def test_carries_in_place(device, queue, steps):
    x = np.arange(5, dtype=np.float32)
    a, b = x, x + 1
    for _ in range(steps):
        a, b = b, a * 2
    with calor.device(device):
        found = calor.jit(swapped)(calor.asarray(x), calor.asarray(steps))
        assert [t.numpy().tolist() for t in found] == [a.tolist(), b.tolist(), x.tolist()]
    assert queue.queue.steps == steps


def nested(x, n):
    def step(state):
        i, total = state
        return i + 1, calor.cond(total.sum() > 3, lambda: total - i, lambda: total + 2)

    return calor.while_loop(lambda s: s[0] < n, step, (n * 0, x))[1]


def indexed(x, n):
    step = lambda s: (s[0] + 1, s[1] + calor.take(x, s[0], axis=0))  # noqa: E731
    return calor.while_loop(lambda s: s[0] < n, step, (n * 0, x[0]))[1]


def test_control_flow_in_a_body_is_run_by_the_host(device, queue):
    x = np.array([1.0, 2.0, 5.0], np.float32)
    with calor.device("numpy"):
        want = nested(calor.asarray(x), calor.asarray(3)).numpy()
    with calor.device(device):
        loop = calor.jit(nested)
        assert loop(calor.asarray(x), calor.asarray(3)).numpy().tolist() == want.tolist()
        plan = loop.programs[0].executable
        assert isinstance(plan, ControlPlan)
        reasons = [flow.by_host for _, _, flow in plan.stages if hasattr(flow, "by_host")]
        assert reasons == ["it has control flow of its own"]
    assert queue.queue.steps == 0


def test_a_failed_operation_ends_the_loop(device, queue):
    with calor.device(device):
        loop, x = calor.jit(indexed), calor.asarray([1.0, 2.0, 5.0])
        assert loop(x, calor.asarray(3)).item() == 9.0
        with pytest.raises(ElementIndexError):
            loop(x, calor.asarray(20)).numpy()
        assert queue.queue.steps == 3 + 4
        assert loop(x, calor.asarray(2)).item() == 4.0


def test_conditions_that_hand_on_a_value(device):
    def count(x):
        more = calor.asarray(True)
        return calor.while_loop(lambda s: s[0], lambda s: (s[1] < 5, s[1] + 1), (more, x))[1]

    with calor.device(device):
        loop = calor.jit(count)
        for _ in range(3):
            assert loop(calor.asarray(2)).item() == 6


def test_bodies_of_several_sizes(device):
    loop = calor.jit(powers)
    rng = np.random.default_rng(0)
    for size in (3, 5, 8, 3, 8, 5, 3):
        x, w = (rng.standard_normal((n, size)).astype(np.float32) for n in (2, size))
        want = x
        for _ in range(3):
            want = np.tanh(want @ w.T)
        with calor.device(device):
            # A plan of many sizes is replaced by one of its own after some calls.
            for _ in range(12):
                made = loop(calor.asarray(x), calor.asarray(w), calor.asarray(3))
                np.testing.assert_allclose(made.numpy(), want, rtol=1e-5, atol=1e-6)
