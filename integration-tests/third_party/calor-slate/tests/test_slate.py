"""The slate as a user meets it; what its ops compute is for calor-conformance to say."""

import gc
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ElementIndexError, UnsupportedError
from calor.specs import spec


@pytest.fixture(autouse=True)
def slate() -> Any:
    with calor.device("slate") as device:
        yield device


def test_its_memory_is_bytes_that_core_never_looks_into(slate: Any) -> None:
    buffer = slate.backend.upload(0, np.array([1, 256], np.int32))
    assert buffer.data == bytearray(b"\x01\0\0\0\0\x01\0\0")
    known = spec((2,), calor.int32)
    copied = slate.backend.copy(0, buffer, known, 0)
    buffer.data[0] = 7
    assert slate.backend.download(0, buffer, known).tolist() == [7, 256]
    assert slate.backend.download(0, copied, known).tolist() == [1, 256]


def test_memory_is_given_back(slate: Any) -> None:
    gc.collect()
    before = calor.memory().in_use
    x = calor.ones((100, 100)) + 1
    assert calor.memory().in_use == before + 40_000
    del x
    assert calor.memory().in_use == before


def test_a_line_is_fitted() -> None:
    x = calor.asarray(np.linspace(-1, 1, 50, dtype=np.float32))
    y = x * 3 - 0.5
    step = calor.jit(calor.value_and_grad(lambda w: calor.sum((x * w[0] + w[1] - y) ** 2)))
    w = calor.asarray([0.0, 0.0])
    for _ in range(100):
        _, gradient = step(w)
        w = w - gradient * 0.01
    np.testing.assert_allclose(w.numpy(), [3, -0.5], atol=1e-3)


def test_what_the_table_lacks_is_refused_and_the_rest_is_computed() -> None:
    x = calor.asarray([3.0, 1.0, 2.0])
    lost, kept = calor.sort(x), x + 1
    with pytest.raises(UnsupportedError, match="sort: not in the device's op table"):
        lost.numpy()
    assert kept.tolist() == [4, 2, 3]


def test_an_error_of_numpy_is_a_typed_one_that_names_the_op() -> None:
    with pytest.raises(ElementIndexError, match="out of bounds.*in op 'gather'"):
        calor.take(calor.ones(3), calor.asarray([5]), axis=0).numpy()
