"""At the ends of the range, at kinks and at nothing: the numbers that PyTorch has, no NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.nn import functional as f

INF = float("inf")


def f32(*values: Any) -> Any:
    return calor.asarray(np.array(values, np.float32))


# Each: what is computed, and what it gives exactly.
VALUES: list[tuple[str, Any, Any]] = [
    ("log_sigmoid", lambda: f.log_sigmoid(f32(-1e4, 1e4)), [-1e4, 0.0]),
    ("mish", lambda: abs(f.mish(f32(-1e4, 1e4))), [0.0, 1e4]),
    ("celu", lambda: f.celu(f32(-1e4, 1e4), 2.0), [-2.0, 1e4]),
    *(
        (f"a vector with NaN of norm {p}", lambda p=p: f.normalize(f32(1.0, float("nan")), p, 0),
         [float("nan")] * 2)
        for p in (0.5, 1.0, 2.0, INF)
    ),
    ("relu6 NaN", lambda: f.relu6(f32(float("nan"), INF)), [float("nan"), 6.0]),
    ("bce", lambda: f.binary_cross_entropy(
        f32(0.0, 1.0, 0.0, 1.0), f32(0.0, 1.0, 1.0, 0.0), reduction="none"),
     [0.0, 0.0, 100.0, 100.0]),
    ("bce logits", lambda: f.binary_cross_entropy_with_logits(
        f32(-1e4, 1e4, 1e4), f32(0.0, 1.0, 0.0), reduction="none"), [0.0, 0.0, 1e4]),
    ("bce of infinite logits", lambda: f.binary_cross_entropy_with_logits(
        f32(INF, -INF, INF, -INF, INF, -INF), f32(1.0, 0.0, 0.0, 1.0, 0.25, 0.25),
        reduction="none"), [0.0, 0.0, INF, INF, INF, INF]),
    ("bce of infinite logits, weighed", lambda: f.binary_cross_entropy_with_logits(
        f32(INF, -INF, INF, -INF), f32(1.0, 0.0, 0.0, 1.0), pos_weight=f32(3.0), weight=f32(0.5),
        reduction="none"), [0.0, 0.0, INF, INF]),
    ("labels of infinite logits", lambda: f.multilabel_soft_margin_loss(
        f32([INF, -INF], [INF, -INF]), f32([1.0, 0.0], [1.0, 1.0]), reduction="none"),
     [0.0, INF]),
    ("soft margin of infinite logits", lambda: f.soft_margin_loss(
        f32(INF, -INF, INF), f32(1.0, -1.0, -1.0), reduction="none"), [0.0, 0.0, INF]),
    ("log sigmoid of infinities", lambda: f.log_sigmoid(f32(-INF, INF)), [-INF, 0.0]),
    ("softplus of infinities", lambda: f.softplus(f32(-INF, INF)), [0.0, INF]),
    ("kl of impossible events", lambda: f.kl_div(
        f32(-INF, -INF, 0.0), f32(0.0, 0.5, 1.0), reduction="none"), [0.0, INF, 0.0]),
    ("kl of impossible logs", lambda: f.kl_div(
        f32(-INF, -3.0, -INF, 0.0), f32(-INF, -INF, 0.0, 0.0), log_target=True,
        reduction="none"), [0.0, 0.0, INF, 0.0]),
    ("poisson of no events", lambda: f.poisson_nll_loss(
        f32(-INF, INF), f32(0.0, 0.0), reduction="none"), [0.0, INF]),
    ("poisson of an infinite rate", lambda: f.poisson_nll_loss(
        f32(INF), f32(0.0), log_input=False, reduction="none"), [INF]),
    ("probabilities of impossible classes", lambda: f.cross_entropy(
        f32([0.0, -INF], [-INF, 0.0]), f32([1.0, 0.0], [1.0, 0.0]), reduction="none"),
     [0.0, INF]),
    ("impossible class of weight 0", lambda: f.nll_loss(
        f32([-INF, -1.0], [-INF, -1.0]), calor.asarray([0, 1]), weight=f32(0.0, 1.0)), 1.0),
    ("impossible class", lambda: f.cross_entropy(
        f32([0.0, -INF], [0.0, -INF]), calor.asarray([0, -100]), reduction="none"), [0.0, 0.0]),
    ("ignored class of probability 0", lambda: f.nll_loss(
        f32([-INF, 0.0]), calor.asarray([-100]), reduction="sum"), 0.0),
    ("kl of nothing", lambda: f.kl_div(f32(-1.0, -2.0), f32(0.0, 1.0), reduction="none"),
     [0.0, 2.0]),
    ("soft margin", lambda: f.soft_margin_loss(f32(-1e4), f32(1.0)), 1e4),
    ("zero vectors", lambda: f.cosine_similarity(f32([0.0, 0.0]), f32([1.0, 0.0])), [0.0]),
    ("cosine of one number", lambda: f.cosine_similarity(
        f32([2.0, 2.0]), f32([3.0])), [1.0]),
    ("cosine of fewer axes", lambda: f.cosine_similarity(
        f32([2.0, 2.0], [2.0, -2.0], [2.0, 2.0], [2.0, 2.0]), f32(3.0), axis=0), [1.0, 0.5]),
    ("normalize zero", lambda: f.normalize(f32([0.0, 0.0])), [[0.0, 0.0]]),
    ("constant norm", lambda: f.layer_norm(f32([7.0, 7.0]), 2), [[0.0, 0.0]]),
    ("large mean", lambda: f.layer_norm(f32([1e6 - 1, 1e6 + 1]), 2, eps=0.0), [[-1.0, 1.0]]),
    ("no keys", lambda: f.scaled_dot_product_attention(
        calor.ones((1, 2, 3)), calor.ones((1, 0, 3)), calor.ones((1, 0, 1))), [[[0.0], [0.0]]]),
    ("large scores", lambda: f.scaled_dot_product_attention(
        f32([1e4], [-1e4]), f32([1e4], [-1e4]), f32([1.0], [2.0])), [[1.0], [2.0]]),
    ("ctc too long", lambda: f.ctc_loss(
        calor.log_softmax(calor.zeros((2, 1, 3))), calor.asarray([[1, 1]]), calor.asarray([2]),
        calor.asarray([2])), INF),
    ("ctc too long, dropped", lambda: f.ctc_loss(
        calor.log_softmax(calor.zeros((2, 1, 3))), calor.asarray([[1, 1]]), calor.asarray([2]),
        calor.asarray([2]), zero_infinity=True), 0.0),
    ("max of ties", lambda: f.max_pool1d(
        f32([[1.0, 1.0, 0.0, 0.0]]), 2, return_indices=True)[1], [[[0, 2]]]),
]  # fmt: skip


@pytest.mark.parametrize(("compute", "want"), [r[1:] for r in VALUES], ids=[r[0] for r in VALUES])
def test_value(compute: Any, want: Any) -> None:
    np.testing.assert_array_equal(compute().numpy(), np.array(want))


def test_small_losses_of_logits_are_not_rounded_away() -> None:
    made = f.binary_cross_entropy_with_logits(f32(-80.0, 80.0), f32(0.0, 1.0), reduction="none")
    np.testing.assert_allclose(made.numpy(), np.exp(-80.0), rtol=1e-5)


FINITE = [
    "relu6", "hard_tanh", "celu", "selu", "mish", "log_sigmoid", "softsign", "hard_sigmoid",
    "hard_swish",
]  # fmt: skip


@pytest.mark.parametrize("name", FINITE)
def test_gradients_at_the_ends_are_finite(name: str) -> None:
    ends = [-1e4, -90.0, -0.0, 0.0, 90.0, 1e4]
    x = calor.asarray(np.array(ends, np.float32), requires_grad=True)
    getattr(f, name)(x).sum().backward()
    assert np.isfinite(x.grad.numpy()).all(), x.grad


@pytest.mark.parametrize("name", ["celu", "selu", "mish", "log_sigmoid", "softsign",
                                  "hard_sigmoid", "hard_swish"])  # fmt: skip
def test_the_gradient_at_nan_is_nan(name: str) -> None:
    x = calor.asarray(np.array([np.nan, 0.0, INF, -INF], np.float32), requires_grad=True)
    getattr(f, name)(x).sum().backward()
    assert np.isnan(x.grad.numpy()).tolist()[:2] == [True, False], x.grad


@pytest.mark.parametrize("device", ["numpy", None])
def test_what_has_no_finite_variance_is_not_standardized(device: str | None) -> None:
    x = np.array([[1e30, -1e30, 2e30], [1.0, 2.0, 3.0]], np.float32)
    with calor.device(device or calor.device_selection.current_device()):
        made = f.layer_norm(calor.asarray(x), 3).numpy()
        wide = f.layer_norm(calor.asarray(x.astype(np.float64)), 3).numpy()
        grouped = f.group_norm(calor.asarray(x[None]), 2).numpy()[0]
    assert np.isnan(made).tolist() == [[True] * 3, [False] * 3]
    assert np.isnan(grouped).tolist() == [[True] * 3, [False] * 3]
    np.testing.assert_allclose(wide[0], [0.26726, -1.33631, 1.06904], rtol=1e-4)


ATTENTION = np.array([[True, False], [False, False]])
# Each: a function of one tensor, where its gradient is taken, and the gradient there.
SLOPES: list[tuple[str, Any, Any, Any]] = [
    ("relu6", f.relu6, [0.0, 6.0], [0.0, 0.0]),
    ("hard_tanh", f.hard_tanh, [-1.0, 1.0], [0.0, 0.0]),
    ("softsign", f.softsign, [0.0], [1.0]),
    ("normalize", f.normalize, [[0.0, 0.0]], [[1e12, 1e12]]),
    ("distance", lambda x: f.pairwise_distance(x, x.detach(), eps=0.0), [[1.0, 2.0]],
     [[0.0, 0.0]]),
    ("lp_pool", lambda x: f.lp_pool1d(x, 2.0, 2), [[[0.0, 0.0]]], [[[0.0, 0.0]]]),
    ("max_pool ties", lambda x: f.max_pool1d(x, 2), [[[3.0, 3.0]]], [[[1.0, 0.0]]]),
    ("bce", lambda x: f.binary_cross_entropy(x, x.detach()), [0.0, 1.0], [0.0, 0.0]),
    ("bce logits", lambda x: f.binary_cross_entropy_with_logits(
        x, f32(1.0, 0.0, 0.0, 1.0, 0.5), reduction="sum"), [INF, -INF, INF, -INF, 0.0],
     [0.0, 0.0, 1.0, -1.0, 0.0]),
    ("bce logits' target", lambda t: f.binary_cross_entropy_with_logits(
        f32(2.0, -3.0, 1.0), t, reduction="sum"), [0.0, 1.0, 0.5], [-2.0, 3.0, -1.0]),
    ("huber", lambda x: f.huber_loss(x, calor.zeros(4), reduction="sum"),
     [INF, -INF, 0.5, -1.0], [1.0, -1.0, 0.5, -1.0]),
    ("smooth l1", lambda x: f.smooth_l1_loss(x, calor.zeros(3), beta=0.5, reduction="sum"),
     [INF, -INF, 0.25], [1.0, -1.0, 0.5]),
    ("kl of impossible events", lambda x: f.kl_div(x, f32(0.0, 1.0), reduction="sum"),
     [-INF, 0.0], [0.0, -1.0]),
    ("kl", lambda t: f.kl_div(calor.zeros(2), t, reduction="sum"), [0.0, 1.0], [0.0, 1.0]),
    ("cross entropy", lambda x: f.cross_entropy(x, calor.asarray([0])), [[0.0, -INF]],
     [[0.0, 0.0]]),
    ("hidden query", lambda x: f.scaled_dot_product_attention(
        x, x, x, mask=calor.asarray(ATTENTION)), [[1.0], [2.0]], [[1.0], [0.0]]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "at", "want"), [r[1:] for r in SLOPES], ids=[r[0] for r in SLOPES]
)
def test_slope(function: Any, at: Any, want: Any) -> None:
    x = calor.asarray(np.array(at, np.float32), requires_grad=True)
    function(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.array(want), rtol=1e-6)


HALF: list[tuple[str, Any]] = [
    ("layer_norm", lambda x: f.layer_norm(x, 64)),
    ("rms_norm", lambda x: f.rms_norm(x, 64, eps=1e-5)),
    ("attention", lambda x: f.scaled_dot_product_attention(x, x, x)),
]


@pytest.mark.parametrize("dtype", [calor.float16, calor.bfloat16], ids=str)
@pytest.mark.parametrize("function", [r[1] for r in HALF], ids=[r[0] for r in HALF])
def test_half_types_are_rounded_once(function: Any, dtype: Any) -> None:
    """Computed in float32 and rounded, so equal to rounding the float32 result, to one unit."""
    x = calor.asarray(np.sin(np.arange(8 * 64) * 0.7).reshape(8, 64)).astype(dtype) * 20
    got = function(x).astype(calor.float64).numpy()
    want = function(x.astype(calor.float32)).astype(dtype).astype(calor.float64).numpy()
    unit = np.maximum(np.abs(want), 1e-3) * (2.0**-10 if dtype is calor.float16 else 2.0**-7)
    assert (np.abs(got - want) <= unit).all()
