"""The first few elements of a sort as launches, for cubes of many units.

Requirements: with enough rows for the device each row has one cube. Else rows are divided into
parts, and the candidates of the parts are selected from again, until one cube has a row. The shared
memory of a cube lets several cubes share a core.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor.dtypes import uint32
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, operand
from calor_kernel.contract.work import Request, Work
from calor_kernel.ir.types import UNSIGNED
from calor_kernel.library.sort.radix_select import SelectPlan, select_front
from calor_kernel.library.sort.vector_sorts import outputs_of
from calor_kernel.library.steps import Steps

# Units of a cube, elements and accesses of a unit in a step, bytes of shared memory, at most.
_UNITS, _ITEMS, _LOADS, _SHARED = 256, 16, 4, 48 << 10
# Selected elements at most: the rank of each is found by comparing it with all others.
_MOST: Final = 1024
# Cubes per core; elements of a part at least, absolute and as a multiple of those selected.
_CUBES, _PART, _TIMES = 4, 1 << 13, 8


def select_refusal(request: Request, n: int) -> str | None:
    """Return why cubes of many units do not select the first few elements of rows of n.

    A device without planes does not: compilers for CPUs take half a minute for barriers in nested
    loops, and PoCL 3.1 miscompiles them.
    """
    (x,), info = request.inputs, request.info
    able = info.has("planes") and info.has("atomics") and info.has("barrier")
    if not able or info.max_units < 64 or info.planes[0] == 1:
        return "a cube has fewer than 64 units, or no planes, atomics or barriers"
    if UNSIGNED[x.dtype.itemsize] not in info.dtypes or n >= 1 << 32:
        return f"{n} elements of {x.dtype} are not counted by the device"
    if _plan(request, n, request.attributes["count"], 1) is None:
        return f"only up to {_MOST} elements, as memory allows, are found without sorting"
    return None


def select_works(request: Request, rows: int, n: int, count: int) -> list[Work]:
    """Return the work that finds the first ``count`` elements of dense rows, in order."""
    (x,) = request.inputs
    info, said = request.info, request.attributes
    lanes = max(1, info.vector_bytes // x.dtype.itemsize)
    width = lanes if n % lanes == 0 and x.offset % lanes == 0 else 1
    plan = _plan(request, n, count, width)
    assert plan is not None
    wanted = (bool(said["values"]), bool(said["indices"]))
    results = outputs_of(x.dtype, wanted)
    source = operand(0, x)
    given, now = (source, source), n
    steps = Steps()
    while True:
        parts = _parts(info, rows, now, count)
        last = parts == 1
        plan = replace(plan, wanted=wanted if last else (False, False))
        if last:
            made = results
        else:
            size = rows * parts * count
            made = steps.room(size, plan.word), steps.room(size, uint32)
        nbytes = rows * now * (plan.word.itemsize + 4 if plan.again else x.dtype.itemsize)
        steps.add(
            select_front,
            Grid.line(rows * parts, _units(info, now), info.planes[0]),
            Effort("sort select", 0, nbytes),
            source=source,
            keys=given[0],
            order=given[1],
            values=made[0],
            indices=made[1],
            parts=parts,
            n=now,
            whole=n,
            count=count,
            plan=plan,
        )
        if last:
            return [steps.work()]
        found = _plan(request, parts * count, count, 1)
        assert found is not None
        plan, now, given = replace(found, again=True), parts * count, made


def _units(info: DeviceInfo, n: int) -> int:
    """Return the units of a cube for rows of n elements."""
    units, most = 64, min(_UNITS, info.max_units)
    while 2 * units <= most and 4 * units < n:
        units *= 2
    return units


def _parts(info: DeviceInfo, rows: int, n: int, count: int) -> int:
    """Return the parts of a row, one for each cube."""
    return max(1, min(-(-_CUBES * info.cores // rows), n // max(_PART, _TIMES * count)))


def _plan(request: Request, n: int, count: int, width: int) -> SelectPlan | None:
    """Return the work of cubes, None if shared memory is too small."""
    (x,) = request.inputs
    info = request.info
    units, most = _units(info, n), 64
    while most < count and most < _MOST:
        most *= 2
    if most < count:
        return None
    bits = 8 if units >= 256 else 4
    each = (8 if x.dtype.itemsize == 8 else 4) + 4
    numbers = (most, 1 << bits, max(units // info.planes[0], 1), 6)
    fixed = sum(info.shared_room(count, uint32.itemsize) for count in numbers)
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
    # A row that fits takes no more memory than it needs.
    short = 64
    while short < n and short < held:
        short *= 2
    descending = bool(request.attributes["descending"])
    return SelectPlan(
        x.dtype, descending, bits, width, vectors, min(short, held), most, False, (False, False)
    )
