"""Products of few tiles whose parts the last cubes of the launch add."""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import bfloat16, float32
from calor_cuda.kernels.matmul import summed_parts_launch
from calor_cuda.kernels.matmul import ways as tma_ways

from .test_epilogues import graph_of, operands, run
from .test_units import SEVERAL


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    """Tiles of two warp groups, in parts of two steps or more."""
    monkeypatch.setattr(tma_ways, "_SUMMED", ((128, 64, 2, 2),))
    monkeypatch.setattr(summed_parts_launch, "STEPS", 2)
    monkeypatch.setattr(summed_parts_launch, "_FASTER", 100)


# A result whose rows begin anywhere, and one whose transpose is computed.
@pytest.mark.parametrize(
    ("dtype", "turned", "columns"), [(bfloat16, True, 74), (float32, False, 72)], ids=str
)
def test_the_last_cubes_add_the_parts(dtype, turned, columns):
    m, k = 140, 1040
    shapes = [(m, k), (columns, k) if turned else (k, columns)]

    def product(x, w):
        return x @ (w.T if turned else w)

    graph, arrays = graph_of(product, dtype, shapes, "high"), operands(shapes, dtype)
    (found,), launches = run(graph, arrays, replace(SEVERAL, cores=10), ())
    assert [" in parts of " in one.label for one in launches] == [True]
    x, w = (a.astype(np.float64) for a in arrays)
    exact = x @ (w.T if turned else w)
    error = np.abs(found.astype(np.float64) - exact).max()
    assert error <= (2e-2 if dtype is bfloat16 else 8e-3) * np.abs(exact).max()


def test_parts_of_odd_columns_are_added_elsewhere():
    shapes = [(140, 1040), (73, 1040)]
    graph = graph_of(lambda x, w: x @ w.T, bfloat16, shapes)
    _, launches = run(graph, operands(shapes, bfloat16), replace(SEVERAL, cores=10), ())
    assert not any("in parts of" in one.label for one in launches)


def test_an_odd_axis_has_parts():
    shapes = [(1041, 136), (1041, 72)]
    graph = graph_of(lambda x, w: x.T @ w, bfloat16, shapes)
    arrays = operands(shapes, bfloat16)
    (found,), launches = run(graph, arrays, replace(SEVERAL, cores=10), ())
    assert [" in parts of " in one.label for one in launches] == [True]
    x, w = (a.astype(np.float64) for a in arrays)
    exact = x.T @ w
    assert np.abs(found.astype(np.float64) - exact).max() <= 2e-2 * np.abs(exact).max()
