"""What an operator's function may ask of the run that calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import TraceError
from calor.graph.tracing import outside
from calor_onnx.constants import Constant
from calor_onnx.errors import DataDependentError
from calor_onnx.graph import Graph, Node
from calor_onnx.values import Narrow, brought, dtype_of, is_host, to_host, upload

if TYPE_CHECKING:
    from calor_onnx.execution import Run, Scope

Array = np.ndarray[Any, Any]


class Call:
    """One call of an operator: its node, opset, and the ways to the host and into sub-graphs."""

    __slots__ = ("device", "inputs", "node", "operands", "refused", "run", "scope")

    def __init__(
        self, node: Node, run: Run, scope: Scope, inputs: list[Any], operands: list[Any]
    ) -> None:
        self.node = node
        self.run = run
        self.scope = scope
        # The values as they are, and what the operator's function is given for them.
        self.inputs = inputs
        self.operands = operands
        # The device of tensors that the operator makes.
        self.device: Any = run.device
        # Why the node is not compiled as one operation, for each way that was tried.
        self.refused: list[str] = []

    @property
    def version(self) -> int:
        """The opset of the operator's domain that the model states."""
        return self.node.version

    @property
    def traced(self) -> bool:
        """Whether the call becomes part of a compiled graph, so that tensors have no elements."""
        return self.run.traced

    @property
    def count(self) -> int:
        """How many outputs the node has, up to the last that is named."""
        names = self.node.outputs
        return max((i for i, name in enumerate(names, 1) if name), default=0)

    def wants(self, output: int) -> bool:
        """Return whether the node names the output of that position."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    def host(self, value: Any) -> Array:
        """Return a value's elements as a host array.

        While a graph is compiled a device's tensor has none: DataDependentError, upon which the
        model takes the inputs that decide them to the host, or is interpreted.
        """
        if isinstance(value, np.ndarray):
            return value
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
        """Return a value's elements as Python integers, in one list; sizes and axes are such."""
        return [int(n) for n in self.host(value).reshape(-1)]

    def tensor(self, value: Any) -> Tensor:
        """Return a value as a tensor of the model's device, uploaded where it is on the host."""
        found: Tensor = self.run.tensor(value, self.device)
        return found

    def on_host(self, function: Callable[..., Any], array: Array, *args: Any) -> Any:
        """Return ``function(tensor, *args)`` for a host array, computed and again on the host."""
        with outside(), calor.device("numpy") as device:
            return brought(function(upload(array, device), *args))

    def constant(self, place: int) -> Constant | None:
        """Return the graph's constant that an operand is; None for what is computed or given."""
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
        """Return the device's tensor of what a host function makes of a constant, made once."""
        made = known.derived.get(name)
        if made is None:
            with outside():
                made = known.derived[name] = upload(function(known.array()), self.run.device)
        return self.tensor(made)

    def apply(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Run a sub-graph of the node with values for its inputs; return those of its outputs."""
        return self.run.graph(graph, inputs, self.scope)

    def cannot(self, reason: str) -> DataDependentError:
        """Return the error that says why the node cannot be compiled, to be raised."""
        where = f"{self.node.label} ({self.node.op})"
        return DataDependentError(self._with_refusals(f"{where}: {reason}"))

    def refuse(self, way: str, error: Exception) -> None:
        """Remember why the node is not compiled in a way; the model's ``remarks`` tell it."""
        reason = f"{way}: {str(error).partition(chr(10))[0] or type(error).__name__}"
        self.refused.append(reason)
        self.run.remark(f"{self.node.label} ({self.node.op}) is {reason}")

    def _with_refusals(self, text: str) -> str:
        return "; it is ".join([text, *self.refused])

    dtype_of = staticmethod(dtype_of)
    is_host = staticmethod(is_host)
