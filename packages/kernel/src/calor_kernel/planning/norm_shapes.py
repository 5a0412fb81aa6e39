"""What follows a norm, in the shape in which the norm is computed.

Requirements: a norm of groups of channels is computed in a shape with an axis of groups, and what
follows by channel in the shape of the image, though both lie in memory alike. The gradient of the
norm could compute again what is elementwise in x (`calor_kernel.planning.recomputing`), but groups
are no axis of the image, so means and rates of groups have no strides there. So elementwise nodes
and sums behind a norm take its shape, if their other operands are views in it. Reshapes stand where
anything else reads the results; they cost nothing, and the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE
from calor.specs import spec
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import View
from calor_kernel.library.elementwise.operations import ROWS

_NORMS: Final = frozenset(("standardize", "rms_norm"))
Shape = tuple[int, ...]


def in_norm_shapes(graph: Graph) -> Graph:
    """Return the graph with what follows norms in their shapes, or the graph itself."""
    made = {node.outputs[0] for node in graph.nodes if node.op.name in _NORMS}
    if not made or any(is_size(n) for v in made for n in graph.specs[v].shape):
        return graph
    starts = [node for node in graph.nodes if node.op.name == "reshape" and node.inputs[0] in made]
    return _Writer(graph).written({node.outputs[0] for node in starts}) if starts else graph


@dataclass(frozen=True, slots=True)
class _Held:
    """A value in a norm's shape: its number in the new graph."""

    number: int
    shape: Shape


class _Writer:
    """Writes a graph; ``held``: the values that are computed in a norm's shape."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.builder = graph, Builder()
        specs = graph.specs
        self.numbers = {i: self.builder.input(specs[i], i in graph.host) for i in graph.inputs}
        self.makers = {v: node for node in graph.nodes for v in node.outputs}
        self.held: dict[int, _Held] = {}
        self.moved: dict[tuple[int, Shape], int] = {}
        self.views: dict[int, View | None] = {}

    def written(self, starts: set[int]) -> Graph:
        """Return the graph; ``starts``: the results of norms in another shape."""
        for node in self.graph.nodes:
            value = node.outputs[0] if len(node.outputs) == 1 else -1
            if value in starts:
                shape = self.graph.specs[node.inputs[0]].shape
                self.held[value] = _Held(self._number(node.inputs[0]), shape)
            elif not (value >= 0 and self._moved(node, value)):
                known = {**self.numbers, **{v: self._number(v) for v in node.inputs}}
                self.builder.take(self.graph, [node], known)
                self.numbers.update((v, known[v]) for v in node.outputs)
        return prune(self.builder.build([self._number(o) for o in self.graph.outputs]))

    def _number(self, value: int) -> int:
        """Return the number of a value in its own shape."""
        if value not in self.numbers:
            self.numbers[value] = self._reshaped(
                self.held[value].number, self.graph.specs[value].shape
            )
        return self.numbers[value]

    def _reshaped(self, number: int, shape: Shape) -> int:
        like = spec(shape, self.builder.specs[number].dtype)
        (made,) = self.builder.add(TABLE["reshape"], [number], {"shape": shape}, [like])
        return made

    def _moved(self, node: Node, value: int) -> bool:
        """Compute a node in the shape of a norm; False if that is not possible."""
        found = [self.held[v] for v in node.inputs if v in self.held]
        if not found:
            return False
        shape, result = found[0].shape, self.graph.specs[value]
        if node.op.name == "reshape" and result.shape == shape:
            self.numbers[value] = found[0].number
            return True
        if node.op.name == "sum":
            axes = axes_in(self.graph.specs[node.inputs[0]].shape, shape, node.attributes["axes"])
            if axes is None:
                return False
            left = tuple(n for k, n in enumerate(shape) if k not in axes)
            attributes = {**node.attributes, "axes": axes}
            like = spec(left, result.dtype)
            (made,) = self.builder.add(node.op, [found[0].number], attributes, [like])
            self.numbers[value] = self._reshaped(made, result.shape)
            return True
        elementwise = node.op.name in ROWS or node.op.name == "cast"
        if not elementwise or not all(self._fits(v, result.shape, shape) for v in node.inputs):
            return False
        read = [self._in_shape(v, shape) for v in node.inputs]
        like = spec(shape, result.dtype)
        (made,) = self.builder.add(node.op, read, node.attributes, [like])
        self.held[value] = _Held(made, shape)
        return True

    def _in_shape(self, value: int, shape: Shape) -> int:
        """Return the number of a value in a norm's shape; what is converted is, before that."""
        if value in self.held and self.held[value].shape == shape:
            return self.held[value].number
        if (value, shape) not in self.moved:
            node = self.makers.get(value)
            name = "" if node is None or value in self.held else node.op.name
            like = spec(shape, self.graph.specs[value].dtype)
            if node is not None and name == "full":
                full = {**node.attributes, "shape": shape}
                (self.moved[value, shape],) = self.builder.add(node.op, [], full, [like])
            elif node is not None and name == "cast":
                read = self._in_shape(node.inputs[0], shape)
                made = self.builder.add(node.op, [read], node.attributes, [like])
                (self.moved[value, shape],) = made
            else:
                self.moved[value, shape] = self._reshaped(self._number(value), shape)
        return self.moved[value, shape]

    def _fits(self, value: int, whole: Shape, shape: Shape) -> bool:
        """Return whether an operand is a view in a norm's shape."""
        if self.graph.specs[value].shape != whole:
            return False
        if value in self.held:
            return True
        view, like = self._view(value), spec(shape, self.graph.specs[value].dtype)
        return view is not None and view_of("reshape", view, {"shape": shape}, like) is not None

    def _view(self, value: int) -> View | None:
        """Return a value as a view of what is behind movement, None if it is a copy."""
        if value not in self.views:
            node, known = self.makers.get(value), self.graph.specs[value]
            if node is None or node.op.name not in MOVEMENTS or node.op.name == "cast":
                self.views[value] = View.dense(known)
            else:
                view = self._view(node.inputs[0])
                self.views[value] = view and view_of(node.op.name, view, node.attributes, known)
        return self.views[value]


def axes_in(shape: Sequence[int], other: Sequence[int], axes: Sequence[int]) -> Shape | None:
    """Return the axes of another shape that are these, None if parts of axes would be.

    >>> axes_in((8, 6, 5, 4), (8, 2, 3, 20), (0, 2, 3))
    (0, 3)
    >>> axes_in((8, 6, 5, 4), (8, 2, 3, 20), (2,)) is None
    True
    """
    found: list[int] = []
    i = j = 0
    while i < len(shape) or j < len(other):
        first, second = [i], [j]
        if i == len(shape) or j == len(other):
            # Axes of one element at the end belong to any block.
            return (*found, *range(j, len(other))) if i == len(shape) else None
        one, two = shape[i], other[j]
        i, j = i + 1, j + 1
        while one != two:
            if one < two:
                if i == len(shape):
                    return None
                one, first, i = one * shape[i], [*first, i], i + 1
            else:
                if j == len(other):
                    return None
                two, second, j = two * other[j], [*second, j], j + 1
        reduced = [k in axes for k in first]
        if any(reduced) != all(reduced):
            return None
        if all(reduced):
            found += second
    return tuple(found)
