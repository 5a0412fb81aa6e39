"""im2col of operands whose channels are dense: a tile of pixels and channels, turned.

Requirements: the rows of the copy are those of :mod:`im2col`, so both sides of memory are accessed
along their dense axis, and shared memory transposes. Rows of the operand may begin anywhere, as
those of an odd number of classes do.
"""

from __future__ import annotations

from math import prod
from typing import Final

from calor_cuda.kernels.conv.im2col import SightAxis, Viewed, sight
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, launch
from calor_kernel.contract.work import Launch

# Units of a cube, and the pixels and channels of its tile.
_UNITS: Final = 256
_PLACES: Final = 64
_CHANNELS: Final = 64
_ACCESS: Final = 16
_BANK: Final = 4
# The least channels that fill half of a tile's access of memory.
_LEAST: Final = 16


@kl.kernel
def unfold_turned(
    x: kl.In,
    y: kl.Out,
    channels: kl.Size,
    outer: kl.Stride,
    down: SightAxis[kl.Number],
    across: SightAxis[kl.Number],
    terms: kl.Size,
    room: kl.Size,
    pixels: kl.FastDivmod,
    pixel_row: kl.FastDivmod,
    *,
    taps: tuple[int, int],
    access: int,
) -> None:
    """Copy output pixels from x, some channels from y, and one tap from z.

    ``terms``: the output pixels of all images; a row of the copy has ``room`` for them. Divisors:
    the pixels of an image and a row.
    """
    # An odd number of banks, so that channels of a pixel are in different ones.
    pitch = _PLACES + max(1, _BANK // int(x.dtype.itemsize))
    tile = kl.shared(_CHANNELS * pitch, x.dtype)
    first, begin = kl.cube_position(0) * _PLACES, kl.cube_position(1) * _CHANNELS
    tap = kl.cube_position(2)
    unit = kl.unit_index()
    c, near, down_units = unit % _CHANNELS, unit // _CHANNELS, _UNITS // _CHANNELS
    values = []
    for turn in range(_PLACES // down_units):
        place = first + near + turn * down_units
        there, start, top, left = sight(down, across, outer, place, terms, pixels, pixel_row)
        r, q = top + tap // taps[1] * down.move, left + tap % taps[1] * across.move
        there = there & (r >= 0) & (r < down.size) & (q >= 0) & (q < across.size)
        there = there & (begin + c < channels)
        at = start + (begin + c) + r * down.stride + q * across.stride
        # A mask would be a branch for each element.
        value = x[kl.select(there, at, 0)]
        values.append(kl.select(there, value, kl.constant(0, x.dtype)))
    for turn, value in enumerate(values):
        tile[c * pitch + near + turn * down_units] = value
    kl.barrier()
    pieces = _PLACES // access
    for turn in range(_CHANNELS * pieces // _UNITS):
        piece = unit + turn * _UNITS
        line, place = piece // pieces, piece % pieces * access
        if (begin + line < channels) and (first + place < room):
            made = kl.pack([tile[line * pitch + place + e] for e in range(access)])
            to = ((begin + line) * prod(taps) + tap) * room + first + place
            y.store(kl.assume_multiple(to, access), made)


def turned(one: Viewed) -> bool:
    """Return whether the channels of an operand are dense, and its pixels are not."""
    channels, across = one.channels, one.axes[1]
    return channels.a == 1 and channels.size >= _LEAST and across.stride != 1


def turned_launch(one: Viewed, places: tuple[int, int], room: int, info: DeviceInfo) -> Launch:
    """Return the launch that copies an operand to lines of ``room`` pixels.

    ``places``: the output pixels, down and across.
    """
    item, channels, taps = one.source.dtype.itemsize, one.channels.size, prod(one.taps)
    access, terms = _ACCESS // item, one.images.size * prod(places)
    read = channels * one.images.size * prod(axis.size for axis in one.axes)
    reach = sum(axis.size * abs(axis.stride) for axis in one.axes)
    reach += one.images.size * abs(one.images.a) + channels
    down, across = one.axes
    return launch(
        unfold_turned,
        Grid(
            (-(-room // _PLACES), -(-channels // _CHANNELS), taps), (_UNITS, 1, 1), info.planes[0],
            kl.index_dtype(reach, (channels + _CHANNELS) * taps * (room + _PLACES)),
        ),
        Effort("conv unfold turned", 0, (read + channels * taps * room) * item),
        x=one.source, y=Bound(one.target.place, one.target.dtype, _ACCESS), channels=channels,
        outer=one.images.a, down=down, across=across, terms=terms, room=Multiple(room, access),
        pixels=prod(places), pixel_row=places[1], taps=one.taps, access=access,
    )  # fmt: skip
