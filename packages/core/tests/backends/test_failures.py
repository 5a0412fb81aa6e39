"""What a failing op does: which error, on which values, naming which op and line."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.config import config
from calor.errors import (
    CalorError,
    CompileError,
    DeviceError,
    ElementIndexError,
    IndexingError,
    LinearAlgebraError,
    OutOfMemoryError,
)
from calor.ops import rules
from calor.ops.base import TABLE, Op, op

# What the reference of the op raises when an element is this number.
RAISED: dict[float, tuple[type[Exception], str]] = {
    1: (ValueError, "a wrong value"),
    2: (IndexError, "index 7 is out of range"),
    3: (np.linalg.LinAlgError, "Singular matrix"),
    4: (MemoryError, "Unable to allocate 8 GiB"),
    5: (CompileError, "the kernel does not compile"),
    6: (CalorError, "an error of calor's own"),
}


def _reference(x: Any) -> Any:
    number = float(x.flat[0])
    if number in RAISED:
        kind, message = RAISED[number]
        raise kind(message)
    return x.copy()


@pytest.fixture(scope="module")
def picky() -> Iterator[Op]:
    """An op that fails in the way that the first element says."""
    yield op("tests.picky", rules.anything, _reference, lambda g, y, x: [g], decompose=lambda x: x)
    del TABLE["tests.picky"]


@pytest.fixture(params=["numpy", "strict:numpy"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    with calor.device(request.param):
        yield


# The number, the classes of the error that the user sees, and its message.
SEEN = {
    1: ((DeviceError,), r"^numpy failed: ValueError: a wrong value; in op 'tests\.picky'$"),
    2: ((DeviceError, IndexError, IndexingError), r"^index 7 is out of range; in op 'tests\.p"),
    3: ((DeviceError, np.linalg.LinAlgError), r"^Singular matrix; in op 'tests\.picky'$"),
    4: ((OutOfMemoryError, MemoryError), r"^numpy ran out of memory: Unable to .*'tests\.picky'$"),
    5: ((CompileError,), r"^the kernel does not compile; in op 'tests\.picky'$"),
    6: ((CalorError,), r"^an error of calor's own$"),
}


@pytest.mark.parametrize("number", SEEN)
def test_an_error_is_typed_and_names_the_op(number: int, picky: Op) -> None:
    classes, message = SEEN[number]
    y = picky(calor.full((2,), float(number)))
    for cls in classes:
        with pytest.raises(cls, match=message) as caught:
            y.numpy()
    if number in (1, 2, 3, 4):
        assert type(caught.value.__cause__) is RAISED[number][0]


def test_classes_of_errors() -> None:
    assert issubclass(ElementIndexError, IndexError)
    assert issubclass(LinearAlgebraError, np.linalg.LinAlgError)
    assert issubclass(OutOfMemoryError, MemoryError)


def test_what_does_not_depend_on_the_failure_is_computed(picky: Op) -> None:
    x = calor.asarray([1.0, 2.0])
    before = x * 2
    failed = picky(before - 1)
    after = failed + 1
    beside = before + 3
    with pytest.raises(DeviceError, match="a wrong value"):
        after.numpy()
    with pytest.raises(DeviceError, match="a wrong value"):
        failed.numpy()
    assert before.tolist() == [2, 4]
    assert beside.tolist() == [5, 7]
    # Other tensors can be made of what was computed, and not of what failed.
    assert (x + before).tolist() == [3, 6]
    with pytest.raises(DeviceError, match="a wrong value"):
        (failed * 2).numpy()


def test_a_value_dropped_before_the_failure_is_no_failure(picky: Op) -> None:
    kept = calor.asarray([1.0]) * 1
    picky(kept)
    assert kept.item() == 1


def test_a_jitted_function_names_the_op(picky: Op) -> None:
    f = calor.jit(lambda x: picky(x) + 1)
    assert f(calor.zeros(2)).tolist() == [1, 1]
    with pytest.raises(DeviceError, match=r"a wrong value; in op 'tests\.picky'"):
        f(calor.ones(2))
    assert f(calor.zeros(2)).tolist() == [1, 1]


@pytest.fixture
def debug(monkeypatch: pytest.MonkeyPatch) -> None:
    calor.eval()
    calor.synchronize()
    monkeypatch.setattr(config, "debug", True)
    from calor.local import local

    for trace in local.traces.values():
        trace.reset()


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_debug_names_the_line_of_the_op(picky: Op, debug: None) -> None:
    x = calor.ones(2)
    first = picky(x - 1)
    second, line = picky(first + x), here()
    last = picky(second * 0) + 1
    with pytest.raises(DeviceError, match=rf"recorded at .*test_failures\.py:{line}$"):
        last.numpy()
    assert first.tolist() == [0, 0]
    with pytest.raises(DeviceError, match=rf"recorded at .*test_failures\.py:{line}$"):
        second.numpy()


def test_debug_names_the_line_behind_broadcasts(debug: None) -> None:
    x = calor.asarray([[1.0, 2.0]])
    places = calor.asarray([0, 5])
    picked, line = calor.take(x, places, axis=1), here()
    y = picked + calor.ones((3, 1))
    with pytest.raises(IndexError, match=rf"index 5 .* recorded at .*test_failures\.py:{line}$"):
        y.numpy()


def test_debug_names_the_line_of_the_largest(debug: None) -> None:
    small = calor.ones(4)
    large, line = calor.exp(calor.ones((64, 1024))), here()
    total = large.sum() + small
    try:
        calor.set_memory_limit(calor.device("numpy").memory.in_use + 1024, "numpy")
        with pytest.raises(OutOfMemoryError, match=rf"'exp'; recorded at .*failures\.py:{line}$"):
            total.numpy()
    finally:
        calor.set_memory_limit(None, "numpy")


def test_errors_are_pickled() -> None:
    error = DeviceError("text", op="add", line="a.py:3")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "text; in op 'add'; recorded at a.py:3"
    assert (again.op, again.line) == ("add", "a.py:3")
