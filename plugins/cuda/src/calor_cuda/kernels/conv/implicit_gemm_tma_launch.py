"""Launches of TMA implicit GEMM: convolutions, and input gradients with their stride phases.

Requirements: if only one pixel of each stride cell of an input gradient has taps, tiles hold those
pixels alone. With a stride of two, alternating pixels of a row are in one tile and are written
together, so memory lines are written whole. A tap that only one phase has is multiplied by zeros
for the other, which costs less than a separate write of each phase. Phases of other rows are other
tiles of the launch, so that larger tiles fill the device, unless they have fewer taps; all share
the copies of both operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from calor.dtypes import bfloat16, float16, int32
from calor_cuda.kernels.conv.implicit_gemm_tma import Window, conv_tma
from calor_cuda.kernels.conv.implicit_gemm_tma_plan import (
    MOST,
    SPLITS,
    Cells,
    Made,
    RowPhases,
    TmaPlan,
    Writes,
    plans_of,
    plans_of_pieces,
)
from calor_cuda.kernels.warpgroup import LINE
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch, Request, Work
from calor_kernel.library.conv.implicit_gemm_operands import (
    Last,
    Weights,
    image_of,
    phases_of,
    two_axes,
    weights_of,
)
from calor_kernel.library.conv.problem import (
    Axis,
    Convolution,
    Correlation,
    Part,
    undivided,
)
from calor_kernel.library.conv.split_sums import WHOLE, ending, launch_sum, target_of
from calor_kernel.library.gemm.epilogue import Tail
from calor_kernel.library.steps import Steps

_NEEDED = ("async_matrix", "tensor_copy", "mbarrier", "barrier", "planes")
# Minimum of steps of a part if cores are idle; the number of plans to time; phases of a row, and
# minimum of channels, which fill the rows of a tile with their phases.
_LITTLE, _TIMED, _TWO, _LEAST = 2, 4, 2, 32
# Rows of a warp group.
_LOW = 64
# The least part of the lines of a tap that are channels, as a fraction.
_FILLED, _MOST_FILLED = 7, 10


def tma_refusal(one: Convolution, request: Request) -> str | None:
    """Return why TMA cannot feed an implicit GEMM, None if it can."""
    part = _in_cells(one.seen)
    return _refusal(part.problem if part is not None else one.seen, one)


def _in_cells(problem: Correlation) -> Part | None:
    """Return the only part of a problem that has taps, None if there are several or no others.

    Its positions are one in each cell of ``steps``; the last cells may reach beyond the result.
    """
    known = all(type(axis.count) is int for axis in problem.axes)
    if not known or all(axis.divide == 1 for axis in problem.axes):
        return None
    parts = undivided(problem)
    seen = [part for part in parts if part.problem.depth.size]
    if len(seen) != 1 or len(parts) == 1:
        return None
    (part,) = seen
    counts = [-(-axis.count // by) for axis, by in zip(problem.axes, part.steps, strict=True)]
    axes = zip(part.problem.axes, counts, strict=True)
    made = tuple(replace(axis, count=count) for axis, count in axes)
    return replace(part, problem=replace(part.problem, axes=made))


def _refusal(problem: Correlation, one: Convolution) -> str | None:
    """Return why boxes do not cover a problem's windows; it is a part of the convolution."""
    p, info = problem, one.info
    if not all(map(info.has, _NEEDED)) or info.planes[0] != 32:
        return "the device has no TMA with matrix instructions of warp groups"
    if p.by_weight:
        return "it is a weight gradient"
    if not (p.a.dtype in (float16, bfloat16) or one.rounded):
        return f"no matrix instruction of warp groups takes {p.a.dtype}"
    if len(p.axes) > 2 or not all(type(axis.count) is int for axis in p.axes):
        return "it has more than two spatial axes, or their sizes are not known yet"
    if not all(axis.divide == 1 for axis in p.axes):
        return "its stride is that of a gradient"
    _, groups, outputs = p.leads
    if groups.size != 1 or outputs.size < 64:
        return "it has groups, or fewer than 64 output channels"
    if max(SPLITS) * max(one.seen.size, p.a.size, p.b.size) >= MOST:
        return "its positions are no 32-bit numbers"
    depth = LINE // p.a.dtype.itemsize
    if p.depth.size % depth == 0:
        return None
    # TMA fills the last line of a tap with zeros where channels are the whole inner axis.
    if two_axes(p)[1].result != 1:
        return f"channels are no multiple of {depth}, and columns have groups"
    if _MOST_FILLED * p.depth.size < _FILLED * (-(-p.depth.size // depth) * depth):
        return f"lines of {depth} channels are mostly beyond the last"
    return None


@dataclass(frozen=True, slots=True)
class _Form:
    """A plan with the form of its result.

    ``cells``: rows and columns if pixels are cells, or what alternating phases need. ``plane``: the
    elements of a channel; ``unit``: rows begin at multiples of this many elements.
    """

    plan: TmaPlan
    cells: tuple[int, ...]
    plane: int
    unit: int

    def part_step(self, size: int) -> int:
        """Return the stride of parts of a result of a size."""
        unit = max(self.unit, WHOLE)
        return -(-size // unit) * unit


def tma_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of a problem that TMA can feed, the likeliest first."""
    problem, info, wanted = one.seen, one.info, request.candidates
    part = _in_cells(problem)
    seen = part.problem if part is not None else problem
    found = _found(seen, problem.size, info)
    several = two_axes(seen)[0].terms * two_axes(seen)[1].terms > 1
    # With several taps, smaller tiles of cubes that share a core finish sooner.
    few = not found or (several and _idle(seen, found[0], info))
    if few and not wanted:
        return
    likely = found[: _TIMED if wanted else 1]
    timed = wanted and found and _idle(seen, found[0], info)
    more = _smaller(seen, problem.size, info, likely) if timed else []
    for made in (*likely, *more):
        _, plan, splits = made
        steps, form = Steps(), _form(problem, part, plan)
        step = form.part_step(problem.size)
        down, across = two_axes(seen)
        x = image_of(seen, steps, info, whole=(down.result, across.result))
        weights = weights_of(seen, _whole_lines(x, plan), plan.depth, steps, info)
        target = target_of(steps, problem.a.dtype, splits * step if splits > 1 else 0)
        (phase,) = phases_of(seen, weights)
        tail = one.tail if part is None else None
        steps.launches.append(
            _launch([(phase.problem, 0)], form, splits, step, x, weights, target, info, tail)
        )
        sizes, image = (1, 1, problem.size, step), (problem.leads[2].size, form.plane)
        launch_sum(steps, target, problem.a.dtype, sizes, splits, step, info, tail, image)
        name = f"boxes {_title(plan)}{f' in {splits}' if splits > 1 else ''}"
        yield replace(steps.work(), variant=name, group=int(few or made not in likely))


def _found(problem: Correlation, size: int, info: DeviceInfo, windows: int = 1) -> list[Made]:
    """Return plans, the fastest first; if most cores would be idle, with rows in more pieces.

    ``windows``: the number of such problems in a launch.
    """
    rows, outputs = _rows_of(problem), problem.leads[2].size
    found = plans_of(problem, size, info, rows, windows=windows)
    if -(-outputs // _LOW) * _LOW < -(-outputs // rows) * rows:
        # Tiles of two warp groups would have empty rows.
        found += plans_of(problem, size, info, _LOW, windows=windows)
        found.sort(key=lambda made: made[0])
    if found and not _idle(problem, found[0], info, windows):
        return found
    more = [one for n in {64, rows} for one in plans_of_pieces(problem, size, info, n, windows)]
    return sorted([*found, *more], key=lambda made: made[0])


def _rows_of(problem: Correlation) -> int:
    return 2 * _LOW if problem.leads[2].size > _LOW else _LOW


def _whole_lines(x: Last, plan: TmaPlan) -> int:
    """Return the channels of a tap with those that fill its last line."""
    return -(-x.room // plan.depth) * plan.depth


def _title(plan: TmaPlan) -> str:
    return f"{plan.rows}x({'x'.join(map(str, plan.box))}) by {plan.units}"


def _idle(problem: Correlation, made: Made, info: DeviceInfo, windows: int = 1) -> bool:
    """Return whether most cores have no cube of a plan."""
    return bool(2 * made[1].tiles(problem) * windows * made[2] < info.cores)


def _smaller(
    problem: Correlation, size: int, info: DeviceInfo, likely: Sequence[Made]
) -> list[Made]:
    """Return plans of small tiles and of short parts beside the likely ones, best first.

    Of plans that differ in the box alone only the first is returned.
    """
    made: dict[tuple[int, int], Made] = {}
    for rows in (64, 128) if problem.leads[2].size > 64 else (64,):
        for one in plans_of(problem, size, info, rows, _LITTLE):
            made.setdefault((rows, one[2]), one)
    known = {(plan.rows, plan.box, splits) for _, plan, splits in likely}
    new = [m for m in made.values() if (m[1].rows, m[1].box, m[2]) not in known]
    return sorted(new, key=lambda one: one[0])[:_TIMED]


def _form(problem: Correlation, part: Part | None, plan: TmaPlan) -> _Form:
    """Return a plan with its result's form; ``part``: the only phase with taps, if any."""
    high, wide = (axis.count for axis in two_axes(problem))
    plane, ragged = high * wide, problem.leads[2].size % plan.rows != 0
    most = 16 // plan.result.itemsize
    _, rows, columns = plan.box
    if part is None:
        # Rows of all columns are adjacent.
        whole = columns == wide
        run = _together(most, columns * rows if whole else columns, plane if whole else wide)
        return _Form(replace(plan, writes=Writes(run, ragged)), (), plane, run)
    down, across = (1, *part.steps)[-2:]
    top, left = (0, *part.offsets)[-2:]
    run = _together(max(most // across, 1), columns, -(-wide // across))
    access = _together(most, run * across, wide)
    cells = Cells((down, across), (top, left), access, bool(high % down or wide % across))
    return _Form(replace(plan, writes=Writes(run, ragged, cells)), (high, wide), plane, access)


def _together(most: int, *counts: int) -> int:
    """Return the most elements of an access that divides all counts."""
    return next(n for n in (8, 4, 2, 1) if n <= most and all(count % n == 0 for count in counts))


def stride2_refusal(one: Convolution, request: Request) -> str | None:
    """Return why two phases of a row are not computed together, None if they are."""
    p = one.seen
    if len(p.axes) > 2 or not all(type(axis.count) is int for axis in p.axes):
        return "it has more than two spatial axes, or their sizes are not known yet"
    if p.axes[-1].divide != _TWO or p.leads[2].size < _LEAST:
        return f"it has no two phases in a row, or fewer than {_LEAST} channels"
    windows = _windows(p)
    if windows is None:
        return "no window covers the taps of both phases"
    reasons = (_refusal(window, one) for window in windows)
    return next((reason for reason in reasons if reason is not None), None)


def stride2_works(one: Convolution, request: Request) -> Iterator[Work]:
    """Yield the works of an input gradient with two phases in a row, the likeliest first."""
    problem, info = one.seen, one.info
    windows = _windows(problem)
    assert windows is not None
    # The window with most taps takes longest.
    most = max(windows, key=lambda window: window.terms)
    # Tiles of rows with fewer taps would end before the others, so they are a launch of their own.
    joined = len(windows) if all(one.terms == most.terms for one in windows) else 1
    found = [made for made in _found(most, problem.size, info, joined) if made[2] == 1]
    few = not found or _idle(most, found[0], info, joined)
    if few and not request.candidates:
        return
    for _, plan, _ in found[: _TIMED if request.candidates else 1]:
        steps = Steps()
        x = image_of(problem, steps, info)
        weights = weights_of(problem, _whole_lines(x, plan), plan.depth, steps, info)
        seen: list[tuple[_Form, list[tuple[Correlation, int]]]] = []
        for row in _rows(phases_of(problem, weights)):
            window = _window(row)
            assert window is not None
            form = _form_of_phases(problem, row, window, plan)
            first = window, (0, *row[0].offsets)[-2] * problem.axes[-1].count
            if seen and joined > 1 and seen[-1][0] == form:
                seen[-1][1].append(first)
            else:
                seen.append((form, [first]))
        for form, several in seen:
            step = form.part_step(problem.size)
            target = target_of(steps, problem.a.dtype, 0)
            steps.launches.append(_launch(several, form, 1, step, x, weights, target, info))
        yield replace(steps.work(), variant=f"phases {_title(plan)}", group=int(few))


def _rows(parts: list[Part]) -> list[list[Part]]:
    """Return the phases of each row of the cells."""
    ordered = sorted(parts, key=lambda part: part.offsets)
    return [list(row) for _, row in groupby(ordered, key=lambda part: part.offsets[:-1])]


def _windows(problem: Correlation) -> list[Correlation] | None:
    """Return the window of each row of phases, None if a row has none.

    The rows of tiles are those of both phases.
    """
    images, group, outputs = problem.leads
    leads = images, group, replace(outputs, size=_TWO * outputs.size)
    windows = [_window(row) for row in _rows(undivided(problem))]
    found = [replace(window, leads=leads) for window in windows if window is not None]
    return found if len(found) == len(windows) else None


def _window(row: list[Part]) -> Correlation | None:
    """Return the problem of one window that covers all phases of a row, None if there is none."""
    if len(row) != _TWO or any(part.problem.depth.size == 0 for part in row):
        return None
    axes = [part.problem.axes[-1] for part in row]
    first, step = min(axis.start for axis in axes), axes[0].summed
    # Of an odd number of columns the first phase has one more.
    if any((axis.start - first) % step or axes[0].count - axis.count > 1 for axis in axes):
        return None
    terms = max(_shift(axis, first) + axis.terms for axis in axes)
    problem = row[0].problem
    return replace(problem, axes=(*problem.axes[:-1], replace(axes[0], start=first, terms=terms)))


def _shift(axis: Axis[int], first: int) -> int:
    """Return the window column of an axis's first tap, relative to ``first``."""
    return int((axis.start - first) // axis.summed)


def _form_of_phases(
    problem: Correlation, row: list[Part], window: Correlation, plan: TmaPlan
) -> _Form:
    """Return a plan with its result's form for the phases of a row, and their taps."""
    first, base = window.axes[-1].start, window.b.offset // plan.depth
    phases = tuple(
        (part.problem.b.offset // plan.depth - base, _shift(axis, first), axis.terms)
        for part in row
        for axis in part.problem.axes[-1:]
    )
    high, wide = (axis.count for axis in two_axes(problem))
    down = (1, *row[0].steps)[-2]
    cut = wide % _TWO != 0
    most = 1 if cut else max(16 // plan.result.itemsize // _TWO, 1)
    run = _together(most, plan.box[2], wide // _TWO)
    ragged = problem.leads[2].size % (plan.rows // _TWO) != 0
    taps = prod(axis.terms for axis in problem.axes)
    made = replace(
        plan,
        writes=Writes(run, ragged, phases=_TWO, cut=cut),
        row_phases=RowPhases(taps, phases),
    )
    unit = 1 if cut else _TWO * run
    return _Form(made, (down * wide, wide), high * wide, unit)


def _launch(
    problems: Sequence[tuple[Correlation, int]],
    form: _Form,
    splits: int,
    part_step: int,
    x: Last,
    weights: Weights,
    target: Bound,
    info: DeviceInfo,
    tail: Tail | None = None,
) -> Launch:
    """Return the launch for copied operands; the weights' strides are those of the copy.

    ``problems``: those of rows that alternate, each with its first row in the result.
    """
    (p, _), *_ = problems
    plan, several = form.plan, [two_axes(one) for one, _ in problems]
    (images, _, outputs), (down, across) = p.leads, several[0]
    high, wide = max(rows.count for rows, _ in several), across.count
    columns, terms = across.terms, p.depth.size if weights.taps == (0, 0) else weights.row
    if plan.row_phases is not None:
        # Taps of the window that a phase has not are multiplied by zeros.
        columns = sum(some for _, _, some in plan.row_phases.phases)
    needed = sum(rows.count * rows.terms for rows, _ in several) * columns
    strides, (image, row, column) = (down.result, across.result), x.strides
    tiles = max(plan.tiles(one) for one, _ in problems)

    def lines(n: int) -> Multiple:
        return Multiple(n, 16 // p.a.dtype.itemsize)

    def units(n: int) -> Multiple:
        return Multiple(n, form.unit)

    target, following = ending(target.aligned(16), tail, plan.writes.run)
    return launch(
        conv_tma,
        Grid(
            (min(tiles * len(problems), max(info.cores // splits, 1)), splits, 1),
            (plan.units, 1, 1), info.planes[0], int32, alone=True,
        ),
        Effort(
            f"conv tma {plan.rows}x{plan.columns}",
            2 * outputs.size * images.size * wide * p.depth.size * needed, p.nbytes,
        ),
        w=weights.bound.aligned(16), x=x.bound.aligned(16), c=target,
        w_sizes=(outputs.size, lines(terms)), w_row=lines(weights.row),
        x_sizes=(
            images.size, -(-down.size // strides[0]), strides[0], -(-across.size // strides[1]),
            lines((strides[1] - 1) * column + x.room),
        ),
        x_strides=tuple(map(lines, (image, strides[0] * row, row, strides[1] * column))),
        x_column=lines(column),
        windows=[
            _window_of(one, _whole_lines(x, plan) // plan.depth, splits, units(top), plan.depth)
            for one, top in problems
        ],
        pixels=(high, wide), c_row=units(form.plane), c_image=units(outputs.size * form.plane),
        part_step=units(part_step),
        cells=[*form.cells[:1], *map(units, form.cells[1:])], plan=plan, strides=strides,
        **following,
    )  # fmt: skip


def _window_of(
    problem: Correlation, blocks: int, splits: int, top: int | Multiple, depth: int
) -> Window[int | Multiple]:
    """Return a window for the kernel; ``blocks``: of ``depth`` channels, of each tap."""
    down, across = two_axes(problem)
    taps = down.terms * across.terms
    return Window(
        *(blocks * taps // splits, down.count, top, taps, across.terms),
        *(problem.b.offset // depth, down.b // depth, across.b // depth),
        *(down.start, across.start, down.summed, across.summed),
    )
