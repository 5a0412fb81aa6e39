"""Parts of the bodies for CPUs: strides, masks of vectors, register tiles and shares of work.

Requirements: a convolution's bodies differ in what runs along the vectors: pixels or channels. What
they have in common is written once, and costs nothing in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from calor.dtypes import int32
from calor_kernel import language as kl
from calor_kernel.language.declared import N
from calor_kernel.library.gemm.epilogue import Writer
from calor_kernel.library.transposition import transpose


@dataclass(frozen=True, slots=True)
class Strides(Generic[N]):
    """Strides of an operand's images, groups and channels, or of three other leading axes."""

    outer: kl.StrideOf[N]
    middle: kl.StrideOf[N]
    inner: kl.StrideOf[N]

    def at(self: Strides[kl.Number], outer: kl.Index, middle: kl.Index) -> kl.Number:
        """Return the position of the first inner element."""
        return outer * self.outer + middle * self.middle


@dataclass(frozen=True, slots=True)
class LineStrides(Strides[N]):
    """Strides of three leading axes, and of the lines of a plane or the taps of a line."""

    line: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Slide(Generic[N]):
    """An axis along which windows slide: window i reads ``stride * i + dilation * k + start``.

    The axis has ``size`` elements; positions outside are padding. There are ``count`` windows of
    ``window`` positions.
    """

    count: kl.SizeOf[N]
    window: kl.SizeOf[N]
    stride: kl.SizeOf[N]
    dilation: kl.SizeOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]


def iota(lanes: int) -> kl.Number:
    """Return the vector 0, 1, … of 32-bit integers."""
    return kl.constant(tuple(kl.range(lanes)), int32)


def below(count: kl.Index, lanes: int) -> kl.Mask:
    """Return which lanes are below a count."""
    return iota(lanes) < kl.splat(kl.cast(count, int32), lanes)


def within(first: kl.Index, lanes: int, end: kl.Index, step: int = 1) -> kl.Mask:
    """Return which lanes are elements of a row: ``first + step * lane``, from 0 up to ``end``."""
    steps = kl.constant(tuple(i * step for i in kl.range(lanes)), int32)
    place = kl.splat(kl.cast(first, int32), lanes) + steps
    return (place >= 0) & (place < kl.splat(kl.cast(end, int32), lanes))


def multiply_add(x: kl.Number, y: kl.Number, total: kl.Number) -> kl.Number:
    """Return ``total + x * y``, rounded once for floating-point numbers."""
    return kl.fma(x, y, total) if total.dtype.kind == "float" else total + x * y


def add_products(
    acc: kl.Registers, rows: Iterable[kl.Number], columns: Sequence[kl.Number]
) -> None:
    """Add the products of each of the rows and all columns to a tile of sums.

    A row's number may be a scalar. It is used before the next one is taken from the iterator.
    """
    lanes, wide = acc.type.width, acc.type.dtype
    for r, value in enumerate(rows):
        value = kl.splat(value.to(wide), lanes) if value.width == 1 else value.to(wide)
        for v, column in enumerate(columns):
            acc[r, v] = multiply_add(value, column, acc[r, v])


@kl.helper
def unrolled(count: kl.Number, unroll: int, add: Callable[[kl.Number], None]) -> None:
    """Call ``add`` for the numbers below a count, ``unroll`` of them per turn of the loop."""
    main = count // unroll * unroll
    for k in kl.loop_range(0, main, unroll):
        for u in kl.range(unroll):
            add(k + u)
    if unroll > 1:
        for k in kl.range(main, count):
            add(k)


@kl.helper
def share(cube: kl.Number, size: kl.Index, total: kl.Number) -> tuple[kl.Number, kl.Number]:
    """Return the start and end of a cube's share; the last cube takes the rest too."""
    first = cube * size
    last = first + size
    if last + size > total:
        last = total
    return first, last


@kl.helper
def store_transposed(
    rows: list[kl.Number],
    c: kl.Pointer,
    to: kl.Number,
    step: kl.Number,
    first: kl.Index,
    count: kl.Number,
    inside: kl.Mask | None,
) -> None:
    """Write columns ``first`` to ``count`` of a square of vectors, which are ``step`` apart.

    ``inside``: the lanes of a column to write.
    """
    for lane, column in enumerate(transpose(rows)):
        if first + lane < count:
            c.store(to + (first + lane) * step, column.to(c.dtype), mask=inside)


@kl.helper
def end_pixels(
    ends: Writer | None,
    held: kl.Pointer | None,
    acc: kl.Registers,
    c: kl.Pointer,
    to: kl.Number,
    step: kl.Number,
    pixel: kl.Number,
    channel: kl.Number,
    inside: Sequence[kl.Mask | None],
) -> None:
    """Write a tile of pixels by vectors of channels, which are adjacent in the result.

    Pixels of the result are ``step`` apart, from ``to`` on. ``inside``: the channels of each vector
    that exist. With memory for the sums, a long epilogue is built once for all pixels.
    """
    (rows, vectors), lanes = acc.shape, acc.type.width
    if ends is not None and held is not None and ends.heavy:
        for r in kl.range(rows):
            for v in kl.range(vectors):
                held.store((r * vectors + v) * lanes, acc[r, v].to(held.dtype))
        for r in kl.loop_range(0, rows):
            for v in kl.range(vectors):
                total = held.load((r * vectors + v) * lanes, lanes)
                at = to + r * step + v * lanes
                ends.write(at, total, pixel + r, channel + v * lanes, inside[v])
        return
    for r in kl.range(rows):
        for v in kl.range(vectors):
            at = to + r * step + v * lanes
            if ends is None:
                c.store(at, acc[r, v].to(c.dtype), mask=inside[v])
            else:
                ends.write(at, acc[r, v], pixel + r, channel + v * lanes, inside[v])


@kl.helper
def end_transposed(
    ends: Writer,
    held: kl.Pointer,
    square: list[kl.Number],
    at: tuple[kl.Number, kl.Number],
    numbers: tuple[kl.Number, kl.Number, kl.Number],
    pixel: kl.Number,
    inside: kl.Mask | None,
) -> None:
    """Write what follows a square of pixels by channels, channel by channel.

    ``at``: where the result of a pixel begins, and the stride of its channels. ``numbers``: the
    square's first channel in its group, the group's channels, and the group's first.
    """
    lanes = len(square)
    for i, row in enumerate(transpose([one.to(held.dtype) for one in square])):
        held.store(i * lanes, row)
    first, outputs, group = numbers
    for i in kl.loop_range(0, kl.min(outputs - first, lanes)):
        channel = first + i
        total = held.load(i * lanes, lanes)
        ends.write(at[0] + channel * at[1], total, group + channel, pixel, inside)


def sums(vectors: list[kl.Number]) -> list[kl.Number]:
    """Return the sum of the lanes of each vector, halves first, for as many vectors as lanes."""
    lanes = vectors[0].width
    found: list[kl.Number] = []
    for start in kl.range(0, len(vectors), lanes):
        some = vectors[start : start + lanes]
        count = len(some)
        width = lanes
        while width > 1:
            if len(some) % 2:
                some.append(some[-1])
            half = width // 2
            pairs = list(zip(some[::2], some[1::2], strict=True)) or [(some[0], some[0])]
            some = [_halved(a, b, half) for a, b in pairs]
            width = half
        found += [some[i // lanes][i % lanes] for i in kl.range(count)]
    return found


def _halved(a: kl.Number, b: kl.Number, half: int) -> kl.Number:
    """Return the segments of two vectors, each as the sum of its halves of ``half`` lanes."""
    lanes = a.width
    low = [i for i in kl.range(2 * lanes) if i % (2 * half) < half]
    return kl.shuffle(a, low, b) + kl.shuffle(a, [i + half for i in low], b)
