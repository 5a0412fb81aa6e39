"""Functions: operators that a model, or ONNX, defines by other operators.

An operator of ONNX without an implementation here is expanded by the body in its schema. A body
that depends on the types of operands is created when they are known. Bodies are created at their
first run, so that a small file cannot expand without bound while it is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor_onnx.call import Call
from calor_onnx.constants import Constant
from calor_onnx.errors import DataDependentError, ModelError
from calor_onnx.graph import Graph, Node, ValueInfo, deciding
from calor_onnx.messages import AttributeProto, FunctionProto
from calor_onnx.reading import Builder, in_order, opsets_of
from calor_onnx.schemas import schema_of
from calor_onnx.tensors import Weights
from calor_onnx.types import element_type
from calor_onnx.values import dtype_of

if TYPE_CHECKING:
    from onnx import NodeProto, TypeProto


def definition_of(node: Node) -> Any:
    """Return the schema of a node's operator by the package onnx, with its body, or None."""
    if schema_of(node) is None:
        return None
    from onnx import defs

    try:
        return defs.get_schema(node.op, node.version, node.domain)
    except (defs.SchemaError, TypeError):
        # The version of a domain may be out of the range of schemas.
        return None


class Expansion:
    """An operator's function that runs the body of an ONNX function."""

    def __init__(self, resolver: Any, function: FunctionProto | None, weights: Weights) -> None:
        self.resolver = resolver
        # None for a body that depends on the operands' types.
        self.function = function
        self.weights = weights

    def __call__(self, call: Call, *inputs: Any, **attributes: Any) -> Any:
        """Run the body with the operands as its inputs."""
        node = call.node
        key = None if self.function is not None else tuple(map(type_key, inputs))
        body = node.bodies.get(key)
        if body is None:
            body = node.bodies[key] = self.body(node, inputs)
        # A body has no access to values of the calling graph.
        try:
            return tuple(call.run.graph(body, inputs))
        except DataDependentError as error:
            inner = deciding(body, error.operands)
            places = [i for i, info in enumerate(body.inputs) if info.name in inner]
            error.operands = tuple(node.inputs[i] for i in places if i < len(node.inputs))
            raise

    def body(self, node: Node, inputs: tuple[Any, ...]) -> Graph:
        """Return the body for a node's attributes."""
        function: Any = self.function or dependent(node, inputs)
        attributes = {item.name: builder_value(item) for item in function.attribute_proto}
        schema = definition_of(node)
        if schema is not None:
            defaults = [(n, a.default_value) for n, a in schema.attributes.items()]
            attributes |= {n: builder_value(a) for n, a in defaults if a.type}
        attributes |= node.attributes
        opsets = opsets_of(function.opset_import, 10) or {node.domain: node.version}
        builder = Builder(opsets, self.weights, attributes)
        constants: dict[str, Constant] = {}
        nodes = builder.nodes(function.node, constants)
        graph = Graph(
            function.name,
            [ValueInfo(name, None, None) for name in function.input],
            [],
            [],
            constants,
        )
        graph.nodes = in_order(nodes, {*constants}, graph.inputs)
        # An optional output without a value in the body is None.
        made = {*constants, *function.input, *(name for n in nodes for name in n.outputs)}
        graph.outputs = [ValueInfo(n if n in made else "", None, None) for n in function.output]
        graph.link()
        if graph.captures:
            raise ModelError(f"the function {function.name!r} uses {graph.captures[0]!r}, which "
                             f"nothing in it defines")  # fmt: skip
        self.resolver.resolve(graph)
        return graph


def builder_value(item: AttributeProto) -> Any:
    """Return the default of an attribute."""
    return Builder({}, Weights(None)).value(item, 0)


def type_key(value: Any) -> Any:
    """Return a hashable key of an operand's type: its element type, or its kind."""
    if isinstance(value, list):
        return ("sequence", *map(type_key, value[:1]))
    return None if value is None else dtype_of(value).name


def type_proto(value: Any) -> TypeProto:
    """Return an operand's type as a message."""
    from onnx import TypeProto

    made = TypeProto()
    if isinstance(value, list):
        made.sequence_type.elem_type.CopyFrom(type_proto(value[0]) if value else TypeProto())
    elif value is not None:
        made.tensor_type.elem_type = element_type(dtype_of(value))
        for size in value.shape:
            made.tensor_type.shape.dim.add().dim_value = size
    return made


def dependent(node: Node, inputs: tuple[Any, ...]) -> Any:
    """Return ONNX's body for a node's attributes and the types of its operands."""
    from onnx import FunctionProto as Body

    schema = definition_of(node)
    message = node_proto(node)
    types = [type_proto(x).SerializeToString() for x in inputs]
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
    made = Body()
    made.ParseFromString(
        schema.get_context_dependent_function_with_opset_version(
            max(versions, default=schema.since_version), message.SerializeToString(), types
        )
    )
    if not made.node:
        raise ModelError(f"{node.label}: ONNX has no body of {node.op} for these operands")
    return made


def node_proto(node: Node) -> NodeProto:
    """Return a node as a message; sub-graphs and tensors are left out."""
    from onnx import helper

    made = helper.make_node(node.op, node.inputs, node.outputs, name=node.name, domain=node.domain)
    for name, value in node.attributes.items():
        if isinstance(value, int | float | str | list) and value != []:
            made.attribute.append(helper.make_attribute(name, value))
    return made
