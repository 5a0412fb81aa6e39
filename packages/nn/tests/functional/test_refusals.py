"""What the functions of neural networks refuse, and what they say to do."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.nn import functional as f


def x(*shape: int) -> Any:
    return calor.ones(shape)


I64 = calor.int64
ROWS: list[tuple[str, Any, type[Exception], str]] = [
    ("complex", lambda: f.selu(x(2).astype(calor.complex64)), DTypeError, "real floating"),
    ("celu 0", lambda: f.celu(x(2), 0.0), ArgumentError, "alpha must not be 0"),
    ("prelu", lambda: f.prelu(x(2, 3), x(2)), ShapeError, "3 channels"),
    ("glu", lambda: f.glu(x(3)), ShapeError, "odd size"),
    ("layer_norm weight", lambda: f.layer_norm(x(2, 3), 3, x(2)), ShapeError, "weight of sha"),
    ("rms_norm", lambda: f.rms_norm(x(2, 3), (2, 2)), ShapeError, "does not end in"),
    ("group_norm", lambda: f.group_norm(x(2, 3), 2), ShapeError, "3 channels of shape"),
    ("group_norm rank", lambda: f.group_norm(x(2), 2), ShapeError, r"must be \(N, C, \*S\)"),
    ("instance_norm", lambda: f.instance_norm(x(2, 3)), ShapeError, "no axes after"),
    ("batch_norm", lambda: f.batch_norm(x(2, 3), None, None), ArgumentError,
     "running mean and variance are needed"),
    ("batch_norm bias", lambda: f.batch_norm(x(2, 3), x(3), x(3), x(3), x(2)), ShapeError,
     "bias of shape"),
    ("lrn size", lambda: f.local_response_norm(x(1, 2, 3), 0), ArgumentError, "at least 1"),
    ("conv stride", lambda: f.conv1d(x(1, 1, 4), x(1, 1, 2), padding="same", stride=2),
     ArgumentError, "needs stride 1"),
    ("conv padding", lambda: f.conv1d(x(1, 1, 4), x(1, 1, 2), padding="full"),  # type: ignore[arg-type]
     ArgumentError, 'give numbers, "same" or "valid"'),
    ("conv bias", lambda: f.conv1d(x(1, 1, 4), x(2, 1, 2), x(1)), ShapeError, "2 output"),
    ("conv weight", lambda: f.conv1d(x(1, 1, 4), x(1, 2)), ShapeError, "must have 3 axes"),
    ("conv sizes", lambda: f.conv2d(x(1, 1, 4, 4), x(1, 1, 2, 2), stride=(1, 1, 1)), ShapeError,
     "one for each of 2 axes"),
    ("transposed", lambda: f.conv_transpose1d(x(1, 1, 1), x(1, 1, 2), padding=3), ShapeError,
     "reduce it"),
    ("pool window", lambda: f.max_pool1d(x(1, 1, 3), 0), ArgumentError, "at least 1"),
    ("pool rank", lambda: f.max_pool2d(x(3), 2), ShapeError, "without the batch"),
    ("divisor", lambda: f.avg_pool2d(x(1, 2, 2), 2, divisor_override=0), ArgumentError, "not be 0"),
    ("norm type", lambda: f.lp_pool1d(x(1, 2), 0.0, 2), ArgumentError, "above 0"),
    ("unpool", lambda: f.max_unpool(x(1, 1, 2), calor.zeros((1, 1, 3), dtype=I64), (4,)),
     ShapeError, "must agree"),
    ("adaptive 0", lambda: f.adaptive_avg_pool1d(x(1, 1, 3), 0), ShapeError, "at least 1"),
    ("both sizes", lambda: f.interpolate(x(1, 1, 3), 2, 2.0), ArgumentError, "either size or"),
    ("corners", lambda: f.interpolate(x(1, 1, 3), 2, align_corners=True), ArgumentError,
     "no corners"),
    ("no places", lambda: f.interpolate(x(1, 1, 3), scale_factor=0.1), ShapeError, "cannot be"),
    ("im2col", lambda: f.im2col(x(1, 1, 3, 3), 4), ShapeError, "do not fit"),
    ("col2im", lambda: f.col2im(x(1, 4, 3), (3, 3), 2), ShapeError, "for an image of"),
    ("unshuffle", lambda: f.pixel_unshuffle(x(1, 3, 2), 2), ShapeError, "must divide by 2"),
    ("bilinear", lambda: f.bilinear(x(2, 3), x(2, 4), x(1, 4, 3)), ShapeError, "do not fit"),
    ("one_hot", lambda: f.one_hot(calor.asarray([0]), 0), ArgumentError, "at least 1"),
    ("one_hot type", lambda: f.one_hot(x(2), 2), DTypeError, "indices must be integers"),
    ("embedding 0-d", lambda: f.embedding(calor.asarray([0]), x()), ShapeError, "has no axes"),
    ("dropout", lambda: f.dropout(x(2), -0.1), ArgumentError, "must be within"),
    ("attention rank", lambda: f.scaled_dot_product_attention(x(2, 3), x(1, 2, 3), x(2, 3)),
     ShapeError, "same number of axes"),
    ("attention heads", lambda: f.scaled_dot_product_attention(
        x(1, 3, 2, 4), x(1, 2, 2, 4), x(1, 2, 2, 4)), ShapeError, "the key heads divide"),
    ("attention mask", lambda: f.scaled_dot_product_attention(
        x(2, 3), x(4, 3), x(4, 3), mask=calor.ones((3, 4), dtype=calor.bool_)), ShapeError,
     "does not broadcast"),
    ("attention mask type", lambda: f.scaled_dot_product_attention(
        x(2, 3), x(4, 3), x(4, 3), mask=x(2, 4)), DTypeError, "scores as bias="),
    ("attention dropout", lambda: f.scaled_dot_product_attention(
        x(2, 3), x(4, 3), x(4, 3), dropout=1.0), ArgumentError, r"within \[0, 1\)"),
    ("class weight", lambda: f.cross_entropy(x(2, 3), calor.asarray([0, 1]), x(2)), ShapeError,
     "must hold 3 factors"),
    ("no classes", lambda: f.cross_entropy(x(), calor.asarray(0)), ShapeError, "no axis of"),
    ("distribution", lambda: f.cross_entropy(x(2, 3), x(2)), ShapeError,
     "class numbers must be integers"),
    ("kl reduction", lambda: f.kl_div(x(2), x(2), reduction="x"), ArgumentError, "batchmean"),  # type: ignore[arg-type]
    ("huber", lambda: f.huber_loss(x(2), x(2), delta=0.0), ArgumentError, "above 0"),
    ("smooth", lambda: f.smooth_l1_loss(x(2), x(2), beta=-1.0), ArgumentError, "not be neg"),
    ("norm", lambda: f.pairwise_distance(x(2, 3), x(2, 3), p=0.0), ArgumentError, "p must be"),
    ("cosine targets", lambda: f.cosine_embedding_loss(x(2, 3), x(2, 3), x(3)), ShapeError,
     "need targets"),
    ("ctc shapes", lambda: f.ctc_loss(x(2, 3), *[calor.asarray([[1]])] * 3), ShapeError,
     r"must be \(T, N, C\)"),
    ("ctc blank", lambda: f.ctc_loss(x(2, 1, 3), calor.asarray([[1]]), calor.asarray([2]),
                                         calor.asarray([1]), blank=3), ArgumentError, "blank 3"),
    ("ctc batch", lambda: f.ctc_loss(x(2, 2, 3), calor.asarray([[1]]), calor.asarray([2]),
                                         calor.asarray([1])), ShapeError, "have a batch of 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "match"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_refusal(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
