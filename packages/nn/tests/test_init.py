"""Initial values have the moments and bounds that their sources give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, ShapeError

SHAPE = (60, 40, 3)  # fans: 120 in, 180 out
KEY = calor.random.key(5)

# Each: what is called, the bound (or None), the standard deviation.
ROWS: list[tuple[str, Any, float | None, float]] = [
    ("uniform", lambda: nn.init.uniform(SHAPE, -2.0, 2.0, key=KEY), 2.0, 4 / math.sqrt(12)),
    ("normal", lambda: nn.init.normal(SHAPE, 0.0, 0.3, key=KEY), None, 0.3),
    ("truncated", lambda: nn.init.truncated_normal(SHAPE, std=0.5, key=KEY), 1.0, 0.5 * 0.8796),
    ("xavier uniform", lambda: nn.init.xavier_uniform(SHAPE, key=KEY), math.sqrt(6 / 300),
     math.sqrt(2 / 300)),
    ("xavier normal", lambda: nn.init.xavier_normal(SHAPE, 2.0, key=KEY), None,
     2 * math.sqrt(2 / 300)),
    ("kaiming uniform", lambda: nn.init.kaiming_uniform(SHAPE, key=KEY), math.sqrt(6 / 120),
     math.sqrt(2 / 120)),
    ("kaiming normal", lambda: nn.init.kaiming_normal(SHAPE, mode="fan_out", key=KEY), None,
     math.sqrt(2 / 180)),
    ("kaiming tanh", lambda: nn.init.kaiming_normal(SHAPE, nonlinearity="tanh", key=KEY), None,
     5 / 3 / math.sqrt(120)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "bound", "std"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_moments(make: Any, bound: float | None, std: float) -> None:
    values = make().numpy()
    assert values.shape == SHAPE
    assert values.std() == pytest.approx(std, rel=0.05)
    assert abs(values.mean()) < 0.06 * std
    if bound is not None:
        assert np.abs(values).max() <= bound * (1 + 1e-6)
        assert np.abs(values).max() > 0.95 * bound


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (6, 3, 2), (5, 5)], ids=str)
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = nn.init.orthogonal(shape, 2.0, dtype=calor.float64).numpy().reshape(shape[0], -1)
    small = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(small, 4 * np.eye(min(w.shape)), atol=1e-12)


@pytest.mark.parametrize(("shape", "groups"), [((4, 4, 3), 1), ((4, 2, 3, 3), 2), ((6, 3, 1), 2)])
def test_dirac_passes_channels_through(shape: tuple[int, ...], groups: int) -> None:
    rank = len(shape) - 2
    x = calor.random.normal((1, shape[1] * groups, *(5,) * rank))
    convolve = (nn.functional.conv1d, nn.functional.conv2d)[rank - 1]
    y = convolve(x, nn.init.dirac(shape, groups), padding="same", groups=groups)
    part, width = shape[0] // groups, shape[1]
    for group in range(groups):
        for channel in range(min(part, width)):
            np.testing.assert_array_equal(
                y.numpy()[0, group * part + channel], x.numpy()[0, group * width + channel]
            )


def test_layers_begin_within_pytorchs_bounds() -> None:
    layer = nn.Conv2d(8, 32, 3)
    bound = 1 / math.sqrt(8 * 9)
    for values in (layer.weight.numpy(), layer.bias.numpy()):
        assert 0.8 * bound < np.abs(values).max() <= bound
    assert np.abs(nn.Linear(100, 50).weight.numpy()).max() <= 0.1


def test_the_seed_decides_and_layers_differ() -> None:
    calor.random.seed(1)
    first, second = nn.Linear(3, 3).weight.tolist(), nn.Linear(3, 3).weight.tolist()
    calor.random.seed(1)
    assert nn.Linear(3, 3).weight.tolist() == first != second


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: nn.init.xavier_normal((3,)), ShapeError, "has no fans"),
        (
            lambda: nn.init.gain("cosine"),
            ArgumentError,
            "'cosine' has no known gain; choose one of",
        ),
        (lambda: nn.init.kaiming_normal((3, 3), mode="x"), ArgumentError, "fan_in"),
        (lambda: nn.init.orthogonal((3,)), ShapeError, "2 axes or more"),
        (lambda: nn.init.dirac((3, 3)), ShapeError, "dirac: the shape must be"),
    ],
    ids=["fans", "gain", "mode", "orthogonal", "dirac"],
)
def test_refusal(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    "layer",
    [
        lambda init: nn.Linear(3, 3, init=init),
        lambda init: nn.Conv2d(3, 3, 1, init=init),
        lambda init: nn.ConvTranspose1d(3, 3, 1, init=init),
        lambda init: nn.Embedding(3, 3, init=init),
    ],
)
def test_a_layer_draws_by_name(layer: Any) -> None:
    weight = layer("orthogonal").weight
    rows = weight.numpy().reshape(3, 3)
    np.testing.assert_allclose(rows @ rows.T, np.eye(3), atol=1e-6)
    assert weight.requires_grad
    assert layer(lambda shape, **options: nn.init.constant(shape, 2.0)).weight.numpy().min() == 2
    with pytest.raises(ArgumentError, match="choose one of dirac"):
        layer("glorot")
    with pytest.raises(ShapeError, match="the weight is"):
        layer(lambda shape, **options: nn.init.zeros((2, 2)))
