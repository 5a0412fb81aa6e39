"""Function transforms: ``calor.vmap`` of each row equals the row at each element of the axis.

Each row runs with all operands mapped, and with each operand mapped alone, for rules differ: a
product of two mapped matrices is a batched product, one with a matrix that stays a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType

from ..rows.exemptions import NOT_MAPPED
from ..rows.judging import judge, numpy_of, put
from ..rows.language import Case
from .base import Array, Check, Place
from .rows import main_dtype, row_check

# The mapped axis, of which the ends are judged.
SIZE = 5
CONTRACT = (
    "calor.vmap of {op} is made of ops of the table with one more axis, so one of them (graph "
    "below) gives another number than its definition in {dtype}"
)


def mapping(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of rows with mapped operands, in the main dtype of each."""
    for c in cases:
        if c.inputs and c.op not in NOT_MAPPED:
            yield _check(c, main_dtype(c))


def masks(count: int) -> list[tuple[bool, ...]]:
    """Return which operands are mapped: all, and each alone."""
    alone = [tuple(i == k for i in range(count)) for k in range(count)] if count > 1 else []
    return [(True,) * count, *alone]


def _check(c: Case, dtype: DType) -> Check:
    def run(place: Place) -> None:
        drawn = [c.draw(dtype, place.seed + i) for i in range(SIZE)]
        for mask in masks(len(c.inputs)):
            made = place.call(_mapped(c, dtype, mask), *put(operands(drawn, mask)))
            got = numpy_of(made)
            assert all(a.shape[:1] == (SIZE,) for a in got), f"shapes {[a.shape for a in got]}"
            with np.errstate(all="ignore"):
                # The first element of one mapped operand is that of all mapped ones.
                for i in (0, SIZE - 1) if all(mask) else (SIZE - 1,):
                    judge(c, dtype, element(drawn, mask, i), [a[i] for a in got], place.flushes)
            if place.interpreted and all(mask):
                _mapped_over_nothing(c, dtype, drawn, got)

    def explain(place: Place) -> str:
        drawn = [c.draw(dtype, i) for i in range(SIZE)]
        mask = (True,) * len(c.inputs)
        with calor.device(place.device):
            return calor.trace(_mapped(c, dtype, mask), *put(operands(drawn, mask))).text()

    return row_check(
        "vmap", c, dtype, "compiled", (run, None), contract=CONTRACT, explain=explain, since="0.1"
    )


def _mapped_over_nothing(
    c: Case, dtype: DType, drawn: Sequence[Sequence[Array]], got: Sequence[Array]
) -> None:
    """An axis without a member: results have the shapes and dtypes that others have, but for it."""
    mask = (True,) * len(c.inputs)
    none = put([a[:0] for a in operands(drawn, mask)])
    made = numpy_of(_mapped(c, dtype, mask)(*none))
    for a, b in zip(made, got, strict=True):
        want = ((0, *b.shape[1:]), b.dtype)
        assert (a.shape, a.dtype) == want, (
            f"mapped over 0 members: {(a.shape, a.dtype)}, not {want}"
        )


def _mapped(c: Case, dtype: DType, mask: Sequence[bool]) -> Any:
    axes = tuple(0 if m else None for m in mask)
    return calor.vmap(lambda *given: c.call(*given, dtype=dtype), in_axes=axes)


def operands(drawn: Sequence[Sequence[Array]], mask: Sequence[bool]) -> list[Array]:
    """Return operands of all elements: stacked where mapped, else those of the first."""
    return [
        np.stack([d[k] for d in drawn]) if mapped else drawn[0][k] for k, mapped in enumerate(mask)
    ]


def element(drawn: Sequence[Sequence[Array]], mask: Sequence[bool], i: int) -> list[Array]:
    """Return the operands of one element."""
    return [drawn[i if mapped else 0][k] for k, mapped in enumerate(mask)]
