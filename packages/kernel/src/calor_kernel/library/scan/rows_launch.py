"""Launches of scans along rows, for cubes of many units.

Requirements: a row that one cube scans is one launch. A few long rows are divided: their tiles look
back on a device with forward progress, else their parts are totalled first. Results are bitwise
reproducible on request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor.dtypes import int32, uint64
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Request, Scratch
from calor_kernel.library.reduce.reduction_ops import ReductionOp
from calor_kernel.library.scan.decoupled_look_back import clear
from calor_kernel.library.scan.rows import scan_rows, total_parts
from calor_kernel.library.scan.rows_look_back import scan_looking_back
from calor_kernel.library.scan.tiles import TilePlan

# Units of a cube that shares a row at most, vectors of a unit, lanes of a vector at most.
_UNITS, _VECTORS, _LANES = 256, 4, 8
# Cubes per core of divided rows.
_CUBES: Final = 8
# Units of a cube that has a core for its one row, and the elements of that row at most.
_ALONE, _WALKED = 1024, 1 << 17


class RowScan:
    """The launches of scans of ``rows`` dense rows, and their scratch memory."""

    def __init__(self, request: Request, op: ReductionOp, rows: int) -> None:
        self.info, self.rows, self.label = request.info, rows, request.op
        self.scratch: list[int] = []
        self.plane = self.info.planes[0]
        lanes = max(1, min(_LANES, self.info.vector_bytes // op.dtype.itemsize))
        self.plan = TilePlan(op, lanes, 1, False, False)
        self.looks_back = (
            self.info.has("forward_progress") and self.plane > 1 and uint64 in self.info.dtypes
        ) and not (request.deterministic and op.rounds)

    def level(
        self, source: Bound, target: Bound, n: int, reverse: bool, offset: int = 0
    ) -> list[Launch]:
        """Return the launches that scan rows of n elements; ``offset``: the source's first."""
        plan, units = self._tile(n, reverse, offset)
        if not plan.wide:
            cubes = -(-self.rows // (units // self.plane))
            return [self._scan(plan, units, cubes, source, source, target, n)]
        tile = units * plan.width * plan.vectors
        enough = _CUBES * self.info.cores
        if n <= 2 * tile or (units == _ALONE and self._walks(n)) or self.rows * 4 >= enough:
            return [self._scan(plan, units, self.rows, source, source, target, n)]
        if self.looks_back:
            return self._looking_back(plan, units, source, target, n)
        return self._divided(plan, units, source, target, n)

    def _tile(self, n: int, reverse: bool, offset: int) -> tuple[TilePlan, int]:
        """Return the tile of a row, and the units of a cube."""
        even = n % self.plan.width == 0 and offset % self.plan.width == 0
        plan = replace(self.plan, reverse=reverse, even=even)
        most = min(_UNITS, self.info.max_units)
        vectors = 1
        while vectors <= _VECTORS:
            if n <= self.plane * plan.width * vectors:
                cube = min(128, self.info.max_units)
                return replace(plan, vectors=vectors, wide=False), cube
            vectors *= 2
        plan = replace(plan, vectors=_VECTORS)
        if self.rows == 1 and most == _UNITS and self._walks(n):
            return plan, _ALONE
        units = 2 * self.plane
        while units < most and units * plan.width * _VECTORS < n:
            units *= 2
        return plan, min(units, most)

    def _walks(self, n: int) -> bool:
        """Return whether the largest cube scans a row faster than several launches."""
        return self.info.max_units >= _ALONE and n <= _WALKED

    def _scan(
        self,
        plan: TilePlan,
        units: int,
        cubes: int,
        source: Bound,
        totals: Bound,
        target: Bound,
        n: int,
        parts: int = 1,
        length: int = 0,
    ) -> Launch:
        return launch(
            scan_rows,
            Grid.line(cubes, units, self.plane),
            self._effort(source, 2 * n),
            source=source,
            totals=totals,
            target=target,
            rows=self.rows,
            parts=parts,
            n=n,
            length=length,
            plan=plan,
        )

    def _divided(
        self, plan: TilePlan, units: int, source: Bound, target: Bound, n: int
    ) -> list[Launch]:
        tile = units * plan.width * plan.vectors
        wanted = greatest(-(-_CUBES * self.info.cores // self.rows), 2)
        length = -(-n // (wanted * tile)) * tile
        parts = -(-n // length)
        totals, scanned = self._totals(parts), self._totals(parts)
        cubes = self.rows * parts
        first = launch(
            total_parts,
            Grid.line(cubes, units, self.plane),
            self._effort(source, n),
            source=source,
            totals=totals,
            parts=parts,
            n=n,
            length=length,
            plan=plan,
        )
        # Totals lie in the order of the scan, so their own scan runs forward.
        between = self.level(totals, scanned, parts, False)
        plan = replace(plan, parted=True)
        last = self._scan(plan, units, cubes, source, scanned, target, n, parts, length)
        return [first, *between, last]

    def _looking_back(
        self, plan: TilePlan, units: int, source: Bound, target: Bound, n: int
    ) -> list[Launch]:
        tiles = -(-n // (units * plan.width * plan.vectors))
        cubes = self.rows * tiles
        count = cubes * (2 if plan.op.dtype.itemsize == 8 else 1)
        # The tickets follow the words in the same scratch memory, which is cleared by one launch.
        self.scratch.append(8 * count + 8)
        number = len(self.scratch) - 1
        words = Bound(Scratch(number), uint64)
        last = launch(
            scan_looking_back,
            Grid.line(cubes, units, self.plane),
            self._effort(source, 2 * n),
            source=source,
            target=target,
            words=words,
            tickets=Bound(Scratch(number, 2 * count), int32),
            tiles=tiles,
            n=n,
            plan=plan,
        )
        return [clear(words, count + 1, Effort(self.label, 0, 8 * count)), last]

    def _totals(self, parts: int) -> Bound:
        accumulate = self.plan.op.dtype
        self.scratch.append(self.rows * parts * accumulate.itemsize)
        return Bound(Scratch(len(self.scratch) - 1), accumulate)

    def _effort(self, source: Bound, elements: int) -> Effort:
        """Return the effort of launches that move so many elements a row."""
        return Effort(self.label, 0, self.rows * elements * source.dtype.itemsize)
