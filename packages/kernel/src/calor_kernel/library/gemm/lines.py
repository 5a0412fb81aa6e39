"""The lines of an operand in memory, as loaders read them."""

from __future__ import annotations

from dataclasses import dataclass

from calor_kernel import language as kl


@dataclass(frozen=True, slots=True)
class Lines:
    """A tile of an operand that is dense along the K axis (``along``) or along the other one.

    ``start``: the position of the operand's first element in ``source``; ``stride``: the stride of
    the axis that is not dense; ``first``: the first row or column of the tile, of ``count``.
    """

    source: kl.Pointer
    start: kl.Index
    stride: kl.Index
    first: kl.Index
    count: kl.Index
    along: bool

    def index(self, across: kl.Index, deep: kl.Index) -> kl.Number:
        """Return the position of an element, by row or column and term."""
        if self.along:
            return self.start + across * self.stride + deep  # type: ignore[return-value]
        return self.start + deep * self.stride + across  # type: ignore[return-value]

    def inside(self, across: kl.Index, deep: kl.Index, k: kl.Index) -> kl.Mask:
        """Return whether an element exists."""
        return (across < self.count) & (deep < k)

    def split(
        self, piece: kl.Index, size: int, depth: int, access: int
    ) -> tuple[kl.Index, kl.Index]:
        """Return row or column, and term, of an access of a tile; neighbours read one line."""
        lines = (depth if self.along else size) // access
        line, at = piece // lines, piece % lines * access
        return (line, at) if self.along else (at, line)


@dataclass(frozen=True, slots=True)
class StridedLines:
    """A tile of an operand of any strides: of rows or columns, and of terms; see ``Lines``."""

    source: kl.Pointer
    start: kl.Index
    first: kl.Index
    count: kl.Index
    stride: kl.Index
    depth_stride: kl.Index

    def index(self, across: kl.Index, deep: kl.Index) -> kl.Number:
        """Return the position of an element, by row or column and term."""
        place = self.start + across * self.stride
        return place + deep * self.depth_stride  # type: ignore[return-value]
