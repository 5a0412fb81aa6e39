"""Where tiles of transforms are read from and written to: vectors of lanes, or squares of rows.

Requirements: whatever axis is transformed, memory is read in vectors of elements that lie one after
another, but for axes inside of which lie a few elements only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calor_kernel.language import helper, splat
from calor_kernel.library.fft.codelets import Pair
from calor_kernel.library.fft.kernels import along
from calor_kernel.library.fft.step_layout import Form, joined, parted, twice
from calor_kernel.library.matmul.packing import transpose

# How lanes lie in memory: one after another, each with its elements one after another, or neither.
Mode = Literal["across", "along", "any"]


@dataclass(frozen=True, slots=True)
class Side:
    """Where transforms are read from or written to.

    ``starts`` are the first elements of the lanes, as far as the mode needs them: the first lane's
    for "across", a vector for "any", and a list for "along", each for both halves of the lanes of
    real forms. ``there`` says which lanes there are.
    """

    first: Any
    second: Any
    form: Form
    mode: Mode
    swapped: bool
    step: Any
    starts: tuple[Any, Any]
    there: tuple[Any, Any]
    lanes: int

    # Elements of all lanes.
    def read(self, i: Any, half: int) -> Pair:
        """Return element i of the lanes of a half."""
        there, lanes = self.there[half], self.lanes
        at = self.starts[half] + i * self.step
        if self.form == "apart":
            return self.first.load(at, lanes, mask=there), self.second.load(at, lanes, mask=there)
        if self.mode == "across":
            return parted(self.first.load(2 * at, 2 * lanes, mask=twice(there, lanes)), lanes)
        return self.first.load(2 * at, mask=there), self.first.load(2 * at + 1, mask=there)

    def write(self, i: Any, half: int, value: Pair) -> None:
        """Write element i of the lanes of a half."""
        there, lanes = self.there[half], self.lanes
        at = self.starts[half] + i * self.step
        if self.form == "apart":
            self.first.store(at, value[0], mask=there)
            self.second.store(at, value[1], mask=there)
        elif self.mode == "across":
            self.first.store(2 * at, joined(value, lanes), mask=twice(there, lanes))
        else:
            self.first.store(2 * at, value[0], mask=there)
            self.first.store(2 * at + 1, value[1], mask=there)

    def read_real(self, i: Any, half: int) -> Any:
        """Return element i of the lanes of a half, which is real."""
        at = self.starts[half] + i * self.step
        return self.first.load(at, self.lanes, mask=self.there[half])

    def write_real(self, i: Any, half: int, value: Any) -> None:
        """Write element i of the lanes of a half, which is real."""
        at = self.starts[half] + i * self.step
        self.first.store(at, value, mask=self.there[half])

    # As many elements as lanes, of rows that lie one after another.
    def read_square(self, i: Any, count: Any, half: int) -> list[Pair]:
        """Return elements from i on, of which there are ``count`` in all."""
        lanes = self.lanes
        inside = along(i, lanes) < count
        rows: list[Pair] = []
        for start in self.starts[half]:
            if self.form == "apart":
                rows.append(
                    (
                        self.first.load(start + i, lanes, mask=inside),
                        self.second.load(start + i, lanes, mask=inside),
                    )
                )
            else:
                at = 2 * (start + i)
                both = self.first.load(at, 2 * lanes, mask=twice(inside, lanes))
                rows.append(parted(both, lanes))
        return list(
            zip(transpose([r for r, _ in rows]), transpose([i for _, i in rows]), strict=True)
        )

    def write_square(self, i: Any, count: Any, half: int, values: list[Pair]) -> None:
        """Write elements from i on, of which there are ``count`` in all."""
        lanes = self.lanes
        inside = along(i, lanes) < count
        real, imaginary = transpose([v[0] for v in values]), transpose([v[1] for v in values])
        for lane, start in enumerate(self.starts[half]):
            mask = inside & splat(self.there[half][lane], lanes)
            if self.form == "apart":
                self.first.store(start + i, real[lane], mask=mask)
                self.second.store(start + i, imaginary[lane], mask=mask)
            else:
                both = joined((real[lane], imaginary[lane]), lanes)
                self.first.store(2 * (start + i), both, mask=twice(mask, lanes))

    def read_real_square(self, i: Any, count: Any, half: int) -> list[Any]:
        """Return real elements from i on."""
        inside = along(i, self.lanes) < count
        rows = [self.first.load(s + i, self.lanes, mask=inside) for s in self.starts[half]]
        return transpose(rows)

    def write_real_square(self, i: Any, count: Any, half: int, values: list[Any]) -> None:
        """Write real elements from i on."""
        inside = along(i, self.lanes) < count
        for lane, row in enumerate(transpose(values)):
            mask = inside & splat(self.there[half][lane], self.lanes)
            self.first.store(self.starts[half][lane] + i, row, mask=mask)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The numbers of a tile's lanes: outer, middle, and the lane's own.

    ``count`` lanes have the same outer and middle number, of which there are ``middle``. ``width``
    lanes are in a tile, twice the vector's where two real transforms make a complex one. ``flat``:
    a tile goes on with the next outer number, and there is no middle one; ``total`` lanes are all.
    """

    tile: Any
    middle: Any
    count: Any
    total: Any
    width: int
    lanes: int
    flat: bool

    def first(self, half: int) -> Any:
        """Return the number of the first lane of a half."""
        if self.flat:
            return self.tile * self.width + half * self.lanes
        across = (self.count + (self.width - 1)) // self.width
        return self.tile % across * self.width + half * self.lanes

    def outer(self) -> tuple[Any, Any]:
        """Return the outer and the middle number."""
        across = (self.count + (self.width - 1)) // self.width
        rest = self.tile // across
        return rest // self.middle, rest % self.middle

    def starts(self, mode: Mode, steps: Steps) -> tuple[Any, Any]:
        """Return the lanes' first elements, of both halves."""
        return self.start(mode, steps, 0), self.start(mode, steps, 1)

    @helper
    def start(self, mode: Mode, steps: Steps, half: int) -> Any:
        """Return the lanes' first elements of a half, as far as the mode needs them."""
        first = self.first(half)
        if self.flat:
            lane = along(first, self.lanes)
            made = lane // self.count * steps.outer + lane % self.count * steps.lane
        else:
            outer, middle = self.outer()
            base = outer * steps.outer + middle * steps.middle
            if mode == "across":
                made = base + first
            elif mode == "along":
                last = self.count - 1
                made = [base + min(first + i, last) * steps.lane for i in range(self.lanes)]
            else:
                made = base + along(first, self.lanes) * steps.lane
        return made

    def there(self, mode: Mode) -> tuple[Any, Any]:
        """Return which lanes there are, of both halves."""
        limit = self.total if self.flat else self.count
        halves = [self.first(half) for half in range(2)]
        if mode == "along":
            lists = [[first + i < limit for i in range(self.lanes)] for first in halves]
            return lists[0], lists[1]
        one, two = (along(first, self.lanes) < limit for first in halves)
        return one, two


@dataclass(frozen=True, slots=True)
class Steps:
    """How far lanes are apart that differ by one in a number, and elements of a lane."""

    outer: Any
    middle: Any
    lane: Any
    element: Any
