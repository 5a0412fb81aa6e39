"""Lookup of an operator for each node, before anything runs.

Requirements: one error lists all missing operators with their nodes, including those inside of
functions and sub-graphs. A recursive function is refused.
"""

from __future__ import annotations

from calor_onnx.checking import check_node
from calor_onnx.errors import ModelError, UnsupportedOperatorsError
from calor_onnx.functions import Expansion, definition_of
from calor_onnx.graph import Graph, Node
from calor_onnx.messages import FunctionProto
from calor_onnx.reading import Builder, opsets_of
from calor_onnx.registry import REGISTRY, Operator
from calor_onnx.schemas import schema_of
from calor_onnx.tensors import Weights

# Limits of the depth of function calls and of the expanded nodes of a graph. A few functions that
# each call the next one twice expand to more nodes than could ever run.
DEPTH = 50
NODES = 10_000_000

Missing = dict[tuple[str, str, str], list[str]]


class Resolver:
    """Looks up operators: the model's functions first, then ours, then ONNX's functions."""

    def __init__(self, functions: dict[tuple[str, str], FunctionProto], weights: Weights) -> None:
        self.functions = functions
        self.weights = weights
        self._expansions: dict[tuple[str, str], Operator] = {}
        # Number of expanded nodes of each function's body.
        self._checked: dict[tuple[str, str], int] = {}

    def resolve(self, graph: Graph) -> None:
        """Assign operators to the nodes of a graph and its sub-graphs.

        Raises
        ------
        UnsupportedOperatorsError
            If operators are missing; the message lists all of them.
        """
        missing: Missing = {}
        for node in graph.walk():
            node.operator = self.find(node, missing, ())
        if missing:
            raise UnsupportedOperatorsError(
                [(domain, op, tuple(dict.fromkeys(nodes)), reason)
                 for (domain, op, reason), nodes in sorted(missing.items())]
            )  # fmt: skip

    def find(
        self, node: Node, missing: Missing, within: tuple[tuple[str, str], ...]
    ) -> Operator | None:
        """Return the operator of a node, or record why there is none."""
        key = node.domain, node.op
        if key in self.functions:
            self._check(key, missing, within)
            return self._expansion(key, self.functions[key])
        schema = schema_of(node)
        if schema is not None:
            check_node(node, schema)
        found = REGISTRY.find(*key, node.version)
        if found is None:
            found = self._standard(node, missing, within)
        if found is None:
            reason = f"opset {node.version}"
            missing.setdefault((*key, reason), []).append(_place(node, within))
            return None
        if found.attributes is not None:
            for name in node.attributes.keys() - found.attributes:
                reason = f"its attribute {name!r}"
                missing.setdefault((*key, reason), []).append(_place(node, within))
            if not within:
                for name in found.required - node.attributes.keys():
                    raise ModelError(f"{node.label}: {node.op} needs the attribute {name!r}")
        return found

    def _standard(
        self, node: Node, missing: Missing, within: tuple[tuple[str, str], ...]
    ) -> Operator | None:
        schema = definition_of(node)
        if schema is None or schema.deprecated:
            return None
        key = node.domain, f"{node.op} {schema.since_version}"
        if schema.has_function:
            self._check_body(schema.function_body, key, missing, within)
            return self._expansion(key, schema.function_body)
        if schema.has_context_dependent_function:
            return self._expansion(key, None)
        return None

    def _expansion(self, key: tuple[str, str], function: FunctionProto | None) -> Operator:
        if key not in self._expansions:
            expand = Expansion(self, function, self.weights)
            self._expansions[key] = Operator(key[1], key[0], 1, expand, raw=True)
        return self._expansions[key]

    def _check(
        self, key: tuple[str, str], missing: Missing, within: tuple[tuple[str, str], ...]
    ) -> None:
        if key in within:
            raise ModelError(f"the function {key[1]!r} calls itself, which ONNX does not allow")
        if len(within) > DEPTH:
            raise ModelError(f"functions call each other more than {DEPTH} deep: {key[1]!r}")
        self._check_body(self.functions[key], key, missing, within)

    def _check_body(
        self,
        function: FunctionProto,
        key: tuple[str, str],
        missing: Missing,
        within: tuple[tuple[str, str], ...],
    ) -> None:
        if key in self._checked:
            return
        builder = Builder(opsets_of(function.opset_import, 10), self.weights)
        count = 0
        for item in function.node:
            if item.op_type == "Constant":
                continue
            node = builder.node(item)
            for each in (node, *(n for inner in node.subgraphs() for n in inner.walk())):
                self.find(each, missing, (*within, key))
                count += self._checked.get((each.domain, each.op), 1)
        if count > NODES:
            raise ModelError(
                f"the function {key[1]!r} expands to {count:,} nodes with the functions that it "
                f"calls; the limit is {NODES:,}"
            )
        self._checked[key] = count


def _place(node: Node, within: tuple[tuple[str, str], ...]) -> str:
    names = [*(op for _, op in within), node.label]
    return " in ".join(reversed(names))
