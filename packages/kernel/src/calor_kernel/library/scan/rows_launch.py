"""Scans along rows as launches, for cubes of many units.

Requirements: a row that a cube scans alone is one launch; long rows of which there are few are
divided, and looked back along where cubes that run go on, else totalled before they are scanned;
the same bits each time where that is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from calor.dtypes import DType, int32, int64, uint64
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Scratch
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.scan.look_back import scan_looking_back
from calor_kernel.library.scan.rows import scan_rows, total_parts
from calor_kernel.library.scan.tickets import clear_words
from calor_kernel.library.scan.tiles import TilePlan

_SIZE: Final = Scalar(int64, nonnegative=True)
# Units of a cube that shares a row at most, vectors of a unit, lanes of a vector at most.
_UNITS, _VECTORS, _LANES = 256, 4, 8
# Cubes for each that runs at a time, of rows that are divided.
_CUBES: Final = 8
# Units of a cube that has a row and the core for itself, and the elements of the row at most.
_ALONE, _WALKED = 1024, 1 << 17
# Units that clear words together.
_CLEARING: Final = 256


class RowScan:
    """The launches of scans of ``rows`` dense rows, and their scratch memory in ``scratch``."""

    def __init__(
        self,
        info: DeviceInfo,
        kind: str,
        accumulate: DType,
        identity: float,
        rows: int,
        scratch: list[int],
        label: str,
        deterministic: bool,
    ) -> None:
        self.info, self.rows, self.scratch, self.label = info, rows, scratch, label
        self.plane = info.planes[0]
        lanes = max(1, min(_LANES, info.vector_bytes // accumulate.itemsize))
        self.plan = TilePlan(kind, accumulate, identity, lanes, 1, False, False)
        rounds = accumulate.kind == "float" and kind in ("sum", "prod")
        self.looks_back = (
            info.has("forward_progress") and self.plane > 1 and uint64 in info.dtypes
        ) and not (deterministic and rounds)

    def level(
        self,
        source: Argument,
        target: Argument,
        taken: DType,
        written: DType,
        n: int,
        reverse: bool,
    ) -> list[Launch]:
        """Return the launches that scan rows of n elements."""
        plan, units = self._tile(n, reverse, source)
        shapes = (Buffer(taken, writable=False), Buffer(written))
        lanes = plan.width * plan.vectors
        if not plan.wide:
            each = units // self.plane
            return [self._scan(plan, units, -(-self.rows // each), source, target, shapes, n)]
        tile = units * lanes
        enough = _CUBES * self.info.cores
        if n <= 2 * tile or (units == _ALONE and self._walks(n)) or self.rows * 4 >= enough:
            return [self._scan(plan, units, self.rows, source, target, shapes, n)]
        if self.looks_back:
            return self._looking_back(plan, units, source, target, shapes, n)
        return self._divided(plan, units, source, target, shapes, n)

    def _tile(self, n: int, reverse: bool, source: Argument) -> tuple[TilePlan, int]:
        """Return how much of a row is scanned at a time, and the units of a cube."""
        offset = getattr(source, "offset", 0)
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
        """Return whether the largest cube scans a row sooner than several launches begin."""
        return self.info.max_units >= _ALONE and n <= _WALKED

    def _scan(
        self,
        plan: TilePlan,
        units: int,
        cubes: int,
        source: Argument,
        target: Argument,
        shapes: tuple[Buffer, Buffer],
        n: int,
        totals: Argument | None = None,
        parts: int = 1,
        chunk: int = 0,
    ) -> Launch:
        read, write = shapes
        before = read if totals is None else Buffer(plan.accumulate, writable=False)
        return self._launch(
            scan_rows,
            (read, before, write, _SIZE, _SIZE, _SIZE, _SIZE),
            plan,
            units,
            cubes,
            (source, source if totals is None else totals, target, self.rows, parts, n, chunk),
            2 * self.rows * n * read.dtype.itemsize,
        )

    def _divided(
        self,
        plan: TilePlan,
        units: int,
        source: Argument,
        target: Argument,
        shapes: tuple[Buffer, Buffer],
        n: int,
    ) -> list[Launch]:
        tile = units * plan.width * plan.vectors
        wanted = greatest(-(-_CUBES * self.info.cores // self.rows), 2)
        chunk = -(-n // (wanted * tile)) * tile
        parts = -(-n // chunk)
        place, scanned = self._room(parts), self._room(parts)
        read, _ = shapes
        first = self._launch(
            total_parts,
            (read, Buffer(plan.accumulate), _SIZE, _SIZE, _SIZE),
            plan,
            units,
            self.rows * parts,
            (source, place, parts, n, chunk),
            self.rows * n * read.dtype.itemsize,
        )
        # Totals lie in the order of the scan, so theirs runs forward.
        dtype = plan.accumulate
        between = self.level(place, scanned, dtype, dtype, parts, False)
        plan = replace(plan, parted=True)
        cubes = self.rows * parts
        last = self._scan(plan, units, cubes, source, target, shapes, n, scanned, parts, chunk)
        return [first, *between, last]

    def _looking_back(
        self,
        plan: TilePlan,
        units: int,
        source: Argument,
        target: Argument,
        shapes: tuple[Buffer, Buffer],
        n: int,
    ) -> list[Launch]:
        tiles = -(-n // (units * plan.width * plan.vectors))
        items = self.rows * tiles
        count = items * (2 if plan.accumulate.itemsize == 8 else 1)
        # The tickets lie behind the words, in the same piece that is cleared.
        self.scratch.append(8 * count + 8)
        number = len(self.scratch) - 1
        words = Scratch(number)
        cleared = Launch(
            Build(clear_words, (Buffer(uint64), _SIZE), (), (_CLEARING, 1, 1)),
            (-(-(count + 1) // _CLEARING), 1, 1),
            (words, count + 1),
            0,
            8 * count,
            self.label,
        )
        last = self._launch(
            scan_looking_back,
            (*shapes, Buffer(uint64), Buffer(int32), _SIZE, _SIZE),
            plan,
            units,
            items,
            (source, target, words, Scratch(number, 2 * count), tiles, n),
            2 * self.rows * n * shapes[0].dtype.itemsize,
        )
        return [cleared, last]

    def _room(self, parts: int) -> Scratch:
        self.scratch.append(self.rows * parts * self.plan.accumulate.itemsize)
        return Scratch(len(self.scratch) - 1)

    def _launch(
        self,
        function: KernelFunction,
        signature: tuple[Any, ...],
        plan: TilePlan,
        units: int,
        cubes: int,
        arguments: tuple[Argument, ...],
        nbytes: int,
    ) -> Launch:
        build = Build(function, signature, (("plan", plan),), (units, 1, 1), self.plane)
        return Launch(build, (cubes, 1, 1), arguments, 0, nbytes, self.label)
