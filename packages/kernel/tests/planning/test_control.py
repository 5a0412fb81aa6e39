"""Control flow inside of graphs, run by the backend on its own plans."""

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import OutOfMemoryError
from calor.ops.movement import dynamic_update_slice
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .parts_device import device_with_parts


@pytest.fixture(scope="module")
def device():
    return device_of(KernelBackend("flows", lambda index: LanesDevice(ONE_UNIT, checks=False)), 0)


def both(device, function, *arrays):
    """Return what a jitted function gives on the device and on the reference."""
    found = []
    for place in (device, calor.device("numpy")):
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


def _filled(cache, loop):
    """Write a row of a large cache at each step, of a value that is read from a table by index."""
    table = calor.asarray(np.arange(8, dtype=np.float32))

    def step(i, cache):
        row = calor.take(table, i, axis=0) + cache[0, 0]
        starts = calor.stack([i, i * 0])
        return dynamic_update_slice(cache, calor.broadcast_to(row, (1, cache.shape[1])), starts)

    if loop == "scan":
        return calor.fori_loop(1, 5, step, cache)
    start = (calor.asarray(1), cache)
    return calor.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, step(*s)), start)[1]


def _updating(launches):
    """Return the number of launches of the update of a part."""
    return sum(launched.op == "dynamic_update_slice" for launched in launches)


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_steps_write_parts_of_a_large_carry_in_place(loop):
    place, ran = device_with_parts("in place"), []
    cache = np.full((8, 4096), 3, np.float32)
    with calor.device(place):
        given, jitted = calor.asarray(cache), calor.jit(lambda x: _filled(x, loop))
        jitted(given)
        engine = place.backend.engine(0)
        play = engine.play
        # A list of several steps has the launches of each.
        engine.play = lambda *a: ran.extend([a[1]] * (*a, 1)[3]) or play(*a)
        made = jitted(given)
        # The first step copies the cache, which is the caller's; it may take the fast path.
        assert [n for n in map(_updating, ran) if n][-3:] == [1, 1, 1]
        cache[1:5] = 3 + np.arange(1.0, 5.0)[:, None]
        np.testing.assert_array_equal(made.numpy(), cache)
        np.testing.assert_array_equal(given.numpy(), np.full((8, 4096), 3, np.float32))
