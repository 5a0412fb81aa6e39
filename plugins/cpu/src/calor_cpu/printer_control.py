"""How loops, branches and what units say are printed: regions become blocks with phis.

Requirements: a loop tests at its end, behind a test that it runs at all, because code generation
without passes keeps the shape that is printed; a failed assertion stores its message and leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor.dtypes import float64, int64
from calor_cpu.printer_casts import convert
from calor_cpu.printer_values import PRINTS, prints
from calor_cpu.writer import Argument, Writer, llvm
from calor_kernel.ir.nodes import Block, Operation, Value
from calor_kernel.ir.types import Type


def region(w: Writer, block: Block) -> None:
    """Print the operations of a block into the current one."""
    for operation in block.operations:
        printer = PRINTS.get(operation.name)
        if printer is None:
            raise w.refuse(operation, "a CPU has no such operation; choose another blueprint")
        printer(w, operation)


@prints("for")
def _for(w: Writer, operation: Operation) -> None:
    start, stop, step, *carried = operation.operands
    unroll = int(operation.attributes.get("unroll") or 1)
    first = w.use(start)
    values = [w.use(v) for v in carried]
    if unroll > 1:
        first, values = _loop(w, operation, first, values, unroll)
        trips = _trips(start, stop, step)
        if trips is not None and trips % unroll == 0:
            unroll = 0
    if unroll:
        _, values = _loop(w, operation, first, values, 1)
    for result, value in zip(operation.results, values, strict=True):
        w.names[result] = value


def _trips(start: Value, stop: Value, step: Value) -> int | None:
    bounds = [getattr(v, "known", None) for v in (start, stop, step)]
    known = [b for b in bounds if isinstance(b, int)]
    return len(range(*known)) if len(known) == 3 and known[2] else None


def _test(w: Writer, position: str, stop: Value, step: Value) -> str:
    """Return whether a loop goes on at a position, upwards or downwards."""
    of = llvm(stop.type)
    sign = "u" if stop.type.dtype.kind == "uint" else "s"
    known = getattr(step, "known", None)
    up = f"icmp {sign}lt {of} {position}, {w.use(stop)}"
    down = f"icmp {sign}gt {of} {position}, {w.use(stop)}"
    if sign == "u" or getattr(step, "nonnegative", False) or (isinstance(known, int) and known > 0):
        return w.let(up)
    if isinstance(known, int):
        return w.let(down)
    positive = w.let(f"icmp sgt {of} {w.use(step)}, 0")
    return w.let(f"select i1 {positive}, i1 {w.let(up)}, i1 {w.let(down)}")


def _ahead(w: Writer, position: str, step: Value, count: int) -> str:
    """Return the position some steps further."""
    of = llvm(step.type)
    known = getattr(step, "known", None)
    if count == 0:
        return position
    if isinstance(known, int):
        far = str(known * count)
    else:
        far = w.use(step) if count == 1 else w.let(f"mul {of} {w.use(step)}, {count}")
    return w.let(f"add {of} {position}, {far}")


def _loop(
    w: Writer, operation: Operation, first: str, values: Sequence[str], copies: int
) -> tuple[str, list[str]]:
    """Print a loop with some copies of its body, and return the last position and the values."""
    _, stop, step = operation.operands[:3]
    (body,) = operation.regions
    index, *arguments = body.arguments
    before = w.label
    head, enter, after = (w.fresh(hint) for hint in ("loop", "enter", "after"))
    w.choose(_test(w, _ahead(w, first, step, copies - 1), stop, step), enter, after)
    w.block(enter)
    w.jump(head)
    w.block(head)
    place = len(w.lines)
    names = [f"%{w.fresh()}" for _ in (index, *arguments)]
    w.names.update(zip((index, *arguments), names, strict=True))
    for copy in range(copies):
        if copy:
            w.names[index] = _ahead(w, names[0], step, copy)
        region(w, body)
        w.names.update(zip(arguments, [w.use(v) for v in body.yields], strict=True))
    following = [_ahead(w, names[0], step, copies), *(w.use(v) for v in arguments)]
    again = _test(w, _ahead(w, following[0], step, copies - 1), stop, step)
    w.choose(again, head, after)
    last = w.label
    types = [llvm(v.type) for v in (index, *arguments)]
    started = [first, *values]
    w.lines[place:place] = [
        f"  {name} = phi {of} [ {a}, %{enter} ], [ {b}, %{last} ]"
        for name, of, a, b in zip(names, types, started, following, strict=True)
    ]
    w.block(after)
    ends = [
        w.let(f"phi {of} [ {a}, %{before} ], [ {b}, %{last} ]")
        for of, a, b in zip(types, started, following, strict=True)
    ]
    return ends[0], ends[1:]


@prints("while")
def _while(w: Writer, operation: Operation) -> None:
    question, body = operation.regions
    before = w.label
    test, again, after = (w.fresh(hint) for hint in ("test", "again", "after"))
    w.jump(test)
    w.block(test)
    place = len(w.lines)
    names = [f"%{w.fresh()}" for _ in operation.operands]
    for values in (question.arguments, body.arguments, operation.results):
        w.names.update(zip(values, names, strict=True))
    region(w, question)
    w.choose(w.use(question.yields[0]), again, after)
    w.block(again)
    region(w, body)
    last = w.label
    w.jump(test)
    w.lines[place:place] = [
        f"  {name} = phi {llvm(a.type)} [ {w.use(a)}, %{before} ], [ {w.use(b)}, %{last} ]"
        for name, a, b in zip(names, operation.operands, body.yields, strict=True)
    ]
    w.block(after)


@prints("if")
def _if(w: Writer, operation: Operation) -> None:
    (condition,) = operation.operands
    then, otherwise = operation.regions
    labels = [w.fresh("then"), w.fresh("else")]
    after = w.fresh("after")
    empty = not otherwise.operations
    before = w.label
    w.choose(w.use(condition), labels[0], after if empty else labels[1])
    ends: list[tuple[str, list[str]]] = []
    for label, block in zip(labels, (then, otherwise), strict=True):
        if block is otherwise and empty:
            ends.append((before, [w.use(v) for v in block.yields]))
            continue
        w.block(label)
        region(w, block)
        ends.append((w.label, [w.use(v) for v in block.yields]))
        w.jump(after)
    w.block(after)
    for i, result in enumerate(operation.results):
        ways = ", ".join(f"[ {values[i]}, %{label} ]" for label, values in ends)
        w.result_of(result, f"phi {llvm(result.type)} {ways}")


# One unit is its cube and its plane.
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


@prints("barrier", "commit_async", "wait_async")
def _nothing(w: Writer, operation: Operation) -> None:
    """One unit waits for nobody."""


@prints("plane_shuffle", "plane_reduce")
def _itself(w: Writer, operation: Operation) -> None:
    w.names[operation.result] = w.use(operation.operands[0])


# For people.
@prints("assert")
def _assert(w: Writer, operation: Operation) -> None:
    failed, holds = w.fresh("failed"), w.fresh("holds")
    where = operation.position
    at = f"{where[0]}:{where[1]}: " if where is not None else ""
    text = operation.attributes.get("text") or "an assertion failed"
    message = w.string(f"{at}kernel {w.kernel.name!r}: {text}")
    w.asserts = True
    w.choose(w.use(operation.operands[0]), holds, failed)
    w.block(failed)
    w.line(f"store atomic ptr {message}, ptr @{w.kernel.name}.failed monotonic, align 8")
    w.line("ret void")
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
