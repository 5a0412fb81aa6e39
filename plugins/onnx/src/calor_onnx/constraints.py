"""A check of operand types against ONNX, before anything runs.

Requirements: one error lists all violations with their nodes. The check uses element types only,
starting from declared inputs and constants, and takes microseconds for a node. Unknown types (a
model's own functions, operators without a schema) pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calor_onnx.errors import TypeConstraintError
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.schemas import Parameter, Schema, schema_of
from calor_onnx.types import TYPE_NAMES, element_type

# ONNX's names of types, such as ``tensor(float)``, by value name.
Types = dict[str, str]

# Index of the first output of a sub-graph that is an output of its node.
_GIVEN = {"If": 0, "Loop": 1, "Scan": 0}


def _at(parameters: tuple[Parameter, ...], place: int) -> Parameter | None:
    """Return the parameter of an operand; the last one also describes all further operands."""
    return parameters[min(place, len(parameters) - 1)] if parameters else None


def check_types(graph: Graph, functions: Mapping[tuple[str, str], Any]) -> None:
    """Check that ONNX allows the types of all operands.

    Raises
    ------
    TypeConstraintError
        If it does not; the message lists all violations.

    Examples
    --------
    >>> import onnx
    >>> from calor_onnx.constraints import check_types
    >>> from calor_onnx.reading import read
    >>> imported = read(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     odd (int64[N] x) => (int64[N] y) { y = Sin (x) }'''))
    >>> try:
    ...     check_types(imported.graph, imported.functions)
    ... except Exception as error:
    ...     print(str(error).splitlines()[1].partition(",")[0])
      Sin with output y (Sin
    """
    found: list[tuple[str, str, str]] = []
    _walk(graph, {}, functions, found)
    if found:
        raise TypeConstraintError(found)


def _walk(
    graph: Graph,
    around: Types,
    functions: Mapping[tuple[str, str], Any],
    found: list[tuple[str, str, str]],
) -> Types:
    """Return the types of a graph's values; violations are appended to ``found``."""
    types = dict(around)
    for info in graph.inputs:
        types.pop(info.name, None)
        declared = _declared(info)
        if declared is not None:
            types[info.name] = declared
    for name, constant in graph.constants.items():
        types[name] = f"tensor({TYPE_NAMES[element_type(constant.dtype)]})"
    for node in graph.nodes:
        inner = [_walk(g, types, functions, found) for g in node.subgraphs()]
        for name in node.outputs:
            types.pop(name, None)
        if (node.domain, node.op) in functions:
            continue
        schema = schema_of(node)
        if schema is None:
            continue
        bound = _checked(node, schema, types, found)
        _name_outputs(node, schema, types, bound)
        if node.op in _GIVEN and not node.domain:
            _give(node, inner, types)
    return types


def _declared(info: ValueInfo) -> str | None:
    if info.dtype is None or info.kind not in ("tensor", "sequence"):
        return None
    made = f"tensor({TYPE_NAMES[element_type(info.dtype)]})"
    return made if info.kind == "tensor" else f"seq({made})"


def _checked(node: Node, schema: Schema, types: Types, found: list[tuple[str, str, str]]) -> Types:
    """Return the types of the operator's type parameters, by name."""
    bound: dict[str, tuple[str, str]] = {}
    where = f"{node.label} ({node.op}, opset {node.version})"
    for place, name in enumerate(node.inputs):
        parameter = _at(schema.inputs, place)
        known = types.get(name)
        if parameter is None or known is None:
            continue
        wrong = None
        if known not in parameter.allowed:
            wrong = f"{parameter.name} is {known}, not {_listed(parameter.allowed)}"
        elif parameter.variable and parameter.homogeneous:
            first, other = bound.setdefault(parameter.variable, (known, parameter.name))
            if first != known:
                wrong = f"{other} is {first} and {parameter.name} {known}, where they have one type"
        if wrong is not None:
            found.append((node.op, node.label, f"{where}: {wrong}"))
    return {variable: known for variable, (known, _) in bound.items()}


def _listed(allowed: frozenset[str]) -> str:
    names = sorted(allowed)
    if len(names) > 6:
        return f"one of the {len(names)} types that it takes"
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _name_outputs(node: Node, schema: Schema, types: Types, bound: Types) -> None:
    for place, name in enumerate(node.outputs):
        parameter = _at(schema.outputs, place)
        if not name or parameter is None:
            continue
        if len(parameter.allowed) == 1:
            (types[name],) = parameter.allowed
        elif parameter.variable in bound and parameter.homogeneous:
            types[name] = bound[parameter.variable]
        elif node.op == "Cast" and not node.domain and node.attributes.get("to") in TYPE_NAMES:
            types[name] = f"tensor({TYPE_NAMES[node.attributes['to']]})"


def _give(node: Node, inner: list[Types], types: Types) -> None:
    """Name the outputs of sub-graphs if all sub-graphs have the same types."""
    for place, name in enumerate(node.outputs, _GIVEN[node.op]):
        each = {
            known.get(graph.outputs[place].name) if place < len(graph.outputs) else None
            for graph, known in zip(node.subgraphs(), inner, strict=True)
        }
        (only,) = each if len(each) == 1 else (None,)
        if name and only is not None:
            types[name] = only
