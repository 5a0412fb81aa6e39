"""Operands of implicit GEMM: dense channels, rows of weights, and the phases of output pixels.

Requirements: the input or output gradient is copied once to dense channels, unless its channels are
dense. Copies of constant weights are cached. A copy reads memory along its dense axis. Weights of
one tap in the right layout are not copied. For an input gradient with a stride, pixels with the
same taps are a phase, so there are no products with the zeros between strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Multiple, operand
from calor_kernel.contract.work import Input, View
from calor_kernel.library.conv.channels_last import last_launch
from calor_kernel.library.conv.padded_rows import three
from calor_kernel.library.conv.problem import Axis, Correlation, Lead, Part, undivided
from calor_kernel.library.conv.windows import Phase, WindowAxis, Windows
from calor_kernel.library.steps import Steps

# Bytes of an access.
ACCESS = 16
PhaseNumbers = Phase[int | Multiple, int]


@dataclass(frozen=True, slots=True)
class Last:
    """An operand with dense channels: strides of leads and both axes, in whole accesses."""

    bound: Bound
    strides: tuple[int, int, int]
    room: int


def two_axes(problem: Correlation) -> tuple[Axis[int], Axis[int]]:
    """Return the spatial axes as height and width."""
    _, down, across = three(problem)
    return down, across


def spatial_axes(problem: Correlation) -> tuple[Axis[int], ...]:
    """Return the spatial axes, two at least."""
    return three(problem)[-max(len(problem.axes), 2) :]


def image_of(
    problem: Correlation,
    steps: Steps,
    info: DeviceInfo,
    rounded: bool = False,
    whole: tuple[int, int] = (1, 1),
) -> Last:
    """Return the first operand with dense channels; ``rounded``: to TF32.

    ``whole``: rows and columns are filled up with zeros to multiples of these.
    """
    p = problem
    images, channels = (p.depth, p.leads[2]) if p.by_weight else (p.leads[0], p.depth)
    axes = [Lead(axis.size, axis.a, 0) for axis in two_axes(p)]
    return _last(operand(0, p.a), (images, channels, *axes), steps, info, False, rounded, whole)


def gradient_of(problem: Correlation, steps: Steps, info: DeviceInfo) -> Last:
    """Return the output gradient of a weight gradient with dense channels, without gaps."""
    p = problem
    leads = [Lead(lead.size, lead.b, 0) for lead in (p.depth, p.leads[1])]
    axes = [Lead(axis.terms, axis.b, 0) for axis in two_axes(p)]
    return _last(operand(1, p.b), (*leads, *axes), steps, info, True, False)


def _last(
    source: Bound,
    axes: Sequence[Lead[int]],
    steps: Steps,
    info: DeviceInfo,
    adjacent: bool,
    rounded: bool,
    whole: tuple[int, int] = (1, 1),
) -> Last:
    """Return (leads, channels, rows, columns) with dense channels, copied if they are not dense.

    ``adjacent``: whether pixels must follow each other without gaps.
    """
    leads, channels, down, across = axes
    dtype, place = source.dtype, source.place
    assert isinstance(place, Input)
    access = ACCESS // dtype.itemsize
    numbers = (channels.size, place.offset, leads.a, down.a, across.a)
    dense = (channels.size, across.size * across.a, down.size * down.a)
    gaps = adjacent and (across.a, down.a, leads.a) != dense
    high, wide = (-(-n.size // by) * by for n, by in zip((down, across), whole, strict=True))
    filled = (high, wide) != (down.size, across.size)
    if (
        not gaps
        and not filled
        and not rounded
        and channels.a == 1
        and all(n % access == 0 for n in numbers)
    ):
        return Last(source, (leads.a, down.a, across.a), channels.size)
    room = -(-channels.size // access) * access
    count = leads.size * high * wide * room
    target = steps.memory(max(count, 1) * dtype.itemsize)
    if count:
        sizes = leads.size, channels.size, (down.size, across.size)
        strides = leads.a, channels.a, (down.a, across.a)
        steps.launches.append(
            last_launch(
                *(place, target, dtype, sizes, strides, room, 1, info),
                rounded=rounded,
                whole=whole,
            )
        )
    line = wide * room
    return Last(Bound(target, dtype), (high * line, line, room), room)


@dataclass(frozen=True, slots=True)
class Weights:
    """Rows of terms: strides of rows, of blocks of channels, of both axes' taps, and of groups."""

    bound: Bound
    row: int
    block: int
    taps: tuple[int, int]
    group: int = 0


def weights_of(
    problem: Correlation,
    room: int,
    block: int,
    steps: Steps,
    info: DeviceInfo,
    rounded: bool = False,
    source: Bound | None = None,
) -> Weights:
    """Return the weights: each row has a block of channels of each tap, then the next block.

    ``room``: the channels with the zeros that fill the last access; ``block``: the channels of each
    tap before the next tap. ``rounded``: to TF32. ``source``: where they are, if not the operand.
    """
    p, (down, across) = problem, two_axes(problem)
    source, groups, rows = source or operand(1, p.b), p.leads[1], p.leads[2]
    access, taps = ACCESS // p.b.dtype.itemsize, down.terms * across.terms
    several = groups.b if groups.size > 1 else 0
    aligned = all(n % access == 0 for n in (p.depth.size, p.b.offset, rows.b, several))
    if taps == 1 and p.depth.b == 1 and aligned and not rounded:
        return Weights(source, rows.b, block, (0, 0), several)
    count = groups.size * rows.size * taps * room
    target = steps.memory(max(count, 1) * p.b.dtype.itemsize)
    if p.depth.size:
        sizes = groups.size, p.depth.size, (down.terms, across.terms)
        strides = several, p.depth.b, (down.b, across.b)
        steps.launches.append(
            last_launch(
                source.place, target, p.b.dtype, sizes, strides, block, room // block, info, True,
                rounded, (rows.size, rows.b),
            )
        )  # fmt: skip
    # Rows have the terms of all groups.
    each = taps * room
    line = groups.size * each
    taps_of = across.terms * block, block
    return Weights(Bound(target, p.b.dtype), line, taps * block, taps_of, each)


def phases_of(problem: Correlation, weights: Weights) -> list[Part]:
    """Return the phases of output pixels, those with most taps first.

    The taps are those of the copied weights.
    """
    taps = weights.taps[2 - len(problem.axes) :]
    axes = tuple(replace(axis, b=step) for axis, step in zip(problem.axes, taps, strict=True))
    p = replace(problem, axes=axes, b=View(problem.b.shape, problem.b.strides, problem.b.dtype))
    if all(axis.divide == 1 and axis.summed > 0 for axis in axes):
        return [Part(p, (0,) * len(axes), (1,) * len(axes))]
    found = [part for part in undivided(p) if pixels_of(part.problem)]
    terms: dict[tuple[int, ...], int] = {}
    for part in found:
        row = part.offsets[:-1]
        terms[row] = terms.get(row, 0) + terms_of(part.problem, 1)
    # Phases of one row of pixels stay together.
    return sorted(found, key=lambda part: (-terms[part.offsets[:-1]], part.offsets))


def alternates(problem: Correlation) -> bool:
    """Return whether the pixels of two phases alternate along a row."""
    axis = problem.axes[-1]
    return bool(axis.divide == 2 and axis.count % 2 == 0)


def pixels_of(problem: Correlation) -> int:
    """Return the output pixels of all images."""
    down, across = two_axes(problem)
    return problem.leads[0].size * down.count * across.count


def terms_of(problem: Correlation, room: int) -> int:
    """Return the terms of a pixel with ``room`` for the channels of a tap."""
    down, across = two_axes(problem)
    return room * down.terms * across.terms if problem.depth.size else 0


def numbers_of(
    phase: Part, room: int, block: int, weights: Weights, splits: int, depth: int,
    strides: Sequence[int],
) -> PhaseNumbers:  # fmt: skip
    """Return a phase for the kernel; ``strides``: of the result's rows and columns.

    ``depth``: the terms of a step; each of the ``splits`` parts has whole steps. ``room``,
    ``block``: the channels of a tap, and of a tap before the next one.
    """
    p, (down, across) = phase.problem, two_axes(phase.problem)
    terms = terms_of(p, room)
    share = max(-(-terms // (splits * depth)) * depth, depth)
    offsets = (0,) * (2 - len(p.axes)) + phase.offsets
    start = sum(s * by for s, by in zip(strides, offsets, strict=True))

    def whole(n: int) -> Multiple:
        return Multiple(n, ACCESS // p.b.dtype.itemsize)

    return Phase(
        *(pixels_of(p), terms, share, start, whole(p.b.offset), whole(weights.block)),
        *(whole(down.b), whole(across.b), windows_of((down, across), block)),
    )


def windows_of(axes: tuple[Axis[int], Axis[int]], block: int) -> Windows[int | Multiple, int]:
    """Return the windows of two axes; ``block``: the channels of a tap before the next one."""
    down, across = axes
    pixels, taps = down.count * across.count, down.terms * across.terms
    return Windows(
        WindowAxis(down.result, down.summed, down.start, down.size),
        WindowAxis(across.result, across.summed, across.start, across.size),
        *(max(n, 1) for n in (pixels, across.count, taps, across.terms, block)),
    )
