"""Ops in threads: each with operands of its own, several at a time, large enough to overlap.

What an op computes alone is what it computes beside itself: no scratch memory, table or descriptor
is shared by calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType
from calor.ops.base import TABLE

from ..rows.definitions import source_of, text_of
from ..rows.judging import outputs, put
from ..rows.language import Case
from ..rows.tables import CASES
from ..rows.tables.sizes import SIZES, Sized
from .base import Array, Check, Place
from .contract import Contracts
from .rows import main_dtype, needed
from .sizes import kinds_of
from .threads import THREADS, together

contract = Contracts("threads")
CONTRACT = "an op computes in several threads at once what it computes alone"
ROUNDS = 3
# Elements of elementwise operands: above what devices compute in a thread of their own.
ELEMENTS = 3000
# Lengths of other rows, which have two axes or more.
LENGTH = 600


def ops_in_threads() -> Iterator[Check]:
    """Yield a check of each op whose operands can be long."""
    seen: set[str] = set()
    sized: dict[str, Sized] = {}
    for row in SIZES:
        sized.setdefault(row.op, row)
    for c in CASES:
        if c.op in seen or c.op not in TABLE or not c.inputs:
            continue
        if c.op in sized and not c.elementwise:
            seen.add(c.op)
            yield _of_size(sized[c.op])
        elif c.op not in ("cond", "while_loop", "scan"):
            seen.add(c.op)
            yield _of_row(c)


def _of_row(c: Case) -> Check:
    dtype = main_dtype(c)
    large = c.resized((ELEMENTS,)) if c.elementwise else c
    return Check(
        kind="threads",
        subject=c.op,
        tier="full",
        contract=CONTRACT,
        run=partial(_row, large, dtype),
        text=lambda: text_of(large),
        op=c.op,
        dtype=dtype,
        dtypes=needed(c, dtype),
    )


def _of_size(row: Sized) -> Check:
    kinds = kinds_of(row)
    return Check(
        kind="threads",
        subject=row.op,
        tier="full",
        contract=CONTRACT,
        run=partial(_sized, row),
        text=lambda: source_of(row.run),
        op=row.op,
        dtype=kinds[0],
        dtypes=kinds,
    )


def _row(c: Case, dtype: DType, place: Place) -> None:
    operands = [c.draw(dtype, place.seed + 100 + n) for n in range(THREADS)]
    _beside(place, operands, lambda *ts: c.call(*ts, dtype=dtype), c.label)


def _sized(row: Sized, place: Place) -> None:
    n = min([LENGTH, *(size for size in row.sizes if size > 100)]) if row.sizes else LENGTH
    operands = [row.draw(np.random.default_rng([place.seed, k]), n) for k in range(THREADS)]
    _beside(place, operands, row.run, row.op)


def _beside(place: Place, operands: list[list[Array]], run: Any, what: str) -> None:
    def computed(arrays: list[Array]) -> list[Array]:
        made = place.call(lambda *ts: outputs(run(*ts)), *put(arrays))
        return [np.array(t.numpy()) for t in made]

    with calor.device(place.device):
        alone = [computed(arrays) for arrays in operands]

    def work(number: int) -> None:
        for turn in range(ROUNDS):
            for got, want in zip(computed(operands[number]), alone[number], strict=True):
                wrong = got.tobytes() != want.tobytes()
                assert not wrong, (
                    f"{what}: thread {number} got in round {turn + 1} of {THREADS} threads another "
                    f"result than alone"
                )

    together(place, work)


CHECKS = [*ops_in_threads()]
