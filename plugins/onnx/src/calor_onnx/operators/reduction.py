"""Reductions, the places of extremes, and running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.errors import ModelError
from calor_onnx.operators.elementwise import divided
from calor_onnx.operators.shape import axis_of
from calor_onnx.registry import operator

Axes = tuple[int, ...]


def _sum(x: Any, axes: Axes, keep: bool) -> Any:
    return calor.sum(x, axis=axes, dtype=x.dtype, keepdims=keep)


def _mean(x: Any, axes: Axes, keep: bool) -> Any:
    if x.dtype.is_inexact:
        return calor.mean(x, axis=axes, keepdims=keep)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return divided(_sum(x, axes, keep), calor.full((), count, dtype=x.dtype, device=x.device))


def _log_sum_exp(x: Any, axes: Axes, keep: bool) -> Any:
    if x.dtype.is_inexact:
        return calor.logsumexp(x, axis=axes, keepdims=keep)
    return like(calor.logsumexp(calor.astype(x, calor.float64), axis=axes, keepdims=keep), x)


def _root(x: Any) -> Any:
    return calor.sqrt(x) if x.dtype.is_inexact else like(calor.sqrt(like(x, calor.float64)), x)


def _log(x: Any) -> Any:
    return calor.log(x) if x.dtype.is_inexact else like(calor.log(like(x, calor.float64)), x)


def _extreme(function: Callable[..., Any], low: bool) -> Callable[..., Any]:
    """Return max or min; over no element it is the other end of the type."""

    def reduced(x: Any, axes: Axes, keep: bool) -> Any:
        if any(x.shape[axis] == 0 for axis in axes):
            shape = _shape(x, axes, keep)
            return calor.full(shape, _end(x.dtype, low), dtype=x.dtype, device=x.device)
        if x.dtype is calor.bool_:
            return like(function(calor.astype(x, calor.uint8), axis=axes, keepdims=keep), x)
        return function(x, axis=axes, keepdims=keep)

    return reduced


def _shape(x: Any, axes: Axes, keep: bool) -> tuple[int, ...]:
    kept = [(1 if i in axes else n) for i, n in enumerate(x.shape) if keep or i not in axes]
    return tuple(kept)


def _end(dtype: Any, low: bool) -> Any:
    if dtype is calor.bool_:
        return not low
    if dtype.is_integer:
        limits = calor.iinfo(dtype)
        return limits.min if low else limits.max
    return -inf if low else inf


REDUCTIONS: dict[str, Callable[[Any, Axes, bool], Any]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": lambda x, axes, keep: calor.prod(x, axis=axes, dtype=x.dtype, keepdims=keep),
    "ReduceMax": _extreme(calor.max, True),
    "ReduceMin": _extreme(calor.min, False),
    "ReduceL1": lambda x, axes, keep: _sum(calor.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: like(_root(_sum(calor.square(wide(x)), axes, keep)), x),
    "ReduceSumSquare": lambda x, axes, keep: like(_sum(calor.square(wide(x)), axes, keep), x),
    "ReduceLogSum": lambda x, axes, keep: like(_log(_sum(wide(x), axes, keep)), x),
    "ReduceLogSumExp": _log_sum_exp,
}
# First opsets in which axes are an input.
AXES_INPUT = {"ReduceSum": 13}


def axes_of(axes: Any, ndim: int, nothing: bool) -> Axes:
    """Return axes as non-negative numbers: all of them without any, or none with ``nothing``."""
    if not axes:
        return () if nothing else tuple(range(ndim))
    if any(not -ndim <= axis < ndim for axis in axes):
        raise ModelError(f"axes {list(axes)} do not fit {ndim} axes")
    return tuple(sorted({axis % ndim for axis in axes}))


def _register(name: str, function: Callable[[Any, Axes, bool], Any]) -> None:
    def old(call: Call, x: Any, *, axes: list[int] | None = None, keepdims: int = 1) -> Any:
        return function(x, axes_of(axes, x.ndim, False), bool(keepdims))

    def new(
        call: Call, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        given = None if axes is None else call.integers(axes)
        return function(x, axes_of(given, x.ndim, bool(noop_with_empty_axes)), bool(keepdims))

    operator(name)(old)
    operator(name, since=AXES_INPUT.get(name, 18), host=[1])(new)


for _name, _function in REDUCTIONS.items():
    _register(_name, _function)


def _place(name: str, function: Callable[..., Any]) -> None:
    def found(
        call: Call, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Any:
        if not select_last_index:
            return function(x, axis=axis, keepdims=bool(keepdims))
        last = x.shape[axis] - 1
        return last - function(calor.flip(x, axis=axis), axis=axis, keepdims=bool(keepdims))

    operator(name)(found)


_place("ArgMax", calor.argmax)
_place("ArgMin", calor.argmin)


def _running(name: str, function: Callable[..., Any], start: int) -> None:
    def run(call: Call, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
        (along,) = call.integers(axis)
        along = axis_of(along, x.ndim, name)
        if reverse:
            x = calor.flip(x, axis=along)
        made = function(x, axis=along, dtype=x.dtype, include_initial=bool(exclusive))
        if exclusive:
            index = [slice(None)] * x.ndim
            index[along] = slice(0, x.shape[along])
            made = made[tuple(index)]
        return calor.flip(made, axis=along) if reverse else made

    operator(name, since=start, host=[1])(run)


_running("CumSum", calor.cumulative_sum, 11)
_running("CumProd", calor.cumulative_prod, 26)
