"""Channels as lines: their layout, what is copied, and the axes on them.

Requirements: no copy if the operand can be read in place. A copy is made if rows are not dense or a
stride divides them into phases. It holds only elements that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Place, launch
from calor_kernel.contract.work import Output, View, row_major
from calor_kernel.library.conv.phase_planes import PlaneAxis, pad_planes
from calor_kernel.library.conv.problem import Axis, Correlation, Lead, accumulator
from calor_kernel.library.conv.row_axes import AxisNumbers, LineNumbers
from calor_kernel.library.conv.vector_tiles import Strides
from calor_kernel.library.copying import transposes
from calor_kernel.library.steps import Steps

_NO_AXIS = Axis(1, 1, 1, 1, 0, 1, 1, 0, 0)


@dataclass(frozen=True, slots=True)
class Lines:
    """Channels as lines: strides of images, groups and channels, and the axes on a line.

    Along each axis: ``first``, the first position of a phase; ``inside``, where padding begins;
    ``jumps``, the stride of phases, and ``units``, the stride of pixels, in elements. Rows have
    ``length`` pixels, planes have ``rows`` rows.
    """

    steps: Strides[int]
    first: tuple[int, ...]
    inside: tuple[int, ...]
    jumps: tuple[int, ...]
    units: tuple[int, ...]
    length: int
    rows: int

    def count(self, axes: Sequence[Axis[int]]) -> int:
        """Return the number of positions from the first to the last output pixel."""
        deep, high, wide = (a.count for a in axes)
        return ((deep - 1) * self.rows + high - 1) * self.length + wide

    def numbers(self, axes: Sequence[Axis[int]]) -> LineNumbers[int]:
        """Return the numbers of a launch."""
        rows = zip(axes, self.jumps, self.first, self.units, self.inside, strict=True)
        made = tuple(
            AxisNumbers(
                a.terms, phases_of(a), jump, a.summed, a.start, first, unit, inside, a.b, a.count
            )
            for a, jump, first, unit, inside in rows
        )
        return LineNumbers(self.count(axes), self.length, self.rows, made)

    def sees_padding(self, axes: Sequence[Axis[int]]) -> bool:
        """Return whether a tap reads beyond the lines."""
        return any(
            shift_of(a, 0) < first or a.count - 1 + shift_of(a, a.terms - 1) >= inside
            for a, first, inside in zip(axes, self.first, self.inside, strict=True)
        )

    def wraps(self, axes: Sequence[Axis[int]], lanes: int) -> int:
        """Return how many row ends a vector of pixels may span."""
        if axes[0].count == 1 and axes[1].count == 1:
            return 0
        return (lanes + self.length - 2) // self.length


@dataclass(frozen=True, slots=True)
class Placement:
    """The layout of results: strides of images, groups, rows and the three spatial axes."""

    leads: tuple[int, int, int]
    axes: tuple[int, int, int]
    memory: Place

    @staticmethod
    def dense(problem: Correlation) -> Placement:
        """Return the layout of a result in memory of its own."""
        sizes = [lead.size for lead in problem.leads] + [a.count for a in three(problem)]
        images, groups, rows, *axes = row_major(sizes)
        return Placement((images, groups, rows), (axes[0], axes[1], axes[2]), Output(0))


def vectors(problem: Correlation, info: DeviceInfo) -> tuple[DType, int]:
    """Return the dtype of a problem's sums, and how many of them fill a vector."""
    accumulate = accumulator(problem.a.dtype)
    return accumulate, max(1, info.vector_bytes // accumulate.itemsize)


def effort(problem: Correlation, label: str) -> Effort:
    """Return the work and traffic of a whole problem."""
    return Effort(label, 2 * problem.size * problem.terms, problem.nbytes)


def three(problem: Correlation) -> tuple[Axis[int], ...]:
    """Return the spatial axes as depth, height and width."""
    return (_NO_AXIS,) * (3 - len(problem.axes)) + problem.axes


def adjacent(axes: Sequence[Axis[int]], depth: Lead[int] | None = None) -> bool:
    """Return whether the weights of a channel are adjacent, or with ``depth`` those of a row."""
    step = 1
    sizes = [(axis.terms, axis.b) for axis in reversed(axes)]
    for size, stride in sizes if depth is None else [*sizes, (depth.size, depth.b)]:
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def is_plane(axes: Sequence[Axis[int]]) -> bool:
    """Return whether a line is one plane, of whose rows a tap may see a part."""
    return axes[0].count == 1 and axes[0].terms == 1 and axes[1].terms > 1


def is_flat(axes: Sequence[Axis[int]]) -> bool:
    """Return whether there are at most two spatial axes, with dense rows of the input."""
    deep, _, wide = axes
    flat = deep.count == 1 and deep.terms == 1 and deep.size == 1 and deep.start == 0
    return flat and (wide.a == 1 or wide.size == 1)


def shift_of(axis: Axis[int], k: int) -> int:
    """Return the shift of tap k from the output pixel, in the tap's phase."""
    return (k * axis.summed + axis.start) // axis.result


def phases_of(axis: Axis[int]) -> int:
    """Return the number of input phases that the taps of an axis read."""
    return min(axis.terms, axis.result // gcd(axis.result, axis.summed))


def lines_in_place(problem: Correlation, axes: Sequence[Axis[int]]) -> Lines | None:
    """Return the operand's own memory as lines, None if it must be copied."""
    deep, high, wide = axes
    if any(axis.result != 1 for axis in axes):
        return None
    if wide.a != 1 and (wide.size > 1 or wide.terms > 1):
        return None
    length = high.a if high.count > 1 else wide.count
    if length < wide.count:
        return None
    rows = deep.a // length if deep.count > 1 else high.count
    if rows < high.count or (deep.count > 1 and deep.a % length):
        return None
    lines = Lines(
        Strides(problem.leads[0].a, problem.leads[1].a, problem.depth.a),
        (0, 0, 0),
        tuple(a.size for a in axes),
        (0, 0, 0),
        # A row of one pixel may have any stride; the positions beside it are padding.
        (deep.a, high.a, 1),
        length,
        rows,
    )
    wanted = prod(a.count for a in axes)
    return lines if lines.count(axes) <= wanted + wanted // 2 else None


def lines_copied(problem: Correlation, axes: Sequence[Axis[int]], masks: bool) -> Lines:
    """Return the lines of ``pad_planes``, with or without padding on them."""
    first, extents = [], []
    for axis in axes:
        low, high = shift_of(axis, 0), shift_of(axis, axis.terms - 1) + axis.count
        if masks:
            low = max(low, 0)
            high = max(min(high, -(-axis.size // axis.result)), low)
        first.append(low)
        extents.append(max(axis.count, high - low))
    plane = prod(extents)
    phases = [phases_of(a) for a in axes]
    jumps = (phases[1] * phases[2] * plane, phases[2] * plane, plane)
    units = (extents[1] * extents[2], extents[2], 1)
    channel = prod(phases) * plane
    group = problem.depth.size * channel
    inside = tuple(a + n for a, n in zip(first, extents, strict=True))
    return Lines(
        Strides(problem.leads[1].size * group, group, channel),
        tuple(first),
        inside,
        jumps,
        units,
        extents[2],
        extents[1],
    )


def pad(
    problem: Correlation,
    axes: Sequence[Axis[int]],
    lines: Lines,
    source: Bound,
    steps: Steps,
    info: DeviceInfo,
    spare: int = 0,
    dtype: DType | None = None,
) -> Bound:
    """Add the copy of an operand to lines, and return its memory.

    ``spare``: how many elements of it are read beyond its end, and ignored. ``dtype``: that of the
    lines, by default that of the sums.
    """
    accumulate, lanes = vectors(problem, info)
    accumulate = dtype or accumulate
    images, channels = problem.leads[0].size, problem.leads[1].size * problem.depth.size
    size = images * lines.steps.outer
    memory = Bound(steps.memory((size + spare) * accumulate.itemsize), accumulate)
    source, problem, axes = _rows_dense(problem, axes, source, steps, info)
    wide = axes[2]
    unit = wide.result if wide.a == 1 and wide.result <= 2 else 0
    made = launch(
        pad_planes,
        Grid((channels, images, 1)),
        Effort(
            "conv planes",
            nbytes=size * accumulate.itemsize + problem.a.size * problem.a.dtype.itemsize,
        ),
        x=source,
        lines=memory,
        channels=channels,
        outer=problem.leads[0].a,
        step=problem.depth.a,
        axes=[
            PlaneAxis(phases_of(a), inside - first, first, a.summed, a.start, a.size, a.a)
            for a, first, inside in zip(axes, lines.first, lines.inside, strict=True)
        ],
        strides=tuple(axis.result for axis in axes),
        # 64-bit indices of gathered elements fill two vectors.
        lanes=lanes if unit else max(lanes // 2, 1),
        unit=unit,
        both=unit == 2 and phases_of(wide) == 2,
    )
    steps.launches.append(made)
    return memory


def _rows_dense(
    problem: Correlation,
    axes: Sequence[Axis[int]],
    source: Bound,
    steps: Steps,
    info: DeviceInfo,
) -> tuple[Bound, Correlation, Sequence[Axis[int]]]:
    """Return the operand, its problem and axes, after a transposition if rows are not dense.

    A transposition reads whole lines of memory, where a row of channels last has one element of
    each.
    """
    images, groups, _ = problem.leads
    channels = groups.size * problem.depth.size
    shape = (images.size, channels, *(a.size for a in axes))
    strides = (images.a, problem.depth.a, *(a.a for a in axes))
    view, dense = View(shape, strides, source.dtype), row_major(shape)
    if axes[2].a == 1 or not transposes(view, dense, info):
        return source, problem, axes
    target = steps.room(view.size, source.dtype)
    steps.copy(view, source.place, target.place, info)
    leads = (replace(images, a=dense[0]), *problem.leads[1:])
    moved = replace(problem, leads=leads, depth=replace(problem.depth, a=dense[1]))
    return target, moved, [replace(a, a=n) for a, n in zip(axes, dense[2:], strict=True)]
