"""im2col: the inputs of each tap, as lines of the output pixels of all images.

Requirements: a row of the copy is a channel and a tap, in the order of the weights, and begins at a
multiple of 16 bytes. Padding of images and of lines is zeros. A unit computes its pixels'
coordinates once for several channels and all taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Generic

from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch
from calor_kernel.language.declared import N
from calor_kernel.library.conv.problem import Lead

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


def _taps(count: int, shared: bool) -> Any:
    """Return the taps of this cube."""
    if not shared:
        return range(count)
    return kl.loop_range(kl.cube_position(2), count, kl.cube_count(2))


@kl.kernel
def unfold(
    x: kl.In,
    y: kl.Out,
    channels: kl.Size,
    terms: kl.Size,
    room: kl.Size,
    outer: kl.Stride,
    channel: kl.Stride,
    down: SightAxis[kl.Number],
    across: SightAxis[kl.Number],
    pixels: kl.FastDivmod,
    pixel_row: kl.FastDivmod,
    *,
    taps: tuple[int, int],
    access: int,
    deep: int,
    shared: bool,
) -> None:
    """Copy output pixels, some for each unit along x, of ``deep`` channels along y.

    ``terms``: the output pixels of all images; a row of the copy has ``room`` for them. ``outer``
    and ``channel``: the strides of images and channels. Divisors: the pixels of an image and a row.
    ``shared``: cubes along z share the taps.
    """
    first = (kl.cube_position(0) * _UNITS + kl.unit_index()) * access
    begin = kl.cube_position(1) * deep
    count = taps[0] * taps[1]
    if first < room:
        seen = []
        for e in kl.range(access):
            image, place = pixels.divmod(first + e)
            row, column = pixel_row.divmod(place)
            top, left = down.start + row * down.step, across.start + column * across.step
            seen.append((first + e < terms, image * outer, top, left))
        for c in kl.range(begin, kl.min(begin + deep, channels)):
            for tap in _taps(count, shared):
                i, j = tap // taps[1], tap % taps[1]
                values = []
                for there, start, top, left in seen:
                    r, q = top + i * down.move, left + j * across.move
                    there = there & (r >= 0) & (r < down.size) & (q >= 0) & (q < across.size)
                    at = start + c * channel + r * down.stride + q * across.stride
                    # A mask would be a branch for each element.
                    value = x[kl.select(there, at, 0)]
                    values.append(kl.select(there, value, kl.constant(0, x.dtype)))
                to = (c * count + tap) * room + first
                y.store(kl.assume_multiple(to, access), kl.pack(values))


def unfold_launch(
    source: Bound,
    target: Bound,
    leads: tuple[Lead[int], Lead[int]],
    places: tuple[int, int],
    taps: tuple[int, int],
    axes: tuple[SightAxis[int], SightAxis[int]],
    room: int,
    info: DeviceInfo,
) -> Launch:
    """Return the launch that copies ``leads``, images and channels, to lines of ``room`` pixels.

    ``places``: the output pixels of the copy, down and across, with ``taps`` each.
    """
    images, channels = leads
    item = source.dtype.itemsize
    access, lines = _ACCESS // item, channels.size * prod(taps)
    deep = _SEVERAL if taps != (1, 1) else _ALONE
    reach = sum(axis.size * abs(axis.stride) for axis in axes)
    reach += sum(lead.size * abs(lead.a) for lead in leads)
    index = kl.index_dtype(reach, lines * room, room + _UNITS * access)
    across, down, count = -(-room // (_UNITS * access)), -(-channels.size // deep), prod(taps)
    # Few cubes with many taps leave cores idle.
    turns = max(1, min(count, _BUSY * info.cores // max(across * down, 1)))
    cubes = (across, down, turns)
    nbytes = (channels.size * images.size * prod(axis.size for axis in axes) + lines * room) * item
    grid = Grid(cubes, (_UNITS, 1, 1), info.planes[0], index)
    return launch(
        unfold, grid, Effort("conv unfold", 0, nbytes),
        x=source, y=target.aligned(_ACCESS), channels=channels.size,
        terms=images.size * prod(places), room=Multiple(room, access), outer=images.a,
        channel=channels.a, down=axes[0], across=axes[1], pixels=prod(places),
        pixel_row=places[1], access=access, deep=deep, taps=taps,
        shared=turns > 1,
    )  # fmt: skip
