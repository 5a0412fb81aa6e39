"""Launches of gathers and scatters, for cubes of many units.

Requirements: sums are atomic if the device has atomics of their dtype, and in one order if bitwise
reproducible results are requested; updates without an atomic operation are sorted by rows first. A
kernel serves a class of lengths: the units along a row are a power of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import DType, float32, int32, int64, uint8, uint32, uint64
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import (
    Argument,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    Status,
    View,
)
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.indexing.checked_index import IndexedAxes
from calor_kernel.library.indexing.cooperative import (
    UpdatedRows,
    claim_rows,
    gather_at_once,
    number_rows,
    numbers_of,
    scatter_at_once,
    update_segments,
)
from calor_kernel.library.redirection import redirected
from calor_kernel.library.scan.decoupled_look_back import clear

# Failures are numbered in one int32.
STATUS: Final = Bound(Status(), int32)
# Updates at most whose numbers, from 1, fit 32 bits.
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
    """Return the units of a cube along a row of vectors, and along the rows."""
    units = min(_UNITS, info.max_units)
    along = 1
    while along < min(_ALONG, units) and along < length:
        along *= 2
    return along, units // along, 1


def gather_launch(
    request: Request,
    bits: View,
    rows: int,
    length: int,
    picks: int,
    axes: IndexedAxes[int],
) -> Launch:
    """Return the launch that writes ``rows`` rows of ``length`` elements of the source."""
    info, indices = request.info, request.inputs[1]
    width = max(1, info.vector_bytes // bits.dtype.itemsize)
    if bits.offset % width != 0 or length % width != 0:
        width = 1
    vectors = length // width
    cube = cube_of(info, vectors)
    flat = rows == picks
    nbytes = rows * (2 * length * bits.dtype.itemsize) + indices.size * indices.dtype.itemsize
    return launch(
        gather_at_once,
        Grid((-(-rows // cube[1]), 1, 1), cube),
        Effort("gather", 0, nbytes),
        source=operand(0, bits),
        indices=operand(1, indices),
        target=Bound(Output(), bits.dtype),
        status=STATUS,
        rows=rows,
        length=vectors,
        picks=picks,
        outer_step=0 if flat else prod(axes.sizes) * length,
        axes=axes,
        width=width,
        flat=flat,
        small=is_small(rows),
    )


def is_small(count: int) -> bool:
    """Return whether indices below a count are computed with 32 bits."""
    return count < 1 << 30


class Scatter:
    """The launches of ``picks`` updates of ``count`` rows of ``length`` items.

    ``rows``: the rows of updates. ``first``: the number of the first piece of scratch memory.
    """

    def __init__(
        self,
        request: Request,
        target: Bound,
        updates: Bound,
        picks: int,
        count: int,
        length: int,
        rows: UpdatedRows[int],
        first: int,
    ) -> None:
        self.request, self.info = request, request.info
        self.target, self.updates = target, updates
        self.picks, self.count, self.length = picks, count, length
        self.first = first
        self.scratch: list[int] = []
        self.indices = operand(1, request.inputs[1])
        self.update = request.attributes["update"]
        # The common arguments of kernels that find the rows of updates.
        self.found: dict[str, object] = {
            "indices": self.indices,
            "status": STATUS,
            "picks": picks,
            "rows": rows,
            "small": is_small(picks),
        }

    def launches(self) -> list[Launch] | Refusal:
        """Return the launches, or why there are too many updates."""
        if self.update == "assign":
            return self._claimed()
        atomic = _ATOMIC.get(self.target.dtype, "")
        rounds = self.target.dtype.kind == "float"
        able = self.update == "add" or (self.update in ("max", "min") and not rounds)
        able = able and not (rounds and self.request.deterministic)
        if able and atomic and self.info.has(atomic):
            return [self._update(self.indices, 1)]
        return self._sorted()

    def new(self, count: int, dtype: DType) -> Bound:
        """Return fresh scratch memory."""
        self.scratch.append(count * dtype.itemsize)
        return Bound(Scratch(self.first + len(self.scratch) - 1), dtype)

    def _claimed(self) -> list[Launch] | Refusal:
        number = int32 if self.picks <= _NUMBERED else int64
        if number is int64 and not self.info.has("atomics_64"):
            return Refusal(
                f"{self.picks} updates are more than the device's atomics of 32 bits tell apart; "
                "update in parts"
            )
        owners = self.new(self.count, number)
        effort = Effort("scatter owners", 0, number.itemsize * self.count)
        cleared = clear(owners, self.count, effort)
        claimed = self._flat(claim_rows, "scatter claims", owners=owners)
        width = max(1, self.info.vector_bytes // self.target.dtype.itemsize)
        if self.length % width != 0:
            width = 1
        return [cleared, claimed, self._update(owners, width)]

    def _flat(self, kernel: KernelFunction, label: str, **given: object) -> Launch:
        """Return a launch with a unit for each update."""
        units = min(_UNITS, self.info.max_units)
        grid = Grid.line(-(-self.picks // units), units)
        return launch(kernel, grid, Effort(label, 0, self.picks * 8), **self.found, **given)

    def _update(self, owners: Bound, width: int) -> Launch:
        length = self.length // width
        cube = cube_of(self.info, length)
        moved = self.picks * self.length
        nbytes = moved * (self.updates.dtype.itemsize + 2 * self.target.dtype.itemsize)
        return launch(
            scatter_at_once,
            Grid((-(-self.picks // cube[1]), 1, 1), cube),
            Effort(f"scatter {self.update}", moved, nbytes),
            target=self.target,
            updates=self.updates,
            owners=owners,
            length=length,
            update=self.update,
            width=width,
            **self.found,
        )

    def _sorted(self) -> list[Launch] | Refusal:
        """Return the launches that sort updates by their rows, and update row by row."""
        from calor_kernel.library.sort import lower_sort

        dtype = numbers_of(self.count)
        numbers, ranked = self.new(self.picks, dtype), self.new(self.picks, dtype)
        order = self.new(self.picks, int64)
        numbered = self._flat(number_rows, "scatter rows", numbers=numbers)
        given, found = spec_of((self.picks,), dtype), spec_of((self.picks,), int64)
        asked = replace(
            self.request,
            op="sort",
            attributes={"axis": 0, "descending": False},
            inputs=(View.dense(given),),
            outputs=(given, found),
        )
        works = lower_sort(asked)
        if isinstance(works, Refusal):
            return works
        memory: dict[Argument, Argument] = {
            Input(0): numbers.place,
            Output(0): ranked.place,
            Output(1): order.place,
        }
        for i, nbytes in enumerate(works[0].scratch):
            memory[Scratch(i)] = self.new(nbytes, uint8).place
        sorts = [redirected(launch, memory) for launch in works[0].launches]
        cube = cube_of(self.info, self.length)
        moved = self.picks * self.length
        last = launch(
            update_segments,
            Grid((-(-self.picks // cube[1]), 1, 1), cube),
            Effort(
                f"scatter {self.update} in order", moved, 3 * moved * self.target.dtype.itemsize
            ),
            target=self.target,
            numbers=ranked,
            order=order,
            updates=self.updates,
            picks=self.picks,
            length=self.length,
            update=self.update,
        )
        return [numbered, *sorts, last]


def at_once(info: DeviceInfo) -> bool:
    """Return whether updates are done by cubes of many units."""
    return info.max_units > 1 and info.has("atomics")


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of axes, in rows."""
    return tuple(prod(sizes[i + 1 :]) for i in range(len(sizes)))
