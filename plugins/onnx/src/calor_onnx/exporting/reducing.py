"""Reductions, scans, sorting, softmax, norms and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import bool_, int32, int64, uint64
from calor_onnx.exporting.graphs import row
from calor_onnx.exporting.program import Step
from calor_onnx.exporting.sizes import Size
from calor_onnx.exporting.writer import Writer


def _reduced(w: Writer, operator: str, x: str, axes: Any) -> str:
    if not axes:
        return x
    return w.call(operator, x, w.integers(axes), typed=[0], keepdims=0)


def _ordered(w: Writer, x: str) -> str:
    """Flip the highest bit of uint64, which maps its order to that of int64 and back."""
    if w.type_of(x) is not uint64:
        return x
    return w.call("BitwiseXor", x, w.constant(1 << 63, uint64))


@row("sum", "prod")
def total(w: Writer, step: Step, x: str) -> str:
    dtype = step.attributes["dtype"]
    # The sum is computed in the wider of the two types.
    wide = dtype.itemsize >= w.type_of(x).itemsize
    operator = "ReduceSum" if step.op.name == "sum" else "ReduceProd"
    made = _reduced(w, operator, w.cast(x, dtype) if wide else x, step.attributes["axes"])
    return w.cast(made, dtype)


@row("max", "min")
def extreme(w: Writer, step: Step, x: str) -> str:
    operator = "ReduceMax" if step.op.name == "max" else "ReduceMin"
    return _ordered(w, _reduced(w, operator, _ordered(w, x), step.attributes["axes"]))


@row("any", "all")
def truth(w: Writer, step: Step, x: str) -> str:
    if w.type_of(x) is not bool_:
        x = w.call("Not", w.call("Equal", x, w.constant(0, w.type_of(x)), result=bool_))
    # Counting nonzero elements is right for an empty axis too.
    counted = w.cast(x if step.op.name == "any" else w.call("Not", x), int32)
    count = _reduced(w, "ReduceSum", counted, step.attributes["axes"])
    found = w.call("Greater", count, w.constant(0, int32), result=bool_)
    return found if step.op.name == "any" else w.call("Not", found)


@row("argmax", "argmin")
def arg(w: Writer, step: Step, x: str) -> str:
    operator = "ArgMax" if step.op.name == "argmax" else "ArgMin"
    return w.call(operator, _ordered(w, x), result=int64, axis=step.attributes["axis"], keepdims=0)


@row("cumsum", "cumprod")
def cumulative(w: Writer, step: Step, x: str) -> str | None:
    operator = "CumSum" if step.op.name == "cumsum" else "CumProd"
    if not w.has(operator):
        return None
    axis = w.constant(step.attributes["axis"], int64)
    return w.call(operator, x, axis, typed=[0], reverse=int(step.attributes["reverse"]))


@row("sort")
def sort(w: Writer, step: Step, x: str) -> tuple[str, str]:
    from calor_onnx.exporting.kernels import computed_in

    axis, dtype = step.attributes["axis"], w.type_of(x)
    x = _ordered(w, x)
    work = computed_in("TopK", dtype) or dtype
    values, places = w.emit(
        "TopK",
        [w.cast(x, work), w.size(step.takes[0].shape[axis])],
        (work, int64),
        axis=axis,
        largest=int(step.attributes["descending"]),
        sorted=1,
    )
    return _ordered(w, w.cast(values, dtype)), places


@row("softmax", "log_softmax")
def softmax(w: Writer, step: Step, x: str) -> str:
    operator = "Softmax" if step.op.name == "softmax" else "LogSoftmax"
    return w.call(operator, x, axis=step.attributes["axis"])


@row("standardize", "rms_norm")
def norm(w: Writer, step: Step, x: str) -> Any:
    operator = "LayerNormalization" if step.op.name == "standardize" else "RMSNormalization"
    axes, shape = sorted(step.attributes["axes"]), step.takes[0].shape
    trailing = axes == list(range(len(shape) - len(axes), len(shape)))
    sizes = [shape[a] for a in axes]
    simple = trailing and bool(axes) and not any(isinstance(n, Size) or not n for n in sizes)
    if not simple or any(step.wanted[1:]) or not w.has(operator):
        return None
    ones = w.constant(np.ones(sizes, step.gives[0].dtype.numpy), name="ones")
    w.shared.ones.add(ones)
    made = w.call(operator, x, ones, axis=axes[0], epsilon=step.attributes["eps"])
    return (made, *("" for _ in step.gives[1:]))


@row("attention")
def attention(w: Writer, step: Step, query: str, key: str, value: str, *extras: str) -> Any:
    # A mask may hide all keys of a row: calor gives 0, ONNX NaN.
    masked = any(w.type_of(x) is bool_ for x in extras)
    causal = step.attributes["causal"]
    square = step.takes[0].shape[2] == step.takes[1].shape[2]
    if masked or len(extras) > 1 or step.wanted[1] or not w.has("Attention"):
        return None
    if causal and (extras or not square):
        return None
    scale = step.attributes["scale"]
    given = [query, key, value, *extras]
    return w.call("Attention", *given, is_causal=int(causal), scale=scale), ""
