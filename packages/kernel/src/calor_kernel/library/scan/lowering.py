"""Scans as launches."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from calor.dtypes import DType, bool_, complex64, complex128, float32, float64, int64, uint8
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Request,
    Scratch,
    Work,
    lowering,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.scan.chunks import chunk_totals, scan_chunks
from calor_kernel.library.scan.columns_launch import column_scan
from calor_kernel.library.scan.rows_launch import RowScan

_KINDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
_PARTS = {complex64: float32, complex128: float64}
_SIZE = Scalar(int64, nonnegative=True)
# Elements of a chunk: on cubes of one unit, and of many, where each unit has a chunk.
_LONG, _SHORT = 1 << 13, 1 << 6
# Elements of a row that a cube of one unit scans alone; a chunk that holds any row.
_ALONE, _WHOLE = 1 << 17, 1 << 62


@lowering("cumsum", "cumprod", "cummax", "cummin")
def lower_scan(request: Request) -> Sequence[Work]:
    """Scan along an axis in as many levels as its length asks for."""
    (x,) = request.inputs
    axis = request.attributes["axis"]
    if x.size == 0:
        return [Work(())]
    kind = _KINDS[request.op]
    pair = x.dtype.kind == "complex"
    dtype = _PARTS.get(x.dtype, uint8 if x.dtype is bool_ else x.dtype)
    outer, n = prod(x.shape[:axis]), x.shape[axis]
    inner = prod(x.shape[axis + 1 :]) * (2 if pair else 1)
    scan = _Scan(request, kind, dtype, outer, inner, pair and kind == "prod")
    source = Input(0, x.offset * (2 if pair else 1))
    if inner == 1 and request.info.max_units > 1:
        rows = RowScan(
            request.info,
            kind,
            scan.accumulate,
            scan.identity,
            outer,
            scan.scratch,
            request.op,
            request.deterministic,
        )
        made = rows.level(source, Output(0), dtype, dtype, n, request.attributes["reverse"])
        return [Work(tuple(made), tuple(scan.scratch))]
    if n > _SHORT and request.info.max_units > 1 and not (pair and kind == "prod"):
        sizes, reverse = (outer, n, inner), request.attributes["reverse"]
        found = column_scan(
            request.info,
            kind,
            dtype,
            scan.accumulate,
            scan.identity,
            sizes,
            source,
            reverse,
            request.op,
            request.deterministic,
        )
        if found is not None:
            return [Work(tuple(found[0]), found[1])]
    launches = scan.level(source, Output(0), dtype, dtype, n, request.attributes["reverse"])
    return [Work(tuple(launches), tuple(scan.scratch))]


class _Scan:
    def __init__(
        self, request: Request, kind: str, dtype: DType, outer: int, inner: int, pair: bool
    ) -> None:
        self.info: DeviceInfo = request.info
        self.name = request.op
        self.kind = kind
        self.outer, self.inner, self.pair = outer, inner, pair
        half = dtype.kind == "float" and dtype.itemsize == 2
        self.accumulate = float32 if half else dtype
        self.scratch: list[int] = []
        self.along = inner == 1 and self.info.max_units == 1
        self.chunk = _LONG if self.info.max_units == 1 else _SHORT
        # Rows that a cube of one unit scans alone, in one walk; its company changes no order.
        self.alone = _ALONE if self.info.max_units == 1 else 0
        lanes = max(1, self.info.vector_bytes // self.accumulate.itemsize)
        if pair:
            self.width = 2
        elif self.along:
            self.width = lanes
        else:
            self.width = next(w for w in (lanes, 8, 4, 2, 1) if w <= lanes and inner % w == 0)

    def level(
        self,
        source: Argument,
        target: Argument,
        taken: DType,
        written: DType,
        n: int,
        reverse: bool,
    ) -> list[Launch]:
        """Return the launches that scan n elements; their totals are scanned first."""
        chunks = -(-n // self.chunk) if n > self.alone else 1
        before: list[Launch] = []
        totals: Argument = source
        totals_dtype = taken
        if chunks > 1:
            place = Scratch(len(self.scratch))
            result = Scratch(len(self.scratch) + 1)
            count = self.outer * chunks * self.inner
            self.scratch += [count * self.accumulate.itemsize] * 2
            before.append(self._launch(False, source, source, place, taken, taken, n, reverse))
            # Totals lie in the order of the scan, so theirs runs forward.
            before += self.level(place, result, self.accumulate, self.accumulate, chunks, False)
            totals, totals_dtype = result, self.accumulate
        last = self._launch(True, source, totals, target, taken, totals_dtype, n, reverse, written)
        return [*before, last]

    def _launch(
        self,
        whole: bool,
        source: Argument,
        totals: Argument,
        target: Argument,
        taken: DType,
        totals_dtype: DType,
        n: int,
        reverse: bool,
        written: DType | None = None,
    ) -> Launch:
        chunks = -(-n // self.chunk) if n > self.alone else 1
        columns = 1 if self.along else self.inner // self.width
        items = self.outer * chunks * columns
        units = min(self.info.max_units, 64)
        keywords = {
            "accumulate": self.accumulate,
            "along": self.along,
            "chunk": self.chunk if chunks > 1 else _WHOLE,
            "identity": self.identity,
            "kind": self.kind,
            "pair": self.pair,
            "reverse": reverse,
            "width": self.width,
        }
        read = Buffer(taken, writable=False)
        numbers = (items, chunks, n, self.inner, columns)
        sizes = (_SIZE,) * len(numbers)
        nbytes = self.outer * n * self.inner * self.accumulate.itemsize
        arguments: tuple[Argument, ...]
        if whole:
            build = Build(
                scan_chunks,
                (read, Buffer(totals_dtype, writable=False), Buffer(written or taken), *sizes),
                tuple(sorted(keywords.items())),
                (units, 1, 1),
            )
            arguments = (source, totals, target, *numbers)
        else:
            build = Build(
                chunk_totals,
                (read, Buffer(self.accumulate), *sizes),
                tuple(sorted(keywords.items())),
                (units, 1, 1),
            )
            arguments = (source, target, *numbers)
        cubes = (-(-items // units), 1, 1)
        return Launch(build, cubes, arguments, 0, nbytes * (2 if whole else 1), self.name)

    @property
    def identity(self) -> float:
        """The number that changes nothing."""
        if self.kind not in ("max", "min"):
            return {"sum": 0, "prod": 1}[self.kind]
        dtype = self.accumulate
        if dtype.kind == "float":
            return -inf if self.kind == "max" else inf
        bits = dtype.itemsize * 8
        low = -(1 << (bits - 1)) if dtype.kind == "int" else 0
        high = (1 << (bits - 1 if dtype.kind == "int" else bits)) - 1
        return low if self.kind == "max" else high
