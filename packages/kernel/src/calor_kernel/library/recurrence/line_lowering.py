"""Scans of elementwise steps along lines as one launch, where all lines fit the device at once.

Requirements: a step in a launch waits for memory, and for the barriers of a cube; a launch for each
step costs more, unless its lines fill the device by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Final

from calor.dtypes import bfloat16, bool_, float16
from calor.graph.graph import Graph
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.language import index_dtype
from calor_kernel.library.recurrence.cell import Unfit
from calor_kernel.library.recurrence.line_program import LineProgram, line_program
from calor_kernel.library.recurrence.line_scan import scan_lines

# Positions of a unit, the numbers of a step that they have together, the units of a core that work
# at once, and those of a cube whose positions share nothing.
_TURNS: Final = 4
_ITEMS: Final = 2048
_AT_ONCE: Final = 2048
_APART: Final = 128
_PLANE: Final = 32
# Types that are computed in another one where the device lacks them.
_WIDENED: Final = (bool_, float16, bfloat16)


def scan_by_lines(request: Request) -> Sequence[Work] | Refusal:
    """Lower a scan whose inputs are captures, carries and stacked rows, all dense."""
    info, attributes = request.info, request.attributes
    body: Graph = attributes["body"]
    carries, captures = attributes["carries"], attributes["captures"]
    try:
        program = line_program(body, carries, captures)
    except Unfit as reason:
        return Refusal(str(reason))
    missing = [t for t in program.dtypes if t not in info.dtypes and t not in _WIDENED]
    if missing:
        return Refusal(f"the device does not compute with {missing[0]}")
    units, turns, parts = _cube(program, info)
    lines = index(prod(request.inputs[captures].shape[:-1]))
    if turns > _TURNS or turns * len(program.items) > _ITEMS:
        return Refusal("a cube does not hold a line of it")
    if lines * parts * units > info.cores * _AT_ONCE:
        return Refusal("its lines fill the device in each step")
    if _shared_bytes(program, info) > info.shared_bytes:
        return Refusal("the shared memory of a cube does not hold its lines")
    made = _work(request, program, (lines, parts), units, turns)
    count = len(made.launches[0].arguments)
    if count > info.arguments:
        return Refusal(f"its launch has {count} arguments, the device passes {info.arguments}")
    return [made]


def _cube(program: LineProgram, info: DeviceInfo) -> tuple[int, int, int]:
    """Return the units of a cube, the positions of each, and the cubes of a line."""
    whole = -(-program.width // _PLANE) * _PLANE
    units = min(whole, info.max_units)
    if not program.shares:
        units = min(units, _APART)
        return units, 1, -(-program.width // units)
    return units, -(-program.width // units), 1


def _shared_bytes(program: LineProgram, info: DeviceInfo) -> int:
    carries = [one for one in program.carries if not one.own]
    pieces = [(2 * one.width, one.dtype) for one in carries]
    pieces += [(one.width, one.dtype) for one in program.lines]
    return sum(info.shared_room(count, int(dtype.itemsize)) for count, dtype in pieces)


def _work(
    request: Request, program: LineProgram, cubes: tuple[int, int], units: int, turns: int
) -> Work:
    attributes, inputs = request.attributes, request.inputs
    captures, carries = attributes["captures"], attributes["carries"]
    given = [operand(number, view) for number, view in enumerate(inputs)]
    results = [Bound(Output(k), known.dtype) for k, known in enumerate(request.outputs)]
    stacks = len(program.stacks)
    lines, parts = cubes
    sizes = [view.offset + view.size for view in inputs] + [one.size for one in request.outputs]
    grid = Grid((lines, parts, 1), (units, 1, 1), 1, index_dtype(*sizes))
    moved = sum(view.size * view.dtype.itemsize for view in inputs)
    moved += sum(known.nbytes for known in request.outputs)
    flops = attributes["length"] * lines * program.width * len(program.items)
    said = {
        "first": tuple(given[captures : captures + carries]),
        "rows": tuple(given[captures + carries :]),
        "held": tuple(given[:captures]),
        "last": tuple(results[:carries]),
        "stacks": tuple(results[carries : carries + stacks]),
        "kept": tuple(results[carries + stacks :]),
        "length": attributes["length"],
        "count": lines,
        "program": program,
        "units": units,
        "turns": turns,
        "reverse": attributes["reverse"],
    }
    made = launch(scan_lines, grid, Effort("recurrence", flops, moved), **said)
    return Work((made,), variant="lines")
