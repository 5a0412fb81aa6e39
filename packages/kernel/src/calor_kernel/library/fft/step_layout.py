"""The storage of a transform's elements: how a step loads its operand and stores its results.

Requirements: the first step loads the operand in its own layout, and the last one stores the
result, so transforms of every kind consist of their steps alone. Between steps real and imaginary
parts are in separate arrays, where vectors need no shuffles. The inverse transform is the forward
one with both parts exchanged at the first load and the last store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from calor_kernel import language as kl
from calor_kernel.language.declared import READS, WRITES
from calor_kernel.library.fft.codelets import Pair

Form = Literal["apart", "pairs", "real", "half"]
M = TypeVar("M")
N = TypeVar("N")


def own_mirror_image(k: kl.Number, n: kl.Number) -> kl.Mask:
    """Return whether a bin of real elements stands for itself alone, and has no imaginary part."""
    return (k == 0) | (2 * k == n)


@dataclass(frozen=True, slots=True)
class Read(Generic[M]):
    """The memory of complex numbers that a kernel reads; ``second`` is for the form "apart"."""

    first: Annotated[M, READS]
    second: Annotated[M, READS]


@dataclass(frozen=True, slots=True)
class Written(Generic[M]):
    """The memory of complex numbers that a kernel writes; ``second`` is for the form "apart"."""

    first: Annotated[M, WRITES]
    second: Annotated[M, WRITES]


Memory = Read[kl.Pointer] | Written[kl.Pointer]


@dataclass(frozen=True, slots=True)
class Rows(Generic[N]):
    """Transforms of length n: ``rows`` of them, each with ``inner`` interleaved transforms."""

    rows: kl.SizeOf[N]
    n: kl.SizeOf[N]
    inner: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Storage:
    """The form of complex numbers in memory.

    "apart": real parts in ``first``, imaginary parts in ``second``. "pairs": interleaved in
    ``first``. "real": real parts only. "half": pairs without the upper half of the bins, which are
    conjugates of the lower half. ``swapped``: real and imaginary parts are exchanged.
    """

    form: Form
    swapped: bool = False

    def exchanged(self, value: Pair) -> Pair:
        """Return a number, its parts exchanged for inverse transforms."""
        return (value[1], value[0]) if self.swapped else value


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of a unit: their ``width``, and how many it has (``share``)."""

    width: int
    share: int


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Rows of transforms in memory: element ``i`` of a row has the bin or index ``i // inner``."""

    memory: Memory
    storage: Storage
    length: kl.Number
    inner: kl.Number

    def row(self, outer: kl.Number) -> kl.Number:
        """Return the first element of a row."""
        count = self.length // 2 + 1 if self.storage.form == "half" else self.length
        return outer * count * self.inner

    def load(self, base: kl.Number, at: kl.Number, width: int, mask: kl.Number) -> Pair:
        """Load adjacent elements of a row from ``at`` on."""
        if self.storage.form == "apart":
            return load_apart(self.memory, base + at, width, mask)
        if self.storage.form == "real":
            real = self.memory.first.load(base + at, width, mask=mask)
            return self.storage.exchanged((real, kl.constant(0, real.dtype, width)))
        if self.storage.form == "half":
            return self.storage.exchanged(self._mirrored(base, at, width, mask))
        if width == 1:
            return self.storage.exchanged(load_each(self.memory, base + at, mask))
        return self.storage.exchanged(load_pairs(self.memory, base + at, width, mask))

    def store(
        self, base: kl.Number, at: kl.Number, value: Pair, width: int, mask: kl.Number
    ) -> None:
        """Store elements of a row from ``at`` on, or to a vector of indices."""
        if self.storage.form == "apart":
            store_apart(self.memory, base + at, value, mask)
            return
        value = self.storage.exchanged(value)
        if self.storage.form == "real":
            self.memory.first.store(base + at, value[0], mask=mask)
            return
        indices = at if at.width == width else at + kl.constant(tuple(range(width)), at.dtype)
        if self.storage.form == "half":
            mask = mask & (indices < (self.length // 2 + 1) * self.inner)
            # Bins 0 and n / 2 of an even n, without a division by the elements inside.
            lone = (indices < self.inner) | (indices >= (self.length + 1) // 2 * self.inner)
            value = value[0], kl.select(lone, 0.0, value[1])
        if width > 1 and at.width == 1:
            store_pairs(self.memory, base, at, value, width, mask)
        else:
            store_each(self.memory, base + indices, value, mask)

    def _mirrored(self, base: kl.Number, at: kl.Number, width: int, mask: kl.Number) -> Pair:
        """Load elements; those above the middle are conjugates of those below it."""
        indices = at + kl.constant(tuple(range(width)), at.dtype) if width > 1 else at
        frequency, rest = indices // self.inner, indices % self.inner
        after = 2 * frequency > self.length
        lone = own_mirror_image(frequency, self.length)
        frequency = kl.select(after, self.length - frequency, frequency)
        real, imaginary = load_each(self.memory, base + frequency * self.inner + rest, mask)
        imaginary = kl.select(after, -imaginary, imaginary)
        return real, kl.select(lone, 0.0, imaginary)


def twice(mask: kl.Number, width: int) -> kl.Number:
    """Return the mask of the parts of pairs."""
    return kl.shuffle(mask, [i // 2 for i in range(2 * width)])


def deinterleave(both: kl.Number, width: int) -> Pair:
    """Return the first and the second parts of pairs."""
    return kl.shuffle(both, range(0, 2 * width, 2)), kl.shuffle(both, range(1, 2 * width, 2))


def interleave(value: Pair, width: int) -> kl.Number:
    """Return interleaved pairs."""
    return kl.shuffle(value[0], [i // 2 + i % 2 * width for i in range(2 * width)], value[1])


def load_apart(memory: Memory, at: kl.Number, width: int, mask: kl.Number) -> Pair:
    """Load adjacent numbers whose parts are in separate arrays."""
    return memory.first.load(at, width, mask=mask), memory.second.load(at, width, mask=mask)


def store_apart(memory: Memory, at: kl.Number, value: Pair, mask: kl.Number) -> None:
    """Store numbers with their parts in separate arrays, adjacent or at a vector of indices."""
    memory.first.store(at, value[0], mask=mask)
    memory.second.store(at, value[1], mask=mask)


def load_pairs(memory: Memory, at: kl.Number, width: int, mask: kl.Number) -> Pair:
    """Load adjacent interleaved numbers."""
    both = memory.first.load(2 * at, 2 * width, mask=twice(mask, width))
    return deinterleave(both, width)


def store_pairs(
    memory: Memory, base: kl.Number, at: kl.Number, value: Pair, width: int, mask: kl.Number
) -> None:
    """Store adjacent interleaved numbers from ``base + at`` on."""
    both = interleave(value, width)
    memory.first.store(2 * (base + at), both, mask=twice(mask, width))


def load_each(memory: Memory, at: kl.Number, mask: kl.Number) -> Pair:
    """Load interleaved numbers at one index or at a vector of indices."""
    index = 2 * at
    return memory.first.load(index, mask=mask), memory.first.load(index + 1, mask=mask)


def store_each(memory: Memory, at: kl.Number, value: Pair, mask: kl.Number) -> None:
    """Store interleaved numbers at one index or at a vector of indices."""
    index = 2 * at
    memory.first.store(index, value[0], mask=mask)
    memory.first.store(index + 1, value[1], mask=mask)
