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

    ``starts``: the first elements of the lanes, for both halves of the lanes of real forms. In the
    mode "across" it is the first lane's, in "any" a vector, in "along" one for each lane.
    ``there``: the mask of lanes, in "along" one for each lane.
    """

    memory: Memory
    storage: Storage
    mode: Mode
    step: kl.Number
    starts: tuple[list[kl.Number], list[kl.Number]]
    there: tuple[list[kl.Number], list[kl.Number]]
    lanes: int

    # Elements of all lanes. Of real forms an element has both halves.
    def read(self, i: kl.Number, half: int = 0) -> Pair:
        """Return element i of the lanes of a half."""
        if self.storage.form == "real":
            return self._read_real(i, 0), self._read_real(i, 1)
        there, lanes = self.there[half][0], self.lanes
        at = self.starts[half][0] + i * self.step
        if self.storage.form == "apart":
            return load_apart(self.memory, at, lanes, there)
        if self.mode == "across":
            return load_pairs(self.memory, at, lanes, there)
        return load_each(self.memory, at, there)

    def _read_real(self, i: kl.Number, half: int) -> kl.Number:
        at = self.starts[half][0] + i * self.step
        return self.memory.first.load(at, self.lanes, mask=self.there[half][0])

    def write(self, i: kl.Number, value: Pair, half: int = 0) -> None:
        """Write element i of the lanes of a half."""
        if self.storage.form == "real":
            for one, real in enumerate(value):
                at = self.starts[one][0] + i * self.step
                self.memory.first.store(at, real, mask=self.there[one][0])
            return
        there, lanes = self.there[half][0], self.lanes
        at = self.starts[half][0] + i * self.step
        if self.storage.form == "apart":
            store_apart(self.memory, at, value, there)
        elif self.mode == "across":
            self.memory.first.store(2 * at, interleave(value, lanes), mask=twice(there, lanes))
        else:
            store_each(self.memory, at, value, there)

    # Blocks of as many elements as lanes, of rows with adjacent elements.
    def read_block(self, i: kl.Number, count: kl.Number, half: int = 0) -> list[Pair]:
        """Return elements from i on; rows have ``count`` elements."""
        inside = along(i, self.lanes) < count
        if self.storage.form == "real":
            load = self.memory.first.load
            halves = [
                transpose([load(start + i, self.lanes, mask=inside) for start in starts])
                for starts in self.starts
            ]
            return list(zip(*halves, strict=True))
        load_row = load_apart if self.storage.form == "apart" else load_pairs
        rows = [load_row(self.memory, start + i, self.lanes, inside) for start in self.starts[half]]
        parts = transpose([r for r, _ in rows]), transpose([i for _, i in rows])
        return list(zip(*parts, strict=True))

    def write_block(
        self, i: kl.Number, count: kl.Number, values: list[Pair], half: int = 0
    ) -> None:
        """Write elements from i on; rows have ``count`` elements."""
        lanes = self.lanes
        inside = along(i, lanes) < count
        parts = transpose([v[0] for v in values]), transpose([v[1] for v in values])
        if self.storage.form == "real":
            for one, rows in enumerate(parts):
                for start, there, row in zip(self.starts[one], self.there[one], rows, strict=True):
                    mask = inside & kl.splat(there, lanes)
                    self.memory.first.store(start + i, row, mask=mask)
            return
        for lane, start in enumerate(self.starts[half]):
            mask = inside & kl.splat(self.there[half][lane], lanes)
            value = parts[0][lane], parts[1][lane]
            if self.storage.form == "apart":
                store_apart(self.memory, start + i, value, mask)
            else:
                store_pairs(self.memory, start, i, value, lanes, mask)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a tile: their outer, middle and own numbers.

    A tile has ``width`` lanes, twice the vector's if two real transforms make a complex one.
    ``flat``: a tile continues with the next outer number, and there is no middle one.
    """

    tile: kl.Number
    counts: LaneCounts[kl.Number]
    width: int
    lanes: int
    flat: bool

    def first(self, half: int) -> kl.Number:
        """Return the number of the first lane of a half."""
        if self.flat:
            return self.tile * self.width + half * self.lanes
        across = (self.counts.count + (self.width - 1)) // self.width
        return self.tile % across * self.width + half * self.lanes

    def outer(self) -> tuple[kl.Number, kl.Number]:
        """Return the outer and the middle number."""
        across = (self.counts.count + (self.width - 1)) // self.width
        rest = self.tile // across
        return rest // self.counts.middle, rest % self.counts.middle

    def side(self, memory: Memory, storage: Storage, mode: Mode, steps: Steps[kl.Number]) -> Side:
        """Return the memory of the lanes."""
        starts = self.start(mode, steps, 0), self.start(mode, steps, 1)
        return Side(memory, storage, mode, steps.element, starts, self.there(mode), self.lanes)

    @kl.helper
    def start(self, mode: Mode, steps: Steps[kl.Number], half: int) -> list[kl.Number]:
        """Return the first elements of the lanes of a half, as the mode needs them."""
        first, count = self.first(half), self.counts.count
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

    def there(self, mode: Mode) -> tuple[list[kl.Number], list[kl.Number]]:
        """Return the masks of existing lanes, of both halves."""
        limit = self.counts.total if self.flat else self.counts.count
        one, two = self.first(0), self.first(1)
        if mode == "along":
            lanes = range(self.lanes)
            return [one + i < limit for i in lanes], [two + i < limit for i in lanes]
        return [along(one, self.lanes) < limit], [along(two, self.lanes) < limit]
