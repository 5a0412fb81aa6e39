"""Activations: values at the ends of the range and at kinks, what stays whole, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError

INF = float("inf")
NAN = float("nan")


def f32(*values: Any) -> Any:
    return calor.asarray(np.array(values, np.float32))


# Each: what is computed, and what it gives exactly.
VALUES: list[tuple[str, Any, Any]] = [
    ("softmax", lambda: calor.softmax(f32(1e4, 1e4, -1e4)), [0.5, 0.5, 0.0]),
    ("softmax -inf", lambda: calor.softmax(f32(0.0, -INF)), [1.0, 0.0]),
    ("empty softmax", lambda: calor.softmax(calor.zeros((2, 0))), [[], []]),
    ("log_softmax", lambda: calor.log_softmax(f32(0.0, 1e4)), [-1e4, 0.0]),
    ("sigmoid", lambda: calor.sigmoid(f32(-1e4, 1e4)), [0.0, 1.0]),
    ("softplus", lambda: calor.softplus(f32(-1e4, 1e4)), [0.0, 1e4]),
    ("softplus beta", lambda: calor.softplus(f32(1e4), 4.0), [1e4]),
    ("silu", lambda: abs(calor.silu(f32(-1e4, 1e4))), [0.0, 1e4]),
    ("gelu", lambda: abs(calor.gelu(f32(-1e4, 1e4))), [0.0, 1e4]),
    ("elu", lambda: calor.elu(f32(-INF, 1e4)), [-1.0, 1e4]),
    ("relu NaN", lambda: calor.relu(f32(NAN, -INF, INF)), [NAN, 0.0, INF]),
]


@pytest.mark.parametrize(("compute", "want"), [r[1:] for r in VALUES], ids=[r[0] for r in VALUES])
def test_value(compute: Any, want: Any) -> None:
    np.testing.assert_array_equal(compute().numpy(), np.array(want))


FINITE = [
    "relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "softplus", "softmax", "log_softmax",
]  # fmt: skip


@pytest.mark.parametrize("name", FINITE)
def test_gradients_at_the_ends_are_finite(name: str) -> None:
    ends = [-1e4, -90.0, -0.0, 0.0, 90.0, 1e4]
    x = calor.asarray(np.array(ends, np.float32), requires_grad=True)
    getattr(calor, name)(x).sum().backward()
    assert np.isfinite(x.grad.numpy()).all(), x.grad


# Each: a function of one tensor, where its gradient is taken, and the gradient there.
SLOPES: list[tuple[str, Any, Any, Any]] = [
    ("relu", calor.relu, [0.0, -0.0], [0.0, 0.0]),
    ("leaky_relu", lambda x: calor.leaky_relu(x, 0.25), [0.0], [0.25]),
    ("elu", lambda x: calor.elu(x, 0.5), [0.0], [0.5]),
]


@pytest.mark.parametrize(
    ("function", "at", "want"), [r[1:] for r in SLOPES], ids=[r[0] for r in SLOPES]
)
def test_slope(function: Any, at: Any, want: Any) -> None:
    x = calor.asarray(np.array(at, np.float32), requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.array(want), rtol=1e-6)


@pytest.mark.parametrize("dtype", [calor.float16, calor.bfloat16], ids=str)
@pytest.mark.parametrize("function", [calor.softmax, calor.gelu])
def test_half_types_are_rounded_once(function: Any, dtype: Any) -> None:
    """Computed in float32 and rounded, so equal to rounding the float32 result, to one unit."""
    x = calor.asarray(np.sin(np.arange(8 * 64) * 0.7).reshape(8, 64)).astype(dtype) * 20
    got = function(x).astype(calor.float64).numpy()
    want = function(x.astype(calor.float32)).astype(dtype).astype(calor.float64).numpy()
    unit = np.maximum(np.abs(want), 1e-3) * (2.0**-10 if dtype is calor.float16 else 2.0**-7)
    assert (np.abs(got - want) <= unit).all()


KEPT: list[tuple[str, Any]] = [
    ("relu", calor.relu),
    ("sigmoid", calor.sigmoid),
    ("silu", calor.silu),
    ("gelu", calor.gelu),
    ("gelu_tanh", lambda x: calor.gelu(x, "tanh")),
    ("softmax", calor.softmax),
    ("log_softmax", calor.log_softmax),
]


@pytest.mark.parametrize(("op", "function"), KEPT, ids=[r[0] for r in KEPT])
def test_kept_whole(op: str, function: Any) -> None:
    graph = calor.trace(function, calor.ones((3, 4)))
    assert [node.op.name for node in graph.nodes].count(op) == 1, graph.text()


@pytest.mark.parametrize("dtype", [calor.float32, calor.float64], ids=str)
@pytest.mark.parametrize("name", ["silu", "gelu", "softplus"])
def test_derivatives_are_no_denormals(name: str, dtype: Any) -> None:
    """Products with them take a hundred times as long on many processors."""
    tiny = np.finfo(dtype.numpy).tiny
    end = 1.2 * abs(np.log(tiny))
    x = np.linspace(-end, end, 4001)
    y, pull = calor.vjp(getattr(calor, name), calor.asarray(x, dtype=dtype))
    (gradient,) = pull(calor.ones_like(y))
    found = np.abs(gradient.numpy())
    # The derivative of a tail is not zero before it is about the smallest number.
    assert ((found >= tiny) | (found == 0)).mean() > 0.99
    assert (found[(x > -0.9 * abs(np.log(tiny))) & (x < 0)] > 0).any()


REFUSALS: list[tuple[str, Any, type[Exception], str]] = [
    ("complex", lambda x: calor.elu(x.astype(calor.complex64)), DTypeError, "real floating"),
    ("gelu name", lambda x: calor.gelu(x, "erf"), ArgumentError, 'neither "none" nor "tanh"'),  # type: ignore[arg-type]
    ("softmax axis", lambda x: calor.softmax(x, axis=2), ShapeError, "axis 2 is out of range"),
]


@pytest.mark.parametrize(
    ("call", "error", "match"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS]
)
def test_refusal(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(calor.ones((2, 3)))
