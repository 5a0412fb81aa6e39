"""Parts of a sort as launches: its values alone, and its first few elements.

Requirements: a device that compresses vectors in one instruction sorts keys in vectors; cubes of
planes select the first few elements, and cubes of one unit sort a few candidates. On other devices,
and along axes with a stride, the whole sort runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from calor.dtypes import DType, uint32, uint64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, operand
from calor_kernel.contract.ways import Way, ranked
from calor_kernel.contract.work import Input, Output, Refusal, Request, Work
from calor_kernel.library.copying import as_bits
from calor_kernel.library.sort.fronts import (
    STEP,
    RowParts,
    front_candidates,
    front_results,
)
from calor_kernel.library.sort.quicksort import SPARE
from calor_kernel.library.sort.radix_select_launch import select_refusal, select_works
from calor_kernel.library.sort.vector_sorts import (
    RowTurns,
    outputs_of,
    sort_pairs,
    sort_values,
)
from calor_kernel.library.steps import Steps

# Elements that a cube of one unit handles at least.
_GRAIN = 1 << 12
# Elements of a part of a row at least, and candidates of a unit at least.
_PART, _ROOM = 1 << 14, 1 << 10
# The same where each candidate is added alone, and fewer are sorted again.
_SCALAR_ROOM = 3 * STEP
# A row has at least so many times as many elements as are wanted, or it is sorted whole.
_FEW = 4


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of a sort of dense ``rows`` of n elements is wanted."""

    rows: int
    n: int
    count: int
    descending: bool
    wanted: tuple[bool, bool]

    @staticmethod
    def of(request: Request) -> Part:
        """Return the part that a request asks for."""
        said, size = request.attributes, request.inputs[0].size
        n = request.inputs[0].shape[said["axis"]]
        wanted = bool(said["values"]), bool(said["indices"])
        return Part(size // n, n, said["count"], bool(said["descending"]), wanted)


def sort_part(request: Request) -> Sequence[Work] | Refusal:
    """Sort for ``values``, ``indices`` or both, the first ``count`` of them along the axis."""
    (x,) = request.inputs
    if x.dtype.kind == "complex":
        return Refusal("complex numbers are sorted whole")
    if prod(x.shape[request.attributes["axis"] + 1 :]) != 1:
        return Refusal("only the last axis is sorted in part")
    if x.size == 0:
        return [Work(())]
    found = ranked(WAYS, Part.of(request), request)
    return found or Refusal("; ".join(f"{one.variant}: {one.reason}" for one in found.dropped))


def _select_refusal(part: Part, request: Request) -> str | None:
    return "all elements are wanted" if part.count == part.n else select_refusal(request, part.n)


def _values_refusal(part: Part, request: Request) -> str | None:
    if part.count != part.n or part.wanted[1]:
        return "not the values alone are wanted"
    return None if request.info.has("compress") else "the device does not compress vectors"


def _pairs_refusal(part: Part, request: Request) -> str | None:
    if part.count != part.n:
        return "a few elements are found without sorting all"
    if part.wanted == (True, False):
        return "values alone are sorted without indices"
    return pairs_refusal(request.inputs[0].dtype, part.n, request.info)


def _front_refusal(part: Part, request: Request) -> str | None:
    if part.count * _FEW > part.n:
        return "only a few of the elements are found without sorting all"
    if not sorts_candidates(request.info):
        return "cubes of many units select the first few elements"
    return _size_refusal(request.inputs[0].dtype, part.n)


def sorts_candidates(info: DeviceInfo) -> bool:
    """Return whether the first few elements are found among candidates of cubes of one unit."""
    return info.has("compress") or info.max_units == 1


def pairs_refusal(dtype: DType, n: int, info: DeviceInfo) -> str | None:
    """Return why rows of n elements are not sorted as pairs of a key and an index."""
    if not info.has("compress"):
        return "the device does not compress vectors"
    return _size_refusal(dtype, n)


def _size_refusal(dtype: DType, n: int) -> str | None:
    if dtype.itemsize > 4 or dtype.kind == "complex" or n >= 1 << 32:
        return "only elements of 4 bytes are sorted with an index beside them"
    return None


def _turns(rows: int, n: int) -> tuple[int, int]:
    """Return the rows of a unit, and the units."""
    turns = max(1, min(rows, _GRAIN // n))
    return turns, -(-rows // turns)


def sorted_pairs(request: Request, rows: int, n: int, wanted: tuple[bool, bool]) -> Work:
    """Return the work that sorts dense rows for values, indices or both."""
    (x,) = request.inputs
    (turns, units), room = _turns(rows, n), min(n, SPARE)
    values, indices = outputs_of(x.dtype, wanted)
    steps = Steps()
    steps.add(
        sort_pairs,
        Grid.line(units),
        Effort("sort pairs", 0, x.size * (2 * x.dtype.itemsize + 8)),
        source=operand(0, x),
        pairs=steps.room(rows * n, uint64),
        spare=steps.room(units * room, uint64),
        values=values,
        indices=indices,
        over=RowTurns(rows, turns, n),
        room=room,
        descending=bool(request.attributes["descending"]),
        wanted=wanted,
    )
    return steps.work()


def _front(part: Part, request: Request) -> list[Work]:
    (x,), cores = request.inputs, request.info.cores
    rows, n, count = part.rows, part.n, part.count
    parts = max(1, min(-(-cores // rows), n // max(_PART, count)))
    length = -(-n // parts)
    parts = -(-n // length)
    if n - (parts - 1) * length < count:
        parts, length = 1, n
    items = rows * parts
    turns = -(-items // min(items, 4 * cores))
    units = -(-items // turns)
    compresses = request.info.has("compress")
    least = _ROOM if compresses else _SCALAR_ROOM
    room = max(least, -(-4 * count // STEP) * STEP)
    candidates = parts * count
    steps = Steps()
    pool, spare = (steps.room(units * room, uint64) for _ in range(2))
    front, aside = (steps.room(rows * candidates, uint64) for _ in range(2))
    steps.add(
        front_candidates,
        Grid.line(units),
        Effort("sort candidates", 0, x.size * x.dtype.itemsize),
        source=operand(0, x),
        pool=pool,
        spare=spare,
        front=front,
        over=RowParts(items, turns, parts, n, length),
        count=count,
        room=room,
        descending=part.descending,
        compresses=compresses,
    )
    bits = as_bits(x, request.info)
    turns, last_units = _turns(rows, candidates)
    values, indices = outputs_of(bits.dtype, part.wanted)
    steps.add(
        front_results,
        Grid.line(last_units),
        Effort("sort front", 0, 16 * rows * candidates),
        source=operand(0, bits),
        front=front,
        spare=aside,
        values=values,
        indices=indices,
        over=RowTurns(rows, turns, n),
        candidates=candidates,
        count=count,
        wanted=part.wanted,
        compresses=compresses,
    )
    return [steps.work()]


def _values(part: Part, request: Request) -> list[Work]:
    (x,), rows, n = request.inputs, part.rows, part.n
    dtype = x.dtype
    word = uint64 if dtype.itemsize == 8 else uint32
    own = dtype.itemsize < 4
    (turns, units), room = _turns(rows, n), min(n, SPARE)
    steps = Steps()
    spare = steps.room(units * room, word)
    steps.add(
        sort_values,
        Grid.line(units),
        Effort("sort values", 0, 2 * x.size * dtype.itemsize),
        source=Bound(Input(0, x.offset), dtype),
        keys=steps.room(rows * n, word) if own else Bound(Output(0), word),
        spare=spare,
        target=Bound(Output(0), dtype),
        over=RowTurns(rows, turns, n),
        room=room,
        descending=part.descending,
        own=own,
    )
    return [steps.work()]


WAYS: Final[tuple[Way[Part], ...]] = (
    Way(
        "select",
        _select_refusal,
        lambda part, request: select_works(request, part.rows, part.n, part.count),
    ),
    Way("values", _values_refusal, _values),
    Way(
        "pairs",
        _pairs_refusal,
        lambda part, request: [sorted_pairs(request, part.rows, part.n, part.wanted)],
    ),
    Way("candidates", _front_refusal, _front),
)
