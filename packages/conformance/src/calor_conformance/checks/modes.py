"""Lazy, eager and jitted execution give the same bits, forward and backward.

There are three exceptions. A transform of few elements and the number that scales it may be one
product, with a matrix of the turns times that number. Its sums are rounded otherwise than those of
a transform that is scaled afterwards, as it is op by op. A product may read an operand that the
graph permutes where it lies, or a prepared copy of one that stays as it was since the last call. It
then adds in other groups than the product of two new operands; so does a convolution that is
computed as a product. And a device with the feature
"mixed_rounding", such as a router, may have members that round differently: its modes agree within
16 units of the largest number, or within the tolerance of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.config import config
from calor.dtypes import DType
from calor.local import local
from calor.recording.trace import flush_all

from ..rows.differences import Problem, differentiable
from ..rows.judging import numpy_of, outputs, put
from ..rows.language import Case, limits_of
from .base import Array, Check, Place
from .rows import main_dtype, row_check

CONTRACT = (
    "{op} gives the same bits in {dtype} op by op, in a longer graph and jitted; a device that "
    "fuses or reorders keeps each op's rounding, or declares {op} partial with the reason"
)

OF_TRANSFORMS = (
    "{op} gives the same numbers in {dtype} op by op, in a longer graph and jitted, within 16 "
    "units of the largest; a device may multiply by the turns of a transform and its scale at once"
)


_PRODUCTS: Final = frozenset(("dot_general", "conv", "conv_input_gradient", "conv_weight_gradient"))


@contextmanager
def eagerly() -> Iterator[None]:
    """Compute each op when it is recorded."""
    flush_all()
    before, config.eager = config.eager, True
    for trace in local.traces.values():
        trace.reset()
    try:
        yield
    finally:
        config.eager = before
        for trace in local.traces.values():
            trace.reset()


def modes(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of each row in three modes: lazy, eager, and jitted (twice from one trace)."""
    for c in cases:
        yield _check("jit", c, main_dtype(c), _forward)


def gradient_modes(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of the gradient of one row of each op and dtype in three modes."""
    once = {(c.op, t): (c, t) for c, t in differentiable(cases) if c.op != "while_loop"}
    for c, dtype in once.values():
        yield _check("jit-gradient", c, dtype, _backward)


def _check(kind: str, c: Case, dtype: DType, body: Callable[[Case, DType, Place], None]) -> Check:
    def run(place: Place) -> None:
        body(c, dtype, place)

    contract = OF_TRANSFORMS if _is_transform(c) else CONTRACT
    return row_check(kind, c, dtype, "compiled", (run, None), contract=contract, looks=True)


def _forward(c: Case, dtype: DType, place: Place) -> None:
    tensors = put(c.draw(dtype, place.seed))

    def called(*given: Any) -> list[Any]:
        return outputs(c.call(*given, dtype=dtype))

    lazy = numpy_of(called(*tensors))
    same = _sameness(c, called, tensors, place)
    with eagerly():
        same(numpy_of(called(*tensors)), lazy, "op by op")
    if not tensors:
        return
    compiled = calor.jit(called)
    same(numpy_of(compiled(*tensors)), lazy, "jitted")
    same(numpy_of(compiled(*tensors)), lazy, "jitted, called again")
    assert compiled.trace_count == 1, f"{compiled.trace_count} traces for one structure"


def _backward(c: Case, dtype: DType, place: Place) -> None:
    problem = Problem(c, dtype, seed=place.seed)
    given = put([*problem.primals, *problem.cotangents])

    def pulled(*operands: Any) -> list[Any]:
        return problem.pulled(*operands)

    lazy = numpy_of(pulled(*given))
    same = _sameness(c, pulled, given, place)
    with eagerly():
        same(numpy_of(pulled(*given)), lazy, "op by op")
    same(numpy_of(calor.jit(pulled)(*given)), lazy, "jitted")


def _is_transform(c: Case) -> bool:
    return "fft" in f"{c.op}{c.name}"


def _sameness(
    c: Case, function: Callable[..., Any], given: Sequence[Any], place: Place
) -> Callable[[Sequence[Array], Sequence[Array], str], None]:
    """Return what compares the modes of a row."""
    if place.plain.info.feature("mixed_rounding"):
        # An op that one member has and another has not stands beside differently rounded operands.
        return partial(same_numbers, units=max(16.0, c.tol.ulps))
    if _is_transform(c):
        return same_numbers
    nodes = calor.trace(function, *given).nodes if given else ()
    return same_numbers if any(n.op.name in _PRODUCTS for n in nodes) else same_bits


def same_numbers(
    got: Sequence[Array], want: Sequence[Array], how: str, units: float = 16.0
) -> None:
    """Raise AssertionError unless all arrays are a few units of their largest number apart."""
    told, expected = ([(a.dtype.name, a.shape) for a in x] for x in (got, want))
    assert told == expected, f"{how}: {told}, not {expected}"
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.dtype.kind not in "fc":
            same_bits([a], [b], how)
            continue
        eps = float(limits_of(a.real.dtype).eps)
        x, y = (z if z.dtype.kind == "c" else z.astype(np.float64) for z in (a, b))
        # With an infinity in the bound any number would be near, and with NaN none.
        largest = float(np.abs(y).max(initial=0.0, where=np.isfinite(y)))
        near = np.allclose(x, y, rtol=0, atol=units * eps * largest, equal_nan=True)
        if not near:
            apart = float(np.abs(x - y).max()) / (eps * largest)
            raise AssertionError(
                f"{how}: output {n} is {a!r}, not {b!r}, {apart:.3g} units of the largest apart"
            )


def same_bits(got: Sequence[Array], want: Sequence[Array], how: str) -> None:
    """Raise AssertionError unless all arrays have the same dtypes, shapes and bits."""
    told, expected = ([(a.dtype.name, a.shape) for a in x] for x in (got, want))
    assert told == expected, f"{how}: {told}, not {expected}"
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.tobytes() != b.tobytes():
            raise AssertionError(f"{how}: output {n} has other bits:\n{a!r}\nnot\n{b!r}")
