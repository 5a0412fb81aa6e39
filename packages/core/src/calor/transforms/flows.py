"""Which outputs of a graph a gradient can flow through, given the inputs that it may end in.

Requirements: a loop passes on state without gradient (running statistics, counters) beside values
that have one. Such state must leave the loop without a record, which would keep every step alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calor.graph.graph import Graph
from calor.ops import control
from calor.ops.base import Op
from calor.recording.rows import stop_gradient

Flags = list[bool]


def flows(graph: Graph, wanted: Sequence[bool]) -> Flags:
    """Return for each output whether it may have a gradient by one of the wanted inputs."""
    reached = [*wanted, *[False] * (len(graph.specs) - len(wanted))]
    for node in graph.nodes:
        given = [reached[i] for i in node.inputs]
        if any(given):
            made = through(node.op, given, node.attributes) or [True] * len(node.outputs)
            for number, flag in zip(node.outputs, made, strict=True):
                reached[number] = flag and graph.specs[number].dtype.is_inexact
    return [reached[number] for number in graph.outputs]


def through(op: Op, given: Sequence[bool], attributes: Mapping[str, Any]) -> Flags:
    """Return the same for the outputs of one node; empty for an op whose outputs all may."""
    rule = _RULES.get(op)
    return [] if rule is None else rule(list(given), **attributes)


def _cond(given: Flags, then: Graph, otherwise: Graph) -> Flags:
    either = zip(flows(then, given[1:]), flows(otherwise, given[1:]), strict=True)
    return [a or b for a, b in either]


def _while_loop(given: Flags, condition: Graph, body: Graph, captures: tuple[int, int]) -> Flags:
    held, carry = given[captures[0] : sum(captures)], given[sum(captures) :]
    # It may take no step, so what was in the carry may still be there.
    return _settled(body, carry, held)[0]


def _scan(
    given: Flags, body: Graph, captures: int, carries: int, length: int, reverse: bool, keep: bool
) -> Flags:
    rest = captures + carries
    carry, made = _settled(body, given[captures:rest], [*given[rest:], *given[:captures]])
    last = made[:carries] if length else given[captures:rest]
    return [*last, *made[carries:], *(carry if keep else ())]


def _settled(body: Graph, carry: Flags, others: Flags) -> tuple[Flags, Flags]:
    """Return what holds for the carry in any step, and for what the body then returns."""
    while True:
        made = flows(body, [*carry, *others])
        after = [a or b for a, b in zip(carry, made, strict=False)]
        if after == carry:
            return carry, made
        carry = after


_RULES: dict[Op, Callable[..., Flags]] = {
    stop_gradient: lambda given: [False],
    control.cond: _cond,
    control.while_loop: _while_loop,
    control.scan: _scan,
}
