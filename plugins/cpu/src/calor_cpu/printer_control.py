"""Printing of loops and branches: regions become blocks with phis.

Requirements: a loop tests at its end, after an entry test, because code generation without passes
keeps the printed shape. An unrolled loop is copies of its body and a remainder loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from calor_cpu.printer_values import PRINTS, prints
from calor_cpu.writer import Writer, llvm
from calor_kernel.ir.nodes import Block, Operation, Value


def region(w: Writer, block: Block) -> None:
    """Print the operations of a block into the current one."""
    for operation in block.operations:
        printer = PRINTS.get(operation.name)
        if printer is None:
            raise w.refuse(operation, "a CPU lacks this operation; choose another blueprint")
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
    bounds = [v.known for v in (start, stop, step)]
    known = [b for b in bounds if isinstance(b, int)]
    return len(range(*known)) if len(known) == 3 and known[2] else None


def _test(w: Writer, position: str, stop: Value, step: Value) -> str:
    """Return the loop condition at a position; a step of unknown sign counts as positive."""
    sign = "u" if stop.type.dtype.kind == "uint" else "s"
    down = isinstance(step.known, int) and step.known < 0
    return w.let(f"icmp {sign}{'gt' if down else 'lt'} {llvm(stop.type)} {position}, {w.use(stop)}")


def _ahead(w: Writer, position: str, step: Value, count: int) -> str:
    """Return the position some steps ahead."""
    of = llvm(step.type)
    known = step.known
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
    """Print a loop with copies of its body, and return the last position and the values."""
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
