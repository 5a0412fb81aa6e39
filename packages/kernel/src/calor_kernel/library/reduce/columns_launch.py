"""Launches of reductions across rows.

Requirements: as for rows. A block of columns is as wide as a page if there are many blocks, and
narrower otherwise. If blocks are still few, their terms are divided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.launching import Grid
from calor_kernel.contract.work import Launch
from calor_kernel.library.reduce.columns import Blocks, ColumnPlan, reduce_columns
from calor_kernel.library.reduce.job import Problem
from calor_kernel.library.reduce.rows_launch import CHUNK

_WIDE, _NARROW, _FEW = 4096, 1024, 4
_STREAMS: Final = 8
# Rows of a block, after which sums are set aside.
_DEPTH: Final = 512


def is_across(problem: Problem) -> bool:
    """Return whether vectors run across rows, along the last kept axis."""
    found, program = problem.layout, problem.program
    if found.along.count == 1 and found.kept.count == 1:
        return False
    lies = False
    for k in range(len(program.memory)):
        along = problem.along[k]
        if along and found.along.sizes[-1] > 1 and found.along.strides[k][-1] == 1:
            return False
        if found.kept.strides[k][-1] not in (0, 1):
            return False
        lies = lies or (along and found.kept.strides[k][-1] == 1)
    return lies and all(s[-1] == 1 for s in found.kept.strides[len(program.memory) :])


def span_of(problem: Problem) -> int:
    """Return the number of columns of a block."""
    found, info = problem.layout, problem.info
    columns = found.kept.sizes[-1]
    if problem.many:
        most, span = min(info.max_units, 32), 1
        while span < most and span < columns:
            span *= 2
        return span
    per = info.vector_bytes // problem.width
    outers = found.kept.count // max(columns, 1)
    narrow = outers * -(-columns // (_WIDE // per)) < _FEW
    return max((_NARROW if narrow else _WIDE) // per // problem.width, 1) * problem.width


def columns_launch(problem: Problem, parts: int = 1, chunk: int = 0) -> Launch:
    """Return the launch of a program's one pass across rows.

    ``parts``: the number of parts of ``chunk`` terms; the results of the parts follow one another.
    """
    program, found, many = problem.program, problem.layout, problem.many
    span, sources = span_of(problem), len(program.memory)
    columns, terms = found.kept.sizes[-1], found.along.count
    outers = found.kept.count // columns
    blocks = -(-columns // span)
    tasks = blocks * outers * parts
    chunk = chunk or terms
    units = min(problem.info.max_units, 256) if many else 1
    depth = _DEPTH * max(units // span, 1)
    plan = ColumnPlan(
        1 if many else problem.width,
        span,
        4 if many else _STREAMS,
        tuple(s[-1] for s in found.kept.strides[:sources]),
        depth if problem.compensated and chunk > depth else 0,
    )
    turns = 1
    if not many:
        turns = greatest(CHUNK // greatest(program.itemsize * least(span, columns) * chunk, 1), 1)
    sizes = found.kept.sizes[:-1]
    count = found.kept.count
    views = [replace(view, kept=view.kept[:-1]) for view in problem.views()]
    return problem.launch(
        reduce_columns,
        Grid.line(-(-tasks // turns), units),
        program,
        over=Blocks(
            tasks, turns, blocks, outers, columns, terms, chunk, count, sizes, found.along.sizes
        ),
        views=(*views[:sources], views[sources]),
        plan=plan,
    )
