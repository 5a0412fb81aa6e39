"""The fuser of transforms along one axis with the padding, the cut and the factor beside them.

Requirements: a transform to a few modes, or from a few, is a product with a small matrix of turns,
which reads the operand and writes the result once and computes no mode that is dropped. So is one
of a short length with a large prime, which would otherwise be a convolution of longer transforms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Any, Final

from calor.graph.graph import Graph, Node
from calor_kernel.contract.choices import hinted
from calor_kernel.contract.cost import Ceilings, ceilings_of
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.contract.graph_links import GraphLinks, links_of, uniform_of
from calor_kernel.contract.info import DeviceInfo

MODES: Final = "fft_modes"
# The shares of a device's operations that products reach, sums of columns, and transforms of steps.
_PRODUCT, _COLUMNS, _STEPS = 0.5, 0.2, 0.12
# A convolution is so many transforms of a longer length.
_CONVOLVED: Final = 5
# What makes the operand of a factor that belongs to the transform before it.
_OTHERS: Final = frozenset(("fft", "slice", "real", "mul"))
# The most turns of a matrix.
_TURNS: Final = 1 << 24


@dataclass
class _Chain:
    """The nodes of a group: ``first`` is what it reads, ``last`` what it makes."""

    nodes: list[int]
    first: int
    last: int
    scale: complex = 1.0
    given: tuple[int, int] | None = None
    kept: tuple[int, int] | None = None
    real: bool = False


class ModesFuser(Fuser):
    """Covers transforms along one axis that are sooner computed as products."""

    name = "modes"

    def groups(self, graph: Graph, info: DeviceInfo) -> Iterable[Group]:
        """Return a group for each transform that is taken."""
        found = [i for i, node in enumerate(graph.nodes) if node.op.name == "fft"]
        if not found:
            return ()
        links, ceilings = links_of(graph), ceilings_of(info)
        groups = (_group(graph, links, ceilings, info, i) for i in found)
        return [group for group in groups if group is not None]


def _group(
    graph: Graph, links: GraphLinks, ceilings: Ceilings, info: DeviceInfo, number: int
) -> Group | None:
    node = graph.nodes[number]
    axes = node.attributes["axes"]
    if len(axes) != 1 or not graph.specs[node.outputs[0]].size:
        return None
    (axis,) = axes
    chain = _Chain([number], node.inputs[0], node.outputs[0])
    _before(graph, links, axis, chain)
    _after(graph, links, axis, chain, node.attributes["kind"])
    x, y = graph.specs[chain.first], graph.specs[chain.last]
    length = node.attributes["length"] if node.attributes["kind"] in ("r2c", "c2r") else None
    n = graph.specs[node.inputs[0]].shape[axis] if length is None else length
    attributes = {
        "kind": node.attributes["kind"],
        "axis": axis,
        "length": n,
        "given": chain.given or (0, x.shape[axis]),
        "kept": chain.kept or (0, y.shape[axis]),
        "real": chain.real,
        "scale": chain.scale,
    }
    if not _pays(graph, node, chain, axis, n, ceilings, info):
        return None
    nodes = tuple(sorted(chain.nodes))
    return Group(nodes, MODES, (chain.first,), (chain.last,), 0.0, attributes)


def _alone(graph: Graph, links: GraphLinks, value: int) -> int | None:
    """Return the only reader of a value, None if there are others."""
    readers = links.readers.get(value, [])
    return readers[0] if len(readers) == 1 and value not in links.wanted else None


def _factor(graph: Graph, links: GraphLinks, node: Node) -> tuple[int, complex] | None:
    """Return what a node multiplies by one number, and the number."""
    if node.op.name != "mul" or node.inputs[0] == node.inputs[1]:
        return None
    for place in (1, 0):
        found = uniform_of(graph, node.inputs[place])
        if found is not None and not found.imag:
            return node.inputs[1 - place], found.real
    return None


def _before(graph: Graph, links: GraphLinks, axis: int, chain: _Chain) -> None:
    """Extend a chain by what makes its operand."""
    while True:
        number = links.makers.get(chain.first)
        if number is None or _alone(graph, links, chain.first) is None:
            return
        node = graph.nodes[number]
        factor = _factor(graph, links, node)
        if factor is not None:
            behind = links.makers.get(factor[0])
            if behind is not None and graph.nodes[behind].op.name in _OTHERS:
                return
            chain.scale *= factor[1]
            chain.first = factor[0]
        elif node.op.name == "pad" and chain.given is None and _pads(graph, links, node, axis):
            low, size = node.attributes["low"][axis], graph.specs[node.inputs[0]].shape[axis]
            chain.given = low, low + size
            chain.first = node.inputs[0]
        else:
            return
        chain.nodes.append(number)


def _pads(graph: Graph, links: GraphLinks, node: Node, axis: int) -> bool:
    """Return whether a node puts zeros around an axis alone."""
    said = node.attributes
    others = [n for side in ("low", "high") for a, n in enumerate(said[side]) if a != axis or n < 0]
    if any(said["interior"]) or any(others) or not graph.specs[node.inputs[0]].shape[axis]:
        return False
    return uniform_of(graph, node.inputs[1]) == 0


def _after(graph: Graph, links: GraphLinks, axis: int, chain: _Chain, kind: str) -> None:
    """Extend a chain by what reads its result."""
    while True:
        number = _alone(graph, links, chain.last)
        if number is None:
            return
        node = graph.nodes[number]
        factor = _factor(graph, links, node)
        spec = graph.specs[chain.last]
        if factor is not None and factor[0] == chain.last:
            chain.scale *= factor[1]
        elif node.op.name == "slice" and chain.kept is None:
            said = node.attributes
            starts, stops = said["starts"], said["stops"]
            whole = all(
                starts[a] == 0 and stops[a] == n for a, n in enumerate(spec.shape) if a != axis
            )
            if not whole or any(s != 1 for s in said["steps"]) or stops[axis] == starts[axis]:
                return
            chain.kept = starts[axis], stops[axis]
        elif node.op.name == "real" and kind != "c2r":
            chain.real = True
        else:
            return
        chain.nodes.append(number)
        chain.last = node.outputs[0]


def _pays(
    graph: Graph,
    node: Node,
    chain: _Chain,
    axis: int,
    n: int,
    ceilings: Ceilings,
    info: DeviceInfo,
) -> bool:
    """Return whether the product takes less time than the transform and what is beside it."""
    x, y = graph.specs[chain.first], graph.specs[chain.last]
    given, kept = hinted(x.shape[axis]), hinted(y.shape[axis])
    length = hinted(n)
    lines = hinted(prod(x.shape)) // max(given, 1)
    before = (1 + x.dtype.is_complex) * given
    after = (1 + y.dtype.is_complex) * kept
    if before * after > _TURNS:
        return False
    inner = hinted(prod(x.shape[axis + 1 :]))
    share = _PRODUCT if inner == 1 else _COLUMNS
    product = ceilings.seconds(
        hinted(x.nbytes) + hinted(y.nbytes), int(2 * lines * before * after / share)
    )
    factors_of: Any = import_module("calor_kernel.library.fft.plan").factors_of
    smooth = factors_of(length) is not None
    steps = 5 * length * max(length.bit_length() - 1, 1)
    if not smooth:
        steps *= _CONVOLVED
    passes = 1 if smooth else _CONVOLVED
    source, made = graph.specs[node.inputs[0]], graph.specs[node.outputs[0]]
    nbytes = passes * (hinted(source.nbytes) + hinted(made.nbytes))
    nbytes += sum(
        hinted(graph.specs[v].nbytes)
        for number in chain.nodes
        if graph.nodes[number] is not node and graph.nodes[number].op.name in ("mul", "pad")
        for v in (*graph.nodes[number].inputs[:1], *graph.nodes[number].outputs)
    )
    transform = ceilings.seconds(nbytes, int(lines * steps / _STEPS))
    return product < transform
