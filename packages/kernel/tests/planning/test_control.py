"""Control flow inside of graphs, run by the backend on its own plans."""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import OutOfMemoryError
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .parts_device import device_with_parts


@pytest.fixture(scope="module")
def device():
    return device_of(KernelBackend("flows", lambda index: LanesDevice(ONE_UNIT, checks=False)), 0)


def both(device, function, *arrays):
    """Return what a jitted function gives on the device and on the reference."""
    found = []
    for place in (device, calor.device("numpy").device):
        with calor.device(place):
            made = calor.jit(function)(*[calor.asarray(a) for a in arrays])
            leaves = made if isinstance(made, tuple) else (made,)
            found.append([t.numpy().tolist() for t in leaves])
    return found


def _halve(x):
    return calor.while_loop(lambda c: c[0] > 1, lambda c: (c[0] * 0.5, c[1] + 1), (x, x * 0))


def _branches(x):
    return calor.cond(x > 2, lambda: (x + 1, x), lambda: (x * 3, x - 1))


def _sums(x):
    return calor.scan(lambda total, row: (total + row, total * row), x[0] * 0, x)


def _nested(x):
    def body(i, total):
        return calor.cond(total > 3, lambda: total - i, lambda: total + 2)

    return calor.fori_loop(0, 4, body, x)


@pytest.mark.parametrize(
    ("function", "array"),
    [
        (_branches, 1.0),
        (_branches, 3.0),
        (_halve, 40.0),
        (_halve, 0.5),
        (_sums, np.arange(12.0).reshape(4, 3)),
        (lambda x: _sums(x)[1] * 2, np.arange(12.0).reshape(4, 3)),
        (_nested, 2.0),
        (lambda x: calor.cond(x[0] > 0, lambda: calor.relu(x), lambda: -x), np.ones(3)),
    ],
)
def test_flows(device, function, array):
    found, want = both(device, function, np.asarray(array, np.float32))
    assert found == want


def test_gradient_of_a_scan_keeps_the_carry(device):
    def loss(x):
        return calor.scan(lambda c, r: (c * r, c + r), calor.ones(()), x)[0]

    found, want = both(device, calor.grad(loss), np.arange(1.0, 7.0, dtype=np.float32))
    assert found == want


@pytest.mark.parametrize("columns", [16, 3], ids=["in place", "copied"])
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_are_read_and_written_where_they_lie(columns, reverse):
    def sums(x):
        return calor.scan(lambda c, r: (c + r, c * r), x[0] * 0, x, reverse=reverse)

    place = device_with_parts("parts")
    found, want = both(place, sums, np.arange(5.0 * columns).reshape(5, columns))
    assert found == want


def test_a_number_of_the_host_decides(device):
    with calor.device(device):
        f = calor.jit(lambda x, flag: calor.cond(flag, lambda: x + 1, lambda: x - 1))
        x = calor.asarray([1.0])
        assert [f(x, True).item(), f(x, False).item()] == [2.0, 0.0]


def test_memory_is_reserved_before_it_runs(device):
    with calor.device(device):
        x = calor.asarray(np.ones(4096, np.float32))
        f = calor.jit(lambda x: calor.while_loop(lambda c: c[0] < 5, lambda c: c + 1, x) + x)
        assert f(x).numpy()[0] == 6.0
        backend = device.backend
        backend.set_memory_limit(0, backend.memory(0).in_use + 20000)
        with pytest.raises(OutOfMemoryError):
            f(x)
        backend.set_memory_limit(0, None)
        assert f(x).numpy()[0] == 6.0
