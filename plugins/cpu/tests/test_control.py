"""Cubes, loops, branches, and what kernels say to people."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from calor.dtypes import DType, float32, int8, int32, int64, uint32
from calor.errors import CompileError
from calor_cpu.loader import LoadedImage
from calor_cpu.testing import run
from calor_cpu.toolchain import LlvmToolchain
from calor_kernel.errors import KernelCheckError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    absolute_position,
    barrier,
    cube_count,
    cube_position,
    kernel,
    lane_position,
    loop_range,
    plane_reduce,
    plane_shuffle,
    registers,
    unit_position,
)

from .needs import TARGETS

N = Scalar(int64)


@kernel
def places(x, *, axes):
    number = cube_position(0)
    if axes > 1:
        number += cube_position(1) * 100
    if axes > 2:
        number += cube_position(2) * 10000
    at = x.atomic("add", 0, 1) + 1
    x[at] = number


@pytest.mark.parametrize("begin", [0, 5, 23])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_range_of_cubes_runs_x_fastest(axes: int, begin: int) -> None:
    counts = (4, 3, 2)
    x = np.zeros(25, np.int64)
    tools = LlvmToolchain()
    image = LoadedImage(
        tools.compile(tools.source(places.build([Buffer(int64)], axes=axes)), "places"), "places"
    )
    block = ctypes.create_string_buffer(struct.pack("<4q", x.ctypes.data, *counts))
    image.call(block, begin, 24)
    wanted = [
        (n % 4) + (n // 4 % 3) * 100 * (axes > 1) + n // 12 * 10000 * (axes > 2)
        for n in range(begin, 24)
    ]
    assert x[0] == 24 - begin
    assert x[1 : 25 - begin].tolist() == wanted
    image.call(block, 5, 5)
    assert x[0] == 24 - begin


@kernel
def alone(x):
    i = absolute_position(0)
    barrier()
    value = plane_shuffle(plane_reduce("add", x[i]), 0)
    x[i] = value + (unit_position(0) + lane_position() + cube_count(0)).to(float32)


def test_one_unit_is_its_cube() -> None:
    x = np.arange(3, dtype=np.float32)
    run(alone.build([Buffer(float32)]), 3, [x])
    assert x.tolist() == [3, 4, 5]


@kernel
def sums(y, start, stop, step, *, unroll):
    total = start * 0
    last = start - start - 1
    for i in loop_range(start, stop, step, unroll=unroll):
        total += i * 2
        last = i
    y[0] = total
    y[1] = last


@pytest.mark.parametrize("unroll", [1, 4])
@pytest.mark.parametrize(
    "bounds", [(0, 0, 1), (0, 1, 1), (0, 7, 1), (2, 13, 3), (5, 3, 1), (0, 8, 1), (3, 3, 5)]
)
@pytest.mark.parametrize("dtype", [int8, int32, int64, uint32], ids=str)
def test_loops_run_as_ranges_do(dtype: DType, bounds: tuple[int, int, int], unroll: int) -> None:
    y = np.zeros(2, dtype.numpy)
    numbers = [Scalar(dtype), Scalar(dtype), Scalar(dtype, nonnegative=True)]
    run(sums.build([Buffer(dtype), *numbers], unroll=unroll), 1, [y, *bounds])
    found = list(range(*bounds))
    assert y[0] == sum(found) * 2
    assert y[1] == (np.array([found[-1] if found else -1]).astype(dtype.numpy)[0])


@kernel
def known_sums(y, *, stop, step, unroll):
    total = y[0]
    for i in loop_range(0, stop, step, unroll=unroll):
        total = total * 3 + i
    y[0] = total


@pytest.mark.parametrize(("stop", "step"), [(8, 1), (9, 1), (-6, -1), (12, 3)])
def test_unrolled_loops_with_known_bounds(stop: int, step: int) -> None:
    y = np.ones(1, np.int64)
    run(known_sums.build([Buffer(int64)], stop=stop, step=step, unroll=4), 1, [y])
    wanted = 1
    for i in range(0, stop, step):
        wanted = wanted * 3 + i
    assert y[0] == wanted


@kernel
def collatz(x, y):
    i = cube_position(0)
    n = x[i]
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    y[i] = steps


@pytest.mark.parametrize("target", TARGETS)
def test_branches_in_while_loops(target: str) -> None:
    x, y = np.arange(1, 10), np.zeros(9, np.int64)
    run(collatz.build([Buffer(int64)] * 2), 9, [x, y], target=target)
    assert y.tolist() == [0, 1, 7, 2, 5, 8, 16, 3, 19]


@kernel
def nested(x, y, n):
    held = registers(2, float32, 4)
    for i in range(n):
        for j in range(i):
            value = x.load(j * 4, 4)
            if j > 1:
                held[0] += value
            else:
                held[1] = held[0] - value
    y.store(0, held[0])
    y.store(4, held[1])


def test_register_arrays_through_nested_loops() -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(8, np.float32)
    run(nested.build([Buffer(float32), Buffer(float32), N]), 1, [x, y, 7])
    a = b = np.zeros(4, np.float32)
    for i in range(7):
        for j in range(i):
            if j > 1:
                a = a + x[j * 4 : j * 4 + 4]
            else:
                b = a - x[j * 4 : j * 4 + 4]
    np.testing.assert_array_equal(y, np.concatenate([a, b]))


@kernel
def checked(x):
    i = cube_position(0)
    assert x[i] > 0.0, "positive"
    x[i] = x[i] * 2.0


def test_a_failed_assertion_names_its_line_and_ends_the_call() -> None:
    built = checked.build([Buffer(float32)], features=frozenset(("debug",)))
    x = np.array([1, -1, 1], np.float32)
    with pytest.raises(KernelCheckError, match=r"test_control.py:\d+: kernel 'checked': positive"):
        run(built, 3, [x])
    assert x.tolist() == [2, -1, 1]
    run(built, 1, [x])


@kernel
def says(x):
    i = cube_position(0)
    print("100% of", i, x[i], x.load(0, 2), x[i] > 1.0)


def test_kernels_print(capfd: pytest.CaptureFixture[str]) -> None:
    built = says.build([Buffer(float32)], features=frozenset(("debug",)))
    run(built, 2, [np.array([1.5, -2], np.float32)])
    assert capfd.readouterr().out == "100% of 0 1.5 [1.5 -2] 1\n100% of 1 -2 [1.5 -2] 0\n"


def test_cubes_of_many_units_are_refused() -> None:
    with pytest.raises(CompileError, match=r"32 units in a cube.*choose a blueprint"):
        LlvmToolchain().source(alone.build([Buffer(float32)], cube=(32, 1, 1), plane=8))
