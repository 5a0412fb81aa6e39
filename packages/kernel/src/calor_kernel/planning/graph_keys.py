"""Keys that are equal for equal graphs in every process, and differ where anything else does.

Requirements: a key is a digest of plain data by type and bits; a part without a persistent text is
an error. It takes ten microseconds a node, because a warm start makes one of each large graph.
"""

from __future__ import annotations

import hashlib
from functools import cache
from marshal import dumps
from pathlib import Path
from typing import Any, Final

from calor.dtypes import DType
from calor.graph.attributes import HostArray, Scalar
from calor.graph.graph import Graph
from calor.specs import Spec
from calor_kernel.device.images import describe, module_digest

# Types that marshal writes exactly, by type and bits.
_PLAIN: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))
_MARSHAL: Final = 2  # without references, so that equal values are equal bytes


def graph_key(graph: Graph, beside: str) -> str:
    """Return the key of a graph and of a text beside it.

    Raises
    ------
    KernelTypeError
        If an attribute has no persistent text.
    ValueError
        If an attribute nests too deeply.
    """
    owners = sorted({node.op.rule.__module__.partition(".")[0] for node in graph.nodes})
    digests = [f"{owner} {module_digest(owner)}" for owner in owners]
    text = "\n".join((beside, *digests)).encode()
    return hashlib.sha256(text + dumps(_plain(graph), _MARSHAL)).hexdigest()


@cache
def file_digest(path: Path) -> str:
    """Return a digest of a source file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _plain(graph: Graph) -> Any:
    """Return a graph as plain data, equal for graphs that are equal in every process."""
    specs: dict[Spec, int] = {}
    numbers = [specs.setdefault(known, len(specs)) for known in graph.specs]
    nodes = [
        (node.op.name, node.inputs, len(node.outputs), [*map(_value, _items(node.attributes))])
        for node in graph.nodes
    ]
    kinds = [(s.dtype.name, s.shape, s.weak) for s in specs]
    return kinds, numbers, nodes, sorted(graph.host), graph.outputs, len(graph.inputs)


def _items(attributes: Any) -> Any:
    return [part for name in sorted(attributes) for part in (name, attributes[name])]


def _value(value: Any) -> Any:
    """Return an attribute as plain data: lists are other types, by their name."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple(map(_value, value))
    if kind is DType:
        return ["dtype", value.name]
    if kind is Scalar:
        return ["scalar", value.dtype, value.bits]
    if kind is HostArray:
        return ["array", value.dtype, value.shape, hashlib.sha256(value.data).digest()]
    if kind is Spec:
        return ["spec", value.dtype.name, value.shape, value.weak]
    if kind is Graph:
        return ["graph", _plain(value)]
    return ["other", describe(value)]
