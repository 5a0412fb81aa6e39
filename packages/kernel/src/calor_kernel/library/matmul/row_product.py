"""Products whose first operand is the result of a row program: a norm, then a product, one launch.

Requirements: the product is computed by GEMV, whose cubes compute the rows themselves; what follows
the product is its epilogue. Where that does not suit, the program is a launch of its own before the
product, so the lowering never refuses what the ops alone do not refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from calor.specs import Spec
from calor_kernel.contract.choices import greatest, spec_of
from calor_kernel.contract.ways import ranked
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Refusal,
    Request,
    View,
    Work,
    lowering,
)
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.matmul.gemv_plan import briefly, gemv_parts, gemv_plan
from calor_kernel.library.matmul.gemv_planes import gemv_launches
from calor_kernel.library.matmul.lowering import task_of, ways_of
from calor_kernel.library.matmul.product_chain import PRODUCT_CHAIN, extra_views, extras_of
from calor_kernel.library.matmul.repeated_results import repeats
from calor_kernel.library.matmul.row_prologue import prologue_of
from calor_kernel.library.matmul.task import Task
from calor_kernel.library.reduce.job import Problem
from calor_kernel.library.reduce.row_fuser import PROGRAM, RowAttributes, job_of
from calor_kernel.library.steps import Steps

ROW_PRODUCT: Final = "row_product"


@lowering(ROW_PRODUCT, strided=True)
def lower_row_product(request: Request) -> Sequence[Work]:
    """Lower a product of ``rows``, of the spec ``left``, with what follows it.

    Attributes are those of the product, or of a product with an ``expression``, and as ``rows`` the
    items of those of a row program. The inputs are the first one of the program, those of the
    product but its first, and the others of the program.
    """
    task, alone = task_with_epilogue(_product(request))
    problem, work = _problem(request), None
    if task is not None and problem is not None:
        work = with_prologue(task, problem, alone)
    if work is None:
        return [_apart(request)]
    return [work, _apart(request)] if request.candidates else [work]


def with_prologue(task: Task, problem: Problem, request: Request) -> Work | None:
    """Return the work of a product of few rows that a program computes, None if it does not suit.

    ``request``: that of the product alone, with a dense first operand.
    """
    product = task.product
    dense = product.a.depth == 1 and (product.m == 1 or product.a.free == product.k)
    if not dense or task.before or product.batches > 1 or product.m > product.n:
        return None
    found = problem.layout
    if (found.kept.count, found.along.count) != (product.m, product.k):
        return None
    if repeats(product) or ranked(ways_of(request), task, request)[0].variant != "gemv":
        return None
    plan = briefly(gemv_plan(product, task.info), product)
    parts = gemv_parts(product, plan, task.info)
    columns, rows, _ = task.tiles(plan.rows, plan.columns)
    before = prologue_of(problem, plan.units, plan.rows, columns * rows * parts * plan.planes)
    if before is None:
        return None
    task, launches = gemv_launches(task, plan, parts, False, before)
    return task.work(*launches, name="gemv with prologue")


def _product(request: Request) -> Request:
    """Return the request of the product with what follows it, on its dense first operand."""
    attributes = {n: v for n, v in request.attributes.items() if n not in ("rows", "left", "count")}
    left = View.dense(request.attributes["left"])
    inputs = (left, *request.inputs[1 : request.attributes["count"]])
    op = PRODUCT_CHAIN if "expression" in attributes else "dot_general"
    return replace(request, op=op, attributes=attributes, inputs=inputs)


def _problem(request: Request) -> Problem | None:
    """Return the row program on its operands, None if one has no strides in the rows' shape."""
    found = job_of(cast(RowAttributes, dict(request.attributes["rows"])), request.inputs)
    return None if found is None else Problem(*found, request.info)


def task_with_epilogue(made: Request) -> tuple[Task | None, Request]:
    """Return a product with its epilogue, None if no kernel has that; and the product's request."""
    if made.op != PRODUCT_CHAIN:
        return task_of(made), made
    result: Spec = made.attributes["product"]
    own = ("expression", "operands", "product")
    attributes = {name: value for name, value in made.attributes.items() if name not in own}
    alone = replace(
        made, op="dot_general", attributes=attributes, inputs=made.inputs[:2], outputs=(result,)
    )
    views, task = extra_views(made, result), task_of(alone)
    if isinstance(views, Refusal):
        return None, alone
    p = task.product
    extras = extras_of(views, (p.batches, p.m, p.n))
    if extras is None:
        return None, alone
    results = tuple(map(Output, range(1, len(made.outputs))))
    return replace(task, tail=Tail(made.attributes["expression"], extras, results)), alone


def _apart(request: Request) -> Work:
    """Return the launches of the row program, and those of the product on its result."""
    left: Spec = request.attributes["left"]
    steps, rows = Steps(), dict[str, Any](request.attributes["rows"])
    place = steps.memory(greatest(left.nbytes, 1))
    steps.include(
        request,
        PROGRAM,
        rows,
        [(view, Input(k)) for k, view in enumerate(request.inputs)],
        [(spec_of(rows["shape"], left.dtype), place)],
    )
    product = _product(request)
    operands: list[tuple[View, Argument]] = [(product.inputs[0], place)]
    operands += [(view, Input(k)) for k, view in enumerate(product.inputs[1:], 1)]
    results = [(spec, Output(k)) for k, spec in enumerate(request.outputs)]
    steps.include(request, product.op, product.attributes, operands, results)
    return steps.work("apart")
