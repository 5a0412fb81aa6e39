"""Joins of reshaped values as joins of the values themselves, which may lie in any order.

Requirements: the gradients of queries, keys and values are joined along heads and their elements.
They lie by heads, so merging both axes would copy each of them before the join copies them again.
A join along the first of the merged axes reads them where they are, and its result is reshaped,
which is a view.
"""

from __future__ import annotations

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE
from calor.specs import Spec, spec
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import View


def joining(graph: Graph) -> Graph:
    """Return the graph with joins before the reshapes that would copy their operands.

    The graph itself where there are none.
    """
    search = _Search(graph)
    found = {n: made for n, node in enumerate(graph.nodes) if (made := search.operands(node))}
    if not found:
        return graph
    builder, specs = Builder(), graph.specs
    numbers = {i: builder.input(specs[i], i in graph.host) for i in graph.inputs}
    for number, node in enumerate(graph.nodes):
        if number not in found:
            builder.take(graph, [node], numbers)
            continue
        (result,), axis, values = node.outputs, node.attributes["axis"], found[number]
        first = specs[values[0]]
        total = sum(specs[v].shape[axis] for v in values)
        like = spec((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)
        joined = builder.add(node.op, [numbers[v] for v in values], node.attributes, [like])
        shape = {"shape": specs[result].shape}
        (numbers[result],) = builder.add(TABLE["reshape"], joined, shape, [specs[result]])
    return prune(builder.build([numbers[o] for o in graph.outputs]))


class _Search:
    """A graph, with the maker and the number of readers of each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {o: node for node in graph.nodes for o in node.outputs}
        self.reads = [0] * len(graph.specs)
        for value in (*(v for node in graph.nodes for v in node.inputs), *graph.outputs):
            self.reads[value] += 1

    def operands(self, node: Node) -> list[int] | None:
        """Return what a join may join instead of its operands, None if that saves no copy."""
        if node.op.name != "concat":
            return None
        makers = [self.makers.get(v) for v in node.inputs]
        values = [m.inputs[0] for m in makers if m is not None and m.op.name == "reshape"]
        if len(values) < len(node.inputs) or any(self.reads[v] != 1 for v in node.inputs):
            return None
        specs, axis = self.graph.specs, node.attributes["axis"]
        inner = {
            _merged(specs[v], specs[o], axis) for v, o in zip(values, node.inputs, strict=True)
        }
        same = len(inner) == 1 and None not in inner
        copies = any(map(self._copied, values, node.inputs))
        return values if same and copies else None

    def _copied(self, value: int, result: int) -> bool:
        """Return whether the reshape of a value copies it."""
        view = self._view(value)
        spec = self.graph.specs[result]
        return view is not None and view_of("reshape", view, {"shape": spec.shape}, spec) is None

    def _view(self, value: int) -> View | None:
        """Return a value as a view of what is behind movement ops, None if one copies."""
        specs, node = self.graph.specs, self.makers.get(value)
        if node is None or node.op.name not in MOVEMENTS or len(node.inputs) != 1:
            return View.dense(specs[value])
        view = self._view(node.inputs[0])
        return view and view_of(node.op.name, view, node.attributes, specs[value])


def _merged(before: Spec, after: Spec, axis: int) -> tuple[int, ...] | None:
    """Return the sizes that a reshape merges into an axis behind the first, None if it does more.

    >>> from calor.dtypes import float32
    >>> _merged(spec((2, 5, 12, 64), float32), spec((2, 5, 768), float32), 2)
    (64,)
    """
    more = before.ndim - after.ndim
    end = axis + 1 + more
    same = (
        before.shape[:axis] == after.shape[:axis] and before.shape[end:] == after.shape[axis + 1 :]
    )
    return before.shape[axis + 1 : end] if more > 0 and same and after.size else None
