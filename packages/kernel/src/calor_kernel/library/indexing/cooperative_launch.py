"""Gathers and scatters as launches, for cubes of many units.

Requirements: sums are atomic where the device has that for their type, and in one order where the
same bits are asked for; what has no atomic change is sorted by rows first; a kernel is for a class
of lengths, whose units along a row are a power of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final

from calor.dtypes import DType, float32, int32, int64, uint32, uint64
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    Status,
    View,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.indexing.cooperative import (
    claim_rows,
    gather_at_once,
    number_rows,
    numbers_of,
    scatter_at_once,
    update_segments,
)
from calor_kernel.library.redirection import redirected
from calor_kernel.library.scan.decoupled_look_back import clear_words

_SIZE: Final = Scalar(int64, nonnegative=True)
_STATUS: Final = Buffer(int32)
# Updates are numbered from 1 with 32 bits up to so many.
_NUMBERED: Final = (1 << 31) - 2
# Units of a cube, and of them along a row at most.
_UNITS, _ALONG = 256, 128
_ATOMIC: Final = {
    float32: "float_atomics",
    int32: "atomics",
    uint32: "atomics",
    int64: "atomics_64",
    uint64: "atomics_64",
}


def cube_of(info: DeviceInfo, length: int) -> tuple[int, int, int]:
    """Return the units of a cube along rows of some vectors, and along the rows' numbers."""
    units = min(_UNITS, info.max_units)
    along = 1
    while along < min(_ALONG, units) and along < length:
        along *= 2
    return along, units // along, 1


def gather_launch(
    request: Request,
    bits: View,
    indices: View,
    rows: int,
    length: int,
    picks: int,
    whole: int,
    axes: tuple[Sequence[int], Sequence[int]],
) -> Launch:
    """Return the launch that writes ``rows`` rows of ``length`` elements of the source."""
    info = request.info
    width = max(1, info.vector_bytes // bits.dtype.itemsize)
    if bits.offset % width != 0 or length % width != 0:
        width = 1
    vectors = length // width
    cube = cube_of(info, vectors)
    sizes, steps = axes
    flat = rows == picks
    numbers = (rows, vectors, picks, 0 if flat else whole, *sizes, *steps)
    build = Build(
        gather_at_once,
        (
            Buffer(bits.dtype, writable=False),
            Buffer(indices.dtype, writable=False),
            Buffer(bits.dtype),
            _STATUS,
            *(_SIZE,) * len(numbers),
        ),
        (
            ("flat", flat),
            ("parts", len(sizes)),
            ("small", is_small(rows)),
            ("width", width),
        ),
        cube,
    )
    arguments = (Input(0, bits.offset), Input(1, indices.offset), Output(0), Status(), *numbers)
    nbytes = rows * (2 * length * bits.dtype.itemsize) + indices.size * indices.dtype.itemsize
    return Launch(build, (-(-rows // cube[1]), 1, 1), arguments, 0, nbytes, "gather")


def is_small(count: int) -> bool:
    """Return whether numbers up to a count are computed with 32 bits."""
    return count < 1 << 30


class Scatter:
    """The launches of ``picks`` updates of rows of ``length`` items, and their scratch memory.

    ``axes``: the numbers of ``row_of``, and ``parts``. ``place``, ``dtype``: of the target.
    ``taken``: how many pieces of scratch memory there are before these.
    """

    def __init__(
        self,
        request: Request,
        place: Argument,
        dtype: DType,
        updates: tuple[int, DType],
        picks: int,
        rows: int,
        length: int,
        parts: int,
        axes: Sequence[int],
        taken: int,
    ) -> None:
        self.request, self.info = request, request.info
        self.place, self.dtype, self.updates = place, dtype, updates
        self.picks, self.rows, self.length = picks, rows, length
        self.parts, self.axes = parts, tuple(axes)
        self.taken = taken
        self.scratch: list[int] = []
        indices = request.inputs[1]
        self.indices = Input(1, indices.offset)
        self.indices_type = Buffer(indices.dtype, writable=False)
        self.update = request.attributes["update"]

    def launches(self) -> list[Launch] | Refusal:
        """Return the launches, or why there are too many updates."""
        if self.update == "assign":
            return self._claimed()
        atomic = _ATOMIC.get(self.dtype, "")
        rounds = self.dtype.kind == "float"
        able = self.update == "add" or (self.update in ("max", "min") and not rounds)
        able = able and not (rounds and self.request.deterministic)
        if able and atomic and self.info.has(atomic):
            return [self._update(Scratch(0), 1, False)]
        return self._sorted()

    def new(self, nbytes: int) -> Scratch:
        """Return fresh scratch memory."""
        self.scratch.append(nbytes)
        return Scratch(self.taken + len(self.scratch) - 1)

    @property
    def number(self) -> DType:
        """The type in which updates are numbered."""
        return int32 if self.picks <= _NUMBERED else int64

    @property
    def _how(self) -> tuple[tuple[str, Any], ...]:
        return ("parts", self.parts), ("small", is_small(self.picks))

    def _claimed(self) -> list[Launch] | Refusal:
        number = self.number
        if number is int64 and not self.info.has("atomics_64"):
            return Refusal(
                f"{self.picks} updates are more than the device's atomics of 32 bits tell apart; "
                "update in parts"
            )
        owners = self.new(number.itemsize * self.rows)
        cleared = Launch(
            Build(clear_words, (Buffer(number), _SIZE), (), (_UNITS, 1, 1)),
            (-(-self.rows // _UNITS), 1, 1),
            (owners, self.rows),
            0,
            number.itemsize * self.rows,
            "scatter owners",
        )
        claimed = self._flat(claim_rows, Buffer(number), owners, "scatter claims")
        width = max(1, self.info.vector_bytes // self.dtype.itemsize)
        if self.length % width != 0:
            width = 1
        return [cleared, claimed, self._update(owners, width, True)]

    def _flat(self, function: Any, made: Buffer, to: Argument, label: str) -> Launch:
        sizes = (_SIZE,) * (1 + len(self.axes))
        signature: tuple[Buffer | Scalar, ...] = (self.indices_type, made, _STATUS, *sizes)
        units = min(_UNITS, self.info.max_units)
        build = Build(function, signature, self._how, (units, 1, 1))
        arguments = (self.indices, to, Status(), self.picks, *self.axes)
        nbytes = self.picks * 8
        return Launch(build, (-(-self.picks // units), 1, 1), arguments, 0, nbytes, label)

    def _update(self, owners: Scratch, width: int, owned: bool) -> Launch:
        offset, dtype = self.updates
        length = self.length // width
        cube = cube_of(self.info, length)
        build = Build(
            scatter_at_once,
            (
                Buffer(self.dtype),
                self.indices_type,
                Buffer(dtype, writable=False),
                Buffer(self.number, writable=False) if owned else self.indices_type,
                _STATUS,
                _SIZE,
                _SIZE,
                *(_SIZE,) * len(self.axes),
            ),
            tuple(sorted((*self._how, ("update", self.update), ("width", width)))),
            cube,
        )
        moved = self.picks * self.length
        return Launch(
            build,
            (-(-self.picks // cube[1]), 1, 1),
            (
                self.place,
                self.indices,
                Input(2, offset),
                owners if owned else self.indices,
                Status(),
                self.picks,
                length,
                *self.axes,
            ),
            moved,
            moved * (dtype.itemsize + 2 * self.dtype.itemsize),
            f"scatter {self.update}",
        )

    def _sorted(self) -> list[Launch] | Refusal:
        """Return the launches that sort updates by their rows, and update row by row."""
        from calor_kernel.library.sort import lower_sort

        dtype = numbers_of(self.rows)
        numbers = self.new(self.picks * dtype.itemsize)
        ranked = self.new(self.picks * dtype.itemsize)
        order = self.new(self.picks * 8)
        numbered = self._flat(number_rows, Buffer(dtype), numbers, "scatter rows")
        given, found = spec_of((self.picks,), dtype), spec_of((self.picks,), int64)
        asked = replace(
            self.request,
            op="sort",
            attributes={"axis": 0, "descending": False},
            inputs=(View.dense(given),),
            outputs=(given, found),
        )
        made = lower_sort(asked)
        if isinstance(made, Refusal):
            return made
        places: dict[Argument, Argument] = {
            Input(0): numbers,
            Output(0): ranked,
            Output(1): order,
        }
        places |= {Scratch(i): self.new(nbytes) for i, nbytes in enumerate(made[0].scratch)}
        sorts = [redirected(launch, places) for launch in made[0].launches]
        offset, taken = self.updates
        cube = cube_of(self.info, self.length)
        build = Build(
            update_segments,
            (
                Buffer(self.dtype),
                Buffer(dtype, writable=False),
                Buffer(int64, writable=False),
                Buffer(taken, writable=False),
                _SIZE,
                _SIZE,
            ),
            (("update", self.update),),
            cube,
        )
        arguments = (self.place, ranked, order, Input(2, offset), self.picks, self.length)
        moved = self.picks * self.length
        last = Launch(
            build,
            (-(-self.picks // cube[1]), 1, 1),
            arguments,
            moved,
            3 * moved * self.dtype.itemsize,
            f"scatter {self.update} in order",
        )
        return [numbered, *sorts, last]


def at_once(info: DeviceInfo) -> bool:
    """Return whether updates are done by cubes of many units."""
    return info.max_units > 1 and info.has("atomics")


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return how many rows apart neighbours along each axis are."""
    return tuple(prod(sizes[i + 1 :]) for i in range(len(sizes)))
