"""Fractional max pooling beside windows that are cut out one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, ShapeError
from calor.nn import functional as F

POOLS = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}
# Shape, window, number of windows.
CASES = [
    ((2, 3, 9, 11), (2, 3), (4, 5)),
    ((1, 2, 7, 7), 2, 1),
    ((2, 2, 5, 8), (3, 1), (3, 8)),
    ((2, 6, 7, 8), (2, 3, 2), (3, 4, 5)),
    ((0, 2, 4, 4, 4), 2, 2),
]


def windows(n: int, k: int, m: int, sample: float) -> list[slice]:
    step = np.float32((n - k) / (m - 1)) if m > 1 else np.float32(0)
    starts = [int((i + sample) * step) - int(sample * step) for i in range(m - 1)] + [n - k]
    return [slice(start, start + k) for start in starts]


def pooled(x: Any, kernel: Any, counts: Any, samples: Any) -> tuple[Any, Any]:
    rank = samples.shape[-1]
    kernel, counts = (v if isinstance(v, tuple) else (v,) * rank for v in (kernel, counts))
    made = np.zeros((*x.shape[:2], *counts), x.dtype)
    places = np.zeros(made.shape, np.int64)
    numbers = np.arange(x[0, 0].size if x.size else 0).reshape(x.shape[2:] if x.size else (0,))
    for n, c in np.ndindex(*x.shape[:2]):
        sizes = zip(x.shape[2:], kernel, counts, samples[n, c], strict=True)
        found = itertools.product(*(enumerate(windows(*one)) for one in sizes))
        for one in found:
            at, cut = tuple(i for i, _ in one), tuple(s for _, s in one)
            made[(n, c, *at)] = x[n, c][cut].max()
            places[(n, c, *at)] = numbers[cut].ravel()[x[n, c][cut].argmax()]
    return made, places


@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_and_their_gradient(case: Any) -> None:
    shape, kernel, counts = case
    rank = 3 if len(shape) == 5 or (isinstance(kernel, tuple) and len(kernel) == 3) else 2
    alone = len(shape) == rank + 1
    random = np.random.default_rng(sum(shape))
    x = random.standard_normal(shape).astype(np.float32)
    images = x[None] if alone else x
    samples = random.random((*images.shape[:2], rank)).astype(np.float32)
    given = {"random_samples": calor.asarray(samples)}
    found, places = POOLS[rank](calor.asarray(x), kernel, counts, return_indices=True, **given)
    wanted, spots = pooled(images, kernel, counts, samples)
    np.testing.assert_array_equal(found.numpy(), wanted[0] if alone else wanted)
    np.testing.assert_array_equal(places.numpy(), spots[0] if alone else spots)
    gradient = calor.grad(lambda t: (POOLS[rank](t, kernel, counts, **given) ** 2).sum())
    slope = np.zeros((*images.shape[:2], int(np.prod(shape[-rank:]))), np.float32)
    for n, c in np.ndindex(*images.shape[:2]):
        np.add.at(slope[n, c], spots[n, c].ravel(), 2 * wanted[n, c].ravel())
    made = gradient(calor.asarray(x)).numpy()
    np.testing.assert_allclose(made, slope.reshape(shape), rtol=1e-6)


def test_drawn_windows_and_ratios() -> None:
    x = calor.asarray(np.random.default_rng(0).standard_normal((2, 3, 12, 12)))
    one, two, other = (
        F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.7), key=calor.random.key(k)).numpy()
        for k in (1, 1, 2)
    )
    assert one.shape == (2, 3, 6, 8)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
    with np.errstate(invalid="ignore"):
        nan = F.fractional_max_pool2d(x * np.nan, 3, 4)
    assert np.isnan(nan.numpy()).all()


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda x: F.fractional_max_pool2d(x, 2), ArgumentError, "one of output_size and"),
        (lambda x: F.fractional_max_pool2d(x, 2, 3, 0.5), ArgumentError, "one of output_size and"),
        (lambda x: F.fractional_max_pool2d(x, 2, output_ratio=1.5), ArgumentError, r"in \(0, 1\)"),
        (lambda x: F.fractional_max_pool2d(x, 0, 3), ArgumentError, "at least 1"),
        (lambda x: F.fractional_max_pool2d(x, 3, 3), ShapeError, "do not fit axes of"),
        (
            lambda x: F.fractional_max_pool2d(x, 2, 2, random_samples=calor.ones((2, 2))),
            ShapeError,
            r"must be \(1, 1, 2\)",
        ),
    ],
)
def test_refusals(call: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        call(calor.ones((1, 1, 4, 4)))
