"""Rows of which every operand is few numbers, read again and again: their order of axes.

Requirements: pairs of points are many and their coordinates few, so a vector along the coordinates
ends before it is full, and its lanes are added for each pair. The axis before that of a short row
has the vectors instead; an operand whose elements are apart along it is copied first, which is
little work beside that of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import DType
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import permuted
from calor_kernel.contract.work import View, row_major
from calor_kernel.library.reduce.job import Job, Placed, Problem
from calor_kernel.library.steps import Steps

# The longest short row, how often each element of an operand is read at least, and the bytes of all
# reads from which a copy is worth it.
_SHORT: Final = 64
_AGAIN: Final = 8
_WORTH: Final = 1 << 18

Room = Callable[[tuple[int, ...], DType], Placed]


def in_spread_order(problem: Problem, steps: Steps, room: Room) -> Job:
    """Return a job with vectors along an axis where they are full, and operands dense along it.

    It is the job itself where operands are not spread, or lie well.
    """
    job, ndim = problem.job, len(problem.job.shape)
    along = [k for k in range(len(job.sources)) if problem.along[k]]
    if ndim < 2 or not along or any(problem.along[len(job.sources) :]):
        return job
    if not all(_is_spread(job.sources[k].view, job) for k in along):
        return job
    last, before = ndim - 1, ndim - 2
    made = job
    short = job.axes == (last,) and not exceeds(job.shape[last], _SHORT)
    if short and not problem.many and exceeds(job.shape[before], 2 * problem.width - 1):
        order = (*range(before), last, before)
        made = replace(
            job,
            shape=tuple(job.shape[a] for a in order),
            axes=(before,),
            sources=tuple(
                replace(p, view=permuted(p.view, order)) if problem.along[k] else p
                for k, p in enumerate(job.sources)
            ),
        )
    # Numbers of rows have the last axis too, unless it is reduced.
    ends = along if last in made.axes else range(len(made.sources))
    crossing = [k for k in ends if made.sources[k].view.strides[-1:] not in ((), (0,), (1,))]
    if not crossing:
        return made
    copies = {k: _dense(made.sources[k], steps, room, problem.info) for k in crossing}
    return replace(made, sources=tuple(copies.get(k, p) for k, p in enumerate(made.sources)))


def _is_spread(view: View, job: Job) -> bool:
    """Return whether each element of an operand is read many times."""
    own = reads = 1
    for n, step in zip(view.shape, view.strides, strict=True):
        reads *= n
        own *= n if step else 1
    return not exceeds(own * _AGAIN, reads) and exceeds(reads * view.dtype.itemsize, _WORTH)


def _dense(placed: Placed, steps: Steps, room: Room, info: DeviceInfo) -> Placed:
    """Copy the elements of an operand in the order of its axes; return the copy, spread alike."""
    view = placed.view
    axes: Sequence[int] = [a for a, step in enumerate(view.strides) if step]
    shape = tuple(view.shape[a] for a in axes)
    few = View(shape, tuple(view.strides[a] for a in axes), view.dtype, view.offset)
    copy = room(shape, view.dtype)
    steps.copy(few, placed.memory, copy.memory, info)
    strides = dict(zip(axes, row_major(shape), strict=True))
    whole = tuple(strides.get(a, 0) for a in range(len(view.shape)))
    return replace(copy, view=View(view.shape, whole, view.dtype))
