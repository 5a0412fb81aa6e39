"""Jitted programs that are called with host arrays."""

import numpy as np

import calor
from calor.transforms.hosted import host_call

ONES = np.ones(3, np.float32)


def test_results_are_as_by_tensors() -> None:
    double = calor.jit(lambda x, y: [x + y, x * y, x + y])
    double(calor.asarray(ONES), calor.asarray(ONES))
    call = host_call(double)
    assert call is not None
    made = call([2 * ONES, 3 * ONES])
    assert made is not None
    assert [a.tolist() for a in made] == [[5.0] * 3, [6.0] * 3, [5.0] * 3]
    made[0][:] = 0.0
    assert made[2].tolist() == [5.0] * 3


def test_arrays_of_other_kinds_do_not_fit() -> None:
    double = calor.jit(lambda x: [x + x])
    double(calor.asarray(ONES))
    call = host_call(double)
    assert call is not None
    assert call.fits([ONES])
    for other in (np.ones(2, np.float32), np.ones(3), np.ones(6, np.float32)[::2]):
        assert not call.fits([other])
    assert not call.fits([])


def test_captured_tensors_are_read_at_each_call() -> None:
    w = calor.asarray(ONES)
    add = calor.jit(lambda x: [x + w])
    add(calor.asarray(ONES))
    call = host_call(add)
    assert call is not None
    w *= 5.0
    made = call([ONES])
    assert made is not None
    assert made[0].tolist() == [6.0] * 3


def test_it_gives_up_where_a_trace_would_be_another() -> None:
    double = calor.jit(lambda x: [x + x])
    double(calor.asarray(ONES))
    call = host_call(double)
    assert call is not None
    with calor.no_grad():
        assert call([ONES]) is None
    assert call([ONES]) is not None


def test_what_changes_something_or_takes_more_has_no_such_way() -> None:
    state = calor.asarray(ONES)

    def count(x: calor.Tensor) -> list[calor.Tensor]:
        global_state[0] += x
        return [x]

    global_state = [state]
    counting = calor.jit(count)
    counting(calor.asarray(ONES))
    assert host_call(counting) is None
    scale = calor.jit(lambda x, n: [x * n])
    scale(calor.asarray(ONES), 2.0)
    assert host_call(scale) is None
    assert host_call(calor.jit(lambda x: [x])) is None
