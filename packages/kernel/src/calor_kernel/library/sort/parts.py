"""Parts of a sort as launches: its values alone, and its first few elements.

Requirements: where the chosen lanes of a vector are moved together in one instruction, values are
sorted by their keys in vectors; elsewhere, and along axes whose elements do not lie one after
another, the whole sort is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from calor.dtypes import DType, int64, uint32, uint64
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.sort.fusing import PART
from calor_kernel.library.sort.values import sort_values
from calor_kernel.library.work import (
    Argument,
    Build,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    Work,
    lowering,
)

_SIZE = Scalar(int64, nonnegative=True)
# Elements that a cube of one unit handles at least.
_GRAIN = 1 << 12
# What a partition writes beyond its range.
_SLACK = 64


@lowering(PART, dense=(0,))
def lower_part(request: Request) -> Sequence[Work] | Refusal:
    """Sort for ``values``, ``indices`` or both, the first ``count`` of them along the axis."""
    (x,) = request.inputs
    said = request.attributes
    axis, count = said["axis"], said["count"]
    n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    if x.dtype.kind == "complex":
        return Refusal("complex numbers are sorted whole")
    if inner != 1:
        return Refusal("only the last axis is sorted in part")
    if said["indices"] or count != n:
        return Refusal("only values are sorted in part")
    if x.size == 0:
        return [Work(())]
    return [_values(request, x.dtype, x.size // n, n)]


def _values(request: Request, dtype: DType, rows: int, n: int) -> Work:
    (x,) = request.inputs
    word = uint64 if dtype.itemsize == 8 else uint32
    own = dtype.itemsize < 4
    turns = max(1, min(rows, _GRAIN // n))
    scratch = [(rows * n + _SLACK) * word.itemsize]
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
            *(_SIZE,) * 3,
        ),
        (("descending", bool(request.attributes["descending"])), ("own", own)),
    )
    launch = Launch(
        build,
        (-(-rows // turns), 1, 1),
        (Input(0, x.offset), keys, Scratch(0), Output(0), rows, turns, n),
        0,
        2 * x.size * dtype.itemsize,
        "sort values",
    )
    return Work((launch,), tuple(scratch))
