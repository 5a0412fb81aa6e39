"""Copies by cubes of many units: a vector a unit at a time, neighbours write adjacent ones.

Requirements: any strides on both sides; a unit has several vectors on their way, which hides the
latency of memory also for elements of one and two bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch
from calor_kernel.library.copying.transfer import (
    UNITS,
    DynamicPart,
    Starts,
    Transfer,
    begin_of,
    turns_of,
)

N = TypeVar("N")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Axes(Generic[N, D]):
    """Axes of a copy, the last one counted in vectors; strides are in elements."""

    sizes: tuple[kl.DivisorOf[D], ...]
    read: tuple[kl.StrideOf[N], ...]
    written: tuple[kl.StrideOf[N], ...]


@kl.helper
def own_vectors(turns: int) -> list[kl.Number]:
    """Return the numbers of a unit's vectors, of which some may be beyond the last."""
    first = kl.cube_position() * (kl.cube_size() * turns) + kl.unit_position()
    return [first + turn * kl.cube_size() for turn in range(turns)]


@kl.kernel
def copy_vectors(
    source: kl.In,
    starts: kl.In | None,
    target: kl.Out,
    count: kl.Size,
    axes: Axes[kl.Number, kl.FastDivmod],
    part: Starts[kl.Number] | None,
    *,
    width: int,
    turns: int,
    fill: bool,
    into: bool,
) -> None:
    """Copy vectors of ``width`` elements, ``turns`` of them a unit.

    ``fill``: the elements of a vector are one in the source. ``into``: the dynamic part is in the
    target.
    """
    begin: kl.Index = 0
    if starts is not None and part is not None:
        begin = begin_of(starts, part)
    align = width * source.dtype.itemsize
    places, values = [], []
    for i in own_vectors(turns):
        # Units beyond the end read the last vector.
        position = kl.unravel(kl.min(i, count - 1), axes.sizes)
        read = kl.offset_of(position, axes.read, 0 if into else begin)
        places.append(kl.offset_of(position, axes.written, begin if into else 0))
        if fill:
            values.append(kl.splat(source[read], width))
        else:
            values.append(source.load(read, width, align=align if width > 1 else 0))
    for i, place, value in zip(own_vectors(turns), places, values, strict=True):
        if i < count:
            target.store(place, value, align=align if width > 1 else 0)


def vectors_launch(
    over: Transfer, info: DeviceInfo, label: str, part: DynamicPart | None = None
) -> Launch:
    """Return the launch that copies by vectors."""
    width = over.lanes(info)
    axes = Axes(
        (*over.sizes[:-1], over.sizes[-1] // width),
        _in_vectors(over.read, width),
        _in_vectors(over.written, width),
    )
    count = over.count // width
    units = min(info.max_units, UNITS)
    turns = turns_of(count, units, info)
    grid = Grid.line(-(-count // (units * turns)), units, index=over.index(info))
    return launch(
        copy_vectors,
        grid,
        Effort(label or copy_vectors.name, 0, over.nbytes),
        **over.places,
        starts=None if part is None else operand(part.number, part.starts),
        count=count,
        axes=axes,
        part=over.starts,
        width=width,
        turns=turns,
        fill=over.read[-1] == 0,
        into=part is not None and part.into,
    )


def _in_vectors(strides: Sequence[int], width: int) -> tuple[int, ...]:
    return (*strides[:-1], strides[-1] * width)
