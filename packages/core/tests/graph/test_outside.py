"""Computing beside a trace: sizes, tables, what is known before a graph runs."""

import pytest

import calor
from calor.errors import TraceError
from calor.recording.tracing import outside


def test_numbers_are_computed_while_a_function_is_traced():
    def repeated(x):
        with outside(), calor.device("strict:numpy"):
            count = int((calor.arange(4).sum() - 3).item())
        return calor.concat([x] * count)

    jitted = calor.jit(repeated)
    assert jitted(calor.asarray([1.0])).tolist() == [1.0, 1.0, 1.0]
    assert jitted(calor.asarray([2.0])).tolist() == [2.0, 2.0, 2.0]
    assert jitted.trace_count == 1


def test_a_tensor_that_was_made_there_is_captured():
    made = []

    def scaled(x):
        if not made:
            with outside():
                made.append(calor.asarray([2.0]) * 2)
        return x * made[0]

    jitted = calor.jit(scaled)
    x = calor.asarray([1.0])
    assert jitted(x).tolist() == [4.0]
    made[0] += 1
    assert jitted(x).tolist() == [5.0]


def test_a_traced_tensor_has_no_numbers_there():
    def looked(x):
        with outside():
            return calor.asarray(x.numpy())

    with pytest.raises(TraceError, match="asks for the value of a traced tensor"):
        calor.jit(looked)(calor.ones(2))


def test_an_error_leaves_the_trace_as_it_was():
    def failing(x):
        try:
            with outside():
                calor.ones(2) + calor.ones(3)
        except ValueError:
            return x + 1
        return x

    assert calor.jit(failing)(calor.ones(1)).tolist() == [2.0]
