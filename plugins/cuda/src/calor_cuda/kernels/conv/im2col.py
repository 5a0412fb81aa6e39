"""im2col: the inputs of each tap, as lines of the output pixels of all images.

Requirements: a row of a copy is a channel and a tap, in the order of the weights, and begins at a
multiple of 16 bytes. Padding of images and of lines is zeros. A unit computes its pixels'
coordinates once for several channels and all taps. Both operands of a product are copied by one
launch, whose first cubes have the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language.declared import READS, WRITES, N
from calor_kernel.library.conv.problem import Lead

M = TypeVar("M")
_UNITS, _ACCESS = 128, 16
# Channels of a unit for windows of one tap, and of more.
_ALONE, _SEVERAL = 4, 2
# Cubes of a core up to which they share the taps of a window.
_BUSY = 4


@dataclass(frozen=True, slots=True)
class SightAxis(Generic[N]):
    """An axis of ``size`` inputs: tap i of pixel p reads ``start + p * step + i * move``."""

    size: kl.SizeOf[N]
    stride: kl.StrideOf[N]
    start: kl.StrideOf[N]
    step: kl.StrideOf[N]
    move: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Unfolded(Generic[M, N]):
    """A copy of the ``channels`` of ``x`` to ``y``.

    ``outer`` and ``channel``: the strides of images and channels. ``blocks``: cubes that share the
    channels; ``turns``: those that share the taps.
    """

    x: Annotated[M, READS]
    y: Annotated[M, WRITES]
    channels: kl.SizeOf[N]
    outer: kl.StrideOf[N]
    channel: kl.StrideOf[N]
    down: SightAxis[N]
    across: SightAxis[N]
    blocks: kl.SizeOf[N]
    turns: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Window:
    """The ``taps`` of a window, down and across, and the channels of a unit.

    ``shared``: whether cubes share the taps.
    """

    taps: tuple[int, int]
    deep: int
    shared: bool


@kl.kernel
def unfold(
    copies: tuple[Unfolded[kl.Pointer, kl.Number], ...],
    terms: kl.Size,
    room: kl.Size,
    cubes: kl.Size,
    pixels: kl.FastDivmod,
    pixel_row: kl.FastDivmod,
    *,
    windows: tuple[Window, ...],
    access: int,
) -> None:
    """Copy output pixels, some for each unit, of operands that follow each other along x.

    ``terms``: the output pixels of all images; a row of a copy has ``room`` for them, of which
    ``cubes`` have a part. Divisors: the pixels of an image and a row.
    """
    rest = kl.cube_position(0)
    for one, window in zip(copies, windows, strict=True):
        count = cubes * one.blocks * one.turns
        if (rest >= 0) & (rest < count):
            block, place = kl.divide(rest, cubes)
            turn, block = kl.divide(block, one.blocks)
            first = (place * _UNITS + kl.unit_index()) * access
            if first < room:
                seen = []
                for e in kl.range(access):
                    given = one.down, one.across, one.outer, first + e
                    seen.append(sight(*given, terms, pixels, pixel_row))
                _copy(one, window, seen, (block, turn), (first, room))
        rest = rest - count


@kl.helper
def sight(
    down: SightAxis[kl.Number],
    across: SightAxis[kl.Number],
    outer: kl.Number,
    term: kl.Number,
    terms: kl.Number,
    pixels: kl.FastDivmod,
    pixel_row: kl.FastDivmod,
) -> tuple[kl.Mask, kl.Number, kl.Number, kl.Number]:
    """Return whether a pixel exists, its image's start, and the row and column of its first tap.

    ``outer``: the stride of images.
    """
    image, place = pixels.divmod(term)
    row, column = pixel_row.divmod(place)
    top = down.start + row * down.step
    return term < terms, image * outer, top, across.start + column * across.step


@kl.helper
def _copy(
    one: Unfolded[kl.Pointer, kl.Number],
    window: Window,
    seen: Sequence[tuple[kl.Mask, kl.Number, kl.Number, kl.Number]],
    part: tuple[kl.Number, kl.Number],
    at: tuple[kl.Number, kl.Number],
) -> None:
    """Copy pixels of some channels and taps; ``part``: the number of both.

    ``at``: the first pixel, and the room of a row.
    """
    (block, turn), (first, room), count = part, at, prod(window.taps)
    begin = block * window.deep
    for c in kl.range(begin, kl.min(begin + window.deep, one.channels)):
        for tap in _taps(count, window.shared, turn, one.turns):
            i, j = tap // window.taps[1], tap % window.taps[1]
            values = []
            for there, start, top, left in seen:
                r, q = top + i * one.down.move, left + j * one.across.move
                there = there & (r >= 0) & (r < one.down.size) & (q >= 0) & (q < one.across.size)
                at = start + c * one.channel + r * one.down.stride + q * one.across.stride
                # A mask would be a branch for each element.
                value = one.x[kl.select(there, at, 0)]
                values.append(kl.select(there, value, kl.constant(0, one.x.dtype)))
            to = (c * count + tap) * room + first
            one.y.store(kl.assume_multiple(to, len(values)), kl.pack(values))


def _taps(count: int, shared: bool, turn: kl.Number, turns: kl.Number) -> Any:
    """Return the taps of a cube."""
    return kl.loop_range(turn, count, turns) if shared else range(count)


class Viewed(NamedTuple):
    """An operand to copy: its images and channels, axes, taps, and memory before and after."""

    source: Bound
    target: Bound
    images: Lead[int]
    channels: Lead[int]
    axes: tuple[SightAxis[int], SightAxis[int]]
    taps: tuple[int, int]


def unfold_launch(
    operands: Sequence[Viewed], places: tuple[int, int], room: int, info: DeviceInfo
) -> Launch:
    """Return the launch that copies operands to lines of ``room`` pixels.

    ``places``: the output pixels of each copy, down and across.
    """
    item = operands[0].source.dtype.itemsize
    access = _ACCESS // item
    across = -(-room // (_UNITS * access))
    copies, windows, cubes, nbytes, spans = [], [], 0, 0, [room + _UNITS * access]
    for one in operands:
        taps, channels = prod(one.taps), one.channels.size
        deep = _SEVERAL if taps > 1 else _ALONE
        blocks = -(-channels // deep)
        # Few cubes with many taps leave cores idle.
        turns = max(1, min(taps, _BUSY * info.cores // max(across * blocks, 1)))
        cubes += across * blocks * turns
        spans += [
            sum(axis.size * abs(axis.stride) for axis in one.axes)
            + sum(lead.size * abs(lead.a) for lead in (one.images, one.channels)),
            channels * taps * room,
        ]
        read = channels * one.images.size * prod(axis.size for axis in one.axes)
        nbytes += (read + channels * taps * room) * item
        windows.append(Window(one.taps, deep, turns > 1))
        copies.append(
            Unfolded(
                one.source, one.target.aligned(_ACCESS), channels, one.images.a, one.channels.a,
                *one.axes, blocks, turns,
            )
        )  # fmt: skip
    index = kl.index_dtype(*spans, cubes)
    grid = Grid.line(cubes, _UNITS, info.planes[0], index)
    return launch(
        unfold, grid, Effort("conv unfold", 0, nbytes), copies=copies,
        terms=operands[0].images.size * prod(places), room=Multiple(room, access), cubes=across,
        pixels=prod(places), pixel_row=places[1], windows=tuple(windows), access=access,
    )  # fmt: skip
