"""Sums of the parts of split convolutions, transposed to the result's layout.

Requirements: parts are added in a fixed order, so that results are reproducible. With few elements
and many parts, units share the parts, since one unit would wait for each read. Parts have the
channels of a tap dense, the result has the taps of a channel dense; both are accessed along their
dense axis, and shared memory transposes.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import DType, float32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    assume_multiple,
    barrier,
    constant,
    cube_position,
    index_dtype,
    kernel,
    select,
    shared,
    splat,
    unit_index,
)

_UNITS = 256
# Elements of an access, and the parts that a unit loads at the same time.
_WIDE, _AHEAD = 4, 4
# Minimum of accesses of a tap in a cube, if there are as many.
_LEAST = 8
# The alignment of parts and of their rows, in bytes.
ALIGN = _WIDE * float32.itemsize


@kernel
def add_turned(
    parts: Any,
    c: Any,
    room: Any,
    channels: Any,
    taps: Any,
    splits: Any,
    groups: Any,
    part_step: Any,
    *,
    wide: int,
    held: int,
) -> None:
    """Add parts of (row, tap, channel) to (row, channel, tap): channels from x, a row from y.

    ``room``: the channels of a tap in the parts; those from ``channels`` on are left out. ``wide``:
    accesses of a tap in a cube. ``groups`` of units share the parts, and shared memory has ``held``
    accesses for all of them.
    """
    first, row, unit = cube_position(0) * (wide * _WIDE), cube_position(1), unit_index()
    # One more access lies between taps, so that those of a channel meet different banks.
    quads, pitch = taps * wide, wide + 1
    sums = shared(held * _WIDE, float32, align=ALIGN)
    share = -(-splits // groups)
    for item in range(unit, quads * groups, _UNITS):
        group, quad = item // quads, item % quads
        tap, far = quad // wide, quad % wide * _WIDE
        at = (row * taps + tap) * room + first + far
        begin = group * share
        end = min(begin + share, splits)
        total = constant(0, float32, _WIDE)
        if first + far < room:
            for split in range(begin, end, _AHEAD):
                # A mask would apply to each element and split the access.
                found = [
                    parts.load(
                        assume_multiple(min(split + i, end - 1) * part_step + at, _WIDE), _WIDE
                    )
                    for i in range(_AHEAD)
                ]
                for i in range(_AHEAD):
                    there = splat(split + i < end, _WIDE)
                    total = total + select(there, found[i], constant(0, float32, _WIDE))
        sums.store(((group * taps + tap) * pitch) * _WIDE + far, total)
    barrier()
    to = (row * channels + first) * taps
    for e in range(unit, min(channels - first, wide * _WIDE) * taps, _UNITS):
        channel, tap = e // taps, e % taps
        place = tap * (pitch * _WIDE) + channel
        total = sums[place]
        for group in range(1, groups):
            total = total + sums[place + group * taps * (pitch * _WIDE)]
        c[to + e] = total.to(c.dtype)


def sums_launch(
    parts: Argument,
    dtype: DType,
    sizes: tuple[int, int, int, int],
    splits: int,
    part_step: int,
    info: DeviceInfo,
) -> Launch:
    """Return the launch for ``sizes``: rows, taps, channels, and the room of a tap for channels.

    The room and ``part_step``, the stride of parts, are whole accesses.
    """
    rows, taps, channels, room = sizes
    wanted = min(-(-splits // _AHEAD), _UNITS // _LEAST)
    wide = _power(min(max(_UNITS // (taps * wanted), _LEAST), -(-room // _WIDE)))
    groups = max(1, min(wanted, _UNITS // (taps * wide)))
    held = _power(max(_UNITS, groups * taps * (wide + 1)))
    index = index_dtype(splits * part_step, rows * taps * room)
    size, whole = Scalar(index, nonnegative=True), Scalar(index, divisible=_WIDE, nonnegative=True)
    read = Buffer(float32, writable=False, align=ALIGN)
    signature = (read, Buffer(dtype), whole, size, size, size, size, whole)
    said = (("held", held), ("wide", wide))
    build = Build(add_turned, signature, said, (_UNITS, 1, 1), info.planes[0], index)
    count = rows * taps * channels
    nbytes = count * (splits * float32.itemsize + dtype.itemsize)
    cubes = (-(-channels // (wide * _WIDE)), rows, 1)
    numbers = (room, channels, taps, splits, groups, part_step)
    arguments = (parts, Output(0), *numbers)
    return Launch(build, cubes, arguments, count * splits, nbytes, "conv parts")


def _power(n: int) -> int:
    """Return the least power of two that is not smaller."""
    return 1 << max(int(n) - 1, 0).bit_length()
