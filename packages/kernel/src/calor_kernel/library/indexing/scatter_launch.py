"""Launches of updates at computed indices: scatter_nd and scatter_along.

Requirements: half types are updated in float32 and rounded once, like the reference. With cubes of
many units, sums are atomic if the device has atomics of their dtype, and in one order if bitwise
reproducible results are requested; updates without an atomic operation are sorted by rows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import (
    DType,
    bool_,
    float32,
    float64,
    int32,
    int64,
    real_of,
    uint8,
    uint32,
    uint64,
)
from calor.specs import Spec
from calor_kernel.contract.choices import hinted, least, spec_of
from calor_kernel.contract.failures import Failure
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import (
    Argument,
    Input,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
    row_major,
)
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.copying import as_bits, dense_copy
from calor_kernel.library.indexing.checked_index import IndexedAxes
from calor_kernel.library.indexing.cooperative import (
    AlongAxis,
    UpdatedRows,
    add_sums,
    claim_rows,
    is_small,
    number_rows,
    numbers_of,
    row_grid,
    scatter_at_once,
    sum_updates,
    update_segments,
)
from calor_kernel.library.indexing.gather import STATUS, failures
from calor_kernel.library.indexing.ordered_updates import PLANES, ROOMS, update_in_order
from calor_kernel.library.indexing.scatter import (
    ScatteredRows,
    Updates,
    scatter_along,
    scatter_elements,
    scatter_rows,
)
from calor_kernel.library.indexing.shared_lines import fits, lines_launch
from calor_kernel.library.indexing.sparse_updates import add_linked_rows, suits_linked_rows
from calor_kernel.library.scan.decoupled_look_back import clear
from calor_kernel.library.steps import Steps

# Updates at most whose numbers, from 1, fit 32 bits.
_NUMBERED: Final = (1 << 31) - 2
# Units of a cube.
_UNITS: Final = 256
# Elements at whose multiples sums begin that are read in whole accesses.
_WHOLE: Final = 64
# Updates at most of which one launch does the work in their order: beyond, several launches are
# faster, but not reproducible. Elements of a unit where there are many: it finds its row once.
_IN_ONE: Final = 256
_IN_ORDER: Final = ROOMS[-1]
_EACH: Final = 4
# The units of a core that hide the time of an atomic operation.
_MANY: Final = 1024
_ATOMIC: Final = {
    float32: "float_atomics",
    int32: "atomics",
    uint32: "atomics",
    int64: "atomics_64",
    uint64: "atomics_64",
}

# Integers as large as a number, which are compared and exchanged where no atomic has its order.
_BITS: Final = {float32: int32, float64: int64}


class Target:
    """The memory that a scatter updates: the result, or a wide copy that is rounded at the end.

    ``words``: items of memory of an element. ``pair``: whether complex numbers are multiplied.
    ``apart``: few rows are updated, so only their sums are wide, in memory of their own.
    """

    def __init__(self, request: Request, apart: bool = False) -> None:
        x, _, updates = request.inputs
        (result,) = request.outputs
        info = request.info
        self.request, self.info = request, info
        self.update: str = request.attributes["update"]
        self.steps = Steps()
        self.words, self.pair = 1, False
        self.updates = operand(2, updates)
        self.memory = Bound(Output(), x.dtype)
        self.rounds, self.apart = False, False
        if self.update == "assign":
            bits = as_bits(x, info)
            self.memory = Bound(Output(), bits.dtype)
            self.words = x.dtype.itemsize // bits.dtype.itemsize
            self.updates = Bound(Input(2, as_bits(updates, info).offset), bits.dtype)
        elif x.dtype.kind == "complex":
            part = real_of(x.dtype)
            self.memory = Bound(Output(), part)
            self.words, self.pair = 2, self.update == "mul"
            self.updates = Bound(Input(2, updates.offset * 2), part)
        elif x.dtype.kind == "float" and x.dtype.itemsize == 2 and apart:
            self.apart = True
        elif x.dtype.kind == "float" and x.dtype.itemsize == 2:
            self.rounds = True
            self.memory = self.steps.room(x.size, float32)
            self._cast(x, Input(0), spec_of(x.shape, float32), self.memory.place)
            return
        elif x.dtype is bool_:
            # The greater of two truth values is their or.
            self.memory = Bound(Output(), uint8)
            self.updates = Bound(self.updates.place, uint8)
        self.steps.launches += dense_copy(x, result, info)

    def _cast(self, view: View, source: Argument, result: Spec, target: Argument) -> None:
        attributes = {"dtype": result.dtype}
        self.steps.include(self.request, "cast", attributes, [(view, source)], [(result, target)])

    @property
    def itemsize(self) -> int:
        """The bytes of an item of memory."""
        return int(self.memory.dtype.itemsize)

    @property
    def given(self) -> dict[str, object]:
        """The memory of a scatter's own launch."""
        return {
            "target": self.memory,
            "indices": operand(1, self.request.inputs[1]),
            "updates": self.updates,
            "status": STATUS,
            "update": self.update,
        }

    def work(self, wrong: tuple[Failure, ...]) -> list[Work]:
        """Return the whole work; ``wrong``: the errors of its indices."""
        if self.rounds:
            (result,) = self.request.outputs
            wide = View.dense(spec_of(result.shape, float32))
            self._cast(wide, self.memory.place, result, Output(0))
        in_place = () if self.rounds else ((0, 0),)
        return [replace(self.steps.work(), in_place=in_place, failures=wrong)]


class CooperativeScatter:
    """The launches of ``picks`` updates of ``count`` rows of ``length`` items.

    ``rows``: the rows of updates.
    """

    def __init__(
        self, target: Target, picks: int, count: int, length: int, rows: UpdatedRows[int]
    ) -> None:
        self.target, self.info, self.update = target, target.info, target.update
        self.steps = target.steps
        self.picks, self.count, self.length = picks, count, length
        # The common arguments of kernels that find the rows of updates.
        self.found: dict[str, object] = {
            "indices": operand(1, target.request.inputs[1]),
            "status": STATUS,
            "picks": picks,
            "rows": rows,
            "small": is_small(picks),
        }

    def add(self) -> Refusal | None:
        """Add the launches; return why there are too many updates."""
        if _in_one(self.target.request, self.picks, self.count):
            self._one()
            return None
        if self.update == "assign":
            return self._claim()
        if self.target.apart:
            return self._sum_apart()
        atomic = _ATOMIC.get(self.target.memory.dtype, "")
        rounds = self.target.memory.dtype.kind == "float"
        able = self.update == "add" or (self.update in ("max", "min") and not rounds)
        able = able and not (rounds and self.target.request.deterministic)
        if able and atomic and self.info.has(atomic):
            self._update(operand(1, self.target.request.inputs[1]), 1)
            return None
        bits = _BITS.get(self.target.memory.dtype)
        extreme = self.update in ("max", "min") and not self.target.request.deterministic
        if extreme and bits is not None and self.info.has(_ATOMIC[bits]):
            self._update(operand(1, self.target.request.inputs[1]), 1, bits)
            return None
        return self._sort()

    def _one(self) -> None:
        """Add the launch in which an update of a row does the work of all of them."""
        target, moved = self.target, self.picks * self.length
        dtype = target.memory.dtype
        width = max(1, self.info.vector_bytes // max(4, dtype.itemsize))
        if self.length % width != 0:
            width = 1
        wide = float32 if dtype.kind == "float" and dtype.itemsize == 2 else dtype
        nbytes = moved * (target.updates.dtype.itemsize + 2 * target.itemsize)
        plane = self.info.planes[0]
        cubes = -(-self.picks // PLANES), -(-self.length // (width * plane)), 1
        self.steps.add(
            update_in_order,
            Grid(cubes, (PLANES * plane, 1, 1), plane),
            Effort(f"scatter {self.update} of few", moved, nbytes),
            target=target.memory,
            updates=target.updates,
            length=self.length // width,
            update=self.update,
            width=width,
            room=next(room for room in ROOMS if self.picks <= room),
            wide=wide,
            **self.found,
        )

    def _claim(self) -> Refusal | None:
        owners = self._owners()
        if isinstance(owners, Refusal):
            return owners
        width = max(1, self.info.vector_bytes // self.target.memory.dtype.itemsize)
        if self.length % width != 0:
            width = 1
        self._update(owners, width)
        return None

    def _sum_apart(self) -> Refusal | None:
        """Add the launches that sum updates in float32, and round the sums of the updated rows."""
        moved, target = self.picks * self.length, self.target
        # Sums lie behind the owners, so that one launch clears both.
        begin = -(-self.count // _WHOLE) * _WHOLE
        owners = self._owners(begin - self.count + moved)
        if isinstance(owners, Refusal):
            return owners
        assert isinstance(owners.place, Scratch)
        if owners.dtype is int32:
            sums = Bound(replace(owners.place, offset=begin), float32)
        else:
            sums = self.steps.room(moved, float32)
            self.steps.launches.append(clear(sums, moved, Effort("scatter sums", 0, 4 * moved)))
        given = {**self.found, "owners": owners, "sums": sums}
        grid, split = row_grid(self.info, self.picks, self.length)
        self.steps.add(
            sum_updates,
            grid,
            Effort("scatter add", moved, moved * (target.itemsize + 8)),
            updates=target.updates,
            length=self.length,
            split=split,
            **given,
        )
        width = 4 if self.length % 4 == 0 and self.info.vector_bytes >= 16 else 1
        grid, split = row_grid(self.info, self.picks, self.length // width)
        self.steps.add(
            add_sums,
            grid,
            Effort("scatter rounds", moved, moved * (2 * target.itemsize + 4)),
            target=target.memory,
            length=self.length // width,
            width=width,
            split=split,
            **given,
        )
        return None

    def _owners(self, behind: int = 0) -> Bound | Refusal:
        """Add the launches that find the last update of each row.

        ``behind``: numbers of 32 bits that are cleared behind those.
        """
        number = int32 if self.picks <= _NUMBERED else int64
        if number is int64 and not self.info.has("atomics_64"):
            return Refusal(
                f"{self.picks} updates are more than the device's atomics of 32 bits tell apart; "
                "update in parts"
            )
        count = self.count + (behind if number is int32 else 0)
        owners = self.steps.room(count, number)
        effort = Effort("scatter owners", 0, number.itemsize * count)
        self.steps.launches.append(clear(owners, count, effort))
        self._add_flat(claim_rows, "scatter claims", owners=owners)
        return owners

    def _add_flat(self, kernel: KernelFunction, label: str, **given: object) -> None:
        """Add a launch with a unit for each update."""
        units = min(_UNITS, self.info.max_units)
        grid = Grid.line(-(-self.picks // units), units)
        self.steps.add(kernel, grid, Effort(label, 0, self.picks * 8), **self.found, **given)

    def _update(self, owners: Bound, width: int, bits: DType | None = None) -> None:
        """Add the launch of all updates; ``bits``: the integers that are compared and exchanged."""
        memory = self.target.memory
        length = self.length // width
        moved = self.picks * self.length
        nbytes = moved * (self.target.updates.dtype.itemsize + 2 * self.target.itemsize)
        many = self.update != "assign" and hinted(moved) >= _EACH * _MANY * self.info.cores
        grid, split = row_grid(self.info, self.picks, -(-length // _EACH) if many else length)
        self.steps.add(
            scatter_at_once,
            grid,
            Effort(f"scatter {self.update}", moved, nbytes),
            target=memory if bits is None else Bound(memory.place, bits),
            number=None if bits is None else memory.dtype,
            updates=self.target.updates,
            owners=owners,
            length=length,
            update=self.update,
            width=width,
            split=split,
            **self.found,
        )

    def _sort(self) -> Refusal | None:
        """Add the launches that sort updates by their rows, and update row by row."""
        dtype = numbers_of(self.count)
        numbers, ranked = (self.steps.room(self.picks, dtype) for _ in range(2))
        order = self.steps.room(self.picks, int64)
        self._add_flat(number_rows, "scatter rows", numbers=numbers)
        given, found = spec_of((self.picks,), dtype), spec_of((self.picks,), int64)
        refused = self.steps.try_include(
            self.target.request,
            "sort",
            {"axis": 0, "descending": False},
            [(View.dense(given), numbers.place)],
            [(given, ranked.place), (found, order.place)],
        )
        if refused:
            return refused
        moved = self.picks * self.length
        grid, split = row_grid(self.info, self.picks, self.length)
        self.steps.add(
            update_segments,
            grid,
            Effort(f"scatter {self.update} in order", moved, 3 * moved * self.target.itemsize),
            target=self.target.memory,
            numbers=ranked,
            order=order,
            updates=self.target.updates,
            picks=self.picks,
            length=self.length,
            update=self.update,
            split=split,
        )
        return None


def _in_one(request: Request, picks: int, rows: int) -> bool:
    """Return whether the updates are so few that one launch does them, in their order."""
    info, (x, *_) = request.info, request.inputs
    able = info.max_units >= PLANES * info.planes[0] > PLANES
    if not able or not info.has("barrier") or not info.has("planes"):
        return False
    if picks > (_IN_ORDER if request.deterministic else _IN_ONE) or rows >= 1 << 31:
        return False
    # Atomic sums are one launch too.
    atomic = x.dtype is float32 and request.attributes["update"] == "add"
    return request.deterministic or not (atomic and info.has("float_atomics"))


def _few(request: Request, picks: int, rows: int) -> bool:
    """Return whether the updates of few rows are kept apart, on a device that can."""
    info = request.info
    if _in_one(request, picks, rows):
        return True
    able = info.max_units > 1 and info.has("atomics") and info.has("float_atomics")
    if not able or request.deterministic or request.attributes["update"] != "add":
        return False
    return 2 * picks <= rows


def lower_scatter_nd(request: Request) -> Sequence[Work] | Refusal:
    """Update parts of x at indices of its first axes."""
    x, indices, _ = request.inputs
    update = request.attributes["update"]
    info = request.info
    depth = indices.shape[-1]
    sizes = x.shape[:depth]
    picks, rows = prod(indices.shape[:-1]), prod(sizes)
    linked = update != "assign" and x.size > 0 and suits_linked_rows(request, picks, rows)
    target = Target(request, linked or _few(request, picks, rows))
    length = prod(x.shape[depth:]) * target.words
    wrong = failures(sizes, range(depth))
    if picks * length * rows == 0:
        return target.work(wrong)
    axes = IndexedAxes(sizes, row_major(sizes))
    if linked:
        add_linked_rows(target.steps, request, picks, rows, axes, target.given)
        return target.work(wrong)
    if info.max_units > 1 and info.has("atomics") and not target.pair:
        made = CooperativeScatter(target, picks, rows, length, UpdatedRows(axes=axes))
        return made.add() or target.work(wrong)
    if depth == 1 and length == 1 and _on_units(target):
        _add_elements(target, 1, picks, rows)
        return target.work(wrong)
    width = max(1, info.vector_bytes // max(target.itemsize, target.updates.dtype.itemsize))
    width = width if length >= width else 1
    # Every cube reads all indices, so there are no more cubes than cores.
    across = min(info.cores, max(1, length // max(4 * width, 64)))
    columns = -(-length // across)
    columns = columns + columns % 2 if target.pair else -(-columns // width) * width
    down = min(rows, max(1, info.cores // across))
    share = -(-rows // down)
    target.steps.add(
        scatter_rows,
        Grid((-(-rows // share), -(-length // columns), 1)),
        Effort(f"scatter {update}", picks * length, 3 * picks * length * target.itemsize),
        over=ScatteredRows(rows, picks, length, share, columns, depth, 1),
        axes=axes,
        width=width,
        pair=target.pair,
        **target.given,
    )
    return target.work(wrong)


def lower_scatter_along(request: Request) -> Sequence[Work] | Refusal:
    """Update elements of x at indices along an axis."""
    x, indices, _ = request.inputs
    update, axis = request.attributes["update"], request.attributes["axis"]
    info = request.info
    size, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    outers, picks = prod(x.shape[:axis]), indices.shape[axis]
    if x.size * indices.size != 0 and fits(request):
        steps = Steps()
        steps.launches.append(lines_launch(request))
        return [replace(steps.work(), in_place=((0, 0),), failures=failures((size,), (axis,)))]
    target = Target(request, _few(request, indices.size, x.size))
    wrong = failures((size,), (axis,))
    if indices.size == 0:
        return target.work(wrong)
    if info.max_units > 1 and info.has("atomics") and not target.pair:
        rows = UpdatedRows(along=AlongAxis(picks, size, inner))
        made = CooperativeScatter(target, indices.size, outers * size * inner, target.words, rows)
        return made.add() or target.work(wrong)
    if inner * target.words == 1 and _on_units(target):
        _add_elements(target, outers, picks, size)
        return target.work(wrong)
    across = least(outers, 4 * info.cores)
    down = max(1, info.cores // across) if picks * inner > 1 << 12 else 1
    outer_share, share = -(-outers // across), -(-max(size, 1) // down)
    target.steps.add(
        scatter_along,
        Grid((-(-outers // outer_share), -(-max(size, 1) // share), 1)),
        Effort(f"scatter along {update}", indices.size, 3 * indices.size * x.dtype.itemsize),
        over=Updates(outers, picks, inner, size, outer_share, share),
        words=target.words,
        pair=target.pair,
        **target.given,
    )
    return target.work(wrong)


def _on_units(target: Target) -> bool:
    """Return whether cubes of one unit update single elements, one after another."""
    return target.info.max_units == 1 and not target.pair


def _add_elements(target: Target, outers: int, picks: int, size: int) -> None:
    """Add the launch that updates single elements of ``outers`` rows of ``size``."""
    info = target.info
    across = least(outers, 4 * info.cores)
    few = picks <= 1 << 12 or not info.has("compress") or size >= 1 << 31
    # Two cubes that read all indices take as long as one that reads and updates.
    down = 1 if few or info.cores < 4 else max(1, info.cores // across)
    outer_share, share = -(-outers // across), -(-max(size, 1) // down)
    count = outers * picks
    target.steps.add(
        scatter_elements,
        Grid((-(-outers // outer_share), -(-max(size, 1) // share), 1)),
        Effort(f"scatter elements {target.update}", count, 3 * count * target.itemsize),
        over=Updates(outers, picks, None, size, outer_share, share),
        owned=down > 1,
        **target.given,
    )
