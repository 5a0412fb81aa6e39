"""Bands: a number per row, or per column, of a matrix held in fragments.

Softmax and norms carry a row maximum and a row sum across loops, so a band is a register array.
Units that share a row get the same number, with a deterministic order of additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor_kernel.errors import KernelTypeError
from calor_kernel.language.arrays import Registers, registers
from calor_kernel.language.builder import current
from calor_kernel.language.functions import pack, plane_shuffle, splat, vreduce
from calor_kernel.language.register_matrix import HeldMatrix
from calor_kernel.language.values import Number


class Band:
    """A number for each row (``axis`` 1) or column (``axis`` 0) of a unit's elements.

    ``keys`` are the registers' distances from the unit's first row or column, in the order of
    ``items``.
    """

    __slots__ = ("axis", "items", "keys")

    def __init__(self, axis: int, keys: tuple[int, ...], items: Registers) -> None:
        self.axis = axis
        self.keys = keys
        self.items = items

    @staticmethod
    def of(like: HeldMatrix, axis: int, fill: Any = 0.0) -> Band:
        """Return a band for a fragment's rows or columns, filled with a number."""
        keys = tuple(dict.fromkeys(like.register_place(r)[1 - axis] for r in range(like.count)))
        return Band(axis, keys, registers(len(keys), like.dtype, 1, fill))

    def map(self, function: Callable[..., Any], *others: Band) -> Band:
        """Set the numbers to a function of them and of other bands', and return the band."""
        for i in range(len(self.keys)):
            self.items[i] = function(self.items[i], *(o.items[i] for o in others))
        return self

    def copy(self) -> Band:
        """Return an independent band with the same numbers."""
        made = registers(len(self.keys), self.items.type.dtype)
        for i, item in enumerate(self.items.items):
            made[i] = item
        return Band(self.axis, self.keys, made)

    def combine(self, kind: str, like: HeldMatrix) -> Band:
        """Reduce over the units that share rows or columns of a fragment, and return the band."""
        for distance in _distances(like, self.axis):
            for i, item in enumerate(self.items.items):
                self.items[i] = current().binary(kind, item, plane_shuffle(item, distance, "xor"))
        return self

    def spread(self, over: HeldMatrix, part: int) -> Number:
        """Return the number of each register of a fragment's part, as a vector."""
        first = part * over.width
        places = [over.register_place(first + i)[1 - self.axis] for i in range(over.width)]
        chosen = [self.items[self.keys.index(p)] for p in places]
        if over.width == 1 or all(c is chosen[0] for c in chosen):
            return splat(chosen[0], over.width)
        return pack(chosen)


def reduce_fragment(given: HeldMatrix, kind: str, axis: int) -> Band:
    """Return a unit's elements of each row (axis 1) or column (axis 0), reduced."""
    band = Band.of(given, axis)
    for i, key in enumerate(band.keys):
        total: Any = None
        for part, value in enumerate(given.parts.items):
            first = part * given.width
            lanes = [
                lane
                for lane in range(given.width)
                if given.register_place(first + lane)[1 - axis] == key
            ]
            if len(lanes) == given.width:
                total = _combined(kind, total, vreduce(kind, value))
            else:
                for lane in lanes:
                    total = _combined(kind, total, value[lane])
        band.items[i] = total
    return band


def _combined(kind: str, a: Any, b: Any) -> Any:
    return b if a is None else current().binary(kind, a, b)


def _distances(given: HeldMatrix, axis: int) -> list[int]:
    """Return the XOR distances of the lanes that share a row or column."""
    rows = given.extent[0]
    found, step = [], 1
    for size, stride in given.shape.layout(given.side)[0].modes():
        along_columns = stride >= rows
        if along_columns == (axis == 1) and size > 1:
            if size & (size - 1) or step * size > current().plane:
                raise KernelTypeError(f"{given!r} has no reduction along axis {axis} in a plane")
            found += [step << bit for bit in range(size.bit_length() - 1)]
        step *= size
    return found
