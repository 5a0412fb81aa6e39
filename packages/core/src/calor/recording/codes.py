"""The codes of a trace: what is recorded for each node, and the graph that they stand for.

Requirements: to record a node, its signature and the distance to each operand are appended to a
list, and nothing else is done. Signatures are interned, so the list is the key of the plan. Python
numbers are inputs, never part of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.graph.op import Op, Signature, register, signature
from calor.interning import remember
from calor.specs import Spec

INPUT: Final = register(Op("input", lambda *, spec, host: spec, no_gradient="an input is a leaf"))
_LEAVES: dict[tuple[Spec, bool], Signature] = {}


def leaf(spec_: Spec, host: bool) -> Signature:
    """Return the signature of an input; ``host`` says that it is a host number or array."""
    key = (spec_, host)
    found = _LEAVES.get(key)
    if found is None:
        made = signature(INPUT, (), {"spec": spec_, "host": host})
        found = remember(_LEAVES, key, made)
    return found


def walk(codes: Sequence[Any]) -> Iterator[tuple[Signature, int, Sequence[int]]]:
    """Yield the nodes of a trace's codes: signature, position, distances to the operands."""
    position = index = 0
    while index < len(codes):
        sig: Signature = codes[index]
        stop = index + 1 + len(sig.inputs)
        yield sig, position, codes[index + 1 : stop]
        index = stop
        position += len(sig.outputs)


def prefix(codes: Sequence[Any], last: int) -> list[Any]:
    """Return the codes of the nodes up to the one that makes position ``last``."""
    length = 0
    for _, position, distances in walk(codes):
        if position > last:
            break
        length += 1 + len(distances)
    return list(codes[:length])


def decode(
    codes: Sequence[Any],
    outputs: Sequence[int],
    quiet: Sequence[tuple[int, int]] = (),
    stop: Op | None = None,
) -> Graph:
    """Return the graph of a trace's codes, its outputs given by position.

    What was made within the ``quiet`` spans of positions is used outside through a node of the row
    ``stop``, which stops its gradient.
    """
    builder = Builder()
    specs, nodes = builder.specs, builder.nodes
    entries = list(walk(codes))
    numbers = {
        position: builder.input(sig.outputs[0], sig.attributes["host"])
        for sig, position, _ in entries
        if sig.op is INPUT
    }
    silent = {p for start, stop in quiet for p in range(start, stop) if p not in numbers}
    stopped: dict[int, int] = {}

    def seen(position: int) -> int:
        """Return what a node that is not silent itself reads at a position."""
        number = numbers[position]
        if stop is None or position not in silent or not builder.specs[number].dtype.is_inexact:
            return number
        if position not in stopped:
            stopped[position] = builder.add(stop, [number])[0]
        return stopped[position]

    for sig, position, distances in entries:
        if sig.op is INPUT:
            continue
        if silent and position not in silent:
            operands = [seen(position - d) for d in distances]
        else:
            operands = [numbers[position - d] for d in distances]
        made = len(specs)
        specs += sig.outputs
        results = tuple(range(made, len(specs)))
        nodes.append(Node(sig.op, tuple(operands), dict(sig.attributes), results))
        numbers.update(zip(range(position, position + len(results)), results, strict=True))
    return prune(builder.build([seen(p) for p in outputs]))
