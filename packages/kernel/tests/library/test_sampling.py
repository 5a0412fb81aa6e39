"""Is an image read at positions the weighted sum of the elements beside them, on every machine?"""

import numpy as np
import pytest

import calor
from calor.nn import functional
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

# The shape of an image, the sizes of the grid, the mode, the border, and whether corners align.
ROWS = [
    ((2, 3, 5, 4), (3, 7), "bilinear", "zeros", False),
    ((1, 9, 4, 6), (5, 5), "bilinear", "border", True),
    ((1, 2, 3, 5), (4, 9), "bilinear", "reflection", False),
    ((1, 2, 1, 5), (4, 9), "bilinear", "reflection", True),
    ((2, 5, 6, 3), (2, 8), "nearest", "zeros", True),
    ((1, 1, 6, 3), (2, 19), "nearest", "reflection", False),
    ((1, 3, 5, 5), (3, 6), "bicubic", "zeros", False),
    ((1, 2, 5, 5), (3, 6), "bicubic", "border", False),
    ((2, 2, 3, 4, 5), (2, 3, 4), "bilinear", "zeros", False),
    ((1, 2, 7), (11,), "bilinear", "border", False),
]


def graph_of(function, *shapes, dtypes):
    """Return the graph of a function of zeros."""
    with calor.device("numpy"):
        zeros = [calor.zeros(s, dtype=d) for s, d in zip(shapes, dtypes, strict=True)]
        return calor.trace(function, *zeros)


def on_lanes(graph, info, *arrays):
    """Return the only result of a graph on a device whose kernels the interpreter runs."""
    assert "nn.sample" in {node.op.name for node in graph.nodes}
    backend = KernelBackend("lanes", lambda index: LanesDevice(info), fusers=())
    (made,) = backend.compile(0, graph)([backend.upload(0, a) for a in arrays])
    (spec,) = graph.output_specs
    return np.array(backend.download(0, made, spec))


def defined(function, *arrays):
    """Return what the definition makes of float64 arrays."""
    with calor.device("numpy"):
        return function(*(calor.asarray(a.astype(np.float64)) for a in arrays)).numpy()


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_grids(info, dtype, row):
    shape, sizes, mode, border, align = row
    grid_type = "float64" if dtype == "float64" else "float32"

    def sampled(x, grid):
        return functional.grid_sample(x, grid, mode, border, align)

    grid_shape = (shape[0], *sizes, len(sizes))
    graph = graph_of(sampled, shape, grid_shape, dtypes=(dtype, grid_type))
    rng = np.random.default_rng(3)
    stored = calor.dtypes.as_dtype(dtype).numpy
    x = rng.standard_normal(shape).astype(stored)
    grid = rng.uniform(-1.4, 1.4, grid_shape).astype(grid_type)
    found = on_lanes(graph, info, x, grid).astype(np.float64)
    wanted = defined(sampled, x, grid)
    digits = {"bfloat16": 8e-3, "float32": 2e-5, "float64": 1e-12}[dtype]
    assert np.abs(found - wanted).max() <= digits * np.abs(wanted).max()


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
def test_deformed_windows(info):
    def convolved(x, offset, weight, mask):
        return functional.deform_conv2d(x, offset, weight, None, 2, 1, 2, mask)

    shapes = (2, 4, 6, 5), (2, 36, 2, 2), (3, 4, 3, 3), (2, 18, 2, 2)
    graph = graph_of(convolved, *shapes, dtypes=("float32",) * 4)
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes]
    wanted = defined(convolved, *arrays)
    found = on_lanes(graph, info, *arrays)
    assert np.abs(found - wanted).max() <= 2e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("info", [ONE_UNIT, MANY_UNITS], ids=["one-unit", "many-units"])
@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
def test_positions_that_are_no_places(info, border):
    """NaN and infinite positions read inside the image; others beside them stay as they are."""
    graph = graph_of(
        lambda x, grid: functional.grid_sample(x, grid, padding_mode=border),
        (1, 2, 3, 3), (1, 1, 5, 2), dtypes=("float32", "float32"),
    )  # fmt: skip
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    grid = np.zeros((1, 1, 5, 2), np.float32)
    grid[0, 0, :, 0] = [0, np.nan, np.inf, -1e30, 0]
    found = on_lanes(graph, info, x, grid)
    np.testing.assert_array_equal(found[0, :, 0, [0, 4]], [[4, 13], [4, 13]])
    if border == "zeros":
        np.testing.assert_array_equal(found[0, :, 0, 2:4], 0)


def test_what_a_clamped_position_reads_is_no_part_of_the_sum():
    graph = graph_of(functional.grid_sample, (1, 1, 2, 2), (1, 1, 2, 2), dtypes=("float32",) * 2)
    x = np.array([[[[np.inf, 1], [np.nan, 3]]]], np.float32)
    grid = np.array([[[[1, 0.5], [-9, -9]]]], np.float32)
    for info in (ONE_UNIT, MANY_UNITS):
        np.testing.assert_array_equal(on_lanes(graph, info, x, grid).reshape(-1), [1.5, 0])


def test_gradients_are_those_of_the_definition():
    with calor.device("numpy"):
        x, grid = calor.ones((1, 2, 4, 4)), calor.zeros((1, 3, 3, 2))
        graph = calor.trace(calor.grad(lambda x: functional.grid_sample(x, grid).sum()), x)
    assert "scatter" in " ".join(node.op.name for node in graph.nodes)
