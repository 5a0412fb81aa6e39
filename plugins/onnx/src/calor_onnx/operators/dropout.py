"""Dropout: the identity at inference; in training, elements are zeroed at random."""

from __future__ import annotations

from typing import Any

import numpy as np

import calor
from calor_onnx.call import Call
from calor_onnx.computing import constant, like
from calor_onnx.registry import operator


def truths(x: Any, call: Call) -> Any:
    """Return a mask that keeps everything."""
    return calor.full(tuple(x.shape), True, dtype=calor.bool_, device=call.device)


@operator("Dropout", since=12, raw=True)
def dropout(
    call: Call, x: Any, ratio: Any = None, training_mode: Any = None, *, seed: int | None = None
) -> Any:
    """x with a fraction of its elements zeroed and the others scaled up, if ``training_mode``.

    With a seed, the same elements are zeroed as in ONNX's reference implementation.
    """
    share = 0.5 if ratio is None else float(call.host(ratio))
    if training_mode is None or not bool(call.host(training_mode)) or not share:
        return (x, truths(x, call)) if call.wants(1) else x
    x = call.tensor(x)
    if seed is None:
        kept = calor.random.uniform(x.shape, device=call.device) >= share
    else:
        drawn = np.random.RandomState(seed).uniform(0, 1.0, x.shape) >= share
        kept = constant(drawn, call.device)
    scale = 1 / (1 - share) if share < 1 else 0.0
    return calor.where(kept, like(x * scale, x), 0), kept


@operator("Dropout", since=10, raw=True)
def dropout_10(call: Call, x: Any, *, ratio: float = 0.5) -> Any:
    """x itself; these opsets only infer."""
    return (x, truths(x, call)) if call.wants(1) else x


@operator("Dropout", since=7, raw=True)
def dropout_7(call: Call, x: Any, *, ratio: float = 0.5) -> Any:
    """As of opset 10, with a mask of the type of x."""
    return (x, like(truths(x, call), call.tensor(x))) if call.wants(1) else x


@operator("Dropout", raw=True)
def dropout_1(
    call: Call, x: Any, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: Any = None
) -> Any:
    """As of opset 7; a model of these opsets is taken to infer, whatever ``is_test`` says."""
    return dropout_7(call, x, ratio=ratio)
