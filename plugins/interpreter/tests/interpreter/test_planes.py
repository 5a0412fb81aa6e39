"""Units of a plane together, for planes of any size: shuffles, reductions, scans and votes."""

import math
from itertools import accumulate

import numpy as np
import pytest

from calor.dtypes import as_dtype, float32, int64, uint64
from calor_interpreter.launch import run_on_lanes
from calor_kernel import language as kl
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.language import Buffer, kernel

PLANES = [1, 2, 8, 32]


def run(function, x, result, plane, units=64, width=1):
    @kernel
    def body(x, y):
        i = kl.absolute_position() * width
        y.store(i, function(x.load(i, width)))

    y = np.zeros(len(x), result)
    signature = [Buffer(as_dtype(x.dtype)), Buffer(as_dtype(y.dtype))]
    built = body.build(signature, cube=(units, 1, 1), plane=plane)
    run_on_lanes(built, (len(x) // units // width, 1, 1), [x, y])
    return y


PLAIN = {"add": sum, "mul": math.prod, "min": min, "max": max}


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_reductions_give_all_lanes_the_result(kind, plane):
    x = np.random.default_rng(0).integers(-50, 50, 128)
    bits = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    rows = x.reshape(-1, plane)
    plain = PLAIN.get(kind) or (lambda row: bits[kind].reduce(row))
    expected = np.repeat([plain(row.tolist()) for row in rows], plane)
    made = run(lambda v: kl.plane_reduce(kind, v), x, np.int64, plane)
    assert made.tolist() == expected.tolist()


SCANS = {
    "add": (lambda a, b: a + b, 0),
    "mul": (lambda a, b: a * b, 1),
    "min": (min, np.iinfo(np.int64).max),
    "max": (max, np.iinfo(np.int64).min),
    "and": (lambda a, b: a & b, -1),
    "xor": (lambda a, b: a ^ b, 0),
}


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", SCANS)
def test_scans(kind, exclusive, plane):
    function, neutral = SCANS[kind]
    x = np.random.default_rng(1).integers(-3, 4, 128)
    expected = []
    for row in x.reshape(-1, plane).tolist():
        inclusive = list(accumulate(row, function))
        expected += [neutral, *inclusive[:-1]] if exclusive else inclusive
    made = run(lambda v: kl.plane_scan(kind, v, exclusive=exclusive), x, np.int64, plane)
    assert made.tolist() == expected


@pytest.mark.parametrize(("kind", "first"), [("min", math.inf), ("max", -math.inf), ("add", 0.0)])
def test_scans_of_floats_start_from_what_changes_nothing(kind, first):
    x = np.arange(8, dtype=np.float32)
    made = run(lambda v: kl.plane_scan(kind, v, exclusive=True), x, np.float32, plane=4, units=8)
    assert made[[0, 4]].tolist() == [first] * 2


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("width", [1, 4])
def test_shuffles(plane, width):
    x = np.arange(128 * width, dtype=np.float32)
    rows = x.reshape(-1, plane, width)
    lanes = np.arange(plane)

    def shuffled(kind, by):
        return run(
            lambda v: kl.plane_shuffle(v, by, kind), x, np.float32, plane, width=width
        ).reshape(-1, plane, width)

    by = plane // 2
    assert np.array_equal(shuffled("index", by), np.repeat(rows[:, by : by + 1], plane, 1))
    assert np.array_equal(shuffled("xor", by), rows[:, lanes ^ by])
    # Lanes without a partner keep their own value.
    down = np.where(lanes + by < plane, lanes + by, lanes)
    up = np.where(lanes - by >= 0, lanes - by, lanes)
    assert np.array_equal(shuffled("down", by), rows[:, down])
    assert np.array_equal(shuffled("up", by), rows[:, up])


@pytest.mark.parametrize("plane", PLANES)
def test_ballots_have_a_bit_per_lane(plane):
    x = np.random.default_rng(2).integers(0, 2, 128)
    weights = 1 << np.arange(plane, dtype=np.uint64)
    expected = np.repeat((x.reshape(-1, plane) * weights).sum(1), plane).tolist()
    made = run(lambda v: kl.plane_ballot(v == 1), x, np.uint64, plane)
    assert made.tolist() == expected
    assert made.dtype == uint64.numpy


@kernel
def butterfly(x, y):
    """A sum over a plane by hand, and a value by lane that no lane has alone."""
    total = x[kl.absolute_position()]
    step = kl.plane_size() // 2
    while step > 0:
        total = total + kl.plane_shuffle(total, step, "xor")
        step //= 2
    if kl.lane_position() == 0:
        y[kl.cube_position() * 2 + kl.plane_position()] = total


def test_a_sum_by_hand():
    x, y = np.arange(48, dtype=np.float32), np.zeros(6, np.float32)
    built = butterfly.build([Buffer(float32)] * 2, cube=(16, 1, 1), plane=8)
    run_on_lanes(built, (3, 1, 1), [x, y])
    assert y.tolist() == x.reshape(6, 8).sum(1).tolist()


@kernel
def some_lanes(y, n):
    i = kl.absolute_position()
    total = i
    if i < n:
        total = kl.plane_reduce("add", i)
    y[i] = total


def test_a_plane_does_it_together_or_not_at_all():
    built = some_lanes.build([Buffer(int64), kl.Scalar(int64)], cube=(8, 1, 1), plane=4)
    y = np.zeros(16, np.int64)
    run_on_lanes(built, (2, 1, 1), [y, 12])
    assert y.tolist() == [6] * 4 + [22] * 4 + [38] * 4 + [12, 13, 14, 15]
    with pytest.raises(KernelCheckError, match="2 of 4 units reach it"):
        run_on_lanes(built, (2, 1, 1), [y, 10])


def test_a_lane_that_is_none():
    with pytest.raises(KernelCheckError, match="a plane has no lane 4") as caught:
        run(lambda v: kl.plane_shuffle(v, v, "index"), np.arange(8), np.int64, 4, units=8)
    assert (caught.value.rule, caught.value.unit) == ("plane", (4, 0, 0))


def test_a_cube_has_whole_planes():
    with pytest.raises(KernelTypeError, match="no whole number of planes of 4"):
        run(lambda v: kl.plane_reduce("add", v), np.arange(6), np.int64, 4, units=6)


@kernel
def handed_over(y, *, scope):
    held = kl.shared(16, int64)
    i = kl.unit_index()
    held[i] = i
    kl.barrier(scope)
    y[kl.absolute_position()] = held[i ^ 1]


@kernel
def handed_far(y, *, scope):
    held = kl.shared(16, int64)
    i = kl.unit_index()
    held[i] = i
    kl.barrier(scope)
    y[kl.absolute_position()] = held[i ^ 8]


def test_a_barrier_of_a_plane_orders_its_lanes_alone():
    def go(function, scope):
        y = np.zeros(32, np.int64)
        built = function.build([Buffer(int64)], cube=(16, 1, 1), plane=4, scope=scope)
        run_on_lanes(built, (2, 1, 1), [y])
        return y

    assert go(handed_over, "plane").tolist() == [i ^ 1 for i in range(16)] * 2
    assert go(handed_far, "cube").tolist() == [i ^ 8 for i in range(16)] * 2
    with pytest.raises(KernelCheckError, match="no barrier stands between"):
        go(handed_far, "plane")
