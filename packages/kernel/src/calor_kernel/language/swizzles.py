"""Swizzles: XORed offset bits against bank conflicts, as in CuTe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calor_kernel.language.layouts import Layout, Tiler


@dataclass(frozen=True, slots=True)
class Swizzle:
    """XORs ``bits`` bits of an offset, from bit ``base`` on, with those ``shift`` above them.

    Rows of a tile that start in the same bank of shared memory then start in different ones.

    >>> [Swizzle(2, 0, 3)(i) for i in (0, 1, 8, 9, 16)]
    [0, 1, 9, 8, 18]
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits:
            raise ValueError(f"{self}: the bits that are changed must not be those that change")

    def __call__(self, offset: Any) -> Any:
        """Return the swizzled offset, a Python or device number."""
        if not self.bits:
            return offset
        mask = ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))
        chosen = offset & mask
        return offset ^ (chosen >> self.shift if self.shift > 0 else chosen << -self.shift)


@dataclass(frozen=True, slots=True)
class Swizzled:
    """A layout with swizzled offsets, as for a tile in shared memory.

    >>> tile = Swizzled(Swizzle(3, 3, 3), Layout.rows(8, 64))
    >>> tile(1, 0), tile(1, 8), tile.cosize
    (72, 64, 512)
    """

    swizzle: Swizzle
    layout: Layout

    def __call__(self, *position: Any) -> Any:
        """Return the swizzled offset of an index or of coordinates."""
        return self.swizzle(self.layout(*position))

    def __str__(self) -> str:
        s = self.swizzle
        return f"S({s.bits},{s.base},{s.shift})o{self.layout}"

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.layout.size

    @property
    def cosize(self) -> int:
        """The maximum number of offsets: whole blocks of the swizzle."""
        block = 1 << (self.swizzle.base + self.swizzle.bits + max(-self.swizzle.shift, 0))
        return -(-self.layout.cosize // block) * block

    def compose(self, other: Tiler) -> Swizzled:
        """Return the swizzled composition with another layout."""
        return Swizzled(self.swizzle, self.layout.compose(other))
