"""What a copy moves: elements as bits, on axes that both sides allow to merge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Generic, TypeVar

from calor.dtypes import DType, int32, int64, uint32, uint64
from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.movement import coalesced
from calor_kernel.contract.work import Input, Output, View
from calor_kernel.ir.types import UNSIGNED

N = TypeVar("N")
# The bytes that a unit of many reads or writes at once.
_ACCESS: Final = 16
# The units of a cube of many, and the vectors that a unit has on their way.
UNITS: Final = 256
TURNS: Final = 4


@dataclass(frozen=True, slots=True)
class Starts(Generic[N]):
    """Starts of a part: for each axis the largest start that fits, and the stride of a start.

    ``step``: the stride of the array of starts.
    """

    step: kl.StrideOf[N]
    limits: tuple[kl.StrideOf[N], ...]
    strides: tuple[kl.StrideOf[N], ...]


@dataclass(frozen=True, slots=True)
class DynamicPart:
    """A part of an array that begins at ``starts``, the operand of this ``number``.

    ``into``: whether the array is the target of a copy, or else its source. ``shape``: of the part.
    """

    number: int
    starts: View
    whole: View
    shape: tuple[int, ...]
    into: bool

    def at(self, count: int) -> Starts[int]:
        """Return the starts of a kernel; an element of the array is ``count`` elements of bits."""
        pairs = zip(self.whole.shape, self.shape, strict=True)
        step = self.starts.strides[0] if self.starts.size else 1
        strides = tuple(s * count for s in self.whole.strides)
        return Starts(step, tuple(n - m for n, m in pairs), strides)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Elements to copy; ``read`` and ``written`` are their strides in the source and the target.

    ``source`` and ``target``: the operand and the place of the first element, and the place of the
    first element of the result. ``starts``: of a dynamic part, and whether it is in the target.
    """

    sizes: tuple[int, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]
    dtype: DType
    source: Input
    target: Output
    starts: Starts[int] | None = None

    @staticmethod
    def of(
        view: View,
        source: Input,
        strides: Sequence[int],
        start: int,
        info: DeviceInfo,
        part: DynamicPart | None = None,
    ) -> Transfer:
        """Return the copy of a view to a strided region of the result.

        ``strides`` and ``start``: strides and first element of the region in the result, in
        elements of the view.
        """
        bits = as_bits(view, info)
        count = view.dtype.itemsize // bits.dtype.itemsize
        region = [s * count for s in strides] + [1] * (len(bits.shape) - len(view.shape))
        sizes, (read, written) = coalesced(bits.shape, bits.strides, region)
        if not sizes:
            sizes, read, written = (1,), (1,), (1,)
        return Transfer(
            sizes,
            read,
            written,
            bits.dtype,
            replace(source, offset=source.offset * count + bits.offset),
            Output(0, start * count),
            None if part is None else part.at(count),
        )

    @property
    def count(self) -> int:
        """The number of elements."""
        count: int = prod(self.sizes)
        return count

    @property
    def nbytes(self) -> int:
        """The bytes read and written."""
        nbytes: int = 2 * self.count * self.dtype.itemsize
        return nbytes

    @property
    def places(self) -> dict[str, object]:
        """The memory of a launch."""
        return {
            "source": Bound(self.source, self.dtype),
            "target": Bound(self.target, self.dtype),
        }

    def lanes(self, info: DeviceInfo) -> int:
        """Return the widest vector of which both sides are made, aligned; 1 if there is none."""
        fill = self.read[-1] == 0
        if self.written[-1] != 1 or self.read[-1] not in (0, 1):
            return 1
        numbers = [self.sizes[-1], *self.written[:-1], self.target.offset]
        if not fill:
            numbers += [*self.read[:-1], self.source.offset]
        if self.starts is not None:
            pairs = zip(self.starts.limits, self.starts.strides, strict=True)
            numbers += [stride for limit, stride in pairs if limit != 0]
        return aligned_lanes(self.dtype, numbers, info)

    def index(self, info: DeviceInfo) -> DType:
        """Return the type of positions."""
        ends = [self.count]
        for strides in (self.read, self.written):
            ends.append(sum(abs(s) * (n - 1) for n, s in zip(self.sizes, strides, strict=True)) + 1)
        if self.starts is not None:
            pairs = zip(self.starts.limits, self.starts.strides, strict=True)
            ends = [e + sum(n * abs(s) for n, s in pairs) for e in ends]
        return index_of(ends, info)


def aligned_lanes(dtype: DType, numbers: Iterable[int], info: DeviceInfo) -> int:
    """Return the lanes of the widest access that divides all numbers of elements."""
    width: int = max(min(info.vector_bytes, _ACCESS) // dtype.itemsize, 1)
    for number in numbers:
        while width > 1 and number % width:
            width //= 2
    return width


def index_of(ends: Iterable[int], info: DeviceInfo) -> DType:
    """Return the type of positions up to these numbers."""
    dtype = kl.index_dtype(*ends)
    return dtype if dtype in info.dtypes else int32


def turns_of(vectors: int, units: int, info: DeviceInfo) -> int:
    """Return how many vectors a unit takes: several, unless cores would have no cube."""
    return TURNS if exceeds(vectors, 2 * TURNS * units * info.cores) else 1


def as_bits(view: View, info: DeviceInfo) -> View:
    """Return a view as unsigned integers of the same bits, several for elements of 16 bytes.

    A device without such integers copies the elements as they are.
    """
    size = view.dtype.itemsize
    whole: DType | None = UNSIGNED.get(size)
    if whole is not None and whole in info.dtypes:
        return View(view.shape, view.strides, whole, view.offset)
    part = next((d for d in (uint64, uint32) if d in info.dtypes and d.itemsize <= size), None)
    if part is None:
        return view
    count = size // part.itemsize
    strides = (*(s * count for s in view.strides), 1)
    return View((*view.shape, count), strides, part, view.offset * count)


def row_offset(
    row: kl.Number, sizes: Sequence[kl.Number], strides: Sequence[kl.Number]
) -> kl.Index:
    """Return the offset of a row, its number counted along the axes, the last one fastest."""
    offset: kl.Index = 0
    for size, stride in zip(reversed(sizes[1:]), reversed(strides[1:]), strict=True):
        offset = offset + row % size * stride
        row = row // size
    return offset + row * strides[0] if strides else offset


def narrow(index: kl.Number) -> kl.Number:
    """Return a small index with 32 bits."""
    short = index.to(int32)
    short.nonnegative = True
    return short


@kl.helper
def as_index(start: kl.Number, limit: kl.Number) -> kl.Number:
    """Return a start as an index, at most the limit; an unsigned one beyond int64 is the limit."""
    if start.dtype.kind == "uint" and start.dtype.itemsize == 8:
        low = kl.min(start, limit.to(start.dtype))
        result = low.to(int64)
    else:
        result = kl.min(start.to(int64), limit.to(int64))
    return result


@kl.helper
def begin_of(starts: kl.Pointer, part: Starts[kl.Number]) -> kl.Index:
    """Return the offset of a part, its starts clamped so that it fits."""
    offset: kl.Index = 0
    for axis, limit in enumerate(part.limits):
        first = kl.max(as_index(starts[axis * part.step], limit), 0)
        offset = offset + first.to(limit.dtype) * part.strides[axis]
    return offset
