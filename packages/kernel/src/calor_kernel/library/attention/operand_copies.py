"""Attention of operands with strided or unaligned rows: dense copies, then matrix instructions.

Requirements: images give queries and keys whose rows are strided, the transposes of their channels.
A copy is two passes over an operand at the speed of memory; without it each score is computed
element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calor_kernel.contract.work import Argument, Input, Request, Scratch, View, Work, row_major
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.steps import Steps, redirected


def with_copies(problem: Attention, request: Request) -> Request | None:
    """Return the request whose query, key and value have dense, aligned rows; None if it has."""
    views = list(request.inputs)
    for number in _numbers(problem):
        view = views[number]
        views[number] = View(view.shape, row_major(view.shape), view.dtype)
    return replace(request, inputs=tuple(views)) if tuple(views) != request.inputs else None


def after_copies(problem: Attention, request: Request, work: Work) -> Work:
    """Return the work of :func:`with_copies` on the operands of the request itself."""
    steps, memory = Steps(), dict[Argument, Argument]()
    for number in _numbers(problem):
        view = request.inputs[number]
        target = steps.memory(view.size * view.dtype.itemsize)
        steps.copy(view, Input(number), target, request.info)
        memory[Input(number)] = target
    copies = tuple(replace(launch, prepares=True) for launch in steps.launches)
    first = len(steps.scratch)
    memory |= {Scratch(k): Scratch(first + k) for k in range(len(work.scratch))}
    return replace(
        work,
        launches=(*copies, *(redirected(launch, memory) for launch in work.launches)),
        scratch=(*steps.scratch, *work.scratch),
        variant=f"copied {work.variant}",
    )


def _numbers(problem: Attention) -> Iterator[int]:
    """Yield the numbers of the operands that are copied."""
    for operand in (problem.query, problem.key, problem.value):
        if not _ready(operand, problem.access):
            yield operand.number


def _ready(operand: Operand, access: int) -> bool:
    """Return whether rows are dense and begin at whole accesses."""
    return operand.strides[3] == 1 and not any(
        n % access for n in (*operand.strides[:3], operand.offset)
    )
