"""Conversion of a path, bytes or a ModelProto to a graph.

Requirements: the file is memory-mapped and its weights stay there. Nothing of the model runs. A
violation of ONNX's rules is a ModelError that names the place.
"""

from __future__ import annotations

import heapq
import mmap
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calor_onnx.constants import Constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.limits import bounded
from calor_onnx.messages import (
    AttributeProto,
    Damaged,
    Dimension,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TypeProto,
    ValueInfoProto,
)
from calor_onnx.schemas import newest_opset
from calor_onnx.tensors import Weights, address
from calor_onnx.types import numpy_type

# Or a ModelProto of the package onnx.
Source = Any
# Limit of the nesting of graphs; deeper ones are attempts to exhaust the stack.
DEPTH = 50


@dataclass(eq=False, slots=True)
class Imported:
    """The contents of a file: graph, functions by (domain, name), opsets and metadata.

    ``proto`` is the model without nodes and weights, with its declared inputs and outputs.
    """

    graph: Graph
    functions: dict[tuple[str, str], FunctionProto]
    opsets: dict[str, int]
    weights: Weights
    proto: ModelProto
    metadata: dict[str, Any] = field(default_factory=dict)


def read(source: Source, files: Mapping[str, Any] | None = None) -> Imported:
    """Read a model.

    ``files`` has contents of files of weights, by their names in the model.

    Raises
    ------
    ModelError
        If the bytes are not a model, or it breaks a rule of ONNX.
    """
    held = {name: memoryview(data).cast("B") for name, data in (files or {}).items()}
    if is_proto(source):
        return _imported(source, Weights(None, files=held))
    folder = path = None
    if isinstance(source, bytes | bytearray | memoryview):
        data = memoryview(source).cast("B")
    else:
        path = Path(source)
        folder = path.parent
        with path.open("rb") as file:
            if not path.stat().st_size:
                raise ModelError(f"{path} is empty")
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        proto = ModelProto.parsed(data)
    except Damaged as error:
        what = "the bytes are" if path is None else f"{path} is"
        raise ModelError(f"{what} no ONNX model, or cut short ({error})") from None
    start = address(data) if path is not None else 0
    return _imported(proto, Weights(folder, path, start, held))


def is_proto(source: Any) -> bool:
    """Return whether a value is a model as a message of the package onnx."""
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)


def opsets_of(imports: Any, ir_version: int) -> dict[str, int]:
    """Return the opset of each domain that a model or function imports."""
    found = {"" if item.domain == "ai.onnx" else item.domain: item.version for item in imports}
    if ir_version < 3:
        found.setdefault("", 1)
    return found


def _imported(proto: ModelProto, weights: Weights) -> Imported:
    if not proto.HasField("graph"):
        raise ModelError("the model has no graph; is it an ONNX file?")
    opsets = opsets_of(proto.opset_import, proto.ir_version)
    newest = newest_opset(opsets.get("", 1))
    if not 1 <= opsets.get("", 1) <= newest:
        raise ModelError(
            f"the model has the opset {opsets['']}, and this version knows 1 to {newest}; export "
            f"the model with an older opset, or upgrade onnx and calor-onnx"
        )
    _texts((n for f in proto.functions for n in (f.domain, f.name, *f.input, *f.output)),
           "a function")  # fmt: skip
    functions = {(_domain(f.domain), f.name): _copied(f) for f in proto.functions}
    graph = Builder(opsets, weights).graph(proto.graph)
    graph.link()
    if graph.captures:
        raise ModelError(
            f"the graph uses {', '.join(map(repr, graph.captures[:5]))}, which no node, input or "
            f"constant defines; export the model again"
        )
    metadata = {
        "producer_name": proto.producer_name,
        "producer_version": proto.producer_version,
        "domain": proto.domain,
        "description": proto.doc_string,
        "version": proto.model_version,
        "graph_name": proto.graph.name,
        "graph_description": proto.graph.doc_string,
        "ir_version": proto.ir_version,
        "custom": {entry.key: entry.value for entry in proto.metadata_props},
    }
    return Imported(graph, functions, opsets, weights, _declared(proto), metadata)


def _copied(function: Any) -> FunctionProto:
    """Return a function that keeps no other part of the model in memory."""
    if isinstance(function, FunctionProto):
        return function
    return FunctionProto.parsed(function.SerializeToString())


def _declared(proto: Any) -> ModelProto:
    """Return a model with only its inputs and outputs, so that the rest can be freed."""
    if not isinstance(proto, ModelProto):
        small = type(proto)()
        small.graph.input.extend(proto.graph.input)
        small.graph.output.extend(proto.graph.output)
        return ModelProto.parsed(small.SerializeToString())
    graph = GraphProto.of(input=proto.graph.input, output=proto.graph.output)
    return ModelProto.of(graph=graph)


def _texts(names: Iterable[Any], where: str) -> list[str]:
    """Return names; protobuf returns names that are not UTF-8 as bytes, which are refused."""
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise ModelError(f"{where} has a name that is not UTF-8: {name!r:.40}")
    return found


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


class Builder:
    """Builds graphs and nodes from their messages.

    ``attributes`` are the values for references to a function's attributes.
    """

    def __init__(
        self,
        opsets: dict[str, int],
        weights: Weights,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.opsets = opsets
        self.weights = weights
        self.attributes = attributes

    def graph(self, proto: GraphProto, depth: int = 0) -> Graph:
        """Return a graph with its nodes in execution order."""
        if depth > DEPTH:
            raise ModelError(f"graphs are nested more than {DEPTH} deep")
        _texts(
            (v.name for v in (*proto.input, *proto.output, *proto.value_info)), "an input or output"
        )
        names = _texts((t.name for t in proto.initializer), "a constant")
        constants = {
            name: self.weights.constant(t) for name, t in zip(names, proto.initializer, strict=True)
        }
        if len(constants) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ModelError(f"two constants have the name {twice!r}")
        for sparse in proto.sparse_initializer:
            constants[sparse.values.name] = self.sparse(sparse)
        inputs = [value_info(v) for v in proto.input]
        nodes = self.nodes(proto.node, constants, depth)
        return Graph(
            proto.name,
            inputs,
            [value_info(v) for v in proto.output],
            in_order(nodes, {*constants}, inputs),
            constants,
            types={v.name: value_info(v) for v in proto.value_info},
        )

    def nodes(
        self, protos: Iterable[NodeProto], constants: dict[str, Constant], depth: int = 0
    ) -> list[Node]:
        """Return the nodes; Constant nodes are added to the constants instead."""
        made = []
        for item in protos:
            node = self.node(item, depth)
            if node.op == "Constant" and not node.domain and len(node.outputs) == 1:
                constants[node.outputs[0]] = constant_of(node)
            else:
                made.append(node)
        return made

    def node(self, proto: NodeProto, depth: int = 0) -> Node:
        """Return a node with its attributes as Python values."""
        names = (proto.op_type, proto.domain, proto.name, *proto.input, *proto.output)
        _texts((*names, *(item.name for item in proto.attribute)), f"a node {proto.op_type!r}")
        domain = _domain(proto.domain)
        attributes = {}
        for item in proto.attribute:
            if item.ref_attr_name:
                value = (self.attributes or {}).get(item.ref_attr_name)
            else:
                value = self.value(item, depth)
            if isinstance(value, Constant) and proto.op_type != "Constant":
                value = np.array(value.array())
            if value is not None:
                attributes[item.name] = value
        version = self.opsets.get(domain)
        if version is None:
            # Some files do not import ONNX Runtime's domain, or those of the model's functions.
            version = 1 if domain else max(self.opsets.values(), default=1)
        return Node(
            proto.op_type,
            domain,
            version,
            proto.name,
            list(proto.input),
            list(proto.output),
            attributes,
        )

    def value(self, item: AttributeProto, depth: int) -> Any:
        """Return the value of an attribute: number, text, list, host array, Constant or Graph."""
        kind = item.type
        if kind == AttributeProto.FLOAT:
            return item.f
        if kind == AttributeProto.INT:
            return item.i
        if kind == AttributeProto.STRING:
            return item.s.decode("utf-8", "surrogateescape")
        if kind == AttributeProto.TENSOR:
            return self.weights.constant(item.t)
        if kind == AttributeProto.GRAPH:
            return self.graph(item.g, depth + 1)
        if kind == AttributeProto.FLOATS:
            return list(item.floats)
        if kind == AttributeProto.INTS:
            return list(item.ints)
        if kind == AttributeProto.STRINGS:
            return [s.decode("utf-8", "surrogateescape") for s in item.strings]
        if kind == AttributeProto.TENSORS:
            return [np.array(self.weights.constant(t).array()) for t in item.tensors]
        if kind == AttributeProto.GRAPHS:
            return [self.graph(g, depth + 1) for g in item.graphs]
        if kind == AttributeProto.SPARSE_TENSOR:
            return self.sparse(item.sparse_tensor)
        if kind == AttributeProto.TYPE_PROTO:
            return item.tp
        raise ModelError(f"the attribute {item.name!r} has the type {kind}, which ONNX lacks")

    def sparse(self, proto: SparseTensorProto) -> Constant:
        """Return a sparse tensor as a dense constant."""
        values = self.weights.constant(proto.values).array()
        places = self.weights.constant(proto.indices, "indices").array()
        if any(n < 0 for n in proto.dims):
            raise ModelError(f"the sparse tensor {proto.values.name!r} has a negative size")
        bounded(proto.dims, values.itemsize, f"the sparse tensor {proto.values.name!r}")
        dense = np.zeros(tuple(proto.dims), values.dtype)
        try:
            if places.ndim == 1:
                dense.reshape(-1)[places] = values
            else:
                dense[tuple(places.T)] = values
        except (IndexError, ValueError) as error:
            raise ModelError(f"the sparse tensor {proto.values.name!r}: {error}") from None
        return Constant.of(dense)


def constant_of(node: Node) -> Constant:
    """Return the value of a Constant node."""
    if len(node.attributes) != 1:
        raise ModelError(f"{node.label} must have one attribute, not {[*node.attributes]}")
    ((name, value),) = node.attributes.items()
    if isinstance(value, Constant):
        return value
    kinds: dict[str, Any] = {"float": np.float32, "int": np.int64, "string": np.object_}
    kind = kinds.get(name.removeprefix("value_").removesuffix("s"))
    if kind is None:
        raise ModelError(f"{node.label} has the attribute {name!r}, which Constant does not take")
    try:
        return Constant.of(np.array(value, kind))
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{node.label}: the attribute {name!r} has {value!r:.40}, which is not of its type"
        ) from None


def value_info(proto: ValueInfoProto) -> ValueInfo:
    """Return name, type and shape of an input or output."""
    dtype, shape, kind = described(proto.type, proto.name)
    return ValueInfo(proto.name, dtype, shape, kind)


def described(proto: TypeProto, name: str) -> tuple[Any, Any, str]:
    """Return element type, shape and kind of a type; for a sequence those of its elements."""
    which = proto.WhichOneof("value")
    if which == "sequence_type":
        dtype, shape, _ = described(proto.sequence_type.elem_type, name)
        return dtype, shape, "sequence"
    if which == "optional_type":
        dtype, shape, inner = described(proto.optional_type.elem_type, name)
        return dtype, shape, "optional" if inner == "tensor" else f"optional {inner}"
    if which != "tensor_type":
        return None, None, "map" if which == "map_type" else "tensor"
    tensor = proto.tensor_type
    dtype = numpy_type(tensor.elem_type, name) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return dtype, None, "tensor"
    return dtype, tuple(map(size_of, tensor.shape.dim)), "tensor"


def size_of(dim: Dimension) -> int | str | None:
    """Return the size of an axis, its name, or None if it is unknown.

    Exporters write a negative size for an axis of any size, as ONNX Runtime reads it.
    """
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None


def in_order(nodes: list[Node], known: set[str], inputs: list[ValueInfo]) -> list[Node]:
    """Return the nodes in execution order; some exporters do not write them so.

    Raises
    ------
    ModelError
        If nodes depend on each other in a circle.
    """
    made = known | {info.name for info in inputs} | {""}
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in makers or name in made:
                raise ModelError(
                    f"{node.label} defines {name!r}, which another node, an input or a constant "
                    f"defines too"
                )
            makers[name] = place
    reads = [{makers[n] for n in _reads(node) if n in makers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, sources in enumerate(reads):
        for source in sources:
            readers[source].append(place)
    missing = [len(sources) for sources in reads]
    # The next node is the first runnable one in the file, so an ordered file keeps its order.
    ready = [place for place, count in enumerate(missing) if not count]
    ordered: list[Node] = []
    while ready:
        place = heapq.heappop(ready)
        ordered.append(nodes[place])
        for reader in readers[place]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    if len(ordered) < len(nodes):
        stuck = next(node for node, count in zip(nodes, missing, strict=True) if count)
        raise ModelError(f"{stuck.label} is in a circle of nodes that depend on each other")
    return ordered


def _reads(node: Node) -> list[str]:
    for inner in node.subgraphs():
        inner.link()
    return [*node.inputs, *(name for inner in node.subgraphs() for name in inner.captures)]
