"""Barriers of storage: only those between accesses that hand values over."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int32
from calor_kernel.language import (
    Buffer,
    barrier,
    kernel,
    loop_range,
    shared,
    unit_position,
)
from calor_wgpu.wgsl import WGSL, print_wgsl
from device_runs import run

UNITS = 64
ORDERED = "workgroupBarrier();\n{0}storageBarrier();"


@kernel
def turned(x: Any) -> None:
    """Turn the elements in shared memory, and then in storage."""
    held, i = shared(UNITS, x.dtype), unit_position()
    held[i] = x[i]
    barrier()
    value = held[UNITS - 1 - i]
    barrier()
    x[i] = value + 1.0
    barrier()
    held[i] = x[UNITS - 1 - i]
    barrier()
    value = held[i ^ 1]
    barrier()
    held[i] = value
    barrier()
    x[i] = held[i]
    barrier()


@kernel
def rotated(x: Any) -> None:
    """Rotate the elements in storage some times, and sum neighbours in shared memory."""
    held, i = shared(UNITS, x.dtype), unit_position()
    for _ in loop_range(0, 3):
        held[i] = x[(i + 1) % UNITS]
        barrier()
        value = held[i] + held[i ^ 1]
        barrier()
        x[i] = value
        barrier()


def text_of(function: Any) -> str:
    built = function.build([Buffer(float32)], cube=(UNITS, 1, 1))
    return print_wgsl(built, WGSL())


def test_barriers_between_stages_in_shared_memory_order_no_storage() -> None:
    text = text_of(turned)
    assert text.count("workgroupBarrier();") == 7
    # Behind the first reads, behind the writes, and behind the reads of these.
    assert text.count(ORDERED.format("  ")) == text.count("storageBarrier();") == 3


def test_barriers_of_loops_order_the_next_round() -> None:
    text = text_of(rotated)
    assert text.count("workgroupBarrier();") == 3
    assert text.count(ORDERED.format("    ")) == text.count("storageBarrier();") == 2


def test_one_unit_needs_no_barrier() -> None:
    built = turned.build([Buffer(float32)], cube=(1, 1, 1))
    assert "Barrier" not in print_wgsl(built, WGSL())


@pytest.mark.parametrize("function", [turned, rotated])
def test_values(function: Any, device: Any) -> None:
    x = np.arange(UNITS, dtype=np.float32)
    expected = x.copy()
    if function is turned:
        expected = (expected[::-1] + 1)[::-1]
        expected = expected[np.arange(UNITS) ^ 1]
    else:
        for _ in range(3):
            held = np.roll(expected, -1)
            expected = held + held[np.arange(UNITS) ^ 1]
    run(device, function.build([Buffer(float32)], cube=(UNITS, 1, 1)), (1, 1, 1), [x])
    np.testing.assert_array_equal(x, expected)


def test_atomics_hand_values_over(device: Any) -> None:
    @kernel
    def counted(x: Any, y: Any) -> None:
        held, i = shared(UNITS, y.dtype), unit_position()
        x.atomic("add", 0, 1)
        barrier()
        held[i] = x[0]
        barrier()
        y[i] = held[UNITS - 1 - i]

    built = counted.build([Buffer(int32), Buffer(int32)], cube=(UNITS, 1, 1))
    assert print_wgsl(built, WGSL()).count("storageBarrier();") == 1
    x, y = np.zeros(1, np.int32), np.zeros(UNITS, np.int32)
    run(device, built, (1, 1, 1), [x, y])
    assert set(y.tolist()) == {UNITS}
