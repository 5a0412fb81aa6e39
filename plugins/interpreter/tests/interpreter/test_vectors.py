"""Vectors on lanes: shuffles, reductions in their stated order, dots, masks and gathers."""

import math

import numpy as np
import pytest

from calor.dtypes import as_dtype, bfloat16, float32, int8, int32, int64, uint8
from calor_interpreter.launch import run_on_lanes
from calor_kernel import language as kl
from calor_kernel.language import Buffer, kernel

from .run import map_on_lanes

X = np.arange(16, dtype=np.float32) * 1.5 - 4
LANES = X.reshape(4, 4)

ROWS = {
    "extract": (lambda v: kl.splat(v[2], 4), np.repeat(LANES[:, 2:3], 4, 1)),
    "insert": (lambda v: kl.insert(v, 1, v[3]), LANES[:, [0, 3, 2, 3]]),
    "insert a constant": (
        lambda v: kl.insert(v, 3, 7.0),
        np.concatenate([LANES[:, :3], np.full((4, 1), 7, np.float32)], 1),
    ),
    "insert into a constant": (
        lambda v: kl.insert(kl.splat(2.0, 4), 0, v[1]),
        np.concatenate([LANES[:, 1:2], np.full((4, 3), 2, np.float32)], 1),
    ),
    "reverse": (lambda v: kl.shuffle(v, [3, 2, 1, 0]), LANES[:, ::-1]),
    "two operands": (
        lambda v: kl.shuffle(v, [0, 5, 2, 7], v * 2.0),
        np.stack([LANES[:, 0], LANES[:, 1] * 2, LANES[:, 2], LANES[:, 3] * 2], 1),
    ),
    "narrow and wide": (
        lambda v: kl.shuffle(kl.shuffle(v, [1, 3]), [0, 1, 1, 0]),
        LANES[:, [1, 3, 3, 1]],
    ),
    "a lane alone": (lambda v: kl.splat(kl.shuffle(v, [3]), 4), np.repeat(LANES[:, 3:], 4, 1)),
    "pack": (lambda v: kl.pack([v[3], v[0], v[0], v[1]]), LANES[:, [3, 0, 0, 1]]),
    "select": (lambda v: kl.select(v > 0.0, v, -1.0), np.where(LANES > 0, LANES, -1)),
    "select one": (
        lambda v: kl.select(v[0] > 0.0, v, -v),
        np.where(LANES[:, :1] > 0, LANES, -LANES),
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_lanes_move(row):
    function, expected = ROWS[row]
    made = map_on_lanes(function, X, result=np.float32, width=4)
    assert made.reshape(4, 4).tolist() == expected.astype(np.float32).tolist()


# In float32 the sum depends on the order: of four lanes it is (a + c) + (b + d).
@pytest.mark.parametrize(
    ("lanes", "expected"),
    [
        ((1e8, 1.0, -1e8, 1.0), 2.0),
        ((1e8, -1e8, 1.0, 1.0), 0.0),
        ((1e8, 1.0, 1.0, 1.0, -1e8, 1.0, 1.0, 1.0), 6.0),
        ((1e8, 1.0, -1e8), 1.0),
    ],
)
def test_sums_add_halves_first(lanes, expected):
    width = len(lanes)

    @kernel
    def body(x, y):
        y[0] = kl.vreduce("add", x.load(0, width))

    y = np.zeros(1, np.float32)
    built = body.build([Buffer(float32)] * 2)
    run_on_lanes(built, (1, 1, 1), [np.array(lanes, np.float32), y])
    assert y[0] == expected


@pytest.mark.parametrize("kind", ["add", "mul", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_reductions_of_integers(kind, width):
    x = np.random.default_rng(1).integers(-9, 9, width * 4)
    plain = {"add": sum, "mul": math.prod, "min": min, "max": max}
    bits = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    rows = x.reshape(4, width)
    expected = [
        plain[kind](row.tolist()) if kind in plain else bits[kind].reduce(row) for row in rows
    ]
    made = map_on_lanes(
        lambda v: kl.splat(kl.vreduce(kind, v), width), x, result=np.int64, width=width
    )
    assert made.reshape(4, width)[:, 0].tolist() == expected


@pytest.mark.parametrize(
    ("left", "right", "total", "group"),
    [(int8, int8, int32, 4), (uint8, int8, int32, 4), (bfloat16, bfloat16, float32, 2)],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_dot(lanes, left, right, total, group):
    @kernel
    def body(a, b, c):
        width = lanes * group
        c.store(0, kl.dot(a.load(0, width), b.load(0, width), c.load(0, lanes)))

    generator = np.random.default_rng(2)
    a, b = (
        generator.integers(0 if t is uint8 else -128, 128, lanes * group).astype(t.numpy)
        for t in (left, right)
    )
    c = generator.integers(-1000, 1000, lanes).astype(total.numpy)
    products = a.astype(np.float64) * b.astype(np.float64)
    expected = c + products.reshape(lanes, group).sum(1)
    run_on_lanes(body.build([Buffer(left), Buffer(right), Buffer(total)]), (1, 1, 1), [a, b, c])
    assert c.tolist() == expected.tolist()


@kernel
def gathered(x, index, y):
    at = index.load(kl.cube_position() * 4, 4)
    y.store(kl.cube_position() * 4, x.load(at, mask=at >= 0, other=-1.0))


def test_gathers_read_where_the_mask_holds():
    x, y = np.arange(10, dtype=np.float32), np.zeros(8, np.float32)
    index = np.array([3, 1, -5, 9, -(2**40), 0, 0, 2])
    built = gathered.build([Buffer(float32), Buffer(int64), Buffer(float32)])
    run_on_lanes(built, (2, 1, 1), [x, index, y])
    assert y.tolist() == [3, 1, -1, 9, -1, 0, 0, 2]


@kernel
def scattered(x, index, n):
    lanes = kl.constant(tuple(range(4)), int64)
    at = index.load(0, 4)
    x.store(at, kl.constant((1.0, 2.0, 3.0, 4.0), float32), mask=lanes < n)


def test_scatters_write_where_the_mask_holds():
    x = np.zeros(6, np.float32)
    built = scattered.build([Buffer(float32), Buffer(int64), kl.Scalar(int64)])
    run_on_lanes(built, (1, 1, 1), [x, np.array([5, 0, 2, 99]), 3])
    assert x.tolist() == [2, 0, 3, 0, 0, 1]


@pytest.mark.parametrize("name", ["int32", "uint8", "float32"])
def test_masked_tails_stay_inside(name):
    dtype = as_dtype(name)
    x = np.arange(11).astype(dtype.numpy)
    y = np.zeros_like(x)

    @kernel
    def body(x, y, n):
        i = kl.cube_position() * 4
        lanes = kl.constant((0, 1, 2, 3), int64) + i
        one = kl.constant(1, dtype, 4)
        y.store(i, x.load(i, 4, mask=lanes < n) + one, mask=lanes < n)

    run_on_lanes(
        body.build([Buffer(dtype), Buffer(dtype), kl.Scalar(int64)]), (3, 1, 1), [x, y, 11]
    )
    assert y.tolist() == (x + 1).tolist()
