"""Inputs, outputs and metadata of a model, in ONNX Runtime's terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calor_onnx.messages import TypeProto, ValueInfoProto
from calor_onnx.reading import size_of
from calor_onnx.types import TYPE_NAMES


@dataclass(frozen=True, slots=True)
class NodeArg:
    """Description of an input or output.

    Parameters
    ----------
    name : str
        The name.
    type : str
        The type, such as ``tensor(float)``.
    shape : list
        The sizes: a number, the name of a symbol, or None for an unknown size.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> session = calor_onnx.InferenceSession(proto.SerializeToString())
    >>> print(session.get_inputs()[0])
    NodeArg(name='x', type='tensor(float)', shape=['N'])
    """

    name: str
    type: str
    shape: list[Any]

    @classmethod
    def of(cls, proto: ValueInfoProto) -> NodeArg:
        """Return the description of a declared input or output.

        Parameters
        ----------
        proto : onnx.ValueInfoProto
            The declaration.

        Returns
        -------
        NodeArg
            The description.
        """
        sizes: list[Any] = []
        if proto.type.WhichOneof("value") == "tensor_type":
            sizes += map(size_of, proto.type.tensor_type.shape.dim)
        return cls(proto.name, type_text(proto.type), sizes)

    def __str__(self) -> str:
        return f"NodeArg(name='{self.name}', type='{self.type}', shape={self.shape})"


def type_text(proto: TypeProto) -> str:
    """Return a type in ONNX Runtime's notation.

    Examples
    --------
    >>> import onnx
    >>> from calor_onnx.session.described import type_text
    >>> type_text(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [1]))
    'tensor(float)'
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return f"tensor({TYPE_NAMES.get(proto.tensor_type.elem_type, 'undefined')})"
    if kind == "sparse_tensor_type":
        return f"sparse_tensor({TYPE_NAMES.get(proto.sparse_tensor_type.elem_type, 'undefined')})"
    if kind == "sequence_type":
        return f"seq({type_text(proto.sequence_type.elem_type)})"
    if kind == "optional_type":
        return f"optional({type_text(proto.optional_type.elem_type)})"
    if kind == "map_type":
        key = TYPE_NAMES[proto.map_type.key_type]
        return f"map({key},{type_text(proto.map_type.value_type)})"
    return "undefined"


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Metadata of a model's file.

    Parameters
    ----------
    producer_name : str
        Program that wrote the model.
    graph_name : str
        Name of the graph.
    domain : str
        Namespace of the model, in reverse DNS form.
    description : str
        Text about the model.
    graph_description : str
        Text about the graph.
    version : int
        Version of the model.
    custom_metadata_map : dict of str
        Custom entries.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> session = calor_onnx.InferenceSession(proto.SerializeToString())
    >>> session.get_modelmeta().graph_name
    'double'
    """

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: dict[str, Any]) -> ModelMetadata:
        """Return the metadata of a calor model in ONNX Runtime's form.

        Parameters
        ----------
        metadata : dict
            `Model.metadata`.

        Returns
        -------
        ModelMetadata
            The metadata.
        """
        return cls(
            producer_name=metadata["producer_name"],
            graph_name=metadata["graph_name"],
            domain=metadata["domain"],
            description=metadata["description"],
            graph_description=metadata["graph_description"],
            version=metadata["version"],
            custom_metadata_map=dict(metadata["custom"]),
        )
