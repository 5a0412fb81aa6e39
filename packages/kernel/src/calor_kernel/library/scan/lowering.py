"""Scans as launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from calor.dtypes import DType, bool_, complex64, complex128, float32, float64, uint8
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Launch, Output, Request, Scratch, Work, lowering
from calor_kernel.library.reduce.reduction_ops import ReductionOp
from calor_kernel.library.scan.chunks import ChunkPlan, Chunks, chunk_totals, scan_chunks
from calor_kernel.library.scan.columns_launch import column_scan
from calor_kernel.library.scan.rows_launch import RowScan

_KINDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
_PARTS = {complex64: float32, complex128: float64}
# Elements of a chunk: on cubes of one unit, and of many, where each unit has a chunk.
_LONG, _SHORT = 1 << 13, 1 << 6
# Elements of a row that a cube of one unit scans alone; a chunk longer than any row.
_ALONE, _WHOLE = 1 << 17, 1 << 62


@lowering("cumsum", "cumprod", "cummax", "cummin")
def lower_scan(request: Request) -> Sequence[Work]:
    """Scan along an axis in as many levels as its length needs."""
    (x,) = request.inputs
    axis, reverse, info = request.attributes["axis"], request.attributes["reverse"], request.info
    if x.size == 0:
        return [Work(())]
    kind = _KINDS[request.op]
    numbers = 2 if x.dtype.kind == "complex" else 1
    product = numbers == 2 and kind == "prod"
    dtype: DType = _PARTS.get(x.dtype, uint8 if x.dtype is bool_ else x.dtype)
    outer, n = prod(x.shape[:axis]), x.shape[axis]
    inner = prod(x.shape[axis + 1 :]) * numbers
    half = dtype.kind == "float" and dtype.itemsize == 2
    op, offset = ReductionOp(kind, float32 if half else dtype), x.offset * numbers
    source, target = Bound(Input(0, offset), dtype), Bound(Output(), dtype)
    if inner == 1 and info.max_units > 1:
        rows = RowScan(request, op, outer)
        launches = rows.level(source, target, n, reverse, offset)
        return [Work(tuple(launches), tuple(rows.scratch))]
    if n > _SHORT and info.max_units > 1 and not product:
        found = column_scan(request, op, (outer, n, inner), source, offset)
        if found is not None:
            return [Work(tuple(found[0]), found[1])]
    chunked = _ChunkScan(info, request.op, op, outer, inner, product)
    launches = chunked.level(source, target, n, reverse)
    return [Work(tuple(launches), tuple(chunked.scratch))]


class _ChunkScan:
    def __init__(
        self, info: DeviceInfo, label: str, op: ReductionOp, outer: int, inner: int, product: bool
    ) -> None:
        self.label, self.op, self.outer, self.inner = label, op, outer, inner
        self.scratch: list[int] = []
        self.length = _LONG if info.max_units == 1 else _SHORT
        # Elements of a row that a cube of one unit scans in one chunk; with or without it, the
        # order of the operations is the same.
        self.alone = _ALONE if info.max_units == 1 else 0
        self.units = min(info.max_units, 64)
        lanes = max(1, info.vector_bytes // op.dtype.itemsize)
        along = inner == 1 and info.max_units == 1
        if product:
            width = 2
        elif along:
            width = lanes
        else:
            width = next(w for w in (lanes, 8, 4, 2, 1) if w <= lanes and inner % w == 0)
        self.columns = 1 if along else inner // width
        self.plan = ChunkPlan(op, _WHOLE, width, along, False, product)

    def level(self, source: Bound, target: Bound, n: int, reverse: bool) -> list[Launch]:
        """Return the launches that scan n elements; the totals of chunks are scanned first."""
        chunks = -(-n // self.length) if n > self.alone else 1
        length = self.length if chunks > 1 else _WHOLE
        plan = replace(self.plan, length=length, reverse=reverse)
        items = self.outer * chunks * self.columns
        grid = Grid.line(-(-items // self.units), self.units)
        sizes = Chunks(items, chunks, n, self.inner, self.columns)
        given = {"source": source, "sizes": sizes, "plan": plan}
        nbytes = self.outer * n * self.inner * self.op.dtype.itemsize
        before: list[Launch] = []
        scanned = source
        if chunks > 1:
            totals, scanned = (self._totals(chunks) for _ in range(2))
            effort = Effort(self.label, 0, nbytes)
            before.append(launch(chunk_totals, grid, effort, totals=totals, **given))
            # Totals lie in the order of the scan, so their own scan runs forward.
            before += self.level(totals, scanned, chunks, False)
        effort = Effort(self.label, 0, 2 * nbytes)
        last = launch(scan_chunks, grid, effort, totals=scanned, target=target, **given)
        return [*before, last]

    def _totals(self, chunks: int) -> Bound:
        accumulate = self.op.dtype
        self.scratch.append(self.outer * chunks * self.inner * accumulate.itemsize)
        return Bound(Scratch(len(self.scratch) - 1), accumulate)
