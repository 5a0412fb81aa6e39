"""Loops, branches and calls on lanes do for every unit what plain Python does."""

import numpy as np
import pytest

from calor.dtypes import int64
from calor_interpreter.arithmetic import ARITHMETIC
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.program import MAKERS
from calor_interpreter.vectors import VECTORS
from calor_kernel import language as kl
from calor_kernel.ir.ops import OPS
from calor_kernel.language import Buffer, Scalar, absolute_position, helper, kernel

NUMBERS = Buffer(int64)


def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def triangle(n):
    total = 0
    for i in range(n):
        for j in range(i, n, 3):
            total += i * j
    return total


def countdown(n):
    total = 0
    for i in range(n, 0, -2):
        total = total * 3 + i
    return total


def classes(n):
    if n < 3:
        kind = 10
    elif n % 3 == 0:
        if n > 20:
            kind = 33
        else:
            kind = 30
    else:
        kind = n * 2
    return kind


def two_loops(n):
    a, b = 0, 1
    for i in range(n):
        a, b = b, (a + b) % 1000
        while b > 500:
            b -= n + i
    return a * 1000 + b


@pytest.mark.parametrize("units", [1, 3, 8])
@pytest.mark.parametrize("batch", [1, 2, None])
@pytest.mark.parametrize("function", [collatz, triangle, countdown, classes, two_loops])
def test_every_unit_does_what_python_does(function, batch, units):
    device = helper(function)

    @kernel
    def body(x, y):
        i = absolute_position()
        y[i] = device(x[i])

    x = np.random.default_rng(0).integers(1, 40, 24)
    y = np.zeros_like(x)
    built = body.build([NUMBERS, NUMBERS], cube=(units, 1, 1))
    run_on_lanes(built, (len(x) // units, 1, 1), [x, y], batch=batch)
    assert y.tolist() == [function(int(n)) for n in x]


@kernel
def in_a_branch(x, y, n):
    """Loads, stores and loops under a condition touch what their own units reach alone."""
    i = absolute_position()
    if i < n:
        total = 0
        for j in range(n):
            total += x[(i + j) % n]
        held = kl.private(2, int64)
        held[0] = total
        if total % 2 == 0:
            held[1] = total // 2
        else:
            held[1] = -total
        y[i] = held[total % 2 * 0 + 1]


def test_what_stands_in_a_branch_is_done_by_its_units_alone():
    x, y = np.arange(5), np.full(8, 99)
    built = in_a_branch.build([NUMBERS, NUMBERS, Scalar(int64)], cube=(4, 1, 1))
    run_on_lanes(built, (2, 1, 1), [x, y, 5])
    assert y.tolist() == [5, 5, 5, 5, 5, 99, 99, 99]
    assert x.tolist() == [0, 1, 2, 3, 4]


@kernel
def uniform_loop(y, n):
    i = absolute_position()
    total = i
    for j in kl.loop_range(2, n, 3):
        total = kl.select(j > i, total + j, total * 2)
    y[i] = total


def test_a_loop_with_bounds_of_the_launch():
    y = np.zeros(6, np.int64)
    run_on_lanes(uniform_loop.build([NUMBERS, Scalar(int64)]), (6, 1, 1), [y, 9])

    def plain(i):
        total = i
        for j in range(2, 9, 3):
            total = total + j if j > i else total * 2
        return total

    assert y.tolist() == [plain(i) for i in range(6)]


@kernel
def positions(y):
    place = kl.unit_index() + 12 * (
        kl.cube_position(0) + kl.cube_count(0) * (kl.cube_position(1) + 2 * kl.cube_position(2))
    )
    y.store(
        place * 4,
        kl.pack(
            [kl.unit_position(0), kl.unit_position(1), kl.lane_position(), kl.plane_position()]
        ),
    )


@pytest.mark.parametrize("batch", [1, 5, None])
def test_positions(batch):
    y = np.full(12 * 12 * 4, -1)
    built = positions.build([NUMBERS], cube=(3, 2, 2), plane=4)
    run_on_lanes(built, (3, 2, 2), [y], batch=batch)
    units = [(u % 3, u // 3 % 2, u % 4, u // 4) for u in range(12)]
    assert y.reshape(12, 12, 4).tolist() == [[list(u) for u in units]] * 12


def test_every_operation_has_a_meaning():
    known = {*ARITHMETIC, *VECTORS, *MAKERS, "constant", "role"}
    assert set(OPS) <= known
