"""Loads and stores of tiles of transforms: vectors of lanes, or rows with a transposition.

Requirements: memory is accessed in vectors of adjacent elements along any transformed axis, except
axes with only a few elements inside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from calor_kernel import language as kl
from calor_kernel.library.fft.codelets import Pair
from calor_kernel.library.fft.kernels import along
from calor_kernel.library.fft.step_layout import (
    Memory,
    Storage,
    interleave,
    load_apart,
    load_each,
    load_pairs,
    store_apart,
    store_each,
    store_pairs,
    twice,
)
from calor_kernel.library.transposition import transpose

# The layout of lanes: adjacent lanes, adjacent elements of a lane, or neither.
N = TypeVar("N")
Mode = Literal["across", "along", "any"]


@dataclass(frozen=True, slots=True)
class Steps(Generic[N]):
    """Strides of lanes along each of their numbers, and of a lane's elements."""

    outer: kl.SizeOf[N]
    middle: kl.SizeOf[N]
    lane: kl.SizeOf[N]
    element: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class LaneCounts(Generic[N]):
    """Numbers of lanes: each outer number has ``middle`` middle ones, each of these ``count``.

    ``total``: the limit of lane numbers in a tile.
    """

    middle: kl.SizeOf[N]
    count: kl.SizeOf[N]
    total: kl.SizeOf[N]


@dataclass(frozen=True, slots=True)
class Side:
    """The memory of a tile's transforms.

    ``starts``: the first elements of the lanes: in the mode "across" that of the first lane, in
    "any" a vector, in "along" one for each lane. ``there``: the mask of lanes, in "along" one for
    each lane. ``halved``: elements of the form "real" are two real numbers that follow each other.
    """

    memory: Memory
    storage: Storage
    mode: Mode
    step: kl.Number
    starts: list[kl.Number]
    there: list[kl.Number]
    lanes: int
    halved: bool

    # Elements of all lanes.
    def read(self, i: kl.Number) -> Pair:
        """Return element i of the lanes."""
        there, lanes = self.there[0], self.lanes
        if self.storage.form == "real":
            if self.halved:
                return self._read_real(2 * i), self._read_real(2 * i + 1)
            real = self._read_real(i)
            return real, kl.constant(0, real.dtype, lanes)
        at = self.starts[0] + i * self.step
        if self.storage.form == "apart":
            return load_apart(self.memory, at, lanes, there)
        if self.mode == "across":
            return load_pairs(self.memory, at, lanes, there)
        return load_each(self.memory, at, there)

    def _read_real(self, i: kl.Number) -> kl.Number:
        at = self.starts[0] + i * self.step
        return self.memory.first.load(at, self.lanes, mask=self.there[0])

    def write(self, i: kl.Number, value: Pair) -> None:
        """Write element i of the lanes."""
        there, lanes = self.there[0], self.lanes
        if self.storage.form == "real":
            for one, real in enumerate(value[: 1 + self.halved]):
                at = self.starts[0] + (i * (1 + self.halved) + one) * self.step
                self.memory.first.store(at, real, mask=there)
            return
        at = self.starts[0] + i * self.step
        if self.storage.form == "apart":
            store_apart(self.memory, at, value, there)
        elif self.mode == "across":
            self.memory.first.store(2 * at, interleave(value, lanes), mask=twice(there, lanes))
        else:
            store_each(self.memory, at, value, there)

    # Blocks of as many elements as lanes, of rows with adjacent elements.
    def read_block(self, i: kl.Number, count: kl.Number) -> list[Pair]:
        """Return elements from i on; rows have ``count`` elements."""
        inside = along(i, self.lanes) < count
        if self.storage.form == "real":
            load = self.memory.first.load
            reals = transpose([load(start + i, self.lanes, mask=inside) for start in self.starts])
            return [(real, kl.constant(0, real.dtype, self.lanes)) for real in reals]
        load_row = load_apart if self.storage.form == "apart" else load_pairs
        rows = [load_row(self.memory, start + i, self.lanes, inside) for start in self.starts]
        parts = transpose([r for r, _ in rows]), transpose([i for _, i in rows])
        return list(zip(*parts, strict=True))

    def write_block(self, i: kl.Number, count: kl.Number, values: list[Pair]) -> None:
        """Write elements from i on; rows have ``count`` elements."""
        lanes = self.lanes
        inside = along(i, lanes) < count
        reals, others = transpose([v[0] for v in values]), transpose([v[1] for v in values])
        for lane, start in enumerate(self.starts):
            mask = inside & kl.splat(self.there[lane], lanes)
            value = reals[lane], others[lane]
            if self.storage.form == "real":
                self.memory.first.store(start + i, value[0], mask=mask)
            elif self.storage.form == "apart":
                store_apart(self.memory, start + i, value, mask)
            else:
                store_pairs(self.memory, start, i, value, lanes, mask)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a tile: their outer, middle and own numbers.

    ``flat``: a tile continues with the next outer number, and there is no middle one.
    """

    tile: kl.Number
    counts: LaneCounts[kl.Number]
    lanes: int
    flat: bool

    def first(self) -> kl.Number:
        """Return the number of the first lane."""
        if self.flat:
            return self.tile * self.lanes
        return self.tile % self._across() * self.lanes

    def outer(self) -> tuple[kl.Number, kl.Number]:
        """Return the outer and the middle number."""
        rest = self.tile // self._across()
        return rest // self.counts.middle, rest % self.counts.middle

    def _across(self) -> kl.Number:
        """Return the number of tiles of a middle number."""
        return (self.counts.count + (self.lanes - 1)) // self.lanes

    def side(
        self, memory: Memory, storage: Storage, mode: Mode, steps: Steps[kl.Number], halved: bool
    ) -> Side:
        """Return the memory of the lanes."""
        starts, there = self.start(mode, steps), self.there(mode)
        return Side(memory, storage, mode, steps.element, starts, there, self.lanes, halved)

    @kl.helper
    def start(self, mode: Mode, steps: Steps[kl.Number]) -> list[kl.Number]:
        """Return the first elements of the lanes, as the mode needs them."""
        first, count = self.first(), self.counts.count
        if self.flat:
            lane = along(first, self.lanes)
            found = [lane // count * steps.outer + lane % count * steps.lane]
        else:
            outer, middle = self.outer()
            base = outer * steps.outer + middle * steps.middle
            if mode == "across":
                found = [base + first]
            elif mode == "along":
                last = count - 1
                found = [base + kl.min(first + i, last) * steps.lane for i in range(self.lanes)]
            else:
                found = [base + along(first, self.lanes) * steps.lane]
        return found

    def there(self, mode: Mode) -> list[kl.Number]:
        """Return the masks of existing lanes."""
        limit = self.counts.total if self.flat else self.counts.count
        first = self.first()
        if mode == "along":
            return [first + i < limit for i in range(self.lanes)]
        return [along(first, self.lanes) < limit]
