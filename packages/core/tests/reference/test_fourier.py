"""Fourier transforms against their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor.reference.fourier import fft


def matrix(n: int, sign: int) -> Any:
    """Return the matrix of a transform of length n."""
    k = np.arange(n)
    return np.exp(sign * 2j * np.pi * np.outer(k, k) / n)


def slow(x: Any, axes: tuple[int, ...], sign: int) -> Any:
    """Return the unscaled transform as matrix products."""
    for axis in axes:
        x = np.moveaxis(np.tensordot(matrix(x.shape[axis], sign), x, (1, axis)), 0, axis)
    return x


def noise(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return random numbers."""
    random = np.random.default_rng(0)
    x = random.standard_normal(shape)
    return (x + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(
        dtype
    )


TOLERANCE = {np.complex64: 1e-4, np.complex128: 1e-12, np.float32: 1e-4, np.float64: 1e-12}
AXES: list[tuple[int, ...]] = [(2,), (1, 2), (0, 1, 2), (0,), (2, 1)]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(("kind", "sign"), [("forward", -1), ("inverse", 1)])
def test_complex(dtype: Any, axes: tuple[int, ...], kind: str, sign: int) -> None:
    x = noise((3, 4, 5), dtype)
    got = fft(x, kind=kind, axes=axes, length=x.shape[axes[-1]])
    assert got.dtype == dtype
    np.testing.assert_allclose(got, slow(x, axes, sign), atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("last", [1, 4, 5])
def test_real(dtype: Any, axes: tuple[int, ...], last: int) -> None:
    shape = [3, 2, 4]
    shape[axes[-1]] = last
    x = noise(tuple(shape), dtype)
    bins = fft(x, kind="r2c", axes=axes, length=last)
    assert bins.dtype == (np.complex64 if dtype is np.float32 else np.complex128)
    kept = [slice(None)] * 3
    kept[axes[-1]] = slice(last // 2 + 1)
    np.testing.assert_allclose(bins, slow(x, axes, -1)[tuple(kept)], atol=TOLERANCE[dtype])
    back = fft(bins, kind="c2r", axes=axes, length=last)
    assert back.dtype == dtype
    scale = np.prod([x.shape[a] for a in axes])
    np.testing.assert_allclose(back, x * scale, atol=50 * TOLERANCE[dtype])


def test_c2r_reads_half_of_a_hermitian_spectrum() -> None:
    half = np.array([1 + 5j, 2 - 1j, 3 + 7j])  # the imaginary parts of ends are not read
    whole = np.array([1, 2 - 1j, 3, 2 + 1j])
    got = fft(half, kind="c2r", axes=(0,), length=4)
    np.testing.assert_allclose(got, slow(whole, (0,), 1).real, atol=1e-12)
    assert fft(half, kind="c2r", axes=(0,)).shape == (4,)


def test_empty_batches_and_unknown_kinds() -> None:
    assert fft(np.zeros((0, 4)), kind="r2c", axes=(1,), length=4).shape == (0, 3)
    with pytest.raises(ValueError, match="none of forward, inverse, r2c, c2r"):
        fft(np.zeros(4), kind="dct", axes=(0,))
