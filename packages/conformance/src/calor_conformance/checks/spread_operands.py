"""Operands that are spread: one number stands for a whole axis, along any of the axes.

A view that repeats its numbers has no step along some axes, and a device may take that as one
value, as a row of the others, or not at all. Axes are drawn for each operand of an op; the op gives
what it gives of operands that were made whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, int32
from calor.ops import movement as m
from calor.ops.base import TABLE

from ..rows.judging import judge, outputs
from ..rows.language import Case, exact
from .base import Array, Check, Packable, Place, Run, packed
from .rows import main_dtype, row_check, shared

_ROWS, _DRAWS = 3, 3


def spread_operands(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of the rows of each op whose operands have the most axes, and exact results.

    Sums of equal numbers round all one way, so those of integers are asked for.
    """
    rows: dict[str, list[tuple[int, Case, DType]]] = {}
    for c in cases:
        dtype = main_dtype(c) if c.tol is exact else int32
        rank = max((len(d.shape) for d in c.inputs), default=0)
        if c.op in TABLE and not c.elementwise and dtype in c.dtypes and rank:
            rows.setdefault(c.op, []).append((rank, c, dtype))
    for found in rows.values():
        for _, c, dtype in sorted(found, key=lambda row: -row[0])[:_ROWS]:
            yield row_check("views", c, dtype, "full", _body(c, dtype),
                            subject=f"{c.label}-spread", extra="spread")  # fmt: skip


def _drawn(c: Case, dtype: DType, seed: int) -> list[list[Array]]:
    """Return some draws of the operands, of one element along some axes."""
    rng = np.random.default_rng([seed, 431, *c.label.encode()])
    whole = c.draw(dtype, seed)
    count = _DRAWS if max(a.ndim for a in whole) > 2 else 1
    return [[_narrow(rng, a) for a in whole] for _ in range(count)]


def _narrow(rng: np.random.Generator, a: Array) -> Array:
    """Return the first part of an array along drawn axes."""
    if not a.size or not a.ndim:
        return a
    spread = rng.random(a.ndim) < 0.5
    spread[int(rng.integers(a.ndim))] |= rng.random() < 0.7
    return a[tuple(slice(0, 1) if s else slice(None) for s in spread)].copy()


def _body(c: Case, dtype: DType) -> tuple[Run, Packable | None]:
    shapes = [d.shape for d in c.inputs]

    def record(place: Place) -> Sequence[Any]:
        def call() -> list[Any]:
            made: list[Any] = []
            for arrays in _drawn(c, dtype, place.seed):
                operands = [
                    m.expand(calor.asarray(a), shape=s) for a, s in zip(arrays, shapes, strict=True)
                ]
                made += outputs(c.call(*operands, dtype=dtype))
            return made

        return list(place.call(call))

    def conclude(place: Place, got: Sequence[Array]) -> None:
        drawn = _drawn(c, dtype, place.seed)
        count = len(got) // len(drawn)
        for n, arrays in enumerate(drawn):
            given = [np.broadcast_to(a, s) for a, s in zip(arrays, shapes, strict=True)]
            judge(c, dtype, given, got[n * count : (n + 1) * count], place.flushes)

    run, steps = packed(record, conclude)
    return run, shared(c, steps)
