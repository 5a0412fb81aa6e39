"""The operands of attention in launches and in kernels.

Requirements: all kernels of the family take the same group of operands after their own parameters.
What changes a kernel's text is a build-time argument, and the rest is given at the launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Multiple, Typed, operand
from calor_kernel.contract.work import Output, Request, View
from calor_kernel.language.declared import ELEMENT, READS
from calor_kernel.library.attention.problem import Attention, access_of_rows

M = TypeVar("M")
N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Extra(Generic[M, N]):
    """A mask or a bias, and its strides along batch, head, query and key."""

    memory: Annotated[M, READS]
    strides: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class Operands(Generic[M, N]):
    """Query, key and value, the sizes and strides of each, and masks and biases.

    ``group`` query heads share a key head.
    """

    query: Annotated[M, READS]
    key: Annotated[M, READS]
    value: Annotated[M, READS]
    scale: Annotated[N, ELEMENT]
    heads: kl.SizeOf[N]
    key_heads: kl.SizeOf[N]
    group: kl.SizeOf[N]
    queries: kl.SizeOf[N]
    keys: kl.SizeOf[N]
    features: kl.SizeOf[N]
    query_strides: tuple[kl.StrideOf[N], ...]
    key_strides: tuple[kl.StrideOf[N], ...]
    value_strides: tuple[kl.StrideOf[N], ...]
    extras: tuple[Extra[M, N], ...]


@dataclass(frozen=True, slots=True)
class Upstream(Generic[M]):
    """The first operands of a gradient: the upstream gradient, delta, and the log-sum-exp.

    ``strides``: of the upstream gradient along batch, head and query, () if it is dense.
    ``result``: those of the result of the forward pass if that is given as delta, else ().
    ``rest``: what rounding dropped from the result, and ``rest_steps`` its strides.
    """

    gradient: Annotated[M, READS]
    delta: Annotated[M, READS]
    total: Annotated[M, READS]
    strides: tuple[kl.StrideOf[Any], ...]
    result: tuple[kl.StrideOf[Any], ...] = ()
    rest: Annotated[M, READS] | None = None
    rest_steps: tuple[kl.StrideOf[Any], ...] = ()


KernelOperands = Operands[kl.Pointer, kl.Number]


@dataclass(frozen=True, slots=True)
class ScoreForm:
    """What a kernel of scores is built for.

    ``kinds``: the kinds of the extras. ``adjusted``: whether all scores are scaled and adjusted,
    not only those of blocks with hidden scores. ``contiguous``: for query, key and value, whether
    features have a stride of 1. ``steps``: the strides of the extras along the keys, 0 or 1, and −1
    for others.
    """

    kinds: tuple[str, ...]
    causal: bool
    adjusted: bool = True
    contiguous: tuple[bool, ...] = ()
    steps: tuple[int, ...] = ()


def contiguous(problem: Attention) -> tuple[bool, bool, bool]:
    """Return whether features of query, key and value have a stride of 1."""
    p = problem
    query, key, value = (
        operand.strides[3] == 1 or width == 1
        for operand, width in ((p.query, p.features), (p.key, p.features), (p.value, p.values))
    )
    return query, key, value


def operands_of(problem: Attention, access: int = 1) -> Operands[Bound, object]:
    """Return the operands of a launch; rows begin at whole accesses of so many elements."""
    p = problem
    three = p.query, p.key, p.value
    query, key, value = (
        operand.bound.aligned(access * p.dtype.itemsize if access > 1 else 0) for operand in three
    )
    of_query, of_key, of_value = (
        (*(Multiple(step, access) for step in operand.strides[:3]), operand.strides[3])
        for operand in three
    )
    return Operands(
        query,
        key,
        value,
        Typed(float(p.scale), p.accumulate),
        p.heads,
        p.key_heads,
        p.group,
        p.queries,
        p.keys,
        Multiple(p.features, access),
        of_query,
        of_key,
        of_value,
        tuple(Extra(extra.bound, extra.strides) for extra in p.extras),
    )


def results_of(problem: Attention, request: Request, align: int = 0) -> dict[str, Bound | None]:
    """Return the results of a launch of the forward pass: rows, their log-sum-exp, and the rest.

    ``rest``: what rounding drops from the rows, where the gradient wants it.
    """
    p = problem
    rest = Bound(Output(2), p.dtype, align) if len(request.outputs) > 2 else None
    total = Bound(Output(1), p.accumulate)
    return {"out": Bound(Output(0), p.dtype, align), "total": total, "rest": rest}


def upstream_of(request: Request, align: int = 0) -> Upstream[Bound]:
    """Return the first three operands of a gradient; the rows of the first may lie apart."""
    gradient, delta, total = (
        operand(i, view).aligned(align) for i, view in enumerate(request.inputs[:3])
    )
    first, second = request.inputs[:2]
    item = int(first.dtype.itemsize)
    own = access_of_rows(first.dtype, first.shape[3])
    strides = () if first.is_dense else _row_strides(first, own)
    access = max(align // item, 1)
    result = _row_strides(second, access) if len(second.shape) > 3 else ()
    made = Upstream(gradient, delta, total, strides, result)
    if not request.attributes.get("rest"):
        return made
    rest = request.inputs[3]
    return replace(
        made, rest=operand(3, rest).aligned(align), rest_steps=_row_strides(rest, access)
    )


def _row_strides(view: View, access: int) -> tuple[Multiple, ...]:
    pairs = zip(view.shape[:3], view.strides[:3], strict=True)
    return tuple(Multiple(0 if n == 1 else s, access) for n, s in pairs)


def reads_in_place(view: View, info: DeviceInfo) -> bool:
    """Return whether kernels read an upstream gradient as it lies.

    Most kernels of cubes of one unit take all of it dense.
    """
    return view.is_dense or (info.max_units > 1 and has_whole_rows(view))


def has_whole_rows(view: View) -> bool:
    """Return whether the rows of an upstream gradient are dense and begin at whole accesses."""
    width, starts = view.shape[3], (*view.strides[:3], view.offset)
    dense, access = width == 1 or view.strides[3] == 1, access_of_rows(view.dtype, width)
    return dense and not any(n % access for n in starts)


def least_bytes(problem: Attention) -> int:
    """Return the bytes of query, key, value and result, each once."""
    p = problem
    queries = p.rows * (p.features + p.values)
    keys = p.batch * p.key_heads * p.keys * (p.features + p.values)
    nbytes: int = (queries + keys) * p.dtype.itemsize
    return nbytes


@dataclass(frozen=True, slots=True)
class Rows:
    """``count`` rows of ``width`` elements in global memory; ``contiguous``: ``step`` is 1."""

    memory: kl.Pointer
    at: kl.Index
    count: kl.Index
    width: kl.Index
    row_step: kl.Index
    step: kl.Index = 1
    contiguous: bool = True


def query_rows(g: KernelOperands, n: kl.Index, head: kl.Index, contiguous: bool = True) -> Rows:
    """Return the queries of a head."""
    return _rows(g.query, g.query_strides, n, head, g.queries, g.features, contiguous)


def key_rows(g: KernelOperands, n: kl.Index, head: kl.Index, contiguous: bool = True) -> Rows:
    """Return the keys of a key head."""
    return _rows(g.key, g.key_strides, n, head, g.keys, g.features, contiguous)


def value_rows(
    g: KernelOperands, n: kl.Index, head: kl.Index, width: kl.Index, contiguous: bool = True
) -> Rows:
    """Return the values of a key head."""
    return _rows(g.value, g.value_strides, n, head, g.keys, width, contiguous)


def _rows(
    memory: kl.Pointer,
    strides: tuple[kl.Number, ...],
    n: kl.Index,
    head: kl.Index,
    count: kl.Index,
    width: kl.Index,
    contiguous: bool,
) -> Rows:
    at = n * strides[0] + head * strides[1]
    return Rows(memory, at, count, width, strides[2], strides[3], contiguous)


def upstream_rows(
    up: Upstream[kl.Pointer], row_at: kl.Index, g: KernelOperands, width: kl.Index
) -> Rows:
    """Return the upstream gradients of a head whose rows begin at ``row_at`` if they are dense."""
    if not up.strides:
        return Rows(up.gradient, row_at * width, g.queries, width, width)
    head = row_at // g.queries
    at = head // g.heads * up.strides[0] + head % g.heads * up.strides[1]
    return Rows(up.gradient, at, g.queries, width, up.strides[2])


def finite(x: kl.Number) -> kl.Number:
    """Return x with 0 for −inf and NaN, so that −inf minus it is −inf."""
    return kl.select(x > -math.inf, x, 0.0)


@kl.helper
def extras_of(
    there: kl.Mask,
    g: KernelOperands,
    form: ScoreForm,
    n: kl.Index,
    head: kl.Index,
    i: kl.Index,
    j: kl.Index,
) -> list[kl.Number]:
    """Return the biases and the elements of masks of query i and key j if it is ``there``."""
    made = []
    for kind, extra in zip(form.kinds, g.extras, strict=True):
        steps = extra.strides
        at = n * steps[0] + head * steps[1] + i * steps[2] + j * steps[3]
        mask, other = None if there is True else there, 0 if kind == "bias" else False
        made.append(extra.memory.load(at, mask=mask, other=other))
    return made


@kl.helper
def visible(
    x: kl.Number,
    there: kl.Mask,
    g: KernelOperands,
    form: ScoreForm,
    n: kl.Index,
    head: kl.Index,
    i: kl.Index,
    j: kl.Index,
    extras: Sequence[kl.Number] | None = None,
) -> kl.Number:
    """Return the score of query i and key j with biases; −inf if hidden, or not ``there``.

    ``extras``: what :func:`extras_of` returned, if it was called before.
    """
    seen = there
    extras = extras_of(there, g, form, n, head, i, j) if extras is None else extras
    for kind, extra in zip(form.kinds, extras, strict=True):
        if kind == "bias":
            x = x + extra.to(x.dtype)
        else:
            seen = seen & extra
    if form.causal:
        seen = seen & (j <= i)
    return x if seen is True else kl.select(seen, x, -math.inf)
