"""Are mean and variance along several axes exact in one reading, wherever the mean is?"""

import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float32, float64
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.runtime.backend import KernelBackend

INFOS = {"one unit": ONE_UNIT, "many units": MANY_UNITS}
# Shapes whose channels are few and long, so that no cube holds one.
SHAPES = [(8, 3, 40, 40), (5, 2, 9, 70, 11), (64, 2, 300)]


def _run(function, arrays, info):
    with calor.device("numpy"):
        graph = calor.trace(function, *map(calor.asarray, arrays))
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda i: LanesDevice(info), fusers=fusers)
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    specs = graph.output_specs
    found = [np.array(backend.download(0, b, s)) for b, s in zip(made, specs, strict=True)]
    return found, [one.launch for some in executable.base.recording.launches for one in some]


def _batch_norm(x, side, weight, bias):
    from calor.ops.composites import standardize

    axes = (0, *range(2, x.ndim))
    y, mean, variance = standardize(x + side, axes=axes, eps=1e-5)
    shape = (-1, *(1,) * (x.ndim - 2))
    y = y * weight.reshape(shape) + bias.reshape(shape)
    return calor.relu(y), mean * 0.1, variance * 0.1


def _expected(x, side, weight, bias):
    x = x.astype(np.float64) + side.astype(np.float64)
    axes = (0, *range(2, x.ndim))
    shape = (-1, *(1,) * (x.ndim - 2))
    mean, variance = x.mean(axes), x.var(axes)
    y = (x - mean.reshape(shape)) / np.sqrt(variance + 1e-5).reshape(shape)
    y = y * weight.reshape(shape) + bias.reshape(shape)
    return np.maximum(y, 0), mean * 0.1, variance * 0.1


@pytest.mark.parametrize("kind", INFOS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("dtype", "far", "near"),
    [(float32, 0, 2e-5), (float32, 1000, 2e-3), (float64, 1000, 1e-10), (bfloat16, 1, 3e-2)],
    ids=str,
)
def test_batch_norm(shape, dtype, far, near, kind):
    rng = np.random.default_rng(0)
    x, side = (rng.normal(size=shape) for _ in "ab")
    # The first image lies far from the others, since pieces are joined around it.
    x[0] += 5
    channels = [rng.normal(size=shape[1]).astype(dtype.numpy) for _ in "ab"]
    arrays = [(x + far).astype(dtype.numpy), side.astype(dtype.numpy), *channels]
    found, launches = _run(_batch_norm, arrays, INFOS[kind])
    for a, b in zip(found, _expected(*arrays), strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=near, atol=near)
    if shape == SHAPES[0]:
        # The pieces, what joins them, and what writes, which may be one.
        assert len(launches) <= 3


# The only kernel for channels that a cube of many units holds: of whole vectors, and of single
# numbers; and for those that are too long.
HELD = {
    (8, 3, 14, 14): "reduce_rows",
    (3, 5, 7, 7): "reduce_rows",
    (6, 40, 5, 3, 2): "reduce_rows",
    (4, 2, 1, 8): "reduce_rows",
    (40, 2, 60, 16): "await_rows",
}


def _batch_norm_gradient(x, side, g, weight):
    """The gradient of a batch norm with an activation, beside its sums."""
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    g = calor.where(side > 0, g, 0.0)
    shift, scale = calor.sum(g, axis=axes), calor.sum(g * x, axis=axes)
    count = x.size // x.shape[1]
    inner = g - (shift.reshape(shape) + x * scale.reshape(shape)) / count
    return shift, scale, inner * weight.reshape(shape)


@pytest.mark.parametrize("shape", HELD, ids=str)
@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
def test_channels_in_registers_are_read_once(shape, dtype):
    rng = np.random.default_rng(0)
    near = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 4e-2}[dtype.name]
    x, side, g = (rng.normal(size=shape).astype(dtype.numpy) for _ in "abc")
    weight, bias = (rng.normal(size=shape[1]).astype(dtype.numpy) for _ in "ab")
    found, launches = _run(_batch_norm, [x, side, weight, bias], MANY_UNITS)
    for a, b in zip(found, _expected(x, side, weight, bias), strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=near, atol=near)
    if dtype is float32:
        assert [one.build.function.name for one in launches] == [HELD[shape]]
    found, launches = _run(_batch_norm_gradient, [x, side, g, weight], MANY_UNITS)
    wide = [one.astype(np.float64) for one in (x, side, g, weight)]
    with calor.device("numpy"):
        expected = [a.numpy() for a in _batch_norm_gradient(*map(calor.asarray, wide))]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=near, atol=near * abs(b).max())


@pytest.mark.parametrize("kind", INFOS)
def test_constant_channels_have_no_negative_variance(kind):
    x = np.full((8, 3, 40, 40), 1e4 / 3, np.float32)
    x += np.arange(3, dtype=np.float32)[:, None, None] * 1e3

    def variance(x):
        from calor.ops.composites import standardize

        return standardize(x, axes=(0, 2, 3), eps=0.0)[2]

    (found,), _ = _run(variance, [x], INFOS[kind])
    assert (found >= 0).all()
    assert (found <= 1e-6 * x.max() ** 2).all()


@pytest.mark.parametrize("kind", INFOS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_stays_none(kind, value):
    x = np.ones((8, 3, 40, 40), np.float32)
    x[3, 1, 2, 2] = value

    def variance(x):
        from calor.ops.composites import standardize

        return standardize(x, axes=(0, 2, 3), eps=0.0)[2]

    (found,), _ = _run(variance, [x], INFOS[kind])
    assert np.isnan(found).tolist() == [False, True, False]
