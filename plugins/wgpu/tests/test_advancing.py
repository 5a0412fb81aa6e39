"""Loads ahead of stores and branches: their places, and values of lanes and the device."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, float32, float64, int32, int64
from calor_interpreter.launch import run_on_lanes
from calor_kernel.ir.nodes import Block, Kernel
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    barrier,
    kernel,
    shared,
    unit_position,
)
from calor_wgpu.passes import advance_loads
from calor_wgpu.wgsl import WGSL, print_wgsl
from device_runs import run

COUNT = Scalar(int64, nonnegative=True)
UNITS = 64


@kernel
def branched(x: Any, y: Any, n: Any) -> None:
    """Copy three parts, each up to an element."""
    for part in range(3):
        i = absolute_position() + part * UNITS
        if i < n:
            y[i] = x[i]


@kernel
def stored(x: Any, y: Any, n: Any) -> None:
    """Double three parts, whole."""
    i = absolute_position()
    for part in range(3):
        y[i + part * UNITS] = x[i + part * UNITS] * 2


@kernel
def chained(x: Any, y: Any, n: Any) -> None:
    """Read what was written before."""
    i = absolute_position()
    y[i] = x[i]
    if i < n:
        y[i + UNITS] = y[i]
    y[i + 2 * UNITS] = x[i + UNITS]


@kernel
def divided(x: Any, y: Any, n: Any) -> None:
    """Read at a quotient, which is dear to compute for units that read nothing."""
    i = absolute_position()
    y[i + UNITS] = x[i]
    if i < n:
        y[i] = x[n // (i + 1)]


@kernel
def awaited(x: Any, y: Any, n: Any) -> None:
    """Read on both sides of a barrier."""
    held = shared(UNITS, x.dtype)
    i = unit_position()
    if i < n:
        held[i] = x[i]
    barrier()
    if i < n:
        y[i] = held[n - 1 - i]
        y[i + UNITS] = x[i + UNITS]


def built(function: Any, dtype: DType = float32) -> Kernel:
    return function.build([Buffer(dtype), Buffer(dtype), COUNT], cube=(UNITS, 1, 1))


def places(block: Block) -> list[str]:
    """Return the memory operations of a block in order: loads of x, stores and branches."""
    found = []
    for one in block.operations:
        if one.name == "load" and one.memory is not None and one.memory.name == "x":
            found.append("load")
        elif one.name in ("store", "if", "barrier"):
            found.append(one.name)
    return found


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (branched, "load load load if if if"),
        (stored, "load load load store store store"),
        (chained, "load load store if store"),
        (divided, "load store if"),
        (awaited, "load if barrier load if"),
    ],
)
def test_loads_move_ahead_of_stores(function: Any, expected: str) -> None:
    assert places(advance_loads(built(function)).body) == expected.split()


def test_loads_of_many_bytes_stay() -> None:
    @kernel
    def long(x: Any, y: Any, n: Any) -> None:
        i = absolute_position()
        for part in range(100):
            y[i + part * UNITS] = x[i + part * UNITS]

    found = places(advance_loads(built(long)).body)
    assert 20 < found.index("store") < 50
    assert len(found) == 200


@pytest.mark.parametrize("dtype", [float32, bfloat16, float64, int32], ids=str)
@pytest.mark.parametrize("function", [branched, stored, chained, divided, awaited])
def test_values(function: Any, dtype: DType, device: Any) -> None:
    original, n = built(function, dtype), 50
    x = np.arange(1, 3 * UNITS + 1).astype(dtype.numpy)
    results = []
    for one in (original, advance_loads(original)):
        y = np.full(3 * UNITS, 7).astype(dtype.numpy)
        run_on_lanes(one, (1, 1, 1), [x, y, n])
        results.append(y)
    if dtype in device.info.dtypes:
        y = np.full(3 * UNITS, 7).astype(dtype.numpy)
        run(device, original, (1, 1, 1), [x, y, n])
        results.append(y)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_memory_written_in_place_is_read_before(device: Any) -> None:
    original, n = built(branched), 150
    expected = np.arange(3 * UNITS, dtype=np.float32)
    x = expected.copy()
    run_on_lanes(advance_loads(original), (1, 1, 1), [x, x, n])
    np.testing.assert_array_equal(x, expected)


def test_text_reads_before_it_writes() -> None:
    for dialect, reads in ((WGSL(zeros=True), 3), (WGSL(), 1)):
        text = print_wgsl(built(branched), dialect).partition("y_offset =")[2]
        assert text.partition(" y[")[0].count(" x[") == reads
