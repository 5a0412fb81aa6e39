"""How a step of a transform reads its elements and writes its results.

Requirements: the first step reads the operand as it lies, and the last writes the result, so that
transforms of every kind pay for their steps alone. In between, real and imaginary parts lie apart,
where vectors need no shuffles. The inverse transform is the forward one with both parts exchanged
on the way in and out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calor_kernel.language import constant, select, shuffle
from calor_kernel.library.fft.codelets import Pair

Form = Literal["apart", "pairs", "real", "half"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where numbers lie: element ``i`` of a row is frequency or place ``i // inner``.

    ``form`` "apart": real parts in ``first``, imaginary parts in ``second``. "pairs": both beside
    each other in ``first``. "real": no imaginary part. "half": pairs, of which those after the
    middle of ``length`` are left out, because they are conjugates. ``swapped``: both parts are
    exchanged.
    """

    first: Any
    second: Any
    form: Form
    swapped: bool
    length: Any
    inner: Any

    def row(self, outer: Any) -> Any:
        """Return the first element of a row."""
        count = self.length // 2 + 1 if self.form == "half" else self.length
        return outer * count * self.inner

    def load(self, base: Any, at: Any, width: int, mask: Any) -> Pair:
        """Return the elements of a row from ``at`` on, which lie one after another."""
        if self.form == "apart":
            return (
                self.first.load(base + at, width, mask=mask),
                self.second.load(base + at, width, mask=mask),
            )
        if self.form == "real":
            real = self.first.load(base + at, width, mask=mask)
            return self._exchanged((real, constant(0, real.dtype, width)))
        if self.form == "half":
            return self._exchanged(self._mirrored(base, at, width, mask))
        if width == 1:
            place = 2 * (base + at)
            return self._exchanged(
                (self.first.load(place, mask=mask), self.first.load(place + 1, mask=mask))
            )
        both = self.first.load(2 * (base + at), 2 * width, mask=twice(mask, width))
        return self._exchanged(parted(both, width))

    def store(self, base: Any, at: Any, value: Pair, width: int, mask: Any) -> None:
        """Write elements of a row from ``at`` on, or to a vector of places."""
        if self.form == "apart":
            self.first.store(base + at, value[0], mask=mask)
            self.second.store(base + at, value[1], mask=mask)
            return
        value = self._exchanged(value)
        if self.form == "real":
            self.first.store(base + at, value[0], mask=mask)
            return
        places = at if at.width == width else at + constant(tuple(range(width)), at.dtype)
        if self.form == "half":
            mask = mask & (places < (self.length // 2 + 1) * self.inner)
        if width > 1 and at.width == 1:
            both = joined(value, width)
            self.first.store(2 * (base + at), both, mask=twice(mask, width))
        else:
            self.first.store(2 * (base + places), value[0], mask=mask)
            self.first.store(2 * (base + places) + 1, value[1], mask=mask)

    def _mirrored(self, base: Any, at: Any, width: int, mask: Any) -> Pair:
        """Return elements of which those after the middle are conjugates of those before it."""
        places = at + constant(tuple(range(width)), at.dtype) if width > 1 else at
        frequency, rest = places // self.inner, places % self.inner
        after = 2 * frequency > self.length
        lone = (frequency == 0) | (2 * frequency == self.length)
        frequency = select(after, self.length - frequency, frequency)
        place = 2 * (base + frequency * self.inner + rest)
        real = self.first.load(place, mask=mask)
        imaginary = self.first.load(place + 1, mask=mask)
        imaginary = select(after, -imaginary, imaginary)
        return real, select(lone, 0.0, imaginary)

    def _exchanged(self, value: Pair) -> Pair:
        return (value[1], value[0]) if self.swapped else value


def twice(mask: Any, width: int) -> Any:
    """Return a mask of pairs as one of their parts."""
    return shuffle(mask, [i // 2 for i in range(2 * width)])


def parted(both: Any, width: int) -> Pair:
    """Return the first and the second parts of pairs."""
    return shuffle(both, range(0, 2 * width, 2)), shuffle(both, range(1, 2 * width, 2))


def joined(value: Pair, width: int) -> Any:
    """Return pairs beside each other."""
    return shuffle(value[0], [i // 2 + i % 2 * width for i in range(2 * width)], value[1])
