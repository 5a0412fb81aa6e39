"""Lowering of gradients of attention that compute their delta from the result of the forward pass.

Requirements: the result of the forward pass stands in the place of delta among the operands, and
what rounding dropped from it, with the attribute ``rest``, behind the log-sum-exp. Where no
launch has all rows of a head, delta has launches of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.work import Argument, Input, Output, Refusal, Request, View, Work
from calor_kernel.library.attention.lowering import (
    gradient_of_rows,
    order_refusal,
    reads_upstream,
)
from calor_kernel.library.attention.problem import attention_of
from calor_kernel.library.steps import Steps

_GRADIENT: Final = "attention_gradient"


def suits(request: Request) -> bool:
    """Return whether one launch computes the gradients, whose operands are those of the op here."""
    return _joined(request) is not None


def _joined(request: Request) -> Work | None:
    """Return the one launch, None if it does not suit."""
    problem = attention_of(request, _first(request))
    results = (request.inputs[1], *request.inputs[3 : _first(request)])
    if not reads_upstream(problem, request) or any(r.strides[3] != 1 for r in results):
        return None
    return gradient_of_rows(problem, request)


def _first(request: Request) -> int:
    """Return the number of the query among the operands."""
    return 3 + bool(request.attributes.get("rest"))


def gradient_of_result(request: Request) -> Sequence[Work] | Refusal:
    """Return the work of the gradients of query, key and value.

    Operands are the upstream gradient, the result, the log-sum-exp, the rest of the result if there
    is one, and those of attention.
    """
    refused = order_refusal(request)
    if refused is not None:
        return refused
    made = _joined(request) or _apart(request)
    return made if isinstance(made, Refusal) else [made]


def _apart(request: Request) -> Work | Refusal:
    """Return the launches of delta, and those of the gradients; or why these are refused."""
    steps, shape = Steps(), request.inputs[0].shape
    total = request.inputs[2]
    wide, row = spec_of(shape, total.dtype), spec_of(shape[:3], total.dtype)
    first = _first(request)
    factors: list[tuple[View, Argument]] = []
    for number in (0, 1, *range(3, first)):
        view, place = request.inputs[number], Input(number)
        if view.dtype is not wide.dtype:
            made = steps.memory(wide.nbytes)
            steps.include(request, "cast", {"dtype": wide.dtype}, [(view, place)], [(wide, made)])
            factors.append((View.dense(wide), made))
        else:
            factors.append((view, place))
    if len(factors) > 2:
        whole = steps.memory(wide.nbytes)
        steps.include(request, "add", {}, factors[1:], [(wide, whole)])
        factors[1:] = [(View.dense(wide), whole)]
    product, delta = steps.memory(wide.nbytes), steps.memory(row.nbytes)
    steps.include(request, "mul", {}, factors, [(wide, product)])
    summed = {"axes": (3,), "dtype": row.dtype}
    steps.include(request, "sum", summed, [(View.dense(wide), product)], [(row, delta)])
    operands: list[tuple[View, Argument]] = [
        (view, Input(number)) for number, view in enumerate(request.inputs)
    ]
    operands[1] = View.dense(row), delta
    del operands[3:first]
    results = [(spec, Output(k)) for k, spec in enumerate(request.outputs)]
    said = {name: value for name, value in request.attributes.items() if name != "rest"}
    return steps.try_include(request, _GRADIENT, said, operands, results) or steps.work()
