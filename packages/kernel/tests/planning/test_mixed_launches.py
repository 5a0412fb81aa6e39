"""Short work of unlike kernels in one launch: which is joined, and whether it has the same bits."""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor_interpreter.device import MANY_UNITS
from calor_kernel.planning import common_launches

from ..library.test_many_cubes import FAMILIES
from .test_side_by_side import both, device_with, floats

# Launches are dear on such a device.
DEAR = replace(MANY_UNITS, launch_ns=1700, arguments=256)
SQUARE = floats(16, 16), floats(16, 16, seed=1)


def moved(x, y):
    """Elements, a transposition and other elements, none of which waits."""
    return calor.exp(x), y.T, abs(y[:5])


# A function, its operands, and the launches left of so many.
JOINED = {
    "unlike work": (moved, SQUARE, 3, 1),
    "after each other": (lambda x, y: (calor.exp(x).sum(axis=1), y.T), SQUARE, 3, 2),
    "a chain": (lambda x, y: calor.exp(x).sum(axis=1).max(axis=0), SQUARE, 3, 3),
    "nothing": (lambda x, y: (calor.exp(x), y[:0].T), SQUARE, 1, 1),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined(monkeypatch, name):
    function, arrays, launches, left = JOINED[name]
    before, after = both(monkeypatch, device_with(DEAR), function, *arrays)
    assert (sum(before.values()), sum(after.values())) == (launches, left), (before, after)


@pytest.mark.parametrize(
    "name", ["reduce rows", "reduce columns", "softmax", "pool", "concat", "copying"]
)
def test_families_beside_elements(monkeypatch, name):
    """Each family's work, with as many units and barriers as it has, beside work on elements."""
    function, given = FAMILIES[name]
    given = [array[: max(2, len(array) // 4)] if array.shape[0] > 1 else array for array in given]

    def two(other, *arrays):
        return calor.exp(other), function(*arrays)

    both(monkeypatch, device_with(DEAR), two, floats(7, 9), *given)


@pytest.mark.parametrize(
    "info",
    [MANY_UNITS, replace(DEAR, features=DEAR.features - {"pointers"}), replace(DEAR, arguments=8)],
)
def test_left_alone(monkeypatch, info):
    """Where launches are cheap, buffers cannot be chosen, or arguments are few."""
    before, after = both(monkeypatch, device_with(info), moved, *SQUARE)
    assert before == after


def test_long_work_is_left_alone(monkeypatch):
    monkeypatch.setattr(common_launches, "_SHORT_BYTES", 100)
    before, after = both(monkeypatch, device_with(DEAR), moved, *SQUARE)
    assert before == after


def test_state_is_written_in_place(monkeypatch):
    """What one launch overwrites, another in the same launch does not read."""
    state, x = floats(64), floats(64, seed=1)
    for beside in ("0", "1"):
        monkeypatch.setenv("CALOR_BESIDE", beside)
        device = device_with(DEAR)
        with calor.device(device):
            held = calor.asarray(state)
            given = calor.asarray(x)

            @calor.jit
            def step(given):
                nonlocal held
                read = calor.sin(held) * 2
                held += given
                return read, given.sum(axis=0)

            for _ in range(3):
                read, total = step(given)
            found = [np.array(t.numpy()) for t in (read, total, held)]
        if beside == "0":
            expected = found
    assert [a.tobytes() for a in expected] == [b.tobytes() for b in found]
