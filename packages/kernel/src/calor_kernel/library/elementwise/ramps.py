"""Ramps: 0, 1, 2 … in any dtype, for lengths beyond a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor.dtypes import DType, int64
from calor_kernel.contract.work import Build, Launch, Output, Request, Work, lowering
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import cube_position, cube_size, kernel, loop_range, unit_position
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import lanes, store, stored
from calor_kernel.library.math.base import exactly

_SIZE: Final = Scalar(int64, nonnegative=True)
_CHUNK: Final = 1 << 14  # numbers of a cube of one unit


@kernel
def ramp(target: Any, count: Any, chunk: Any, *, dtype: DType, width: int) -> None:
    """Write the numbers below ``count``; a cube takes ``chunk`` of them."""
    first = cube_position() * chunk
    end = min(first + chunk, count)
    for i in loop_range(first + unit_position() * width, end, cube_size() * width):
        numbers = i + lanes(width, i) if width > 1 else i
        rest = end - i
        value = exactly(converted)(numbers, int64, dtype)
        if rest >= width:
            store(target, dtype, i, value)
        else:
            store(target, dtype, i, value, rest=rest)


@lowering("iota")
def lower_iota(request: Request) -> Sequence[Work]:
    """Lower the row of ramps."""
    info = request.info
    (output,) = request.outputs
    units = min(info.max_units, 256)
    width = 1 if units > 1 else max(info.vector_bytes // 8, 1)
    chunk = units * 4 if units > 1 else _CHUNK
    build = Build(
        ramp,
        (Buffer(stored(output.dtype)), _SIZE, _SIZE),
        (("dtype", output.dtype), ("width", width)),
        (units, 1, 1),
    )
    cubes = max(-(-output.size // chunk), 1)
    arguments = (Output(0), output.size, chunk)
    return (Work((Launch(build, (cubes, 1, 1), arguments, 0, output.nbytes, "iota"),)),)
