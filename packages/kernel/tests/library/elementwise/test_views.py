"""Do elementwise ops read any view, of any size, on every shape of machine?"""

import numpy as np
import pytest

from calor.dtypes import as_dtype, float16, float32
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT
from calor_kernel.contract.work import Dropped, View
from calor_kernel.library.elementwise import Expression, lower_expression

from .running import MACHINES, base_of, run_op, view_of

SHAPE = (7, 5, 40)


def _numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(0.0, 5.0, shape)
    return (
        (numbers + 1j * rng.normal(0.0, 5.0, shape)).astype(dtype)
        if dtype == np.complex64
        else numbers.astype(dtype)
    )


VIEWS = {
    "dense": lambda x: (x, x + x),
    "row": lambda x: (x, np.broadcast_to(x[0, 0], x.shape)),
    "column": lambda x: (x, np.broadcast_to(x[:, :1, :1], x.shape)),
    "scalar": lambda x: (x, np.broadcast_to(x[1, 2, 3], x.shape)),
    "transposed": lambda x: (x.transpose(2, 0, 1), x.transpose(2, 0, 1)[::-1]),
    "one-transposed": lambda x: (x.transpose(2, 0, 1), x.transpose(2, 0, 1).copy()),
    "sliced": lambda x: (x[:, ::2, 1::3], x[:, ::-2, ::-3][:, :, :13]),
    "reversed": lambda x: (x[:, :, ::-1], x),
    "narrow": lambda x: (x[..., :3], x[..., 5:8]),
    "tiles": lambda x: (x.reshape(35, 40).T, x.reshape(40, 35)),
    "two-tiles": lambda x: (x.reshape(35, 40).T, x.reshape(35, 40).T[::-1]),
    "inner-tiles": lambda x: (x.reshape(20, 2, 35).T, x.reshape(35, 2, 20)),
    "batched-tiles": lambda x: (x.transpose(1, 2, 0), x.reshape(5, 40, 7)),
    "plane-tiles": lambda x: (
        x.reshape(40, 5, 7).transpose(0, 2, 1),
        x.reshape(40, 7, 5),
    ),
    "small-planes": lambda x: (
        x.reshape(10, 14, 10).transpose(0, 2, 1),
        x.reshape(10, 10, 14),
    ),
    "many-tiles": lambda x: (
        x.reshape(2, 20, 35).transpose(0, 2, 1),
        x.reshape(2, 20, 35).transpose(0, 2, 1)[::-1],
    ),
    "tiles-scalar": lambda x: (x.reshape(35, 40).T, np.broadcast_to(x[1, 2, 3], (40, 35))),
    "tiles-row": lambda x: (x.reshape(35, 40).T, np.broadcast_to(x[0, 0, :35], (40, 35))),
    "tiles-column": lambda x: (x.reshape(35, 40).T, np.broadcast_to(x[0, 0, :, None], (40, 35))),
    "short-rows": lambda x: (x.reshape(-1, 5), np.broadcast_to(x[0, 0, :5], (280, 5))),
    "short-columns": lambda x: (
        x.reshape(-1, 5),
        np.broadcast_to(x.reshape(-1, 5)[:, :1], (280, 5)),
    ),
    "runs": lambda x: (
        x.reshape(7, 20, 2, 5).transpose(0, 2, 1, 3),
        x.reshape(7, 2, 20, 5),
    ),
    "runs-of-vectors": lambda x: (
        x.reshape(7, 5, 5, 8).transpose(2, 0, 1, 3),
        x.reshape(7, 5, 5, 8).transpose(2, 0, 1, 3)[::-1],
    ),
    "runs-column": lambda x: (
        x.reshape(20, 5, 14).transpose(1, 0, 2),
        np.broadcast_to(x[0, 0, :20, None], (5, 20, 14)),
    ),
    "empty": lambda x: (x[:0], x[:0]),
    "one": lambda x: (x[:1, :1, :1], x[1:2, :1, :1]),
    "no-axes": lambda x: (x[0, 0, 0:1].reshape(()), x[0, 0, 1:2].reshape(())),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.complex64])
@pytest.mark.parametrize("view", VIEWS)
def test_views(view, dtype, machine):
    a, b = VIEWS[view](_numbers(SHAPE, dtype))
    made, wanted = run_op("add", [a, b], machine)
    np.testing.assert_array_equal(made, wanted)


# Whether the vectors of a pair of operands are aligned, for units of large cubes.
VECTORS = {
    "row": True,
    "column": True,
    "aligned part": True,
    "part": False,
    "odd rows": False,
    "sliced": False,
}
MORE_VIEWS = {
    "aligned part": lambda x: (x[:, :, 4:36], x[:, :, 8:]),
    "part": lambda x: (x[:, :, 3:35], x[:, :, 8:]),
    "pairs-apart": lambda x: (
        np.broadcast_to(x[:, :1, :2], (7, 19, 2)),
        np.broadcast_to(x[0].reshape(1, 50, 4)[:, :19, 1:3], (7, 19, 2)),
    ),
    "pairs-columns": lambda x: (
        x.reshape(-1)[: 7 * 21 * 2].reshape(7, 21, 2),
        np.broadcast_to(x[:, 0, :21, None], (7, 21, 2)),
    ),
    "pairs-reversed": lambda x: (
        np.broadcast_to(x[:, :1, :1], (7, 20, 2)),
        np.broadcast_to(x[3].reshape(1, 100, 2)[:, ::-5, ::-1], (7, 20, 2)),
    ),
    "quadruples": lambda x: (
        np.broadcast_to(x[:, :1, :4], (7, 10, 4)),
        x[:, 0, :].reshape(7, 10, 4),
    ),
    "odd rows": lambda x: (x.reshape(-1, 35), np.broadcast_to(x[0, 0, :35], (40, 35))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, np.float64])
@pytest.mark.parametrize("view", VECTORS)
def test_aligned_vectors(view, dtype):
    a, b = (MORE_VIEWS.get(view) or VIEWS[view])(_numbers(SHAPE, dtype))
    made, wanted = run_op("add", [a, b], "many-units")
    np.testing.assert_array_equal(made, wanted)
    kind = as_dtype(a.dtype)
    views = [view_of(x, base_of(x)) for x in (a, b)]
    expression, outputs = Expression.of("add", (kind, kind), kind), [spec(a.shape, kind)]
    (work, *_) = lower_expression(expression, views, outputs, MACHINES["many-units"][0])
    assert (work.launches[0].label == "elementwise.vectors") == VECTORS[view]


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "label"),
    [
        (float16, 14, 14, "elementwise.lanes"),
        (float32, 14, 14, "elementwise.lanes"),
        (float16, 28, 28, "elementwise.lanes"),
        (float32, 28, 28, "elementwise.tiles"),
        (float16, 14, 96, "elementwise.tiles"),
    ],
)
def test_small_planes_have_no_tile_each(dtype, rows, columns, label):
    shape = (32, rows, columns)
    views = [View(shape, (rows * columns, 1, rows), dtype, 0), View.dense(spec(shape, dtype))]
    expression = Expression.of("mul", (dtype, dtype), dtype)
    given = expression, views, [spec(shape, dtype)]
    (work, *_) = lower_expression(*given, MACHINES["many-units"][0])
    assert work.launches[0].label == label


@pytest.mark.parametrize("length", range(1, 17))
def test_runs_of_short_rows(length):
    x = _numbers((3, 4, 2, 5, length), np.float32)
    a, b = x.transpose(1, 0, 3, 2, 4), x[0, 0, 0, 0, :1]
    b = np.broadcast_to(b, a.shape)
    made, wanted = run_op("mul", [a, b])
    np.testing.assert_array_equal(made, wanted)
    views = [view_of(one, base_of(one)) for one in (a, b)]
    expression = Expression.of("mul", (float32, float32), float32)
    (work, *_) = lower_expression(expression, views, [spec(a.shape, float32)], ONE_UNIT)
    # Vectors of 16 values span whole rows where both rows of the axis before fill one.
    several = "elementwise.spans" if length == 8 else "elementwise.runs"
    assert (work.launches[0].label == several) == (1 < length < 16)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 63, 64, 65, 1000, 70003])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.complex64])
def test_sizes(count, dtype):
    a = _numbers((count,), dtype)
    made, wanted = run_op("sub", [a, a[::-1].copy()])
    np.testing.assert_array_equal(made, wanted)


def test_refused_ways_are_explained():
    x = View((32, 64), (1, 32), float32, 0)
    expression = Expression.of("add", (float32, float32), float32)
    views = [x, View.dense(spec(x.shape, float32))]
    found = lower_expression(expression, views, [spec(x.shape, float32)], ONE_UNIT)
    assert [work.variant for work in found] == ["elementwise.tiles"]
    assert found.dropped == (Dropped("elementwise.flat", "operands are not dense"),)
    dense = lower_expression(expression, [views[1], views[1]], [spec((32, 64), float32)], ONE_UNIT)
    assert dense.dropped == ()
