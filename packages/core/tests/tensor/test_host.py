"""Numbers, lists and host arrays out of tensors."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ShapeError, TraceError

DTYPES = [t.name for t in calor.dtypes.ALL]


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_out_as_numbers(name: str) -> None:
    x = calor.asarray([[0, 1], [1, 0]], dtype=name)
    kind = {"bool": bool, "int": int, "uint": int, "complex": complex}.get(x.dtype.kind, float)
    assert x.tolist() == [[0, 1], [1, 0]]
    assert type(x[0, 1].item()) is kind
    assert x.numpy().dtype == x.dtype.numpy
    assert np.asarray(x).dtype == x.dtype.numpy
    assert bool(x[0, 1]) is True
    assert bool(x[0, 0]) is False


NUMBERS: list[tuple[Callable[[Any], Any], Any, Any]] = [
    (int, 2.7, 2),
    (int, True, 1),
    (float, 3, 3.0),
    (float, False, 0.0),
    (complex, 2, 2 + 0j),
    (complex, 1 + 2j, 1 + 2j),
    (bool, float("nan"), True),
    (bool, 1j, True),
    (bool, 0.0, False),
    (operator.index, 5, 5),
    (int, [[4]], 4),
]


@pytest.mark.parametrize(("convert", "value", "expected"), NUMBERS)
def test_conversion(convert: Any, value: Any, expected: Any) -> None:
    result = convert(calor.asarray(value))
    assert result == expected
    assert type(result) is type(expected)


REFUSED: list[tuple[Callable[[Any], Any], Any, type[Exception], str]] = [
    (int, 1j, TypeError, "complex"),
    (float, 1j, TypeError, "complex"),
    (int, float("nan"), ValueError, "NaN"),
    (int, float("inf"), OverflowError, "infinity"),
    (operator.index, 1.0, TypeError, "only a 0-d tensor of integers is an index"),
    (operator.index, True, TypeError, "only a 0-d tensor of integers is an index"),
    (operator.index, [1], TypeError, r"only a 0-d tensor of integers .* int64\[1\]"),
    (bool, [1, 2], ShapeError, r"one element, this one has shape \(2,\); x.any\(\) and x.all"),
    (bool, [], ShapeError, "needs a tensor of one element"),
    (float, [1, 2], ShapeError, r"float\(\) needs a tensor of one element, .* x.tolist\(\)"),
    (lambda x: x.item(), [1, 2], ShapeError, r"item\(\) needs a tensor of one element"),
]


@pytest.mark.parametrize(("convert", "value", "error", "message"), REFUSED)
def test_refused_conversion(convert: Any, value: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        convert(calor.asarray(value))


def test_numpy_is_read_only_and_a_copy_is_not() -> None:
    x = calor.asarray([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5
    own = x.numpy(copy=True)
    own[0] = 5
    assert x.tolist() == [1.0, 2.0]


def test_a_view_outlives_the_tensor_and_its_changes() -> None:
    x = calor.asarray([1.0, 2.0])
    view = x.numpy()
    x += 1
    assert x.tolist() == [2.0, 3.0]
    del x
    np.testing.assert_array_equal(view, [1.0, 2.0])


def test_array_protocol() -> None:
    x = calor.asarray([1.5, 2.5])
    shared = np.asarray(x)
    assert np.shares_memory(shared, x.numpy())
    assert not shared.flags.writeable
    copied = np.array(x)
    assert copied.flags.writeable
    assert not np.shares_memory(copied, x.numpy())
    assert np.asarray(x, dtype=np.int8).tolist() == [1, 2]
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    # From Python 3.12 on, NumPy asks the buffer protocol, and says it in its own words.
    with pytest.raises(ValueError, match=r"float64 cannot share the memory|Unable to avoid copy"):
        np.asarray(x, dtype=np.float64, copy=False)


def test_a_number_as_python_index() -> None:
    assert [10, 20, 30][calor.asarray(1)] == 20
    assert list(range(calor.asarray(3))) == [0, 1, 2]


@pytest.mark.parametrize(
    "look",
    [
        bool,
        int,
        float,
        complex,
        operator.index,
        np.asarray,
        lambda x: x.item(),
        lambda x: x.tolist(),
    ],
)
def test_looks_at_traced_values_raise(look: Any) -> None:
    with pytest.raises(TraceError, match="test_host.py:.*asks for the value of a traced tensor"):
        calor.jit(look_at(look))(calor.asarray(1))


def look_at(look: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        look(x)
        return x

    return function


def test_c_code_reads_the_memory_of_a_tensor() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = calor.asarray(array)
    assert x.tobytes() == array.tobytes()
    address = x.ctypes.data
    assert address == x.numpy().ctypes.data
    assert x.dtype.byteorder == array.dtype.byteorder
    assert calor.int8.byteorder == "|"


def test_the_buffer_protocol_reads_and_does_not_write() -> None:
    x = calor.asarray([1.0, 2.0])
    lent = x.__buffer__(0)
    assert lent.readonly
    assert np.frombuffer(lent, np.float32).tolist() == [1.0, 2.0]
    with pytest.raises(BufferError, match=r"write to array = x\.numpy\(copy=True\)"):
        x.__buffer__(1)


@pytest.mark.parametrize(
    "take",
    [
        np.array,
        lambda x: np.asarray(x, copy=True),
        lambda x: np.from_dlpack(x, copy=True),
        lambda x: x.numpy(copy=True),
    ],
)
def test_a_copy_for_code_that_writes_is_writable(take: Any) -> None:
    x = calor.asarray([1.0, 2.0])
    array = take(x)
    array[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
