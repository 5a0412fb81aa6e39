"""Rows that call a function of the host: pure ones, and those that keep their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import int32
from calor.errors import ArgumentError
from calor.graph.host_call import HostCall
from calor.ops.base import Op, op
from calor.specs import Spec, spec

_TOKEN = spec((), int32)
_NO_GRADIENT = (
    "a function of the host has no gradient; give it one: calor.custom_vjp around the callback"
)


def _rule(*operands: Spec, call: HostCall) -> tuple[Spec, ...]:
    return call.results


def _ordered_rule(token: Spec, *operands: Spec, call: HostCall) -> tuple[Spec, ...]:
    return (_TOKEN, *call.results)


def _each(size: int, mapped: tuple[bool, ...], *operands: Any, call: HostCall) -> Any:
    """Call the function once for each element of a mapped axis."""

    def function(*arrays: Any) -> list[Any]:
        rows = [
            call(*[x[i] if m else x for x, m in zip(arrays, mapped, strict=True)])
            for i in range(size)
        ]
        return [
            np.stack(made) if made else np.empty(s.shape, s.dtype.numpy)
            for made, s in zip(zip(*rows, strict=True) if rows else [()] * len(results), results)  # noqa: B905 - of one length
        ]

    results = [spec((size, *s.shape), s.dtype) for s in call.results]
    return callback(*operands, call=HostCall(function, (call, mapped), call.name, results))


def _refused(size: int, mapped: tuple[bool, ...], *operands: Any, call: HostCall) -> Any:
    raise ArgumentError(
        f"vmap: {call.name} is called in order, and what it does has no order along a mapped axis; "
        f"leave out ordered=True, or loop with calor.scan"
    )


callback: Op = op(
    "callback",
    _rule,
    lambda *operands, call: call(*operands),
    no_gradient=_NO_GRADIENT,
    batch=_each,
)
# Its first operand and result are the device's token, so that calls keep their order.
ordered_callback: Op = op(
    "ordered_callback",
    _ordered_rule,
    lambda token, *operands, call: (np.array(token), *call(*operands)),
    no_gradient=_NO_GRADIENT,
    batch=_refused,
)
