"""Fourier transforms: dtypes, frequencies, round trips, what is refused, how they are recorded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor as namespace
from calor.errors import ArgumentError, AxisError, DTypeError, ShapeError

# Not checked for types: some arguments are wrong on purpose.
calor: Any = namespace
fft: Any = namespace.fft

X = calor.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
C = X.astype("complex64")

ERRORS = [
    (lambda: fft.fft(X, n=0), ShapeError, "fft: a transform of length 0"),
    (lambda: fft.ifft(X, n=-3), ShapeError, "length -3"),
    (lambda: fft.fft(X[:0], axis=0), ShapeError, "length 0; the length is at least 1"),
    (lambda: fft.fft(X, n=2.0), TypeError, "n must be a whole number"),
    (lambda: fft.fft(X, axis=2), AxisError, "fft: axis 2 is out of range"),
    (lambda: fft.fft(calor.asarray(1.0)), AxisError, "axis -1 is out of range"),
    (lambda: fft.fftn(calor.asarray(1.0)), ShapeError, "no axis to transform"),
    (lambda: fft.fft(X, norm="unitary"), ArgumentError, "norm 'unitary' is none of"),
    (lambda: fft.hfft(X, norm=None), ArgumentError, "hfft: norm None is none of"),
    (lambda: fft.rfft(C), DTypeError, "rfft takes real tensors, not complex64; use calor.fft.fft"),
    (lambda: fft.ihfft(C), DTypeError, "ihfft takes real tensors"),
    (lambda: fft.irfft(X[:, :1]), ShapeError, "irfft: a transform of length 0"),
    (lambda: fft.fftn(X, s=(1, 2, 3)), ShapeError, "more lengths than"),
    (lambda: fft.fftn(X, s=(1, 2), axes=(0,)), ShapeError, "different numbers of entries"),
    (lambda: fft.fftn(X, axes=(0, -2)), ShapeError, "name an axis .* twice"),
    (lambda: fft.fftn(X, axes=()), ShapeError, "no axis to transform"),
    (lambda: fft.fft(X.astype("float8_e5m2")), DTypeError, "storage type"),
    (lambda: fft.fftfreq(0), ShapeError, "fftfreq: a transform of length 0"),
    (lambda: fft.rfftfreq(4, dtype="int32"), DTypeError, "real floating numbers, not int32"),
    (lambda: fft.fftshift(X, axes=3), AxisError, "fftshift: axis 3"),
]


@pytest.mark.parametrize(("call", "error", "match"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


DTYPES = [
    ("bool", "complex64", "float32"),
    ("int8", "complex64", "float32"),
    ("float16", "complex64", "float32"),
    ("bfloat16", "complex64", "float32"),
    ("float32", "complex64", "float32"),
    ("float64", "complex128", "float64"),
]


@pytest.mark.parametrize(("given", "made", "real"), DTYPES)
def test_dtypes(given: str, made: str, real: str) -> None:
    x = calor.asarray([1, 0, 1, 1]).astype(given)
    for function in (fft.fft, fft.ifft, fft.rfft, fft.ihfft, fft.fftn, fft.rfftn):
        assert function(x).dtype.name == made
    for function in (fft.irfft, fft.hfft, fft.irfftn):
        assert function(x).dtype.name == real
    np.testing.assert_allclose(fft.fft(x).numpy(), np.fft.fft([1, 0, 1, 1]), atol=1e-6)


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("d", [1.0, 0.25])
def test_frequencies(n: int, d: float) -> None:
    made = fft.fftfreq(n, d=d, dtype="float64")
    np.testing.assert_allclose(made.numpy(), np.fft.fftfreq(n, d), rtol=1e-15)
    made = fft.rfftfreq(n, d=d, dtype="float64")
    np.testing.assert_allclose(made.numpy(), np.fft.rfftfreq(n, d), rtol=1e-15)
    assert fft.fftfreq(n).dtype is calor.float32
    assert fft.fftfreq(n, device="numpy:0").device == "numpy:0"
    x = calor.arange(n)
    assert fft.ifftshift(fft.fftshift(x)).tolist() == x.tolist()


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_round_trips(norm: str, n: int) -> None:
    make = np.random.default_rng(n)
    real = make.standard_normal((3, n))
    x = calor.asarray(real)
    close = np.testing.assert_allclose
    close(fft.ifft(fft.fft(x, norm=norm), norm=norm).real.numpy(), real, atol=1e-14)
    close(fft.irfft(fft.rfft(x, norm=norm), n=n, norm=norm).numpy(), real, atol=1e-14)
    close(fft.hfft(fft.ihfft(x, norm=norm), n=n, norm=norm).numpy(), real, atol=1e-14)
    close(fft.ifftn(fft.fftn(x, norm=norm), norm=norm).real.numpy(), real, atol=1e-14)
    close(fft.irfftn(fft.rfftn(x, norm=norm), s=(3, n), norm=norm).numpy(), real, atol=1e-14)


def test_a_length_of_minus_one_is_the_whole_axis() -> None:
    made = fft.fftn(X, s=(4, -1)).numpy()
    np.testing.assert_allclose(made, np.fft.fftn(X.numpy(), s=(4, 3), axes=(0, 1)), atol=1e-5)


def test_a_transform_is_one_op() -> None:
    def names(function: Any, x: Any) -> list[str]:
        return [node.op.name for node in calor.trace(function, x).nodes]

    assert names(fft.fft, C) == ["fft"]
    assert names(fft.fftn, C) == ["fft"]
    assert names(fft.rfftn, X) == ["fft"]
    assert names(lambda x: fft.irfft(x, n=5, norm="forward"), C) == ["fft"]
    assert names(lambda x: fft.irfft(x, n=3, norm="forward"), C) == ["slice", "fft"]
    assert names(lambda x: fft.fft(x, n=5), C) == ["full", "pad", "fft"]


def test_the_namespace_is_the_standard_s() -> None:
    names = """fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift
    ifftshift"""
    assert set(names.split()) == set(fft.__all__)
    assert all(callable(getattr(fft, n)) for n in fft.__all__)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["rfft", "ihfft"])
def test_bins_of_what_is_not_finite_that_are_real(name: str, norm: Any) -> None:
    x = np.ones((3, 8), np.float32)
    x[0, 1], x[1, 4] = np.nan, np.inf
    made = getattr(calor.fft, name)(calor.asarray(x), norm=norm).numpy()
    assert (made.imag[:, [0, 4]] == 0).all()
    assert np.isnan(made.real[0, [0, 4]]).all()
