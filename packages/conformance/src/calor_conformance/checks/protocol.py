"""The protocol: one row of each op behind the proxy that checks every call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import calor

from ..rows.judging import judge, numpy_of, put
from ..rows.language import Case
from ..strict.backend import strict_of
from .base import Check, Place
from .rows import main_dtype, row_check

CONTRACT = (
    "every call keeps the rules of the backend protocol; the rule that was broken is in the message"
)


def protocol(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of the first row of each op, op by op and jitted."""
    seen: set[str] = set()
    for c in cases:
        if c.op in seen:
            continue
        seen.add(c.op)
        yield _check(c)


def _check(c: Case) -> Check:
    dtype = main_dtype(c)

    def run(place: Place) -> None:
        arrays = c.draw(dtype, place.seed)
        with calor.device(strict_of(place.plain)):
            tensors = put(arrays)
            if place.interactive:
                made = numpy_of(c.call(*tensors, dtype=dtype))
                judge(c, dtype, arrays, made, place.flushes)
            if tensors:
                jitted = calor.jit(lambda *given: c.call(*given, dtype=dtype))
                for _ in range(2):
                    judge(c, dtype, arrays, numpy_of(jitted(*tensors)), place.flushes)

    return row_check("protocol", c, dtype, "basic", (run, None), contract=CONTRACT)
