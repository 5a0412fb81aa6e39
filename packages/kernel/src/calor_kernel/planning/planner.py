"""The planner: covers a graph by groups of fusers and single nodes, as tasks on views of memory.

Requirements: movement and sources need no launch if strides and constants can express them. Every
other op is work of its family. Results leave the graph dense, each in memory of its own. Planning
takes a few microseconds per node, because a graph at a new size is planned anew. The covering
depends only on the graph and the device, so equal graphs get equal plans; no two groups depend on
each other cyclically.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, Protocol

import numpy as np

from calor.dtypes import DType, as_dtype
from calor.errors import CompileError
from calor.graph.graph import Graph, Node
from calor.specs import Spec, spec
from calor_kernel.contract.choices import greatest, hinted, spec_of
from calor_kernel.contract.cost import ceilings_of, node_seconds
from calor_kernel.contract.fuser import Fuser, Group, reads_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import MOVEMENTS, permuted, view_of
from calor_kernel.contract.work import Refusal, View, Work
from calor_kernel.library.elementwise.operations import ROWS
from calor_kernel.planning.channels_last import ORDER, channels_last, in_order
from calor_kernel.planning.duplicates import without_duplicates
from calor_kernel.planning.line_pitches import with_pitches
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.orders import Order, Orders, ordered
from calor_kernel.planning.values import Draft, Piece, Task, Value

Unit = int | Group
# Ramps up to this many bytes are constants; longer ones are computed at each call.
_SHORT: Final = 1 << 18
# The work of results without elements.
_NOTHING: Final = Work(())
# How often groups are looked for among the nodes that are left.
_ROUNDS: Final = 8
# Bytes of intermediate values that wait for the end of the graph, for a group.
_WAITING: Final = 1 << 20
SOURCES: Final = frozenset(("full", "constant", "iota"))


class Scanning(Protocol):
    """Makes tasks of scans."""

    def emit(self, planner: Planner, node: Node, given: Sequence[Value]) -> list[Value]:
        """Add the task of a scan with these operands, and return its results."""


class Planner:
    """Plans one graph."""

    def __init__(
        self,
        lowerings: Lowerings,
        graph: Graph,
        fusers: Sequence[Fuser] = (),
        deterministic: bool = False,
    ) -> None:
        self.lowerings = lowerings
        self.graph = graph
        self.fusers = fusers
        self.deterministic = deterministic
        self.align = lowerings.info.align
        self.tasks: list[Task] = []
        self.values: dict[int, Value] = {}
        self.last = frozenset[int]()
        self.constants = bytearray()
        self._known: dict[tuple[DType, bytes], Value] = {}
        self._copies: dict[Piece, list[tuple[View, Value]]] = {}
        self._orders = Orders(graph, lowerings.dense)
        # Makes tasks of scans; None where they are control flow.
        self.scans: Scanning | None = None

    def draft(self, units: Sequence[Unit] | None = None) -> Draft:
        """Return the graph as tasks; CompileError if a family refuses an op that it claimed.

        ``units``: the covering of the graph, if known.
        """
        graph = self.graph
        hosts, end = self._inputs()
        info = self.lowerings.info
        if units is None:
            units = cover(graph, self.fusers, info)
        self.last = channels_last(graph, units, info)
        for unit in units:
            if isinstance(unit, int):
                self._node(graph.nodes[unit])
            else:
                self._group(unit)
        outputs = self._outputs()
        tasks = renewed_last(needed(self.tasks, outputs), outputs)
        tasks = without_duplicates(tasks, outputs, self.lowerings, self.deterministic)
        tasks = with_pitches(tasks, outputs, self.lowerings, self.deterministic)
        return Draft(graph, tasks, outputs, bytes(self.constants), hosts, end)

    def _aligned(self, nbytes: int) -> int:
        return -(-greatest(nbytes, 1) // self.align) * self.align

    def _inputs(self) -> tuple[list[tuple[int, Spec, int]], int]:
        hosts: list[tuple[int, Spec, int]] = []
        end = 0
        for number in self.graph.inputs:
            known = self.graph.specs[number]
            if number in self.graph.host:
                piece = Piece("host", known.nbytes, end)
                hosts.append((number, known, end))
                end += self._aligned(known.nbytes)
            else:
                piece = Piece("input", known.nbytes, number)
            self.values[number] = Value(piece, View.dense(known))
        return hosts, end

    def _node(self, node: Node) -> None:
        name, specs = node.op.name, self.graph.specs
        results = tuple(specs[o] for o in node.outputs)
        if name in SOURCES and self._source(node, results[0]):
            return
        inputs = tuple(self.values[v] for v in node.inputs)
        if name == "scan" and self.scans is not None:
            self.values.update(zip(node.outputs, self.scans.emit(self, node, inputs), strict=True))
            return
        if len(inputs) == 1:
            moved = self._moved(node, inputs[0], results[0])
            if moved is not None:
                self.values[node.outputs[0]] = moved
                return
        made = self._last(name, node.attributes, inputs, node.outputs)
        if made is None:
            orders = self._orders.of(name, node.outputs)
            made = self.emit(name, node.attributes, inputs, results, orders)
        self.values.update(zip(node.outputs, made, strict=True))

    def _group(self, group: Group) -> None:
        """Execute nodes as a group, or one by one if the lowering refuses these views."""
        inputs = tuple(self.values[v] for v in group.inputs)
        results = tuple(self.graph.specs[o] for o in group.outputs)
        try:
            made = self._last(group.op, group.attributes, inputs, group.outputs)
            if made is None:
                orders = self._orders.of(group.op, group.outputs)
                made = self.emit(group.op, group.attributes, inputs, results, orders)
        except CompileError:
            for number in group.nodes:
                self._node(self.graph.nodes[number])
            return
        self.tasks[-1].covers = tuple(self.graph.nodes[i].op.name for i in group.nodes)
        if len(self.tasks[-1].inputs) == len(inputs):
            self.tasks[-1].reads = reads_of(self.graph, group)
        self.values.update(zip(group.outputs, made, strict=True))
        for number in sorted(group.nodes):
            # What other nodes read of a group may be a view of a result.
            node = self.graph.nodes[number]
            if node.op.name in MOVEMENTS and node.outputs[0] not in self.values:
                self._follow(node)

    def _follow(self, node: Node) -> None:
        """Add what a movement op of a group makes of a result, if it does of one."""
        value = self.values.get(node.inputs[0]) if len(node.inputs) == 1 else None
        if value is None:
            return
        made = self._moved(node, value, self.graph.specs[node.outputs[0]])
        if made is not None:
            self.values[node.outputs[0]] = made

    def _last(
        self, op: str, attributes: Any, inputs: tuple[Value, ...], outputs: Sequence[int]
    ) -> list[Value] | None:
        """Add a task whose results have channels last; None if they have not."""
        if not self.last.issuperset(outputs) or not outputs:
            return None
        results = [self.graph.specs[o] for o in outputs]
        if op in ROWS:
            moved = (permuted(v.view, ORDER) for v in inputs)
            inputs = tuple(Value(v.piece, m) for v, m in zip(inputs, moved, strict=True))
        else:
            attributes = {**attributes, "order": ORDER}
        try:
            made = self.emit(op, attributes, inputs, [in_order(s) for s in results])
        except CompileError:
            return None
        pairs = zip(made, results, strict=True)
        return [Value(value.piece, ordered(result, ORDER)) for value, result in pairs]

    def _moved(self, node: Node, value: Value, result: Spec) -> Value | None:
        """Return the result as a view of the operand, or of a dense copy of it."""
        name, attributes = node.op.name, node.attributes
        view = view_of(name, value.view, attributes, result)
        if view is not None:
            return Value(value.piece, view)
        if not value.view.is_dense or value.view.offset:
            dense = View.dense(spec_of(value.view.shape, value.view.dtype))
            view = view_of(name, dense, attributes, result)
            if view is not None:
                return Value(self._copy(value).piece, view)
        return None

    def copied(self, value: Value) -> Value:
        """Return a dense copy of a value, in memory of its own."""
        return self._copy(value)

    def _copy(self, value: Value) -> Value:
        known = spec_of(value.view.shape, value.view.dtype)
        return self.emit("copy", {}, (value,), (known,))[0]

    # Sources.
    def _source(self, node: Node, result: Spec) -> bool:
        attributes = node.attributes
        number = node.outputs[0]
        if node.op.name == "full":
            one = self.constant(np.frombuffer(attributes["value"].bits, result.dtype.numpy)[:1])
            strides = (0,) * result.ndim
            view = View(result.shape, strides, result.dtype, one.view.offset)
            self.values[number] = Value(one.piece, view)
            return True
        if node.op.name == "iota":
            if result.nbytes > _SHORT and "iota" in self.lowerings:
                return False
            array = np.arange(result.size).astype(result.dtype.numpy)
        else:
            array = attributes["array"].array
        self.values[number] = self.constant(array)
        return True

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """Return a value uploaded once, when the plan is made; equal constants are shared."""
        dtype = as_dtype(array.dtype)
        key = (dtype, array.tobytes())
        found = self._known.get(key)
        if found is None:
            start = len(self.constants)
            self.constants += key[1].ljust(self._aligned(len(key[1])), b"\0")
            piece = Piece("constant", array.nbytes, start)
            found = Value(piece, View.dense(spec((array.size,), dtype)))
            self._known[key] = found
        return Value(found.piece, View.dense(spec(array.shape, dtype)))

    # Work.
    def emit(
        self,
        op: str,
        attributes: Any,
        inputs: Sequence[Value],
        results: Sequence[Spec],
        orders: Sequence[Order] = (),
    ) -> list[Value]:
        """Add a task and return its results; operands are copied first if they must be dense.

        ``orders``: of the results' axes, which are dense if the family refuses these.
        """
        outputs, given = tuple(results), tuple[Value, ...]()
        works: Sequence[Work] = (_NOTHING,)
        if any(s.size for s in outputs):
            dense = self.lowerings.dense
            given = tuple(self.dense(v) if dense(op, i) else v for i, v in enumerate(inputs))
            if orders:
                asked = {**attributes, "orders": orders}
                if isinstance(self._ask(op, asked, given, outputs), Refusal):
                    orders = ()
                else:
                    attributes = asked
            answer = self._ask(op, attributes, given, outputs)
            if isinstance(answer, Refusal) and op != "copy":
                # A family may refuse these views, but accept dense memory.
                given = tuple(map(self.dense, inputs))
                answer = self._ask(op, attributes, given, outputs)
            if isinstance(answer, Refusal):
                raise CompileError(f"{op} is refused after it was claimed: {answer.reason}", op=op)
            works = answer
        pieces = tuple(Piece("made", s.nbytes) for s in outputs)
        self.tasks.append(Task(op, works, given, pieces, attributes, outputs))
        orders = orders or (None,) * len(outputs)
        made = zip(pieces, outputs, orders, strict=True)
        return [Value(piece, ordered(one, order)) for piece, one, order in made]

    def _ask(
        self, op: str, attributes: Any, given: tuple[Value, ...], outputs: tuple[Spec, ...]
    ) -> Sequence[Work] | Refusal:
        views = tuple(v.view for v in given)
        return self.lowerings.ask(op, attributes, views, outputs, self.deterministic)

    def dense(self, value: Value) -> Value:
        """Return the value in contiguous memory, copied if necessary."""
        if value.view.is_dense:
            return value
        known = self._copies.setdefault(value.piece, [])
        for view, copied in known:
            if view == value.view:
                return copied
        made = self._copy(value)
        known.append((value.view, made))
        return made

    def _outputs(self) -> list[Piece]:
        taken: dict[Piece, None] = {}
        for number in self.graph.outputs:
            value = self.values[number]
            if value.piece.kind != "made" or not value.whole or value.piece in taken:
                value = self._copy(value)
            taken[value.piece] = None
        return list(taken)


def needed(tasks: Sequence[Task], outputs: Iterable[Piece]) -> list[Task]:
    """Return the tasks with results that are read, and those that may fail.

    A group may compute a node again that nothing else reads, such as a mask.
    """
    read, made = set(outputs), list[Task]()
    for task in reversed(tasks):
        if not read.isdisjoint(task.outputs) or any(work.failures for work in task.works):
            made.append(task)
            read.update(value.piece for value in task.inputs)
    made.reverse()
    return made


def renewed_last(tasks: Sequence[Task], outputs: Collection[Piece]) -> list[Task]:
    """Return tasks with those that only renew inputs behind the readers of these inputs.

    A counter, or the state of a generator, is then written in place without a copy.
    """
    kept = set(outputs)
    read = {value.piece for task in tasks for value in task.inputs}
    last = {value.piece: n for n, task in enumerate(tasks) for value in task.inputs}
    after: dict[int, list[Task]] = {}
    stay: list[Task | None] = list(tasks)
    for number, task in enumerate(tasks):
        given = [value.piece for value in task.inputs]
        renews = all(piece in kept and piece not in read for piece in task.outputs)
        made = any(piece.kind in ("made", "kept") for piece in given)
        end = max((last[piece] for piece in given if piece.kind == "input"), default=number)
        if renews and not made and end > number and not any(w.failures for w in task.works):
            after.setdefault(end, []).append(task)
            stay[number] = None
    found = []
    for number, one in enumerate(stay):
        found += [] if one is None else [one]
        found += after.get(number, [])
    return found


def cover(graph: Graph, fusers: Sequence[Fuser], info: DeviceInfo) -> list[Unit]:
    """Return node numbers and groups in topological order.

    Groups that overlap a better one are looked for again among the nodes that are left.
    """
    ceilings = ceilings_of(info)
    alone = [node_seconds(graph, node, ceilings) for node in graph.nodes]
    chosen: dict[Group, float] = {}
    taken: set[int] = set()
    dropped: set[tuple[int, ...]] = set()
    order: Sequence[Unit] = range(len(graph.nodes))
    for _ in range(_ROUNDS):
        found = [group for one in fusers for group in one.among(graph, info, order)]
        found = [group for group in found if group.nodes not in dropped]
        more = _choose([group for group in found if not group.spare], alone, taken)
        more = more or _choose([group for group in found if group.spare], alone, taken)
        if not more:
            break
        chosen |= more
        while True:
            order, stuck = _schedule(graph, chosen)
            if not stuck:
                break
            # Groups in a cycle: drop the one that saves least.
            worst = min(stuck, key=lambda g: chosen[g])
            del chosen[worst]
            dropped.add(worst.nodes)
            taken.difference_update(worst.nodes)
    return list(order)


def _choose(groups: Sequence[Group], alone: Sequence[float], taken: set[int]) -> dict[Group, float]:
    """Return disjoint groups, the greatest savings first, with their savings; take their nodes.

    What is left of a group that a better one overlaps is not for lesser groups: it is looked at
    again as a group.
    """
    found = [(sum(alone[i] for i in group.nodes) - group.cost, group) for group in groups]
    found.sort(key=lambda pair: (-pair[0], pair[1].nodes))
    chosen: dict[Group, float] = {}
    left: set[int] = set()
    for saved, group in found:
        if saved <= 0:
            break
        if taken.isdisjoint(group.nodes) and left.isdisjoint(group.nodes):
            taken.update(group.nodes)
            chosen[group] = saved
        else:
            left.update(group.nodes)
    return chosen


def _schedule(graph: Graph, chosen: dict[Group, float]) -> tuple[list[Unit], list[Group]]:
    """Return the units in order, and the groups that wait for each other."""
    unit: list[Unit] = list(range(len(graph.nodes)))
    for group in chosen:
        for i in group.nodes:
            unit[i] = group
    maker = {o: unit[i] for i, node in enumerate(graph.nodes) for o in node.outputs}
    waits: dict[Unit, set[Unit]] = {}
    users: dict[Unit, list[Unit]] = {}
    for i, node in enumerate(graph.nodes):
        mine = waits.setdefault(unit[i], set())
        for value in node.inputs:
            other = maker.get(value)
            if other is not None and other != unit[i] and other not in mine:
                mine.add(other)
                users.setdefault(other, []).append(unit[i])
    places = _places(graph, waits, maker)
    ready: list[int] = []
    counts = {u: len(w) for u, w in waits.items()}
    for u, count in counts.items():
        if not count:
            heappush(ready, places[u])
    order: list[Unit] = []
    while ready:
        u = unit[heappop(ready) % len(unit)]
        order.append(u)
        for user in users.get(u, ()):
            counts[user] -= 1
            if not counts[user]:
                heappush(ready, places[user])
    stuck = set(unit).difference(order)
    # What only waits for those that wait for each other is in no cycle.
    left = {u: sum(user in stuck for user in users.get(u, ())) for u in stuck}
    free = [u for u, count in left.items() if not count]
    while free:
        u = free.pop()
        stuck.discard(u)
        for other in waits[u]:
            if other in left:
                left[other] -= 1
                if not left[other]:
                    free.append(other)
    return order, [g for g in chosen if g in stuck]


def _places(graph: Graph, units: Iterable[Unit], made: Container[int]) -> dict[Unit, int]:
    """Return the place of each unit in the order: that of its last node.

    A group that makes several results of the graph, of few intermediate values, comes after all:
    results in place are written after the last possible failure, and copied if they come before.
    """
    places: dict[Unit, int] = {}
    wanted = frozenset(graph.outputs)
    for unit in units:
        if isinstance(unit, int):
            places[unit] = unit
            continue
        places[unit] = unit.nodes[-1]
        if len(unit.outputs) > 1 and wanted.issuperset(unit.outputs):
            waiting = sum(hinted(graph.specs[v].nbytes) for v in unit.inputs if v in made)
            places[unit] += len(graph.nodes) * (waiting <= _WAITING)
    return places
