"""Operands of convolutions by matrix instructions: dense channels, and the numbers of windows.

Requirements: the input or output gradient is copied once to dense channels, unless its channels are
dense. Copies of constant weights are cached. A copy reads memory along its dense axis. Weights of
one tap in the right layout are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Input, Launch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import FastDivmod
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.conv.channels_last import last_launch
from calor_kernel.library.conv.padded_rows import Steps, three
from calor_kernel.library.conv.problem import Axis, Correlation
from calor_kernel.library.gemm.mma import Fragments

Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Last:
    """An operand with dense channels: strides of leads and both axes, in whole accesses."""

    place: Argument
    strides: tuple[int, int, int]
    room: int


def two_axes(problem: Correlation) -> tuple[Axis, Axis]:
    _, down, across = three(problem)
    return down, across


def last(
    place: Argument,
    dtype: DType,
    sizes: tuple[int, int, tuple[int, int]],
    strides: tuple[int, int, tuple[int, int]],
    steps: Steps,
    info: DeviceInfo,
    whole: bool = False,
    rounded: bool = False,
) -> Last:
    """Return (leads, channels, pixels) with dense channels, copied if they are not dense.

    ``whole``: whether pixels must follow each other without gaps. ``rounded``: to TF32.
    """
    access = 16 // dtype.itemsize
    leads, channels, (down, across) = sizes
    outer, channel, (high, wide) = strides
    assert isinstance(place, Input)
    numbers = (channels, place.offset, outer, high, wide)
    gaps = whole and (wide, high, outer) != (channels, across * wide, down * high)
    if not gaps and not rounded and channel == 1 and all(n % access == 0 for n in numbers):
        return Last(place, (outer, high, wide), channels)
    room = -(-channels // access) * access
    count = leads * down * across * room
    target = steps.memory(max(count, 1) * dtype.itemsize)
    if count:
        launch = last_launch(
            place, target, dtype, sizes, strides, room, 1, info, rounded=rounded
        )  # fmt: skip
        steps.launches.append(launch)
    return Last(target, (down * across * room, across * room, room), room)


@dataclass(frozen=True, slots=True)
class Weights:
    """Rows of terms: strides of rows, of blocks of channels and of both axes' taps."""

    place: Argument
    row: int
    block: int
    taps: tuple[int, int]


def weights_of(
    problem: Correlation, room: int, block: int, steps: Steps, info: DeviceInfo, rounded: bool
) -> Weights:
    """Return the weights: each row has a block of channels of each tap, then the next block.

    ``room``: the channels with the zeros that fill the last access; ``block``: the channels of each
    tap before the next tap. ``rounded``: to TF32.
    """
    p, axes = problem, two_axes(problem)
    dtype, (_, _, rows) = p.b.dtype, p.leads
    access, taps = 16 // dtype.itemsize, axes[0].terms * axes[1].terms
    aligned = all(n % access == 0 for n in (p.depth.size, p.b.offset, rows.b))
    if taps == 1 and p.depth.b == 1 and aligned and not rounded:
        return Weights(Input(1, p.b.offset), rows.b, block, (0, 0))
    target = steps.memory(max(rows.size * taps * room, 1) * dtype.itemsize)
    if p.depth.size:
        launch = last_launch(
            Input(1, p.b.offset), target, dtype,
            (1, p.depth.size, (axes[0].terms, axes[1].terms)),
            (0, p.depth.b, (axes[0].b, axes[1].b)),
            block, room // block, info, True, rounded, (rows.size, rows.b),
        )  # fmt: skip
        steps.launches.append(launch)
    return Weights(target, taps * room, taps * block, (axes[1].terms * block, block))


def windows(
    x: Last,
    axes: Sequence[Axis],
    moves: Sequence[tuple[int, int]],
    block: int,
    index: DType,
) -> tuple[tuple[Scalar, ...], Numbers]:
    """Return the parameters and numbers of ``Windows`` after the strides of x."""
    size, stride = Scalar(index, nonnegative=True), Scalar(index)
    numbers: list[int] = []
    for axis, (result, summed) in zip(axes, moves, strict=True):
        numbers += [result, summed, axis.start, axis.size]
    places = axes[0].count * axes[1].count
    taps = axes[0].terms * axes[1].terms
    divisors = (places, axes[1].count, taps, axes[1].terms, block)
    for n in divisors:
        numbers += FastDivmod.arguments(max(n, 1), index)
    signature = (*(stride, stride, stride, size) * 2, *FastDivmod.declared(index) * 5)
    return signature, numbers


def wide(index: DType, plan: Fragments) -> Scalar:
    return Scalar(index, divisible=plan.access, nonnegative=True)


def launch(
    function: KernelFunction,
    told: tuple[tuple[str, Any], ...],
    plan: Fragments,
    places: tuple[Argument, Argument, Argument],
    target: Buffer,
    numbers: tuple[Sequence[Scalar], Numbers],
    index: DType,
    cubes: tuple[int, int, int],
    flops: int,
    info: DeviceInfo,
) -> Launch:
    read = Buffer(plan.dtype, writable=False, align=16)
    build = Build(
        function,
        (read, read, target, *numbers[0]),
        told,
        (plan.units, 1, 1),
        info.planes[0],
        index,
    )
    label = f"{function.name} {plan.rows}x{plan.columns}"
    arguments = (*places, *numbers[1])
    return Launch(build, cubes, arguments, flops, 0, label)
