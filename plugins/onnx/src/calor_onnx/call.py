"""The services that an operator's function gets from the run that calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import calor
from calor import Tensor
from calor.errors import TraceError
from calor.recording.tracing import outside
from calor_onnx.constants import Constant
from calor_onnx.errors import DataDependentError
from calor_onnx.graph import Graph, Node
from calor_onnx.scope import Scope
from calor_onnx.sized import SizedArray
from calor_onnx.values import Narrow, brought, dtype_of, is_host, to_host, upload

Array = np.ndarray[Any, Any]


class Run(Protocol):
    """The walk that calls operators, as their calls see it."""

    device: Any
    traced: bool
    choices: bool

    def remark(self, text: str) -> None:
        """Keep why a node is not compiled as it could be."""
        ...

    def graph(self, graph: Graph, inputs: Sequence[Any], outer: Scope | None = None) -> list[Any]:
        """Run a graph on inputs and return its outputs."""
        ...

    def tensor(self, value: Any, device: Any) -> Tensor:
        """Return a value as a tensor on a device."""
        ...

    def carried(self, value: Any, device: Any) -> Any:
        """Return a value as an operand of a device."""
        ...

    def constant(self, constant: Constant) -> Any:
        """Return the value of a constant, on the device where it is used there."""
        ...


class Call:
    """One call of an operator: its node and opset, access to the host, and sub-graphs."""

    __slots__ = ("device", "inputs", "node", "operands", "refused", "run", "scope")

    def __init__(
        self, node: Node, run: Run, scope: Scope, inputs: list[Any], operands: list[Any]
    ) -> None:
        self.node = node
        self.run = run
        self.scope = scope
        # The values, and the arguments of the operator's function for them.
        self.inputs = inputs
        self.operands = operands
        # The device of the operator's results.
        self.device: Any = run.device
        # Reasons why the node is not compiled as one operation, one for each attempt.
        self.refused: list[str] = []

    @property
    def version(self) -> int:
        """The opset of the operator's domain that the model declares."""
        return self.node.version

    @property
    def traced(self) -> bool:
        """Whether the call is part of a compiled graph, where tensors have no elements yet."""
        return self.run.traced

    @property
    def count(self) -> int:
        """The number of outputs of the node, up to the last one with a name."""
        names = self.node.outputs
        return max((i for i, name in enumerate(names, 1) if name), default=0)

    def wants(self, output: int) -> bool:
        """Return whether the node names the output at a position."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def host(self, value: Any) -> Array:
        """Return the elements of a value as a host array.

        Raises
        ------
        DataDependentError
            If a graph is being compiled and the value is a tensor of a device. The model then takes
            the deciding inputs to the host, or is interpreted.
        """
        if isinstance(value, np.ndarray):
            return value
        if isinstance(value, SizedArray):
            return value.plain()
        if not isinstance(value, Tensor | Narrow):
            value = np.asarray(value)
            return value  # type: ignore[no-any-return]
        if self.traced:
            try:
                return to_host(value)
            except TraceError:
                name = next(
                    (
                        name
                        for name, a, b in zip(
                            self.node.inputs, self.inputs, self.operands, strict=False
                        )
                        if value is a or value is b
                    ),
                    None,
                )
                raise DataDependentError(
                    self._with_refusals(
                        f"{self.node.label} ({self.node.op}) needs the elements of "
                        f"{'an operand' if name is None else repr(name)}"
                    ),
                    [name] if name else (),
                ) from None
        return to_host(value)

    def integers(self, value: Any) -> list[int]:
        """Return the elements of a value, such as sizes or axes, as a list of Python integers.

        Some may be symbolic sizes.
        """
        if isinstance(value, SizedArray):
            return [*value.items.reshape(-1)]
        return [int(n) for n in self.host(value).reshape(-1)]

    def tensor(self, value: Any) -> Tensor:
        """Return a value as a tensor of the model's device; host values are uploaded."""
        found: Tensor = self.run.tensor(value, self.device)
        return found

    def on_host(self, function: Callable[..., Any], array: Array, *args: Any) -> Any:
        """Return ``function(tensor, *args)`` for a host array, computed on the host."""
        with outside(), calor.device("numpy") as device:
            return brought(function(upload(array, device), *args))

    def constant(self, place: int) -> Constant | None:
        """Return an operand's constant of the graph, or None if it is computed or given."""
        name = self.node.inputs[place] if place < len(self.node.inputs) else ""
        scope: Scope | None = self.scope
        while scope is not None and name:
            if name in scope.values:
                return None
            if name in scope.graph.constants:
                return scope.graph.constants[name]
            scope = scope.outer
        return None

    def derived(self, known: Constant, name: str, function: Callable[[Array], Array]) -> Tensor:
        """Return the tensor of ``function(constant)``, computed on the host and uploaded once."""
        made = known.derived.get(name)
        if made is None:
            with outside():
                made = known.derived[name] = upload(function(known.array()), self.run.device)
        return self.tensor(made)

    def apply(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Run a sub-graph of the node on inputs and return its outputs."""
        return self.run.graph(graph, inputs, self.scope)

    def cannot(self, reason: str) -> DataDependentError:
        """Return the error to raise when the node cannot be compiled."""
        where = f"{self.node.label} ({self.node.op})"
        return DataDependentError(self._with_refusals(f"{where}: {reason}"))

    def refuse(self, way: str, error: Exception) -> None:
        """Record why one way of compiling the node failed; the model's ``remarks`` list it."""
        reason = f"{way}: {str(error).partition(chr(10))[0] or type(error).__name__}"
        self.refused.append(reason)
        self.run.remark(f"{self.node.label} ({self.node.op}) is {reason}")

    def _with_refusals(self, text: str) -> str:
        return "; it is ".join([text, *self.refused])

    dtype_of = staticmethod(dtype_of)
    is_host = staticmethod(is_host)
