"""The default dtype: where nothing else decides, and in no other place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DTypeError

COUNTS = np.arange(3)
DECIDED: list[Callable[[], Any]] = [
    lambda: calor.asarray(0.5),
    lambda: calor.asarray([]),
    lambda: calor.zeros(2),
    lambda: calor.ones(2),
    lambda: calor.full((2,), 0.5),
    lambda: calor.eye(2),
    lambda: calor.linspace(0, 1, 3),
    lambda: calor.arange(0.0, 1.0, 0.5),
    lambda: calor.random.normal((2,), key=calor.random.key(0)),
    lambda: calor.sqrt(calor.asarray(COUNTS)),
    lambda: calor.mean(calor.asarray(COUNTS)),
    lambda: calor.asarray(COUNTS) / 2,
    lambda: calor.asarray(COUNTS) * 0.5,
    lambda: 0.5 - calor.asarray(COUNTS),
    lambda: calor.where(calor.asarray(COUNTS) > 1, calor.asarray(COUNTS), 0.5),
    lambda: calor.astype(calor.asarray(COUNTS), float),
    lambda: calor.jit(lambda x: calor.exp(x) * 1.5)(calor.asarray(COUNTS)),
    lambda: calor.fft.fftfreq(4),
    lambda: (calor.asarray(COUNTS) * 1j).real,
    lambda: calor.asarray([1j]).real,
]


@pytest.mark.parametrize("make", DECIDED)
def test_it_decides_what_nothing_else_does(make: Callable[[], Any]) -> None:
    # There and back, as what was recorded before is remembered.
    for name in ("float32", "float64", "float32"):
        with calor.default_dtype(name):
            assert make().dtype.name == name


def test_it_changes_no_floating_tensor() -> None:
    x, half = calor.ones(2), calor.ones(2, dtype="float16")
    with calor.default_dtype("float64"):
        for made in (x + 0.5, x / 2, x * calor.asarray(COUNTS)[:2], calor.sqrt(x), x.sum()):
            assert made.dtype is calor.float32
        assert (half * 0.5).dtype is calor.float16
        assert (x * 1j).dtype is calor.complex64
        assert "dtype=float32" in repr(x)
        assert "dtype" not in repr(calor.ones(2))
        assert calor.__array_namespace_info__().default_dtypes()["real floating"] is calor.float64


def test_a_jitted_function_is_traced_again_where_it_changed() -> None:
    function = calor.jit(lambda x: x * 0.5)
    x = calor.asarray(COUNTS)
    bound = function.bind(x)
    for name in ("float32", "float64", "float32"):
        with calor.default_dtype(name):
            assert function(x).dtype.name == bound().dtype.name == name


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    calor.set_default_dtype("float32")


def test_the_setter_holds_in_later_threads(restored: None) -> None:
    calor.set_default_dtype(calor.float64)
    found: list[Any] = []
    with calor.default_dtype("float32"):
        thread = threading.Thread(target=lambda: found.append(calor.ones(2).dtype))
        thread.start()
        thread.join()
    assert found == [calor.float64]
    assert calor.ones(2).dtype is calor.float64


@pytest.mark.parametrize("dtype", ["int32", "complex64", "float8_e5m2"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(DTypeError, match=f"one of float32, float64, .* not {dtype}"):
        calor.default_dtype(dtype)
