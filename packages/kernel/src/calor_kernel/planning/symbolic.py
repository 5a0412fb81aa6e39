"""The planner, the families and the recorder, run with symbolic sizes.

Requirements: decisions are made by the same code as for known sizes. A choice among equally correct
ways uses the hints, without a guard. Build arguments are concrete, so a size among them becomes a
guard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_not
from typing import Any, Final, NamedTuple

from calor.dtypes import DType
from calor.graph.attributes import exact
from calor.graph.graph import Graph
from calor.sizes import Size, Trace
from calor.specs import Spec
from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import View, Work
from calor_kernel.planning.engine import Engine
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.planner import Planner, Unit, cover
from calor_kernel.planning.recording import Recorder
from calor_kernel.planning.repeating import Scans
from calor_kernel.planning.values import Draft, Piece, Task, Value


class SizedLowerings(Lowerings):
    """Lowerings for symbolic sizes, with their answers cached by expression."""

    @staticmethod
    def key(op: str, attributes: Mapping[str, Any], *rest: Any) -> Any:
        """Return the key of a request's answer, with sizes by their expressions."""
        return _frozen((op, tuple(sorted(attributes.items())), *rest))


def _frozen(value: Any) -> Any:
    """Return a key that is equal for equal values, without guards on sizes."""
    if isinstance(value, Size):
        return Size, value.key
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, View):
        return View, _frozen((value.shape, value.strides, value.offset)), value.dtype
    if isinstance(value, Spec):
        return Spec, _frozen(value.shape), value.dtype
    if isinstance(value, Graph):
        return id(value)  # The request that holds the value keeps it alive.
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(_frozen(getattr(value, f.name)) for f in fields(value))
    return exact(value)


class SizedPlanner(Planner):
    """Plans a graph with symbolic sizes.

    ``loose``: the results of ``full`` and ``constant`` whose bytes are known later. ``places``: the
    offset of each of these in the constants; such arrays follow all others.
    """

    def __init__(self, *planned: Any, loose: Collection[int]) -> None:
        super().__init__(*planned)
        self.loose = loose
        self.places: dict[int, int] = {}
        self._arrays: dict[int, Piece] = {}

    def draft(self, units: Sequence[Unit] | None = None) -> Draft:
        made = super().draft(units)
        end: int = self._aligned(len(self.constants))
        for number, piece in self._arrays.items():
            piece.number = self.places[number] = end
            end += self._aligned(piece.nbytes)
        return replace(made, end=end) if self._arrays else made

    def _source(self, node: Any, result: Spec) -> bool:
        if node.op.name == "iota" and is_size(result.size):
            return False  # Computed at each call, because its size is an argument of a launch.
        number = node.outputs[0]
        if number not in self.loose:
            return super()._source(node, result)
        if node.op.name == "constant":
            piece = self._arrays[number] = Piece("constant", result.nbytes)
            self.values[number] = Value(piece, View.dense(result))
            return True
        # Its constant must not be shared with an equal one.
        known, self._known = self._known, {}
        made = super()._source(node, result)
        self._known = known
        self.places[number] = self.values[number].piece.number
        return made


# Types of values without sizes, which are most of them.
_LEAVES: Final = frozenset((int, float, bool, str, type(None), DType))


def sizes_in(value: Any) -> tuple[Size, ...]:
    """Return the sizes in a value, in a deterministic order."""
    found: list[Size] = []
    replaced(value, found.append)
    return tuple(found)


def hinted_value(value: Any) -> Any:
    """Return a value with every size replaced by its hint."""
    return replaced(value, lambda size: size.hint)


def replaced(value: Any, number: Callable[[Size], Any]) -> Any:
    """Return a value with every size replaced by ``number`` of it."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is Size:
        return number(value)
    if isinstance(value, tuple):
        made = [v if type(v) in _LEAVES else replaced(v, number) for v in value]
        if any(map(is_not, value, made)):
            return tuple(made) if kind is tuple else kind(*made)
        return value
    if kind is Spec:
        shape = replaced(value.shape, number)
        return value if shape is value.shape else Spec(shape, value.dtype, value.weak)
    changed = {}
    for name in _names(kind):  # type: ignore[arg-type]
        old = getattr(value, name)
        if type(old) in _LEAVES:
            continue
        new = replaced(old, number)
        if new is not old:
            changed[name] = new
    return replace(value, **changed) if changed else value


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass; none of another type."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def chosen(engine: Engine, task: Task) -> Work:
    """Return the tuner's choice for the hinted sizes; each candidate is correct for all."""
    if len(task.works) == 1 or engine.tuner.mode == "off":
        return task.works[0]
    works = [hinted_value(work) for work in task.works]
    inputs = tuple(Value(v.piece, hinted_value(v.view)) for v in task.inputs)
    attributes = {name: hinted_value(value) for name, value in task.attributes.items()}
    results = hinted_value(task.results)
    known = Task(task.op, works, inputs, task.outputs, attributes, results, task.covers)
    found = engine.tuner.choose(known)
    return task.works[next(i for i, work in enumerate(works) if work is found)]


class Symbolic(NamedTuple):
    """A graph planned with symbolic sizes."""

    trace: Trace
    recorder: Recorder
    patches: Sequence[tuple[int, int]]
    lowerings: SizedLowerings


def plan_symbolic(engine: Engine, graph: Graph, trace: Trace, loose: Mapping[int, int]) -> Symbolic:
    """Plan a graph whose numbers are sizes of a trace.

    ``loose``: the constants whose bytes are known later, with a number for each.
    """
    lowerings = SizedLowerings(engine.device.info, engine.tuner.wants)

    def planned(graph: Graph, loose: Collection[int] = ()) -> tuple[SizedPlanner, Draft]:
        planner = SizedPlanner(lowerings, graph, engine.fusers, engine.deterministic, loose=loose)
        planner.scans = Scans.of(engine, planned, lambda task: chosen(engine, task))
        with trace.tables():
            units = cover(graph, engine.fusers, engine.device.info)
        return planner, planner.draft(units)

    planner, draft = planned(graph, loose)
    works = [chosen(engine, task) for task in draft.tasks]
    recorder = Recorder(engine, draft, works, draft.status(works, engine.device.info.align))
    patches = [(place, loose[number]) for number, place in planner.places.items()]
    return Symbolic(trace, recorder, patches, lowerings)
