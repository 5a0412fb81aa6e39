"""Loads ahead of stores and branches: their places, and the same values on lanes."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.nodes import Block, Kernel
from calor_kernel.ir.passes import clone, load_early
from calor_kernel.language import Buffer, Scalar, absolute_position, barrier, kernel

UNITS = 32


@kernel
def stored(x: Any, y: Any, n: Any) -> None:
    """Double three parts, whole."""
    i = absolute_position()
    for part in range(3):
        y[i + part * UNITS] = x[i + part * UNITS] * 2


@kernel
def branched(x: Any, y: Any, n: Any) -> None:
    """Double three parts, and store each if it is wanted."""
    i = absolute_position()
    for part in range(3):
        value = x[i + part * UNITS] * 2
        if i + part * UNITS < n:
            y[i + part * UNITS] = value


@kernel
def chained(x: Any, y: Any, n: Any) -> None:
    """Read what was written before, and at a place that was."""
    i = absolute_position()
    y[i] = x[i] * 3
    y[i + UNITS] = y[i]
    y[i + 2 * UNITS] = x[i + UNITS]


@kernel
def awaited(x: Any, y: Any, n: Any) -> None:
    """Read on both sides of a barrier."""
    i = absolute_position()
    y[i] = x[i]
    barrier()
    y[i + UNITS] = x[i + UNITS]


def built(function: Any) -> Kernel:
    count = Scalar(int64, nonnegative=True)
    made: Kernel = function.build([Buffer(float32), Buffer(float32), count], cube=(UNITS, 1, 1))
    return made


def places(block: Block) -> list[str]:
    """Return loads of x, loads of y, stores, branches and barriers in order."""
    found = []
    for one in block.operations:
        if one.name == "load" and one.memory is not None:
            found.append(one.memory.name)
        elif one.name in ("store", "if", "barrier"):
            found.append(one.name)
    return found


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (stored, "x x x store store store"),
        (branched, "x x x if if if"),
        (chained, "x x store y store store"),
        (awaited, "x store barrier x store"),
    ],
)
def test_loads_move_ahead_of_stores(function: Any, expected: str) -> None:
    original = built(function)
    made = clone(original)
    load_early(made)
    assert places(made.body) == expected.split()
    results = []
    for one in (original, made):
        y = np.full(3 * UNITS, 7, np.float32)
        run_on_lanes(one, (1, 1, 1), [np.arange(3 * UNITS, dtype=np.float32), y, 50])
        results.append(y)
    np.testing.assert_array_equal(results[1], results[0])


def test_loads_of_many_bytes_stay() -> None:
    """What is read long before its use takes registers."""

    @kernel
    def long(x: Any, y: Any, n: Any) -> None:
        i = absolute_position()
        for part in range(100):
            y[i + part * UNITS] = x[i + part * UNITS]

    made = built(long)
    load_early(made)
    assert 20 < places(made.body).index("store") < 50
