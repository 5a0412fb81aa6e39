"""Printing of positions, plane operations, barriers, intrinsics and assertions.

Requirements: one unit is its plane and its cube, so barriers do nothing and plane operations return
the unit's own value. A failed assertion stores its number in the run's error word and returns.
"""

from __future__ import annotations

from calor.dtypes import DType, float64, int64
from calor_cpu.printer_casts import convert
from calor_cpu.printer_memory import address
from calor_cpu.printer_values import prints
from calor_cpu.writer import Argument, Writer, element, llvm, number
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type


@prints("cube_position")
def _cube_position(w: Writer, operation: Operation) -> None:
    _whole(w, operation, w.positions[operation.attributes["axis"]])


@prints("cube_count")
def _cube_count(w: Writer, operation: Operation) -> None:
    _whole(w, operation, w.counts[operation.attributes["axis"]])


def _whole(w: Writer, operation: Operation, name: str) -> None:
    type = operation.result.type
    w.names[operation.result] = convert(w, Type(int64), name, type.dtype)


@prints("unit_position", "lane_position", "plane_position")
def _only_one(w: Writer, operation: Operation) -> None:
    w.names[operation.result] = "0"


@prints("barrier", "arrive", "commit_async", "wait_async")
def _nothing(w: Writer, operation: Operation) -> None:
    """Print nothing: one unit waits for nobody."""


@prints("plane_shuffle", "plane_reduce")
def _itself(w: Writer, operation: Operation) -> None:
    w.names[operation.result] = w.use(operation.operands[0])


@prints("plane_scan")
def _scan(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    if not operation.attributes.get("exclusive"):
        w.names[operation.result] = w.use(a)
        return
    neutral = number(_identity(operation.attributes["kind"], a.type.dtype), a.type.dtype)
    w.names[operation.result] = w.splat(element(a.type.dtype), a.type.width, neutral)


def _identity(kind: str, dtype: DType) -> float:
    """Return the neutral element of a reduction."""
    if kind in ("add", "or", "xor"):
        return 0
    if kind in ("mul", "and"):
        return 1 if kind == "mul" or dtype.kind == "bool" else -1
    if dtype.kind == "float":
        return float("inf") if kind == "min" else -float("inf")
    bits = dtype.itemsize * 8
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "int" else (0, -1)
    return high if kind == "min" else low


@prints("plane_ballot")
def _ballot(w: Writer, operation: Operation) -> None:
    (a,) = operation.operands
    type = operation.result.type
    w.names[operation.result] = convert(w, a.type, w.use(a), type.dtype)


@prints("copy_async")
def _copy(w: Writer, operation: Operation) -> None:
    source, memory = operation.attributes["source"], operation.memory
    assert memory is not None
    end, start, *masks = operation.operands
    size = memory.type.dtype.itemsize
    there = (f"ptr align {size}", address(w, memory, end))
    count = ("i64", str(size * operation.attributes.get("elements", 1)))
    copied, zeros, after = (w.fresh(hint) for hint in ("copied", "zeros", "after"))
    if masks:
        w.choose(w.use(masks[0]), copied, zeros)
        w.block(zeros)
        w.call("void", "llvm.memset.p0.i64", there, ("i8", "0"), count, ("i1", "false"))
        w.jump(after)
        w.block(copied)
    here = (f"ptr align {size}", address(w, source, start))
    w.call("void", "llvm.memcpy.p0.p0.i64", there, here, count, ("i1", "false"))
    if masks:
        w.jump(after)
        w.block(after)


@prints("inline")
def _inline(w: Writer, operation: Operation) -> None:
    """Print the lines of an intrinsic, with fresh names for its temporaries."""
    names = [w.use(v) for v in operation.operands]
    result = f"%{w.fresh()}"
    text = operation.attributes["intrinsic"].text("llvm").format(*names, result=result)
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("declare "):
            w.declared[line] = line
        else:
            w.line(line)
    for value in operation.results:
        w.names[value] = result


# Readable output.
@prints("assert")
def _assert(w: Writer, operation: Operation) -> None:
    failed, holds = w.fresh("failed"), w.fresh("holds")
    where = operation.position
    at = f"{where[0]}:{where[1]}: " if where is not None else ""
    text = operation.attributes.get("text") or "an assertion failed"
    w.messages.append(f"{at}kernel {w.kernel.name!r}: {text}")
    w.choose(w.use(operation.operands[0]), holds, failed)
    w.block(failed)
    slot = w.let("getelementptr i8, ptr %args, i64 -8")
    word = w.let(f"load ptr, ptr {slot}, align 8")
    w.line(f"store atomic i32 {len(w.messages)}, ptr {word} monotonic, align 4")
    w.jump("done")
    w.block(holds)


@prints("print")
def _print(w: Writer, operation: Operation) -> None:
    parts = operation.attributes["text"].replace("%", "%%").split("{}")
    arguments: list[Argument] = []
    text = parts[0]
    for value, rest in zip(operation.operands, parts[1:], strict=True):
        forms = []
        for lane in range(value.type.width):
            one = w.use(value)
            if value.type.width > 1:
                one = w.let(f"extractelement {w.typed(value)}, i64 {lane}")
            dtype = value.type.dtype
            wide = float64 if dtype.kind == "float" else int64
            arguments.append((llvm(Type(wide)), convert(w, value.type.scalar, one, wide)))
            forms.append({"float": "%.9g", "uint": "%llu"}.get(dtype.kind, "%lld"))
        text += (forms[0] if len(forms) == 1 else f"[{' '.join(forms)}]") + rest
    given = ", ".join(f"{of} {name}" for of, name in (("ptr", w.string(text + "\n")), *arguments))
    w.declared["printf"] = "declare i32 @printf(ptr, ...)"
    w.let(f"call i32 (ptr, ...) @printf({given})")
    w.call("i32", "fflush", ("ptr", "null"))
