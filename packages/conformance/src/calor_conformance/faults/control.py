"""Faults of control flow: loops, carries and branches."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.backends.op_table import Function
from calor.graph.interpreter import interpret

from .base import Array, Fault, changing


def _parts(operands: Any, captures: tuple[int, int]) -> tuple[Any, Any, Any]:
    first, second = captures
    return operands[:first], operands[first : first + second], operands[first + second :]


def loop_of(short: bool = False, least: int = 0, most: int = 1 << 30) -> Any:
    """Make a loop that stops one step early, or runs at least or at most a number of steps."""

    def changed(right: Function) -> Function:
        def loop(*operands: Any, condition: Any, body: Any, captures: Any) -> Any:
            first, second, carry = _parts(operands, captures)
            before, steps = list(carry), 0
            while steps < least or interpret(condition, [*carry, *first])[0]:
                if steps == most:
                    break
                before, carry, steps = list(carry), interpret(body, [*carry, *second]), steps + 1
            return tuple(np.array(c) for c in (before if short else carry))

        return loop

    return changed


def _in_place(right: Function) -> Function:
    """Write each carry as soon as it is known, so that later ones read the new one."""

    def loop(*operands: Any, condition: Any, body: Any, captures: Any) -> Any:
        first, second, given = _parts(operands, captures)
        carry = [np.array(c) for c in given]
        while interpret(condition, [*carry, *first])[0]:
            for i in range(len(carry)):
                carry[i] = np.array(interpret(body, [*carry, *second])[i])
        return tuple(carry)

    return loop


def _wrong_branch_later(right: Function) -> Function:
    calls: dict[Any, int] = {}

    def cond(predicate: Any, *operands: Any, then: Any, otherwise: Any) -> Any:
        """Keep the branch that was taken at the first call of this node."""
        key = (id(then), id(otherwise))
        chosen = calls.setdefault(key, bool(predicate))
        return right(np.array(chosen), *operands, then=then, otherwise=otherwise)

    return cond


def _forwards(right: Function) -> Function:
    return lambda *operands, **attributes: right(*operands, **{**attributes, "reverse": False})


def _kept_after(right: Function) -> Function:
    """Remember the carry after each step instead of before it."""

    def scan(*operands: Any, **attributes: Any) -> Any:
        made = right(*operands, **attributes)
        count, length = attributes["carries"], attributes["length"]
        if not attributes["keep"] or length < 2:
            return made
        kept: list[Array] = []
        for last, before in zip(made[:count], made[-count:], strict=True):
            ends = [before[:-1], last[None]] if attributes["reverse"] else [before[1:], last[None]]
            if attributes["reverse"]:
                ends = ends[::-1]
            kept.append(np.concatenate(ends))
        return (*made[:-count], *kept)

    return scan


def _shared_outputs(right: Function) -> Function:
    """Give every step's output the memory of the last."""

    def scan(*operands: Any, **attributes: Any) -> Any:
        made = right(*operands, **attributes)
        count, length = attributes["carries"], attributes["length"]
        last = 0 if attributes["reverse"] else length - 1
        stacked = [np.broadcast_to(y[last], y.shape) if length else y for y in made[count:]]
        return (*made[:count], *stacked)

    return scan


FAULTS = [
    Fault(
        "one-step-too-few",
        "a loop gives the carry before its last step",
        changing(while_loop=loop_of(short=True)),
        ("values/while_loop-float32/float32",),
        ("while_loop",),
    ),
    Fault(
        "tested-at-the-end",
        "a loop runs once before its condition is looked at",
        changing(while_loop=loop_of(least=1)),
        ("values/while_loop-no-step/float32",),
        ("while_loop",),
    ),
    Fault(
        "steps-in-a-byte",
        "a loop ends after 255 steps",
        changing(while_loop=loop_of(most=255)),
        ("values/while_loop-long/int32",),
        ("while_loop",),
    ),
    Fault(
        "carries-in-place",
        "a carry is written while another still needs the old one",
        changing(while_loop=_in_place),
        ("values/while_loop-turning/float32",),
        ("while_loop",),
    ),
    Fault(
        "branch-remembered",
        "a branch taken once is taken at every later call",
        changing(cond=_wrong_branch_later),
        ("history/branches",),
    ),
    Fault(
        "scan-reverse-ignored",
        "a scan from the end runs from the start",
        changing(scan=_forwards),
        ("values/scan-4-reverse/float32",),
        ("scan",),
    ),
    Fault(
        "scan-keeps-too-late",
        "a scan remembers the carry after each step, which its gradient takes for the one before",
        changing(scan=_kept_after),
        ("gradient/scan-4/float64", "history/drawn-captured-loops"),
        ("scan",),
    ),
    Fault(
        "scan-outputs-shared",
        "all outputs of a scan are those of its last step",
        changing(scan=_shared_outputs),
        ("values/scan-4/float32",),
        ("scan",),
    ),
]
