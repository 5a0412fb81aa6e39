"""Functions of complex numbers beside NumPy: values, under jit, and their gradients."""

from typing import Any

import numpy as np
import pytest

import calor

REAL, IMAGINARY = np.random.default_rng(7).normal(size=(2, 2, 3))
Z = REAL + 1j * IMAGINARY


def same(found: Any, wanted: Any) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "oracle"),
    [
        ("exp2(z)", "2.0 ** z"),
        ("rsqrt(z)", "1 / np.sqrt(z)"),
        ("sinc(z)", "np.sin(np.pi * z) / (np.pi * z)"),
        ("lerp(z, 2 * z, 0.25)", "1.25 * z"),
        ("logaddexp(z, 2.0)", "np.log(np.exp(z) + np.exp(2.0))"),
        ("logsumexp(z, axis=1)", "np.log(np.exp(z).sum(1))"),
        ("sigmoid(z)", "1 / (1 + np.exp(-z))"),
        ("silu(z)", "z / (1 + np.exp(-z))"),
    ],
)
def test_functions_of_complex_numbers(call: str, oracle: str) -> None:
    z = Z
    wanted = eval(oracle, {"np": np, "z": z})
    given = calor.asarray(z)
    same(eval(f"F.{call}", {"F": calor, "z": given}), wanted)
    same(calor.jit(lambda t: eval(f"F.{call}", {"F": calor, "z": t}))(given), wanted)
    assert np.isfinite(calor.sigmoid(calor.asarray([-2000 + 1j, 2000 - 1j])).numpy()).all()
    # The function is holomorphic, so its gradient is the conjugate of its derivative.
    slope = calor.grad(lambda t: calor.real(eval(f"F.{call}", {"F": calor, "z": t}).sum()))(given)
    step = 1e-6
    more, less = (eval(oracle, {"np": np, "z": z + sign * step}) for sign in (1, -1))
    found = np.conj(slope.numpy()).reshape(z.shape)
    np.testing.assert_allclose(
        found.sum(), ((more - less) / (2 * step)).sum(), rtol=1e-5, atol=1e-6
    )
