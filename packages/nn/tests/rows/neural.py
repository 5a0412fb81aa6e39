"""Rows of the functions of neural networks: activations, norms, products; oracles in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_conformance.rows.domains import away_from, between, chosen, indices, normal
from calor_conformance.rows.language import WIDE_FLOATS, Array, Case, case, ulp
from calor_nn import functional


def near(scale: float) -> Any:
    """A tolerance relative to numbers of this size."""
    return ulp(64, scale=lambda *_, **__: scale)


def row(function: Any, *inputs: Any, oracle: Any, scale: float = 4.0, **more: Any) -> Case:
    """A row of a function of float32 and float64, whose results are about ``scale`` in size."""
    return case(function, *inputs, oracle=oracle, dtypes=WIDE_FLOATS, tol=near(scale), **more)


# Both sides of every kink (0, 1, 3, 6), and none of them.
X = chosen(np.array([-7.2, -3.4, -2.1, -1.3, -0.4, 0.3, 0.8, 1.7, 2.6, 3.3, 5.1, 6.4]))


def _elu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _selu(x: Array) -> Array:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return np.asarray(scale * _elu(x, alpha=alpha))


def _softplus(x: Array, *, beta: float = 1.0) -> Array:
    return np.asarray(np.logaddexp(0, beta * x) / beta)


def _prelu(x: Array, w: Array) -> Array:
    return np.where(x > 0, x, x * (w[:, None] if x.ndim > 2 and w.size > 1 else w))


def _glu(x: Array, *, axis: int) -> Array:
    a, b = np.split(x, 2, axis)
    return np.asarray(a / (1 + np.exp(-b)))


def _hard_sigmoid(x: Array) -> Array:
    return np.clip(x + 3, 0, 6) / 6


ACTIVATIONS: list[Case] = [
    row(functional.relu6, X, oracle=lambda x: np.clip(x, 0, 6)),
    row(functional.hard_tanh, X, oracle=lambda x: np.clip(x, -1, 1)),
    row(calor.leaky_relu, X, oracle=lambda x, *, negative_slope: np.where(
        x > 0, x, x * negative_slope), negative_slope=0.25),
    row(calor.elu, X, oracle=_elu, alpha=0.5),
    row(functional.celu, X, oracle=lambda x, *, alpha: np.where(
        x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)), alpha=2.0),
    row(functional.selu, X, oracle=_selu),
    row(functional.mish, X, oracle=lambda x: x * np.tanh(_softplus(x))),
    row(functional.log_sigmoid, X, oracle=lambda x: -_softplus(-x)),
    row(calor.softplus, X, oracle=_softplus, beta=2.0),
    row(functional.softsign, X, oracle=lambda x: x / (1 + np.abs(x))),
    row(functional.hard_sigmoid, X, oracle=_hard_sigmoid),
    row(functional.hard_swish, X, oracle=lambda x: x * _hard_sigmoid(x)),
    row(functional.prelu, away_from(0, 2, 3, 4), normal(3), oracle=_prelu, name="by channel"),
    row(functional.prelu, away_from(0, 2, 3), normal(1), oracle=_prelu, name="one slope"),
    *(
        row(functional.glu, normal(2, 4, 6), oracle=_glu, axis=axis, name=str(axis))
        for axis in (1, 2)
    ),
]  # fmt: skip


def _standardized(x: Array, axes: Any, eps: float) -> Array:
    mean = x.mean(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps))


def _by_channel(x: Array, w: Array) -> Array:
    return w.reshape(-1, *(1,) * (x.ndim - 2))


def _affine(y: Array, w: Array, b: Array) -> Array:
    return np.asarray(y * _by_channel(y, w) + _by_channel(y, b))


def _layer_norm(x: Array, w: Array, b: Array, *, normalized_shape: Any, eps: float) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    return np.asarray(_standardized(x, axes, eps) * w + b)


def _rms_norm(x: Array, w: Array, *, normalized_shape: Any, eps: float) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w)


def _group_norm(x: Array, w: Array, b: Array, *, num_groups: int, eps: float) -> Array:
    grouped = x.reshape(x.shape[0], num_groups, -1)
    return _affine(_standardized(grouped, (2,), eps).reshape(x.shape), w, b)


def _batch_norm_training(x: Any, mean: Any, var: Any, w: Any, b: Any, *, momentum: float) -> Any:
    made = functional.batch_norm(x, mean, var, w, b, training=True, momentum=momentum)
    return made.output


def _running(x: Any, mean: Any, var: Any, *, momentum: float) -> Any:
    made = functional.batch_norm(x, mean, var, training=True, momentum=momentum)
    return made.running_mean, made.running_var


def _running_oracle(x: Array, mean: Array, var: Array, *, momentum: float) -> tuple[Array, Array]:
    axes = (0, *range(2, x.ndim))
    old = 1 - momentum
    return (
        old * mean + momentum * x.mean(axes),
        old * var + momentum * x.var(axes, ddof=1),
    )


def _batch_norm_evaluating(x: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return functional.batch_norm(x, mean, var, w, b).output


def _local_response(x: Array, *, size: int, alpha: float, beta: float, k: float) -> Array:
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        for d in range(c - size // 2, c - size // 2 + size):
            if 0 <= d < x.shape[1]:
                total[:, c] += x[:, d] ** 2
    return np.asarray(x / (k + alpha * total / size) ** beta)


NORMS: list[Case] = [
    row(lambda x, w, b, **a: functional.layer_norm(x, weight=w, bias=b, **a), normal(3, 2, 4),
        normal(2, 4), normal(2, 4), oracle=_layer_norm, normalized_shape=(2, 4), eps=1e-5,
        name="layer_norm", scale=20.0),
    row(lambda x, w, **a: functional.rms_norm(x, weight=w, **a), normal(3, 4), normal(4),
        oracle=_rms_norm, normalized_shape=(4,), eps=1e-3, name="rms_norm", scale=20.0),
    *(
        row(lambda x, w, b, *, num_groups, eps: functional.group_norm(x, num_groups, w, b, eps=eps),
            normal(*shape), normal(4), normal(4), oracle=_group_norm, num_groups=groups, eps=1e-5,
            name=f"group_norm {shape} {groups}", scale=20.0)
        for shape, groups in [((3, 4), 2), ((2, 4, 3), 1), ((2, 4, 2, 2), 4)]
    ),
    row(functional.instance_norm, normal(2, 3, 5), normal(3), normal(3), eps=1e-5, scale=20.0,
        oracle=lambda x, w, b, *, eps: _affine(_standardized(x, (2,), eps), w, b)),
    *(
        row(_batch_norm_training, normal(*shape), normal(3), between(0.5, 2.0, 3), normal(3),
            normal(3), oracle=lambda x, m, v, w, b, *, momentum: _affine(
                _standardized(x, (0, *range(2, x.ndim)), 1e-5), w, b),
            momentum=0.1, name=str(shape), scale=20.0)
        for shape in [(4, 3), (3, 3, 2), (2, 3, 2, 2)]
    ),
    row(_running, normal(4, 3, 2), normal(3), between(0.5, 2.0, 3), oracle=_running_oracle,
        momentum=0.25, no_gradient="running statistics carry no gradient"),
    row(_batch_norm_evaluating, normal(4, 3, 2), normal(3), between(0.5, 2.0, 3), normal(3),
        normal(3), scale=20.0, oracle=lambda x, m, v, w, b: _affine(
            (x - _by_channel(x, m)) / np.sqrt(_by_channel(x, v) + 1e-5), w, b)),
    *(
        row(functional.local_response_norm, normal(2, 5, 3), oracle=_local_response, size=size,
            alpha=0.5, beta=0.75, k=2.0, name=str(size))
        for size in (1, 2, 3)
    ),
]  # fmt: skip


def _embedding(i: Array, w: Array, *, padding_index: int | None = None) -> Array:
    return np.asarray(w[i.astype(int)])


PRODUCTS: list[Case] = [
    row(functional.linear, normal(2, 3, 4), normal(5, 4), normal(5), scale=40.0,
        oracle=lambda x, w, b: np.einsum("abi,oi->abo", x, w) + b),
    row(functional.linear, normal(4), normal(5, 4), name="one vector", scale=40.0,
        oracle=lambda x, w: np.einsum("i,oi->o", x, w)),
    row(functional.bilinear, normal(2, 3), normal(2, 4), normal(5, 3, 4), normal(5), scale=200.0,
        oracle=lambda x, y, w, b: np.einsum("na,oab,nb->no", x, w, y) + b),
    row(functional.embedding, indices(5, 2, 3), normal(5, 4), oracle=_embedding),
    row(functional.embedding, chosen(np.array([0, 3, 1]), calor.int64), normal(5, 2),
        oracle=_embedding, padding_index=2, name="padding"),
    case(functional.one_hot, indices(4, 2, 3), oracle=lambda i, *, num_classes: (
         i.astype(int)[..., None] == np.arange(num_classes)).astype(np.int64),
         dtypes=(calor.int64,), num_classes=4),
]  # fmt: skip

CASES: list[Case] = [*ACTIVATIONS, *NORMS, *PRODUCTS]
