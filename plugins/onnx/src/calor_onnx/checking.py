"""Comparison of a node with ONNX's schema before anything runs.

Requirements: a node with a wrong number of operands or a wrong attribute type is refused by name.
Operators without a schema accept the parameters of their function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TypeProto, defs

from calor_onnx.constants import Constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph, Node

_KIND = defs.OpSchema.AttrType
# The Python types of attribute values; some files have integers where floats are meant.
_TYPES: dict[Any, tuple[type, ...]] = {
    _KIND.FLOAT: (float, int),
    _KIND.INT: (int,),
    _KIND.STRING: (str,),
    _KIND.TENSOR: (np.ndarray, Constant),
    _KIND.SPARSE_TENSOR: (np.ndarray, Constant),
    _KIND.GRAPH: (Graph,),
    _KIND.TYPE_PROTO: (TypeProto,),
}
_LISTS: dict[Any, tuple[type, ...]] = {
    _KIND.FLOATS: (float, int),
    _KIND.INTS: (int,),
    _KIND.STRINGS: (str,),
    _KIND.TENSORS: (np.ndarray,),
    _KIND.GRAPHS: (Graph,),
}


def check_node(node: Node, schema: Any) -> None:
    """Raise ModelError if a node does not fit its operator's schema."""
    operands, results = _count(node.inputs), _count(node.outputs)
    if not schema.min_input <= operands <= schema.max_input:
        most = "" if schema.max_input == schema.min_input else f" to {schema.max_input}"
        raise ModelError(
            f"{node.label}: {node.op} takes {schema.min_input}{most} inputs, not {operands}"
        )
    if results > schema.max_output:
        raise ModelError(
            f"{node.label}: {node.op} has up to {schema.max_output} outputs, not {results}"
        )
    for name, value in node.attributes.items():
        known = schema.attributes.get(name)
        if known is not None and not _fits(value, known.type):
            kind = str(known.type).rpartition(".")[2].lower()
            raise ModelError(
                f"{node.label}: the attribute {name!r} of {node.op} is of type {kind}, the file "
                f"has {value!r:.40}"
            )


def _count(names: list[str]) -> int:
    """Return the number of operands up to the last one that is not left out."""
    return max((i for i, name in enumerate(names, 1) if name), default=0)


def _fits(value: Any, kind: Any) -> bool:
    if kind in _LISTS:
        return isinstance(value, list) and all(isinstance(x, _LISTS[kind]) for x in value)
    return isinstance(value, _TYPES.get(kind, (object,)))
