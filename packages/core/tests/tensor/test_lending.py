"""Host arrays of tensors that share: what is written to them reaches the tensor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.methods import lending

WRITABLE = 1
DTYPES = [t.name for t in calor.dtypes.ALL]


@pytest.fixture(autouse=True)
def shared() -> Iterator[None]:
    with calor.shared_views():
        yield
    assert not lending._lent


@pytest.mark.parametrize("name", DTYPES)
def test_what_is_written_reaches_the_tensor(name: str) -> None:
    x = calor.zeros((2, 3), dtype=name)
    array = np.asarray(x)
    assert array.flags.writeable
    assert array.shape == x.shape
    array[1] = 1
    del array
    assert x.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_it_is_written_when_the_last_view_is_gone() -> None:
    x = calor.zeros((2, 3))
    array = np.asarray(x)
    row = array[1]
    row[0] = 5.0
    del array
    assert np.asarray(x)[1, 0] == 5.0, "the same memory while a view of it lives"
    del row
    assert x.tolist() == [[0, 0, 0], [5, 0, 0]]


def test_a_slice_without_a_name_writes_to_its_tensor() -> None:
    x = calor.zeros((2, 3))
    first = x[0]
    np.asarray(x[:, 1])[:] = 7.0
    assert x.tolist() == [[0, 7, 0], [0, 7, 0]]
    assert first.tolist() == [0, 7, 0]


def test_elements_that_were_not_written_keep_what_the_tensor_got_since() -> None:
    x = calor.zeros(3)
    array = np.asarray(x)
    x[0] = 1.0
    array[2] = float("nan")
    del array
    np.testing.assert_array_equal(x.numpy(), [1.0, 0.0, np.nan])


def test_values_that_were_taken_before_do_not_change() -> None:
    x = calor.zeros(3)
    other, later = x.copy(), x + 1
    np.asarray(x)[:] = 9.0
    assert (x.tolist(), other.tolist(), later.tolist()) == ([9.0] * 3, [0.0] * 3, [1.0] * 3)


@pytest.mark.parametrize(
    "take",
    [
        lambda x: np.asarray(x, copy=True),
        lambda x: np.asarray(x, dtype="float64"),
        lambda x: x.numpy(copy=True),
    ],
)
def test_copies_are_not_written_back(take: Any) -> None:
    x = calor.zeros(3)
    take(x)[:] = 9.0
    assert x.tolist() == [0.0] * 3


def test_a_leaf_is_read_only() -> None:
    assert not np.asarray(calor.zeros(3, requires_grad=True)).flags.writeable


def test_outside_of_the_context_arrays_are_read_only() -> None:
    with calor.strict_views():
        assert not np.asarray(calor.zeros(3)).flags.writeable


def test_threads_write_to_parts_of_one_tensor() -> None:
    x = calor.zeros((8, 50))
    rows = [x[i] for i in range(8)]

    def fill(row: calor.Tensor, number: float) -> None:
        with calor.shared_views():
            np.asarray(row)[:] = number
            row += 1.0

    threads = [threading.Thread(target=fill, args=(row, i)) for i, row in enumerate(rows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x[:, 7].tolist() == [float(i + 1) for i in range(8)]


def test_consumers_of_the_buffer_protocol_write_too() -> None:
    # As NumPy on Python 3.12 on, which asks __buffer__ first, and Cython's typed views.
    x = calor.zeros((3, 2))
    view = x.__buffer__(WRITABLE)
    np.asarray(view)[1] = 7.0
    del view
    assert x.tolist() == [[0, 0], [7, 7], [0, 0]]


def test_elements_that_were_not_written_keep_what_the_owner_of_the_memory_wrote() -> None:
    owner = np.zeros(3, np.float32)
    x = calor.asarray(owner, device="numpy", copy=False)
    array = np.asarray(x)
    owner[0] = 1.0
    array[2] = 2.0
    del array
    assert x.tolist() == [1.0, 0.0, 2.0]
