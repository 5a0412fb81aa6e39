"""Groups of nodes that become one row program; they grow around a reduction.

Requirements: groups are convex, and contain no movement that needs a copy. Values along the rows
may have other shapes, of the same elements in the same order. What other nodes read of a group's
movement is a view of one of its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, Literal

from calor.graph.graph import Graph, Node
from calor_kernel.contract.choices import hinted, is_size
from calor_kernel.contract.fuser import Group
from calor_kernel.contract.movement import MOVEMENTS, in_shape, view_of
from calor_kernel.contract.work import View, row_major
from calor_kernel.library.elementwise.links import Links, once_of_graph
from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.library.reduce.composites import COMPOSITES
from calor_kernel.library.reduce.reduction_ops import EXTREMES, TOTALS, TRUTHS

Role = Literal["along", "row"]
FOLDS: Final = frozenset((*TOTALS, *EXTREMES, *TRUTHS))
# Registers and parameters are limited, and each pass recomputes its values. Values of rows take
# little of both. A group may pass the limit of results while it grows, since the next node may be
# the last reader of one.
_OPERANDS, _RESULTS, _OF_ROWS, _STEPS = 14, 4, 8, 48
_BEYOND = 2
# The ops with epilogues, and the values of an epilogue.
_PRODUCTS: Final = frozenset(("dot_general", "conv"))
_EPILOGUE: Final = 8
# Reductions whose results are added one by one, from which the sums stay apart: each would wait for
# the one before it.
_TOTALS: Final = 8
# Bytes that take less time than a launch.
_FEW: Final = 1 << 20
# Elementwise steps before a reduction of parts of rows that are looked through.
_DEEP: Final = 4


@dataclass(frozen=True, slots=True)
class Rows:
    """The group so far.

    ``roles``: for each value that the group computes. ``computing``: the nodes that compute them.
    ``between``: movement ops between them. ``after``: the values that depend on a reduction.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    roles: dict[int, Role] = field(default_factory=dict)
    computing: set[int] = field(default_factory=set)
    between: set[int] = field(default_factory=set)
    after: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def rows(self) -> tuple[int, ...]:
        """The shape of a value with one element for each row."""
        return tuple(n for a, n in enumerate(self.shape) if a not in self.axes)

    @property
    def nodes(self) -> set[int]:
        """All nodes of the group."""
        return self.computing | self.between


class Search(Links):
    """A graph, with the queries of growing groups; ``most``: operands and results of a launch."""

    def __init__(self, graph: Graph, units: Sequence[int | Group], most: int) -> None:
        super().__init__(graph, units)
        self.most = most
        # The last group whose inputs were asked for, which several questions need.
        self._asked: Rows | None = None
        self._inputs: list[int] = []

    @once_of_graph
    def _reduction(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the shape and the axes that a node reduces, None if it is no reduction."""
        node = self.graph.nodes[number]
        name, attributes = node.op.name, node.attributes
        if name not in FOLDS and name not in COMPOSITES:
            return None
        x = self.graph.specs[node.inputs[0]]
        if not x.size or any(
            self.graph.specs[v].dtype.is_complex for v in (*node.inputs, *node.outputs)
        ):
            return None
        axes = (attributes["axis"],) if "axis" in attributes else tuple(sorted(attributes["axes"]))
        return x.shape, axes

    def _few_columns(self, number: int) -> bool:
        """Return whether a node reduces few elements along other axes than the last."""
        kind = self._reduction(number)
        if kind is None or len(kind[0]) - 1 in kind[1]:
            return False
        nbytes = hinted(self.graph.specs[self.graph.nodes[number].inputs[0]].nbytes)
        return bool(nbytes <= _FEW)

    @once_of_graph
    def _move(self, number: int) -> Node | None:
        """Return a node if it is a movement op; a barrier keeps what follows it from groups."""
        node = self.graph.nodes[number]
        if node.op.name not in MOVEMENTS or len(node.inputs) != 1 or node.op.name == "barrier":
            return None
        x, result = self.graph.specs[node.inputs[0]], self.graph.specs[node.outputs[0]]
        if x.dtype is not result.dtype:
            return None
        return node if view_of(node.op.name, View.dense(x), node.attributes, result) else None

    @once_of_graph
    def _elementwise(self, number: int) -> bool:
        node = self.graph.nodes[number]
        if node.op.name not in ROWS or self._move(number) is not None:
            return False
        return not any(
            self.graph.specs[v].dtype.is_complex or self.graph.specs[v].dtype.kind == "storage"
            for v in (*node.inputs, *node.outputs)
        )

    def role(self, group: Rows, value: int) -> Role | None:
        """Return the role of a value in a group, from its shape."""
        shape = self.graph.specs[value].shape
        if shape == group.shape:
            return "along"
        squeezed = [n for n in shape if n != 1]
        if squeezed == [n for n in group.rows if n != 1]:
            return "row"
        # The same elements in the same order; sizes that are symbols are not multiplied.
        plain = not any(map(is_size, (*shape, *group.shape)))
        return "along" if plain and prod(shape) == group.size else None

    def _lies(self, group: Rows, value: int) -> bool:
        """Return whether a value from outside is read along a group's rows by strides."""
        shape = self.graph.specs[value].shape
        if shape == group.shape:
            return True
        view = self._view(value)
        return view is not None and in_shape(view, group.shape) is not None

    @once_of_graph
    def _view(self, value: int) -> View | None:
        """Return a value as a view of what is behind it."""
        source, between = self.behind(value)
        return self._moved(source, between)

    def _moved(self, source: int, between: Iterable[int]) -> View | None:
        """Return the view that movement ops make of a value in memory of its own."""
        view: View | None = self.dense(source)
        for move in between:
            node = self.graph.nodes[move]
            spec = self.graph.specs[node.outputs[0]]
            view = view and view_of(node.op.name, view, node.attributes, spec)
        return view

    @once_of_graph
    def behind(self, value: int) -> tuple[int, list[int]]:
        """Return the value behind movement ops, and their nodes."""
        between: list[int] = []
        while value in self.maker and self._move(self.maker[value]) is not None:
            between.insert(0, self.maker[value])
            value = self.graph.nodes[self.maker[value]].inputs[0]
        return value, between

    def reads(self, group: Rows, number: int) -> Role | None:
        """Return the role of a node's operands in a group, None if it cannot join the group."""
        reduction = self._reduction(number)
        if reduction is not None:
            return "along" if reduction == (group.shape, group.axes) else None
        if not self._elementwise(number):
            return None
        role = self.role(group, self.graph.nodes[number].outputs[0])
        apart = number in self._updates or number in self._adding
        return None if role == "row" and apart else role

    @property
    def _adding(self) -> frozenset[int]:
        return self._totals(0)

    @once_of_graph
    def _totals(self, _: int) -> frozenset[int]:
        """Return the additions of the results of several reductions, as those of a norm of many."""
        found, known = set[int](), dict[int, tuple[list[int], int]]()
        for number, node in enumerate(self.graph.nodes):
            if node.op.name != "add":
                continue
            adds, leaves = [number], 0
            for value in self._sources(number):
                maker = self.maker.get(value)
                if maker in known and self.readers.get(value, ()) == [number]:
                    more, count = known[maker]
                    adds, leaves = adds + more, leaves + count
                elif maker is not None and self.graph.nodes[maker].op.name in FOLDS:
                    leaves += 1
            known[number] = adds, leaves
            if leaves >= _TOTALS:
                found.update(adds)
        return frozenset(found)

    @property
    def _updates(self) -> frozenset[int]:
        return self._updating(0)

    @once_of_graph
    def _updating(self, _: int) -> frozenset[int]:
        """Return the elementwise nodes that only make new contents of the graph's inputs.

        Statistics of many layers, or parameters, are written in one launch, at the end.
        """
        graph, found = self.graph, set[int]()
        for number in reversed(range(len(graph.nodes))):
            values, node = graph.nodes[number].outputs, self._move(number)
            spreads = node and graph.specs[values[0]].size > graph.specs[node.inputs[0]].size
            if spreads or not (node or self._elementwise(number)):
                continue
            readers = [r for v in values for r in self.readers.get(v, ())]
            if all(r in found for r in readers) and (readers or self.wanted.issuperset(values)):
                found.add(number)
        given = {v for v in graph.inputs if v not in graph.host}
        kept: set[int] = set()
        for number in sorted(found):
            node = graph.nodes[number]
            makers = {self.maker[v] for v in node.inputs if v in self.maker}
            if not given.isdisjoint(node.inputs) or not kept.isdisjoint(makers):
                kept.add(number)
        # What leads to them only is a part of the change.
        for number in sorted(found - kept, reverse=True):
            values = graph.nodes[number].outputs
            readers = [r for v in values for r in self.readers.get(v, ())]
            if readers and all(r in kept for r in readers):
                kept.add(number)
        return frozenset(kept)

    def links(self, group: Rows, number: int) -> list[tuple[int, list[int]] | None] | None:
        """Return for each operand of a node the group's value behind it, None for no such value.

        With each value come the movement ops between. None if a value of the group is moved in a
        way that the group does not have.
        """
        role = self.reads(group, number)
        found: list[tuple[int, list[int]] | None] = []
        for value in self.graph.nodes[number].inputs:
            source, between = self.behind(value)
            if source not in group.roles:
                if role == "along" and not self._lies(group, value):
                    return None
                found.append(None)
                continue
            view = self._moved(source, between)
            if view is None or not self._fits(group, view, group.roles[source], role):
                return None
            found.append((source, between))
        return found

    @staticmethod
    def _fits(group: Rows, view: View, source: Role, role: Role | None) -> bool:
        if source == role:
            return view.is_dense and not view.offset
        moved = None if source == "along" else in_shape(view, group.shape)
        if moved is None:
            return False
        strides = iter(row_major(group.rows))
        expected = [0 if a in group.axes else next(strides) for a in range(len(group.shape))]
        pairs = zip(moved.shape, moved.strides, expected, strict=True)
        return not moved.offset and all(n == 1 or s == e for n, s, e in pairs)

    def grow(self, seed: int, taken: set[int]) -> Rows | None:
        """Return the group around a reduction, None if the node is none."""
        kind = self._reduction(seed)
        if kind is None or not kind[1]:
            return None
        group = self._with(Rows(*kind), seed)
        if group is None:
            return None
        closed = group
        tried: set[int] = set()
        waiting = self._around(group)
        while waiting:
            number = waiting.pop(0)
            if number in taken or number in group.computing or number in tried:
                continue
            grown = self._with(group, number) or self._with_reduction(group, number)
            if grown is None:
                tried.add(number)
                continue
            group = grown
            if self._closed(group):
                closed = group
            tried.clear()
            waiting = self._around(group)
        return closed

    def _varies(self, value: int) -> bool:
        """Return whether a value is no constant, and not fewer elements that are spread."""
        source = self.behind(value)[0]
        size = self.graph.specs[value].size
        return source not in self._same and bool(self.graph.specs[source].size == size)

    @property
    def _same(self) -> frozenset[int]:
        return self._spread(0)

    @once_of_graph
    def _spread(self, _: int) -> frozenset[int]:
        """Return the values computed of numbers, or of fewer elements that are spread, alone."""
        specs, found = self.graph.specs, set[int]()
        for number, node in enumerate(self.graph.nodes):
            if node.op.name == "full":
                found.update(node.outputs)
            elif self._elementwise(number):
                sources = self._sources(number)
                size = specs[node.outputs[0]].size
                if all(v in found or specs[v].size < size for v in sources):
                    found.update(node.outputs)
        return frozenset(found)

    def found(self) -> list[Rows]:
        """Return groups of several nodes that do not overlap, of the nodes in no group yet.

        Groups along the same rows that read the same values are one. Reductions of columns of few
        elements come last: the work before them is rather that of rows, since equal sums of columns
        become one launch.
        """
        taken, groups, touched = set(self.grouped), list[Rows](), list[set[int]]()
        for number in sorted(range(len(self.graph.nodes)), key=self._few_columns):
            found = self.grow(number, taken) if number not in taken else None
            if found is None:
                continue
            taken.update(found.nodes)
            own = self._touched(found)
            for place, other in enumerate(groups):
                both = self._joined(other, found, touched[place] & own)
                if both is not None:
                    groups[place], touched[place] = both, self._touched(both)
                    break
            else:
                groups.append(found)
                touched.append(own)
        return [group for group in groups if len(group.computing) > 1]

    def _touched(self, group: Rows) -> set[int]:
        """Return the values that a group reads or computes."""
        return {*self.inputs(group), *group.roles}

    def _joined(self, a: Rows, b: Rows, common: set[int]) -> Rows | None:
        """Return two groups as one, None if they have nothing in common or that is not correct."""
        if not common or (a.shape, a.axes) != (b.shape, b.axes):
            return None
        if not any(self._varies(v) for v in common if self.graph.specs[v].shape == a.shape):
            # One launch would read nothing once, and rows of both would wait for it.
            return None
        both = replace(
            a,
            roles=a.roles | b.roles,
            computing=a.computing | b.computing,
            between=a.between | b.between,
            after=a.after | b.after,
        )
        for number in both.computing:
            links = self.links(both, number)
            if links is None:
                return None
            # Movement from one group to the other is inside now.
            both.between.update(n for found in links if found is not None for n in found[1])
        return both if self._right(both, list(both.roles)) and self._closed(both) else None

    def _around(self, group: Rows) -> list[int]:
        """Return nodes that read values of a group, and nodes whose values it reads."""
        found: set[int] = set()
        todo = list(group.roles)
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                node = self._move(reader)
                if node is not None:
                    todo += node.outputs
                else:
                    found.add(reader)
        for number in group.computing:
            found.update(self.maker[v] for v in self.graph.nodes[number].inputs if v in self.maker)
        # Values of rows may follow; those along the rows must be read now, or again.
        return sorted(found - group.nodes, key=lambda n: (self.reads(group, n) != "along", n))

    def _with_reduction(self, group: Rows, number: int) -> Rows | None:
        """Return a group with one more node and a reduction of it, of which the group has need."""
        partial = self._with(group, number, check=False)
        if partial is None:
            return None
        for reader in self.readers.get(self.graph.nodes[number].outputs[0], ()):
            if reader not in group.computing and self._reduction(reader) is not None:
                grown = self._with(partial, reader)
                if grown is not None:
                    return grown
        return None

    def _with(self, group: Rows, number: int, check: bool = True) -> Rows | None:
        """Return a group with one more node, None if that is not possible.

        ``check``: whether the group as a whole may be one launch.
        """
        node, reads = self.graph.nodes[number], self.reads(group, number)
        links = None if reads is None else self.links(group, number)
        if reads is None or links is None:
            return None
        linked = [found for found in links if found is not None]
        if self.postponed.get(number) in [source for source, _ in linked]:
            return None
        if reads == "along" and not self._along(group, number, links):
            # A program would write or reduce once a row what does not vary along rows.
            return None
        read_by = [r for v in node.outputs for r in self.readers.get(v, ()) if r in group.computing]
        if any(self._parted(group, r, node.outputs) for r in read_by):
            return None
        if not linked and (reads == "row" or (group.computing and not read_by)):
            return None
        folds = node.op.name in FOLDS or node.op.name in COMPOSITES
        after = folds or any(source in group.after for source, _ in linked)
        if reads == "along" and not after and not read_by and not self._beside(number):
            # It only reads what the group reads, and belongs to those that read its value.
            return None
        if reads == "along" and not read_by and self._is_of_parts(group, number):
            return None
        # A reduction makes values of rows; a composite's first result varies along them.
        first = "row" if node.op.name in FOLDS else reads
        roles = group.roles | dict.fromkeys(node.outputs, "row") | {node.outputs[0]: first}
        between = group.between.union(*(moves for _, moves in linked))
        computing = group.computing | {number}
        after_folds = group.after.union(node.outputs if after else ())
        grown = replace(group, roles=roles, computing=computing, between=between, after=after_folds)
        for reader in group.computing:
            # Nodes that are there already read the new values, moved.
            if not self._sources(reader).isdisjoint(node.outputs):
                found = self.links(grown, reader) or ()
                moves = [one[1] for one in found if one is not None]
                grown = replace(grown, between=grown.between.union(*moves))
        return grown if not check or self._right(grown, node.outputs) else None

    def _is_of_parts(self, group: Rows, number: int, depth: int = _DEEP) -> bool:
        """Return whether what a node makes goes into reductions of parts of the group's rows alone.

        They compute it from what the group reads, in the same order, instead of from memory.
        """
        value = self.graph.nodes[number].outputs[0]
        readers = self.readers.get(value, ())
        if not (depth and readers and value not in self.wanted and self._elementwise(number)):
            return False
        for reader in readers:
            kind = self._reduction(reader)
            if kind is None and self._is_of_parts(group, reader, depth - 1):
                continue
            if kind is None or kind[0] != group.shape or not {*kind[1]} < {*group.axes}:
                return False
        return True

    def _along(
        self, group: Rows, number: int, links: Sequence[tuple[int, list[int]] | None]
    ) -> bool:
        """Return whether an operand is neither one value a row of the group nor a number."""
        operands = zip(links, self.graph.nodes[number].inputs, strict=True)
        return any(
            group.roles[link[0]] == "along" if link else not self._is_number(self.behind(value)[0])
            for link, value in operands
        )

    def _parted(self, group: Rows, reader: int, values: Sequence[int]) -> bool:
        """Return whether a node of a group stays apart from the maker of some values.

        A conversion to more bytes does if its result is stored, and if a product may write the
        value.
        """
        value = self.postponed.get(reader)
        if value is None or value not in values:
            return False
        stored = self._read_outside(group, self.graph.nodes[reader].outputs)
        return self.late.get(reader) == value or bool(stored) or self._follows_product(value)

    @once_of_graph
    def _follows_product(self, value: int) -> bool:
        """Return whether a value is made elementwise of a product's result.

        An epilogue may write it then.
        """
        found = [self.behind(value)[0]]
        for source in found:
            maker = self.maker.get(source)
            if maker is None:
                continue
            if self.graph.nodes[maker].op.name in _PRODUCTS:
                return True
            if self._elementwise(maker) and len(found) < _EPILOGUE:
                found += [v for v in self._sources(maker) if v not in found]
        return False

    @once_of_graph
    def _beside(self, number: int) -> bool:
        """Return whether what an elementwise node makes is read behind barriers alone.

        No other group takes it then, and a group that has its operands writes it beside the rest.
        """
        if not self._elementwise(number) or not self.wanted.isdisjoint(
            self.graph.nodes[number].outputs
        ):
            return False
        readers = [r for v in self.graph.nodes[number].outputs for r in self.readers.get(v, ())]
        return bool(readers) and all(
            self.graph.nodes[r].op.name == "barrier" or self._beside(r) for r in readers
        )

    @once_of_graph
    def _sources(self, number: int) -> frozenset[int]:
        """Return the values behind the operands of a node."""
        return frozenset(self.behind(v)[0] for v in self.graph.nodes[number].inputs)

    def _right(self, group: Rows, new: Sequence[int]) -> bool:
        """Return whether a group with new values may be one launch once it is closed."""
        if len(group.computing) > _STEPS or not self._few(group, _BEYOND):
            return False
        readers = (n for n in group.computing if not self._sources(n).isdisjoint(new))
        if any(self.links(group, number) is None for number in readers):
            return False
        outside = self.inputs(group)
        read = sum(not self._is_number(v) for v in outside)
        return read <= _OPERANDS and not self.depend(outside, group.nodes)

    @once_of_graph
    def _is_number(self, value: int) -> bool:
        """Return whether a value is one number, which takes no register until it is used."""
        maker = self.maker.get(value)
        return maker is not None and self.graph.nodes[maker].op.name == "full"

    def _few(self, group: Rows, beyond: int = 0) -> bool:
        """Return whether a group has few results, or at most so many beyond."""
        found = self.results(group)
        if len(found) + len(self.inputs(group)) > self.most + beyond:
            return False
        along = sum(group.roles[v] == "along" for v in found)
        return along <= _RESULTS + beyond and len(found) - along <= _OF_ROWS + beyond

    def _closed(self, group: Rows) -> bool:
        """Return whether other nodes read only views of results, and results are few."""
        return all(self._view(v) for v in self._moved_outside(group)) and self._few(group)

    def _moved_outside(self, group: Rows) -> list[int]:
        """Return the results of movement ops that other nodes read."""
        values = [v for n in group.between for v in self.graph.nodes[n].outputs]
        return self._read_outside(group, values)

    def _read_outside(self, group: Rows, values: Iterable[int]) -> list[int]:
        nodes = group.nodes
        return [
            v
            for v in values
            if v in self.wanted or any(r not in nodes for r in self.readers.get(v, ()))
        ]

    def inputs(self, group: Rows) -> list[int]:
        """Return the values that a group reads and does not compute."""
        if self._asked is not group:
            self._asked, self._inputs = group, self._read(group)
        return self._inputs

    def _read(self, group: Rows) -> list[int]:
        made = {o for n in group.nodes for o in self.graph.nodes[n].outputs}
        read = {v for n in group.computing for v in self.graph.nodes[n].inputs}
        return sorted(read - made)

    def results(self, group: Rows) -> list[int]:
        """Return the values that other nodes read, moved or not."""
        found = {self.behind(v)[0] for v in self._moved_outside(group)}
        return sorted(found.union(self._read_outside(group, group.roles)))
