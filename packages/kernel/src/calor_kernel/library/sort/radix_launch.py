"""Sorts by digits as launches, for cubes of many units.

Requirements: short rows are sorted by a cube each, in one launch; longer ones in a pass a digit,
with as little read and written as there can be; what a cube keeps in shared memory lets several
cubes run beside each other; along other axes rows are made of columns before and after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from calor.dtypes import DType, int32, int64, uint32
from calor_kernel.contract.choices import greatest, spec_of
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
    View,
    Work,
    row_major,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.copying import lower_copy
from calor_kernel.library.redirection import copy_to_scratch, redirected
from calor_kernel.library.scan.decoupled_look_back import clear_words
from calor_kernel.library.scan.lowering import lower_scan
from calor_kernel.library.sort.keys import UNSIGNED
from calor_kernel.library.sort.radix import (
    count_all_digits,
    count_tile_digits,
    move_by_digit,
    sort_in_cube,
)
from calor_kernel.library.sort.ranks import RadixPlan

_SIZE: Final = Scalar(int64, nonnegative=True)
# Units of a cube at most, with planes and without; elements of a unit; shared memory of a cube.
_UNITS, _ALONE, _ITEMS, _SHARED = 512, 128, 16, 96 << 10
# Elements of a unit at least, where there are few for the cubes that run at a time.
_FEW: Final = 2
# Rows up to this length are ranked by comparing; beyond this one counts do not fit a word.
_RANKED, _COUNTED = 32, 1 << 30
_CLEARING: Final = 256
_CUBES: Final = 4


def by_radix(request: Request) -> bool:
    """Return whether rows are sorted by digits in cubes of many units."""
    (x,) = request.inputs
    info = request.info
    word = UNSIGNED.get(x.dtype.itemsize)
    able = info.max_units >= 64 and info.has("atomics") and info.has("barrier")
    able = able and word in info.dtypes and x.dtype.kind != "complex"
    return able and x.shape[request.attributes["axis"]] > _RANKED


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
    """Return the tile for rows of n elements: a whole row where one fits, else many are made."""
    plane: int = info.planes[0]
    most = min(_UNITS if plane > 1 else _ALONE, info.max_units)
    units = 64
    while 2 * units <= most and 8 * units < n:
        units *= 2
    room, bits = min(info.shared_bytes, _SHARED), _bits(units, plane)
    # Small planes have many histograms, which leave less for elements.
    while units > 64 and shared_bytes(units, _FEW, bits, plane, word) > room:
        units //= 2
        bits = _bits(units, plane)
    items = _ITEMS
    while items > 1 and shared_bytes(units, items, bits, plane, word) > room:
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


def shared_bytes(units: int, items: int, bits: int, plane: int, word: DType) -> int:
    """Return the shared memory of a cube that moves elements by a digit."""
    planes = units // plane
    each: int = word.itemsize + 4
    return units * items * each + 4 * ((planes + 2) << bits) + 4 * planes


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
    """Return tiles of fewer elements: of half as many a unit, and of half as many units."""
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
    made = _Radix(request, n, x.size // n, tile)
    if inner == 1:
        made.sort(Input(0, x.offset), Output(0), Output(1))
        return made.work()
    order = [a for a in range(len(x.shape)) if a != axis] + [axis]
    shape = tuple(x.shape[a] for a in order)
    columns = View(shape, tuple(x.strides[a] for a in order), x.dtype, x.offset)
    rows = made.new(x.size * x.dtype.itemsize)
    values, indices = made.new(x.size * x.dtype.itemsize), made.new(x.size * 8)
    made.launches += copy_to_scratch(columns, Input(0), rows.number, info)
    made.sort(rows, values, indices)
    # Back: the result's axes, with the strides that they have in the rows.
    strides = dict(zip(order, row_major(shape), strict=True))
    for number, (place, dtype) in enumerate(((values, x.dtype), (indices, int64))):
        view = View(x.shape, tuple(strides[a] for a in range(len(order))), dtype)
        asked = Request("copy", {}, (view,), (spec_of(x.shape, dtype),), info)
        found = lower_copy(asked)
        assert not isinstance(found, Refusal)
        places: dict[Argument, Argument] = {Input(0): place, Output(0): Output(number)}
        made.launches += [redirected(launch, places) for launch in found[0].launches]
    return made.work()


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
        self.scratch: list[int] = []
        self.launches: list[Launch] = []

    def new(self, nbytes: int) -> Scratch:
        """Return fresh scratch memory."""
        self.scratch.append(nbytes)
        return Scratch(len(self.scratch) - 1)

    def work(self) -> Work:
        """Return what was made."""
        variant = f"{self.tile.units}x{self.tile.items}"
        return Work(tuple(self.launches), tuple(self.scratch), variant=variant)

    @property
    def plan(self) -> RadixPlan:
        """What all passes have in common."""
        descending = bool(self.request.attributes["descending"])
        return RadixPlan(self.dtype, self.word, self.tile.bits, self.tile.items, descending)

    def sort(self, source: Argument, values: Argument, indices: Argument) -> None:
        """Add the launches that sort dense rows."""
        if self.n <= self.tile.elements:
            self._launch(
                sort_in_cube,
                (self._read(), Buffer(self.dtype), Buffer(int64), _SIZE),
                self.plan,
                self.rows,
                (source, values, indices, self.n),
                2 * self.dtype.itemsize + 8,
            )
            return
        passes = -(-8 * self.word.itemsize // self.tile.bits)
        keys = [self.new(self.size * self.word.itemsize) for _ in range(min(passes - 1, 2))]
        orders = [self.new(self.size * 4) for _ in range(min(passes - 1, 2))]
        counts = self._counted(source, passes) if self.looks_back else None
        for number in range(passes):
            first, last = number == 0, number == passes - 1
            plan = replace(
                self.plan,
                first=first,
                last=last,
                looks_back=self.looks_back,
                shift=number * self.tile.bits,
            )
            key = source if first else keys[(number - 1) % 2]
            order = source if first else orders[(number - 1) % 2]
            self._pass(
                plan,
                passes,
                (source, key, order),
                (values if last else keys[number % 2], indices if last else orders[number % 2]),
                counts,
            )

    def _pass(
        self,
        plan: RadixPlan,
        passes: int,
        given: tuple[Argument, Argument, Argument],
        made: tuple[Argument, Argument],
        counts: tuple[Scratch, int, int] | None,
    ) -> None:
        number = plan.shift // plan.bits
        read = self._read() if plan.first else Buffer(self.word, writable=False)
        if counts is None:
            counted: Scratch = self._counted_tiles(plan, given[1], read)
            words: Argument = counted
            words_type, count_type = Buffer(int32, writable=False), Buffer(int32, writable=False)
        else:
            room, begin, each = counts
            counted, words = room, replace(room, offset=begin + number * each)
            words_type, count_type = Buffer(uint32), Buffer(int32, writable=False)
        read_bytes = self.word.itemsize + (0 if plan.first else 4)
        written = self.dtype.itemsize + 8 if plan.last else self.word.itemsize + 4
        self._launch(
            move_by_digit,
            (
                self._read(),
                read,
                read if plan.first else Buffer(int32, writable=False),
                count_type,
                words_type,
                Buffer(self.dtype if plan.last else self.word),
                Buffer(int64 if plan.last else int32),
                *(_SIZE,) * 3,
            ),
            plan,
            self.rows * self.tiles,
            (*given, counted, words, *made, self.tiles, self.n, passes),
            read_bytes + written,
        )

    def _counted(self, source: Argument, passes: int) -> tuple[Scratch, int, int]:
        """Return counts of all digits, where the words begin behind them, and those of a pass."""
        digits = self.plan.digits
        begin = self.rows * passes * digits
        each = 1 + self.rows * self.tiles * digits
        count = begin + passes * each
        room = self.new(4 * count)
        build = Build(clear_words, (Buffer(uint32), _SIZE), (), (_CLEARING, 1, 1))
        cubes = (-(-count // _CLEARING), 1, 1)
        self.launches.append(Launch(build, cubes, (room, count), 0, 4 * count, "sort clear"))
        wanted = greatest(_CUBES * self.info.cores // self.rows, 1)
        turns = greatest(-(-self.tiles // wanted), 1)
        self._launch(
            count_all_digits,
            (self._read(), Buffer(int32), _SIZE, _SIZE, _SIZE),
            self.plan,
            self.rows * -(-self.tiles // turns),
            (source, room, self.tiles, turns, self.n),
            self.dtype.itemsize,
        )
        return room, begin, each

    def _counted_tiles(self, plan: RadixPlan, keys: Argument, read: Buffer) -> Scratch:
        """Return scanned counts of a digit: how many come up to each tile's of each digit."""
        cells = plan.digits * self.tiles
        counts, ends = self.new(4 * self.rows * cells), self.new(4 * self.rows * cells)
        self._launch(
            count_tile_digits,
            (read, Buffer(int32), _SIZE, _SIZE),
            plan,
            self.rows * self.tiles,
            (keys, counts, self.tiles, self.n),
            self.word.itemsize,
        )
        result = spec_of((self.rows, cells), int32)
        asked = replace(
            self.request,
            op="cumsum",
            attributes={"axis": 1, "reverse": False},
            inputs=(View.dense(result),),
            outputs=(result,),
        )
        found = lower_scan(asked)
        assert not isinstance(found, Refusal)
        work = found[0]
        places: dict[Argument, Argument] = {Input(0): counts, Output(0): ends}
        places |= {Scratch(i): self.new(nbytes) for i, nbytes in enumerate(work.scratch)}
        self.launches += [redirected(launch, places) for launch in work.launches]
        return ends

    def _read(self) -> Buffer:
        return Buffer(self.dtype, writable=False)

    def _launch(
        self,
        function: KernelFunction,
        signature: tuple[Any, ...],
        plan: RadixPlan,
        cubes: int,
        arguments: tuple[Argument, ...],
        each: int,
    ) -> None:
        cube = (self.tile.units, 1, 1)
        build = Build(function, signature, (("plan", plan),), cube, self.info.planes[0])
        label = f"sort {function.function.__name__}"
        self.launches.append(Launch(build, (cubes, 1, 1), arguments, 0, self.size * each, label))
