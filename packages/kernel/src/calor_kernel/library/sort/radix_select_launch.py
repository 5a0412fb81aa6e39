"""The first few elements of a sort as launches, for cubes of many units.

Requirements: rows of which there are enough for the device have a cube each; longer and fewer ones
are divided, and so is what the parts keep, until a cube has a row; what a cube holds lets several
run beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import int64, uint32
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
from calor_kernel.library.sort.keys import UNSIGNED
from calor_kernel.library.sort.radix_select import SelectPlan, select_front

_SIZE: Final = Scalar(int64, nonnegative=True)
# Units of a cube, elements and accesses of a unit in a step, bytes of shared memory, at most.
_UNITS, _ITEMS, _LOADS, _SHARED = 256, 16, 4, 48 << 10
# As many are selected at most: each is compared with all others of them.
_MOST: Final = 1024
# Cubes for each that runs at a time; elements of a part at least, and times those selected.
_CUBES, _PART, _TIMES = 4, 1 << 13, 8


def selects(info: DeviceInfo) -> bool:
    """Return whether a device finds the first few elements with cubes of many units.

    Without planes it does not: compilers for processors, which have none, take half a minute for
    barriers in loops in loops, and PoCL 3.1 makes wrong code of them.
    """
    able = info.has("planes") and info.has("atomics") and info.has("barrier")
    return able and info.max_units >= 64 and info.planes[0] > 1


def lower_select(request: Request, rows: int, n: int, count: int) -> list[Work] | Refusal:
    """Return the work that finds the first ``count`` elements of dense rows, in order."""
    (x,) = request.inputs
    info, said = request.info, request.attributes
    if UNSIGNED[x.dtype.itemsize] not in info.dtypes or n >= 1 << 32:
        return Refusal(f"{n} elements of {x.dtype} are not counted by the device")
    lanes = max(1, info.vector_bytes // x.dtype.itemsize)
    width = lanes if n % lanes == 0 and x.offset % lanes == 0 else 1
    plan = _plan(request, n, count, width)
    if plan is None:
        return Refusal(f"only up to {_MOST} elements, as memory allows, are found without sorting")
    values, indices = bool(said["values"]), bool(said["indices"])
    wanted = (values, indices)
    outputs: tuple[Argument, Argument] = (Output(0), Output(1 if values and indices else 0))
    types = (x.dtype, int64)
    first, second = (Buffer(types[i] if wanted[i] else types[1 - i]) for i in range(2))
    results = (first, second)
    read = Buffer(x.dtype, writable=False)
    given: tuple[Argument, Argument] = (Input(0, x.offset), Input(0, x.offset))
    shapes, now = (read, read), n
    launches: list[Launch] = []
    scratch: list[int] = []
    while True:
        parts = _parts(info, rows, now, count)
        made, written = outputs, results
        if parts > 1:
            plan = replace(plan, wanted=(False, False))
            made = (Scratch(len(scratch)), Scratch(len(scratch) + 1))
            written = (Buffer(plan.word), Buffer(uint32))
            scratch += [rows * parts * count * size for size in (plan.word.itemsize, 4)]
        else:
            plan = replace(plan, wanted=wanted)
        launches.append(
            Launch(
                _build(info, plan, [read, *shapes, *written], now),
                (rows * parts, 1, 1),
                (Input(0, x.offset), *given, *made, parts, now, n, count),
                0,
                rows * now * (plan.word.itemsize + 4 if plan.again else x.dtype.itemsize),
                "sort select",
            )
        )
        if parts == 1:
            return [Work(tuple(launches), tuple(scratch))]
        found = _plan(request, parts * count, count, 1)
        assert found is not None
        plan, now, given = replace(found, again=True), parts * count, made
        shapes = (Buffer(plan.word, writable=False), Buffer(uint32, writable=False))


def _build(info: DeviceInfo, plan: SelectPlan, buffers: Sequence[Buffer], n: int) -> Build:
    signature: tuple[Buffer | Scalar, ...] = (*buffers, *(_SIZE,) * 4)
    cube = (_units(info, n), 1, 1)
    return Build(select_front, signature, (("plan", plan),), cube, info.planes[0])


def _units(info: DeviceInfo, n: int) -> int:
    """Return the units of a cube for rows of n elements."""
    units, most = 64, min(_UNITS, info.max_units)
    while 2 * units <= most and 4 * units < n:
        units *= 2
    return units


def _parts(info: DeviceInfo, rows: int, n: int, count: int) -> int:
    """Return among how many cubes rows are divided."""
    return max(1, min(-(-_CUBES * info.cores // rows), n // max(_PART, _TIMES * count)))


def _plan(request: Request, n: int, count: int, width: int) -> SelectPlan | None:
    """Return how cubes select, None where they cannot hold what they must."""
    (x,) = request.inputs
    info = request.info
    units, most = _units(info, n), 64
    while most < count and most < _MOST:
        most *= 2
    if most < count:
        return None
    bits = 8 if units >= 256 else 4
    each = (8 if x.dtype.itemsize == 8 else 4) + 4
    fixed = 4 * (most + (1 << bits) + units // info.planes[0] + 6)
    room = (min(info.shared_bytes, _SHARED) - fixed) // each
    vectors = max(1, min(_ITEMS // width, _LOADS))
    while vectors > 1 and most + 2 * units * width * vectors > room:
        vectors //= 2
    while width > 1 and most + units * width > room:
        width //= 2
    step = units * width * vectors
    if most + step > room:
        return None
    held = most + step * (2 if most + 2 * step <= room else 1)
    # A row that fits is held whole, in no more than it needs.
    short = 64
    while short < n and short < held:
        short *= 2
    descending = bool(request.attributes["descending"])
    return SelectPlan(
        x.dtype, descending, bits, width, vectors, min(short, held), most, False, (False, False)
    )
