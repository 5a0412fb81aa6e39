"""Products with the elementwise work that follows them, as one launch where a way can do that.

Requirements: the ways and their order are those of the product alone. A way whose kernel takes no
epilogue computes the product to scratch memory, and the chain is a launch of its own, as without
fusion. So no way needs to know epilogues, and none is silently without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.movement import permuted, reshaped_strides
from calor_kernel.contract.ways import ranked
from calor_kernel.contract.work import (
    Argument,
    Candidates,
    Input,
    Lowering,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
    lowering,
)
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.paths import along
from calor_kernel.library.gemm.epilogue import Extra, Tail
from calor_kernel.library.matmul.lowering import lower_dot_general, task_of, ways_of
from calor_kernel.library.matmul.repeated_results import repeats
from calor_kernel.library.steps import redirected

PRODUCT_CHAIN: Final = "product_chain"


@lowering(PRODUCT_CHAIN, strided=True)
def lower_product_chain(request: Request) -> Sequence[Work] | Refusal:
    """Lower a product with an ``expression`` of its result and of ``operands``.

    The first two inputs are the product's, with the attributes of ``dot_general``; ``product`` is
    the spec of its result. ``operands``: pairs of an input's index and a path, as for chains.
    """
    return chained(request, "dot_general", lower_dot_general, _fused)


TailOf = Callable[[int, int, int], Tail | None]
"""Returns the epilogue for a number of products, of rows and of columns; None if none fits."""


def chained(
    request: Request,
    op: str,
    lower: Lowering,
    fused: Callable[[Request, TailOf], Iterable[Work]],
) -> Sequence[Work] | Refusal:
    """Return the works of an op and the chain after it.

    ``fused``: the op's ways with the epilogue; of these, the ones whose kernels take it are used,
    each in the place that the way without it has among the op's own. An attribute ``order`` says
    that the result has the axes of the product in another order.
    """
    product: Spec = request.attributes["product"]
    order = request.attributes.get("order", range(product.ndim))
    result = spec_of(tuple(product.shape[axis] for axis in order), product.dtype)
    own = ("expression", "operands", "product")
    attributes = {name: value for name, value in request.attributes.items() if name not in own}
    alone = replace(
        request, op=op, attributes=attributes, inputs=request.inputs[:2], outputs=(result,)
    )
    plain = lower(alone)
    if isinstance(plain, Refusal):
        return plain
    views = extra_views(request, product)
    if isinstance(views, Refusal):
        return views
    views = [(number, permuted(view, order)) for number, view in views]

    def tail_of(*sizes: int) -> Tail | None:
        extras = extras_of(views, sizes)
        results = tuple(map(Output, range(1, len(request.outputs))))
        expression = request.attributes["expression"]
        return None if extras is None else Tail(expression, extras, results)

    known = {work.variant: work for work in fused(alone, tail_of) if _has_epilogue(work)}
    dropped = plain.dropped if isinstance(plain, Candidates) else ()
    made = (known.get(work.variant) or _apart(work, request, result, views) for work in plain)
    return Candidates.of(made, dropped)


Views = Sequence[tuple[int, View]]


def extra_views(request: Request, result: Spec) -> Views | Refusal:
    """Return the operands of a chain in the result's shape, each with the number of its input."""
    made = []
    for number, path in request.attributes["operands"]:
        view = along(path, request.inputs[number])
        strides = None
        if view is not None:
            strides = reshaped_strides(view.shape, view.strides, result.shape)
        if view is None or strides is None:
            return Refusal(f"operand {number} has no strides on its way")
        made.append((number, View(result.shape, strides, view.dtype, view.offset)))
    return made


def extras_of(views: Views, sizes: Sequence[int]) -> tuple[Extra, ...] | None:
    """Return the operands by strides of products, rows and columns; None if one has none."""
    extras = []
    for number, view in views:
        strides = reshaped_strides(view.shape, view.strides, tuple(sizes))
        if strides is None:
            return None
        # The stride of an axis of one element is any.
        batch, row, column = (0 if n == 1 else s for n, s in zip(sizes, strides, strict=True))
        place = Input(number, view.offset)
        extras.append(Extra(place, view.dtype, (batch, row, column), view.offset))
    return tuple(extras)


def _fused(dot: Request, tail_of: TailOf) -> Iterable[Work]:
    """Return the ways of a product with its epilogue."""
    if dot.inputs[0].dtype.kind in ("storage", "complex"):
        return ()
    task = task_of(dot)
    p = task.product
    if p.m * p.n * p.batches == 0 or repeats(p):
        return ()
    tail = tail_of(p.batches, p.m, p.n)
    return () if tail is None else ranked(ways_of(dot), replace(task, tail=tail), dot)


def _has_epilogue(work: Work) -> bool:
    """Return whether the last launch of a work was built with an epilogue."""
    last = work.launches[-1:]
    return any(name == "epilogue" for launch in last for name, _ in launch.build.keywords)


def _apart(work: Work, request: Request, result: Spec, views: Views) -> Work:
    """Return the work of a product alone, and of the chain after it."""
    target = Scratch(len(work.scratch))
    moved = tuple(redirected(la, {**_same(work), Output(0): target}) for la in work.launches)
    both = [View.dense(result), *(view for _, view in views)]
    expression = request.attributes["expression"]
    # The chain may have its results in another shape, of the same elements in the same order.
    outputs = [spec_of(result.shape, output.dtype) for output in request.outputs]
    chain = lower_expression(expression, both, outputs, request.info)[0]
    places: dict[Argument, Argument] = {Input(0): target}
    places |= {Input(k): Input(number) for k, (number, _) in enumerate(views, 1)}
    places |= {Output(k): Output(k) for k in range(len(request.outputs))}
    after = tuple(redirected(la, places) for la in chain.launches)
    scratch = (*work.scratch, prod(result.shape) * result.dtype.itemsize)
    return replace(work, launches=(*moved, *after), scratch=scratch, in_place=())


def _same(work: Work) -> Mapping[Argument, Argument]:
    """Return the operands and scratch blocks of a work, each in its place."""
    places: dict[Argument, Argument] = {Input(n): Input(n) for n in (0, 1)}
    return places | {Scratch(n): Scratch(n) for n in range(len(work.scratch))}
