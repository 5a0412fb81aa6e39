"""im2col: the inputs of each tap, as lines of the output pixels of all images.

Requirements: a row of the copy is a channel and a tap, in the order of the weights, and begins at a
multiple of 16 bytes. Padding of images and of lines is zeros. A unit computes its pixels'
coordinates once for several channels and all taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import (
    FastDivmod,
    assume_multiple,
    constant,
    cube_position,
    index_dtype,
    kernel,
    pack,
    select,
    unit_index,
)

_UNITS, _ACCESS = 128, 16
# Channels of a unit for windows of one tap, and of more.
_ALONE, _SEVERAL = 4, 2


@dataclass(frozen=True, slots=True)
class Sight:
    """An axis: the output ``places`` of the copy, and the inputs that they read, of ``size``.

    Tap i of pixel p reads ``start + p * step + i * move``; elements are ``stride`` apart.
    """

    places: int
    taps: int
    size: int
    stride: int
    start: int = 0
    step: int = 1
    move: int = 0


@kernel
def unfold(
    x: Any,
    y: Any,
    channels: Any,
    terms: Any,
    room: Any,
    outer: Any,
    channel: Any,
    *numbers: Any,
    taps: tuple[int, int],
    access: int,
    deep: int,
) -> None:
    """Copy output pixels, some for each unit along x, of ``deep`` channels along y.

    ``terms``: the output pixels of all images; a row of the copy has ``room`` for them. ``outer``
    and ``channel``: the strides of images and channels. ``numbers``: of each axis the size, stride,
    start, step and move, then the divisors of an image and of a row.
    """
    down, across = numbers[:5], numbers[5:10]
    whole, line = FastDivmod.groups(numbers[10:16])
    first = (cube_position(0) * _UNITS + unit_index()) * access
    begin = cube_position(1) * deep
    if first < room:
        seen = []
        for e in range(access):
            image, place = whole.divmod(first + e)
            row, column = line.divmod(place)
            top, left = down[2] + row * down[3], across[2] + column * across[3]
            seen.append((first + e < terms, image * outer, top, left))
        for c in range(begin, min(begin + deep, channels)):
            for i in range(taps[0]):
                for j in range(taps[1]):
                    values = []
                    for there, start, top, left in seen:
                        r, q = top + i * down[4], left + j * across[4]
                        there = there & (r >= 0) & (r < down[0]) & (q >= 0) & (q < across[0])
                        at = start + c * channel + r * down[1] + q * across[1]
                        # A mask would be a branch for each element.
                        value = x[select(there, at, 0)]
                        values.append(select(there, value, constant(0, x.dtype)))
                    to = ((c * taps[0] + i) * taps[1] + j) * room + first
                    y.store(assume_multiple(to, access), pack(values))


def unfold_launch(
    source: Argument,
    target: Argument,
    dtype: DType,
    leads: tuple[int, int],
    strides: tuple[int, int],
    axes: Sequence[Sight],
    room: int,
    info: DeviceInfo,
) -> Launch:
    """Return the launch that copies ``leads``, images and channels, to lines of ``room`` pixels."""
    images, channels = leads
    down, across = axes
    access = _ACCESS // dtype.itemsize
    places, taps = down.places * across.places, down.taps * across.taps
    deep = _SEVERAL if taps > 1 else _ALONE
    reach = sum(axis.size * abs(axis.stride) for axis in axes)
    spans = (images * abs(strides[0]), channels * abs(strides[1]), channels * taps * room)
    index = index_dtype(sum(spans[:2]) + reach, spans[2], room + _UNITS * access)
    size, number = Scalar(index, nonnegative=True), Scalar(index)
    wide = Scalar(index, nonnegative=True, divisible=access)
    build = Build(
        unfold,
        (
            *(Buffer(dtype, writable=False), Buffer(dtype, align=_ACCESS)),
            *(size, size, wide, number, number),
            *(size, number, number, number, number) * 2,
            *FastDivmod.declared(index) * 2,
        ),
        (("access", access), ("deep", deep), ("taps", (down.taps, across.taps))),
        (_UNITS, 1, 1),
        info.planes[0],
        index,
    )
    numbers = [
        n for axis in axes for n in (axis.size, axis.stride, axis.start, axis.step, axis.move)
    ]
    for n in (places, across.places):
        numbers += FastDivmod.arguments(n, index)
    cubes = (-(-room // (_UNITS * access)), -(-channels // deep), 1)
    nbytes = channels * (images * prod(axis.size for axis in axes) + taps * room) * dtype.itemsize
    arguments = (source, target, channels, images * places, room, *strides, *numbers)
    return Launch(build, cubes, arguments, 0, nbytes, "conv unfold")
