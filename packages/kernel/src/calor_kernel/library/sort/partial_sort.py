"""Parts of a sort as launches: its values alone, and its first few elements.

Requirements: where the chosen lanes of a vector are moved together in one instruction, values are
sorted by their keys in vectors; cubes of planes select the first few; elsewhere, and along axes
whose elements do not lie one after another, the whole sort is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor.dtypes import DType, int64, uint32, uint64
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
    Work,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.copying import as_bits
from calor_kernel.library.sort.pairs import sort_pairs
from calor_kernel.library.sort.quick import ASIDE
from calor_kernel.library.sort.radix_select_launch import lower_select, selects
from calor_kernel.library.sort.top_k import STEP, front_candidates, front_results
from calor_kernel.library.sort.values import sort_values

_SIZE = Scalar(int64, nonnegative=True)
# Elements that a cube of one unit handles at least.
_GRAIN = 1 << 12
# Elements of a part of a row at least, and candidates that a unit has room for at least.
_PART, _ROOM = 1 << 14, 1 << 10
# Candidates are chosen where there are so many times as many elements.
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
    """Return whether rows of n elements are sorted as numbers of a key and an index."""
    small = dtype.itemsize <= 4 and dtype.kind != "complex"
    return small and n < 1 << 32 and info.has("compress")


def sorted_pairs(request: Request, rows: int, n: int, wanted: tuple[bool, bool]) -> Work:
    """Return the work that sorts dense rows for values, indices or both."""
    (x,) = request.inputs
    turns = max(1, min(rows, _GRAIN // n))
    units, room = -(-rows // turns), min(n, ASIDE)
    types = (x.dtype, int64)
    outputs = (Output(0), Output(1 if all(wanted) else 0))
    used = [Buffer(types[i] if wanted[i] else types[1 - i]) for i in range(2)]
    words = Buffer(uint64)
    build = Build(
        sort_pairs,
        (Buffer(x.dtype, writable=False), words, words, *used, *(_SIZE,) * 4),
        (("descending", bool(request.attributes["descending"])), ("wanted", wanted)),
    )
    launch = Launch(
        build,
        (units, 1, 1),
        (Input(0, x.offset), Scratch(0), Scratch(1), *outputs, rows, turns, n, room),
        0,
        x.size * (2 * x.dtype.itemsize + 8),
        "sort pairs",
    )
    return Work((launch,), (rows * n * 8, units * room * 8))


def _front(request: Request, rows: int, n: int, count: int) -> Work:
    (x,) = request.inputs
    said, cores = request.attributes, request.info.cores
    parts = max(1, min(-(-cores // rows), n // max(_PART, count)))
    part = -(-n // parts)
    parts = -(-n // part)
    if n - (parts - 1) * part < count:
        parts, part = 1, n
    items = rows * parts
    turns = -(-items // min(items, 4 * cores))
    units = -(-items // turns)
    room = max(_ROOM, -(-4 * count // STEP) * STEP)
    held = parts * count
    scratch = (units * room * 8,) * 2 + (rows * held * 8,) * 2
    read = Buffer(x.dtype, writable=False)
    words = Buffer(uint64)
    candidates = Launch(
        Build(
            front_candidates,
            (read, words, words, words, *(_SIZE,) * 7),
            (("descending", bool(said["descending"])),),
        ),
        (units, 1, 1),
        (
            Input(0, x.offset),
            *(Scratch(i) for i in range(3)),
            *(items, turns, parts, n, part, count, room),
        ),
        0,
        x.size * x.dtype.itemsize,
        "sort candidates",
    )
    bits = as_bits(x, request.info)
    wanted = (bool(said["values"]), bool(said["indices"]))
    turns = max(1, min(rows, _GRAIN // held))
    outputs = (Output(0), Output(1 if all(wanted) else 0))
    types = (bits.dtype, int64)
    used = [Buffer(types[i] if wanted[i] else types[1 - i]) for i in range(2)]
    results = Launch(
        Build(
            front_results,
            (Buffer(bits.dtype, writable=False), words, words, *used, *(_SIZE,) * 5),
            (("wanted", wanted),),
        ),
        (-(-rows // turns), 1, 1),
        (
            Input(0, bits.offset),
            *(Scratch(2), Scratch(3)),
            *outputs,
            *(rows, turns, n, held, count),
        ),
        0,
        16 * rows * held,
        "sort front",
    )
    return Work((candidates, results), scratch)


def _values(request: Request, dtype: DType, rows: int, n: int) -> Work:
    (x,) = request.inputs
    word = uint64 if dtype.itemsize == 8 else uint32
    own = dtype.itemsize < 4
    turns = max(1, min(rows, _GRAIN // n))
    units, room = -(-rows // turns), min(n, ASIDE)
    scratch = [units * room * word.itemsize]
    if own:
        scratch.append(rows * n * word.itemsize)
    keys: Argument = Scratch(1) if own else Output(0)
    build = Build(
        sort_values,
        (
            Buffer(dtype, writable=False),
            Buffer(word),
            Buffer(word),
            Buffer(dtype),
            *(_SIZE,) * 4,
        ),
        (("descending", bool(request.attributes["descending"])), ("own", own)),
    )
    launch = Launch(
        build,
        (units, 1, 1),
        (Input(0, x.offset), keys, Scratch(0), Output(0), rows, turns, n, room),
        0,
        2 * x.size * dtype.itemsize,
        "sort values",
    )
    return Work((launch,), tuple(scratch))
