"""Reductions of any view, result by result: the general body.

Requirements: any kind, type, rank and strides, on every device. The terms of a result are taken in
index order, so that the result is the same everywhere. On a CPU a unit computes a vector of results
and gathers their terms.
"""

from __future__ import annotations

from collections.abc import Callable

from calor.dtypes import DType, int64, real_of
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Output, Request, Work
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import Complex, Value, load, parts, store, stored
from calor_kernel.library.reduce.job import Layout, Strided
from calor_kernel.library.reduce.program import real
from calor_kernel.library.reduce.reduction_ops import INDICES, ReductionOp, working

State = tuple[Value, kl.Number]
"""The total or the best value so far, and its index."""
Step = Callable[[State, kl.Number, kl.Index], State]


@kl.kernel
def reduce_general(
    x: kl.In,
    out: kl.Out,
    count: kl.Size,
    kept: Strided[kl.Number],
    reduced: Strided[kl.Number],
    *,
    op: ReductionOp,
    source: DType,
    result: DType,
    width: int,
) -> None:
    """Compute ``width`` results a unit, of ``count``."""
    first = kl.absolute_position() * width
    if first < count:
        index = first + kl.constant(tuple(kl.range(width)), first.dtype) if width > 1 else first
        # Indices beyond the end are clamped to the last one.
        index = kl.select(index < count, index, count - 1) if width > 1 else index
        base = kl.offset_of(kl.unravel(index, kept.sizes), kept.strides)

        def read(at: kl.Number) -> Value:
            return converted(load(x, source, at, at.width), source, op.dtype)

        zero = kl.constant(0, first.dtype)
        if op.kind in INDICES:
            begin = (read(base), kl.splat(zero, width))

            def take(state: State, at: kl.Number, number: kl.Index) -> State:
                best, place = state
                value = read(at)
                better = op.beats(real(value), real(best))
                return kl.select(better, value, best), kl.select(better, number, place)

            _, place = fold_all(begin, take, reduced, 0, base, zero)
            store(
                out, result, first, kl.cast(place, int64), rest=count - first if width > 1 else None
            )
        else:

            def join(state: State, at: kl.Number, number: kl.Index) -> State:
                return combined(op, state[0], read(at)), state[1]

            total, _ = fold_all((start(op, width), zero), join, reduced, 0, base, zero)
            total = converted(total, op.dtype, result)
            store(out, result, first, total, rest=count - first if width > 1 else None)


def start(op: ReductionOp, width: int) -> Value:
    """Return the identity, also of complex numbers."""
    if op.dtype.is_complex:
        part = real_of(op.dtype)
        return Complex(kl.constant(op.identity, part, width), kl.constant(0, part, width))
    return op.neutral(width)


def combined(op: ReductionOp, a: Value, b: Value) -> Value:
    """Return two values combined, also complex ones."""
    if isinstance(a, Complex) and isinstance(b, Complex):
        return a + b if op.kind == "sum" else a * b
    return op.combine(real(a), real(b))


@kl.helper
def fold_all(
    state: State, step: Step, over: Strided[kl.Number], axis: int, at: kl.Number, number: kl.Number
) -> State:
    """Return the state after a step for each position along the axes, the last one fastest."""
    if axis == len(over.sizes):
        return step(state, at, number)
    for i in kl.range(over.sizes[axis]):
        inner = at + i * over.strides[axis]
        state = fold_all(state, step, over, axis + 1, inner, number * over.sizes[axis] + i)
    return state


def general_work(request: Request, found: Layout) -> Work:
    """Return the work of the general body."""
    (x,), (output,) = request.inputs, request.outputs
    info, kept, reduced = request.info, found.kept.first, found.along.first
    units = min(info.max_units, 128)
    width = 1 if units > 1 else max(info.vector_bytes // 8, 1)
    results, terms = found.kept.count, found.kept.count * found.along.count
    made = launch(
        reduce_general,
        Grid.line(-(-results // (units * width)), units),
        Effort("reduce.general", terms, terms * x.dtype.itemsize + output.nbytes),
        x=Bound(Input(0, x.offset * parts(x.dtype)), stored(x.dtype)),
        out=Bound(Output(0), stored(output.dtype)),
        count=results,
        kept=kept,
        reduced=reduced,
        op=ReductionOp(request.op, working(request.op, x.dtype, output.dtype)),
        source=x.dtype,
        result=output.dtype,
        width=width,
    )
    return Work((made,))
