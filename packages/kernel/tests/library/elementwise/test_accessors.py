"""Do kernels read and write through accessors what the ops would make before and after them?"""

import numpy as np
import pytest

from calor.dtypes import float16, float32, int64
from calor_kernel.language import Scalar, constant, cube_position, kernel, loop_range, vreduce
from calor_kernel.language.lanes import run_on_lanes
from calor_kernel.library.accessors import Reader, Writer
from calor_kernel.library.elementwise import Expression, Step

ROWS, LENGTH, WIDTH = 3, 37, 8


@kernel
def sum_rows(*arguments, reader, writer):
    """Sum what the reader makes of rows, and write what the writer makes of the sums."""
    inputs = len(reader.expression.operands)
    sources, rest = arguments[:inputs], arguments[inputs:]
    others, target, length = rest[:-2], rest[-2], rest[-1]
    row = cube_position()
    total = 0.0
    for i in loop_range(0, length, WIDTH):
        places = [row * length + i if step == 1 else row for step in reader.steps]
        left = length - i
        if left >= WIDTH:
            values = reader.read(sources, places, WIDTH)
        else:
            values = reader.read(sources, places, WIDTH, rest=left)
            values = values * (lanes_below(left)).to(float32)
        total = total + vreduce("add", values)
    writer.write([target], row, total, others, [row] * len(others))


def lanes_below(count):
    return constant(tuple(range(WIDTH)), int64) < count


def _run(reader, writer, arrays, others):
    signature = (*reader.buffers, *writer.buffers, Scalar(int64))
    built = sum_rows.build(signature, reader=reader, writer=writer)
    made = np.zeros(ROWS, writer.outputs[0].numpy)
    run_on_lanes(built, (ROWS, 1, 1), [*arrays, *others, made, LENGTH])
    return made


X = np.random.default_rng(0).normal(size=(ROWS, LENGTH)).astype(np.float32)
HALF = X.astype(np.float16)
SCALE = np.array([1.0, 2.0, 3.0], np.float32)
ADDED = Expression.of("add", (float32, float32), float32)
ROUNDED = Expression((float32,), (Step("cast", (0,), float16, (("dtype", float16),)),), (1,))
CAST = Expression((float16,), (Step("cast", (0,), float32, (("dtype", float32),)),), (1,))
SCALED = Expression.of("mul", (float32, float32), float32)


@pytest.mark.parametrize(
    ("reader", "writer", "arrays", "others", "wanted"),
    [
        (Reader.of(float32), Writer.of(float32), [X], [], X.sum(1)),
        (Reader(CAST), Writer.of(float32), [HALF], [], HALF.astype(np.float32).sum(1)),
        (Reader(SCALED, (1, 0)), Writer.of(float32), [X, SCALE], [], X.sum(1) * SCALE),
        (Reader.of(float32), Writer(ADDED, (1,)), [X], [SCALE], X.sum(1) + SCALE),
        (Reader.of(float32), Writer(ROUNDED), [X], [], X.sum(1).astype(np.float16)),
    ],
)
def test_fused(reader, writer, arrays, others, wanted):
    made = _run(reader, writer, arrays, others)
    np.testing.assert_allclose(made, wanted, rtol=2e-3 if made.dtype == np.float16 else 1e-5)
