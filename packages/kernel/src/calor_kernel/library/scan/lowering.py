"""Scans as launches: the ways of the family.

Requirements: one read and one write, whatever the axis is, if cubes of many units share a row or
its columns. A row that one cube scans is one launch, and so are enough columns for the device. Else
tiles look back on a device with forward progress, or parts are totalled first. Results are bitwise
reproducible on request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from calor.dtypes import (
    DType,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int32,
    uint8,
    uint64,
)
from calor_kernel.contract.choices import exceeds, greatest, hinted
from calor_kernel.contract.launching import Bound, Effort, Grid
from calor_kernel.contract.ways import Way, ranked, serves
from calor_kernel.contract.work import Input, Output, Request, Scratch, Work
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.reduce.reduction_ops import ReductionOp
from calor_kernel.library.scan.chunks import ChunkPlan, Chunks, chunk_totals, scan_chunks
from calor_kernel.library.scan.columns import ColumnPlan, scan_columns, scan_columns_looking_back
from calor_kernel.library.scan.decoupled_look_back import clear
from calor_kernel.library.scan.rows import (
    scan_looking_back,
    scan_rows,
    scan_short_rows,
    total_parts,
)
from calor_kernel.library.scan.tiles import TilePlan
from calor_kernel.library.steps import Steps

_KINDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
_PARTS = {complex64: float32, complex128: float64}
# Elements of a chunk: on cubes of one unit, and of many, where each unit has a chunk.
_LONG, _SHORT = 1 << 13, 1 << 6
# Elements of a row that a cube of one unit scans alone.
_WHOLE_ROW = 1 << 17
# Along rows: units of a cube that shares a row at most, vectors of a unit, lanes of a vector.
_UNITS, _VECTORS, _LANES = 256, 4, 8
# Vectors of short rows that a unit has on their way, and planes of a core that hide its waits.
_TOGETHER, _PLANES = 4, 16
# Tiles of a row that one cube scans one after another faster than two launches do.
_WALKS: Final = 4
# Cubes per core of divided rows.
_CUBES: Final = 8
# Units of a cube that has a core for its one row, and the elements of that row at most.
_ALONE, _WALKED = 1024, 1 << 15
# Across rows: rows of a unit, and bytes of adjacent columns that a row of units reads.
_ROWS, _LINE = 8, 128
# Cubes per core from which each cube loops over the tiles of its columns.
_ENOUGH: Final = 4
# Columns of fewer bytes are scanned in chunks, one unit each.
_NARROW: Final = 32
# Rows of a chunk that a unit loads together.
_AHEAD: Final = 16
# Units of a cube at least, and units of the same columns at most.
_FEWEST, _DOWN = 64, 32


def lower_scan(request: Request) -> Sequence[Work]:
    """Scan along an axis in as many levels as its length needs."""
    (x,) = request.inputs
    if x.size == 0:
        return [Work(())]
    if x.shape[request.attributes["axis"]] == 1:
        # A single element is its own scan.
        steps = Steps()
        steps.copy(x, Input(0), Output(), request.info)
        return [steps.work()]
    return ranked(WAYS, Scan(request), request)


class Scan:
    """A scan of ``outer`` dense arrays ``[n, inner]`` along n, and its launches so far."""

    def __init__(self, request: Request) -> None:
        (x,) = request.inputs
        axis = request.attributes["axis"]
        self.info, self.label, kind = request.info, request.op, _KINDS[request.op]
        self.reverse = bool(request.attributes["reverse"])
        numbers = 2 if x.dtype.kind == "complex" else 1
        # Elements of a complex product are pairs of numbers.
        self.product = numbers == 2 and kind == "prod"
        self.dtype: DType = _PARTS.get(x.dtype, uint8 if x.dtype is bool_ else x.dtype)
        self.op = ReductionOp(kind, self._accumulator(kind))
        self.outer, self.n = prod(x.shape[:axis]), x.shape[axis]
        self.inner = prod(x.shape[axis + 1 :]) * numbers
        self.offset = x.offset * numbers
        self.source = Bound(Input(0, self.offset), self.dtype)
        self.target = Bound(Output(), self.dtype)
        self.many, self.plane = self.info.max_units > 1, self.info.planes[0]
        self.ordered = request.deterministic and self.op.rounds
        self.progress = self.info.has("forward_progress") and uint64 in self.info.dtypes
        self.steps = Steps()

    def _accumulator(self, kind: str) -> DType:
        """Return the dtype in which elements are combined.

        A unit that combines a long row one element after another has float64 for float32: the
        errors of thousands of roundings would add up.
        """
        if self.dtype.kind == "float" and self.dtype.itemsize == 2:
            return float32
        alone = self.info.max_units == 1 and float64 in self.info.dtypes
        wide = alone and self.dtype is float32 and kind in ("sum", "prod")
        return float64 if wide else self.dtype

    def line(self, cubes: int, units: int) -> Grid:
        """Return a grid of cubes with planes."""
        return Grid.line(cubes, units, self.plane)

    def add(
        self, kernel: KernelFunction, grid: Grid, elements: int, source: Bound, **given: object
    ) -> None:
        """Add a launch that moves so many elements along n for each of its rows and columns."""
        nbytes = self.outer * elements * self.inner * source.dtype.itemsize
        self.steps.add(kernel, grid, Effort(self.label, 0, nbytes), source=source, **given)

    def words(self, count: int) -> dict[str, Bound]:
        """Return cleared words for totals, and tickets, which follow them in the same memory."""
        count *= 2 if self.op.dtype.itemsize == 8 else 1
        words = self.steps.room(count + 1, uint64)
        effort = Effort(self.label, 0, 8 * count)
        self.steps.launches.append(clear(words, count + 1, effort))
        assert isinstance(words.place, Scratch)
        return {"words": words, "tickets": Bound(replace(words.place, offset=2 * count), int32)}


def _rows_refusal(scan: Scan, request: Request) -> str | None:
    if scan.inner != 1:
        return "the axis is not the last"
    return None if scan.many else "a cube has one unit"


def _add_rows(scan: Scan) -> None:
    plan, units = _row_tile(scan)
    n, source = scan.n, scan.source
    given: dict[str, object] = {"target": scan.target, "n": n}
    whole = {"totals": source, "rows": scan.outer, "parts": 1, "length": 0, "plan": plan}
    if not plan.wide:
        planes = units // scan.plane
        together = _together(scan, plan)
        if together > 1:
            grid = scan.line(-(-scan.outer // (planes * together)), units)
            some = {"rows": scan.outer, "plan": plan, "together": together}
            return scan.add(scan_short_rows, grid, 2 * n, source, **given, **some)
        grid = scan.line(-(-scan.outer // planes), units)
        return scan.add(scan_rows, grid, 2 * n, source, **given, **whole)
    tile = units * plan.width * plan.vectors
    wanted = _CUBES * scan.info.cores
    if n <= _WALKS * tile or (units == _ALONE and _walks(scan, n)) or scan.outer * 4 >= wanted:
        return scan.add(scan_rows, scan.line(scan.outer, units), 2 * n, source, **given, **whole)
    span = n + (plan.width - 1 if plan.skewed else 0)
    if _looks_back(scan):
        tiles = -(-span // tile)
        given |= scan.words(scan.outer * tiles)
        grid = scan.line(scan.outer * tiles, units)
        given |= {"tiles": tiles, "plan": plan}
        return scan.add(scan_looking_back, grid, 2 * n, source, **given)
    wanted = greatest(-(-wanted // scan.outer), 2)
    length = -(-span // (wanted * tile)) * tile
    parts = -(-span // length)
    totals = scan.steps.room(scan.outer * parts, scan.op.dtype)
    grid = scan.line(scan.outer * parts, units)
    over: dict[str, object] = {"n": n, "parts": parts, "length": length}
    scan.add(total_parts, grid, n, source, totals=totals, plan=plan, **over)
    plan = replace(plan, parted=True)
    over |= {"target": scan.target, "totals": totals, "rows": scan.outer, "plan": plan}
    return scan.add(scan_rows, grid, 2 * n, source, **over)


def _together(scan: Scan, plan: TilePlan) -> int:
    """Return how many rows a plane scans together: more than one if planes are enough even so."""
    rows = _TOGETHER // plan.vectors
    enough = scan.info.cores * _PLANES
    while rows > 1 and not exceeds(scan.outer, rows * enough):
        rows //= 2
    return max(rows, 1)


def _looks_back(scan: Scan) -> bool:
    """Return whether the tiles of divided rows look back.

    Totals of parts first would read a row twice, which takes less time as long as it stays in a
    cache, since no words are cleared and no cube waits.
    """
    if not scan.progress or scan.plane == 1 or scan.ordered:
        return False
    nbytes: int = scan.outer * scan.n * scan.dtype.itemsize
    return bool(hinted(nbytes) > max(scan.info.caches, default=0) // 2)


def _row_tile(scan: Scan) -> tuple[TilePlan, int]:
    """Return the tile of a row, and the units of a cube."""
    info, plane, n = scan.info, scan.plane, scan.n
    width = max(1, min(_LANES, info.vector_bytes // scan.op.dtype.itemsize))
    begins = scan.offset % width == 0
    even = begins and n % width == 0
    skewed = begins and not even
    plan = TilePlan(scan.op, width, _VECTORS, scan.reverse, even, skewed=skewed)
    span = n + (width - 1 if skewed else 0)
    most: int = min(_UNITS, info.max_units)
    vectors = 1
    while vectors <= _VECTORS:
        if span <= plane * width * vectors:
            return replace(plan, vectors=vectors, wide=False), min(128, info.max_units)
        vectors *= 2
    if scan.outer == 1 and most == _UNITS and _walks(scan, n):
        return plan, _ALONE
    units = 2 * plane
    while units < most and units * width * _VECTORS < span:
        units *= 2
    return plan, min(units, most)


def _walks(scan: Scan, n: int) -> bool:
    """Return whether the largest cube scans a row faster than several launches."""
    return scan.info.max_units >= _ALONE and n <= _WALKED


def _columns_refusal(scan: Scan, request: Request) -> str | None:
    info = scan.info
    if scan.inner == 1:
        return "the axis is the last"
    if scan.product:
        return "products of complex numbers are scanned in chunks"
    if not info.has("barrier") or info.max_units < _FEWEST:
        return f"a cube has fewer than {_FEWEST} units"
    if scan.n <= _SHORT or scan.inner * scan.dtype.itemsize < _NARROW:
        return "the axis is short, or there are few columns"
    if _column_tiles(scan)[2] and (scan.ordered or not scan.progress):
        return "there are too few columns for the device, and tiles must not look back"
    return None


def _column_tiles(scan: Scan) -> tuple[ColumnPlan, int, int]:
    """Return the tile of columns, the units of a cube, and the tiles along n that look back."""
    info, itemsize = scan.info, scan.dtype.itemsize
    # The widest access that is aligned in every row.
    width: int = max(1, min(info.vector_bytes // itemsize, 8))
    while scan.inner % width or scan.offset % width:
        width //= 2
    most, accesses = min(_UNITS, info.max_units), -(-scan.inner // width)
    across = 1
    while across * width * itemsize < _LINE and across < accesses:
        across *= 2
    down = min(_DOWN, most // across)
    while down > 1 and down // 2 * _ROWS >= scan.n:
        down //= 2
    while across * down < most and across < accesses:
        across *= 2
    plan = ColumnPlan(scan.op, width, across, _ROWS, scan.reverse)
    tiles = -(-scan.n // (down * _ROWS))
    cubes = scan.outer * -(-scan.inner // plan.columns)
    walks = tiles <= 2 or cubes >= _ENOUGH * info.cores
    return plan, across * down, 0 if walks else tiles


def _add_columns(scan: Scan) -> None:
    plan, units, tiles = _column_tiles(scan)
    across = -(-scan.inner // plan.columns)
    cubes = scan.outer * across
    given: dict[str, object] = {"target": scan.target, "across": across, "plan": plan}
    given |= {"n": scan.n, "inner": scan.inner}
    if tiles:
        cubes *= tiles
        given |= {"tiles": tiles, **scan.words(cubes * plan.columns)}
    kernel = scan_columns_looking_back if tiles else scan_columns
    scan.add(kernel, scan.line(cubes, units), 2 * scan.n, scan.source, **given)


def _add_chunks(scan: Scan) -> None:
    info, inner = scan.info, scan.inner
    lanes = max(1, info.vector_bytes // scan.op.dtype.itemsize)
    along = inner == 1 and not scan.many
    if scan.product:
        width = 2
    elif along:
        width = lanes
    else:
        width = next(w for w in (lanes, 8, 4, 2, 1) if w <= lanes and inner % w == 0)
    ahead = _AHEAD if scan.many else 1
    plan = ChunkPlan(scan.op, 0, width, along, scan.reverse, scan.product, ahead)
    _scan_chunks(scan, plan, scan.source, scan.target, scan.n)


def _scan_chunks(scan: Scan, plan: ChunkPlan, source: Bound, target: Bound, n: int) -> None:
    """Add the launches that scan n elements; the totals of chunks are scanned first."""
    # With or without chunks, the order of the operations is the same.
    length, alone = (_SHORT, 0) if scan.many else (_LONG, _WHOLE_ROW)
    chunks = -(-n // length) if n > alone else 1
    plan = replace(plan, length=length if chunks > 1 else 0)
    columns = 1 if plan.along else scan.inner // plan.width
    items = scan.outer * chunks * columns
    units = min(scan.info.max_units, 64)
    index = index_of([scan.outer * n * scan.inner], scan.info)
    grid = Grid.line(-(-items // units), units, index=index)
    sizes = Chunks(items, chunks, n, scan.inner, columns)
    given: dict[str, object] = {"sizes": sizes, "plan": plan}
    scanned = source
    if chunks > 1:
        count = scan.outer * chunks * scan.inner
        totals, scanned = (scan.steps.room(count, scan.op.dtype) for _ in range(2))
        scan.add(chunk_totals, grid, n, source, totals=totals, **given)
        # Totals lie in the order of the scan, so their own scan runs forward.
        _scan_chunks(scan, replace(plan, reverse=False), totals, scanned, chunks)
    scan.add(scan_chunks, grid, 2 * n, source, totals=scanned, target=target, **given)


def _works(add: Callable[[Scan], None]) -> Callable[[Scan, Request], list[Work]]:
    """Return the works of a way whose launches a function adds."""

    def works(scan: Scan, request: Request) -> list[Work]:
        scan.steps = Steps()
        add(scan)
        return [scan.steps.work()]

    return works


WAYS: Final[tuple[Way[Scan], ...]] = (
    Way("rows", _rows_refusal, _works(_add_rows)),
    Way("columns", _columns_refusal, _works(_add_columns)),
    Way("chunks", serves, _works(_add_chunks), spare=True),
)
