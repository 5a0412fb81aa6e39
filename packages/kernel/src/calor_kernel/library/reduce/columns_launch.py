"""Launches of reductions across rows.

Requirements: as for rows. A block of columns is as wide as a page if there are many blocks, and
narrower otherwise. If blocks are still few, their terms are divided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch
from calor_kernel.library.reduce.columns import ColumnPlan, reduce_columns
from calor_kernel.library.reduce.columns_cooperative import reduce_columns_team
from calor_kernel.library.reduce.launch_operands import Job
from calor_kernel.library.reduce.layout import Layout
from calor_kernel.library.reduce.pairwise_sums import is_rounded
from calor_kernel.library.reduce.program import Program
from calor_kernel.library.reduce.rows_launch import CHUNK, SIZE, STRIDE, buffers, vector_width

_WIDE, _NARROW, _FEW = 4096, 1024, 4
_STREAMS: Final = 8
# Rows of a block, after which sums are set aside.
_DEPTH: Final = 512


def span_of(program: Program, found: Layout, info: DeviceInfo) -> int:
    """Return the number of columns of a block."""
    columns = found.kept.sizes[-1]
    if info.max_units > 1:
        most: int = min(info.max_units, 32)
        span = 1
        while span < most and span < columns:
            span *= 2
        return span
    width = vector_width(program, info)
    per = info.vector_bytes // width
    outers = found.kept.count // max(columns, 1)
    narrow = outers * -(-columns // (_WIDE // per)) < _FEW
    return max((_NARROW if narrow else _WIDE) // per // width, 1) * width


def columns_launch(
    program: Program,
    job: Job,
    found: Layout,
    info: DeviceInfo,
    parts: int = 1,
    chunk: int = 0,
) -> Launch:
    """Return the launch of a program's one pass across rows.

    ``parts``: the number of parts of ``chunk`` terms; the results of the parts follow one another.
    """
    many = info.max_units > 1
    span = span_of(program, found, info)
    columns, terms = found.kept.sizes[-1], found.along.count
    outers = found.kept.count // columns
    blocks = -(-columns // span)
    tasks = blocks * outers * parts
    chunk = chunk or terms
    width = 1 if many else vector_width(program, info)
    steps = tuple(found.kept.strides[k][-1] for k in range(len(job.sources)))
    streams = 4 if many else _STREAMS
    plan = ColumnPlan(found.kept.rank - 1, found.along.rank, width, span, streams, steps)
    rounded = any(is_rounded(program.fold(n)) for n in program.folds)
    units = min(info.max_units, 256) if many else 1
    depth = _DEPTH * max(units // span, 1)
    if rounded and chunk > depth:
        plan = replace(plan, block=depth)
    size = sum(program.operands[i].dtype.itemsize for i in program.memory)
    turns = 1
    if not many:
        turns = greatest(CHUNK // greatest(size * least(span, columns) * chunk, 1), 1)
    signature = buffers(program, job)
    signature += [SIZE] * (8 + plan.kept + plan.axes)
    arguments: list[Argument] = [placed.argument for placed in (*job.sources, *job.targets)]
    arguments += [*job.numbers, tasks, turns, blocks, outers]
    arguments += [columns, terms, chunk, found.kept.count]
    arguments += [*found.kept.sizes[:-1], *found.along.sizes]
    for k, i in enumerate(program.memory):
        arguments += found.kept.strides[k][:-1]
        signature += [STRIDE] * plan.kept
        if program.operands[i].place == "along":
            arguments += found.along.strides[k]
            signature += [STRIDE] * plan.axes
    arguments += found.kept.strides[len(job.sources)][:-1]
    signature += [STRIDE] * plan.kept
    function = reduce_columns_team if many else reduce_columns
    keywords = (("program", program), ("plan", plan))
    build = Build(function, tuple(signature), keywords, (units, 1, 1))
    flops = found.kept.count * terms * len(program.steps)
    nbytes = sum(p.view.size * p.view.dtype.itemsize for p in (*job.sources, *job.targets))
    cubes = -(-tasks // turns)
    return Launch(build, (cubes, 1, 1), tuple(arguments), flops, nbytes, job.label)
