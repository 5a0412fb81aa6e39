"""Printer of kernels as LLVM text.

Requirements: the text is compiled without a pass pipeline, so it is printed vectorised and in
static single assignment. A function runs a range of the launch's cubes, one unit each, so that one
call runs many and threads share a launch. Vectors keep their width, and LLVM splits them for
narrower registers.

The function is ``void name(ptr args, i64 begin, i64 end)``: ``args`` has a slot of 8 bytes for each
parameter, then the cube counts along x, y and z; the slot before it points to a 32-bit error word.
If a kernel has assertions, ``name.messages`` is a table of their texts: n in the error word means
text n − 1.
"""

from __future__ import annotations

import calor_cpu.printer_dot_products
import calor_cpu.printer_lanes
import calor_cpu.printer_units  # noqa: F401 - registers what prints operations
from calor.errors import CompileError
from calor_cpu.printer_control import region
from calor_cpu.printer_memory import allocate, parameter
from calor_cpu.printer_tiles import configure, has_tiles, release
from calor_cpu.target import STACK_BYTES, Target
from calor_cpu.writer import Writer
from calor_kernel.ir.nodes import Kernel

# Aligned, so that a spilled vector is on one cache line, not on two.
_ATTRIBUTES = 'nounwind "stackrealign" "prefer-vector-width"="512" "frame-pointer"="none"'


def print_kernel(kernel: Kernel, target: Target) -> str:
    """Return a kernel as LLVM text for a target.

    Raises
    ------
    CompileError
        If the kernel needs something that a CPU lacks.
    """
    _check(kernel)
    w = Writer(kernel, target)
    for memory in kernel.memories:
        allocate(w, memory)
    for place, declared in enumerate(kernel.parameters):
        if declared.memory is not None:
            w.pointers[declared.memory] = parameter(w, place, None)
        elif declared.value is not None:
            w.names[declared.value] = parameter(w, place, declared.value.type)
    _cubes(w)
    return _module(w)


def _check(kernel: Kernel) -> None:
    if kernel.units != 1 or kernel.plane != 1:
        raise CompileError(
            f"kernel {kernel.name!r} has {kernel.units} units in a cube and planes of "
            f"{kernel.plane}; a CPU runs cubes of one unit: choose a blueprint with cube=(1, 1, 1)"
        )
    used = sum(m.type.nbytes * (m.size or 0) for m in kernel.memories)
    if used > STACK_BYTES:
        raise CompileError(
            f"kernel {kernel.name!r} needs {used} bytes of shared and private memory, and a "
            f"thread's stack has {STACK_BYTES}; use scratch memory of the launch"
        )


def _axes(kernel: Kernel, name: str) -> set[int]:
    found = (o for o in kernel.body.walk() if o.name == name)
    return {o.attributes["axis"] for o in found}


def _cubes(w: Writer) -> None:
    """Print the loop over the cubes from begin to end, with the index of each along the axes."""
    kernel = w.kernel
    axes = _axes(kernel, "cube_position")
    last_axis = max(axes, default=-1)
    count = len(kernel.parameters)
    for axis in range(3):
        if axis <= last_axis or axis in _axes(kernel, "cube_count"):
            slot = w.let(f"getelementptr i8, ptr %args, i64 {8 * (count + axis)}", "slot")
            w.counts[axis] = w.let(f"load i64, ptr {slot}, align 8, !invariant.load !1", "count")
    some = w.let("icmp slt i64 %begin, %end")
    w.choose(some, "start", "done")
    w.block("start")
    tiles = has_tiles(kernel)
    if tiles:
        configure(w)
    starts = _first_places(w, last_axis)
    before = w.label
    w.jump("cube")
    w.block("cube")
    place = len(w.lines)
    w.positions = {axis: f"%{'xyz'[axis]}" for axis in range(last_axis + 1)}
    region(w, kernel.body)
    following = _next_places(w, last_axis)
    linear = w.let("add nsw i64 %cube.number, 1")
    w.choose(w.let(f"icmp slt i64 {linear}, %end"), "cube", "done")
    rows = [("%cube.number", "%begin", linear)]
    rows += [(w.positions[a], starts[a], following[a]) for a in range(last_axis + 1)]
    w.lines[place:place] = [
        f"  {name} = phi i64 [ {a}, %{before} ], [ {b}, %{w.label} ]" for name, a, b in rows
    ]
    w.block("done")
    if tiles:
        release(w)
    w.line("ret void")


def _first_places(w: Writer, last_axis: int) -> list[str]:
    """Return the index of the first cube along each axis; a start of 0 needs no division."""
    if last_axis < 0:
        return []
    before = w.label
    w.choose(w.let("icmp eq i64 %begin, 0"), "placed", "divide")
    w.block("divide")
    rest, found = "%begin", []
    for axis in range(last_axis + 1):
        found.append(w.let(f"urem i64 {rest}, {w.counts[axis]}"))
        if axis < last_axis:
            rest = w.let(f"udiv i64 {rest}, {w.counts[axis]}")
    w.jump("placed")
    w.block("placed")
    return [w.let(f"phi i64 [ 0, %{before} ], [ {name}, %divide ]") for name in found]


def _next_places(w: Writer, last_axis: int) -> list[str]:
    """Return the index of the next cube: x advances, and wraps into y at its end."""
    found, carry = [], "1"
    for axis in range(last_axis + 1):
        name = w.let(f"add i64 {w.positions[axis]}, {carry}")
        full = w.let(f"icmp eq i64 {name}, {w.counts[axis]}")
        found.append(w.let(f"select i1 {full}, i64 0, i64 {name}"))
        if axis < last_axis:
            carry = w.let(f"zext i1 {full} to i64")
    return found


def _module(w: Writer) -> str:
    name = w.kernel.name
    lines = [f'source_filename = "{name}"', f'target triple = "{w.target.triple}"', ""]
    if w.messages:
        texts = ", ".join(f"ptr {w.string(text)}" for text in w.messages)
        count = len(w.messages)
        w.globals.append(f"@{name}.messages = constant [{count} x ptr] [{texts}]")
    lines += w.globals
    if w.globals:
        lines.append("")
    lines.append(f"define void @{name}(ptr noalias readonly %args, i64 %begin, i64 %end) #0 {{")
    lines += ["entry:", *w.allocations, *w.lines, "}", ""]
    lines += [w.declared[key] for key in sorted(w.declared)]
    lines += [
        "",
        f"attributes #0 = {{ {_ATTRIBUTES} }}",
        "!0 = !{i32 1}",
        "!1 = !{}",
        "",
    ]
    return "\n".join(lines)
