"""Layouts and swizzles: functions from coordinates to offsets, as build-time values.

The algebra is that of CuTe (NVIDIA's CUTLASS 3; Shah et al., "CuTe layout representation and
algebra", 2024): shapes and strides are nested tuples, and the *first* mode is the fastest, so that
an index runs through the coordinates from left to right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from calor_kernel.language.division import divide

Nested: TypeAlias = "int | tuple[Nested, ...]"
Tiler: TypeAlias = "int | Layout | tuple[Tiler, ...]"
Mode = tuple[int, int]


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """A function from an index, or coordinates as nested as ``shape``, to an offset.

    Without strides the elements lie one after another, the first mode the fastest.

    >>> tile = Layout((4, (2, 3)), (2, (1, 8)))
    >>> print(tile, tile.size, tile.cosize)
    (4,(2,3)):(2,(1,8)) 24 24
    >>> tile(3, (1, 2)), tile(23)
    (23, 23)
    """

    shape: Nested
    stride: Nested

    def __init__(self, shape: Nested, stride: Nested | None = None) -> None:
        sizes = _flat(shape)
        if any(n < 1 for n in sizes):
            raise ValueError(f"a layout's sizes are at least 1, not {shape}")
        if stride is None:
            stride = _like(shape, _running(sizes))
        elif _profile(shape) != _profile(stride):
            raise ValueError(f"the strides {stride} are not nested as the shape {shape}")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @staticmethod
    def rows(*sizes: int) -> Layout:
        """Return the row-major layout: the last axis is the fastest, as in NumPy.

        >>> print(Layout.rows(2, 3))
        (2,3):(3,1)
        """
        return Layout(sizes, tuple(reversed(_running(sizes[::-1]))))

    @staticmethod
    def of(modes: Iterable[Layout]) -> Layout:
        """Return the layout with these modes."""
        made = tuple(modes)
        return Layout(tuple(m.shape for m in made), tuple(m.stride for m in made))

    def __str__(self) -> str:
        return f"{self.shape}:{self.stride}".replace(" ", "").replace(",)", ")")

    # Modes.
    @property
    def size(self) -> int:
        """The number of coordinates."""
        return prod(_flat(self.shape))

    @property
    def cosize(self) -> int:
        """One more than the greatest offset, for nonnegative strides."""
        return 1 + sum((n - 1) * s for n, s in self.modes())

    @property
    def rank(self) -> int:
        """The number of modes."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, mode: int) -> Layout:
        if not isinstance(self.shape, tuple) or not isinstance(self.stride, tuple):
            if mode not in (0, -1):
                raise IndexError(f"{self} has one mode")
            return self
        return Layout(self.shape[mode], self.stride[mode])

    def __iter__(self) -> Iterator[Layout]:
        return (self[i] for i in range(self.rank))

    def modes(self) -> list[Mode]:
        """Return (size, stride) of every mode, without the nesting."""
        return list(zip(_flat(self.shape), _flat(self.stride), strict=True))

    def coalesce(self) -> Layout:
        """Return the same function of an index with the fewest modes.

        >>> print(Layout((2, (1, 6)), (1, (7, 2))).coalesce())
        12:1
        """
        made: list[Mode] = []
        for size, stride in self.modes():
            if size == 1:
                continue
            if made and made[-1][0] * made[-1][1] == stride:
                made[-1] = (made[-1][0] * size, made[-1][1])
            else:
                made.append((size, stride))
        return _of_modes(made)

    # Calls.
    def __call__(self, *position: Any) -> Any:
        """Return the offset of an index or of coordinates, as Python or device numbers."""
        if len(position) == 1:
            return self._offset(position[0])
        return self._offset(position)

    def _offset(self, position: Any) -> Any:
        if isinstance(position, tuple):
            if len(position) != self.rank:
                raise ValueError(f"{self} takes {self.rank} coordinates, not {len(position)}")
            return sum(mode._offset(p) for mode, p in zip(self, position, strict=True))
        modes = self.coalesce().modes()
        total: Any = 0
        for i, (size, stride) in enumerate(modes):
            # The last mode takes the rest, also beyond its size, as in an array.
            position, place = divide(position, size) if i < len(modes) - 1 else (0, position)
            total = total + place * stride
        return total

    def position(self, index: Any) -> Any:
        """Return the coordinates of an index, nested as the shape.

        >>> Layout((4, (2, 3))).position(23)
        (3, (1, 2))
        """
        found: list[Any] = []
        sizes = _flat(self.shape)
        for size in sizes[:-1]:
            index, place = divide(index, size)
            found.append(place)
        return _like(self.shape, [*found, index])

    # The algebra.
    def compose(self, other: Tiler) -> Layout:
        """Return the composition: the layout i → self(other(i)).

        A tuple composes mode by mode. ValueError if the composition is no layout.

        >>> print(Layout((6, 2), (8, 2)).compose(Layout((4, 3), (3, 1))))
        ((2,2),3):((24,2),8)
        """
        if isinstance(other, int):
            other = Layout(other)
        if isinstance(other, tuple):
            if len(other) > self.rank:
                raise ValueError(f"{self} has no {len(other)} modes to compose one by one")
            kept = [self[i] for i in range(len(other), self.rank)]
            return Layout.of([*(self[i].compose(o) for i, o in enumerate(other)), *kept])
        modes = self.coalesce().modes()
        if isinstance(other.shape, tuple):
            if len(modes) > 1 and _overlap(other):
                raise ValueError(f"{self} of {other} is no layout: the modes overlap")
            return Layout.of(self.compose(mode) for mode in other)
        assert isinstance(other.stride, int)
        if other.stride == 0 or other.shape == 1:
            return Layout(other.shape, 0)
        return _of_modes(_first(_every(modes, other.stride), other.shape))

    def complement(self, size: int) -> Layout:
        """Return the layout of the offsets below about ``size`` at which copies of this one fit.

        Together they reach each offset once. ValueError if this layout overlaps itself.

        >>> print(Layout((2, 2), (1, 6)).complement(24))
        (3,2):(2,12)
        """
        made: list[Mode] = []
        reached = 1
        for stride, count in sorted((s, n) for n, s in self.modes() if n > 1 and s):
            if stride % reached:
                raise ValueError(f"{self} has no complement: its modes overlap")
            made.append((stride // reached, reached))
            reached = stride * count
        made.append((-(-size // reached), reached))
        return _of_modes(made).coalesce()

    def divide(self, tiler: Tiler) -> Layout:
        """Return (a tile, the tiles): the tiler's elements, and the offsets of its repetitions.

        A tuple divides mode by mode, with one such pair per mode (CuTe: logical_divide).

        >>> print(Layout(24).divide(4))
        (4,6):(1,4)
        """
        if isinstance(tiler, int):
            tiler = Layout(tiler)
        if isinstance(tiler, tuple):
            kept = [self[i] for i in range(len(tiler), self.rank)]
            return Layout.of([*(self[i].divide(t) for i, t in enumerate(tiler)), *kept])
        return self.compose(Layout.of((tiler, tiler.complement(self.size))))

    def zipped_divide(self, tiler: Tiler) -> Layout:
        """Return ((the tile's modes), (the tiles' modes and the undivided modes)).

        >>> print(Layout.rows(8, 6).zipped_divide((4, 3)))
        ((4,3),(2,2)):((6,1),(24,3))
        """
        if not isinstance(tiler, tuple):
            return self.divide(tiler)
        made = list(self.divide(tiler))
        tiled, rest = made[: len(tiler)], made[len(tiler) :]
        tile = Layout.of(m[0] for m in tiled)
        return Layout.of((tile, Layout.of([*(m[1] for m in tiled), *rest])))


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


# Modes without nesting.
def _every(modes: Sequence[Mode], step: int) -> list[Mode]:
    """Return the modes of every ``step``-th index."""
    made: list[Mode] = []
    for size, stride in modes[:-1]:
        if size % step == 0:
            made.append((size // step, stride * step))
            step = 1
        elif step % size == 0:
            step //= size
        else:
            raise ValueError(f"every {step}th index of {_of_modes(modes)} is no layout")
    size, stride = modes[-1]
    return [*made, (-(-size // step), stride * step)]


def _first(modes: Sequence[Mode], count: int) -> list[Mode]:
    """Return the modes of the first ``count`` indices; the last mode extends beyond its size."""
    made: list[Mode] = []
    for size, stride in modes[:-1]:
        kept = size if count % size == 0 else count
        if size % kept:
            raise ValueError(f"the first {count} indices of {_of_modes(modes)} are no layout")
        if kept > 1:
            made.append((kept, stride))
        count //= kept
    return [*made, (count, modes[-1][1])] if count > 1 or not made else made


def _overlap(layout: Layout) -> bool:
    """Return whether sums of different modes' offsets coincide (strides of 0 excepted)."""
    reached = 0
    for stride, size in sorted((s, n) for n, s in layout.modes() if n > 1 and s):
        if stride <= reached:
            return True
        reached += (size - 1) * stride
    return False


def _of_modes(modes: Sequence[Mode]) -> Layout:
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(n for n, _ in modes), tuple(s for _, s in modes))


# Nested tuples.
def _flat(nested: Any) -> list[Any]:
    if isinstance(nested, tuple):
        return [leaf for part in nested for leaf in _flat(part)]
    return [nested]


def _profile(nested: Any) -> Any:
    return tuple(map(_profile, nested)) if isinstance(nested, tuple) else None


def _like(nested: Nested, leaves: Sequence[Any]) -> Any:
    given = iter(leaves)

    def rebuild(part: Nested) -> Any:
        return tuple(map(rebuild, part)) if isinstance(part, tuple) else next(given)

    return rebuild(nested)


def _running(sizes: Iterable[int]) -> list[int]:
    """Return the exclusive running products of the sizes."""
    made, step = [], 1
    for size in sizes:
        made.append(step)
        step *= size
    return made
