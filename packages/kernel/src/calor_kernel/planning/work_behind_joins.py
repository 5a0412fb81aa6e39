"""Elementwise work behind a join, done for each joined part before the join.

Requirements: rotary embeddings negate one half of a value, join it with the other one, and scale
and add what comes out. A join is a copy of its own between two chains. Where its parts have equal
shapes, the work behind it is as well done for each part, from slices of the other operands, which
are views. A fuser then computes all parts in one launch, which writes them where the join has them:
the operations, and so the numbers, are the same. Parts lie behind each other along an axis, or in
turns: those are joined along an axis of their own, which is merged with the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE
from calor.specs import Spec, spec
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.graph_links import GraphLinks, links_of
from calor_kernel.contract.movement import MOVEMENTS
from calor_kernel.library.elementwise.operations import ROWS

# The maximum of results of a launch, and of other operands of the work for each part.
_RESULTS: Final = 6
_OPERANDS: Final = 12


def with_work_before_joins(graph: Graph) -> Graph:
    """Return the graph in which parts of equal shapes are joined behind elementwise work.

    The graph itself where there is no such join.
    """
    found, taken = dict[int, _Region](), set[int]()
    for number in range(len(graph.nodes)):
        join = _join_at(graph, number)
        region = None if join is None else _Search(graph, join).region()
        if region is not None and taken.isdisjoint(region.nodes):
            found[number] = region
            taken |= region.nodes
    return _rewritten(graph, found) if found else graph


@dataclass(frozen=True, slots=True)
class _Slice:
    """A part of a value, as one slice however many lead to it."""

    value: int
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the slice."""
        each = zip(self.starts, self.sizes, self.steps, strict=True)
        stops = tuple(start + (size - 1) * step + 1 for start, size, step in each)
        return {"starts": self.starts, "stops": stops, "steps": self.steps}


def _slice_at(graph: Graph, number: int) -> _Slice | None:
    """Return a node as a slice of what is no slice, None if it is another op."""
    node = graph.nodes[number] if number >= 0 else None
    if node is None or node.op.name != "slice":
        return None
    return _of_whole(graph, _own_slice(graph, node))


def _own_slice(graph: Graph, node: Node) -> _Slice:
    """Return a slice node as a slice of its operand."""
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    return _Slice(node.inputs[0], (*starts,), graph.specs[node.outputs[0]].shape, (*steps,))


def _of_whole(graph: Graph, outer: _Slice) -> _Slice:
    """Return a slice of a value as one of that which the value is a slice of."""
    inner = _slice_at(graph, links_of(graph).makers.get(outer.value, -1))
    if inner is None:
        return outer
    each = zip(inner.starts, outer.starts, inner.steps, strict=True)
    starts = tuple(first + start * step for first, start, step in each)
    steps = tuple(a * b for a, b in zip(inner.steps, outer.steps, strict=True))
    return _Slice(inner.value, starts, outer.sizes, steps)


@dataclass(frozen=True, slots=True)
class _Join:
    """A join of parts of equal shapes, and how it is written.

    ``nodes``: those that only it consists of; ``parts``: the values that are joined; ``result``:
    their join; ``axis``: that along which it is longer; ``turns``: whether parts lie in turns. Each
    of those has a last axis of one element.
    """

    nodes: frozenset[int]
    parts: tuple[int, ...]
    result: int
    axis: int
    part: Spec
    whole: Spec
    turns: bool

    def slices(self, value: int) -> list[_Slice]:
        """Return the slices of a value that lie as the parts do."""
        shape = self.part.shape[: len(self.whole.shape)]
        axis, count, made = self.axis, len(self.parts), []
        for number in range(count):
            starts, steps = [0] * len(shape), [1] * len(shape)
            starts[axis] = number if self.turns else number * shape[axis]
            steps[axis] = count if self.turns else 1
            made.append(_Slice(value, (*starts,), shape, (*steps,)))
        return made

    def place(self, found: _Slice | None) -> int | None:
        """Return which of the slices of a value this is, None if it is none of them."""
        slices = [] if found is None else self.slices(found.value)
        return slices.index(found) if found in slices else None

    def add(self, builder: Builder, values: Sequence[int], whole: Spec) -> int:
        """Add the join of other parts, and return its number."""
        joined = spec((*self.part.shape[:-1], len(values)), whole.dtype) if self.turns else whole
        axis = len(joined.shape) - 1 if self.turns else self.axis
        (made,) = builder.add(TABLE["concat"], values, {"axis": axis}, [joined])
        return _reshaped(builder, made, whole) if self.turns else made


def _reshaped(builder: Builder, value: int, to: Spec) -> int:
    return builder.add(TABLE["reshape"], [value], {"shape": to.shape}, [to])[0]


def _join_at(graph: Graph, number: int) -> _Join | None:
    """Return a concat as a join of parts of equal shapes, None if it is none."""
    links, specs, node = links_of(graph), graph.specs, graph.nodes[number]
    if node.op.name != "concat":
        return None
    (result,), axis, part = node.outputs, node.attributes["axis"], specs[node.inputs[0]]
    equal = all(specs[v].shape == part.shape for v in node.inputs)
    if not equal or not 1 < len(node.inputs) <= _RESULTS:
        return None
    if is_size(part.shape[axis]) or not part.size:
        return None
    readers = [*links.readers.get(result, ())]
    merging = graph.nodes[readers[0]] if len(readers) == 1 else None
    last = len(part.shape) > 1 and axis == len(part.shape) - 1 and part.shape[-1] == 1
    if last and merging is not None and merging.op.name == "reshape" and result not in links.wanted:
        (*ahead, size, _), (merged,) = part.shape, merging.outputs
        whole = specs[merged]
        if not is_size(size) and whole.shape == (*ahead, size * len(node.inputs)):
            nodes = frozenset((number, readers[0]))
            return _Join(nodes, node.inputs, merged, len(ahead), part, whole, turns=True)
    nodes = frozenset((number,))
    return _Join(nodes, node.inputs, result, axis, part, specs[result], turns=False)


@dataclass(frozen=True, slots=True)
class _Region:
    """The elementwise nodes that depend on a join, and those that only they read.

    ``ends``: the nodes whose results others read whole.
    """

    join: _Join
    nodes: frozenset[int]
    ends: frozenset[int]


class _Search:
    """The search for the elementwise work around one join of a graph."""

    def __init__(self, graph: Graph, join: _Join) -> None:
        self.graph, self.join = graph, join
        self.links: GraphLinks = links_of(graph)
        self.inside: set[int] = set()

    def region(self) -> _Region | None:
        """Return the work around the join, None if it is better done whole."""
        nodes, links, join = self.graph.nodes, self.links, self.join
        readers = links.readers.get(join.result, ())
        if not all(map(self._light, join.parts)):
            return None
        if join.result in links.wanted or not readers or not all(map(self._works, readers)):
            # Parts in turns are computed where an axis of one element is their last.
            apart = join.turns and all(map(self._apart, join.parts))
            return _Region(join, frozenset(), frozenset()) if apart else None
        waiting = [*readers]
        while waiting:
            number = waiting.pop()
            if number not in self.inside and self._works(number):
                self.inside.add(number)
                waiting += links.readers.get(nodes[number].outputs[0], ())
        self._with_sources([*self.inside])
        self._before_slices()
        ends = frozenset(filter(self._ends, self.inside))
        others = {v for n in self.inside for v in nodes[n].inputs if v != join.result}
        others -= {nodes[n].outputs[0] for n in self.inside}
        count = len(join.parts)
        many = len(ends) * count > _RESULTS or len(others) * count > _OPERANDS
        return None if many else _Region(join, frozenset(self.inside), ends)

    def _light(self, value: int) -> bool:
        """Return whether a part is a view, or computed by elementwise work."""
        number = self.links.makers.get(value)
        if number is None:
            return True
        name = self.graph.nodes[number].op.name
        return name in MOVEMENTS or name in ROWS

    def _apart(self, value: int) -> bool:
        """Return whether a part is elementwise work that nothing else reads, reshaped."""
        return _behind_reshape(self.graph, value) is not None

    def _works(self, number: int) -> bool:
        """Return whether a node computes each element of the join's shape from those there."""
        return _is_elementwise(self.graph, number, self.join.whole.shape)

    def _ends(self, number: int) -> bool:
        """Return whether a node outside reads a result, and not a slice like a part."""
        (made,) = self.graph.nodes[number].outputs
        return made in self.links.wanted or any(
            n not in self.inside and not self._is_part(n) for n in self.links.readers.get(made, ())
        )

    def _is_part(self, number: int) -> bool:
        """Return whether a node is a slice like a part, or is read by such slices alone."""
        found = _slice_at(self.graph, number)
        if found is None or self.join.place(found) is not None:
            return found is not None
        (made,) = self.graph.nodes[number].outputs
        readers = self.links.readers.get(made, ())
        return made not in self.links.wanted and all(map(self._is_part, readers))

    def _with_sources(self, waiting: list[int]) -> None:
        """Add the elementwise nodes that are read inside alone."""
        while waiting:
            for value in self.graph.nodes[waiting.pop()].inputs:
                waiting += self._source(value)

    def _source(self, value: int) -> list[int]:
        """Add the elementwise node of a value that is read inside alone, and return it."""
        number = self.links.makers.get(value)
        if number is None or number in self.inside or not self._works(number):
            return []
        if self._ends(number):
            return []
        self.inside.add(number)
        return [number]

    def _before_slices(self) -> None:
        """Add the elementwise nodes whose results the parts read in slices alone."""
        waiting, seen = [*self.join.parts], set[int]()
        while waiting:
            number = self.links.makers.get(waiting.pop())
            if number is None or number in seen:
                continue
            seen.add(number)
            node, found = self.graph.nodes[number], _slice_at(self.graph, number)
            if found is not None and self.join.place(found) is not None:
                self._with_sources(self._source(found.value))
            elif node.op.name in ROWS or node.op.name == "reshape":
                waiting += node.inputs


def _is_elementwise(graph: Graph, number: int, shape: tuple[int, ...]) -> bool:
    """Return whether a node computes each element of a shape from the operands' elements there."""
    node, specs = graph.nodes[number], graph.specs
    if node.op.name not in ROWS or node.op.name in MOVEMENTS or len(node.outputs) != 1:
        return False
    values = (*node.inputs, *node.outputs)
    return bool(node.inputs) and all(specs[v].shape == shape for v in values)


def _behind_reshape(graph: Graph, value: int) -> Node | None:
    """Return the elementwise node of a value with one more axis, None if it is no such node."""
    links = links_of(graph)
    number = links.makers.get(value, -1)
    if number < 0 or graph.nodes[number].op.name != "reshape":
        return None
    (inner,) = graph.nodes[number].inputs
    made = links.makers.get(inner, -1)
    alone = inner not in links.wanted and len(links.readers[inner]) == 1
    if made < 0 or not alone or graph.specs[value].shape != (*graph.specs[inner].shape, 1):
        return None
    return graph.nodes[made] if _is_elementwise(graph, made, graph.specs[inner].shape) else None


def _rewritten(graph: Graph, found: Mapping[int, _Region]) -> Graph:
    """Return the graph with the work of regions done for each part."""
    builder = Builder()
    numbers = {i: builder.input(graph.specs[i], i in graph.host) for i in graph.inputs}
    slices = _Slices(graph, builder, numbers)
    parts = {n: _Parts(graph, region, slices) for n, region in found.items()}
    where = {n: join for join, region in found.items() for n in region.nodes}
    gone = {n for region in found.values() for n in region.join.nodes}
    made = {graph.nodes[n].outputs[0]: join for n, join in where.items()}
    for number, node in enumerate(graph.nodes):
        known = _slice_at(graph, number)
        if number in where:
            parts[where[number]].work(number)
        elif known is not None:
            join = made.get(known.value)
            if join is None or not parts[join].take(node, known):
                slices.take(node, known)
        elif number not in gone:
            builder.take(graph, [node], numbers)
        elif number in found and not found[number].nodes:
            parts[number].join_apart()
    return prune(builder.build([numbers[o] for o in graph.outputs]))


class _Slices:
    """The slices of values; equal ones are one node, which a fuser reads once.

    ``numbers``: the values of the written graph, by those of ``graph``.
    """

    def __init__(self, graph: Graph, builder: Builder, numbers: dict[int, int]) -> None:
        self.graph, self.builder, self.numbers = graph, builder, numbers
        self.made: dict[_Slice, int] = {}

    def take(self, node: Node, known: _Slice) -> None:
        """Add a slice of the graph."""
        own, (result,) = _own_slice(self.graph, node), node.outputs
        # What a slice cuts of a region's value is of no use when only parts of it are read.
        if known.value in self.numbers or own.value in self.numbers:
            self.numbers[result] = self.of(known, own, self.graph.specs[result])

    def of(self, known: _Slice, own: _Slice, part: Spec) -> int:
        """Return a part of a value, which is ``own`` of what may itself be a part.

        Parts of a region's value are there where the value is not.
        """
        known = known if known.value in self.numbers else own
        if known not in self.made:
            (self.made[known],) = self.builder.add(
                TABLE["slice"], [self.numbers[known.value]], known.attributes, [part]
            )
        return self.made[known]


class _Parts:
    """The values of a region, as one value for each part of its join."""

    def __init__(self, graph: Graph, region: _Region, slices: _Slices) -> None:
        self.graph, self.region, self.slices = graph, region, slices
        self.join, self.builder, self.numbers = region.join, slices.builder, slices.numbers
        self.made: dict[int, list[int]] = {}

    def work(self, number: int) -> None:
        """Add a node for each part, and the join of its results if others read them."""
        node = self.graph.nodes[number]
        (result,) = node.outputs
        given = [self._parts(v) for v in node.inputs]
        part = spec(self.join.part.shape, self.graph.specs[result].dtype)
        self.made[result] = made = [
            self.builder.add(node.op, inputs, node.attributes, [part])[0]
            for inputs in zip(*given, strict=True)
        ]
        if number in self.region.ends:
            whole = self.graph.specs[result]
            self.numbers[result] = self.join.add(self.builder, made, whole)

    def take(self, node: Node, known: _Slice) -> bool:
        """Make a slice of a region's value that part of it, and return whether it is one."""
        place = self.join.place(known)
        if place is not None:
            made, (result,) = self.made[known.value][place], node.outputs
            if self.join.turns:
                made = _reshaped(self.builder, made, self.graph.specs[result])
            self.numbers[result] = made
        return place is not None

    def join_apart(self) -> None:
        """Join parts whose last op is done with the axis of one element."""
        made: list[int] = []
        for value in self.join.parts:
            node = _behind_reshape(self.graph, value)
            assert node is not None
            given = [
                _reshaped(
                    self.builder,
                    self.numbers[v],
                    spec(self.join.part.shape, self.graph.specs[v].dtype),
                )
                for v in node.inputs
            ]
            part = self.graph.specs[value]
            made += self.builder.add(node.op, given, node.attributes, [part])
        self.numbers[self.join.result] = self.join.add(self.builder, made, self.join.whole)

    def _parts(self, value: int) -> list[int]:
        """Return a value in parts: those that were joined, those made of them, or slices."""
        if value == self.join.result:
            return [self.numbers[v] for v in self.join.parts]
        if value not in self.made:
            self.made[value] = self._cut(value)
        return self.made[value]

    def _cut(self, value: int) -> list[int]:
        graph, join = self.graph, self.join
        dtype = graph.specs[value].dtype
        part = spec(join.part.shape, dtype)
        number = links_of(graph).makers.get(value)
        if number is not None and graph.nodes[number].op.name == "full":
            node = graph.nodes[number]
            attributes = {**node.attributes, "shape": part.shape}
            return [*self.builder.add(node.op, (), attributes, [part])] * len(join.parts)
        lines = spec(part.shape[:-1], dtype) if join.turns else part
        made = [self.slices.of(_of_whole(graph, k), k, lines) for k in join.slices(value)]
        return [_reshaped(self.builder, v, part) for v in made] if join.turns else made
