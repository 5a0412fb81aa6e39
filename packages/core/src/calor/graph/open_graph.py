"""Graphs with open sizes: the graph of each set of sizes is filled in from numbers.

Requirements: a node whose attributes have no open size is the same object at all sizes, so a graph
costs about a microsecond for each value with open sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from calor.graph.attributes import Scalar, SizedScalar
from calor.graph.graph import Graph, Node
from calor.sizes import Function, Size, Trace, function_of
from calor.specs import Spec, spec


@dataclass(frozen=True, slots=True)
class Hole:
    """An open size: its place among the numbers."""

    place: int


class OpenGraph:
    """A graph whose sizes are those of a trace, which further questions may be asked of.

    Parameters
    ----------
    graph : Graph
        The graph; its shapes and attributes may hold sizes of the trace.
    trace : Trace
        The trace. It is closed when numbers are asked for.
    """

    def __init__(self, graph: Graph, trace: Trace) -> None:
        self.trace = trace
        self._texts: dict[str, int] = {}
        self._hints: list[int] = []
        self._atoms: set[int] = set()
        self._form = self._opened(graph)
        self._outputs = [self._form.specs[v] for v in graph.outputs]

    @cached_property
    def numbers(self) -> Function:
        """The function that computes the graph's numbers from the symbols."""
        self.trace.closed = True
        return function_of(self.trace, list(self._texts), self._atoms)

    @cached_property
    def _unguarded(self) -> Function:
        holes = [h.place for s in self._outputs if type(s) is _OpenSpec for h in s.holes]
        kept, texts = {*holes}, list(self._texts)
        return function_of(
            self.trace,
            [text if place in kept else "0" for place, text in enumerate(texts)],
            self._atoms if kept else (),
            guarded=False,
        )

    def hinted(self) -> Graph:
        """Return the graph for the sizes of the trace's hints."""
        return self.at(self._hints)

    def output_specs(self, symbols: Sequence[int]) -> tuple[Spec, ...]:
        """Return the specs of the outputs for symbols for which the guards hold.

        Parameters
        ----------
        symbols : sequence of int
            The sizes.

        Returns
        -------
        tuple of Spec
            The specs.
        """
        numbers = self._unguarded(*symbols)
        assert numbers is not None
        return tuple([s.at(numbers) if type(s) is _OpenSpec else s for s in self._outputs])

    def _opened(self, graph: Graph) -> _Form:
        specs = [self._held(known) for known in graph.specs]
        nodes: list[Node | tuple[Node, dict[str, Any]]] = []
        for node in graph.nodes:
            held = {name: self._held(value) for name, value in node.attributes.items()}
            nodes.append((node, held) if any(map(_is_open, held.values())) else node)
        return _Form(graph, specs, nodes)

    def _held(self, value: Any) -> Any:
        """Return a value with holes in place of its sizes; the value itself if it has none."""
        if isinstance(value, Size):
            self._atoms |= value.atoms
            if value.text not in self._texts:
                self._texts[value.text] = len(self._texts)
                self._hints.append(value.hint)
            return Hole(self._texts[value.text])
        if type(value) is tuple:
            held = tuple(map(self._held, value))
            return held if any(map(_is_open, held)) else value
        if type(value) is SizedScalar:
            return _OpenScalar(self._held(value.size), value.dtype)
        if type(value) is Spec:
            shape = self._held(value.shape)
            return value if shape is value.shape else _OpenSpec(shape, value)
        if type(value) is Graph:
            form = self._opened(value)
            return form if form.open else value
        if is_dataclass(value) and any(
            isinstance(getattr(value, field.name), Size) for field in fields(value)
        ):
            raise TypeError(f"an attribute of type {type(value).__name__} holds a size")
        return value

    def at(self, numbers: Sequence[int]) -> Graph:
        """Return the graph for the numbers of some sizes.

        Parameters
        ----------
        numbers : sequence of int
            What ``numbers`` returns for the sizes.

        Returns
        -------
        Graph
            The graph.
        """
        made = self._form.at(numbers)
        assert isinstance(made, Graph)
        return made


@dataclass(frozen=True, slots=True)
class _OpenSpec:
    shape: tuple[Any, ...]
    known: Spec

    @property
    def holes(self) -> list[Hole]:
        return [n for n in self.shape if type(n) is Hole]

    def at(self, numbers: Sequence[int]) -> Spec:
        return spec(_filled(self.shape, numbers), self.known.dtype, self.known.weak)


@dataclass(frozen=True, slots=True)
class _OpenScalar:
    hole: Hole
    dtype: str

    def at(self, numbers: Sequence[int]) -> Scalar:
        return Scalar.of(numbers[self.hole.place], self.dtype)


@dataclass(frozen=True, slots=True)
class _Form:
    graph: Graph
    specs: Sequence[Any]
    nodes: Sequence[Node | tuple[Node, dict[str, Any]]]

    @property
    def open(self) -> bool:
        """Whether a size is open."""
        return any(map(_is_open, self.specs)) or any(type(node) is tuple for node in self.nodes)

    def at(self, numbers: Sequence[int]) -> Graph:
        known: dict[int, Spec] = {}
        specs = []
        for held in self.specs:
            if type(held) is _OpenSpec:
                made = known.get(id(held.known))
                if made is None:
                    made = known[id(held.known)] = held.at(numbers)
                held = made
            specs.append(held)
        nodes: list[Node] = []
        for node in self.nodes:
            if type(node) is tuple:
                old, held = node
                attributes = {name: _filled(value, numbers) for name, value in held.items()}
                node = Node(old.op, old.inputs, attributes, old.outputs)
            nodes.append(node)  # type: ignore[arg-type]
        graph = self.graph
        return Graph(specs, graph.host, nodes, graph.outputs, len(graph.inputs))


def _is_open(held: Any) -> bool:
    if type(held) is tuple:
        return any(map(_is_open, held))
    return type(held) in (Hole, _OpenSpec, _OpenScalar, _Form)


def _filled(held: Any, numbers: Sequence[int]) -> Any:
    kind = type(held)
    if kind is Hole:
        return numbers[held.place]
    if kind is tuple:
        return tuple([_filled(item, numbers) for item in held])
    return held.at(numbers) if kind in (_OpenSpec, _OpenScalar, _Form) else held
