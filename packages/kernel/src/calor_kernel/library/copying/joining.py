"""Joins of several views along an axis by cubes of many units: one launch for a few of them.

Requirements: neighbouring units write neighbouring vectors of the result, whichever part they are
of; parts may be any views, broadcast ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Final, Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Launch, Output, View
from calor_kernel.library.copying.transfer import (
    UNITS,
    aligned_lanes,
    as_bits,
    index_of,
    turns_of,
)
from calor_kernel.library.copying.vectors import own_vectors

N = TypeVar("N")
D = TypeVar("D")
# The most parts of a launch.
PARTS: Final = 8


@dataclass(frozen=True, slots=True)
class Joined(Generic[N, D]):
    """A join: sizes and strides of the result, the last axis in vectors.

    ``ends``: for each part its end along the axis. ``strides``: those of each part.
    """

    sizes: tuple[kl.DivisorOf[D], ...]
    written: tuple[kl.StrideOf[N], ...]
    ends: tuple[kl.SizeOf[N], ...]
    strides: tuple[tuple[kl.StrideOf[N], ...], ...]


@kl.kernel
def join_vectors(
    sources: tuple[kl.In, ...],
    target: kl.Out,
    count: kl.Size,
    over: Joined[kl.Number, kl.FastDivmod],
    *,
    axis: int,
    width: int,
    turns: int,
    fills: tuple[bool, ...],
) -> None:
    """Copy vectors of ``width`` elements, ``turns`` of them a unit, of parts along an axis.

    ``fills``: for each part, whether the elements of a vector are one.
    """
    align = width * target.dtype.itemsize if width > 1 else 0
    last = len(over.sizes) - 1
    places, made = [], []
    for i in own_vectors(turns):
        position = list(kl.unravel(kl.min(i, count - 1), over.sizes))
        position[last] = position[last] * width
        places.append(kl.offset_of(position, over.written))
        at = position[axis]
        vector = part_vector(sources, over, position, axis, len(sources) - 1, width, fills)
        for k in range(len(sources) - 1):
            inside = at < over.ends[k]
            if k:
                inside = inside & (at >= over.ends[k - 1])
            if inside:
                vector = part_vector(sources, over, position, axis, k, width, fills)
        made.append(vector)
    for i, place, vector in zip(own_vectors(turns), places, made, strict=True):
        if i < count:
            target.store(place, vector, align=align)


@kl.helper
def part_vector(
    sources: Sequence[kl.Pointer],
    over: Joined[kl.Number, kl.FastDivmod],
    position: Sequence[kl.Number],
    axis: int,
    k: int,
    width: int,
    fills: Sequence[bool],
) -> kl.Number:
    """Return the vector of a part at a position of the result, or its first along the axis."""
    begin = over.ends[k - 1] if k else 0
    there = [kl.max(p - begin, 0) if a == axis else p for a, p in enumerate(position)]
    at = kl.offset_of(there, over.strides[k])
    if fills[k]:
        return kl.splat(sources[k][at], width)
    return sources[k].load(at, width, align=width * sources[k].dtype.itemsize if width > 1 else 0)


def joining_launch(
    views: Sequence[View],
    numbers: Sequence[int],
    axis: int,
    strides: Sequence[int],
    start: int,
    info: DeviceInfo,
) -> Launch:
    """Return the launch that joins views, the operands of these numbers, along an axis.

    ``strides`` and ``start``: those of the result, and its first element along the axis.
    """
    bits = [as_bits(view, info) for view in views]
    count = views[0].dtype.itemsize // bits[0].dtype.itemsize
    offset = start * strides[axis] * count
    written = [s * count for s in strides] + [1] * (len(bits[0].shape) - len(strides))
    shape = bits[0].shape
    every = [written, *(view.strides for view in bits)]
    outer, before = coalesced(shape[:axis], *(s[:axis] for s in every))
    inner, behind = coalesced(shape[axis + 1 :], *(s[axis + 1 :] for s in every))
    lengths, along = [view.shape[axis] for view in bits], [s[axis] for s in every]
    if not inner:
        behind = ((),) * len(every)
    elif len(inner) == 1 and all(a == inner[0] * b[0] for a, b in zip(along, behind, strict=True)):
        lengths = [n * inner[0] for n in lengths]
        along, inner, behind = [b[0] for b in behind], (), ((),) * len(every)
    if not outer:
        before = ((),) * len(every)
    sizes = (*outer, sum(lengths), *inner)
    steps = [(*a, b, *c) for a, b, c in zip(before, along, behind, strict=True)]
    width = _lanes(sizes, steps, lengths if not inner else (), offset, bits, info)
    vectors, units = prod(sizes) // width, min(info.max_units, UNITS)
    turns = turns_of(vectors, units, info)
    ends = [sum((n - 1) * abs(s) for n, s in zip(sizes, one, strict=True)) + 1 for one in steps]
    over = Joined(
        (*sizes[:-1], sizes[-1] // width), steps[0], tuple(accumulate(lengths)), tuple(steps[1:])
    )
    dtype, nbytes = bits[0].dtype, 2 * prod(sizes) * bits[0].dtype.itemsize
    return launch(
        join_vectors,
        Grid.line(-(-vectors // (units * turns)), units, index=index_of(ends, info)),
        Effort("concat", 0, nbytes),
        sources=tuple(operand(k, view) for k, view in zip(numbers, bits, strict=True)),
        target=Bound(Output(0, offset), dtype),
        count=vectors,
        over=over,
        axis=len(outer),
        width=width,
        turns=turns,
        fills=tuple(one[-1] == 0 for one in steps[1:]),
    )


def _lanes(
    sizes: Sequence[int],
    steps: Sequence[Sequence[int]],
    lengths: Sequence[int],
    offset: int,
    bits: Sequence[View],
    info: DeviceInfo,
) -> int:
    """Return the lanes of vectors that are whole in the result and in every part."""
    if any(one[-1] not in (0, 1) for one in steps):
        return 1
    numbers = [sizes[-1], *lengths, *steps[0][:-1], offset]
    for one, view in zip(steps[1:], bits, strict=True):
        if one[-1]:
            numbers += [*one[:-1], view.offset]
    return aligned_lanes(bits[0].dtype, numbers, info)
