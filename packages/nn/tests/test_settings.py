"""Whatever a constructor of a layer or loss is given, it takes or refuses by an error of calor."""

import contextlib
import inspect
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor.errors import CalorError

GIVEN: dict[str, Any] = {
    **dict.fromkeys(
        ("in_channels", "out_channels", "num_features", "num_channels", "normalized_shape",
         "input_size", "hidden_size", "embedding_dim", "d_model", "embed_dim", "dim", "head_dim",
         "in_features", "out_features", "in1_features", "in2_features", "max_len"), 4),
    **dict.fromkeys(
        ("num_heads", "nhead", "num_groups", "groups", "num_layers", "size", "kernel_size", "axis",
         "upscale_factor", "downscale_factor", "num_embeddings", "batch_size"), 2),
    "output_size": (6, 6), "sizes": (2, 2), "norm_type": 2.0, "threshold": 0.1, "value": 0.0,
    "padding": [(0, 0)], "layer": nn.TransformerEncoderLayer(4, 2, 4),
    "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 4,
}  # fmt: skip
WRONG: tuple[Any, ...] = (
    0, -1, -2.5, 2.5, float("nan"), float("inf"), "word", "", None, (), (1, 2, 3, 4), [[1, 2]],
    True, 1 + 2j, np.ones((2, 3)), object(), {"a": 1},
)  # fmt: skip
# Transforms of functions of the user, and what any object is given to.
APART = {"device", "distance_function", "args", "kwargs", "modules"}
LAYERS = [
    name
    for name in nn.__all__
    if isinstance(kind := getattr(nn, name), type)
    and issubclass(kind, nn.Module)
    and "__init__" in {n for k in kind.__mro__[:-2] for n in vars(k)}
]


def settings(kind: Any) -> tuple[dict[str, Any], list[str]]:
    """Return right arguments for the parameters without defaults, and the names of all."""
    known = inspect.signature(kind).parameters
    names = [n for n in known if n not in APART]
    small = "d_model", "nhead", "dim_feedforward", "num_encoder_layers", "num_decoder_layers"
    needed = [n for n in names if known[n].default is inspect.Parameter.empty or n in small]
    right = {n: GIVEN[n] for n in needed}
    if kind.__name__.startswith("Fractional"):
        right["output_size"] = 2
    return right, names


@pytest.mark.parametrize("name", LAYERS)
def test_settings_are_taken_or_refused(name: str) -> None:
    kind = getattr(nn, name)
    right, names = settings(kind)
    kind(**right)
    for parameter in names:
        for value in WRONG:
            with contextlib.suppress(CalorError):
                kind(**{**right, parameter: value})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.PositionalEncoding(0), "PositionalEncoding: d_model must be at least 1, not 0"),
        (lambda: nn.PositionalEncoding(8, max_len=2.5), "max_len must be a whole number, not 2.5"),
        (lambda: nn.Linear("4", 3), "Linear: in_features must be a whole number, not '4'"),
        (lambda: nn.Linear(4, 3, calor.ones(3)), "bias must be True or False, not a Tensor"),
        (lambda: nn.Embedding(None, 3), "num_embeddings must be a whole number, not None"),
        (lambda: nn.BatchNorm2d(4, eps=float("nan")), "BatchNorm2d: eps must be at least 0"),
        (lambda: nn.AvgPool2d(0), "AvgPool2d: kernel_size must be at least 1, not 0"),
        (lambda: nn.MaxPool2d((2, 0)), r"MaxPool2d: kernel_size must be at least 1, not \(2, 0\)"),
        (lambda: nn.Conv2d(3, 4, 3, stride=0), "Conv2d: stride must be at least 1, not 0"),
        (lambda: nn.ELU("1"), "ELU: alpha must be a number, not '1'"),
        (lambda: nn.GELU("erf"), 'GELU: approximate must be "none" or "tanh", not \'erf\''),
        (lambda: nn.AlphaDropout(1.5), r"AlphaDropout: p must be within \[0, 1\], not 1.5"),
        (lambda: nn.LSTM(4, 4, num_layers=0), "LSTM: num_layers must be at least 1, not 0"),
        (lambda: nn.TransformerEncoder(3, 2), "layer must be a Module, not 3"),
    ],
)
def test_errors_name_the_layer_and_the_setting(call: Any, message: str) -> None:
    with pytest.raises(CalorError, match=message):
        call()
