"""Products of broadcast operands: what all rows or columns share is computed once.

Requirements: the gradient of a sum is a product with one number for all rows, and its rows are the
same. So a broadcast free axis, and a batch axis of two broadcast operands, has one element in the
product, and a copy repeats the result. Each element has the bits that it has without this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from calor_kernel.contract.ways import Way, ranked
from calor_kernel.contract.work import Candidates, Output, Request, View, Work, row_major
from calor_kernel.library.matmul.problem import Product
from calor_kernel.library.matmul.task import Task
from calor_kernel.library.steps import Steps, redirected


def shared(product: Product) -> Product:
    """Return the product with one element along each axis along which the result repeats."""
    a, b = product.a, product.b
    both = zip(product.batch, a.batch, b.batch, strict=True)
    outer, inner = (1 if n > 1 and s == t == 0 else n for n, s, t in both)
    m = 1 if product.m > 1 and a.free == 0 else product.m
    n = 1 if product.n > 1 and b.free == 0 else product.n
    return replace(product, batch=(outer, inner), m=m, n=n)


def repeats(product: Product) -> bool:
    """Return whether the result repeats along an axis.

    >>> from calor.dtypes import float32
    >>> from calor_kernel.library.matmul.problem import Operand
    >>> ones, w = Operand((0, 0), 0, 0, 0, float32), Operand((0, 0), 1, 8, 0, float32)
    >>> repeats(Product((1, 1), 4, 8, 8, ones, w, float32))
    True
    """
    a, b = product.a, product.b
    lone = (product.m > 1 and a.free == 0) or (product.n > 1 and b.free == 0)
    pairs = zip(product.batch, a.batch, b.batch, strict=True)
    return lone or any(n > 1 and s == t == 0 for n, s, t in pairs)


def ranked_once(ways: Iterable[Way[Task]], task: Task, request: Request) -> Candidates:
    """Return the candidates of a product whose result repeats, each with the copy that does it."""
    product, info = task.product, task.info
    made = shared(product)
    count = made.batches * made.m * made.n
    place, once = replace(task, product=made).room(count * product.dtype.itemsize)
    shape = (*made.batch, made.m, made.n)
    wanted = (*product.batch, product.m, product.n)
    steps = [s if n == w else 0 for n, w, s in zip(shape, wanted, row_major(shape), strict=True)]
    copy = Steps()
    copy.copy(View(wanted, tuple(steps), product.dtype), place, Output(0), info)
    assert not copy.scratch
    found = ranked(ways, once, request)
    works = [_then(work, place, copy) for work in found]
    return Candidates.of(works, found.dropped)


def _then(work: Work, place: object, copy: Steps) -> Work:
    launches = [redirected(launch, {Output(0): place}) for launch in work.launches]  # type: ignore[dict-item]
    return replace(work, launches=(*launches, *copy.launches))
