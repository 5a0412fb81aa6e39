"""Comparison of a node with ONNX's schema before anything runs.

Requirements: a node with a wrong number of operands or a wrong attribute type is refused by name.
Operators without a schema accept the parameters of their function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor_onnx.constants import Constant
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph, Node
from calor_onnx.schemas import Schema

# The Python types of attribute values; some files have integers where floats are meant.
_TYPES: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "int": (int,),
    "string": (str,),
    "tensor": (np.ndarray, Constant),
    "sparse_tensor": (np.ndarray, Constant),
    "graph": (Graph,),
}
_LISTS: dict[str, tuple[type, ...]] = {
    "floats": (float, int),
    "ints": (int,),
    "strings": (str,),
    "tensors": (np.ndarray,),
    "graphs": (Graph,),
}


def check_node(node: Node, schema: Schema) -> None:
    """Raise ModelError if a node does not fit its operator's schema."""
    operands, results = _count(node.inputs), _count(node.outputs)
    fewest, most, outputs = schema.counts
    if not fewest <= operands <= most:
        to = "" if most == fewest else f" to {most}"
        raise ModelError(f"{node.label}: {node.op} takes {fewest}{to} inputs, not {operands}")
    if results > outputs:
        raise ModelError(f"{node.label}: {node.op} has up to {outputs} outputs, not {results}")
    for name, value in node.attributes.items():
        kind = schema.attributes.get(name)
        if kind is not None and not _fits(value, kind):
            raise ModelError(
                f"{node.label}: the attribute {name!r} of {node.op} is of type {kind}, the file "
                f"has {value!r:.40}"
            )


def _count(names: list[str]) -> int:
    """Return the number of operands up to the last one that is not left out."""
    return max((i for i, name in enumerate(names, 1) if name), default=0)


def _fits(value: Any, kind: str) -> bool:
    if kind in _LISTS:
        # A list has few types, and maybe millions of elements.
        return isinstance(value, list) and all(
            issubclass(made, _LISTS[kind]) for made in set(map(type, value))
        )
    return isinstance(value, _TYPES.get(kind, (object,)))
