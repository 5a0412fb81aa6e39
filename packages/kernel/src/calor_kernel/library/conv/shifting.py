"""Convolutions over shifted lines as launches: what is copied, and how lines and result lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

from calor.dtypes import DType, int64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.conv.blueprints import shift
from calor_kernel.library.conv.planes import pad_planes
from calor_kernel.library.conv.problem import Axis, Correlation, Part, accumulator
from calor_kernel.library.conv.shifted import shifted
from calor_kernel.library.work import Argument, Build, Input, Launch, Output, Scratch, row_major
from calor_kernel.runtime.device import DeviceInfo

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
_NO_AXIS = Axis(1, 1, 1, 1, 0, 1, 1, 0, 0)
# Rows of a plane that a vector of places may meet.
_MOST_PIECES = 4
# Strides of weights that a kernel is built for.
_SHORT = 64
# Bytes of masks that a unit keeps.
_MASKS = 1 << 14


@dataclass(frozen=True, slots=True)
class Placement:
    """Where results go: strides of images, groups, rows and the three spatial axes."""

    leads: tuple[int, int, int]
    axes: tuple[int, int, int]
    offset: int = 0

    @staticmethod
    def dense(problem: Correlation) -> Placement:
        """Return the placement of a result that has memory of its own."""
        sizes = [lead.size for lead in problem.leads] + [a.count for a in three(problem)]
        strides = row_major(sizes)
        return Placement((strides[0], strides[1], strides[2]), (strides[3], strides[4], strides[5]))

    def part(self, part: Part) -> Placement:
        """Return the placement of a part of the result."""
        none = 3 - len(part.offsets)
        offsets, steps = (0,) * none + part.offsets, (1,) * none + part.steps
        step = tuple(s * n for s, n in zip(self.axes, steps, strict=True))
        offset = self.offset + sum(s * n for s, n in zip(self.axes, offsets, strict=True))
        return Placement(self.leads, (step[0], step[1], step[2]), offset)


@dataclass(slots=True)
class Steps:
    """Launches so far, and the scratch memory that they need."""

    launches: list[Launch] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)

    def memory(self, nbytes: int) -> Scratch:
        """Return a new piece of scratch memory."""
        self.scratch.append(nbytes)
        return Scratch(len(self.scratch) - 1)


@dataclass(frozen=True, slots=True)
class Lines:
    """Channels as lines: strides of images, groups and channels, and how axes lie on a line.

    Along each axis: ``first``, the place of a phase that comes first; ``inside``, where padding
    begins; ``jumps`` from a phase to the next and ``units`` from a place to the next, in elements.
    Rows are ``length`` places, planes ``rows`` rows.
    """

    dtype: DType
    image: int
    group: int
    channel: int
    first: tuple[int, ...]
    inside: tuple[int, ...]
    jumps: tuple[int, ...]
    units: tuple[int, ...]
    length: int
    rows: int

    def count(self, axes: Sequence[Axis]) -> int:
        """Return how many places there are from the first to the last one of the result."""
        deep, high, wide = (a.count for a in axes)
        return ((deep - 1) * self.rows + high - 1) * self.length + wide


def three(problem: Correlation) -> tuple[Axis, ...]:
    """Return the spatial axes as depth, height and width."""
    return (_NO_AXIS,) * (3 - len(problem.axes)) + problem.axes


def moved(place: Argument, by: int) -> Argument:
    """Return a buffer argument that begins later."""
    assert isinstance(place, Input | Output | Scratch)
    return type(place)(place.number, place.offset + by)


def shift_steps(
    problem: Correlation,
    places: Sequence[Argument],
    to: Placement,
    steps: Steps,
    info: DeviceInfo,
) -> bool:
    """Add the launches of a convolution; return False, and add none, where lines do not suit."""
    axes = three(problem) if len(problem.axes) <= 3 else ()
    if not axes or any(a.divide != 1 or a.summed < 1 for a in axes):
        return False
    accumulate = accumulator(problem.a.dtype)
    lanes = max(1, info.vector_bytes // accumulate.itemsize)
    taps = prod(a.terms for a in axes)
    room = 1 if taps == 1 else max(16, 1 << (taps - 1).bit_length())
    masks = room * 8 * lanes <= _MASKS
    lines = _in_place(problem, axes) if masks else None
    copied = lines is None
    if lines is None:
        lines = _copied(problem, axes, accumulate, masks)
    pieces = _pieces(lines, axes, to, lanes)
    if pieces > _MOST_PIECES or max(lines.inside) >= 1 << 31:
        return False
    source = moved(places[0], problem.a.offset)
    if copied:
        spare = (lanes + 1) * 16 + lines.channel
        nbytes = (problem.leads[0].size * lines.image + spare) * accumulate.itemsize
        memory = steps.memory(nbytes)
        steps.launches.append(_pad(problem, axes, lines, source, memory, lanes))
        source = memory
    weights = moved(places[1], problem.b.offset)
    masked = any(
        _shift(a, 0) < first or a.count - 1 + _shift(a, a.terms - 1) >= inside
        for a, first, inside in zip(axes, lines.first, lines.inside, strict=True)
    )
    steps.launches.append(
        _shifted(problem, axes, lines, (source, weights), to, info, pieces, room, masked, copied)
    )
    return True


def _shift(axis: Axis, k: int) -> int:
    """Return how many places further than the result's tap k sees, in its phase."""
    return (k * axis.summed + axis.start) // axis.result


def _phases(axis: Axis) -> int:
    """Return how many phases of the input the taps of an axis see."""
    return min(axis.terms, axis.result // gcd(axis.result, axis.summed))


def _in_place(problem: Correlation, axes: Sequence[Axis]) -> Lines | None:
    """Return the operand's own memory as lines, None where it must be copied."""
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
        problem.a.dtype,
        problem.leads[0].a,
        problem.leads[1].a,
        problem.depth.a,
        (0, 0, 0),
        tuple(a.size for a in axes),
        (0, 0, 0),
        tuple(a.a for a in axes),
        length,
        rows,
    )
    wanted = prod(a.count for a in axes)
    return lines if lines.count(axes) <= wanted + wanted // 2 else None


def _copied(problem: Correlation, axes: Sequence[Axis], accumulate: DType, masks: bool) -> Lines:
    """Return the lines that ``pad_planes`` makes, with what is padding on them or without."""
    first, extents = [], []
    for axis in axes:
        low, high = _shift(axis, 0), _shift(axis, axis.terms - 1) + axis.count
        if masks:
            low = max(low, 0)
            high = max(min(high, -(-axis.size // axis.result)), low)
        first.append(low)
        extents.append(max(axis.count, high - low))
    plane = prod(extents)
    phases = [_phases(a) for a in axes]
    jumps = (phases[1] * phases[2] * plane, phases[2] * plane, plane)
    units = (extents[1] * extents[2], extents[2], 1)
    channel = prod(phases) * plane
    group = problem.depth.size * channel
    inside = tuple(a + n for a, n in zip(first, extents, strict=True))
    return Lines(
        accumulate,
        problem.leads[1].size * group,
        group,
        channel,
        tuple(first),
        inside,
        jumps,
        units,
        extents[2],
        extents[1],
    )


def _pieces(lines: Lines, axes: Sequence[Axis], to: Placement, lanes: int) -> int:
    """Return how many rows a vector of places meets at most, 0 where the result is a line too."""
    deep, high, wide = axes
    if deep.count == 1 and high.count == 1:
        return 0
    along = lines.length == wide.count and (deep.count == 1 or lines.rows == high.count)
    rows = to.axes[1] == wide.count * to.axes[2]
    planes = deep.count == 1 or to.axes[0] == high.count * to.axes[1]
    return 0 if along and rows and planes else _wraps(lines, axes, lanes) + 1


def _wraps(lines: Lines, axes: Sequence[Axis], lanes: int) -> int:
    """Return how often a vector of places may come to the next row."""
    if axes[0].count == 1 and axes[1].count == 1:
        return 0
    return (lanes + lines.length - 2) // lines.length


def _pad(
    problem: Correlation,
    axes: Sequence[Axis],
    lines: Lines,
    source: Argument,
    memory: Argument,
    lanes: int,
) -> Launch:
    channels = problem.leads[1].size * problem.depth.size
    numbers = [channels, problem.leads[0].a, problem.depth.a]
    for axis, first, inside in zip(axes, lines.first, lines.inside, strict=True):
        numbers += [_phases(axis), inside - first, first, axis.summed, axis.start]
        numbers += [axis.size, axis.a]
    unit = axes[2].result if axes[2].a == 1 and axes[2].result <= 2 else 0
    # 64-bit indices of elements that are gathered fill two vectors.
    width = lanes if unit else max(lanes // 2, 1)
    axis_numbers = (_SIZE, _SIZE, _STRIDE, _SIZE, _STRIDE, _SIZE, _STRIDE)
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(problem.a.dtype, writable=False),
        Buffer(lines.dtype),
        _SIZE,
        _STRIDE,
        _STRIDE,
        *axis_numbers * 3,
    )
    strides = tuple(axis.result for axis in axes)
    keywords = (("lanes", width), ("strides", strides), ("unit", unit))
    build = Build(pad_planes, signature, keywords)
    images = problem.leads[0].size
    nbytes = images * channels * lines.channel * lines.dtype.itemsize
    nbytes += problem.a.size * problem.a.dtype.itemsize
    arguments = (source, memory, *numbers)
    return Launch(build, (channels, images, 1), arguments, 0, nbytes, "conv planes")


def _ordered(axes: Sequence[Axis]) -> bool:
    """Return whether the weights of a channel lie one after another."""
    step = 1
    for axis in reversed(axes):
        if axis.terms > 1 and axis.b != step:
            return False
        step *= axis.terms
    return True


def _shifted(
    problem: Correlation,
    axes: Sequence[Axis],
    lines: Lines,
    places: tuple[Argument, Argument],
    to: Placement,
    info: DeviceInfo,
    pieces: int,
    room: int,
    masked: bool,
    copied: bool,
) -> Launch:
    images, groups, rows = problem.leads
    depth, count = problem.depth, lines.count(axes)
    p = shift(
        rows.size,
        count,
        problem.terms,
        images.size * groups.size,
        accumulator(problem.a.dtype),
        info,
    )
    numbers = [
        rows.size,
        depth.size,
        p.panels,
        p.whole,
        groups.size,
        lines.image,
        lines.group,
        lines.channel,
        groups.b,
        rows.b,
        depth.b,
        *to.leads,
        p.block_rows,
        p.block_panels,
        count,
        lines.length,
        lines.rows,
        to.axes[0],
        to.axes[1],
    ]
    signs = [_SIZE if n >= 0 else _STRIDE for n in numbers]
    for i, axis in enumerate(axes):
        numbers += [axis.terms, _phases(axis), lines.jumps[i], axis.summed, axis.start]
        numbers += [lines.first[i], lines.units[i], lines.inside[i], axis.b, axis.count]
    signs += (_SIZE, _SIZE, _SIZE, _SIZE, *(_STRIDE,) * 3, _SIZE, _STRIDE, _SIZE) * 3
    keywords: dict[str, Any] = {
        "tile": p.tile,
        "rest": p.rest,
        "lanes": p.lanes,
        "accumulate": p.accumulate,
        "strides": tuple(a.result for a in axes),
        "room": room,
        "ordered": depth.b == 1 if room == 1 else _ordered(axes),
        "row_step_of_weights": rows.b if 0 < rows.b <= _SHORT else 0,
        "masked": masked,
        "ragged": not masked and not copied,
        "pieces": pieces,
        "wraps": _wraps(lines, axes, p.lanes) if masked else 0,
        "element_step": to.axes[2] if axes[2].count > 1 else 1,
        "unroll": 1 if masked else p.unroll,
    }
    signature: tuple[Buffer | Scalar, ...] = (
        Buffer(lines.dtype, writable=False),
        Buffer(problem.b.dtype, writable=False),
        Buffer(problem.a.dtype),
        *signs,
    )
    build = Build(shifted, signature, tuple(sorted(keywords.items())))
    cubes = (
        -(-p.panels // p.block_panels),
        max(1, rows.size // p.block_rows),
        images.size * groups.size,
    )
    flops = 2 * problem.size * problem.terms
    nbytes = (problem.a.size + problem.b.size + problem.size) * problem.a.dtype.itemsize
    label = f"conv shifted {p.tile[0]}x{p.tile[1] * p.lanes}"
    arguments = (*places, Output(0, to.offset), *numbers)
    return Launch(build, cubes, arguments, flops, nbytes, label)
