"""The strict device: every rule is broken once on purpose, and sound backends pass."""

from __future__ import annotations

import copy
import ctypes
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.numpy_backend import NumpyBackend
from calor.errors import OutOfMemoryError, ProtocolError
from calor_conformance.strict.backend import StrictBackend
from calor_conformance.strict.rules import RULES

from .broken import ARRAY, BREACHES, VECTOR, Breach, Use, call, call_into, graph_of, upload


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that other tests left behind belong to other devices, and allocate nothing here."""
    monkeypatch.setattr(StrictBackend, "single_threaded", lambda self: True)


@pytest.mark.parametrize("breach", BREACHES, ids=lambda b: f"{b.rule}-{b.message[:20]}")
def test_a_broken_rule_is_named(breach: Breach) -> None:
    backend = StrictBackend(breach.backend())
    with pytest.raises(ProtocolError, match=breach.message) as caught:
        breach.use(backend)
    assert caught.value.rule == breach.rule
    assert RULES[breach.rule] in str(caught.value)
    assert str(caught.value).startswith("strict:numpy breaks rule ")


def test_every_rule_has_a_breach() -> None:
    assert {b.rule for b in BREACHES} == set(RULES)


@pytest.fixture
def backend() -> StrictBackend:
    return StrictBackend(NumpyBackend())


SOUND: dict[str, Use] = {
    "upload": upload,
    "call": call(2),
    "both": call(2, 3),
    "one output twice": call(3, 3),
    "an input returned": call(0),
    "an input returned twice": call(0, 0, 1),
    "in place": call_into,
    "empty": lambda b: b.download(
        0, b.upload(0, np.zeros((0, 2))), calor.specs.spec((0, 2), calor.float64)
    ),
}


@pytest.mark.parametrize("case", SOUND)
def test_the_reference_passes(case: str, backend: StrictBackend) -> None:
    SOUND[case](backend)


LATE_OPS = """
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import FULL, NOT_YET, Info
from calor_conformance.strict.backend import StrictBackend

class Device(NumpyBackend):
    def info(self, index):
        return Info("a device", ops={"attention": FULL, "solve": NOT_YET})

StrictBackend(Device()).info(0)
"""


def test_info_may_name_ops_that_are_not_loaded_yet() -> None:
    done = subprocess.run([sys.executable, "-c", LATE_OPS], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_an_input_may_be_written_in_place(backend: StrictBackend) -> None:
    state, other = upload(backend), upload(backend)
    executable = backend.compile(0, graph_of(2))
    for count in (2, 3, 4):
        (made,) = executable([state, other], [state])
        assert made is state
        assert backend.download(0, state, VECTOR).tolist() == (ARRAY * count).tolist()


def test_memory_that_others_may_write_is_not_held_still(backend: StrictBackend) -> None:
    array = ARRAY.copy()
    held = backend.adopt(0, array)
    array[0] = 9
    assert backend.download(0, held, VECTOR).tolist() == [9, 2, 3]
    exported = upload(backend)
    elsewhere = np.from_dlpack(_Capsule(backend, exported))
    ctypes.c_float.from_address(elsewhere.ctypes.data).value = 9
    assert backend.download(0, exported, VECTOR).tolist() == [9, 2, 3]


class _Capsule:
    """A buffer as a DLPack exporter of the protocol's first version, whose memory is writable."""

    def __init__(self, backend: StrictBackend, buffer: Any) -> None:
        self.backend, self.buffer = backend, buffer

    def __dlpack__(self, **options: Any) -> Any:
        return self.backend.dlpack(0, self.buffer, VECTOR)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.backend.dlpack_device(0)


def test_executables_are_stored(backend: StrictBackend) -> None:
    data = backend.serialize(0, backend.compile(0, graph_of(3)))
    executable = backend.deserialize(0, data)
    (made,) = executable([upload(backend), upload(backend)])
    assert backend.download(0, made, VECTOR).tolist() == [-2, -4, -6]


def test_out_of_memory_leaves_all_intact(backend: StrictBackend) -> None:
    state, other = upload(backend), upload(backend)
    executable = backend.compile(0, graph_of(2))
    backend.set_memory_limit(0, backend.memory(0).in_use + 11)
    with pytest.raises(OutOfMemoryError, match=r"needs 12 B.*in op 'add'"):
        executable([state, other], [state])
    backend.set_memory_limit(0, None)
    assert backend.download(0, state, VECTOR).tolist() == ARRAY.tolist()


def test_the_device_by_name() -> None:
    strict = calor.device("strict:numpy")
    assert strict is calor.device("strict:numpy:0")
    assert (strict.name, strict) == ("strict:numpy:0", pickle.loads(pickle.dumps(strict)))
    assert strict.info.description.endswith(", checked")
    over_null: Any = calor.device("strict:null").backend
    assert over_null.inner.name == "null"
    with pytest.raises(calor.errors.DeviceError, match='no device "nothing"'):
        calor.device("strict:nothing")


def test_a_breach_reaches_the_user_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery must not compute outputs one by one, where two of them alias each other."""
    x = calor.asarray(ARRAY, device="strict:numpy")
    backend: Any = x.device.backend
    inner = backend.inner
    monkeypatch.setattr(inner, "own", lambda index, values, inputs: values)
    y = x + 1
    z = y.reshape(3, 1)
    with pytest.raises(ProtocolError, match="share memory"):
        y.numpy()
    with pytest.raises(ProtocolError, match="share memory"):
        z.numpy()


def test_the_error_is_pickled_and_copied() -> None:
    error = ProtocolError("text", rule="fresh")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(other), other.rule) == ("text", "fresh")


def test_training_under_strict_checks() -> None:
    """State in place, aliases, views held outside, and numbers as inputs: nothing objects."""

    @calor.jit
    def step(weights: Any, x: Any, rate: float) -> Any:
        def loss(w: Any) -> Any:
            return ((x @ w).tanh() ** 2).sum()

        value, gradient = calor.value_and_grad(loss)(weights)
        return value, weights - rate * gradient

    with calor.device("strict:numpy"):
        weights = calor.ones((4, 2))
        x = calor.asarray(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
        losses = []
        for i in range(5):
            value, weights = step(weights, x, 0.1 / (i + 1))
            held = weights.numpy()
            losses.append(value.item())
        assert losses == sorted(losses, reverse=True)
        assert held.shape == (4, 2)
