"""What calor promises when a device fails, tried op by op, jitted and in other processes."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import CompileError, DeviceLostError, OutOfMemoryError
from calor.transforms.state import Stateful
from calor_brittle import FAULTS, inject

KIB = 1024


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No fault outlives its test."""
    yield
    assert FAULTS.waiting == []


def vector(n: int = 4) -> Any:
    return calor.asarray(np.arange(n, dtype=np.float32))


def in_use(device: Any) -> int:
    gc.collect()
    return device.memory.in_use


@pytest.fixture
def device() -> Iterator[Any]:
    """A device that no test loses."""
    with calor.device("brittle:0") as found:
        yield found


# Out of memory, in the middle of a plan.


def test_an_op_without_memory_is_named_and_loses_its_own_results_alone(device: Any) -> None:
    x = vector()
    with inject("out_of_memory", "exp") as fault:
        before, lost = x + 1, calor.exp(x)
        after, beside = lost * 2, before * 2
        for _ in range(2):
            for tensor in (after, lost):
                with pytest.raises(OutOfMemoryError, match="no memory in the middle.*'exp'") as e:
                    tensor.numpy()
                assert e.value.op == "exp"
        assert fault.happened > 0
        assert before.tolist() == [1, 2, 3, 4]
        assert beside.tolist() == [2, 4, 6, 8]
        assert x.tolist() == [0, 1, 2, 3]
        # What is made of a lost value is lost, and computing it says why.
        with pytest.raises(OutOfMemoryError, match="in op 'exp'"):
            (lost + x).numpy()
    # A lost value stays lost; the device does not.
    with pytest.raises(OutOfMemoryError):
        lost.numpy()
    assert calor.exp(x * 0).tolist() == [1, 1, 1, 1]


def test_what_failed_only_in_company_is_computed(device: Any) -> None:
    x = vector()
    with inject("out_of_memory", "exp", times=1):
        one, other = calor.exp(x * 0), x + 1
        assert one.tolist() == [1, 1, 1, 1]
        assert other.tolist() == [1, 2, 3, 4]


def test_synchronize_raises_what_failed_and_the_rest_is_there(device: Any) -> None:
    x = vector()
    with inject("out_of_memory", "exp"):
        lost, kept = calor.exp(x), x - 1
        with pytest.raises(OutOfMemoryError, match="'exp'"):
            calor.synchronize(device)
        assert kept.tolist() == [-1, 0, 1, 2]
        with pytest.raises(OutOfMemoryError):
            lost.numpy()
    calor.synchronize(device)


def test_failures_leave_no_memory_behind(device: Any) -> None:
    x = vector(1000)
    calor.eval(x)
    used = in_use(device)
    with inject("out_of_memory", "exp"):
        for _ in range(5):
            y = calor.exp(x * 2) + 1
            with pytest.raises(OutOfMemoryError):
                y.numpy()
    del y
    assert in_use(device) == used


class Counter(Stateful):
    """State of two tensors that a step writes in place."""

    def __init__(self, n: int) -> None:
        self.first, self.second = vector(n), vector(n)


@calor.jit
def step(state: Counter, x: Any) -> Any:
    state.first += x
    grown = calor.exp(state.first * 0) + calor.tanh(x * 0)
    state.second += grown
    return grown * 2


@pytest.mark.parametrize("op", ["add", "mul", "exp", "tanh"])
def test_a_step_that_fails_leaves_its_state_as_it_was(device: Any, op: str) -> None:
    state, x = Counter(4), calor.asarray(np.ones(4, np.float32))
    # Once before, so that from now on the state is written in place.
    step(state, x).numpy()
    before = state.first.numpy().copy(), state.second.numpy().copy()
    with inject("out_of_memory", op):
        for _ in range(2):
            with pytest.raises(OutOfMemoryError, match=f"in op '{op}'"):
                step(state, x).numpy()
            assert (state.first.numpy() == before[0]).all()
            assert (state.second.numpy() == before[1]).all()
    assert step(state, x).tolist() == [2, 2, 2, 2]
    assert (state.first.numpy() == before[0] + 1).all()
    assert (state.second.numpy() == before[1] + 1).all()


@pytest.mark.parametrize(("op", "n"), [("add", 5), ("mul", 6), ("exp", 7), ("tanh", 8)])
def test_a_step_that_does_not_compile_leaves_its_state_as_it_was(
    device: Any, op: str, n: int
) -> None:
    # Of a size that no other test has compiled.
    state, x = Counter(n), calor.asarray(np.ones(n, np.float32))
    with inject("compile", op):
        for _ in range(2):
            with pytest.raises(CompileError, match=f"in op '{op}'"):
                step(state, x)
            assert state.first.tolist() == state.second.tolist() == list(range(n))
    assert step(state, x).tolist() == [2] * n
    assert state.first.tolist() == state.second.tolist() == list(range(1, n + 1))


def test_a_later_run_of_an_op_may_be_the_one_that_fails(device: Any) -> None:
    x = vector()
    with inject("out_of_memory", "exp", skip=2) as fault:
        assert calor.exp(x * 0).tolist() == [1, 1, 1, 1]
        chain = calor.exp(calor.exp(x * 0) * 0)
        with pytest.raises(OutOfMemoryError):
            chain.numpy()
        assert fault.happened == 1


def test_a_backward_pass_that_fails_can_be_taken_again(device: Any) -> None:
    w = vector()
    loss = calor.value_and_grad(lambda w: calor.sum(calor.tanh(w) * w))
    want = [t.numpy().copy() for t in loss(w)]
    with inject("out_of_memory", "tanh"):
        value, gradient = loss(w)
        for tensor in (value, gradient):
            with pytest.raises(OutOfMemoryError, match="'tanh'"):
                tensor.numpy()
    got = [t.numpy() for t in loss(w)]
    assert all((a == b).all() for a, b in zip(got, want, strict=True))
    assert w.tolist() == [0, 1, 2, 3]


# Out of memory, for good: the device has 4 MiB.


def test_a_plan_that_does_not_fit_starts_nothing(device: Any) -> None:
    x = vector(256 * KIB)
    used = in_use(device)
    wide = calor.broadcast_to(x, (8, 256 * KIB)) * 2
    small = x[:3] + 1
    with pytest.raises(OutOfMemoryError, match=r"brittle:0 needs \d+ bytes") as caught:
        wide.numpy()
    assert caught.value.op in ("mul", "expand")
    assert small.tolist() == [1, 2, 3]
    del wide, small, caught
    assert in_use(device) == used
    assert x[-1].item() == 256 * KIB - 1


def test_an_upload_that_does_not_fit_takes_nothing(device: Any) -> None:
    used = in_use(device)
    with pytest.raises(OutOfMemoryError, match="free tensors, or compute in smaller parts"):
        vector(2 * KIB * KIB)
    assert in_use(device) == used


def test_a_reduction_of_much_is_possible_in_parts(device: Any) -> None:
    """Running out in a loop, and going on with less, is how one lives on a small device."""
    total, size, done, n = 0.0, 4 * KIB * KIB, 0, 4 * KIB * KIB
    halvings = 0
    while done < n:
        part = min(size, n - done)
        try:
            x = calor.asarray(np.ones(part, np.float32))
            total += calor.sum(x * 2).item()
        except OutOfMemoryError:
            size //= 2
            halvings += 1
            continue
        done += part
        del x
    assert total == 2.0 * n
    assert halvings > 1


# Compilers that give up.


def test_a_compile_that_fails_names_the_op_and_loses_its_own_results_alone(device: Any) -> None:
    x = vector(5)
    with inject("compile", "tanh"):
        lost, kept = calor.tanh(x), x * 3
        with pytest.raises(CompileError, match="the compiler of brittle:0 gave up.*'tanh'") as e:
            lost.numpy()
        assert e.value.op == "tanh"
        assert kept.tolist() == [0, 3, 6, 9, 12]
    assert calor.tanh(x * 0).tolist() == [0] * 5


def test_a_graph_that_did_not_compile_is_compiled_when_it_is_met_again(device: Any) -> None:
    half = calor.jit(lambda x: calor.sin(x * 0) + 0.5)
    x = vector(6)
    with inject("compile", "sin", times=1), pytest.raises(CompileError, match="'sin'"):
        half(x)
    assert half(x).tolist() == [0.5] * 6


# A device that is lost.


def test_a_lost_device_says_so_from_then_on_and_others_work_on() -> None:
    with calor.device("brittle:1") as device:
        x, pending = vector(), vector() + 1
        beside = x.to("brittle:2")
        at_home = x.to("numpy")
        with inject("lost", "exp", times=1):
            y = calor.exp(x)
            with pytest.raises(DeviceLostError, match="brittle:1 stopped answering.*'exp'") as e:
                y.numpy()
            assert e.value.op == "exp"
        for use in (
            y.numpy,
            x.numpy,
            pending.numpy,
            (x + 1).numpy,
            lambda: vector(),
            lambda: calor.jit(lambda x: x * 2)(x),
            lambda: x.to("numpy"),
            lambda: beside.to(device),
            lambda: calor.synchronize(device),
            lambda: calor.ones(3).numpy(),
        ):
            with pytest.raises(DeviceLostError, match="brittle:1 stopped answering"):
                use()
    assert beside.tolist() == at_home.tolist() == [0, 1, 2, 3]
    assert (beside * 2).tolist() == [0, 2, 4, 6]
    calor.synchronize("brittle:2")


def test_a_device_lost_within_a_jitted_step_is_lost_for_its_state() -> None:
    with calor.device("brittle:3"):
        state, x = Counter(4), calor.asarray(np.ones(4, np.float32))
        lose = calor.jit(lambda state, x: step.function(state, calor.cos(x)))
        lose(state, x).numpy()
        with inject("lost", "cos"), pytest.raises(DeviceLostError, match="'cos'"):
            lose(state, x)
        for use in (state.first.numpy, lambda: lose(state, x), lambda: step(state, x)):
            with pytest.raises(DeviceLostError):
                use()


def test_what_a_lost_device_held_can_die() -> None:
    with calor.device("brittle:4") as device:
        x = vector(1000)
        with inject("lost", "exp"), pytest.raises(DeviceLostError):
            calor.exp(x).numpy()
        del x
    gc.collect()
    assert device.backend.memory(4).in_use == 0
    assert repr(device) == "device('brittle:4')"


def test_one_thread_loses_what_it_asked_for_and_others_go_on(device: Any) -> None:
    failures: list[BaseException] = []
    stop = threading.Event()

    def work() -> None:
        try:
            with calor.device(device):
                x = vector(7)
                while not stop.is_set():
                    assert (x * 2 + 1).tolist() == [1, 3, 5, 7, 9, 11, 13]
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    x = vector()
    with inject("out_of_memory", "exp"):
        for _ in range(50):
            with pytest.raises(OutOfMemoryError):
                calor.exp(x).numpy()
    stop.set()
    thread.join()
    assert failures == []


# In a process of its own, by the variable.

PROGRAM = """
import calor
x = calor.asarray([0.0, 1.0])
y = calor.exp(x)
try:
    y.numpy()
except calor.errors.DeviceError as error:
    print(type(error).__name__, error.op, error.line and error.line.rpartition(":")[2])
print((x + 1).tolist())
"""


def run(faults: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CALOR_DEVICE": "brittle", "CALOR_BRITTLE": faults, **variables}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("faults", "kind"), [("out_of_memory:exp", "OutOfMemoryError"), ("compile:exp", "CompileError")]
)
def test_the_variable_chooses_faults_and_debug_the_line(faults: str, kind: str) -> None:
    done = run(faults, CALOR_DEBUG="1")
    assert done.stdout.splitlines() == [f"{kind} exp 4", "[1.0, 2.0]"], done.stderr
    assert run(faults).stdout.splitlines() == [f"{kind} exp None", "[1.0, 2.0]"]


def test_a_process_whose_device_is_lost_ends_with_that_error() -> None:
    done = run("lost:exp")
    assert done.stdout.splitlines() == ["DeviceLostError exp None"]
    assert "calor.errors.DeviceLostError: brittle:0 stopped answering" in done.stderr


def test_a_misspelt_fault_is_an_error_that_says_what_there_is() -> None:
    done = run("oom:exp")
    assert "CALOR_BRITTLE has 'oom:exp'; what can be asked for: out_of_memory:OP, " in done.stderr
