"""Nodes that are computed where they are read, not where their operand is made.

Requirements: a backward pass begins with cheap functions of saved values: a mask, a conversion to
float32. They depend on nothing late, so they could join the launch that makes the value, and their
results would wait in memory beside it: a copy in float32 of a saved value of half the bytes, or a
mask of an activation that a convolution saves anyway. Where the value itself waits for another
reader, they are computed from it in the backward pass, and join a launch there. So does a
conversion to more bytes on its way to a reduction, wherever that stands.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

from calor.graph.graph import Graph
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.movement import ALWAYS_OF_DENSE
from calor_kernel.library.elementwise.operations import ROWS

# Smaller values, in bytes, may wait.
_SMALL: Final = 1 << 16
# A reader is late if so many times the value's bytes are made before it.
_LATE: Final = 16
# Two readers are near each other if no more is made between them.
_NEAR: Final = 8
# A value of a smaller share of another's bytes counts as one of rows, or of a channel.
_ROW: Final = 8
_SOURCES: Final = frozenset(("full", "constant", "iota"))
_PRODUCTS: Final = frozenset(("dot_general", "conv", "conv_input_gradient", "conv_weight_gradient"))


class Postponed(NamedTuple):
    """The nodes that do not join the maker of an operand, with that operand's number.

    ``late``: those that are computed from a value that waits for other readers. ``every``: these
    and the conversions to more bytes, which join the maker where nothing of more bytes is stored.
    """

    late: Mapping[int, int]
    every: Mapping[int, int]


_last: list[tuple[weakref.ref[Graph], Postponed]] = []


def postponed(graph: Graph) -> Postponed:
    """Return the nodes that do not join the maker of an operand."""
    for known, found in _last:
        if known() is graph:
            return found
    late = _late(graph)
    made = Postponed(MappingProxyType(late), MappingProxyType(_widened(graph) | late))
    _last[:] = [(weakref.ref(graph), made)]
    return made


def _late(graph: Graph) -> dict[int, int]:
    """Return the nodes that are computed from a value that waits for other readers."""
    sizes: list[int] = [hinted(s.nbytes) for s in graph.specs]
    found: dict[int, int] = {}
    if max(sizes, default=0) < _SMALL:
        return found
    base = list(range(len(sizes)))
    maker: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        name = node.op.name
        if name in _SOURCES:
            base[node.outputs[0]] = -1
        elif name in ALWAYS_OF_DENSE:
            base[node.outputs[0]] = base[node.inputs[0]]
        else:
            maker.update((v, i) for v in node.outputs)
            for v in {base[v] for v in node.inputs} - {-1}:
                readers.setdefault(v, []).append(i)
    done = [0, *accumulate(
        sum(sizes[v] for v in n.outputs if base[v] == v) for n in graph.nodes
    )]  # fmt: skip

    def varying(number: int) -> list[int]:
        """Return what a node reads of its result's size, as values that are in memory."""
        node = graph.nodes[number]
        most = max(sizes[v] for v in node.outputs)
        read = dict.fromkeys(base[v] for v in node.inputs)
        return [v for v in read if v >= 0 and sizes[v] * _ROW > most]

    def late(value: int, number: int) -> bool:
        return done[number] - done[maker[value] + 1] >= _LATE * sizes[value]

    computing = {i for i, n in enumerate(graph.nodes) if n.op.name in ROWS}
    # When each node could run at the earliest, as the number of a node.
    ready: list[int] = []
    for i in range(len(graph.nodes)):
        given = (base[v] for v in graph.nodes[i].inputs)
        needs = (ready[maker[v]] for v in given if v in maker) if i in computing else (i,)
        ready.append(max(needs, default=0))
    for number in sorted(computing):
        read = varying(number)
        if len(read) != 1 or read[0] not in maker or sizes[read[0]] < _SMALL:
            continue
        (value,) = read
        if not late(value, number) or late(value, ready[number]):
            continue
        near = _NEAR * sizes[value]
        # Those that need the value until they run, whatever is computed early.
        others = (r for r in readers[value] if late(value, ready[r]))
        if any(done[number] - done[r] <= near for r in others):
            found[number] = value
    return found


def _widened(graph: Graph) -> dict[int, int]:
    """Return the conversions to more bytes that a reduction or another op reads at last.

    Stored for these, the converted value, or what is computed from it, takes more bytes than the
    value itself, which a product stores, or which is stored for other readers. Where elementwise
    nodes alone read it and narrow it again, nothing is stored.
    """
    specs, deep, found = graph.specs, set[int](), dict[int, int]()
    if max((hinted(s.nbytes) for s in specs), default=0) < _SMALL:
        return found
    stored = {*graph.inputs, *graph.outputs}
    for node in graph.nodes:
        if node.op.name != "cast":
            stored.update(node.inputs)
        if node.op.name in _PRODUCTS:
            stored.update(node.outputs)
    for number in reversed(range(len(graph.nodes))):
        node = graph.nodes[number]
        if node.op.name not in ROWS and node.op.name not in ALWAYS_OF_DENSE:
            deep.update(node.inputs)
            continue
        (result,) = node.outputs
        if node.op.name == "cast":
            change = specs[result].dtype.itemsize - specs[node.inputs[0]].dtype.itemsize
            if change > 0 and result in deep and node.inputs[0] in stored:
                found[number] = node.inputs[0]
            if change:
                continue
        if result in deep:
            deep.update(node.inputs)
    return found
