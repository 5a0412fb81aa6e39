"""Layers: behaviour that a formula does not show, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import ArgumentError, DTypeError, ShapeError


def numbers(*shape: int) -> Any:
    return calor.asarray(np.sin(np.arange(np.prod(shape)) * 1.3).reshape(shape).astype(np.float32))


def test_batch_norm_in_jit_moves_its_statistics_as_outside() -> None:
    plain, jitted = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
    step = calor.jit(lambda model, x: model(x))
    for number in range(3):
        x = numbers(2, 3, 4, 4) * (number + 1.0)
        np.testing.assert_allclose(step(jitted, x).numpy(), plain(x).numpy(), atol=1e-6)
    for name, value in plain.state_dict().items():
        np.testing.assert_allclose(jitted.state_dict()[name].numpy(), value.numpy(), rtol=1e-6)
    assert jitted.num_batches_tracked.item() == 3
    assert step.trace_count == 1
    jitted.eval()
    plain.eval()
    np.testing.assert_allclose(step(jitted, x).numpy(), plain(x).numpy(), atol=1e-6)
    assert (step.trace_count, jitted.num_batches_tracked.item()) == (2, 3)


def test_batch_norm_without_momentum_averages_all_batches() -> None:
    layer = nn.BatchNorm1d(1, momentum=None)
    for value in (1.0, 2.0, 6.0):
        layer(calor.asarray([[value - 1], [value + 1]]))
    assert layer.running_mean.item() == pytest.approx(3.0)
    assert layer.running_var.item() == pytest.approx(2.0)


def test_training_a_batch_norm_under_gradients_leaves_no_history() -> None:
    layer = nn.BatchNorm1d(2)
    layer(numbers(4, 2)).sum().backward()
    assert not layer.running_mean.requires_grad
    assert layer.weight.grad is not None


@pytest.mark.parametrize(
    ("layer", "shape", "kept"),
    [
        (nn.Dropout(0.25), (4, 50, 10), (4, 50, 10)),
        (nn.Dropout1d(0.25), (20, 50, 3), (20, 50)),
        (nn.Dropout2d(0.25), (20, 50, 2, 3), (20, 50)),
        (nn.Dropout3d(0.25), (20, 50, 2, 1, 2), (20, 50)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dropout(layer: Any, shape: tuple[int, ...], kept: tuple[int, ...]) -> None:
    calor.random.seed(3)
    x = calor.ones(shape, requires_grad=True)
    y = layer(x)
    values = y.numpy()
    assert np.allclose(values[values != 0], 1 / 0.75)
    channels = values.reshape(*kept, -1)
    assert (channels == channels[..., :1]).all()
    assert abs((channels[..., 0] != 0).mean() - 0.75) < 0.05
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), values)
    assert (layer(x).numpy() != values).any()
    calor.random.seed(3)
    np.testing.assert_array_equal(layer(x).numpy(), values)
    layer.eval()
    np.testing.assert_array_equal(layer(x).numpy(), x.numpy())


def test_dropout_draws_anew_at_each_jitted_call() -> None:
    layer = nn.Dropout(0.5)
    step = calor.jit(lambda model, x: model(x))
    x = calor.ones(200)
    first, second = step(layer, x).tolist(), step(layer, x).tolist()
    assert first != second
    assert step.trace_count == 1


def test_dropout_of_everything_and_nothing() -> None:
    x = calor.ones(4)
    assert nn.Dropout(1.0)(x).tolist() == [0.0] * 4
    assert nn.Dropout(0.0)(x).tolist() == [1.0] * 4


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_continue_from_their_state(kind: Any) -> None:
    layer = kind(3, 4, num_layers=2)
    x = numbers(6, 2, 3)
    whole, end = layer(x)
    first, state = layer(x[:4])
    second, again = layer(x[4:], state)
    np.testing.assert_allclose(whole.numpy()[:4], first.numpy(), atol=1e-6)
    np.testing.assert_allclose(whole.numpy()[4:], second.numpy(), atol=1e-6)
    for a, b in zip(calor.tree.leaves(end), calor.tree.leaves(again), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("types", [("float16", "float32"), ("float32", "float16")], ids=str)
def test_recurrent_layers_of_mixed_types(kind: Any, types: tuple[str, str]) -> None:
    layer = kind(3, 4).to(dtype=types[0])
    assert layer(numbers(5, 2, 3).to(dtype=types[1]))[0].dtype is calor.float32


def test_a_reverse_direction_reads_from_the_end() -> None:
    layer = nn.GRU(2, 3, bidirectional=True)
    forward = nn.GRU(2, 3)
    state = layer.state_dict()
    names = forward.state_dict()
    forward.load_state_dict({n: state[f"{n}_reverse"] for n in names})
    x = numbers(5, 1, 2)
    want = calor.flip(forward(calor.flip(x, axis=0))[0], axis=0)
    np.testing.assert_allclose(layer(x)[0].numpy()[..., 3:], want.numpy(), atol=1e-6)


def test_dropout_between_recurrent_layers_only_in_training() -> None:
    layer = nn.LSTM(2, 3, num_layers=2, dropout=1.0)
    x = numbers(4, 1, 2)
    trained = layer(x)[0].numpy()
    assert (trained != layer.eval()(x)[0].numpy()).any()
    other = nn.LSTM(2, 3, num_layers=1, dropout=1.0)
    assert (other(x)[0].numpy() == other.eval()(x)[0].numpy()).all()


def test_causal_attention_does_not_look_ahead() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=8, dropout=0.0, batch_first=True)
    x = numbers(1, 5, 8)
    changed = calor.concat([x[:, :3], x[:, 3:] * 5.0], axis=1)
    a, b = layer(x, causal=True).numpy(), layer(changed, causal=True).numpy()
    np.testing.assert_allclose(a[:, :3], b[:, :3], atol=1e-6)
    assert np.abs(a[:, 3:] - b[:, 3:]).max() > 1e-2
    assert np.abs(layer(x).numpy()[:, :3] - a[:, :3]).max() > 1e-3


def test_a_query_that_may_look_nowhere_gets_the_bias_alone_and_no_nan() -> None:
    layer = nn.MultiHeadAttention(4, 2, batch_first=True)
    mask = calor.asarray(np.array([[True, True], [False, False]]))
    x = numbers(1, 2, 4).requires_grad_()
    y = layer(x, mask=mask)
    np.testing.assert_allclose(y.numpy()[0, 1], layer.out_proj.bias.numpy(), atol=1e-7)
    y.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_encoder_layers_are_copies() -> None:
    layer = nn.TransformerEncoderLayer(4, 1, dim_feedforward=4)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4))
    assert stack.layers[0].linear1.weight is not stack.layers[1].linear1.weight
    assert "layers.1.self_attn.in_proj_weight" in stack.state_dict()
    assert "norm.weight" in stack.state_dict()


def test_positional_encoding_is_the_papers() -> None:
    layer = nn.PositionalEncoding(6, max_len=20)
    got = layer(calor.zeros((1, 20, 6))).numpy()[0]
    for place in (0, 1, 19):
        for i in range(3):
            angle = place / 10000 ** (2 * i / 6)
            assert got[place, 2 * i] == pytest.approx(np.sin(angle), abs=1e-6)
            assert got[place, 2 * i + 1] == pytest.approx(np.cos(angle), abs=1e-6)
    assert list(layer.state_dict()) == []
    assert nn.PositionalEncoding(5)(calor.zeros((1, 2, 5))).shape == (1, 2, 5)


def test_padding_rows_do_not_learn() -> None:
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.weight.tolist()[3] == [0.0, 0.0]
    layer(calor.asarray([3, 1, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("dtype", [calor.float16, calor.bfloat16], ids=str)
def test_layers_of_half_types(dtype: Any) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 8), nn.LayerNorm(8), nn.GELU(),
    )  # fmt: skip
    x = numbers(2, 1, 4, 4)
    want = model(x).numpy()
    got = model.to(dtype)(x.astype(dtype))
    assert got.dtype is dtype
    np.testing.assert_allclose(got.astype(calor.float32).numpy(), want, atol=0.06)


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("channels", lambda: nn.Conv2d(3, 4, 3, groups=2), ArgumentError, "divide into 2 groups"),
    ("kernel", lambda: nn.Conv2d(3, 4, (3, 3, 3)), ShapeError, "one for each of 2 axes"),
    ("padding mode", lambda: nn.Conv1d(1, 1, 1, padding_mode="x"), ArgumentError, '"zeros", '),
    ("conv input", lambda: nn.Conv2d(3, 4, 3)(numbers(1, 2, 5, 5)), ShapeError, "has 2 channels"),
    ("conv rank", lambda: nn.Conv2d(3, 4, 3)(numbers(3, 5)), ShapeError, "without the batch"),
    ("linear", lambda: nn.Linear(3, 2)(numbers(2, 4)), ShapeError, "must end in the last size"),
    ("groups", lambda: nn.GroupNorm(3, 4), ArgumentError, "4 channels do not divide into 3"),
    ("batch norm", lambda: nn.BatchNorm2d(3)(numbers(2, 3)), ShapeError, r"takes \(N, 3, \*S\)"),
    ("one value", lambda: nn.BatchNorm1d(3)(numbers(1, 3)), ShapeError, "at least 2"),
    ("layer norm", lambda: nn.LayerNorm(3)(numbers(2, 4)), ShapeError, "does not end in"),
    ("dropout", lambda: nn.Dropout(1.5), ArgumentError, r"within \[0, 1\]"),
    ("dropout2d", lambda: nn.Dropout2d()(numbers(2, 3)), ShapeError, "2 spatial axes"),
    ("embedding", lambda: nn.Embedding(3, 2)(numbers(2)), DTypeError, "indices must be integers"),
    ("layers", lambda: nn.LSTM(2, 3, num_layers=0), ArgumentError, "num_layers must be at least 1"),
    ("rnn input", lambda: nn.GRU(2, 3)(numbers(4, 1, 5)), ShapeError, "GRU takes .*not"),
    ("rnn state", lambda: nn.GRU(2, 3)(numbers(4, 1, 2), numbers(2, 1, 3)), ShapeError,
     "state must have shape"),
    ("no steps", lambda: nn.GRU(2, 3)(calor.zeros((0, 1, 2))), ShapeError, "no steps"),
    ("nonlinearity", lambda: nn.RNN(2, 3, nonlinearity="x"), ArgumentError, '"tanh" or "relu"'),
    ("heads", lambda: nn.MultiHeadAttention(5, 2), ArgumentError, "does not divide into 2 heads"),
    ("attention", lambda: nn.MultiHeadAttention(4, 2)(numbers(4)), ShapeError, "all have 3 axes"),
    ("mask type", lambda: nn.MultiHeadAttention(4, 2)(numbers(1, 2, 4), mask=numbers(2, 2)),
     DTypeError, "mask must be bool"),
    ("activation", lambda: nn.TransformerEncoderLayer(4, 2, activation="x"), ArgumentError,
     "or a function"),
    ("places", lambda: nn.PositionalEncoding(4, 3)(calor.zeros((1, 5, 4))), ShapeError,
     "does not fit 3 positions of 4 features"),
    ("window", lambda: nn.MaxPool2d(9)(numbers(1, 1, 4, 4)), ShapeError, "not fit an axis of 4"),
    ("pool padding", lambda: nn.AvgPool2d(2, padding=2)(numbers(1, 1, 4, 4)), ArgumentError,
     "half of the window"),
    ("adaptive", lambda: nn.AdaptiveAvgPool2d((1, 2, 3))(numbers(1, 1, 4, 4)), ShapeError,
     "must be one number or 2"),
    ("shuffle", lambda: nn.PixelShuffle(2)(numbers(1, 3, 2, 2)), ShapeError, "must divide by 2²"),
    ("mode", lambda: nn.Upsample(2, mode="x")(numbers(1, 1, 2)), ArgumentError, "choose one of"),
    ("mode rank", lambda: nn.Upsample(2, mode="bilinear")(numbers(1, 1, 2)), ShapeError,
     "is for 2 spatial axes"),
    ("loss shape", lambda: nn.MSELoss()(numbers(2, 1), numbers(2)), ShapeError, "one shape"),
    ("reduction", lambda: nn.L1Loss("x")(numbers(2), numbers(2)), ArgumentError, '"sum" or "none"'),
    ("targets", lambda: nn.NLLLoss()(numbers(2, 3), numbers(2)), DTypeError, "class numbers"),
    ("target shape", lambda: nn.CrossEntropyLoss()(numbers(2, 3), calor.asarray([1])), ShapeError,
     r"need class numbers of shape \(2,\)"),
    ("smoothing", lambda: nn.CrossEntropyLoss(label_smoothing=2.0)(
        numbers(2, 3), calor.asarray([1, 0])), ArgumentError, r"within \[0, 1\]"),
    ("glu", lambda: nn.GLU()(numbers(3)), ShapeError, "cannot be halved"),
    ("prelu", lambda: nn.PReLU(2)(numbers(2, 3)), ShapeError, "2 slopes do not fit"),
    ("output padding", lambda: nn.ConvTranspose1d(1, 1, 2, output_padding=1)(numbers(1, 1, 3)),
     ArgumentError, "must be below the stride"),
    ("ctc", lambda: nn.CTCLoss()(numbers(2, 1, 3), numbers(1, 1), calor.asarray([2]),
                                 calor.asarray([1])), DTypeError, "integers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "match"), [r[1:] for r in REFUSED],
                         ids=[r[0] for r in REFUSED])  # fmt: skip
def test_refusal(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(("shape", "sizes"), [((2, 3, 7), 3), ((2, 7, 5), (3,)), ((1, 2, 6, 4), 4)])
def test_adaptive_pools_return_where_the_largest_elements_are(shape: Any, sizes: Any) -> None:
    rank = len(shape) - 2
    pool = getattr(nn.functional, f"adaptive_max_pool{rank}d")
    x = numbers(*shape)
    x.requires_grad_()
    values, places = pool(x, sizes, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), pool(x, sizes).numpy())
    flat = x.numpy().reshape(*shape[:2], -1)
    found = np.take_along_axis(flat, places.numpy().reshape(*shape[:2], -1), axis=2)
    np.testing.assert_array_equal(found, values.numpy().reshape(found.shape))
    values.sum().backward()
    assert x.grad.sum().item() == values.size
