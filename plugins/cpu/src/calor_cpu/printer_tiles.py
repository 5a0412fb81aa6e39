"""Printing of products of tiles, by the tile registers of x86 (AMX).

Requirements: registers 0 to 7 hold the block's sums, then the tiles of a and of b. A call of a
kernel configures them once, which takes as long as the products of 14 tiles, and releases them at
its end, so no other code and no switch of threads carries them.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from calor.dtypes import DType, bfloat16, int8
from calor_cpu.printer_memory import address
from calor_cpu.printer_values import prints
from calor_cpu.writer import Writer
from calor_kernel.ir.nodes import Kernel, Operation, Value
from calor_kernel.language.tiles import TILE, TILE_BYTES

_INSTRUCTIONS: Final = {bfloat16: ("tdpbf16ps", "amx-bf16"), int8: ("tdpbssd", "amx-int8")}
# Palette 1 with eight registers of 16 rows of 64 bytes.
_TO_SECOND_CACHE: Final = ("i32", "0"), ("i32", "2"), ("i32", "1")
_PALETTE: Final = bytes((1, *[0] * 15, *[TILE_BYTES, 0] * 8, *[0] * 16, *[TILE] * 8, *[0] * 8))


@prints("tile_product")
def _tile_product(w: Writer, operation: Operation) -> None:
    said, sums = operation.attributes, operation.memory
    source, right = said["source"], said["right"]
    assert sums is not None
    name = _instruction(w, operation, source.type.dtype)
    rows, columns = range(said["rows"]), range(said["columns"])
    to, a_at, a_stride, b_at, b_stride, steps, next_at, a_part, b_part = operation.operands
    lines = said["ahead"]
    tile_a = {r: len(rows) * len(columns) + r for r in rows}
    tile_b = {c: len(rows) * len(columns) + len(rows) + c for c in columns}
    tile_c = {(r, c): len(columns) * r + c for r, c in product(rows, columns)}
    nbytes = source.type.dtype.itemsize
    a_step = _times(w, _wide(w, a_stride), nbytes)
    b_step = _times(w, _wide(w, b_stride), nbytes)
    a_tile, b_turn = _times(w, a_step, TILE), _times(w, b_step, TILE)
    apart = [_times(w, _wide(w, part), nbytes) for part in (a_part, b_part)]
    places = address(w, source, a_at), address(w, right, b_at)
    asked = address(w, right, next_at) if lines else ""
    target, width = address(w, sums, to), TILE_BYTES * len(columns)
    blocks = {
        tile: _ahead(w, target, str(r * TILE * width + c * TILE_BYTES))
        for (r, c), tile in tile_c.items()
    }
    for tile, place in blocks.items():
        if said["add"]:
            _load(w, tile, place, str(width))
        else:
            w.call("void", "llvm.x86.tilezero", ("i8", str(tile)))
    before, head, after = w.label, w.fresh("step"), w.fresh("after")
    count = _wide(w, steps)
    w.choose(w.let(f"icmp sgt i64 {count}, 0"), head, after)
    w.block(head)
    turn, a_from, b_from, following = (f"%{w.fresh()}" for _ in range(4))
    a_next, b_next = f"%{w.fresh()}", f"%{w.fresh()}"
    asked_now, asked_next = f"%{w.fresh()}", f"%{w.fresh()}"
    w.line(f"{turn} = phi i64 [ 0, %{before} ], [ {following}, %{head} ]")
    w.line(f"{a_from} = phi ptr [ {places[0]}, %{before} ], [ {a_next}, %{head} ]")
    w.line(f"{b_from} = phi ptr [ {places[1]}, %{before} ], [ {b_next}, %{head} ]")
    if lines:
        w.line(f"{asked_now} = phi ptr [ {asked}, %{before} ], [ {asked_next}, %{head} ]")
    loaded: list[int | None] = [None, None]
    for one, other in _products(said["parts"]):
        if loaded[1] != other:
            part = _ahead(w, b_from, _times(w, apart[1], other))
            for c, tile in tile_b.items():
                _load(w, tile, _ahead(w, part, str(c * TILE_BYTES)), b_step)
        if loaded[0] != one:
            part = _ahead(w, a_from, _times(w, apart[0], one))
            for r, tile in tile_a.items():
                _load(w, tile, _ahead(w, part, _times(w, a_tile, r)), a_step)
        loaded = [one, other]
        for (r, c), tile in tile_c.items():
            given = (("i8", str(t)) for t in (tile, tile_a[r], tile_b[c]))
            w.call("void", f"llvm.x86.{name}", *given)
    for line in range(lines):
        place = _ahead(w, asked_now, str(line * TILE_BYTES))
        w.call("void", "llvm.prefetch.p0", ("ptr", place), *_TO_SECOND_CACHE)
    if lines:
        w.line(f"{asked_next} = getelementptr i8, ptr {asked_now}, i64 {lines * TILE_BYTES}")
    w.line(f"{a_next} = getelementptr i8, ptr {a_from}, i64 {TILE_BYTES}")
    w.line(f"{b_next} = getelementptr i8, ptr {b_from}, i64 {b_turn}")
    w.line(f"{following} = add i64 {turn}, 1")
    w.choose(w.let(f"icmp slt i64 {following}, {count}"), head, after)
    w.block(after)
    for tile, place in blocks.items():
        stored = ("i8", str(tile)), ("ptr", place), ("i64", str(width))
        w.call("void", "llvm.x86.tilestored64", *stored)


def _products(parts: int) -> list[tuple[int, int]]:
    """Return the parts that are multiplied, each pair with one of the pair before if possible.

    >>> _products(3)
    [(0, 2), (0, 1), (0, 0), (1, 0), (1, 1), (2, 0)]
    """
    found: list[tuple[int, int]] = []
    for one in range(parts):
        others = range(parts - one)
        found += [(one, other) for other in (others if one % 2 else reversed(others))]
    return found


def has_tiles(kernel: Kernel) -> bool:
    """Return whether a kernel multiplies tiles."""
    return any(operation.name == "tile_product" for operation in kernel.body.walk())


def configure(w: Writer) -> None:
    """Configure the tile registers."""
    w.call("void", "llvm.x86.ldtilecfg", ("ptr", w.bytes(_PALETTE)))


def release(w: Writer) -> None:
    """Release the tile registers, whether they are configured or not."""
    w.call("void", "llvm.x86.tilerelease")


def _instruction(w: Writer, operation: Operation, dtype: DType) -> str:
    name, flag = _INSTRUCTIONS[dtype]
    if not w.target.is_x86 or not w.target.has("amx-tile") or not w.target.has(flag):
        raise w.refuse(operation, "this processor has no tile registers (AMX)")
    return name


def _load(w: Writer, tile: int, place: str, stride: str) -> None:
    given = ("i8", str(tile)), ("ptr", place), ("i64", stride)
    w.call("void", "llvm.x86.tileloadd64", *given)


def _wide(w: Writer, value: Value) -> str:
    name = w.use(value)
    if value.type.dtype.itemsize == 8 or not name.startswith("%"):
        return name
    signed = value.type.dtype.kind == "int"
    bits = value.type.dtype.itemsize * 8
    return w.let(f"{'sext' if signed else 'zext'} i{bits} {name} to i64")


def _times(w: Writer, name: str, factor: int) -> str:
    if factor == 0:
        return "0"
    if not name.startswith("%"):
        return str(int(name) * factor)
    return w.let(f"mul i64 {name}, {factor}")


def _ahead(w: Writer, place: str, nbytes: str) -> str:
    return place if nbytes == "0" else w.let(f"getelementptr i8, ptr {place}, i64 {nbytes}")
