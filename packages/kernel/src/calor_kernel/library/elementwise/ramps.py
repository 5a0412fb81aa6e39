"""Ramps: 0, 1, 2 … in any dtype, for lengths beyond a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import DType, int64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Output, Request, Work, lowering
from calor_kernel.library.elementwise.conversions import converted
from calor_kernel.library.elementwise.values import lanes, store, stored
from calor_kernel.library.math.base import exactly

_CHUNK: Final = 1 << 14  # numbers of a cube of one unit


@kl.kernel
def ramp(target: kl.Out, count: kl.Size, chunk: kl.Size, *, dtype: DType, width: int) -> None:
    """Write the numbers below ``count``; a cube takes ``chunk`` of them."""
    first = kl.cube_position() * chunk
    end = kl.min(first + chunk, count)
    for i in kl.loop_range(first + kl.unit_position() * width, end, kl.cube_size() * width):
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
    chunk = units * 4 if units > 1 else _CHUNK
    made = launch(
        ramp,
        Grid.line(max(-(-output.size // chunk), 1), units),
        Effort("iota", 0, output.nbytes),
        target=Bound(Output(0), stored(output.dtype)),
        count=output.size,
        chunk=chunk,
        dtype=output.dtype,
        width=1 if units > 1 else max(info.vector_bytes // 8, 1),
    )
    return (Work((made,)),)
