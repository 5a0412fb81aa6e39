"""Are products of some rows right by tiles of dot products, and which are computed so?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.dtypes import float32, float64
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.library.matmul import dot_tiles

from .test_epilogues import graph_of, near, operands, run

WIDE = replace(ONE_UNIT, native={"vector_registers": 32}, caches=(1 << 12, 1 << 19))
WAY = "dot tiles"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(dot_tiles, "_TERMS", ((24, 1),))
    monkeypatch.setattr(dot_tiles, "_LARGE", 0)


def way(m, k, n, info=WIDE, dtype=float32, kept=()):
    a, b = View.dense(spec((m, k), dtype)), View.dense(spec((n, k), dtype))
    said = {"contract": ((1,), (1,)), "batch": ((), ()), "dtype": dtype}
    request = Request("dot_general", said, (a, b), (spec((m, n), dtype),), info)
    return LOWERINGS["dot_general"](replace(request, kept=frozenset(kept)))[0].way.name


# Sizes of rows, terms and columns: whole tiles and odd ones, one pass and several.
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(18, 64, 16), (13, 65, 17), (24, 301, 30), (19, 7, 3), (23, 130, 1), (14, 513, 9)],
)
def test_products(small, m, k, n):
    arrays = operands([(m, k), (n, k)], float32)

    def function(x, w):
        return x @ w.T

    graph = graph_of(function, float32, [a.shape for a in arrays])
    found, launches = run(graph, arrays, WIDE, ())
    if n > 4:
        assert "in parts" in launches[-1].label
    near(found, function, arrays, float32, "highest")


def test_products_of_a_batch(small):
    arrays = operands([(3, 20, 90), (3, 11, 90)], float32)

    def function(x, w):
        return x @ w.transpose(0, 2, 1)

    graph = graph_of(function, float32, [a.shape for a in arrays])
    found, launches = run(graph, arrays, WIDE, ())
    assert "in parts" in launches[-1].label
    near(found, function, arrays, float32, "highest")


def test_terms_that_are_not_finite_stay_in_their_sums(small):
    x, w = operands([(17, 45), (10, 45)], float32)
    x[16, 44], w[9, 3] = np.inf, np.nan

    def function(x, w):
        return x @ w.T

    graph = graph_of(function, float32, [x.shape, w.shape])
    (found,), _ = run(graph, [x, w], WIDE, ())
    assert np.isnan(found[:, 9]).all()
    assert np.isinf(found[16, :9]).all()
    assert np.isfinite(found[:16, :9]).all()


def test_long_sums_are_sums_of_passes():
    """The errors of 0.1 added many times stay those of few sums."""
    rows, k, n = 13, 1 << 14, 9
    x, w = np.full((rows, k), 0.1, np.float32), np.ones((n, k), np.float32)

    def function(x, w):
        return x @ w.T

    graph = graph_of(function, float32, [x.shape, w.shape])
    usual = replace(WIDE, caches=(1 << 15, 1 << 19))
    (found,), launches = run(graph, [x, w], usual, ())
    assert "in parts" in launches[-1].label
    exact = np.float64(np.float32(0.1)) * k
    assert abs(found - exact).max() < 2e-6 * exact


def test_what_follows_is_a_launch_of_its_own(small):
    shapes = [(18, 70), (20, 70), (20,)]
    arrays = operands(shapes, float32)

    def function(x, w, b):
        return calor.relu(x @ w.T + b)

    graph = graph_of(function, float32, shapes)
    found, _ = run(graph, arrays, WIDE, ())
    near(found, function, arrays, float32, "highest")


def test_large_weights_that_change_are_read_along_their_rows():
    assert way(18, 1024, 1024) == WAY
    assert way(18, 1024, 1024, kept=[1]) != WAY
    assert way(18, 192, 1152) == WAY
    assert way(18, 128, 1024) != WAY
    assert way(19, 384, 1024) == WAY
    assert way(19, 320, 1024) != WAY
    assert way(18, 1024, 64) != WAY
    assert way(12, 1024, 1024) != WAY
    assert way(25, 1024, 1024) != WAY
    assert way(18, 1024, 1024, dtype=float64) != WAY
    assert way(18, 1024, 1024, info=replace(WIDE, native={"vector_registers": 16})) != WAY
