"""Writes the steps of a graph: by their row, by a definition, or by their decomposition.

Requirements: an expand that ONNX's operators do implicitly is not written, which keeps models
readable and lets shapes be symbolic without computing them. Unused steps are left out. Steps that
cannot be written are collected, so that one error lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from calor.errors import CalorError
from calor.graph.decompose import definition, plain
from calor.recording.tracing import trace_function
from calor_onnx.exporting.complexes import is_complex, write_complex
from calor_onnx.exporting.errors import ExportError, Refused
from calor_onnx.exporting.pairs import number
from calor_onnx.exporting.program import Merged, Step, merge
from calor_onnx.exporting.sizes import Dimension
from calor_onnx.exporting.writer import Writer

# Writes a step: (writer, step, names of its operands) → names of its outputs.
Row = Callable[..., Any]
ROWS: Final[dict[str, Row]] = {}
# Ops without a row, as functions of tensors that record other ops.
DEFINITIONS: Final[dict[str, Callable[..., Any]]] = {}
# The operators of these ops broadcast axes of size 1 implicitly.
BROADCASTING: Final[set[str]] = set()


def row(*names: str, broadcasts: bool = False) -> Callable[[Row], Row]:
    """Register a function for ops, by their names."""

    def add(function: Row) -> Row:
        for name in names:
            ROWS[name] = function
            if broadcasts:
                BROADCASTING.add(name)
        return function

    return add


def write(
    graph: Merged, operands: Sequence[str], w: Writer, wanted: Sequence[bool] | None = None
) -> list[str]:
    """Write a graph on named operands; return the names of its outputs ('' for unused ones)."""
    outputs = [o for i, o in enumerate(graph.outputs) if wanted is None or wanted[i]]
    steps = _needed(graph, outputs)
    lean = _lean(graph, steps, outputs)
    names = dict(zip(graph.inputs, operands, strict=True))
    for step in steps:
        given = [names[v] for v in step.inputs]
        if step.outputs[0] in lean:
            names[step.outputs[0]] = (
                given[0] if given else number(w, step.attributes["value"], step.gives[0].dtype)
            )
            continue
        names.update(zip(step.outputs, _written(w, step, given), strict=True))
    return [names[o] if wanted is None or wanted[i] else "" for i, o in enumerate(graph.outputs)]


def _needed(graph: Merged, outputs: Sequence[int]) -> list[Step]:
    needed = set(outputs)
    kept = []
    for step in reversed(graph.steps):
        step.wanted = tuple(o in needed for o in step.outputs)
        if any(step.wanted):
            kept.append(step)
            needed.update(step.inputs)
    return kept[::-1]


def _lean(graph: Merged, steps: Sequence[Step], outputs: Sequence[int]) -> set[int]:
    """Return the values that are expanded only for operators with implicit broadcasting."""
    raw: dict[int, tuple[Dimension, ...]] = {}
    for step in steps:
        if step.op.name == "expand":
            raw[step.outputs[0]] = step.takes[0].shape
        elif step.op.name == "full":
            raw[step.outputs[0]] = ()
    lean = set(raw) - set(outputs)
    for step in steps:
        if step.op.name not in BROADCASTING:
            lean.difference_update(step.inputs)
    for step in steps:
        if not lean.isdisjoint(step.inputs):
            shapes = [raw[v] if v in lean else graph.values[v].shape for v in step.inputs]
            if not _covers(shapes, step.gives[0].shape):
                lean.difference_update(step.inputs)
    # An expanded value covers at least as much for other operands.
    return lean


def _covers(shapes: Sequence[Sequence[Dimension]], shape: Sequence[Dimension]) -> bool:
    """Return whether operands of these shapes broadcast to this one."""
    if max(map(len, shapes)) != len(shape):
        return False
    return all(
        n == 1 or any(len(s) >= back and s[-back] == n for s in shapes)
        for back, n in enumerate(reversed(shape), 1)
    )


def _written(w: Writer, step: Step, given: Sequence[str]) -> list[str]:
    shared = w.shared
    shared.steps.append(step)
    try:
        return _one(w, step, given)
    except Refused as refused:
        lines = (shared.program.line(s) for s in reversed(shared.steps))
        line = next((found for found in lines if found), "an unknown line")
        problem = (shared.steps[0].op.name, str(refused), line)
        if problem not in shared.problems:
            shared.problems.append(problem)
        return [w.value("missing", value.dtype) for value in step.gives]
    finally:
        shared.steps.pop()


def _one(w: Writer, step: Step, given: Sequence[str]) -> list[str]:
    if is_complex(step):
        written = write_complex(
            w,
            step,
            given,
            lambda real, names: _plain(w, real, names),
            lambda function: defined(w, step, given, function),
        )
        return defined(w, step, given, None) if written is None else written
    return _plain(w, step, given)


def _plain(w: Writer, step: Step, given: Sequence[str]) -> list[str]:
    """Write a step on real numbers."""
    name = step.op.name
    found = ROWS.get(name)
    if found is not None:
        made = found(w, step, *given)
        if made is not None:
            return list(made) if isinstance(made, tuple) else [made]
    if name in DEFINITIONS:
        return defined(w, step, given, DEFINITIONS[name])
    if step.op.decompose is not None:
        return defined(w, step, given, None)
    raise Refused("ONNX has no operator for it")


def defined(
    w: Writer, step: Step, given: Sequence[str], function: Callable[..., Any] | None
) -> list[str]:
    """Write the ops that a definition, or else the op's decomposition, records for the operands."""
    try:
        graphs = [
            definition(step.op, specs, attributes)
            if function is None
            else trace_function(function, specs, attributes)
            for specs, attributes in step.sampled
        ]
    except CalorError as error:
        raise Refused(str(error)) from error
    program = w.shared.program
    try:
        body = merge([plain(g) for g in graphs], program.samples, lambda *_: None)
    except ExportError as error:
        raise Refused(error.operations[0][1]) from error
    return write(body, given, w, step.wanted)
