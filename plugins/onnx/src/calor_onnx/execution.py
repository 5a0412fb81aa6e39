"""Execution of a graph: each operand is brought to the place that its operator needs.

Requirements: the same code serves a graph that is being compiled, where tensors have no elements
yet, and one that is interpreted. A value is freed after its last use. An error names the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import CalorError, DTypeError
from calor.recording.tracing import outside
from calor_onnx.call import Call
from calor_onnx.constants import HOST_LIMIT, Constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph, Node
from calor_onnx.limits import within
from calor_onnx.registry import Operator
from calor_onnx.scope import Scope
from calor_onnx.sized import TAKES, computed, is_sized, plain_value
from calor_onnx.types import CARRIERS, STRING, calor_type, name_of
from calor_onnx.values import Narrow, brought, is_host, upload

Array = np.ndarray[Any, Any]


# Python's errors for operands that an operator does not handle.
UNFIT = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
# Number of results that a node caches, and the largest number of elements of their operands.
REMEMBERED = 64
FEW = 64
# Number of remarks that a run keeps.
REMARKS = 64


class Run:
    """One execution on a device; ``traced`` means that the graph is being compiled.

    With ``choices``, data-dependent branches and loops become part of the compiled graph. ``small``
    maps the identity of a small constant's host array to the constant, so that it is uploaded once.
    """

    def __init__(
        self, device: Any, small: dict[int, Constant], *, traced: bool, choices: bool = False
    ) -> None:
        self.device = device
        self.small = small
        self.traced = traced
        self.choices = choices
        # The outermost node with an error.
        self.stopped: Node | None = None
        # Reasons why nodes are not compiled as one operation, without repetitions.
        self.remarks: dict[str, None] = {}

    def remark(self, text: str) -> None:
        """Record why a node is not compiled as one operation."""
        if len(self.remarks) < REMARKS:
            self.remarks[text] = None

    def graph(self, graph: Graph, inputs: Sequence[Any], outer: Scope | None = None) -> list[Any]:
        """Return the outputs of a graph for the values of its inputs."""
        if len(inputs) > len(graph.inputs):
            raise ModelError(
                f"the graph {graph.name!r} has {len(graph.inputs)} inputs and is given "
                f"{len(inputs)}"
            )
        names = [info.name for info in graph.inputs]
        scope = Scope(graph, dict(zip(names, inputs, strict=False)), outer)
        scope.values.update(dict.fromkeys(names[len(inputs) :]))
        for node in graph.nodes:
            try:
                self.node(node, scope)
            except CalorError as error:
                self.stopped = node
                if not getattr(error, "__notes__", None):
                    error.add_note(f"in {node.label} ({node.op}, opset {node.version})")
                raise
            except UNFIT as error:
                self.stopped = node
                raise unfit(node, error) from error
        return [scope.find(info.name, self.constant) for info in graph.outputs]

    def node(self, node: Node, scope: Scope) -> None:
        """Compute the outputs of a node, and free values without later uses."""
        operator = node.operator
        if operator is None:
            raise ModelError(f"{node.label}: {node.op} was not looked up")
        inputs = [scope.find(name, self.constant) for name in node.inputs]
        call = Call(node, self, scope, inputs, inputs)
        found = self.call(operator, call)
        within(found, node.label)
        results = found if isinstance(found, tuple) else (found,)
        values = scope.values
        for place, name in enumerate(node.outputs):
            if name:
                if place >= len(results):
                    raise ModelError(f"{node.op} has no output {place}, which {node.label} names")
                values[name] = self.placed(results[place])
        for name in node.drop:
            values.pop(name, None)

    def call(self, operator: Operator, call: Call) -> Any:
        """Call the operator's function with its operands in the right places."""
        inputs, attributes = call.inputs, call.node.attributes
        if any(map(is_sized, inputs)):
            made = None
            if not operator.domain and all(is_host(x) for x in inputs):
                made = computed(operator.name, call.version, inputs, attributes)
            if made is not None:
                return made
            if operator.name in TAKES and not operator.domain and not operator.raw:
                # Its result has symbolic sizes, so it is no host array.
                return self.on(operator, call, self.device)
            if operator.name not in TAKES or operator.domain:
                inputs = call.inputs = call.operands = [plain_value(x) for x in inputs]
        if operator.raw:
            return operator.function(call, *inputs, **attributes)
        if operator.moves and any(is_string(x) for x in inputs):
            return self.moved_texts(operator, call)
        on_host = bool(inputs) and all(is_host(x) for x in inputs)
        if on_host:
            return self.remembered(operator, call)
        return self.on(operator, call, self.device)

    def remembered(self, operator: Operator, call: Call) -> Any:
        """Return results for host values from a cache of small inputs.

        Interpreted graphs compute the same sizes at every call.
        """
        known = call.node.known
        key = few_numbers(call.inputs) if operator.pure else None
        # One lookup: another thread may clear the cache between two.
        found = None if key is None else known.get(key)
        if found is not None:
            return found
        with outside(), calor.device("numpy") as device:
            lazy = self.on(operator, call, device)
            within(lazy, call.node.label)
            made = brought(lazy)
        if key is not None:
            if len(known) >= REMEMBERED:
                known.clear()
            known[key] = made
        return made

    def on(self, operator: Operator, call: Call, device: Any) -> Any:
        """Call the function with tensors of a device."""
        call.device = device
        moved = None
        operands: list[Any] = []
        for place, value in enumerate(call.inputs):
            if value is None or isinstance(value, list):
                operands.append(value)
            elif place in operator.host:
                operands.append(value if is_sized(value) else call.host(value))
            elif operator.moves:
                made = self.carried(value, device)
                if isinstance(made, Narrow):
                    moved, made = made.dtype, made.tensor
                operands.append(made)
            else:
                operands.append(self.tensor(value, device))
        call.operands = operands
        made = operator.function(call, *operands, **call.node.attributes)
        return made if moved is None else rewrapped(made, moved)

    def moved_texts(self, operator: Operator, call: Call) -> Any:
        """Call an operator that moves elements on the indices of texts in a table."""
        table: list[Array] = [np.array([""], np.object_)]
        count = 1
        inputs = list(call.inputs)
        for place, value in enumerate(inputs):
            if is_string(value):
                inputs[place] = np.arange(count, count + value.size).reshape(value.shape)
                table.append(value.reshape(-1))
                count += value.size
            elif value is not None:
                inputs[place] = call.host(value)
        texts = np.concatenate(table)
        call.inputs = inputs
        with outside(), calor.device("numpy") as device:
            made = brought(self.on(operator, call, device))
        if isinstance(made, list | tuple):
            return type(made)(texts[x] for x in made)
        return texts[made]

    def carried(self, value: Any, device: Any) -> Any:
        """Return a value on a device; a type that calor lacks becomes a narrow tensor."""
        value = plain_value(value)
        if isinstance(value, np.ndarray):
            known = self.small.get(id(value))
            if known is None or value.size == 1 or device is not self.device:
                return upload(value, device)
            if known.tensor is None:
                with outside():
                    known.held_by(upload(value, device))
            return known.tensor
        return value

    def tensor(self, value: Any, device: Any) -> Tensor:
        """Return a value as a tensor on a device.

        Raises
        ------
        DTypeError
            If calor lacks the type.
        """
        made = self.carried(value, device)
        if isinstance(made, Narrow):
            raise DTypeError(f"this operator does not take {name_of(made.dtype)}; cast it first")
        return made  # type: ignore[no-any-return]

    def placed(self, value: Any) -> Any:
        """Return a value where the placement rule puts it: large host arrays go to the device."""
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and value.size > HOST_LIMIT and on_devices(value):
            with outside():
                return upload(value, self.device)
        return value

    def constant(self, constant: Constant) -> Any:
        """Return a constant's value: a host array if it is small, else the device's tensor."""
        if constant.small or not on_devices(constant):
            return constant.array()
        if constant.tensor is None:
            with outside():
                constant.held_by(upload(constant.array(), self.device))
        return constant.tensor


def unfit(node: Node, error: Exception) -> ModelError:
    """Return the error for operands or attributes that an operator does not take."""
    where = f"{node.label} ({node.op}, opset {node.version})"
    made = ModelError(
        f"{where} does not fit its operands or attributes: {str(error) or type(error).__name__}; "
        f"onnx.checker.check_model(model, full_check=True) tells more of a model that breaks rules"
    )
    made.add_note(f"in {where}")
    return made


def on_devices(value: Array | Constant) -> bool:
    """Return whether devices can hold elements of this type, possibly in a carrier type."""
    return calor_type(value.dtype) is not None or value.dtype in CARRIERS


def few_numbers(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return a hashable key of host operands, or None for more than a few numbers."""
    parts: list[Any] = []
    for x in inputs:
        if x is None:
            parts.append(None)
        elif isinstance(x, np.ndarray) and x.size <= FEW and not x.dtype.hasobject:
            parts.append((x.dtype, x.shape, x.tobytes()))
        else:
            return None
    return tuple(parts)


def is_string(value: Any) -> bool:
    """Return whether a value is a host array of texts."""
    return isinstance(value, np.ndarray) and value.dtype == STRING


def rewrapped(made: Any, dtype: Any) -> Any:
    """Return results in the carrier type as narrow tensors."""
    if isinstance(made, list | tuple):
        return type(made)(rewrapped(x, dtype) for x in made)
    carries = isinstance(made, Tensor) and made.dtype is CARRIERS[dtype]
    return Narrow(made, dtype) if carries else made
