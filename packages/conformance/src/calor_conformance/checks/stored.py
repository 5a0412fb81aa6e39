"""Stored programs: each op with its attributes, written to bytes and read again.

Attributes are numbers, names, dtypes and nested sizes; each form has a way of its own into a file
and back, the graph's and the device's. The rows of an op share one program, so that an attribute of
one cannot become another's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType
from calor.graph.file import load, save
from calor.ops.base import TABLE

from ..rows.definitions import text_of
from ..rows.exemptions import NOT_MAPPED
from ..rows.judging import outputs
from ..rows.language import Case
from ..rows.tables import CASES
from .base import Array, Check, Place, compiled
from .rows import main_dtype, needed

CONTRACT = "a stored program computes {op} as the one that was stored, with the same attributes"
# Rows of an op in one program.
_MOST = 4
# A factor near one that gives a number of a row all the digits that it can have.
_DIGITS = 1 + 1 / 1025.7


def stored(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield a check of each op that has attributes, in its main dtype.

    Parameters
    ----------
    cases : sequence of Case
        Rows of the suite.

    Yields
    ------
    Check
        The checks, which need the feature ``serialize``.
    """
    rows: dict[tuple[str, DType], list[Case]] = {}
    for c in cases:
        if c.op in TABLE and c.op not in NOT_MAPPED and c.inputs and c.attributes:
            rows.setdefault((c.op, main_dtype(c)), []).append(c)
    seen: set[str] = set()
    for (op, dtype), every in rows.items():
        if op not in seen:
            seen.add(op)
            yield _check(op, dtype, every[:_MOST])


def _check(op: str, dtype: DType, rows: Sequence[Case]) -> Check:
    return Check(
        kind="stored",
        subject=op,
        tier="compiled",
        contract=CONTRACT.format(op=op),
        run=partial(_run, op, dtype, rows),
        text=lambda: "\n".join(text_of(c) for c in rows),
        op=op,
        dtype=dtype,
        dtypes=tuple(dict.fromkeys(t for c in rows for t in needed(c, dtype))),
        features=("serialize",),
    )


def _run(op: str, dtype: DType, rows: Sequence[Case], place: Place) -> None:
    given = [c.draw(dtype, place.seed) for c in rows]
    arrays = [a for some in given for a in some]

    def program(*tensors: Any) -> list[Any]:
        made, at = [], 0
        for c, some in zip(rows, given, strict=True):
            operands = tensors[at : at + len(some)]
            made += outputs(replace(c, attributes=_digits(c)).call(*operands, dtype=dtype))
            at += len(some)
        return made

    graph = calor.trace(program, *(calor.asarray(a) for a in arrays))
    assert load(save(graph)) == graph, f"{op}: the graph in its file form is another one"
    backend, index = place.plain.backend, place.plain.index
    executable = compiled(place, graph)
    loaded = backend.deserialize(index, backend.serialize(index, executable))
    results: list[list[Array]] = []
    for one in (executable, loaded):
        buffers = one([backend.upload(index, a) for a in arrays])
        pairs = zip(buffers, graph.output_specs, strict=True)
        results.append([np.array(backend.download(index, b, s)) for b, s in pairs])
    for n, (a, b) in enumerate(zip(*results, strict=True)):
        assert a.tobytes() == b.tobytes(), (
            f"{op}: result {n} of the stored program is\n{b!r}\nnot\n{a!r}"
        )


def _digits(c: Case) -> dict[str, Any]:
    return {k: v * _DIGITS if type(v) is float else v for k, v in c.attributes.items()}


CHECKS = [*stored(CASES)]
