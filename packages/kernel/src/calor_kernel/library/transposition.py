"""Transpositions: of squares of vectors in registers, and of tiles in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, hinted, is_size
from calor_kernel.contract.info import DeviceInfo

SHORT: Final = 5  # rows and columns from which squares pay, where lanes are masked
_LONG: Final = 8  # where they are not, so that the elements of a part are copied one by one
_MOST: Final = 16
_PARTLY: Final = 1.25  # the cost of a square of which a part exists
_SIDE: Final = 32  # rows and columns of a tile in shared memory where both are many
_SHORT_SIDE: Final = 64  # those of elements shorter than a bank
_BANK: Final = 4  # bytes
_NARROW: Final = (4, 16)  # the fewest and the most rows, or columns, of a tile that is narrow
_UNITS: Final = 256  # of the cube of a tile
# Bytes of a plane, and from column to column, up to which units read it across from a near cache.
_PLANE: Final = 2048
_APART: Final = 64


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile whose ``rows`` are dense in the source and its ``columns`` in the target.

    It lies in shared memory by columns. Both numbers are powers of two. ``pad``: the elements of a
    bank.
    """

    rows: int
    columns: int
    pad: int = 1

    @staticmethod
    def of(rows: int, columns: int, itemsize: int = _BANK) -> SharedTile:
        """Return the tile for as many rows and columns: narrow where one of them is short.

        Units read whole lines of memory, so tiles of short elements, of ``itemsize`` bytes, are
        larger.

        >>> SharedTile.of(1280, 77), SharedTile.of(393216, 8)
        (SharedTile(rows=32, columns=32, pad=1), SharedTile(rows=128, columns=8, pad=1))
        >>> SharedTile.of(4, 1280), SharedTile.of(5, 8)
        (SharedTile(rows=4, columns=256, pad=1), SharedTile(rows=8, columns=8, pad=1))
        >>> SharedTile.of(1280, 77, 2), SharedTile.of(1280, 20, 2)
        (SharedTile(rows=64, columns=64, pad=2), SharedTile(rows=64, columns=32, pad=2))
        """
        down, across = (1 << max(0, hinted(n) - 1).bit_length() for n in (rows, columns))
        fewest, most = _NARROW
        if min(down, across) > most:
            side = _SIDE if itemsize >= _BANK else _SHORT_SIDE
            return SharedTile(min(down, side), min(across, side), max(1, _BANK // itemsize))
        short = max(min(down, across), fewest)
        long = max(min(max(down, across), _SIDE * _SIDE // short), _SIDE // short)
        return SharedTile(short, long) if down <= across else SharedTile(long, short)

    @property
    def pitch(self) -> int:
        """The elements from column to column, by which units of a plane have no bank conflicts."""
        return self.rows + max(self.pad, _SIDE // self.columns)

    @property
    def size(self) -> int:
        """The elements of shared memory."""
        return self.columns * self.pitch

    def units(self, info: DeviceInfo) -> int:
        """Return the units of a cube that moves a tile."""
        most = min(_UNITS, info.max_units, info.max_cube[0], self.rows * self.columns)
        return 1 << most.bit_length() - 1

    def by_rows(self, units: int) -> Iterator[tuple[kl.Number, kl.Number]]:
        """Yield a unit's rows and columns, where neighbours have adjacent rows."""
        for place in self._places(units):
            yield place % self.rows, place // self.rows

    def by_columns(self, units: int, run: int = 1) -> Iterator[tuple[kl.Number, kl.Number]]:
        """Yield a unit's rows and first columns, where neighbours have adjacent runs of columns."""
        across = self.columns // run
        for place in self._places(units, run):
            yield place // across, place % across * run

    def run(self, columns: int, itemsize: int, units: int) -> int:
        """Return how many adjacent elements of a target a unit writes at once: those of a bank.

        One where runs do not end with the rows, or if units would have none. Short elements that
        are written alone share a word of memory with others, which costs two atomics where words
        are the least that a device stores.
        """
        run = max(1, _BANK // itemsize)
        rest = columns % run
        whole = not is_size(rest) and rest == 0 and self.columns % run == 0
        return run if whole and units * run <= self.rows * self.columns else 1

    def _places(self, units: int, run: int = 1) -> Iterator[kl.Number]:
        return (kl.unit_index() + n for n in range(0, self.rows * self.columns // run, units))


def is_small(columns: int, across: int, itemsize: int, info: DeviceInfo) -> bool:
    """Return whether a plane is read across by cubes of many units without a tile.

    A cube for each small plane would wait for memory with few loads on their way. ``across``: the
    elements from column to column in the source, of ``itemsize`` bytes.
    """
    step = abs(across) * itemsize
    return info.max_units > 1 and not exceeds(step, _APART) and not exceeds(columns * step, _PLANE)


def masks(info: DeviceInfo, read: int = 0) -> bool:
    """Return whether loads and stores of a cube of one unit mask lanes at no cost.

    Vectors of 64 bytes do. Those of 32 bytes mask loads of words: ``read`` is the size of lanes
    that are loaded alone.
    """
    return info.vector_bytes >= 64 or (info.vector_bytes >= 32 and read >= 4)


def shortest(info: DeviceInfo, read: int = 0) -> int:
    """Return the rows and columns from which squares pay; ``read`` as in :func:`masks`."""
    return SHORT if masks(info, read) else _LONG


def side_of(rows: int, columns: int, most: int) -> int:
    """Return the best side of squares that cover rows and columns, at most ``most``.

    >>> side_of(7, 7, 16), side_of(28, 28, 16), side_of(8, 32, 16), side_of(3, 224, 16)
    (8, 16, 8, 4)
    """
    sides = [side for side in (4, 8, _MOST) if side <= most] or [most]
    return min(sides, key=lambda side: _cost(hinted(rows), hinted(columns), side))


def _cost(rows: int, columns: int, side: int) -> float:
    squares = -(-rows // side) * -(-columns // side)
    partly = _PARTLY if rows % side or columns % side else 1.0
    return squares * partly * side * (2 + log2(side))


def transpose(rows: Sequence[kl.Number], largest_first: bool = False) -> list[kl.Number]:
    """Return the columns of a square of vectors, in log2 rounds of exchanged blocks.

    ``largest_first``: whether blocks become smaller or larger from round to round.
    """
    made = list(rows)
    width = len(made)
    steps = [1 << k for k in range(width.bit_length() - 1)]
    for step in reversed(steps) if largest_first else steps:
        for i in (i for i in range(width) if not i & step):
            a, b = made[i], made[i | step]
            low = [width + n - step if n & step else n for n in range(width)]
            high = [width + n if n & step else n + step for n in range(width)]
            made[i], made[i | step] = kl.shuffle(a, low, b), kl.shuffle(a, high, b)
    return made


def partial_square(
    source: kl.Pointer,
    place: kl.Number,
    stride: kl.Number,
    rows: kl.Number,
    columns: kl.Number,
    width: int,
) -> list[kl.Number]:
    """Return the rows of a square in memory by columns, of which only a part exists.

    ``stride``: between columns. Lanes beyond the columns are zeros, and so are vectors beyond the
    rows.
    """
    taken = []
    for c in range(width):
        rest = kl.select(columns > c, rows, 0)
        taken.append(source.load(place + c * stride, width, mask=lanes_below(rest, width)))
    return transpose(taken)


def lanes_below(count: kl.Number, width: int) -> kl.Number:
    """Return which of the lanes are among the first ``count``."""
    return kl.constant(tuple(range(width)), count.dtype) < count
