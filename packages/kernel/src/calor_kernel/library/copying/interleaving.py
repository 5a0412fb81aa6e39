"""Copies that interleave a few lines, or take lines apart: the shuffles of pixels and channels.

Requirements: a few elements lie side by side in one memory, and in lines of their own in the other.
A unit has those of one position, so neighbouring units access neighbouring elements on both sides,
and no tile waits in shared memory. Several positions of a unit are on their way at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, launch
from calor_kernel.contract.work import Launch
from calor_kernel.library.copying.transfer import UNITS, Transfer, aligned_lanes, turns_of

N = TypeVar("N")
# The lines that are interleaved at most, and the bytes of their elements of a position.
_LINES: Final = 8
_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Interleaving(Generic[N]):
    """Positions of all other axes, and the strides of positions and lines.

    ``sizes``: of the other axes, the line's own one last. ``read``, ``written``: their strides in
    the source and the target. ``line``: the stride of lines where they are apart.
    """

    count: kl.SizeOf[N]
    line: kl.StrideOf[N]
    read: tuple[kl.StrideOf[N], ...]
    written: tuple[kl.StrideOf[N], ...]


@kl.kernel
def copy_interleaved(
    source: kl.In,
    target: kl.Out,
    over: Interleaving[kl.Number],
    sizes: tuple[kl.FastDivmod, ...],
    *,
    lines: int,
    width: int,
    apart: bool,
    turns: int,
    units: int,
) -> None:
    """Copy ``lines`` elements of a position from as many lines, or to them if ``apart``.

    ``width``: the lanes of an access of the elements that lie side by side, which divide ``lines``.
    """
    align = width * source.dtype.itemsize if width > 1 else 0
    first = kl.cube_position() * (units * turns) + kl.unit_position()
    held = []
    for turn in kl.range(turns):
        place = first + turn * units
        there = place < over.count
        at = kl.unravel(kl.select(there, place, 0), (0, *sizes))
        read, written = kl.offset_of(at, over.read), kl.offset_of(at, over.written)
        if apart:
            found = []
            for k in kl.range(0, lines, width):
                vector = source.load(_multiple(read + k, width), width, align=align)
                found += [vector[lane] for lane in range(width)] if width > 1 else [vector]
        else:
            found = [source[read + k * over.line] for k in kl.range(lines)]
        held.append((there, written, found))
    for there, written, found in held:
        if there:
            if apart:
                for k, value in enumerate(found):
                    target[written + k * over.line] = value
            else:
                for k in kl.range(0, lines, width):
                    value = kl.pack(found[k : k + width]) if width > 1 else found[k]
                    target.store(_multiple(written + k, width), value, align=align)


def _multiple(place: kl.Number, width: int) -> kl.Number:
    return kl.assume_multiple(place, width) if width > 1 else place


def _lines_of(over: Transfer) -> tuple[int, bool] | None:
    """Return the axis of a few lines, and whether they are apart in the target; None for none."""
    if over.starts is not None or over.written[-1] != 1 or 1 not in over.read[:-1]:
        return None
    if over.read[-1] in (0, 1):
        return None
    dense, last = over.read.index(1), len(over.sizes) - 1
    for axis, apart in ((last, False), (dense, True)):
        most = min(_LINES, _BYTES // over.dtype.itemsize)
        if any(over.sizes[axis] == n for n in range(2, most + 1)):
            return axis, apart
    return None


def interleaves(over: Transfer, info: DeviceInfo) -> bool:
    """Return whether a few elements lie side by side in one memory, and apart in the other."""
    return info.max_units >= UNITS and _lines_of(over) is not None


def interleaving_launch(over: Transfer, info: DeviceInfo, label: str) -> Launch:
    """Return the launch of a copy that interleaves."""
    found = _lines_of(over)
    assert found is not None
    axis, apart = found
    lines = next(n for n in range(2, _LINES + 1) if over.sizes[axis] == n)
    # Neighbouring units have neighbouring elements of a line.
    near = len(over.sizes) - 1 if apart else over.read.index(1)
    order = [*(i for i in range(len(over.sizes)) if i not in (axis, near)), near]
    read, written = (tuple(s[i] for i in order) for s in (over.read, over.written))
    line = over.written[axis] if apart else over.read[axis]
    # Accesses of what lies side by side.
    beside = [over.source.offset, *read] if apart else [over.target.offset, *written]
    width = aligned_lanes(over.dtype, (lines, *beside), info)
    count = prod(over.sizes[i] for i in order)
    turns = turns_of(count, UNITS, info)
    return launch(
        copy_interleaved,
        Grid.line(-(-count // (UNITS * turns)), UNITS, index=over.index(info)),
        Effort(label or copy_interleaved.name, 0, over.nbytes),
        **over.places,
        over=Interleaving(count, line, read, written),
        sizes=tuple(over.sizes[i] for i in order[1:]),
        lines=lines,
        width=width,
        apart=apart,
        turns=turns,
        units=UNITS,
    )
