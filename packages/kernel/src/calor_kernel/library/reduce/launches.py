"""Launches of one kernel of a program, along rows and across them.

Requirements: a kernel is built for a program and for classes of sizes. Short rows, for which a unit
would wait for its own results, are computed several at a time. A cube has some microseconds of
work. Values kept between passes stay in the nearest cache, or are recomputed. Few long rows are
divided among cubes. With cubes of many units a row with several passes is read once, if the
registers of a team hold it; a kernel is for few numbers of vectors, so that few are compiled. A
lone sum has the same order as a sum with fused work around it, so it is held in registers too.

Across rows, a block of columns is as wide as a page if there are many blocks, and narrower
otherwise. If blocks are still few, their terms are divided. In a cube of many, units that share a
column take longer than a unit alone if terms are few, as those of a small batch are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from calor.dtypes import int64, uint32
from calor_kernel import language as kl
from calor_kernel.contract.choices import choice, exceeds, greatest, least
from calor_kernel.contract.launching import Bound, Grid
from calor_kernel.contract.work import Flags, Input, Launch, Output, View
from calor_kernel.library.elementwise.values import stored
from calor_kernel.library.reduce.columns import Blocks, ColumnPlan, reduce_columns
from calor_kernel.library.reduce.columns_joined import reduce_columns_joined
from calor_kernel.library.reduce.cooperative_rows import lines_of, read_again, team_of, weight_of
from calor_kernel.library.reduce.job import Problem, Strides
from calor_kernel.library.reduce.program import Program
from calor_kernel.library.reduce.row_state import RowPlan, Rows
from calor_kernel.library.reduce.rows import reduce_rows

# Bytes that a cube of one unit reads and writes: some microseconds of work.
_CHUNK: Final = 1 << 16
# Bytes of a result that no cache holds for the launch that reads it next.
_CACHED: Final = 64 << 20
# Bytes of a row that a unit keeps in its own memory.
_KEPT: Final = 1 << 14
# Bytes that all rows which a unit computes together keep there.
_STACK: Final = 1 << 17
# Vectors of a block, after which the sum is set aside.
_DEPTH: Final = 64
# Maximum of bytes of all operands in a unit's registers, in vectors of 16 bytes.
_HELD: Final = 192
# Vectors of a unit, in order of preference, and the least number of units for several.
_VECTORS: Final = (4, 2, 1, 8)
_PLANE: Final = 32
# Instructions of an element from which units have fewer vectors of several operands on their way.
_HEAVY: Final = 40
# Cubes of a core, if units have one vector of short lines on their way.
_RESIDENT: Final = 4
_LONGEST: Final = 1 << 13
# Bytes of a block of columns, and of one if there are fewer blocks than these.
_WIDE, _NARROW, _FEW = 4096, 1024, 4
_STREAMS: Final = 8
# Rows that a cube of many reads together. Terms that a unit adds alone if columns are many, how
# many columns for each term, and how many units fill a device.
_STREAMED, _SHORT, _EACH, _FILLING = 4, 64, 1 << 11, 1 << 15
# Cubes of a core from which units are alone, if the terms of a block are fewer than its units.
_MANY_CUBES: Final = 8
# Bytes of a unit's vector of columns, where several units join their totals.
_TOGETHER: Final = 8
# Rows of a block, after which sums are set aside.
_ROWS_DEPTH: Final = 512


def rows_launch(problem: Problem, parts: int = 1, chunk: int = 0) -> Launch:
    """Return the launch of a program along rows.

    ``parts``: the number of parts of each row, with ``chunk`` positions of the first axis each; the
    views of the results have the parts as their last axis.
    """
    grid, given = rows_given(problem, parts, chunk)
    return problem.launch(reduce_rows, grid, given.program, **given.rest)


class RowsGiven(NamedTuple):
    """What a kernel of rows gets beside a problem's operands."""

    program: Program
    over: Rows[int]
    views: tuple[Strides[int], ...]
    plan: RowPlan

    @property
    def rest(self) -> dict[str, object]:
        """The arguments beside the program."""
        return {"over": self.over, "views": self.views, "plan": self.plan}


def rows_given(problem: Problem, parts: int = 1, chunk: int = 0) -> tuple[Grid, RowsGiven]:
    """Return the grid and the arguments of a launch along rows; see :func:`rows_launch`."""
    info, job, program = problem.info, problem.job, problem.program
    found = problem.layout
    rows = found.kept.count * parts
    team = held_team(problem) if parts == 1 else None
    plan = _plan(problem, rows, chunk) if team is None else holding(problem, team)
    plan = replace(plan, late=bool(team is None and parts == 1 and over_operands(problem)))
    if plan.keep != "private":
        # A result has room for one of them.
        program = replace(program, kept=program.kept[: 1 if plan.keep else 0])
    if not problem.many:
        plan = _streaming(problem, plan)
    if parts > 1:
        one = plan.transposed or len(found.along.sizes) > 1 or -1 in plan.steps[: len(job.sources)]
        together = 1 if one else plan.together
        plan = replace(plan, split=True, together=together, transposed=False)
    units, turns, index = plan.team, 1, int64
    if problem.many:
        # A row is found by divisions, which take long in 64 bits.
        index = kl.index_dtype(rows, *(span_of(placed.view) for placed in job.placed))
        units = max(min(128, info.max_units), plan.team)
        cubes = -(-rows // (units // plan.team))
    else:
        pairs = zip(job.placed, problem.along, strict=True)
        size = sum(p.view.dtype.itemsize for p, varies in pairs if varies)
        turns = greatest(_CHUNK // greatest(size * found.along.count // parts, 1), 1)
        turns = least(-(-turns // plan.together) * plan.together, rows)
        cubes = -(-rows // turns)
    over = Rows(rows, turns, parts, chunk, found.kept.sizes, found.along.sizes)
    grid = Grid.line(cubes, units, info.planes[0] if units > 1 else 1, index)
    return grid, RowsGiven(program, over, tuple(problem.views(parts)), plan)


def over_operands(problem: Problem) -> list[tuple[int, int]]:
    """Return pairs of a source and a target of an undivided launch that may share memory.

    A unit reads and writes the same elements of a row in each pass, so one that is written in the
    last pass may lie over an operand. Only results that no cache holds are worth it: of a buffer
    that is written the compiler reads nothing early.
    """
    program, job, schedule = problem.program, problem.job, problem.schedule
    if not problem.many or len(problem.layout.along.sizes) > 1 or schedule.count < 2:
        return []
    pairs = []
    for t, (number, target) in enumerate(zip(program.results, job.targets, strict=True)):
        last = schedule.along[number] and schedule.walks[number] == schedule.count - 1
        if not last or not exceeds(target.nbytes, _CACHED) or target.view.strides[-1] != 1:
            continue
        for k, source in enumerate(job.sources):
            inside = isinstance(source.memory, Input) and isinstance(target.memory, Output)
            if inside and problem.along[k] and source.view == target.view:
                pairs.append((k, t))
    return pairs


def span_of(view: View) -> int:
    """Return the elements of memory that a view spans, and at least those that it has."""
    reach = sum((n - 1) * abs(s) for n, s in zip(view.shape, view.strides, strict=True))
    return greatest(reach, view.size)


def _streaming(problem: Problem, plan: RowPlan) -> RowPlan:
    """Return the plan for data that does not fit the caches."""
    info, job = problem.info, problem.job
    total = sum(p.nbytes for p in job.placed)
    plan = replace(plan, ahead=bool(info.caches) and exceeds(total, info.caches[-1]))
    shared = info.native.get("shared_cache", 0)
    pitch = problem.layout.along.sizes[-1]
    first = len(job.sources)
    written = [k for k in range(len(job.targets)) if problem.along[first + k]]
    past = bool(shared and written and plan.keep != "result") and exceeds(total, shared)
    even = past and all(
        plan.steps[first + k] == 1 and pitch * job.targets[k].view.dtype.itemsize % info.align == 0
        for k in written
    )
    return replace(plan, nontemporal=even)


def _plan(problem: Problem, rows: int, chunk: int) -> RowPlan:
    """Return the plan of rows in memory; ``chunk``: positions of a part's first axes, 0 for all."""
    program, found, info, width = problem.program, problem.layout, problem.info, problem.width
    length, terms = found.along.sizes[-1], found.along.count
    several, simple = len(found.along.sizes) > 1, len(program.steps) <= 3
    plan = RowPlan(steps_of(problem), width)
    if problem.many:
        aligned = not several and not chunk and _has_pitch(problem)
        width = width if several or aligned else _whole_width(problem)
        even = is_even(problem, width) and (several or chunk % width == 0)
        again = not several and not chunk and read_again(problem)
        alone = again or not exceeds(rows, 1 if chunk else info.cores)
        team = team_of(length, width, info.max_units, alone)
        lines = 1
        if several:
            # Short lines leave units for several of them.
            whole = team_of(terms, width, info.max_units, alone)
            lines = lines_of(whole // team, chunk or terms // greatest(length, 1))
        unroll = 4 if length >= 8 * team * width else 1
        once = problem.schedule.count == 1 and sum(problem.along[: len(program.memory)]) > 1
        if unroll > 1 and once and weight_of(program) > _HEAVY:
            unroll = 2  # As many bytes on the way, with registers for more cubes.
        elif several and unroll == 1:
            plan = replace(plan, resident=_RESIDENT)
        known = None if several or chunk or unroll > 1 else _team_of_registers(problem)
        if known is not None:
            # The order of a sum is that of the same row with another stride.
            team = known[0]
        if unroll > 1 and width < problem.width:
            unroll *= 2  # For as many bytes on the way as device memory needs.
        plan = replace(plan, width=width, even=even, aligned=aligned)
        plan = replace(plan, team=team * lines, unroll=unroll, lines=lines)
    elif _transposes(problem, rows):
        plan = replace(plan, together=width, transposed=True, short=length < width)
    elif not exceeds(length, 32 * width):
        together = min(4 if simple else 2, 1 << (rows.bit_length() - 1))
        plan = replace(plan, together=together, unroll=2 if simple else 1)
    elif simple:
        plan = replace(plan, together=4 if rows >= 4 else 1, unroll=4 if rows >= 4 else 8)
    else:
        plan = replace(plan, unroll=2)
    block = _DEPTH * plan.unroll * width * plan.team
    if problem.compensated:
        if several and length * 4 <= block:
            # For any number of terms: one kernel for few and many.
            plan = replace(plan, block=_outer_block(block, length), outer=True)
        elif terms > block:
            plan = replace(plan, block=block)
    return _keeping(problem, plan)


def steps_of(problem: Problem) -> tuple[int, ...]:
    """Return the strides of the last axis that a kernel is built for, −1 for others."""
    pairs = zip(problem.along, problem.layout.along.strides, strict=True)
    return tuple(s[-1] if varies and s[-1] in (0, 1) else -1 for varies, s in pairs)


@choice(low=1)
def _outer_block(block: int, length: int) -> int:
    """Return the positions of the outer axes in a block; few numbers make few kernels."""
    return max(1, block >> (length - 1).bit_length()) if length else block


def _transposes(problem: Problem, rows: int) -> bool:
    """Return whether as many rows as lanes are computed together."""
    program, width = problem.program, problem.width
    length = problem.layout.along.sizes[-1]
    simple = len(program.steps) <= 3
    few = not exceeds(rows, 2 * width - 1)
    if length >= width and (few or exceeds(length, 8 * width) or not simple):
        return False  # Rows shorter than a vector take no time, however many there are.
    return 1 < width <= 16 and all(program.dtype(n).kind != "bool" for n in program.folds)


def _keeping(problem: Problem, plan: RowPlan) -> RowPlan:
    """Return the plan with memory for kept values, if there is any."""
    program, schedule = problem.program, problem.schedule
    # For a team, recomputing costs less than writing and reading memory.
    if not program.kept or problem.many:
        return plan
    dtype = program.dtype(program.kept[0])
    kept = min(_KEPT, _STACK // (plan.together * len(program.kept)))
    capacity = kept // dtype.itemsize
    if problem.layout.along.count <= capacity:
        return replace(plan, keep="private", capacity=capacity)
    # Only results of the last pass may hold kept values that a later pass reads.
    for k, n in enumerate(program.results):
        late = schedule.along[n] and schedule.walks[n] == schedule.count - 1
        if late and program.dtype(n) is dtype and plan.steps[len(program.memory) + k] == 1:
            return replace(plan, keep="result", holder=k)
    return plan


def held_team(problem: Problem) -> tuple[int, int] | None:
    """Return the units of a row and their vectors; None if no team's registers suffice."""
    found = problem.layout
    # Lines of a single pass are read once in any case.
    if not problem.many or (len(found.along.sizes) > 1 and problem.schedule.count == 1):
        return None
    pairs = zip(found.along.strides, problem.along, strict=True)
    if any(varies and s[-1] not in (0, 1) for s, varies in pairs):
        return None
    return _team_of_registers(problem)


def _team_of_registers(problem: Problem) -> tuple[int, int] | None:
    """Return what :func:`held_team` does, for rows of any stride."""
    program = problem.program
    if problem.schedule.count == 1 and not any(program.fold(n).op.rounds for n in program.folds):
        return None
    return team_that_holds(problem)


def held_plan(problem: Problem, units: int, rows: int) -> RowPlan | None:
    """Return the plan of ``rows`` rows in the registers of ``units`` units; None if these are few.

    Units without a row share those of others, so that each holds less.
    """
    found = held_team(problem)
    if found is None:
        return None
    (team, held), most = found, _most_held(problem)
    while team > units:
        team, held = team // 2, held * 2
    while held > 1 and held % 2 == 0 and 2 * team <= units and units // team > rows:
        team, held = team * 2, held // 2
    return holding(problem, (team, held)) if held <= most else None


def _most_held(problem: Problem) -> int:
    """Return the vectors of a row that a unit may hold, of all operands along it."""
    program, several = problem.program, len(problem.layout.along.sizes) > 1
    operands = sum(1 for o in program.operands if o.role == "along")
    if several:
        # Masks take few registers.
        operands -= sum(1 for o in program.operands if o.role == "along" and o.dtype.kind == "bool")
    return _HELD // (problem.info.vector_bytes * max(operands, 1))


def team_that_holds(problem: Problem) -> tuple[int, int] | None:
    """Return the units of a row and their vectors, whether or not the order of terms matters."""
    found, info, most = problem.layout, problem.info, _most_held(problem)
    if problem.schedule.count == 1:
        # Fused programs have more operands than the lone reduction; too many are not held.
        most = min(most, _VECTORS[0])
    terms, width = found.along.count, _held_width(problem)
    capacity = 1
    while capacity <= _LONGEST:
        if terms <= capacity * width:
            for held in _VECTORS:
                team = capacity // held
                whole = held == 1 or team >= _PLANE
                if held <= most and whole and 0 < team <= info.max_units:
                    # Of a quarter that no row fills the instructions would count.
                    fewer = held - held // 4
                    return team, fewer if terms <= fewer * team * width else held
        capacity *= 2
    return None


def holding(problem: Problem, team: tuple[int, int]) -> RowPlan:
    """Return the plan of rows in registers."""
    width, several = _held_width(problem), len(problem.layout.along.sizes) > 1
    units, held = team
    if not several:
        held *= width // _whole_width(problem)
        width = _whole_width(problem)
    even = several or is_even(problem, width)
    alike = _alike(problem) if several else ()
    return RowPlan(steps_of(problem), width, team=units, held=held, even=even, alike=alike)


def _alike(problem: Problem) -> tuple[int, ...]:
    """Return for each view the first one with the same strides, which are those of its offsets."""
    strides = list(problem.views())
    return tuple(
        next(j for j in range(k + 1) if strides[j] == strides[k]) for k in range(len(strides))
    )


def _held_width(problem: Problem) -> int:
    """Return the width of vectors in registers; along several axes none crosses a line's end."""
    several = len(problem.layout.along.sizes) > 1
    return 1 if several and not is_even(problem, problem.width) else problem.width


def _whole_width(problem: Problem) -> int:
    """Return the width of vectors of which rows are made, 1 if they are not whole ones.

    Units then read and write neighbouring elements, where each lane of an incomplete or unaligned
    vector would be an access of its own, far from those of the neighbouring units. The width
    depends on the length alone, as the order of a sum does.
    """
    return 1 if problem.layout.along.sizes[-1] % problem.width else problem.width


def _has_pitch(problem: Problem) -> bool:
    """Return whether rows of an odd length have a pitch that makes vectors whole but the last.

    Only the planner's own pitches count, so that sums of a view have the order of dense rows.
    """
    odd = problem.layout.along.sizes[-1] % problem.width != 0
    return problem.job.pitched and odd and is_aligned(problem, problem.width)


def is_even(problem: Problem, width: int) -> bool:
    """Return whether the last axis of rows is whole, aligned vectors in each view."""
    return not problem.layout.along.sizes[-1] % width and is_aligned(problem, width)


def is_aligned(problem: Problem, width: int) -> bool:
    """Return whether the last axis of rows begins with an aligned vector in each view."""
    found = problem.layout
    steps = steps_of(problem)
    for k, placed in enumerate(problem.job.placed):
        if problem.along[k] and steps[k]:
            lines = (*found.kept.strides[k], *found.along.strides[k][:-1])
            places = (placed.memory.offset + placed.view.offset, *lines)
            if any(place % width for place in places):
                return False
    return True


def is_across(problem: Problem) -> bool:
    """Return whether vectors run across rows, along the last kept axis."""
    found, program = problem.layout, problem.program
    if found.along.count == 1 and found.kept.count == 1:
        return False
    lies = False
    for k in range(len(program.memory)):
        along = problem.along[k]
        shared = found.kept.strides[k][-1] == 0
        if along and not shared and found.along.sizes[-1] > 1 and found.along.strides[k][-1] == 1:
            return False
        if found.kept.strides[k][-1] not in (0, 1):
            return False
        lies = lies or (along and found.kept.strides[k][-1] == 1)
    return lies and all(s[-1] == 1 for s in found.kept.strides[len(program.memory) :])


class Tile(NamedTuple):
    """What a cube has: ``span`` columns in vectors of ``width``, and ``units``.

    ``alone``: whether each unit has all terms of a vector, of any block.
    """

    width: int
    span: int
    units: int
    alone: bool = False


def tile_of(problem: Problem) -> Tile:
    """Return what a cube of a pass across rows has."""
    found, info = problem.layout, problem.info
    columns, count = found.kept.sizes[-1], found.kept.count
    if problem.many:
        units, terms = min(info.max_units, 256), found.along.count
        small = not exceeds(columns * terms, units)
        small = small and exceeds(count // greatest(columns, 1), _MANY_CUBES * info.cores)
        if terms <= _STREAMED or (terms <= _SHORT and (small or count >= terms * _EACH)):
            width = _alone_width(problem)
            across = 1
            while across * 2 <= units and across * width < columns:
                across *= 2
            return Tile(width, across * width, units // across * across, alone=True)
        width, most, across = _joined_width(problem), min(info.max_units, 32), 1
        while across < most and across * width < columns:
            across *= 2
        return Tile(width, across * width, units)
    per = info.vector_bytes // problem.width
    outers = count // max(columns, 1)
    narrow = outers * -(-columns // (_WIDE // per)) < _FEW
    span = max((_NARROW if narrow else _WIDE) // per // problem.width, 1) * problem.width
    return Tile(problem.width, span, 1)


def _alone_width(problem: Problem) -> int:
    """Return the width of vectors of columns that are whole and aligned in each view.

    Vectors are narrower if units are few, and single if results are written along the terms.
    """
    width = problem.width
    if any(problem.along[len(problem.program.memory) :]):
        return 1
    while width > 1 and problem.layout.kept.count < _FILLING * width:
        width //= 2
    return _whole_columns(problem, width)


def _joined_width(problem: Problem) -> int:
    """Return the width of vectors of columns of units that join their totals.

    Vectors are narrower if they are not whole and aligned, or few units would have one.
    """
    columns = problem.layout.kept.sizes[-1]
    pairs = zip(problem.job.placed, problem.along, strict=True)
    types = [stored(placed.view.dtype).itemsize for placed, varies in pairs if varies]
    width = max(_TOGETHER // max(types, default=_TOGETHER), 1)
    while width > 1 and columns % (_PLANE * width) and not exceeds(columns, 4 * _PLANE * width):
        width //= 2
    return _whole_columns(problem, width)


def _whole_columns(problem: Problem, width: int) -> int:
    """Return the greatest width up to one with vectors that are whole and aligned in each view."""
    found = problem.layout
    places = [found.kept.sizes[-1]]
    for k, placed in enumerate(problem.job.placed):
        *lines, step = found.kept.strides[k]
        if step:
            offset = placed.memory.offset + placed.view.offset
            places += [offset, *lines, *found.along.strides[k]]
    while width > 1 and any(n % width for n in places):
        width //= 2
    return width


def columns_launch(problem: Problem, parts: int = 1, chunk: int = 0) -> Launch:
    """Return the launch of a program's one pass across rows.

    ``parts``: the number of parts of ``chunk`` terms; the results of the parts follow one another.
    """
    grid, given = _columns(problem, tile_of(problem), parts, chunk)
    return problem.launch(reduce_columns, grid, problem.program, **given._asdict())


def columns_joined_launch(
    problem: Problem, joined: Problem, parts: int, chunk: int
) -> Launch | None:
    """Return the launch of parts of columns whose last cubes join them, None if none can.

    ``joined``: the problem of joining; its first operands are the parts' reductions.
    """
    info, folds = problem.info, len(problem.program.folds)
    able = all(map(info.has, ("barrier", "atomics", "forward_progress")))
    same = problem.layout.kept.sizes == joined.layout.kept.sizes
    if not (able and problem.many and same and is_across(joined)):
        return None
    tile = tile_of(problem)
    width = _whole_columns(joined, tile.width)
    tile = tile._replace(width=width, span=tile.span // tile.width * width)
    grid, given = _columns(problem, tile, parts, chunk)
    _, joining = _columns(joined, tile)
    return problem.launch(
        reduce_columns_joined,
        grid,
        problem.program,
        **given._asdict(),
        others=[p.bound for p in joined.job.sources[folds:]],
        results=[p.bound for p in joined.job.targets],
        more=joined.numbers,
        parts=joining.over,
        joined=joining.views,
        flags=Bound(Flags(given.over.blocks * given.over.outers), uint32),
        joining=joined.program,
        joining_plan=joining.plan,
    )


class _Given(NamedTuple):
    """What a kernel of columns gets beside a problem's operands."""

    over: Blocks[int]
    views: tuple[Strides[int], ...]
    plan: ColumnPlan
    along: tuple[int, ...]


def _columns(problem: Problem, tile: Tile, parts: int = 1, chunk: int = 0) -> tuple[Grid, _Given]:
    """Return the grid and the arguments of a pass across rows."""
    program, found, many = problem.program, problem.layout, problem.many
    span, sources = tile.span, len(program.memory)
    varies = problem.along[sources:]
    along = tuple(k for k, one in enumerate(varies) if one)
    column = sources + varies.index(False)
    columns, terms = found.kept.sizes[-1], found.along.count
    outers = found.kept.count // columns
    blocks = -(-columns // span)
    tasks = blocks * outers * parts
    chunk = chunk or terms
    depth = _ROWS_DEPTH * max(tile.units * tile.width // span, 1)
    streams = _STREAMED if many else _STREAMS
    turns, index = 1, int64
    if tile.alone:
        # Each unit finds its block by divisions, which take long in 64 bits.
        spans = (span_of(placed.view) for placed in problem.job.placed)
        index = kl.index_dtype(2 * tasks * span, *spans)
        turns = tile.units * tile.width // span
        while streams > 1 and streams > terms:
            streams //= 2
    plan = ColumnPlan(
        tile.width,
        span,
        streams,
        (*(s[-1] for s in found.kept.strides[:sources]), *(1 for _ in along)),
        depth if problem.compensated and chunk > depth else 0,
        tile.alone,
        many,
    )
    if not many:
        turns = greatest(_CHUNK // greatest(program.itemsize * least(span, columns) * chunk, 1), 1)
    sizes = found.kept.sizes[:-1]
    count = found.kept.count
    views = [replace(view, kept=view.kept[:-1]) for view in problem.views()]
    lengths = found.along.sizes
    over = Blocks(tasks, turns, blocks, outers, columns, terms, chunk, count, sizes, lengths)
    strides = (*views[:sources], *(views[sources + k] for k in along), views[column])
    grid = Grid.line(-(-tasks // turns), tile.units, index=index)
    return grid, _Given(over, strides, plan, along)
