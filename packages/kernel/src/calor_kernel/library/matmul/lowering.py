"""Lowering of matrix products: from ``dot_general`` to the ways of this family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from calor_kernel.contract.ways import Way, ranked
from calor_kernel.contract.work import Input, Refusal, Request, Work, lowering
from calor_kernel.library.matmul.complex_products import as_real
from calor_kernel.library.matmul.problem import copied, product_of
from calor_kernel.library.matmul.repeated_results import ranked_once, repeats
from calor_kernel.library.matmul.task import Task

# Cubes of this many units compute tiles together.
_UNITS = 64


@lowering("dot_general", strided=True, pitched=True)
def lower_dot_general(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a product, the likeliest first."""
    if request.inputs[0].dtype.kind == "storage":
        from calor_kernel.library.matmul.float8 import lower_float8

        return lower_float8(request, lower_dot_general)
    task = task_of(request)
    if request.pitches:
        return _pitched(task, request)
    if task.product.m * task.product.n * task.product.batches == 0:
        return [Work(())]
    if task.product.dtype.kind == "complex":
        task = as_real(task)
    if repeats(task.product):
        return ranked_once(ways_of(request), task, request)
    return ranked(ways_of(request), task, request)


def _pitched(task: Task, request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a product whose rows have a pitch."""
    product, ((length, pitch),) = task.product, request.pitches
    if repeats(product) or product.n != length:
        return Refusal("rows of its result are no lines of the last axis, or repeat")
    task = replace(task, product=replace(product, pitch=pitch))
    found = ranked(ways_of(request), task, request)
    return found or Refusal("none of its ways writes results with a pitch")


def ways_of(request: Request) -> Iterable[Way[Task]]:
    """Return the ways of a device's products."""
    if request.info.max_units >= _UNITS:
        from calor_kernel.library.matmul import gpu_ways

        return gpu_ways.WAYS
    from calor_kernel.library.matmul import cpu_ways

    return cpu_ways.WAYS


def task_of(request: Request) -> Task:
    """Return a product with its operands, copied where their axes do not merge."""
    product, views = product_of(request)
    for number, view in enumerate(views):
        if view is not None:
            request = copied(request, number, view)
    if product is None:
        product, _ = product_of(request)
    assert product is not None
    task = Task(product, (Input(0), Input(1)), request.info)
    for number, view in enumerate(views):
        if view is not None:
            task = task.copied(number, view)
    return task
