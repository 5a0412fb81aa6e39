"""The form of a graph's values, and of its branches and loops, found by a run.

Requirements: branches that are not taken are examined too. A loop counts as one ``scan`` or
``while_loop`` of calor only if calor accepts it, which is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import CalorError
from calor_onnx.call import Call
from calor_onnx.execution import UNFIT, Run
from calor_onnx.graph import Graph, Node, used_by
from calor_onnx.registry import Operator
from calor_onnx.scope import Scope

# The form of a value: for a tensor its rank and whether its type is floating; None for others.
Form = tuple[int, bool] | None
CONTROL = frozenset({"If", "Loop", "Scan"})


class Watching(Run):
    """A run that records the form of each value, by its graph and name.

    ``ways`` has for each branch and loop, by the identity of its node, how to write it: "cond",
    "scan", "while", or "plain" for Python's statements. (Operators are imported by models alone.)
    """

    def __init__(self, device: Any) -> None:
        super().__init__(device, {}, traced=False)
        self.forms: dict[tuple[int, str], Form] = {}
        self.ways: dict[int, str] = {}

    def graph(self, graph: Graph, inputs: Sequence[Any], outer: Scope | None = None) -> list[Any]:
        """Run a graph and record its inputs."""
        for info, value in zip(graph.inputs, inputs, strict=False):
            self.forms[id(graph), info.name] = form(value)
        return super().graph(graph, inputs, outer)

    def node(self, node: Node, scope: Scope) -> None:
        """Compute the outputs of a node and record them."""
        drop, node.drop = node.drop, ()
        try:
            super().node(node, scope)
        finally:
            node.drop = drop
        for name in node.outputs:
            if name in scope.values:
                self.forms[id(scope.graph), name] = form(scope.values[name])
        for name in drop:
            scope.values.pop(name, None)

    def call(self, operator: Operator, call: Call) -> Any:
        """Call an operator; branches and loops are first tried as one operation of calor."""
        node = call.node
        if node.domain or node.op not in CONTROL:
            return super().call(operator, call)
        way = _tried(call)
        forms, ways = dict(self.forms), {**self.ways, id(node): way}
        made = super().call(operator, call)
        if way != "plain":
            # The forms of values inside that operation count.
            self.forms.update(forms)
        self.ways.update(ways)
        return made


def form(value: Any) -> Form:
    """Return the recorded form of a value."""
    return (value.ndim, value.dtype.is_floating) if isinstance(value, Tensor) else None


def passes(body: Graph) -> bool:
    """Return whether a loop's body returns its condition unchanged."""
    name = body.outputs[0].name
    makers = {node.outputs[0]: node for node in body.nodes if node.op == "Identity"}
    while name in makers:
        name = makers[name].inputs[0]
    if name in body.constants:
        return bool(body.constants[name].array().reshape(-1).all())
    return len(body.inputs) > 1 and name == body.inputs[1].name


def without_condition(body: Graph) -> list[Node]:
    """Return the nodes of a loop's body except those that only pass on its condition."""
    kept, name = [*body.nodes], body.outputs[0].name
    others = {info.name for info in body.outputs[1:]}
    while True:
        found = next((n for n in kept if n.op == "Identity" and n.outputs[0] == name), None)
        if found is None or name in others or any(name in used_by(n) for n in kept):
            return kept
        kept.remove(found)
        name = found.inputs[0]


def _tried(call: Call) -> str:
    trials: dict[str, Callable[..., str]] = {"If": _if, "Loop": _loop, "Scan": _scan}
    try:
        return trials[call.node.op](call, *call.inputs, **call.node.attributes)
    except (CalorError, *UNFIT):
        return "plain"


def _if(call: Call, condition: Any, *, then_branch: Graph, else_branch: Graph) -> str:
    from calor_onnx.operators import control

    way = "plain"
    if isinstance(condition, Tensor):
        try:
            control.chosen(call, condition, then_branch, else_branch)
            way = "cond"
        except (CalorError, *UNFIT):
            pass
    if way == "plain":
        for branch in (then_branch, else_branch):
            try:
                call.apply(branch, [])
            except (CalorError, *UNFIT):
                # The branch that is not taken may not fit this input.
                continue
    return way


def _loop(call: Call, trips: Any, condition: Any, *carried: Any, body: Graph) -> str:
    from calor_onnx.operators import control

    carry, stacks = list(carried), len(body.outputs) - 1 - len(carried)
    if any(isinstance(value, list) or value is None for value in carry):
        return "plain"
    certain = condition is None or (isinstance(condition, np.ndarray) and bool(condition.all()))
    if trips is not None and certain and passes(body):
        control.counted(call, max(call.integers(trips)[0], 1), carry, body)
        return "scan"
    if stacks or not any(isinstance(v, Tensor) for v in (trips, condition, *carry)):
        return "plain"
    control.while_loop(call, trips, condition, carry, body)
    return "while"


def _scan(call: Call, *values: Any, body: Graph, num_scan_inputs: int, **options: Any) -> str:
    from calor_onnx.operators import control

    if call.node.version < 9:
        return "plain"
    kept = len(values) - num_scan_inputs
    axes = options.get("scan_input_axes") or [0] * num_scan_inputs
    rows = [
        calor.moveaxis(call.tensor(value), axis, 0)
        for value, axis in zip(values[kept:], axes, strict=True)
    ]
    control.scanned(call, [call.tensor(v) for v in values[:kept]], rows, body)
    return "scan"
