"""Queries of passes on a graph: the producer of a value, its readers, its type.

Names that sub-graphs read, and outputs, are *pinned*: their values keep their names.
"""

from __future__ import annotations

from collections.abc import Collection
from math import isclose

from calor_onnx.constants import Constant
from calor_onnx.graph import Graph, Node


class Around:
    """An enclosing graph: its constants, and the names that hide those of graphs further out."""

    def __init__(self, graph: Graph) -> None:
        self.constants = graph.constants
        self.inputs = {info.name for info in graph.inputs}
        self.made = {name for node in graph.nodes for name in node.outputs}


class Look:
    """A graph with producers and readers, which ``replace`` and ``bypass`` keep up to date.

    The list of nodes changes in ``finish`` only, so that many changes cost no more than few.
    """

    def __init__(
        self, graph: Graph, functions: Collection[tuple[str, str]], outer: tuple[Around, ...]
    ) -> None:
        self.graph = graph
        self.outer = outer
        self.infos = {info.name: info for info in graph.inputs}
        self.functions = functions
        self.pinned = {info.name for info in graph.outputs}
        self.makers: dict[str, Node] = {}
        # By identity, because nodes have no hash.
        self._readers: dict[str, dict[int, Node]] = {}
        self._instead: dict[int, tuple[Node, tuple[Node, ...]]] = {}
        self._names = {*self.infos, *graph.constants}
        for node in graph.nodes:
            self._note(node)
            for inner in node.subgraphs():
                self.pinned.update(inner.captures)

    def _note(self, node: Node) -> None:
        self.makers.update(dict.fromkeys(filter(None, node.outputs), node))
        self._names.update(node.outputs)
        for name in filter(None, node.inputs):
            self._readers.setdefault(name, {})[id(node)] = node

    def standard(self, node: Node | None, *ops: str, since: int = 1) -> bool:
        """Return whether a node is one of these ONNX operators, from an opset on."""
        return (
            node is not None
            and node.op in ops
            and not node.domain
            and node.version >= since
            and any(node.outputs[:1])
            and ("", node.op) not in self.functions
        )

    def made_by(self, name: str, *ops: str, since: int = 1) -> Node | None:
        """Return the node that computes a value if it is one of these ONNX operators."""
        node = self.makers.get(name)
        return node if self.standard(node, *ops, since=since) else None

    def single(self, name: str) -> bool:
        """Return whether exactly one operand of one node reads a value."""
        node = self.reader(name)
        return name not in self.pinned and node is not None and node.inputs.count(name) == 1

    def reader(self, name: str) -> Node | None:
        """Return the only reader of a value, or None."""
        found = self._readers.get(name, {})
        return next(iter(found.values())) if len(found) == 1 else None

    def constant(self, name: str) -> Constant | None:
        """Return a constant of this or an enclosing graph that no call replaces."""
        if name in self.makers or name in self.infos or not name:
            return None
        if name in self.graph.constants:
            return self.graph.constants[name]
        for place, around in reversed([*enumerate(self.outer)]):
            if name in around.constants:
                hidden = place and name in around.inputs
                return None if hidden else around.constants[name]
            if name in around.inputs or name in around.made:
                return None
        return None

    def number(self, name: str) -> float | None:
        """Return a constant of one element as a float."""
        found = self.constant(name)
        if found is None or found.size != 1 or found.dtype.kind not in "fiu":
            return None
        return float(found.array().reshape(-1)[0])

    def is_number(self, name: str, wanted: float) -> bool:
        """Return whether a constant equals a number in float32."""
        found = self.number(name)
        return found is not None and isclose(found, wanted, rel_tol=1e-3 if wanted < 0.05 else 1e-5)

    def integers(self, name: str) -> list[int] | None:
        """Return a small constant of integers as a list."""
        found = self.constant(name)
        if found is None or found.size > 64 or found.dtype.kind not in "iu":
            return None
        return [int(n) for n in found.array().reshape(-1)]

    def rank(self, name: str) -> int | None:
        """Return the rank of a value if the graph determines it."""
        found = self.constant(name)
        if found is not None:
            return len(found.shape)
        info = self.infos.get(name)
        # Some exporters declare rank 0 for any shape, so rank 0 means unknown.
        if info is not None and info.kind == "tensor" and info.shape:
            return len(info.shape)
        node = self.made_by(name, "Transpose")
        if node is not None and node.attributes.get("perm"):
            return len(node.attributes["perm"])
        return None

    def fresh(self, name: str) -> str:
        """Return an unused name."""
        while name in self._names:
            name += "'"
        self._names.add(name)
        return name

    def replace(self, old: Node, *made: Node) -> None:
        """Replace a node by others; the last one computes its outputs."""
        self._instead[id(old)] = old, made
        self._forget(old)
        for node in made:
            self._note(node)

    def _forget(self, node: Node) -> None:
        for name in filter(None, node.inputs):
            self._readers[name].pop(id(node), None)
        for name in filter(None, node.outputs):
            if self.makers.get(name) is node:
                del self.makers[name]

    def bypass(self, node: Node, source: str) -> bool:
        """Let all readers of a node's output read another value; False if names forbid it."""
        result = node.outputs[0]
        if result in self.pinned:
            maker = self.makers.get(source)
            if maker is None or source in self.pinned or result == source:
                return False
            if source in self.infos:
                return False
            # The value takes the pinned name of the output.
            self._remove(node)
            maker.outputs[:] = [result if name == source else name for name in maker.outputs]
            self.makers[result] = self.makers.pop(source)
            self._reread(source, result)
            return True
        self._remove(node)
        self._reread(result, source)
        return True

    def _remove(self, node: Node) -> None:
        self._instead[id(node)] = node, ()
        self._forget(node)

    def _reread(self, old: str, new: str) -> None:
        for reader in self._readers.pop(old, {}).values():
            reader.inputs[:] = [new if name == old else name for name in reader.inputs]
            self._readers.setdefault(new, {})[id(reader)] = reader

    def finish(self) -> None:
        """Update the list of nodes."""
        kept = []
        waiting = self.graph.nodes[::-1]
        while waiting:
            node = waiting.pop()
            if id(node) in self._instead:
                waiting += reversed(self._instead[id(node)][1])
            else:
                kept.append(node)
        self.graph.nodes[:] = kept


def inputs_of(node: Node, count: int) -> list[str]:
    """Return the names of a node's operands, padded with empty names."""
    return [*node.inputs, *[""] * count][:count]
