"""Launches of row programs: along rows or across them, whole or divided, in one or more stages.

Requirements: the way depends on the device and the sizes alone, so that results are reproducible.
Memory is read in order, whichever axes are reduced, which no single launch could for several passes
over strided rows. There is a way for any strides; a large operand that lies in another order than
the others is copied first, since each of its elements would be an access of its own. Work is
divided among cubes by sizes and the kind of device alone, never by the number of cores; a part is
some microseconds of work, and small reductions stay whole, since joining costs a launch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import DType
from calor_kernel.contract.choices import exceeds, greatest, least, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Input,
    Launch,
    Output,
    View,
    Work,
    row_major,
)
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.operations import Expression, Step
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.awaited_rows_launch import awaited_launch
from calor_kernel.library.reduce.job import Job, Placed, Problem
from calor_kernel.library.reduce.joined_rows_launch import applied, continued_launch
from calor_kernel.library.reduce.launches import (
    columns_joined_launch,
    columns_launch,
    held_team,
    is_across,
    over_operands,
    rows_launch,
    tile_of,
)
from calor_kernel.library.reduce.moments import joined, moments_of, of_pieces
from calor_kernel.library.reduce.pair_tiles_launch import pairs_launch
from calor_kernel.library.reduce.program import (
    Program,
    found_by,
    joining,
    numbers_along,
    part_of,
)
from calor_kernel.library.reduce.rows_joined_launch import Parts, rows_joined_launch
from calor_kernel.library.reduce.spread_rows import in_spread_order
from calor_kernel.library.steps import Steps, redirected

# The number of elements from which wide rows gain more than the joining launches cost.
_WORTH_MORE_LAUNCHES: Final = 4096
# Minimum of bytes of a divided reduction, and bytes of a part. On a GPU a launch costs the host as
# much as a cube needs to read this.
_WHOLE: Final = 1 << 19
# The same for each cube of many units that reads columns, whose last cubes join the parts.
_COLUMNS: Final = 1 << 16
_LEAST, _MOST = 1 << 16, 1 << 20
# Minimum of terms of a piece, of several that a mean and a variance are joined of.
_PIECE = 16
# Maximum of the pieces of a row that each of its cubes may join.
_PIECES = 1024
# Minimum of bytes of operands that are copied, because units would read a sector for each element.
_CROSSED: Final = 1 << 20
_SECTOR = 32
# Sufficient numbers of cubes, of one unit and of many.
_ENOUGH, _ENOUGH_TEAMS = 32, 512
# Rows from which a cube has a row alone if it has so many readings or reductions, results that are
# not all along it, and no more terms. On an H200 the gradient of a loss of 128 rows of 50,257
# classes takes 0.57 of the time so, and one of 256 rows of 151,936 takes 1.1.
_ENOUGH_ROWS, _READINGS, _ROW_TERMS = 96, 3, 1 << 16
# The same rows of a program whose results are all along them. On an H200 the logarithmic softmax of
# 64 rows of 50,257 classes takes 0.86 of the time so, and that of 128 rows 0.74.
_ENOUGH_LINES = 64


def divided(
    info: DeviceInfo, cubes: int, total: int, places: int, each: int, whole: int | None = None
) -> tuple[int, int]:
    """Return the number of parts of each cube's work, and the positions of a part.

    ``total``: bytes that all cubes read, ``whole``: those up to which work is undivided, by default
    as of rows. A cube's work is ``places`` positions of ``each`` bytes. Undivided work is (1, 0).
    """
    many = info.max_units > 1
    enough, fewest = (_ENOUGH_TEAMS, _LEAST // 4) if many else (_ENOUGH, _LEAST)
    if exceeds(cubes, enough - 1) or not exceeds(total, _WHOLE if whole is None else whole):
        return 1, 0
    nbytes = least(greatest(total // (2 * enough), fewest), _MOST)
    chunk = greatest(nbytes // greatest(each, 1), 1)
    if chunk >= 64:
        chunk = chunk // 64 * 64
    parts = -(-places // chunk)
    return (parts, chunk) if parts > 1 else (1, 0)


def planned(program: Program, job: Job, info: DeviceInfo) -> Work | None:
    """Return the work of a program.

    None if a result has a pitch, and a launch of its own would write it, which has dense results.
    """
    plan = _Plan(info)
    plan.run(program, plan.in_order(program, job))
    if not plan.lines_kept:
        return None
    return replace(plan.work(), in_place=plan.in_place if len(plan.launches) == 1 else ())


class _Plan(Steps):
    """The launches of a job, and their scratch memory."""

    def __init__(self, info: DeviceInfo) -> None:
        super().__init__()
        self.info = info
        self.in_place: tuple[tuple[int, int], ...] = ()
        # The joining of parts, by the next launch or by one of its own, and how the last launch
        # left them.
        self.waiting: Problem | None = None
        self.left: Parts | None = None
        # Whether lines of results are where their views say.
        self.lines_kept = True

    def put(self, *launches: Launch) -> None:
        """Add launches behind the joining that waits, if there is one.

        Where launches are dear, it is done by that of the parts.
        """
        if self.waiting is not None:
            both = self.left and rows_joined_launch(self.left, self.waiting)
            if both:
                self.launches[-1] = both
            else:
                self.launches.append(_whole(self.waiting))
            self.waiting = None
        self.launches += launches

    def work(self, variant: str = "") -> Work:
        """Return the launches as work."""
        self.put()
        return super().work(variant)

    def placed(self, shape: tuple[int, ...], dtype: DType) -> Placed:
        """Return scratch memory for dense values."""
        memory = self.memory(prod(shape) * stored(dtype).itemsize)
        return Placed(memory, View(shape, row_major(shape), dtype))

    def in_order(self, program: Program, job: Job) -> Job:
        """Return the job with copies of large operands that cross the memory order of the others.

        It is the job itself unless its copies make rows dense, or columns.
        """
        problem = Problem(program, job, self.info)
        spread = in_spread_order(problem, self, self.placed)
        if spread is not job:
            return spread
        if not problem.many or is_across(problem):
            return job
        along = problem.layout.along
        crossing = [
            k
            for k, placed in enumerate(job.sources)
            if problem.along[k] and _crosses(placed.view, along.strides[k][-1])
        ]
        if not exceeds(sum(job.sources[k].nbytes for k in crossing), _CROSSED):
            return job
        copies = {k: self.placed(job.shape, job.sources[k].view.dtype) for k in crossing}
        sources = tuple(copies.get(k, placed) for k, placed in enumerate(job.sources))
        made = replace(job, sources=sources)
        after = Problem(program, made, self.info)
        pairs = zip(after.along, after.layout.along.strides, strict=True)
        if not is_across(after) and any(varies and s[-1] not in (0, 1) for varies, s in pairs):
            self.scratch.clear()
            return job
        for k, copy in copies.items():
            self.copy(job.sources[k].view, job.sources[k].memory, copy.memory, self.info)
        return made

    def run(self, program: Program, job: Job) -> None:
        """Add the launches of a program."""
        problem = Problem(program, job, self.info)
        lies_across, schedule = is_across(problem), problem.schedule
        reduces = not any(schedule.along[n] for n in program.results)
        if lies_across and schedule.count == 1 and self._one_pass(problem):
            self._columns(problem)
        elif reduces and schedule.count == 1:
            self._rows(problem)
        elif lies_across or self._is_long(problem):
            self._stages(problem)
        else:
            self.put(rows_launch(problem))
            self.in_place = tuple(
                (job.sources[k].memory.number, job.targets[t].memory.number)
                for k, t in over_operands(problem)
            )

    @staticmethod
    def _one_pass(problem: Problem) -> bool:
        """Return whether results along the rows, if any, are known before the reductions."""
        program, schedule = problem.program, problem.schedule
        along = [n for n in program.results if schedule.along[n]]
        return len(along) < len(program.results) and all(schedule.walks[n] == 0 for n in along)

    def _is_long(self, problem: Problem) -> bool:
        """Return whether rows are few and long enough to divide each among cubes."""
        if held_team(problem) is not None:
            return False
        rows, terms = problem.layout.kept.count, problem.layout.along.count
        size = problem.program.itemsize
        if problem.many and len(problem.job.axes) > 1 and moments_of(problem.schedule):
            # By pieces, a mean and a variance take one reading instead of two.
            return exceeds(rows * terms * size, _WHOLE)
        if problem.many and self._is_read_again(problem):
            return False
        return divided(self.info, rows, rows * terms * size, terms, size)[0] > 1

    @staticmethod
    def _is_read_again(problem: Problem) -> bool:
        """Return whether there are cubes enough, and more readings than launches are worth.

        Where not all results lie along the rows, as many launches join parts; else the launch that
        writes these joins them itself.
        """
        schedule = problem.schedule
        reduces = not all(schedule.along[n] for n in problem.program.results)
        enough = _ENOUGH_ROWS if reduces else _ENOUGH_LINES
        alone = len(problem.job.axes) == 1 and exceeds(problem.layout.kept.count, enough - 1)
        alone = alone and not exceeds(problem.layout.along.count, _ROW_TERMS)
        # What a device reads less often it still joins as often.
        most = max(schedule.count, len(problem.program.folds))
        return alone and most >= _READINGS

    def _stages(self, problem: Problem) -> None:
        """Add one or more launches for each pass, with results in memory."""
        program, job, schedule = problem.program, problem.job, problem.schedule
        known = dict(zip(program.memory, job.sources, strict=True))
        targets = dict(zip(program.results, job.targets, strict=True))
        left = [n for n in targets if schedule.along[n]]
        for walk in range(self._moments(problem, known, targets), schedule.count):
            wanted = found_by(schedule, walk)
            if not walk:
                wanted += numbers_along(schedule)
            if not wanted:
                continue
            part, operands = part_of(program, wanted, known)
            places = [
                targets[n] if n in targets else self.placed(job.rows, program.dtype(n))
                for n in wanted
            ]
            # What is known along the rows is written on the way, and later passes read it.
            now = [n for n in left if schedule.walks[n] == walk]
            more, read = part_of(program, [*wanted, *now], known)
            given = problem.part(read, [*places, *(targets[n] for n in now)], known)
            both = Problem(more, given, self.info)
            if now and is_across(both) and self._one_pass(both):
                self._columns(both)
                known.update((n, targets[n]) for n in now)
                left = [n for n in left if n not in now]
            else:
                self.run(part, problem.part(operands, places, known))
            known.update(zip(wanted, places, strict=True))
        if left:
            self._write(problem, known, left)

    def _moments(
        self, problem: Problem, known: dict[int, Placed], targets: Mapping[int, Placed]
    ) -> int:
        """Add the launches of means and variances by pieces, and return the passes they do."""
        program, job, schedule = problem.program, problem.job, problem.schedule
        found = moments_of(schedule) if len(job.axes) > 1 else ()
        if not found or exceeds(_PIECE, prod(job.shape[a] for a in job.axes[1:])):
            return 0
        outer, *inner = job.axes
        part, operands = of_pieces(program, found, known)
        shape = tuple(n for a, n in enumerate(job.shape) if a not in inner)
        at = [a for a in range(len(job.shape)) if a not in inner].index(outer)
        dtype = program.dtype(found[0].total)
        before = len(self.scratch)
        rooms = [self.placed(shape, dtype) for _ in range(2 * len(found))]
        terms = prod(job.shape[a] for a in inner)
        given = problem.part(operands, rooms, known)
        alone = [n for n in part.memory if part.operands[n].role == "row"]
        sources = [
            replace(source, view=_along(source.view, at, shape[at])) if n in alone else source
            for n, source in zip(part.memory, given.sources, strict=True)
        ]
        counts = [n for n in operands if n in program.numbers]
        totals = {one.count for one in found}
        numbers = [
            float(terms) if n in totals else number
            for n, number in zip(counts, given.numbers, strict=True)
        ]
        piece = replace(given, axes=tuple(inner), sources=tuple(sources), numbers=tuple(numbers))
        first = Problem(part, piece, self.info)
        wanted = [n for walk in range(2) for n in found_by(schedule, walk)]
        wanted += numbers_along(schedule)
        both, others = joined(program, found, wanted, known)
        places = [
            targets[n] if n in targets else self.placed(job.rows, program.dtype(n)) for n in wanted
        ]
        buffers = len(both.memory) + len(places)
        if is_across(first) or self._is_long(first) or buffers > self.info.arguments:
            del self.scratch[before:]
            return 0
        beside = problem.many and not exceeds(shape[at], _PIECES)
        if beside:
            # The pieces of a row are adjacent, as its cubes read them that join them, and those
            # that compute them.
            kept = [a for a in range(len(job.shape)) if a not in job.axes]
            shape, at = (*job.rows, shape[at]), len(kept)
            rooms = [replace(r, view=View(shape, row_major(shape), dtype)) for r in rooms]
            first = Problem(part, _turned(first, (*kept, outer, *inner), rooms), self.info)
        self.put(rows_launch(first))
        rest = problem.part(others, places, known)
        lone = View(job.rows, _without(rooms[0].view.strides, at), dtype)
        firsts = [Placed(room.memory, lone) for room in rooms[::2]]
        second = replace(
            rest,
            shape=shape,
            axes=(at,),
            sources=(*rooms, *firsts, *rest.sources),
            numbers=(float(shape[at]), float(terms), 0.0, *rest.numbers),
        )
        if beside:
            self._join(Problem(both, second, self.info), Parts(first, 1, 0, shape[at]))
        else:
            self.run(both, second)
        known.update(zip(wanted, places, strict=True))
        return 2

    def _join(self, joining: Problem, left: Parts | None) -> None:
        """Leave the joining of parts to the next launch, or to one of its own before that.

        ``left``: how the last launch left them, if it waits for no others.
        """
        self.put()
        self.waiting, self.left = joining, left

    def _applied(
        self, problem: Problem, known: Mapping[int, Placed], left: Collection[int]
    ) -> bool:
        """Add the launch that joins parts and writes along rows; return whether there is one.

        Where cubes may wait for others, it is that of the parts too.
        """
        if self.waiting is None:
            return False
        program, job = problem.program, problem.job
        pairs = zip(program.results, job.targets, strict=True)
        wanted = {n: placed for n, placed in pairs if n in left}
        places = {n: placed for n, placed in known.items() if n not in program.numbers}
        part, operands = part_of(program, list(wanted), places)
        given = problem.part(operands, list(wanted.values()), places)
        made = applied(Problem(part, given, self.info), self.waiting, job.targets)
        if made is None:
            return False
        self.waiting = None
        both = None if self.left is None else awaited_launch(self.left, made)
        if both is None:
            self.launches.append(made.launch())
        else:
            self.launches[-1] = both
        return True

    def _write(self, problem: Problem, known: Mapping[int, Placed], left: Collection[int]) -> None:
        """Add the launches that write results along rows, from known values."""
        if self._applied(problem, known, left):
            return
        program, job = problem.program, problem.job
        pairs = zip(program.results, job.targets, strict=True)
        wanted = {n: placed for n, placed in pairs if n in left}
        if job.pitched and not all(placed.view.is_dense for placed in wanted.values()):
            self.lines_kept = False
        part, operands = part_of(program, list(wanted), known)
        steps = tuple(s for s in part.steps if isinstance(s, Step))
        expression = Expression(tuple(o.dtype for o in part.operands), steps, part.results)
        sources = [known[n] for n in operands]
        views = [
            placed.view if operand.role == "along" else _repeated(placed.view, job)
            for placed, operand in zip(sources, part.operands, strict=True)
        ]
        outputs = [spec_of(job.shape, placed.view.dtype) for placed in wanted.values()]
        (work,) = lower_expression(expression, views, outputs, self.info)
        places: dict[Argument, Argument] = {Input(k): p.memory for k, p in enumerate(sources)}
        places |= {Output(k): p.memory for k, p in enumerate(wanted.values())}
        for one in work.launches:
            self.put(replace(redirected(one, places), label=job.label))

    def _rows(self, problem: Problem) -> None:
        """Add the launches of a pass along rows."""
        pairs = pairs_launch(problem)
        if pairs is not None:
            self.put(pairs)
            return
        program, found, job = problem.program, problem.layout, problem.job
        rows, terms = found.kept.count, found.along.count
        size = program.itemsize
        # Rows are divided along the first of their axes, or along the only one.
        places = prod(found.along.sizes[:-1]) if len(found.along.sizes) > 1 else terms
        each = terms // max(places, 1) * size
        parts, chunk = divided(self.info, rows, rows * terms * size, places, each)
        if parts == 1 or held_team(problem) is not None:
            self.put(rows_launch(problem))
            return
        inner, rooms = self._parts(problem, (*job.rows, parts))
        made = continued_launch(inner, self.waiting, parts, chunk) if self.waiting else None
        if made is not None:
            self.waiting = None
        self.put(made or rows_launch(inner, parts, chunk))
        left = None if made else Parts(inner, parts, chunk, parts)
        self._join(self._joining(problem, job, rooms, len(job.rows)), left)

    def _columns(self, problem: Problem) -> None:
        """Add the launches of a pass across rows."""
        if self._folded(problem):
            return
        found, size = problem.layout, problem.program.itemsize
        terms, columns = found.along.count, found.kept.sizes[-1]
        tile = tile_of(problem)
        if tile.alone:
            self.put(columns_launch(problem))
            return
        span = tile.span
        cubes = found.kept.count // columns * -(-columns // span)
        total = found.kept.count * terms * size
        # Of many units the launch that reads the parts joins them, so fewer bytes pay.
        whole = least(_WHOLE, _COLUMNS * cubes) if problem.many else _WHOLE
        parts, chunk = divided(self.info, cubes, total, terms, min(span, columns) * size, whole)
        if parts > 1 and problem.many and tile.width > 1:
            # Vectors bring as many bytes from half as many cubes, which leave fewer parts.
            chunk *= 2
            parts = -(-terms // chunk)
        if parts == 1:
            self.put(columns_launch(problem))
            return
        inner, rooms = self._parts(problem, (parts, *problem.job.rows))
        joined = self._joining(problem, problem.job, rooms, 0)
        one = columns_joined_launch(inner, joined, parts, chunk)
        self.put(*([one] if one else [columns_launch(inner, parts, chunk), _whole(joined)]))

    def _parts(self, problem: Problem, shape: tuple[int, ...]) -> tuple[Problem, list[Placed]]:
        """Return the problem of partial reductions, and the memory for these.

        Results along the rows are results of the parts.
        """
        program, rows = problem.program, problem.job.rows
        pairs = zip(program.results, problem.job.targets, strict=True)
        along = {n: placed for n, placed in pairs if problem.schedule.along[n]}
        part, operands = part_of(program, [*program.folds, *along])
        rooms = [self.placed(shape, program.dtype(n)) for n in program.folds]
        views = [replace(r, view=View(rows, row_major(rows), r.view.dtype)) for r in rooms]
        return Problem(part, problem.part(operands, [*views, *along.values()]), self.info), rooms

    def _folded(self, problem: Problem) -> bool:
        """Add the launches for few columns and dense rows, and return whether they suit.

        Several rows form one wide row, whose columns are then joined.
        """
        program, job, width = problem.program, problem.job, problem.width
        kept, along = problem.layout.kept, problem.layout.along
        *outer, columns = kept.sizes
        several = -(-4 * width // columns)
        dense = all(
            program.operands[i].role == "along"
            and kept.strides[k][-1] == 1
            and along.strides[k] == (columns,)
            for k, i in enumerate(program.memory)
        )
        small = not exceeds(along.count * kept.count, _WORTH_MORE_LAUNCHES - 1)
        small = small or any(problem.along[len(program.memory) :])
        if problem.many or small or columns >= 2 * width or not dense or along.count < 4 * several:
            return False
        wide_rows, rest = divmod(along.count, several)
        lots = several + bool(rest)
        part, operands = part_of(program, program.folds)
        axis = len(outer)
        rooms = [self.placed((*outer, lots, columns), program.dtype(n)) for n in program.folds]
        pieces = [(0, wide_rows, several), (wide_rows * several, rest, 1)]
        for first, count, side in pieces[: 1 + bool(rest)]:
            shape, size = (*outer, count, side * columns), side * columns
            sources = []
            for k, old in enumerate(job.sources):
                strides = (*kept.strides[k][:-1], size, 1)
                offset = old.view.offset + first * columns
                sources.append(replace(old, view=View(shape, strides, old.view.dtype, offset)))
            targets = []
            for room in rooms:
                strides = (*room.view.strides[:-2], 1)
                offset = 0 if not first else several * columns
                view = View((*outer, size), strides, room.view.dtype, offset)
                targets.append(replace(room, view=view))
            inner = replace(
                problem.part(operands, targets),
                shape=shape,
                axes=(axis,),
                sources=tuple(sources),
            )
            self._columns(Problem(part, inner, self.info))
        placed = [
            replace(t, view=View(kept.sizes, s, t.view.dtype, t.view.offset))
            for t, s in zip(job.targets, kept.strides[len(job.sources) :], strict=True)
        ]
        self.put(_whole(self._joining(problem, replace(job, targets=tuple(placed)), rooms, axis)))
        return True

    def _joining(self, problem: Problem, job: Job, rooms: Sequence[Placed], axis: int) -> Problem:
        """Return the problem that joins partial results; their parts are an axis."""
        part, operands = joining(problem.program)
        pairs = zip(job.targets, problem.program.results, strict=True)
        targets = [placed for placed, n in pairs if not problem.schedule.along[n]]
        others = problem.part(operands, targets)
        shape, sources = rooms[0].view.shape, (*rooms, *others.sources)
        return Problem(part, replace(others, shape=shape, axes=(axis,), sources=sources), self.info)


def _turned(problem: Problem, order: Sequence[int], targets: Sequence[Placed]) -> Job:
    """Return a job with its axes in another order, those of a row last, and other targets."""
    job = problem.job
    kept = order[: len(order) - len(job.axes)]
    ranks = [sorted(kept).index(a) for a in kept]

    def turned(view: View) -> View:
        axes = order if len(view.shape) == len(order) else ranks
        return replace(
            view,
            shape=tuple(view.shape[a] for a in axes),
            strides=tuple(view.strides[a] for a in axes),
        )

    return replace(
        job,
        shape=tuple(job.shape[a] for a in order),
        axes=tuple(range(len(kept), len(order))),
        sources=tuple(replace(p, view=turned(p.view)) for p in job.sources),
        targets=tuple(targets),
    )


def _whole(problem: Problem) -> Launch:
    """Return the launch of an undivided pass."""
    return columns_launch(problem) if is_across(problem) else rows_launch(problem)


def _crosses(view: View, step: int) -> bool:
    """Return whether neighbours of a row lie in other sectors, where those of an axis do not."""
    size: int = view.dtype.itemsize
    axes = [(n, abs(s)) for n, s in zip(view.shape, view.strides, strict=True) if n > 1]
    many = _SECTOR // size
    short = any(n >= many and s == 1 for n, s in axes)
    return short and abs(step) >= many and all(s for _, s in axes)


def _along(view: View, axis: int, size: int) -> View:
    """Return a view of one value a row, repeated along one more axis."""
    shape, strides = list(view.shape), list(view.strides)
    shape.insert(axis, size)
    strides.insert(axis, 0)
    return View(tuple(shape), tuple(strides), view.dtype, view.offset)


def _without(strides: Sequence[int], axis: int) -> tuple[int, ...]:
    """Return strides without those of an axis."""
    return (*strides[:axis], *strides[axis + 1 :])


def _repeated(view: View, job: Job) -> View:
    """Return a view of one value a row, broadcast to all elements."""
    strides = iter(view.strides)
    whole = tuple(0 if a in job.axes else next(strides) for a in range(len(job.shape)))
    return View(job.shape, whole, view.dtype, view.offset)
