"""Launches of row programs: along rows or across them, whole or divided, in one or more stages.

Requirements: the way depends on the device and the sizes alone, so that results are reproducible.
Memory is read in order, whichever axes are reduced. There is a way for any strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Launch, Scratch, View, Work, row_major
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.columns_launch import columns_launch, span_of
from calor_kernel.library.reduce.launch_operands import Job, Placed
from calor_kernel.library.reduce.layout import Layout
from calor_kernel.library.reduce.parts import joining, part_of
from calor_kernel.library.reduce.program import Program, Schedule
from calor_kernel.library.reduce.register_rows_launch import held_team
from calor_kernel.library.reduce.rows_launch import along_of, layout, rows_launch, vector_width
from calor_kernel.library.reduce.split_reduction import divided
from calor_kernel.library.reduce.stages import found_by, numbers_along, writing, written

# The number of elements from which wide rows gain more than the joining launches cost.
_WORTH_MORE_LAUNCHES: Final = 4096


class Plan:
    """The launches of a job, and their scratch memory."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self.launches: list[Launch] = []
        self.scratch: list[int] = []

    def work(self) -> Work:
        """Return the planned work."""
        return Work(tuple(self.launches), tuple(self.scratch))

    def room(self, shape: tuple[int, ...], dtype: DType) -> Placed:
        """Return scratch memory for dense values."""
        self.scratch.append(prod(shape) * stored(dtype).itemsize)
        return Placed(Scratch(len(self.scratch) - 1), View(shape, row_major(shape), dtype))

    def add(self, program: Program, job: Job) -> None:
        """Add the launches of a program."""
        schedule = Schedule.of(program)
        found = layout(program, job)
        lies_across = across(program, found, len(job.sources))
        reduces = not any(schedule.along[n] for n in program.results)
        if reduces and schedule.count(program) == 1:
            if lies_across:
                self._columns(program, job, found)
            else:
                self._rows(program, job, found)
        elif lies_across or self._is_long(program, found):
            self._stages(program, schedule, job)
        else:
            self.launches.append(rows_launch(program, job, self.info))

    def _is_held(self, program: Program, found: Layout) -> bool:
        """Return whether rows fit the registers of a team of units."""
        width = vector_width(program, self.info)
        return held_team(program, found, along_of(program), width, self.info) is not None

    def _is_long(self, program: Program, found: Layout) -> bool:
        """Return whether rows are few and long enough to divide each among cubes."""
        if self._is_held(program, found):
            return False
        size = sum(program.operands[i].dtype.itemsize for i in program.memory)
        rows, terms = found.kept.count, found.along.count
        return divided(self.info, rows, rows * terms * size, terms, size)[0] > 1

    def _stages(self, program: Program, schedule: Schedule, job: Job) -> None:
        known = dict(zip(program.memory, job.sources, strict=True))
        numbers = dict(zip(program.numbers, job.numbers, strict=True))
        targets = dict(zip(program.results, job.targets, strict=True))
        walks = schedule.count(program)
        for walk in range(walks):
            wanted = found_by(program, schedule, walk)
            if not walk:
                wanted += numbers_along(program, schedule)
            if not wanted:
                continue
            part = part_of(program, wanted, known)
            places = [
                targets[n] if n in targets else self.room(job.rows, program.dtype(n))
                for n in wanted
            ]
            inner = replace(
                job,
                sources=tuple(known[n] for n in part.operands if n not in numbers),
                numbers=tuple(numbers[n] for n in part.operands if n in numbers),
                targets=tuple(places),
            )
            self.add(part.program, inner)
            known.update(zip(wanted, places, strict=True))
        along = [placed for n, placed in targets.items() if schedule.along[n]]
        if along:
            part = writing(program, schedule, known)
            self.launches += written(part, job, known, along, self.info)

    def _rows(self, program: Program, job: Job, found: Layout) -> None:
        rows, terms = found.kept.count, found.along.count
        size = sum(program.operands[i].dtype.itemsize for i in program.memory)
        # Rows are divided along the first of their axes, or along the only one.
        places = prod(found.along.sizes[:-1]) if found.along.rank > 1 else terms
        each = terms // max(places, 1) * size
        parts, chunk = divided(self.info, rows, rows * terms * size, places, each)
        if parts == 1 or self._is_held(program, found):
            self.launches.append(rows_launch(program, job, self.info))
            return
        part = part_of(program, program.folds, ())
        shape = (*job.rows, parts)
        rooms = [self.room(shape, program.dtype(n)) for n in program.folds]
        views = [replace(r, view=View(job.rows, row_major(job.rows), r.view.dtype)) for r in rooms]
        first = self._part_job(program, part.operands, job, views)
        self.launches.append(rows_launch(part.program, first, self.info, parts, chunk))
        self._joined(program, job, rooms, shape, len(shape) - 1)

    def _columns(self, program: Program, job: Job, found: Layout) -> None:
        if self._folded(program, job, found):
            return
        terms, columns = found.along.count, found.kept.sizes[-1]
        span = span_of(program, found, self.info)
        cubes = found.kept.count // columns * -(-columns // span)
        size = sum(program.operands[i].dtype.itemsize for i in program.memory)
        total = found.kept.count * terms * size
        parts, chunk = divided(self.info, cubes, total, terms, min(span, columns) * size)
        if parts == 1:
            self.launches.append(columns_launch(program, job, found, self.info))
            return
        part = part_of(program, program.folds, ())
        shape = (parts, *job.rows)
        rooms = [self.room(shape, program.dtype(n)) for n in program.folds]
        views = [replace(r, view=View(job.rows, row_major(job.rows), r.view.dtype)) for r in rooms]
        first = self._part_job(program, part.operands, job, views)
        inner = layout(part.program, first)
        self.launches.append(columns_launch(part.program, first, inner, self.info, parts, chunk))
        self._joined(program, job, rooms, shape, 0)

    def _folded(self, program: Program, job: Job, found: Layout) -> bool:
        """Add the launches for few columns and dense rows, and return whether they suit.

        Several rows form one wide row, whose columns are then joined.
        """
        columns, (*outer, _) = found.kept.sizes[-1], found.kept.sizes
        width = vector_width(program, self.info)
        several = -(-4 * width // columns)
        dense = all(
            program.operands[i].place == "along"
            and found.kept.strides[k][-1] == 1
            and found.along.strides[k] == (columns,)
            for k, i in enumerate(program.memory)
        )
        many = self.info.max_units > 1
        small = found.along.count * found.kept.count < _WORTH_MORE_LAUNCHES
        if many or small or columns >= 2 * width or not dense or found.along.count < 4 * several:
            return False
        wide_rows, rest = divmod(found.along.count, several)
        lots = several + bool(rest)
        part = part_of(program, program.folds, ())
        axis = len(outer)
        rooms = [self.room((*outer, lots, columns), program.dtype(n)) for n in program.folds]
        pieces = [(0, wide_rows, several), (wide_rows * several, rest, 1)]
        for first, count, side in pieces[: 1 + bool(rest)]:
            shape, size = (*outer, count, side * columns), side * columns
            sources = []
            for k, old in enumerate(job.sources):
                strides = (*found.kept.strides[k][:-1], size, 1)
                offset = old.view.offset + first * columns
                sources.append(replace(old, view=View(shape, strides, old.view.dtype, offset)))
            targets = []
            for room in rooms:
                strides = (*(s for s in room.view.strides[:-2]), 1)
                offset = 0 if not first else several * columns
                view = View((*outer, size), strides, room.view.dtype, offset)
                targets.append(replace(room, view=view))
            pieced = replace(job, shape=shape, axes=(axis,), sources=tuple(sources))
            inner = self._part_job(program, part.operands, pieced, targets)
            self._columns(part.program, inner, layout(part.program, inner))
        kept = found.kept.strides[len(job.sources) :]
        placed = [
            replace(t, view=View(found.kept.sizes, s, t.view.dtype, t.view.offset))
            for t, s in zip(job.targets, kept, strict=True)
        ]
        whole = replace(job, targets=tuple(placed))
        self._joined(program, whole, rooms, (*outer, lots, columns), axis)
        return True

    def _part_job(
        self, program: Program, operands: Sequence[int], job: Job, targets: Sequence[Placed]
    ) -> Job:
        """Return the job of a part of a program; ``operands``: the values that it reads."""
        places = {n: k for k, n in enumerate(program.memory)}
        numbers = {n: k for k, n in enumerate(program.numbers)}
        return replace(
            job,
            sources=tuple(job.sources[places[n]] for n in operands if n in places),
            numbers=tuple(job.numbers[numbers[n]] for n in operands if n in numbers),
            targets=tuple(targets),
        )

    def _joined(
        self, program: Program, job: Job, rooms: Sequence[Placed], shape: tuple[int, ...], axis: int
    ) -> None:
        """Add the launch that joins partial results; their parts are an axis."""
        part = joining(program)
        others = self._part_job(program, part.operands, job, job.targets)
        second = replace(others, shape=shape, axes=(axis,), sources=(*rooms, *others.sources))
        found = layout(part.program, second)
        if across(part.program, found, len(second.sources)):
            self.launches.append(columns_launch(part.program, second, found, self.info))
        else:
            self.launches.append(rows_launch(part.program, second, self.info))


def across(program: Program, found: Layout, sources: int) -> bool:
    """Return whether vectors run across rows, along the last kept axis."""
    if found.along.count == 1 and found.kept.count == 1:
        return False
    lies = False
    for k, i in enumerate(program.memory):
        along = program.operands[i].place == "along"
        if along and found.along.sizes[-1] > 1 and found.along.strides[k][-1] == 1:
            return False
        if found.kept.strides[k][-1] not in (0, 1):
            return False
        lies = lies or (along and found.kept.strides[k][-1] == 1)
    if not lies:
        return False
    return all(found.kept.strides[sources + k][-1] == 1 for k in range(len(program.results)))
