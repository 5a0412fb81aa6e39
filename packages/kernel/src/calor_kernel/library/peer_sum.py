"""Sums over several devices, by a kernel of one device that accesses the memory of all.

Requirements: the memory of each member is read once; all loads are issued before the first sum,
because peer memory has a long latency. Members are added in their order, and half types in float32
with one rounding, so the result does not depend on the device that adds.
"""

from __future__ import annotations

from functools import lru_cache

from calor.dtypes import DType, bfloat16, float16, float32
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Build, Input, Output


@kl.kernel
def add_members(
    given: tuple[kl.In, ...],
    sums: tuple[kl.Out, ...],
    count: kl.Size,
    *,
    width: int,
    accumulate: DType,
) -> None:
    """Add the ``count`` elements of all members, and write the sum to each member."""
    first = kl.absolute_position() * width
    if first + width <= count:
        values = [x.load(first, width).to(accumulate) for x in given]
        total = values[0]
        for value in values[1:]:
            total = total + value
        for y in sums:
            y.store(first, total.to(y.dtype))
    else:
        for i in kl.loop_range(first, count):
            rest = [x[i].to(accumulate) for x in given]
            one = rest[0]
            for value in rest[1:]:
                one = one + value
            for y in sums:
                y[i] = one.to(y.dtype)


@lru_cache
def sum_of_members(members: int, dtype: DType, units: int, vector_bytes: int) -> tuple[Build, int]:
    """Return the build of a sum over members, and the elements of a cube.

    Its arguments are the operand of each member, the result of each, and the number of elements.
    """
    width = max(vector_bytes // dtype.itemsize, 1)
    # Pieces of a pool and their parts begin at whole vectors; over a link each element would be a
    # packet.
    whole = width * dtype.itemsize
    made = launch(
        add_members,
        Grid.line(1, units),
        Effort(),
        given=[Bound(Input(i), dtype, whole) for i in range(members)],
        sums=[Bound(Output(i), dtype, whole) for i in range(members)],
        count=0,
        width=width,
        accumulate=float32 if dtype in (float16, bfloat16) else dtype,
    )
    return made.build, units * width
