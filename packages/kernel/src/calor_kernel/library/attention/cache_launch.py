"""Lowering of attention to caches of which the launch writes a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Argument, Input, Launch, Output, Request, View, Work
from calor_kernel.library.attention.problem import attention_of
from calor_kernel.library.attention.split_keys import Caches
from calor_kernel.library.attention.split_keys_launch import add_splits, split_refusal
from calor_kernel.library.copying import dense_copy
from calor_kernel.library.steps import Steps

# The axis of a cache along which rows lie.
_ROWS = 2


def cached(request: Request) -> Sequence[Work]:
    """Return the work of the updates of both caches and of the attention to them.

    Operands are the query, both caches, both rows, the starts of the updates, and the extras of
    attention; results are those of attention, without the log-sum-exp, and both caches.
    """
    query, *caches, key, value, starts = request.inputs[:6]
    made = request.outputs[1:]
    inner = replace(request, inputs=(query, *map(View.dense, made), *request.inputs[6:]))
    problem, row = attention_of(inner), attention_of(replace(inner, inputs=(query, key, value)))
    problem = replace(
        problem,
        key=replace(row.key, number=3),
        value=replace(row.value, number=4),
        extras=tuple(replace(extra, number=extra.number + 3) for extra in problem.extras),
    )
    steps = Steps()
    total = steps.room(problem.rows, problem.accumulate)
    if not problem.rows or split_refusal(problem, request) is not None:
        _apart(steps, request, total)
        return [steps.work()]
    for number, (cache, result) in enumerate(zip(caches, made, strict=True), 1):
        steps.launches += [
            _moved(launch, number) for launch in dense_copy(cache, result, request.info)
        ]
    at = starts.offset + _ROWS * starts.strides[0]
    align = problem.access * problem.dtype.itemsize
    keys, values = (Bound(Output(n), problem.dtype, align) for n in (1, 2))
    written: Caches[Bound, int] = Caches(keys, values, Bound(Input(5, at), starts.dtype))
    results = {"out": Bound(Output(0), problem.dtype), "total": total, "rest": None}
    add_splits(steps, problem, request, results, written)
    return [replace(steps.work(), in_place=((1, 1), (2, 2)))]


def _moved(launch: Launch, number: int) -> Launch:
    """Return the copy of operand 0 to result 0 as one of others."""
    arguments = [
        replace(given, number=number) if isinstance(given, Input | Output) else given
        for given in launch.arguments
    ]
    return replace(launch, arguments=tuple(arguments), copies=number)


def _apart(steps: Steps, request: Request, total: Bound) -> None:
    """Add the launches of each op."""
    views, (out, *made) = request.inputs, request.outputs
    operands: list[tuple[View, Argument]]
    for number, result in enumerate(made, 1):
        operands = [(views[n], Input(n)) for n in (number, number + 2, 5)]
        steps.include(request, "dynamic_update_slice", {}, operands, [(result, Output(number))])
    operands = [(views[0], Input(0))]
    operands += [(View.dense(result), Output(n)) for n, result in enumerate(made, 1)]
    operands += [(views[n], Input(n)) for n in range(6, len(views))]
    results = (out, Output(0)), (spec_of(out.shape[:3], total.dtype), total.place)
    steps.include(request, "attention", request.attributes, operands, results)
