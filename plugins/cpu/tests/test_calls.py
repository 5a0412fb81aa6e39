"""Bound calls that are compiled: what they give, what they leave to Python, and what they hold."""

from __future__ import annotations

import gc
import signal
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.config import config
from calor.errors import ElementIndexError, OutOfMemoryError
from calor.transforms.bound import Bound, Compiled
from calor.transforms.state import epoch
from calor_cpu.calls import build
from calor_cpu.calls.offsets import LayoutError, slot
from calor_kernel.device.buffers import KernelBuffer, ShadowedBuffer
from calor_kernel.runtime.profile import profile

OFTEN = 40

pytestmark = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="a Python with the global lock"
)


@pytest.fixture(autouse=True)
def on_cpu() -> Iterator[None]:
    with calor.device("cpu"):
        yield


def tensor(*values: float) -> Any:
    made = calor.asarray(np.array(values, np.float32))
    calor.eval(made)
    return made


def compiled(function: Callable[..., Any], *bound: Any, rest: tuple[Any, ...] = ()) -> Any:
    call = calor.jit(function).bind(*bound)
    for _ in range(OFTEN):
        call(*rest)
    assert type(call) is Compiled
    return call


def add(a: Any, b: Any) -> Any:
    return a + b


@pytest.mark.parametrize("count", [0, 1, 2], ids=lambda n: f"{n} bound")
@pytest.mark.parametrize("function", [add, lambda a, b: (a * b).exp() - a, lambda a, b: b - a])
def test_values(function: Callable[..., Any], count: int) -> None:
    a, b = np.random.default_rng(0).random((2, 1000), np.float32)
    tensors = [calor.asarray(a), calor.asarray(b)]
    calor.eval(*tensors)
    call = compiled(function, *tensors[:count], rest=tuple(tensors[count:]))
    wanted = function(*tensors).numpy()
    for _ in range(3):
        made = call(*tensors[count:])
        assert np.array_equal(made.numpy(), wanted)
        assert (made.device, made.shape, made.requires_grad) == ("cpu", (1000,), False)
    for held in (made, made._value, made._value.buffer):
        for kind in type(held).__mro__:
            for name in vars(kind).get("__slots__", ()):
                assert hasattr(held, name), f"{type(held).__name__} has no {name}"
    again = [call(*tensors[count:]) for _ in range(100)]
    assert all(np.array_equal(x.numpy(), wanted) for x in again)


def test_one_result_is_not_written_by_the_next_call() -> None:
    a, b = tensor(1, 2), tensor(3, 4)
    call = compiled(add, a, rest=(b,))
    first = call(b)
    view = first.numpy()
    second = call(tensor(10, 20))
    del first
    third = call(tensor(100, 200))
    assert view.tolist() == [4.0, 6.0]
    assert [second.tolist(), third.tolist()] == [[11.0, 22.0], [101.0, 202.0]]


def test_what_does_not_fit_takes_the_way_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    w = tensor(2, 3)
    call = compiled(lambda w, x: w * x, w, rest=(tensor(1, 1),))
    assert call(tensor(2)).tolist() == [4.0, 6.0]
    assert call(np.array([1.0, 2.0], np.float32)).tolist() == [2.0, 6.0]
    assert call(2.0).tolist() == [4.0, 6.0]
    assert call(x=tensor(1, 2)).tolist() == [2.0, 6.0]
    pending: Any = tensor(1, 1) * 3
    assert call(pending).tolist() == [6.0, 9.0]
    with calor.no_grad():
        assert call(tensor(1, 1)).tolist() == [2.0, 3.0]
    y: Any = tensor(1, 2)
    y.requires_grad = True
    call(y).sum().backward()
    assert y.grad.tolist() == [2.0, 3.0]
    assert calor.jit(lambda x: call(x) + 1.0)(tensor(1, 1)).tolist() == [3.0, 4.0]
    w += 1.0
    calor.eval(w)
    assert call(tensor(1, 1)).tolist() == [3.0, 4.0]
    with monkeypatch.context() as patched:
        patched.setattr(config, "jit", False)
        assert call(tensor(1, 1)).tolist() == [3.0, 4.0]
    for wrong in ((), (w, w), (object(),), (None,)):
        with pytest.raises(TypeError):
            call(*wrong)
    assert type(call) is Compiled


def test_it_is_taken_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    call = compiled(add, tensor(1, 2), rest=(tensor(1, 1),))
    monkeypatch.setattr(call, "routes", None)
    monkeypatch.setattr(call, "quick", None)
    epoch.count += 1
    assert call(tensor(2, 2)).tolist() == [3.0, 4.0]
    with pytest.raises(TypeError):
        call(2.0)


def test_a_profile_sees_its_launches() -> None:
    a = tensor(1, 2)
    call = compiled(add, a, rest=(a,))
    with profile("cpu") as taken:
        for _ in range(3):
            assert call(a).tolist() == [2.0, 4.0]
    assert len(taken.events) == 3


@pytest.mark.parametrize("shift", [0, 4], ids=["aligned", "not aligned"])
def test_adopted_memory(shift: int) -> None:
    whole = np.zeros(4096, np.uint8)
    start = -whole.__array_interface__["data"][0] % 64 + shift
    array = whole[start : start + 400].view(np.float32)
    given = calor.asarray(array, copy=False)
    assert (type(given._value.buffer) is ShadowedBuffer) is bool(shift)
    b = calor.asarray(np.arange(100, dtype=np.float32))
    call = compiled(add, rest=(b, b))
    for value in (1.0, 2.0):
        array[:] = value
        assert call(given, b).numpy()[:3].tolist() == [value, value + 1, value + 2]


def test_references_and_bytes_stay_the_same() -> None:
    a, b = tensor(*range(1000)), tensor(*range(1000))
    call = compiled(add, a, rest=(b,))
    call(b + 0.0)
    program = call.jitted.programs[0]
    held = [a, b, a._value, b._value, a._value.buffer, b._value.buffer, program.device]
    held += [
        program.output_specs[0],
        program.executable.pool,
        KernelBuffer,
        type(a),
        type(a._value),
    ]
    held += [program.executable.base.fresh[0][1], call.native.__self__, add]
    gc.collect()
    figures = calor.memory("cpu")
    before = [sys.getrefcount(x) for x in held]
    for _ in range(10_000):
        call(b)
    assert [sys.getrefcount(x) for x in held] == before
    for _ in range(1000):
        with pytest.raises(TypeError):
            call(object())
        call(b + 0.0)
    gc.collect()
    after = [sys.getrefcount(x) for x in held]
    assert all(abs(n - m) < 100 for n, m in zip(after, before, strict=True))
    assert calor.memory("cpu").in_use == figures.in_use
    kept = [call(b) for _ in range(10)]
    assert calor.memory("cpu").in_use == figures.in_use + 10 * 4000
    del kept
    assert calor.memory("cpu").in_use == figures.in_use


def test_results_and_calls_go_when_nobody_holds_them() -> None:
    a = tensor(1, 2)
    call = compiled(add, a, rest=(a,))
    seen = weakref.ref(call(a))
    assert seen() is None
    gone = weakref.ref(call)
    gc.disable()
    try:
        del call
        assert gone() is None
    finally:
        gc.enable()


def test_a_limit_of_memory_is_an_error_as_ever() -> None:
    a = tensor(*range(1000))
    call = compiled(add, a, rest=(a,))
    kept = [call(a)]
    calor.set_memory_limit(calor.memory("cpu").in_use + 5000, "cpu")
    try:
        kept.append(call(a))
        with pytest.raises(OutOfMemoryError):
            call(a)
    finally:
        calor.set_memory_limit(None, "cpu")
    assert call(a).tolist()[:2] == [0.0, 2.0]


def test_threads() -> None:
    a, b = np.random.default_rng(1).random((2, 50_000), np.float32)
    x, y = calor.asarray(a), calor.asarray(b)
    calor.eval(x, y)
    call = compiled(add, x, rest=(y,))
    wrong: list[int] = []

    def work(number: int) -> None:
        with calor.device("cpu"):
            for _ in range(200):
                if number % 2:
                    with calor.no_grad():
                        made = call(y)
                else:
                    made = call(y)
                if not np.array_equal(made.numpy(), a + b):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "function",
    [lambda x: x.softmax(-1), calor.sort, lambda x: (x - x.mean(-1, keepdims=True)).square().sum()],
    ids=["softmax", "sort", "variance"],
)
def test_plans_with_memory_of_their_own(function: Callable[..., Any]) -> None:
    x = calor.asarray(np.random.default_rng(2).random((6, 100), np.float32))
    wanted = function(x).numpy()
    call = compiled(function, rest=(x,))
    gc.collect()
    before = calor.memory("cpu").in_use
    for _ in range(10):
        assert np.array_equal(call(x).numpy(), wanted)
    assert calor.memory("cpu").in_use == before


def test_an_error_of_an_operation_is_raised_each_time() -> None:
    inside, outside = (calor.asarray(np.array(i, np.int32)) for i in ([1, 2], [1, 10]))
    call = compiled(lambda w, i: calor.take(w, i, axis=0), tensor(*range(10)), rest=(inside,))
    gc.collect()
    before = calor.memory("cpu").in_use
    for _ in range(3):
        with pytest.raises(ElementIndexError, match="out of range"):
            call(outside)
        assert call(inside).tolist() == [1.0, 2.0]
    gc.collect()
    assert calor.memory("cpu").in_use == before


def test_finalizers_that_call_it_while_it_makes_objects() -> None:
    a = tensor(*range(100))
    call = compiled(add, a, rest=(a,))
    seen: list[list[float]] = []

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            seen.append(call(a).tolist())

    usual = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        made = []
        for _ in range(100):
            Cycle()
            made.append(call(a).tolist())
    finally:
        gc.set_threshold(*usual)
    assert made + seen == [[2.0 * i for i in range(100)]] * (100 + len(seen))
    assert seen


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_a_signal_ends_a_long_call() -> None:
    x = calor.asarray(np.random.default_rng(3).random((500, 500), np.float32))

    def sorted_often(x: Any) -> Any:
        for axis in (0, 1, 0, 1):
            x = calor.sort(x, axis=axis)
        return x

    call = compiled(sorted_often, rest=(x,))

    def call_on() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            call(x)

    wanted = call(x).numpy().copy()
    before = calor.memory("cpu").in_use

    class Stop(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    usual = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(5):
            with pytest.raises(Stop):
                call_on()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
    assert calor.memory("cpu").in_use == before
    assert np.array_equal(call(x).numpy(), wanted)


class _Property:
    __slots__ = ("_there",)

    @property
    def there(self) -> int:
        return 1


@pytest.mark.parametrize(("kind", "name"), [(_Property, "there"), (_Property, "none"), (int, "x")])
def test_what_is_no_slot_has_no_offset(kind: type, name: str) -> None:
    with pytest.raises(LayoutError):
        slot(kind, name)


def test_slots_are_told_apart() -> None:
    kind = type("Kind", (), {"__slots__": ("a", "b", "c")})
    assert len({slot(kind, name) for name in "abc"}) == 3
    below = type("Below", (kind,), {"__slots__": ("d",)})
    assert slot(below, "a") == slot(kind, "a")


def test_other_interpreters_stay_with_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise LayoutError("no lock")

    monkeypatch.setattr(build, "check_interpreter", refuse)
    a = tensor(1, 2)
    call = calor.jit(add).bind(a)
    for _ in range(OFTEN):
        assert call(a).tolist() == [2.0, 4.0]
    assert type(call) is Bound
