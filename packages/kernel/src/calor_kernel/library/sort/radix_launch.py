"""Sorts by digits as launches, for cubes of many units.

Requirements: each short row is sorted by one cube, in one launch; longer rows in one pass a digit,
with minimal traffic. The shared memory of a cube lets several cubes share a core. Columns along
other axes are copied to rows before the sort, and back after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from calor.dtypes import DType, int32, int64, uint32
from calor_kernel.contract.choices import greatest, spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.work import (
    Input,
    Output,
    Request,
    Scratch,
    View,
    Work,
    row_major,
)
from calor_kernel.ir.types import UNSIGNED
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.scan.decoupled_look_back import clear
from calor_kernel.library.sort.radix import (
    count_all_digits,
    count_tile_digits,
    move_by_digit,
    sort_in_cube,
)
from calor_kernel.library.sort.ranks import RadixPlan
from calor_kernel.library.steps import Steps

# Units of a cube at most, with planes and without; elements of a unit; shared memory of a cube.
_UNITS, _ALONE, _ITEMS, _SHARED = 512, 128, 16, 96 << 10
_LEAST: Final = 64  # units of a cube
# Elements of a unit at least, for inputs that do not fill the device.
_FEW: Final = 2
# Rows up to this length are ranked by comparison; above the second one counts overflow a word.
_RANKED, _COUNTED = 32, 1 << 30
_CUBES: Final = 4


def radix_refusal(request: Request) -> str | None:
    """Return why rows are not sorted by digits in cubes of many units."""
    (x,) = request.inputs
    info, word = request.info, UNSIGNED.get(x.dtype.itemsize)
    if info.max_units < _LEAST or not (info.has("atomics") and info.has("barrier")):
        return f"a cube has fewer than {_LEAST} units, or no atomics or barriers"
    if word not in info.dtypes or x.dtype.kind == "complex":
        return f"the keys of {x.dtype} are no words of the device"
    if x.shape[request.attributes["axis"]] <= _RANKED:
        return f"rows of at most {_RANKED} elements are ranked by comparison"
    if shared_bytes(info, Tile(_LEAST, 1, _bits(_LEAST, info.planes[0])), word) > info.shared_bytes:
        return "shared memory is too small for the smallest tile"
    return None


@dataclass(frozen=True, slots=True)
class Tile:
    """A cube of units with elements each, and the bits of a digit."""

    units: int
    items: int
    bits: int

    @property
    def elements(self) -> int:
        """The elements of a tile."""
        return self.units * self.items


def tile_of(info: DeviceInfo, word: DType, n: int, rows: int) -> Tile:
    """Return the tile for rows of n elements: a whole row if it fits, else a part."""
    plane: int = info.planes[0]
    most = min(_UNITS if plane > 1 else _ALONE, info.max_units)
    units = _LEAST
    while 2 * units <= most and 8 * units < n:
        units *= 2
    room, bits = min(info.shared_bytes, _SHARED), _bits(units, plane)
    # Small planes have many histograms, which take memory from elements.
    while units > _LEAST and shared_bytes(info, Tile(units, _FEW, bits), word) > room:
        units //= 2
        bits = _bits(units, plane)
    items = _ITEMS
    while items > 1 and shared_bytes(info, Tile(units, items, bits), word) > room:
        items //= 2
    if n > units * items:
        while items > _FEW and n * rows < info.cores * units * items:
            items //= 2
    else:
        while items > 1 and units * items >= 2 * n:
            items //= 2
    return Tile(units, items, bits)


def _bits(units: int, plane: int) -> int:
    """Return the bits of a digit: a cube has a unit for each digit at least."""
    return min(8, units.bit_length() - 1) if plane > 1 else 4


def shared_bytes(info: DeviceInfo, tile: Tile, word: DType) -> int:
    """Return the shared memory of a cube that moves elements by a digit."""
    planes, digits = tile.units // info.planes[0], 1 << tile.bits
    numbers = (planes * digits, digits, max(planes, 1), digits, tile.elements)
    keys = info.shared_room(tile.elements, word.itemsize)
    return keys + sum(info.shared_room(count, int32.itemsize) for count in numbers)


def radix_sorts(request: Request) -> list[Work]:
    """Return the works that sort along an axis for values and indices, the likeliest first."""
    (x,) = request.inputs
    n = x.shape[request.attributes["axis"]]
    likeliest = tile_of(request.info, UNSIGNED[x.dtype.itemsize], n, x.size // n)
    tiles = [likeliest]
    if request.candidates and n > likeliest.elements:
        tiles += _others(request, likeliest)
    return [_sorted(request, tile) for tile in tiles]


def _others(request: Request, tile: Tile) -> list[Tile]:
    """Return smaller tiles: with half the elements a unit, and with half the units."""
    made = []
    if tile.items > _FEW:
        made.append(replace(tile, items=tile.items // 2))
    units = tile.units // 2
    if units >= 1 << tile.bits:
        made.append(replace(tile, units=units))
    return made


def _sorted(request: Request, tile: Tile) -> Work:
    (x,) = request.inputs
    axis, info = request.attributes["axis"], request.info
    n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    made, variant = _Radix(request, n, x.size // n, tile), f"{tile.units}x{tile.items}"
    steps = made.steps
    if inner == 1:
        made.sort(operand(0, x), Bound(Output(0), x.dtype), Bound(Output(1), int64))
        return steps.work(variant)
    order = [a for a in range(len(x.shape)) if a != axis] + [axis]
    shape = tuple(x.shape[a] for a in order)
    columns = View(shape, tuple(x.strides[a] for a in order), x.dtype, x.offset)
    rows = steps.room(x.size, x.dtype)
    values, indices = steps.room(x.size, x.dtype), steps.room(x.size, int64)
    steps.copy(columns, Input(0), rows.place, info)
    made.sort(rows, values, indices)
    # The results are the rows with their axes permuted back.
    strides = dict(zip(order, row_major(shape), strict=True))
    for number, sorted_rows in enumerate((values, indices)):
        view = View(x.shape, tuple(strides[a] for a in range(len(order))), sorted_rows.dtype)
        steps.copy(view, sorted_rows.place, Output(number), info)
    return steps.work(variant)


class _Radix:
    def __init__(self, request: Request, n: int, rows: int, tile: Tile) -> None:
        (x,) = request.inputs
        self.request, self.info = request, request.info
        self.dtype: DType = x.dtype
        self.word: DType = UNSIGNED[x.dtype.itemsize]
        self.n, self.rows, self.size = n, rows, n * rows
        self.tile = tile
        self.tiles = -(-n // self.tile.elements)
        self.looks_back = self.info.has("forward_progress") and n < _COUNTED
        self.steps = Steps()

    @property
    def plan(self) -> RadixPlan:
        """The common part of all passes."""
        descending = bool(self.request.attributes["descending"])
        return RadixPlan(self.dtype, self.word, self.tile.bits, self.tile.items, descending)

    def sort(self, source: Bound, values: Bound, indices: Bound) -> None:
        """Add the launches that sort dense rows."""
        if self.n <= self.tile.elements:
            given = {"source": source, "values": values, "indices": indices, "n": self.n}
            nbytes = 2 * self.dtype.itemsize + 8
            self._add(sort_in_cube, self.rows, nbytes, plan=self.plan, **given)
            return
        passes = -(-8 * self.word.itemsize // self.tile.bits)
        keys = [self.steps.room(self.size, self.word) for _ in range(min(passes - 1, 2))]
        orders = [self.steps.room(self.size, int32) for _ in range(min(passes - 1, 2))]
        counts = self._counted(source, passes) if self.looks_back else None
        for number in range(passes):
            first, last = number == 0, number == passes - 1
            plan = replace(
                self.plan,
                first=first,
                last=last,
                shift=number * self.tile.bits,
            )
            key = source if first else keys[(number - 1) % 2]
            given = {
                "original": source,
                "keys": key,
                "order": source if first else orders[(number - 1) % 2],
                "moved": values if last else keys[number % 2],
                "moved_order": indices if last else orders[number % 2],
            }
            if counts is None:
                given["counts"], words = self._counted_tiles(plan, key), None
            else:
                given["counts"], words = counts[0], counts[1][number]
            read = self.word.itemsize + (0 if first else 4)
            written = self.dtype.itemsize + 8 if last else self.word.itemsize + 4
            self._add(
                move_by_digit,
                self.rows * self.tiles,
                read + written,
                words=words,
                tiles=self.tiles,
                n=self.n,
                passes=passes,
                plan=plan,
                **given,
            )

    def _counted(self, source: Bound, passes: int) -> tuple[Bound, list[Bound]]:
        """Return counts of all digits, and the words of each pass, in the same scratch memory."""
        digits = self.plan.digits
        begin = self.rows * passes * digits
        each = 1 + self.rows * self.tiles * digits
        count = begin + passes * each
        words = self.steps.room(count, uint32)
        self.steps.launches.append(clear(words, count, Effort("sort clear", 0, 4 * count)))
        number = len(self.steps.scratch) - 1
        counts = Bound(Scratch(number), int32)
        wanted = greatest(_CUBES * self.info.cores // self.rows, 1)
        turns = greatest(-(-self.tiles // wanted), 1)
        self._add(
            count_all_digits,
            self.rows * -(-self.tiles // turns),
            self.dtype.itemsize,
            source=source,
            counts=counts,
            tiles=self.tiles,
            turns=turns,
            n=self.n,
            plan=self.plan,
        )
        return counts, [Bound(Scratch(number, begin + i * each), uint32) for i in range(passes)]

    def _counted_tiles(self, plan: RadixPlan, keys: Bound) -> Bound:
        """Return the scanned counts of each digit in each tile."""
        cells = plan.digits * self.tiles
        counts, ends = (self.steps.room(self.rows * cells, int32) for _ in range(2))
        self._add(
            count_tile_digits,
            self.rows * self.tiles,
            self.word.itemsize,
            keys=keys,
            counts=counts,
            tiles=self.tiles,
            n=self.n,
            plan=plan,
        )
        add_scan(self.request, (self.rows, cells), counts, ends, self.steps)
        return ends

    def _add(self, kernel: KernelFunction, cubes: int, nbytes: int, **given: object) -> None:
        """Add a launch; ``nbytes``: bytes that it moves for each element."""
        grid = Grid.line(cubes, self.tile.units, self.info.planes[0])
        self.steps.add(kernel, grid, Effort(f"sort {kernel.name}", 0, self.size * nbytes), **given)


def add_scan(
    request: Request, shape: tuple[int, int], counts: Bound, ends: Bound, steps: Steps
) -> None:
    """Add the launches that scan rows of counts."""
    counted = spec_of(shape, int32)
    operands, results = [(View.dense(counted), counts.place)], [(counted, ends.place)]
    steps.include(request, "cumsum", {"axis": 1, "reverse": False}, operands, results)
