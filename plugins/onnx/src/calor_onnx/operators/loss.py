"""Losses of classification: negative log-likelihood, and softmax with cross-entropy."""

from __future__ import annotations

from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.errors import ModelError
from calor_onnx.registry import operator


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(
    call: Call, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """−x (N, C, \\*S) at the target (N, \\*S), weighed by class."""
    if reduction not in ("none", "mean", "sum"):
        raise ModelError(f"reduction is {reduction!r}; it must be none, mean or sum")
    target = calor.astype(target, calor.int64)
    live = None
    if ignore_index is not None:
        live = calor.not_equal(target, ignore_index)
        target = calor.where(live, target, 0)
    values = wide(x)
    found = calor.take_along_axis(values, calor.expand_dims(target, 1), axis=1)
    loss = -calor.squeeze(found, axis=1)
    share = None if weight is None else calor.take(wide(weight), target, axis=0)
    if live is not None:
        share = like(live, loss) if share is None else calor.where(live, share, 0)
        loss = calor.where(live, loss, 0)
    if share is not None:
        loss = loss * share
    if reduction == "none":
        return like(loss, x)
    total = calor.sum(loss)
    if reduction == "mean":
        total = total / (loss.size if share is None else calor.sum(share))
    return like(total, x)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    call: Call, x: Any, target: Any, weight: Any = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The negative log-likelihood of the softmax of scores; also its logarithms."""
    logs = calor.log_softmax(x, axis=1)
    loss = negative_log_likelihood(
        call, logs, target, weight, ignore_index=ignore_index, reduction=reduction
    )
    return loss, logs
