"""Every module of calor.nn, and the quickstart's network, as ONNX and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import nn
from calor_train.quickstart import network

from .checking import checked


def numbers(*shape: int) -> Any:
    """Return float32 numbers within ±2 that look irregular."""
    count = int(np.prod(shape))
    return calor.asarray(
        (2 * np.sin((np.arange(count) + 1.0) * 1.37)).reshape(shape).astype(np.float32)
    )


def positive(*shape: int) -> Any:
    return 0.5 + 0.24 * numbers(*shape)


def whole(below: int, *shape: int) -> Any:
    return calor.asarray(np.floor(positive(*shape).numpy() * below).astype(np.int64))


X, IMAGE = numbers(2, 3, 4), numbers(2, 4, 6, 5)
BLOCK: dict[str, Any] = {"dim_feedforward": 6, "dropout": 0.5, "batch_first": True}
SIGNS = calor.asarray(np.array([1.0, -1.0], np.float32))
# Where a window's maximum was: one place in each of the windows of two elements along each axis.
PLACES = {
    rank: calor.asarray(
        np.broadcast_to(
            np.arange(4**rank, dtype=np.int64).reshape([4] * rank)[(slice(1, None, 2),) * rank],
            (1, 2, *[2] * rank),
        )
    )
    for rank in (1, 2, 3)
}
# A module with its arguments, and its inputs.
ROWS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
    *((name, (), {}, (X,)) for name in (
        "CELU", "ELU", "GELU", "GLU", "SELU", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity",
        "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softplus",
        "Softsign", "Tanh", "Flatten", "Dropout", "Dropout1d", "AlphaDropout", "Hardshrink",
        "RReLU", "Softshrink", "Tanhshrink",
    )),
    ("Softmin", (1,), {}, (X,)),
    ("Threshold", (0.1, 2.0), {}, (X,)),
    ("FeatureAlphaDropout", (), {}, (IMAGE,)),
    ("ChannelShuffle", (2,), {}, (IMAGE,)),
    ("LocalResponseNorm", (3,), {}, (IMAGE,)),
    ("RotaryEmbedding", (8,), {}, (numbers(1, 2, 3, 8),)),
    ("EmbeddingBag", (5, 3), {}, (whole(5, 2, 3),)),
    *((kind, (4, 5), {}, (numbers(2, 4),)) for kind in ("RNNCell", "LSTMCell", "GRUCell")),
    ("GELU", (), {"approximate": "tanh"}, (X,)),
    ("Softmax", (1,), {}, (X,)),
    ("LogSoftmax", (2,), {}, (X,)),
    ("Dropout2d", (), {}, (IMAGE,)),
    ("Dropout3d", (), {}, (numbers(1, 2, 2, 3, 2),)),
    ("Linear", (4, 3), {}, (X,)),
    ("Linear", (4, 3), {"bias": False}, (numbers(4),)),
    ("Bilinear", (4, 3, 2), {}, (numbers(2, 4), numbers(2, 3))),
    ("Embedding", (5, 3), {}, (whole(5, 2, 3),)),
    ("Conv1d", (3, 4, 3), {"padding": 1, "padding_mode": "circular"}, (X,)),
    ("Conv2d", (4, 6, 3), {"stride": 2, "groups": 2, "padding": 1}, (IMAGE,)),
    ("Conv3d", (1, 2, 2), {"bias": False}, (numbers(1, 1, 3, 3, 3),)),
    ("ConvTranspose1d", (3, 4, 3), {"stride": 3, "output_padding": 2}, (X,)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (IMAGE,)),
    ("ConvTranspose3d", (1, 2, 2), {"dilation": 2}, (numbers(1, 1, 3, 3, 3),)),
    ("BatchNorm1d", (3,), {}, (X,)),
    ("BatchNorm2d", (4,), {}, (IMAGE,)),
    ("BatchNorm3d", (2,), {}, (numbers(1, 2, 2, 3, 2),)),
    ("LayerNorm", ((3, 4),), {}, (X,)),
    ("RMSNorm", (4,), {}, (X,)),
    ("GroupNorm", (2, 4), {}, (IMAGE,)),
    ("InstanceNorm1d", (3,), {"affine": True}, (X,)),
    ("InstanceNorm2d", (4,), {}, (IMAGE,)),
    ("InstanceNorm3d", (2,), {}, (numbers(1, 2, 2, 3, 2),)),
    ("MaxPool1d", (2,), {}, (X,)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, (IMAGE,)),
    ("MaxPool3d", (2,), {}, (numbers(1, 2, 2, 4, 2),)),
    ("AvgPool1d", (2,), {}, (X,)),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (IMAGE,)),
    ("AvgPool3d", (2,), {}, (numbers(1, 2, 2, 4, 2),)),
    ("LPPool1d", (2.0, 3), {}, (positive(1, 2, 7),)),
    ("LPPool2d", (2.0, 3), {}, (positive(1, 2, 7, 5),)),
    ("LPPool3d", (2.0, 2), {}, (positive(1, 2, 4, 3, 2),)),
    *((f"MaxUnpool{rank}d", (2,), {}, (numbers(1, 2, *[2] * rank), PLACES[rank]))
      for rank in (1, 2, 3)),
    ("Pad", ([(1, 0), (0, 2)],), {"value": 0.5}, (IMAGE,)),
    ("Pad", ([(1, 1)],), {"mode": "reflect"}, (X,)),
    *((f"Adaptive{kind}Pool{rank}d", (2,), {}, (numbers(1, 2, *(5, 4, 3)[:rank]),))
      for kind in ("Avg", "Max") for rank in (1, 2, 3)),
    ("Upsample", (), {"scale_factor": 2, "mode": "nearest"}, (IMAGE,)),
    ("Upsample", (), {"size": (7, 8), "mode": "bilinear"}, (IMAGE,)),
    ("Upsample", (), {"scale_factor": 2, "mode": "bicubic", "align_corners": True}, (IMAGE,)),
    ("PixelShuffle", (2,), {}, (IMAGE,)),
    ("PixelUnshuffle", (2,), {}, (numbers(1, 2, 4, 6),)),
    ("Fold", ((4, 3), 2), {}, (numbers(1, 8, 6),)),
    ("Unfold", (2,), {"padding": 1}, (IMAGE,)),
    ("Unflatten", (2, (2, 2)), {}, (X,)),
    *((kind, (4, 5), options, (numbers(3, 2, 4),)) for kind in ("RNN", "LSTM", "GRU")
      for options in ({}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True})),
    ("MultiHeadAttention", (8, 2), {"batch_first": True},
     (numbers(2, 3, 8), numbers(2, 5, 8), numbers(2, 5, 8))),
    ("TransformerEncoderLayer", (8, 2), BLOCK, (numbers(2, 4, 8),)),
    ("TransformerDecoderLayer", (8, 2), BLOCK, (numbers(2, 3, 8), numbers(2, 4, 8))),
    ("Transformer", (8, 2, 1, 2), BLOCK, (numbers(2, 4, 8), numbers(2, 3, 8))),
    ("PositionalEncoding", (8,), {}, (numbers(2, 4, 8),)),
    ("BCELoss", (), {}, (positive(3, 4), positive(3, 4))),
    *((name, (), {}, (numbers(3, 4), positive(3, 4))) for name in (
        "BCEWithLogitsLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "SmoothL1Loss",
        "SoftMarginLoss", "HingeEmbeddingLoss", "CosineSimilarity", "PairwiseDistance",
    )),
    ("GaussianNLLLoss", (), {}, (numbers(3, 4), numbers(3, 4), positive(3, 4))),
    ("PoissonNLLLoss", (), {}, (numbers(3, 4), positive(3, 4))),
    ("MultiMarginLoss", (), {}, (numbers(4, 3), whole(3, 4))),
    ("MultiLabelMarginLoss", (), {}, (numbers(2, 3), np.array([[2, 0, -1], [1, -1, 0]]))),
    ("MultiLabelSoftMarginLoss", (), {}, (numbers(4, 3), positive(4, 3))),
    ("TripletMarginWithDistanceLoss", (), {},
     (numbers(3, 4), positive(3, 4), 1 - positive(3, 4))),
    ("CosineEmbeddingLoss", (), {}, (numbers(2, 4), positive(2, 4), SIGNS)),
    ("MarginRankingLoss", (), {}, (numbers(2), positive(2), SIGNS)),
    ("TripletMarginLoss", (), {}, (numbers(3, 4), positive(3, 4), 1 - positive(3, 4))),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1}, (numbers(4, 3, 2), whole(3, 4, 2))),
    ("NLLLoss", (), {}, (-positive(4, 3), whole(3, 4))),
    ("CTCLoss", (), {}, (calor.log(nn.functional.softmax(numbers(6, 2, 4), axis=2)),
                         1 + whole(3, 2, 2), np.array([6, 5]), np.array([2, 1]))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "options", "inputs"), ROWS, ids=[f"{r[0]}-{r[1]}-{r[2]}" for r in ROWS]
)
def test_module(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], inputs: tuple[Any, ...]
) -> None:
    module = getattr(nn, name)(*arguments, **options).eval()
    model = checked(module, *inputs)
    held = dict(module.named_parameters())
    kept = {t.name: tuple(t.dims) for t in model.graph.initializer}
    assert {n: kept.get(n) for n in held} == {n: p.shape for n, p in held.items()}


def test_every_module_has_a_row() -> None:
    containers = {"Module", "ModuleDict", "ModuleList", "Sequential", "TransformerEncoder",
                  "TransformerDecoder"}  # fmt: skip
    # It holds state, and has no forward pass.
    state = {"KVCache"}
    # Their windows begin at random steps, in evaluation as well.
    drawn = {"FractionalMaxPool2d", "FractionalMaxPool3d"}
    modules = {
        name
        for name in nn.__all__
        if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    }
    assert modules - containers - state - drawn == {row[0] for row in ROWS}


def test_quickstart() -> None:
    images = [numbers(n, 1, 8, 8) for n in (2, 1, 5)]
    module = network().eval()
    others = tuple((image,) for image in images[1:])
    model = checked(module, images[0], others=others, dynamic={"x": {0: "batch"}})
    assert [d.dim_param for d in model.graph.output[0].type.tensor_type.shape.dim] == ["batch", ""]
