"""Faults of composites that a device takes whole and computes in a way of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function

from .base import Array, Fault, changing


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _unshifted(right: Function) -> Function:
    def softmax(x: Array, *, axis: int) -> Array:
        powers = np.exp(_wide(x))
        made: Array = (powers / powers.sum(axis, keepdims=True)).astype(x.dtype)
        return made

    return softmax


def _unshifted_logarithm(right: Function) -> Function:
    def log_softmax(x: Array, *, axis: int) -> Array:
        wide = _wide(x)
        made: Array = (wide - np.log(np.exp(wide).sum(axis, keepdims=True))).astype(x.dtype)
        return made

    return log_softmax


def _one_pass(right: Function) -> Function:
    def standardize(x: Array, *, axes: Any, eps: float) -> Any:
        wide = _wide(x)
        mean = wide.mean(axes, keepdims=True)
        variance = np.maximum((wide * wide).mean(axes, keepdims=True) - mean * mean, 0)
        y = ((wide - mean) / np.sqrt(variance + wide.dtype.type(eps))).astype(x.dtype)
        return y, np.squeeze(mean, axes), np.squeeze(variance, axes)

    return standardize


def _half_moments(right: Function) -> Function:
    def rms_norm(x: Array, *, axes: Any, eps: float) -> Any:
        square = _wide(x * x).mean(axes, keepdims=True)
        y = _wide(x) / np.sqrt(square + square.dtype.type(eps))
        return y.astype(x.dtype), np.squeeze(square, axes)

    return rms_norm


def _gate_overflows(right: Function) -> Function:
    def sigmoid(x: Array) -> Array:
        power = np.exp(_wide(x))
        made: Array = (power / (power + power.dtype.type(1))).astype(x.dtype)
        return made

    return sigmoid


def _plain_attention(right: Function) -> Function:
    def attention(q: Array, k: Array, v: Array, *extras: Array, causal: bool, scale: float) -> Any:
        from ..rows.tables.attention import _scores

        wide = _wide(q)
        powers = np.exp(_scores(wide, _wide(k), extras, causal, scale)).astype(wide.dtype)
        total = powers.sum(-1)
        values = np.repeat(_wide(v), q.shape[1] // v.shape[1], 1)
        made = np.einsum("nhls,nhsv->nhlv", powers, values) / total[..., None]
        return made.astype(q.dtype), np.log(total)

    return attention


FAULTS = [
    Fault(
        "softmax-overflows",
        "softmax is taken whole, without the shift by the maximum",
        changing(softmax=_unshifted),
        ("values/softmax-large/float32",),
        ("softmax",),
    ),
    Fault(
        "log-softmax-overflows",
        "log_softmax is taken whole, without the shift by the maximum",
        changing(log_softmax=_unshifted_logarithm),
        ("values/log_softmax-large/float32",),
        ("log_softmax",),
    ),
    Fault(
        "sigmoid-overflows",
        "sigmoid is exp(x) / (exp(x) + 1), NaN for large numbers",
        changing(sigmoid=_gate_overflows),
        ("special/sigmoid/float32",),
        ("sigmoid",),
    ),
    Fault(
        "attention-overflows",
        "attention is taken whole, without the shift by the maximum of each row",
        changing(attention=_plain_attention),
        ("values/attention-large/float32",),
        ("attention",),
    ),
    Fault(
        "variance-in-one-pass",
        "standardize takes the variance as E[x²] − E[x]², whose digits cancel",
        changing(standardize=_one_pass),
        ("values/standardize-offset/float32",),
        ("standardize",),
    ),
    Fault(
        "squares-in-half",
        "rms_norm of float16 squares in float16, which overflows",
        changing(rms_norm=_half_moments),
        ("values/rms_norm-squares/float16",),
        ("rms_norm",),
    ),
]
