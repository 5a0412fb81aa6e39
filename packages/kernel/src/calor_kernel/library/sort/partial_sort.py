"""Parts of a sort as launches: its values alone, and its first few elements.

Requirements: a device that compresses vectors in one instruction sorts keys in vectors; cubes of
planes select the first few elements. On other devices, and along axes with a stride, the whole sort
runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor.dtypes import DType, uint32, uint64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Input, Output, Refusal, Request, Scratch, Work
from calor_kernel.library.copying import as_bits
from calor_kernel.library.sort.pairs import RowTurns, outputs_of, sort_pairs
from calor_kernel.library.sort.quicksort import SPARE
from calor_kernel.library.sort.radix_select_launch import lower_select, selects
from calor_kernel.library.sort.top_k import STEP, RowParts, front_candidates, front_results
from calor_kernel.library.sort.values import sort_values

# Elements that a cube of one unit handles at least.
_GRAIN = 1 << 12
# Elements of a part of a row at least, and candidates of a unit at least.
_PART, _ROOM = 1 << 14, 1 << 10
# A row has at least so many times as many elements as are wanted, or it is sorted whole.
_FEW = 4


def sort_part(request: Request) -> Sequence[Work] | Refusal:
    """Sort for ``values``, ``indices`` or both, the first ``count`` of them along the axis."""
    (x,) = request.inputs
    said = request.attributes
    axis, count = said["axis"], said["count"]
    n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    if x.dtype.kind == "complex":
        return Refusal("complex numbers are sorted whole")
    if inner != 1:
        return Refusal("only the last axis is sorted in part")
    if x.size == 0:
        return [Work(())]
    rows = x.size // n
    if not request.info.has("compress"):
        if count == n or not selects(request.info):
            return Refusal("all elements are sorted, and those wanted are taken of them")
        return lower_select(request, rows, n, count)
    if count == n and not said["indices"]:
        return [_values(request, x.dtype, rows, n)]
    if not in_pairs(x.dtype, n, request.info):
        return Refusal("only elements of 4 bytes are sorted with an index beside them")
    if count == n:
        return [sorted_pairs(request, rows, n, (False, True))]
    if count * _FEW > n:
        return Refusal("only a few of the elements are found without sorting all")
    return [_front(request, rows, n, count)]


def in_pairs(dtype: DType, n: int, info: DeviceInfo) -> bool:
    """Return whether rows of n elements are sorted as pairs of a key and an index."""
    small = dtype.itemsize <= 4 and dtype.kind != "complex"
    return small and n < 1 << 32 and info.has("compress")


def sorted_pairs(request: Request, rows: int, n: int, wanted: tuple[bool, bool]) -> Work:
    """Return the work that sorts dense rows for values, indices or both."""
    (x,) = request.inputs
    turns = max(1, min(rows, _GRAIN // n))
    units, room = -(-rows // turns), min(n, SPARE)
    values, indices = outputs_of(x.dtype, wanted)
    made = launch(
        sort_pairs,
        Grid.line(units),
        Effort("sort pairs", 0, x.size * (2 * x.dtype.itemsize + 8)),
        source=operand(0, x),
        pairs=Bound(Scratch(0), uint64),
        spare=Bound(Scratch(1), uint64),
        values=values,
        indices=indices,
        over=RowTurns(rows, turns, n),
        room=room,
        descending=bool(request.attributes["descending"]),
        wanted=wanted,
    )
    return Work((made,), (rows * n * 8, units * room * 8))


def _front(request: Request, rows: int, n: int, count: int) -> Work:
    (x,) = request.inputs
    said, cores = request.attributes, request.info.cores
    parts = max(1, min(-(-cores // rows), n // max(_PART, count)))
    length = -(-n // parts)
    parts = -(-n // length)
    if n - (parts - 1) * length < count:
        parts, length = 1, n
    items = rows * parts
    turns = -(-items // min(items, 4 * cores))
    units = -(-items // turns)
    room = max(_ROOM, -(-4 * count // STEP) * STEP)
    candidates = parts * count
    pool, spare, front, aside = (Bound(Scratch(i), uint64) for i in range(4))
    first = launch(
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
        descending=bool(said["descending"]),
    )
    bits = as_bits(x, request.info)
    wanted = (bool(said["values"]), bool(said["indices"]))
    turns = max(1, min(rows, _GRAIN // candidates))
    values, indices = outputs_of(bits.dtype, wanted)
    last = launch(
        front_results,
        Grid.line(-(-rows // turns)),
        Effort("sort front", 0, 16 * rows * candidates),
        source=operand(0, bits),
        front=front,
        spare=aside,
        values=values,
        indices=indices,
        over=RowTurns(rows, turns, n),
        candidates=candidates,
        count=count,
        wanted=wanted,
    )
    return Work((first, last), (units * room * 8,) * 2 + (rows * candidates * 8,) * 2)


def _values(request: Request, dtype: DType, rows: int, n: int) -> Work:
    (x,) = request.inputs
    word = uint64 if dtype.itemsize == 8 else uint32
    own = dtype.itemsize < 4
    turns = max(1, min(rows, _GRAIN // n))
    units, room = -(-rows // turns), min(n, SPARE)
    scratch = [units * room * word.itemsize]
    if own:
        scratch.append(rows * n * word.itemsize)
    made = launch(
        sort_values,
        Grid.line(units),
        Effort("sort values", 0, 2 * x.size * dtype.itemsize),
        source=Bound(Input(0, x.offset), dtype),
        keys=Bound(Scratch(1) if own else Output(0), word),
        spare=Bound(Scratch(0), word),
        target=Bound(Output(0), dtype),
        over=RowTurns(rows, turns, n),
        room=room,
        descending=bool(request.attributes["descending"]),
        own=own,
    )
    return Work((made,), tuple(scratch))
