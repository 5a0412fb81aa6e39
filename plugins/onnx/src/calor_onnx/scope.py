"""The values of a graph that runs, found by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor_onnx.constants import Constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph


class Scope:
    """The values of a running graph, and access to those of enclosing graphs."""

    __slots__ = ("graph", "outer", "values")

    def __init__(self, graph: Graph, values: dict[str, Any], outer: Scope | None) -> None:
        self.graph = graph
        self.values = values
        self.outer = outer

    def find(self, name: str, placed: Callable[[Constant], Any]) -> Any:
        """Return a value by name from this graph or an enclosing one; None for the empty name."""
        if not name:
            return None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            constant = scope.graph.constants.get(name)
            if constant is not None:
                return placed(constant)
            scope = scope.outer
        raise ModelError(f"nothing defines the value {name!r}")
