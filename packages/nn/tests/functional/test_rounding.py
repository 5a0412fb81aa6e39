"""Functions of half types against float64: values and gradients, in units of rounding.

Each function is called with numbers of a half type, and with the same numbers in float64. The error
is taken in half units of the largest result. A dozen roundings one after another, or a sum that
loses its small terms, are far beyond the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.nn import functional as f

LIMIT = 6.0
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def within(low: float, high: float, *shape: int) -> Any:
    return RNG.uniform(low, high, shape)


LABELS = RNG.integers(0, 33, 64)
SIGNS = np.sign(normal(64)).astype(np.float32)
Row = tuple[Callable[..., Any], tuple[Any, ...]]


def _signs(x: Any) -> Any:
    return calor.asarray(SIGNS).astype(x.dtype)


ROWS: dict[str, Row] = {
    name: (getattr(f, name), (normal(6, 32),))
    for name in [
        "celu",
        "elu",
        "gelu",
        "glu",
        "hard_shrink",
        "hard_sigmoid",
        "hard_swish",
        "log_sigmoid",
        "log_softmax",
        "mish",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "soft_shrink",
        "softmax",
        "softmin",
        "softplus",
        "softsign",
        "tanh",
        "tanh_shrink",
    ]
}
ROWS |= {
    "layer_norm": (lambda x, w, b: f.layer_norm(x, 64, w, b), (normal(6, 64) + 3, normal(64),
                                                              normal(64))),
    "rms_norm": (lambda x, w: f.rms_norm(x, 64, w), (normal(6, 64), normal(64))),
    "group_norm": (lambda x, w, b: f.group_norm(x, 4, w, b), (normal(3, 8, 16), normal(8),
                                                             normal(8))),
    "instance_norm": (f.instance_norm, (normal(3, 8, 16), normal(8), normal(8))),
    "batch_norm": (lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True)[0],
                   (normal(16, 8, 4), normal(8), normal(8))),
    "running_norm": (lambda x, w, b, m, v: f.batch_norm(x, m.detach(), v.detach(), w, b)[0],
                     (normal(16, 8, 4), normal(8), normal(8), normal(8), within(0.5, 2, 8))),
    "running_var": (lambda x, v: f.batch_norm(x, None, v.detach(), training=True)[2],
                    (normal(16, 8, 4), within(0.5, 2, 8))),
    "local_response_norm": (lambda x: f.local_response_norm(x, 3, alpha=0.5), (normal(3, 8, 16),)),
    "linear": (f.linear, (normal(6, 64), normal(32, 64), normal(32))),
    "conv2d": (f.conv2d, (normal(2, 8, 9, 9), normal(4, 8, 3, 3), normal(4))),
    "attention": (lambda q, k, v: f.scaled_dot_product_attention(q, k, v, causal=True),
                  (normal(2, 2, 16, 8), normal(2, 2, 16, 8), normal(2, 2, 16, 8))),
    "cosine_similarity": (f.cosine_similarity, (normal(6, 64), normal(6, 64))),
    "normalize": (lambda x: f.normalize(x, p=3.0), (normal(6, 64),)),
    "pairwise_distance": (lambda x, y: f.pairwise_distance(x, y, p=3.0), (normal(6, 64),
                                                                          normal(6, 64))),
    "lp_pool2d": (lambda x: f.lp_pool2d(x, 3, 3), (within(0.2, 2, 2, 3, 8, 8),)),
    "lp_pool2d ceil": (lambda x: f.lp_pool2d(x, 2, 3, ceil_mode=True), (normal(2, 3, 8, 8),)),
    "adaptive_avg_pool2d": (lambda x: f.adaptive_avg_pool2d(x, 4), (normal(2, 3, 9, 9),)),
    "interpolate": (lambda x: f.interpolate(x, (14, 5), mode="bicubic"), (normal(2, 3, 9, 9),)),
    "grid_sample": (f.grid_sample, (normal(2, 3, 9, 9), within(-1, 1, 2, 4, 4, 2))),
    "rotary_embedding": (f.rotary_embedding, (normal(2, 12, 8),)),
    "embedding_bag": (lambda w: f.embedding_bag(calor.asarray(LABELS.reshape(8, 8)), w),
                      (normal(33, 4),)),
    **{
        f"{name} {how}": (lambda *x, name=name, how=how: getattr(f, name)(*x, reduction=how), given)
        for how in ("mean", "none")
        for name, given in {
            "mse_loss": (normal(64, 33), normal(64, 33)),
            "huber_loss": (normal(64, 33), normal(64, 33)),
            "smooth_l1_loss": (normal(64, 33), normal(64, 33)),
            "binary_cross_entropy": (within(0.05, 0.95, 64, 33), within(0.05, 0.95, 64, 33)),
            "binary_cross_entropy_with_logits": (normal(64, 33), within(0, 1, 64, 33)),
            "kl_div": (within(-4, 0, 64, 33), within(0.05, 0.95, 64, 33)),
            "gaussian_nll_loss": (normal(64, 33), normal(64, 33), within(0.5, 2, 64, 33)),
            "poisson_nll_loss": (normal(64, 33), within(0, 5, 64, 33)),
            "multilabel_soft_margin_loss": (normal(64, 33), within(0, 1, 64, 33)),
            "triplet_margin_loss": (normal(64, 33), normal(64, 33), normal(64, 33)),
        }.items()
    },
    **{
        f"{name} {how}": (
            lambda x, name=name, how=how, more=more: getattr(f, name)(
                x, calor.asarray(LABELS), reduction=how, **more
            ),
            (3 * normal(64, 33),),
        )
        for how in ("mean", "none")
        for name, more in [("cross_entropy", {"label_smoothing": 0.1}), ("nll_loss", {}),
                           ("multi_margin_loss", {})]
    },
    "cosine_embedding_loss": (lambda x, y: f.cosine_embedding_loss(x, y, _signs(x)),
                              (normal(64, 33), normal(64, 33))),
    "soft_margin_loss": (lambda x: f.soft_margin_loss(x, _signs(x)), (normal(64),)),
    **{
        f"calor.{name}": (getattr(calor, name), (within(0.15, 0.9, 200),))
        for name in (
        "acos", "acosh", "asin", "asinh", "atanh", "cosh", "digamma", "erf", "erfinv", "exp",
        "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "logit", "ndtr", "rsqrt",
        "sinc", "sinh", "sqrt", "tan",
    )
        if name != "acosh"
    },
    **{
        f"calor.{name}": (getattr(calor, name), (within(0.2, 3, 200), within(0.2, 3, 200)))
        for name in ("atan2", "hypot", "logaddexp", "logaddexp2", "pow", "xlogy", "divide")
    },
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ROWS)
def test_values_and_gradients_are_rounded_once(name: str, dtype: str) -> None:
    with calor.device("numpy"):
        _check(*ROWS[name], dtype)


def _check(function: Callable[..., Any], arrays: tuple[Any, ...], dtype: str) -> None:
    half = [calor.asarray(a, dtype=dtype) for a in arrays]
    exact = [x.astype("float64") for x in half]
    y, pull = calor.vjp(function, *half)
    assert y.dtype.name == dtype
    g = calor.asarray(np.random.default_rng(1).standard_normal(y.shape), dtype=dtype)
    want, pull_exact = calor.vjp(function, *exact)
    pairs = [(y, want), *zip(pull(g), pull_exact(g.astype("float64")), strict=True)]
    unit = calor.finfo(dtype).eps / 2
    for got, right in pairs:
        assert got.dtype.name == dtype
        error = np.abs(got.astype("float64").numpy() - right.numpy()).max()
        assert error <= LIMIT * unit * np.abs(right.numpy()).max() + 1e-12


def test_a_sign_near_zero_is_kept() -> None:
    random = np.random.default_rng(0)
    arrays = random.standard_normal((256, 64)), random.uniform(1, 3, 64), random.standard_normal(64)
    given = [calor.asarray(a, dtype="bfloat16") for a in arrays]
    for function in (
        lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True)[0],
        lambda x, w, b: f.layer_norm(x, 64, w, b),
    ):
        got = function(*given).astype("float64").numpy()
        want = function(*(t.astype("float64") for t in given)).numpy()
        np.testing.assert_array_equal(np.sign(got), np.sign(want))


def test_wider_operands_decide_the_type() -> None:
    x, t = calor.ones((3, 2), dtype="bfloat16"), calor.ones((3, 2))
    assert f.mse_loss(x, t).dtype.name == "float32"
    assert f.mse_loss(x, t.numpy()).dtype.name == "float32"
    assert f.mse_loss(x, x).dtype.name == "bfloat16"
    assert f.layer_norm(x, 2, calor.ones(2)).dtype.name == "bfloat16"


def test_losses_and_norms_stay_float32_inside_autocast() -> None:
    x = calor.ones((3, 2), dtype="float16")
    with calor.autocast("float16"):
        assert f.mse_loss(x, x).dtype.name == "float32"
        assert f.layer_norm(x, 2).dtype.name == f.group_norm(x, 2).dtype.name == "float32"
        assert f.rms_norm(x, 2).dtype.name == f.instance_norm(x[None]).dtype.name == "float16"
        assert f.linear(x.astype("float32"), calor.ones((4, 2)), calor.ones(4)).dtype == x.dtype
        made = f.scaled_dot_product_attention(*(x.astype("float32"),) * 3)
        assert made.dtype.name == "float16"
        assert f.conv1d(calor.ones((1, 2, 3)), calor.ones((4, 2, 1))).dtype.name == "float16"
