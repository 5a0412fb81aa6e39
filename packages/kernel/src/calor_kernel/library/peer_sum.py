"""Sums of what several devices have, by a kernel of one that reaches the memory of all.

Requirements: what each has is read once, all of it before anything is added, for a neighbour's
memory is far; members are added in their order, and half types in float32, rounded once, so that
a result does not depend on who adds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from calor.dtypes import DType, bfloat16, float16, float32, int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Build
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import absolute_position, kernel, loop_range

_SIZE = Scalar(int64, nonnegative=True)


@kernel
def add_members(*arguments: Any, members: int, width: int, accumulate: DType) -> None:
    """Add what members have, and give each the sum; ``count`` elements, the last argument."""
    given, made, count = arguments[:members], arguments[members:-1], arguments[-1]
    first = absolute_position() * width
    if first + width <= count:
        values = [x.load(first, width).to(accumulate) for x in given]
        total = values[0]
        for value in values[1:]:
            total = total + value
        for y in made:
            y.store(first, total.to(y.dtype))
    else:
        for i in loop_range(first, count):
            rest = [x[i].to(accumulate) for x in given]
            one = rest[0]
            for value in rest[1:]:
                one = one + value
            for y in made:
                y[i] = one.to(y.dtype)


@lru_cache
def sum_of_members(members: int, dtype: DType, units: int, vector_bytes: int) -> tuple[Build, int]:
    """Return what adds what so many members have, and the elements that a cube of it does.

    Its arguments are what each has, what each gets, and the number of elements.
    """
    width = max(vector_bytes // dtype.itemsize, 1)
    accumulate = float32 if dtype in (float16, bfloat16) else dtype
    # Pieces of a pool and their parts begin at whole vectors; over a link, single elements would go
    # in packets of their own.
    whole = width * dtype.itemsize
    given = (Buffer(dtype, writable=False, align=whole),) * members
    signature = given + (Buffer(dtype, align=whole),) * members
    keywords = (("members", members), ("width", width), ("accumulate", accumulate))
    return Build(add_members, (*signature, _SIZE), keywords, (units, 1, 1)), units * width


def build_for(info: DeviceInfo, members: int, dtype: DType) -> tuple[Build, int]:
    """Return :func:`sum_of_members` for a device."""
    return sum_of_members(members, dtype, min(info.max_units, 256), info.vector_bytes)
