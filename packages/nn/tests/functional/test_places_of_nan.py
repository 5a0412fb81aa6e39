"""An element that is not finite is in the results that depend on it, and in no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.nn import functional as f

GRID = np.array([[[[-0.9, 0.3], [0.2, -0.7], [1.3, 0.1], [-1.6, -1.4], [0.4, 2.0]]]], np.float32)


def _resized(sizes: tuple[int, ...], mode: str, **said: Any) -> Callable[[Any], Any]:
    return lambda x: f.interpolate(x, sizes, mode=mode, **said)


def _sampled(mode: str, padding: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        grid = np.repeat(GRID, x.shape[0], axis=0)
        return f.grid_sample(x, grid, mode=mode, padding_mode=padding)

    return function


ROWS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "means of 13 in 5": (lambda x: f.adaptive_avg_pool1d(x, 5), (1, 13)),
    "means of 5 in 8": (lambda x: f.adaptive_avg_pool1d(x, 8), (2, 5)),
    "means of 40 in 3": (lambda x: f.adaptive_avg_pool1d(x, 3), (1, 40)),
    "means of images": (lambda x: f.adaptive_avg_pool2d(x, (3, 4)), (2, 7, 10)),
    "means of volumes": (lambda x: f.adaptive_avg_pool3d(x, (3, 3, 4)), (1, 5, 4, 6)),
    "maxima": (lambda x: f.adaptive_max_pool2d(x, (3, 4)), (2, 7, 10)),
    "area": (_resized((3, 4), "area"), (1, 7, 10)),
    "linear": (_resized((9,), "linear"), (1, 4)),
    "bilinear": (_resized((11, 8), "bilinear"), (1, 7, 6)),
    "bilinear, filtered": (_resized((3, 4), "bilinear", antialias=True), (1, 7, 10)),
    "bicubic": (_resized((11, 8), "bicubic"), (1, 7, 6)),
    "bicubic, filtered": (_resized((2, 3), "bicubic", antialias=True), (1, 9, 15)),
    **{
        f"samples, {mode}, {padding}": (_sampled(mode, padding), (2, 5, 6))
        for mode in ("nearest", "bilinear", "bicubic")
        for padding in ("zeros", "border", "reflection")
    },
    "convolution": (lambda x: f.conv1d(x, np.ones((1, 1, 3), np.float32), padding=1), (1, 7)),
    "windows' means": (lambda x: f.avg_pool2d(x, 3, stride=2, padding=1), (1, 7, 6)),
    "columns": (lambda x: f.im2col(x, 3, padding=1), (1, 4, 5)),
}


# How far from the elements that a result depends on those lie whose weight in it may be 0.
REACH = {"linear": 1, "bilinear": 1, "bicubic": 2, "samples, bilinear": 1, "samples, bicubic": 2}


def _each_set_to(x: Any, value: float) -> Any:
    """Return a batch of copies of x, each with another element changed."""
    made = np.repeat(x[None], x.size, axis=0).reshape(x.size, x.size)
    np.fill_diagonal(made, value)
    return calor.asarray(made.reshape(x.size, *x.shape))


def _near(x: Any, depend: Any, reach: int) -> Any:
    """Return where a result depends on an element or on one of its spatial neighbours."""
    places = np.array([*np.ndindex(x.shape)])
    apart = np.abs(places[:, None] - places).max(-1)
    beside = (apart <= reach) & (places[:, None, 0] == places[:, 0])
    return (beside.astype(int) @ depend.reshape(x.size, -1).astype(int) > 0).reshape(depend.shape)


@pytest.mark.parametrize("name", ROWS)
def test_results_that_an_element_is_not_in_stay_as_they_are(name: str) -> None:
    function, shape = ROWS[name]
    x = np.random.default_rng(0).uniform(1, 2, shape).astype(np.float32)
    before = function(calor.asarray(x[None])).numpy()
    # Far beyond the others, so that it is the maximum where it is in one.
    depend = function(_each_set_to(x, 100.0)).numpy() != before
    (reach,) = [r for key, r in REACH.items() if name.startswith(key)] or [0]
    apart = ~_near(x, depend, reach)
    assert apart.any()
    for value in (np.nan, np.inf):
        made = function(_each_set_to(x, value)).numpy()
        np.testing.assert_array_equal(made[apart], np.broadcast_to(before, made.shape)[apart])
        assert not np.isfinite(made[depend]).any()


@pytest.mark.parametrize("sizes", [(13, 5), (5, 8), (9, 4)])
def test_a_gradient_that_is_not_finite_stays_in_its_window(sizes: tuple[int, int]) -> None:
    n, count = sizes
    x = calor.asarray(np.linspace(0, 1, n, dtype=np.float32)[None, None])
    _, pull = calor.vjp(lambda x: f.adaptive_avg_pool1d(x, count), x)
    for window in range(count):
        g = np.ones((1, 1, count), np.float32)
        g[0, 0, window] = np.nan
        first, end = window * n // count, -(-(window + 1) * n // count)
        (made,) = pull(calor.asarray(g))
        want = [first <= i < end for i in range(n)]
        assert np.isnan(made.numpy()[0, 0]).tolist() == want


def test_means_of_uneven_windows_of_half_types_are_rounded_once() -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 29, 31)).astype(np.float16)
    wide = f.adaptive_avg_pool2d(calor.asarray(x.astype(np.float64)), (4, 5)).numpy()
    made = f.adaptive_avg_pool2d(calor.asarray(x), (4, 5)).numpy()
    assert made.dtype == np.float16
    np.testing.assert_array_equal(made, wide.astype(np.float16))
