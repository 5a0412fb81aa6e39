"""Products in the steps of a scan's gradient that are computed for all steps at once.

Requirements: the gradient of a recurrent layer has small products in each step, and reads its
weights, and their sums, as often. A product of rows with a value that stays is known before the
first step, and so is what only adds rows and a bias to it; products that are only added up are
known after the last one. Each is one product of the stacks of all steps, if those stacks are no
larger than what the steps would read.

Source: Appleyard, Kociský, Blunsom, "Optimizing Performance of Recurrent Neural Networks on GPUs",
2016.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from calor.graph.graph import Builder, Graph, Node, prune
from calor.ops.base import TABLE
from calor.recording.record import apply
from calor.sizes import hint_of

_MOVES: Final = frozenset({"permute", "reshape"})


@dataclass(frozen=True, slots=True)
class Sum:
    """An output that is added up: a product or a sum of values of a step, and moves after it."""

    place: int
    node: Node
    moves: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """The graph of a step without the products that are computed for all steps.

    ``graph``: its inputs are those of ``step``, then a row of each value in ``before``, which nodes
    in ``early`` make; its outputs are those of ``step`` in ``places``, then the values in ``more``,
    which products in ``after`` read. Outputs in ``stacked`` are rows of stacks. ``fixed``: moves of
    values that stay.
    """

    step: Graph
    graph: Graph
    fixed: tuple[Node, ...]
    early: tuple[Node, ...]
    before: tuple[int, ...]
    after: tuple[Sum, ...]
    stacked: tuple[int, ...]
    places: tuple[int, ...]
    more: tuple[int, ...]

    def rows(self, stacks: Mapping[int, Any], held: Mapping[int, Any]) -> list[Any]:
        """Return the stacks of the values in ``before``; what stays is by number of input."""
        values = dict(held)
        length = next((stack.shape[0] for stack in stacks.values()), 0)
        for node in self.fixed:
            values[node.outputs[0]] = apply(node.op, values[node.inputs[0]], **node.attributes)
        values |= stacks
        for node in self.early:
            given = [values[i] for i in node.inputs]
            values[node.outputs[0]] = _EARLY[node.op.name](node, length, *given)
        return [values[i] for i in self.before]

    def sums(
        self, given: Sequence[Any], stacked: Sequence[Any], more: Sequence[Any]
    ) -> dict[int, Any]:
        """Return the outputs that are added up, by their places in the step's graph.

        Parameters
        ----------
        given : sequence of Tensor
            The stacks of rows, then those of the values in ``before``.
        stacked : sequence of Tensor
            The stacks of the outputs that are rows.
        more : sequence of Tensor
            The stacks of the values in ``more``.
        """
        values = [*range(len(given) - len(self.before)), *self.before]
        values += [self.step.outputs[place] for place in self.stacked] + [*self.more]
        stacks = dict(zip(values, (*given, *stacked, *more), strict=True))
        found: dict[int, Any] = {}
        for one in self.after:
            total = _TOTALS[one.node.op.name](one.node, *(stacks[i] for i in one.node.inputs))
            for node in one.moves:
                total = apply(node.op, total, **node.attributes)
            found[one.place] = total
        return found


def apart(
    graph: Graph,
    rows: Sequence[int],
    held: Sequence[int],
    stacked: Sequence[int],
    added: Sequence[int],
) -> Apart:
    """Return the step without its products of rows with held inputs, and of outputs to be added.

    Parameters
    ----------
    graph : Graph
        The graph of a step.
    rows : sequence of int
        The inputs that are rows of stacks.
    held : sequence of int
        The inputs that are the same at each step.
    stacked : sequence of int
        The places of the outputs that are rows of stacks.
    added : sequence of int
        The places of the outputs of which only the sum over all steps is wanted.
    """
    makers = {o: node for node in graph.nodes for o in node.outputs}
    fixed: dict[int, Node] = {}
    for node in graph.nodes:
        if node.op.name in _MOVES and (node.inputs[0] in fixed or node.inputs[0] in held):
            fixed[node.outputs[0]] = node
    stays = {*held, *fixed}
    early = _early(graph, {*rows}, stays)
    # Values that stay are spread in the steps too.
    moved = {node.outputs[0] for node in early if node.op.name != "expand"}
    left = [node for node in graph.nodes if node.outputs[0] not in moved]
    read = {*graph.outputs, *(i for node in left for i in node.inputs)}
    before = tuple(sorted(moved & read))
    known = {*rows, *before, *(graph.outputs[place] for place in stacked)}
    found = [_sum(graph, makers, place, known) for place in added]
    # A stack of values as large as a row is little beside those that are there.
    room = max((graph.specs[i].size for i in rows), default=0)
    after: list[Sum] = []
    more: list[int] = []
    # Products first: a sum alone does not pay for a stack.
    for one in sorted(filter(None, found), key=lambda s: s.node.op.name == "sum"):
        wanted = [i for i in dict.fromkeys(one.node.inputs) if i not in known and i not in more]
        size = sum(graph.specs[i].size for i in wanted)
        most = max(graph.specs[one.node.outputs[0]].size, room if one.node.op.name == "sum" else 0)
        if not stays & {*one.node.inputs} and size <= most:
            after.append(one)
            more += wanted
    gone = {one.place for one in after}
    places = tuple(p for p in range(len(graph.outputs)) if p not in gone)
    builder = Builder()
    numbers = {i: builder.input(graph.specs[i], i in graph.host) for i in graph.inputs}
    numbers |= {i: builder.input(graph.specs[i]) for i in before}
    builder.take(graph, left, numbers)
    outputs = [numbers[graph.outputs[p]] for p in places] + [numbers[v] for v in more]
    return Apart(
        *(graph, prune(builder.build(outputs)), tuple(fixed.values()), early, before),
        *(tuple(after), tuple(stacked), places, tuple(more)),
    )


def _early(graph: Graph, rows: set[int], held: set[int]) -> tuple[Node, ...]:
    """Return the products before the steps, and what adds rows and spread values to them alone."""
    readers = Counter([*graph.outputs, *(i for node in graph.nodes for i in node.inputs)])
    spread = {
        node.outputs[0]: node
        for node in graph.nodes
        if node.op.name == "expand" and node.inputs[0] in held
    }
    made: set[int] = set()
    nodes: dict[int, Node] = {}
    for node in graph.nodes:
        # A stack that the steps read as well would be there beside the sums.
        adds = node.op.name == "add" and any(i in made for i in node.inputs)
        adds = adds and all(
            readers[i] == 1 if i in made else i in rows or i in spread for i in node.inputs
        )
        if adds:
            nodes |= {i: spread[i] for i in node.inputs if i in spread}
        if adds or _is_before(graph, node, rows, held):
            made.add(node.outputs[0])
            nodes[node.outputs[0]] = node
    return tuple(nodes.values())


def _is_before(graph: Graph, node: Node, rows: set[int], held: set[int]) -> bool:
    """Return whether a node is a product of a row with a held value, not larger than that."""
    if node.op.name != "dot_general" or node.attributes["batch"][0]:
        return False
    row, value = node.inputs
    small = hint_of(graph.specs[node.outputs[0]].size) <= hint_of(graph.specs[value].size)
    return row in rows and value in held and small


def _sum(
    graph: Graph, makers: Mapping[int, Node], place: int, known: Collection[int]
) -> Sum | None:
    """Return what makes an output, if its sum over steps is a product or a sum of stacks."""
    moves: list[Node] = []
    value = graph.outputs[place]
    node = makers.get(value)
    while node is not None and node.op.name in _MOVES and value not in known:
        moves.append(node)
        value = node.inputs[0]
        node = makers.get(value)
    if node is not None and value in known:
        # Its stack is there; a node with several results may have made another one too.
        dtype = graph.specs[value].dtype
        node = Node(TABLE["sum"], (value,), {"axes": (), "dtype": dtype}, (value,))
    if node is None or node.op.name not in _TOTALS:
        return None
    return Sum(place, node, tuple(reversed(moves)))


def _behind(axes: Sequence[int]) -> tuple[int, ...]:
    """Return axes of a row as axes of its stack."""
    return tuple(axis + 1 for axis in axes)


def _product(node: Node, _: int, stack: Any, value: Any) -> Any:
    left, right = node.attributes["contract"]
    return apply(
        node.op, stack, value, **{**node.attributes, "contract": (_behind(left), tuple(right))}
    )


def _sum_of_stacks(node: Node, _: int, one: Any, other: Any) -> Any:
    return apply(node.op, one, other)


def _spread(node: Node, length: int, value: Any) -> Any:
    return apply(node.op, value, shape=(length, *node.attributes["shape"]))


def _product_total(node: Node, left: Any, right: Any) -> Any:
    contract, batch = node.attributes["contract"], node.attributes["batch"]
    given = {
        **node.attributes,
        "contract": tuple((0, *_behind(axes)) for axes in contract),
        "batch": tuple(map(_behind, batch)),
    }
    return apply(node.op, left, right, **given)


def _sum_total(node: Node, stack: Any) -> Any:
    return apply(
        node.op, stack, **{**node.attributes, "axes": (0, *_behind(node.attributes["axes"]))}
    )


_EARLY: Final[Mapping[str, Callable[..., Any]]] = {
    "dot_general": _product,
    "add": _sum_of_stacks,
    "expand": _spread,
}
_TOTALS: Final[Mapping[str, Callable[..., Any]]] = {
    "dot_general": _product_total,
    "sum": _sum_total,
}
