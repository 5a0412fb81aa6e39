"""Values of a norm that its gradient computes again, so that they are not stored for it.

Requirements: a standardization reads x, and its gradient reads the standardized values and often a
mask of an activation that follows. Stored, each is one more write of x's size. Both are elementwise
in x with numbers of rows, and x lies in memory anyway, as what the node before the norm wrote. So
the readers that come later get copies of those nodes, which a fuser joins to them; the operations,
and so the numbers, are the same. No more bytes are kept than before: x stays for all that is not.
A product that reads such values for the gradient of its weights reads a copy too, which the norm's
gradient writes beside its own result, so that a layer does not store both operands of its norm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final

from calor.graph.attributes import Scalar, exact_items
from calor.graph.graph import Builder, Graph, Node, part
from calor.graph.op import Op
from calor.ops.base import TABLE
from calor.specs import Spec, spec
from calor_kernel.contract.movement import MOVEMENTS, view_of
from calor_kernel.contract.work import View
from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.library.reduce.fusion_groups import FOLDS

_NORMS: Final = frozenset(("standardize", "rms_norm"))
_SOURCES: Final = ("full", "constant", "iota")
# A value of at most this share of x's size is read with it, and not stored for it.
_SMALL: Final = 8
# The ops that read a value of a norm for the gradient of their weights. So many times its bytes are
# made before they read it, and all such values of a graph have so many bytes: less memory is not
# worth the time to write them again.
_PRODUCTS: Final = ("dot_general", "conv_weight_gradient")
_LATE: Final = 16
_MUCH: Final = 64 << 20
# The ops of which a norm's rate is made.
_OF_ROWS: Final = frozenset(("full", "add", "sqrt", "div"))


@dataclass
class _Norm:
    """A standardization, and what follows it elementwise.

    ``chain``: for each value that is elementwise in x, its node. ``late``: for each of those that
    is computed again, the nodes that read it later; ``apart``: those of them whose results are
    reduced along other axes than the norm's, which is another launch with copies of its own.
    ``beside``: for each value that the norm's gradient writes again, the products that read it.
    """

    node: Node
    chain: dict[int, Node] = field(default_factory=dict)
    late: dict[int, list[int]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)
    beside: dict[int, list[int]] = field(default_factory=dict)

    @property
    def gradient(self) -> set[int]:
        """The nodes of the norm's gradient that read copies."""
        return {n for late in self.late.values() for n in late} - self.apart


def recomputing(graph: Graph) -> Graph:
    """Return the graph in which late readers of norms have copies of the nodes that lead to them.

    The graph itself where there are none.
    """
    norms = [_Norm(node) for node in graph.nodes if node.op.name in _NORMS]
    if not norms:
        return graph
    search = _Search(graph, norms)
    found = [norm for norm in norms if search.settle(norm)]
    if not found:
        return graph
    search.add_products(found)
    return _rewritten(graph, found)


class _Search:
    """A graph, and the norms on which each value depends, as bits."""

    def __init__(self, graph: Graph, norms: Sequence[_Norm]) -> None:
        self.graph = graph
        self.readers: dict[int, list[int]] = {}
        self.bits = {norm.node.outputs[0]: 1 << place for place, norm in enumerate(norms)}
        # Norms on which a value depends at all, and by a path with a node that is no link.
        after, self.beyond = [0] * len(graph.specs), [0] * len(graph.specs)
        # What each value is without movement ops.
        self.behind = list(range(len(graph.specs)))
        self.free: set[int] = set()
        self.makers: dict[int, int] = {}
        for number, node in enumerate(graph.nodes):
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(number)
            all_of = beyond = 0
            for value in node.inputs:
                all_of |= after[value]
                beyond |= self.beyond[value]
            own = self.bits.get(node.outputs[0], 0) if node.outputs else 0
            for value in node.outputs:
                after[value] = all_of | own
                self.makers[value] = number
                self.beyond[value] = beyond if _links(node) else all_of
                if node.op.name in MOVEMENTS and len(node.inputs) == 1:
                    self.behind[value] = self.behind[node.inputs[0]]
                elif node.op.name in _SOURCES:
                    self.free.add(value)
        self.wanted = frozenset(graph.outputs)
        self.sources = _sources(graph)

    def nbytes(self, norm: _Norm) -> int:
        """Return the bytes of what a norm reads from memory."""
        (x,) = norm.node.inputs
        return self.graph.specs[self.sources.get(x, x)].nbytes

    def settle(self, norm: _Norm) -> bool:
        """Find what is computed again; return whether that stores fewer bytes."""
        graph = self.graph
        todo, seen = [norm.node.outputs[0]], set[int]()
        norm.chain[todo[0]] = norm.node
        while todo:
            value = todo.pop()
            for number in self.readers.get(value, ()):
                node = graph.nodes[number]
                if number not in seen and self._follows(norm, node):
                    seen.add(number)
                    norm.chain[node.outputs[0]] = node
                    todo.append(node.outputs[0])
        for value in norm.chain:
            late = self._late(norm, value)
            if late:
                norm.late[value] = late
            norm.apart.update(number for number in late if self._apart(norm, number))
        saved = sum(graph.specs[value].nbytes for value in norm.late)
        return bool(saved >= self.nbytes(norm))

    def add_products(self, norms: Sequence[_Norm]) -> None:
        """Find the products that read values of norms again, and lead to no gradient of theirs."""
        graph = self.graph
        of = [0] * len(graph.nodes)
        for norm in norms:
            for number in norm.gradient:
                of[number] |= self.bits[norm.node.outputs[0]]
        # The norms to whose gradients each node leads.
        for number in reversed(range(len(graph.nodes))):
            for value in graph.nodes[number].outputs:
                for reader in self.readers.get(value, ()):
                    of[number] |= of[reader]
        nbytes = (sum(graph.specs[v].nbytes for v in node.outputs) for node in graph.nodes)
        done = [0, *accumulate(nbytes)]
        for norm in norms:
            own = self.bits[norm.node.outputs[0]]
            for value in norm.chain:
                size = graph.specs[value].nbytes
                if value in self.wanted or size < self.nbytes(norm):
                    continue
                late = [n for n in self.readers.get(value, ()) if self._later(norm, graph.nodes[n])]
                found = [n for n in late if not _links(graph.nodes[n])]
                if not found or any(graph.nodes[n].op.name not in _PRODUCTS for n in found):
                    continue
                far = done[found[0]] - done[self.makers[value]] >= _LATE * size
                if far and not any(of[n] & own for n in found):
                    norm.beside[value] = found
        if sum(graph.specs[v].nbytes for norm in norms for v in norm.beside) < _MUCH:
            for norm in norms:
                norm.beside.clear()

    def _follows(self, norm: _Norm, node: Node) -> bool:
        """Return whether a node is elementwise in a norm's values and in numbers of rows."""
        specs, (x,) = self.graph.specs, norm.node.inputs
        same = _links(node) and specs[node.outputs[0]].shape == specs[x].shape
        if not same or self._later(norm, node):
            return False
        return all(v in norm.chain or self._is_small(v, specs[x].size) for v in node.inputs)

    def _is_small(self, value: int, size: int) -> bool:
        """Return whether a value is a constant, or a view of few numbers."""
        source = self.behind[value]
        if source in self.free:
            return True
        return self.graph.specs[source].size * _SMALL <= size and self._view(value) is not None

    def _view(self, value: int) -> View | None:
        """Return a value as a view of what is behind movement ops, None if it is a copy."""
        specs = self.graph.specs
        if self.behind[value] == value:
            return View.dense(specs[value])
        node = self.graph.nodes[self.makers[value]]
        view = self._view(node.inputs[0])
        if node.op.name == "cast":
            # Of few numbers, which are converted where they are read.
            return view and replace(view, dtype=specs[value].dtype)
        return view and view_of(node.op.name, view, node.attributes, specs[value])

    def _later(self, norm: _Norm, node: Node) -> bool:
        """Return whether a node waits for others than links that read the norm's values."""
        own = self.bits[norm.node.outputs[0]]
        return any(self.beyond[v] & own for v in node.inputs)

    def _late(self, norm: _Norm, value: int) -> list[int]:
        """Return the later readers of a value, none if it is stored for others anyway."""
        if value in self.wanted:
            return []
        found = []
        for number in self.readers.get(value, ()):
            node = self.graph.nodes[number]
            if self._later(norm, node):
                found.append(number)
                if not _links(node) and node.op.name not in FOLDS:
                    return []
            elif not _links(node) or (node.op.name in MOVEMENTS and node.op.name != "cast"):
                # In another shape, as for groups of channels, it is read later as well.
                return []
        return found

    def _apart(self, norm: _Norm, number: int) -> bool:
        """Return whether what a node makes is reduced along other axes than the norm's."""
        axes = norm.node.attributes["axes"]
        reads = [
            self.graph.nodes[r]
            for v in self.graph.nodes[number].outputs
            for r in self.readers.get(v, ())
        ]
        folds = [node for node in (*reads, self.graph.nodes[number]) if node.op.name in FOLDS]
        return any(node.attributes["axes"] != axes for node in folds)


def _sources(graph: Graph) -> dict[int, int]:
    """Return, for each value that is a half type converted, that value, which lies in memory."""
    specs = graph.specs
    return {
        node.outputs[0]: node.inputs[0]
        for node in graph.nodes
        if node.op.name == "cast" and specs[node.inputs[0]].dtype.itemsize == 2
    }


def _links(node: Node) -> bool:
    """Return whether a node is elementwise, only moves its operand, or makes a constant."""
    return node.op.name in ROWS or node.op.name in MOVEMENTS or node.op.name in _SOURCES


def _rewritten(graph: Graph, norms: Sequence[_Norm]) -> Graph:
    """Return the graph with copies before the first node that reads each."""
    of: dict[int, list[tuple[_Norm, int]]] = {}
    for norm in norms:
        for value, readers in norm.late.items():
            for number in readers:
                of.setdefault(number, []).append((norm, value))
    beside: dict[int, list[tuple[_Norm, int]]] = {}
    for norm in norms:
        for value, readers in norm.beside.items():
            for number in readers:
                beside.setdefault(number, []).append((norm, value))
    writer = _Writer(graph, {norm.node.outputs[0] for norm in norms})
    for number, node in enumerate(graph.nodes):
        pairs = of.get(number, ())
        instead = {v: writer.copied(norm, v, number in norm.apart) for norm, v in pairs}
        instead |= {v: writer.written(norm, v) for norm, v in beside.get(number, ())}
        writer.add(node, instead)
    return _read(writer.builder.build([writer.numbers[o] for o in graph.outputs]))


def _read(graph: Graph) -> Graph:
    """Return the graph without links that nothing reads, as all readers of a mask have copies."""
    needed, kept = set(graph.outputs), list[Node]()
    for node in reversed(graph.nodes):
        if not _links(node) or not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return part(graph, graph.inputs, reversed(kept), graph.outputs)


class _Writer:
    """Writes a graph with copies; ``heads``: the first values of the norms that have some."""

    def __init__(self, graph: Graph, heads: Collection[int]) -> None:
        self.graph, self.heads, self.builder = graph, heads, Builder()
        self.numbers = {
            i: self.builder.input(graph.specs[i], i in graph.host) for i in graph.inputs
        }
        self.sources = _sources(graph)
        self.rates: dict[int, int] = {}
        self.again: dict[tuple[int, bool], int] = {}
        self.beside: dict[int, int] = {}
        # What was made of numbers of rows, which a gradient computes as well.
        self.known: dict[object, int] = {}

    def add(self, node: Node, instead: dict[int, int]) -> None:
        """Add a node that reads other values instead of some."""
        if node.op.name in _OF_ROWS and not instead:
            (value,), read = node.outputs, [self.numbers[v] for v in node.inputs]
            like = self.graph.specs[value]
            self.numbers[value] = self.made(node.op, read, node.attributes, like)
            return
        known = {**self.numbers, **instead} if instead else self.numbers
        self.builder.take(self.graph, [node], known)
        self.numbers.update((v, known[v]) for v in node.outputs)
        if node.outputs and node.outputs[0] in self.heads:
            self.rates[node.outputs[0]] = self._rate(node)

    def made(self, op: Op, read: Sequence[int], attributes: Mapping[str, Any], like: Spec) -> int:
        """Return the result of a node, which is added unless there is an equal one."""
        key = op, tuple(read), exact_items(attributes), like
        if key not in self.known:
            (self.known[key],) = self.builder.add(op, read, attributes, [like])
        return self.known[key]

    def copied(self, norm: _Norm, value: int, apart: bool) -> int:
        """Add the copies of the nodes that lead from x to a value, and return the copy's number.

        ``apart``: whether they are those of another launch than the norm's gradient.
        """
        key = value, apart
        if key in self.again:
            return self.again[key]
        node, specs = norm.chain[value], self.graph.specs
        if node is norm.node:
            self.again[key] = self._standardized(node)
            return self.again[key]
        read = [
            self.copied(norm, v, apart) if v in norm.chain else self.numbers[v] for v in node.inputs
        ]
        (self.again[key],) = self.builder.add(node.op, read, node.attributes, [specs[value]])
        return self.again[key]

    def written(self, norm: _Norm, value: int) -> int:
        """Add the copies that lead to a value, and return what the norm's gradient writes."""
        if value not in self.beside:
            like = self.graph.specs[value]
            copy = self.copied(norm, value, False)
            # A barrier tells fusers that what stands before it is a result beside others.
            (self.beside[value],) = self.builder.add(TABLE["barrier"], [copy], {}, [like])
        return self.beside[value]

    def _rate(self, node: Node) -> int:
        """Add 1 / sqrt(square + eps), where a norm's last result is its variance or mean square."""
        like = self.graph.specs[node.outputs[-1]]

        def add(name: str, *read: int, **attributes: object) -> int:
            return self.made(TABLE[name], read, attributes, like)

        def number(given: float) -> int:
            value = Scalar(like.dtype.name, like.dtype.numpy.type(given).tobytes())
            return add("full", value=value, shape=like.shape, dtype=like.dtype)

        square = self.numbers[node.outputs[-1]]
        deviation = add("add", square, number(node.attributes["eps"]))
        rate = add("div", number(1), add("sqrt", deviation))
        if len(node.outputs) == 2:
            return rate
        # As in the norm itself, NaN where the variance overflows.
        return add("add", rate, add("sub", square, square))

    def _standardized(self, node: Node) -> int:
        """Add (x - mean) * rate, of an RMS norm x * rate."""
        (x,), (y, *moments) = node.inputs, node.outputs
        whole, rows = self.graph.specs[y], self.graph.specs[moments[-1]]
        wide, axes = spec(whole.shape, rows.dtype), node.attributes["axes"]

        def add(name: str, *read: int, like: Spec, **attributes: object) -> int:
            (made,) = self.builder.add(TABLE[name], read, attributes, [like])
            return made

        def spread(value: int) -> int:
            # A barrier keeps the copies from the norm's own group.
            value = add("barrier", value, like=rows)
            shape = tuple(1 if a in axes else n for a, n in enumerate(whole.shape))
            value = add("reshape", value, like=spec(shape, rows.dtype), shape=shape)
            return add("expand", value, like=wide, shape=whole.shape)

        source = self.sources.get(x, x)
        x = add("barrier", self.numbers[source], like=self.graph.specs[source])
        if self.graph.specs[source].dtype is not rows.dtype:
            x = add("cast", x, like=wide, dtype=rows.dtype)
        for mean in moments[:-1]:
            x = add("sub", x, spread(self.numbers[mean]), like=wide)
        made = add("mul", x, spread(self.rates[y]), like=wide)
        if whole.dtype is not rows.dtype:
            made = add("cast", made, like=whole, dtype=whole.dtype)
        return made
