"""What the functions of neural networks refuse, and what they say to do."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.errors import ArgumentError, DTypeError, ShapeError


def x(*shape: int) -> Any:
    return calor.ones(shape)


I64 = calor.int64
ROWS: list[tuple[str, Any, type[Exception], str]] = [
    ("complex", lambda: calor.elu(x(2).astype(calor.complex64)), DTypeError, "real floating"),
    ("gelu name", lambda: calor.gelu(x(2), "erf"), ArgumentError, 'neither "none" nor "tanh"'),  # type: ignore[arg-type]
    ("celu 0", lambda: calor.celu(x(2), 0.0), ArgumentError, "alpha is 0"),
    ("softmax axis", lambda: calor.softmax(x(2, 3), axis=2), ShapeError, "axis 2 does not fit"),
    ("prelu", lambda: calor.prelu(x(2, 3), x(2)), ShapeError, "3 channels"),
    ("glu", lambda: calor.glu(x(3)), ShapeError, "odd size"),
    ("layer_norm weight", lambda: calor.layer_norm(x(2, 3), 3, x(2)), ShapeError, "weight of sha"),
    ("rms_norm", lambda: calor.rms_norm(x(2, 3), (2, 2)), ShapeError, "does not end in"),
    ("group_norm", lambda: calor.group_norm(x(2, 3), 2), ShapeError, "3 channels of shape"),
    ("group_norm rank", lambda: calor.group_norm(x(2), 2), ShapeError, r"must be \(N, C, \*S\)"),
    ("instance_norm", lambda: calor.instance_norm(x(2, 3)), ShapeError, "no axes after"),
    ("batch_norm", lambda: calor.batch_norm(x(2, 3), None, None), ArgumentError,
     "running mean and variance are needed"),
    ("batch_norm bias", lambda: calor.batch_norm(x(2, 3), x(3), x(3), x(3), x(2)), ShapeError,
     "bias of shape"),
    ("lrn size", lambda: calor.local_response_norm(x(1, 2, 3), 0), ArgumentError, "at least 1"),
    ("conv stride", lambda: calor.conv1d(x(1, 1, 4), x(1, 1, 2), padding="same", stride=2),
     ArgumentError, "needs stride 1"),
    ("conv padding", lambda: calor.conv1d(x(1, 1, 4), x(1, 1, 2), padding="full"),  # type: ignore[arg-type]
     ArgumentError, 'no number, "same" or "valid"'),
    ("conv bias", lambda: calor.conv1d(x(1, 1, 4), x(2, 1, 2), x(1)), ShapeError, "2 output"),
    ("conv weight", lambda: calor.conv1d(x(1, 1, 4), x(1, 2)), ShapeError, "must have 3 axes"),
    ("conv sizes", lambda: calor.conv2d(x(1, 1, 4, 4), x(1, 1, 2, 2), stride=(1, 1, 1)), ShapeError,
     "one for each of 2 axes"),
    ("transposed", lambda: calor.conv_transpose1d(x(1, 1, 1), x(1, 1, 2), padding=3), ShapeError,
     "leaves sizes"),
    ("pool window", lambda: calor.max_pool1d(x(1, 1, 3), 0), ArgumentError, "at least 1"),
    ("pool rank", lambda: calor.max_pool2d(x(3), 2), ShapeError, "without the batch"),
    ("divisor", lambda: calor.avg_pool2d(x(1, 2, 2), 2, divisor_override=0), ArgumentError, "is 0"),
    ("norm type", lambda: calor.lp_pool1d(x(1, 2), 0.0, 2), ArgumentError, "above 0"),
    ("unpool", lambda: calor.max_unpool(x(1, 1, 2), calor.zeros((1, 1, 3), dtype=I64), (4,)),
     ShapeError, "must agree"),
    ("adaptive 0", lambda: calor.adaptive_avg_pool1d(x(1, 1, 3), 0), ShapeError, "at least 1"),
    ("both sizes", lambda: calor.interpolate(x(1, 1, 3), 2, 2.0), ArgumentError, "either size or"),
    ("corners", lambda: calor.interpolate(x(1, 1, 3), 2, align_corners=True), ArgumentError,
     "no corners"),
    ("no places", lambda: calor.interpolate(x(1, 1, 3), scale_factor=0.1), ShapeError, "cannot be"),
    ("im2col", lambda: calor.im2col(x(1, 1, 3, 3), 4), ShapeError, "do not fit"),
    ("col2im", lambda: calor.col2im(x(1, 4, 3), (3, 3), 2), ShapeError, "for an image of"),
    ("unshuffle", lambda: calor.pixel_unshuffle(x(1, 3, 2), 2), ShapeError, "must divide by 2"),
    ("bilinear", lambda: calor.bilinear(x(2, 3), x(2, 4), x(1, 4, 3)), ShapeError, "do not fit"),
    ("one_hot", lambda: calor.one_hot(calor.asarray([0]), 0), ArgumentError, "at least 1"),
    ("one_hot type", lambda: calor.one_hot(x(2), 2), DTypeError, "indices are integers"),
    ("embedding 0-d", lambda: calor.embedding(calor.asarray([0]), x()), ShapeError, "has no rows"),
    ("dropout", lambda: calor.dropout(x(2), -0.1), ArgumentError, "is no probability"),
    ("attention rank", lambda: calor.scaled_dot_product_attention(x(2, 3), x(1, 2, 3), x(2, 3)),
     ShapeError, "same number of axes"),
    ("attention heads", lambda: calor.scaled_dot_product_attention(
        x(1, 3, 2, 4), x(1, 2, 2, 4), x(1, 2, 2, 4)), ShapeError, "the key heads divide"),
    ("attention mask", lambda: calor.scaled_dot_product_attention(
        x(2, 3), x(4, 3), x(4, 3), mask=calor.ones((3, 4), dtype=calor.bool_)), ShapeError,
     "does not broadcast"),
    ("attention mask type", lambda: calor.scaled_dot_product_attention(
        x(2, 3), x(4, 3), x(4, 3), mask=x(2, 4)), DTypeError, "go into bias="),
    ("attention dropout", lambda: calor.scaled_dot_product_attention(
        x(2, 3), x(4, 3), x(4, 3), dropout=1.0), ArgumentError, r"within \[0, 1\)"),
    ("class weight", lambda: calor.cross_entropy(x(2, 3), calor.asarray([0, 1]), x(2)), ShapeError,
     "does not fit 3 classes"),
    ("no classes", lambda: calor.cross_entropy(x(), calor.asarray(0)), ShapeError, "0-d tensor"),
    ("distribution", lambda: calor.cross_entropy(x(2, 3), x(2)), ShapeError,
     "class numbers must be integers"),
    ("huber", lambda: calor.huber_loss(x(2), x(2), delta=0.0), ArgumentError, "above 0"),
    ("smooth", lambda: calor.smooth_l1_loss(x(2), x(2), beta=-1.0), ArgumentError, "not be neg"),
    ("norm", lambda: calor.pairwise_distance(x(2, 3), x(2, 3), p=0.0), ArgumentError, "p above 0"),
    ("cosine targets", lambda: calor.cosine_embedding_loss(x(2, 3), x(2, 3), x(3)), ShapeError,
     "needs targets"),
    ("ctc shapes", lambda: calor.ctc_loss(x(2, 3), *[calor.asarray([[1]])] * 3), ShapeError,
     r"must be \(T, N, C\)"),
    ("ctc blank", lambda: calor.ctc_loss(x(2, 1, 3), calor.asarray([[1]]), calor.asarray([2]),
                                         calor.asarray([1]), blank=3), ArgumentError, "blank 3"),
    ("ctc batch", lambda: calor.ctc_loss(x(2, 2, 3), calor.asarray([[1]]), calor.asarray([2]),
                                         calor.asarray([1])), ShapeError, "have a batch of 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "match"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_refusal(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
