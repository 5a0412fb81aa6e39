"""The grammar of graphs, as data: what every graph obeys, checked rule by rule.

Requirements: a graph from a file or a network may be hostile, so each rule relies only on those
before it, sizes are bounded before anything is computed from them, and whatever an op's rule raises
for absurd attributes comes out as a GraphError. Nothing is interned or compiled here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from inspect import Signature, signature
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, as_dtype
from calor.errors import DTypeError, GraphError
from calor.graph.attributes import HostArray, Scalar
from calor.graph.graph import Graph, Node
from calor.graph.host_call import HostCall
from calor.graph.op import TABLE
from calor.specs import Spec, spec

NODE_LIMIT: Final = 1 << 20
RANK_LIMIT: Final = 64
BYTES_LIMIT: Final = 1 << 48
DEPTH_LIMIT: Final = 16
LEAVES: Final = (bool, int, float, str, DType, Scalar, HostArray, HostCall, Spec, Graph)

Complaints = Iterator[str]


def verify(graph: Graph) -> None:
    """Raise GraphError that names the broken rule and the node, unless the graph obeys them all.

    Sub-graphs are verified too, each once.
    """
    _verify(graph, 0, {})


def _verify(graph: Graph, depth: int, heights: dict[int, int]) -> int:
    """Verify a graph at a depth; return how deep its own sub-graphs are nested."""
    if depth > DEPTH_LIMIT:
        raise GraphError(f"sub-graphs are nested more than {DEPTH_LIMIT} deep")
    height = heights.get(id(graph))
    if height is None:
        height = 0
        for name, rule in RULES.items():
            for complaint in rule(graph):
                raise GraphError(f"{name}: {complaint}")
            if name == "attributes":
                for node in graph.nodes:
                    for value in node.attributes.values():
                        for body in _graphs(value):
                            height = max(height, 1 + _verify(body, depth + 1, heights))
        heights[id(graph)] = height
    # One that is shared may be met again further down than where it was verified.
    if depth + height > DEPTH_LIMIT:
        raise GraphError(f"sub-graphs are nested more than {DEPTH_LIMIT} deep")
    return height


def _counts(graph: Graph) -> Complaints:
    if len(graph.nodes) > NODE_LIMIT:
        yield f"{len(graph.nodes)} nodes are more than {NODE_LIMIT}"
    made = len(graph.inputs) + sum(len(node.outputs) for node in graph.nodes)
    if made != len(graph.specs):
        yield f"{made} values are made, {len(graph.specs)} have specs"
    for number in graph.host:
        if number not in range(len(graph.inputs)):
            yield f"%{number} is host, but there are {len(graph.inputs)} inputs"


def _sizes(graph: Graph) -> Complaints:
    for number, known in enumerate(graph.specs):
        yield from (f"%{number}: {complaint}" for complaint in spec_complaints(known))


def spec_complaints(known: Spec) -> Complaints:
    """Yield what is wrong with a spec: a negative size, too many axes, too many bytes."""
    if any(type(n) is not int or n < 0 for n in known.shape):
        yield f"shape {known.shape} has a size that is no count"
    elif len(known.shape) > RANK_LIMIT:
        yield f"{len(known.shape)} axes are more than {RANK_LIMIT}"
    elif known.nbytes > BYTES_LIMIT or any(n > BYTES_LIMIT for n in known.shape):
        yield f"{known} is larger than {BYTES_LIMIT} bytes"


def _order(graph: Graph) -> Complaints:
    next_number = len(graph.inputs)
    for node in graph.nodes:
        for number in node.inputs:
            if number not in range(next_number):
                yield f"{node.op.name} reads %{number} before it is made"
        for number in node.outputs:
            if number != next_number:
                yield f"{node.op.name} makes %{number} where %{next_number} is next"
            next_number += 1
    for number in graph.outputs:
        if number not in range(next_number):
            yield f"the graph returns %{number}, which does not exist"


def _ops(graph: Graph) -> Complaints:
    for node in graph.nodes:
        if TABLE.get(node.op.name) is not node.op:
            yield f"op {node.op.name!r} is not the one of the table"
        elif node.op.name == "input":
            yield "op 'input' belongs to traces; a graph lists its inputs"


def _operands(graph: Graph) -> Complaints:
    # Rules of elementwise ops take any number of specs; the meaning tells how many there are.
    for node in graph.nodes:
        meaning = node.op.reference or node.op.decompose
        takes = None if meaning is None else _parameters(meaning)
        if isinstance(takes, int) and takes != len(node.inputs):
            yield f"{node.op.name} takes {takes} operands, not {len(node.inputs)}"
        elif isinstance(takes, Signature):
            try:
                takes.bind(*node.inputs, **node.attributes)
            except TypeError as error:
                yield f"{node.op.name} of {len(node.inputs)} operands: {error}"


@cache
def _parameters(meaning: Callable[..., Any]) -> int | Signature | None:
    """Return what a function takes: a number of operands, a signature, or None if unknown."""
    if isinstance(meaning, np.ufunc):
        return meaning.nin
    try:
        return signature(meaning)
    except ValueError:
        return None


def _attributes(graph: Graph) -> Complaints:
    for node in graph.nodes:
        for name, value in node.attributes.items():
            for leaf in _leaves(value, 0):
                if leaf is not None and type(leaf) not in LEAVES:
                    yield f"{node.op.name}: {name} holds a {type(leaf).__name__}"
                elif type(leaf) is Spec:
                    yield from (f"{node.op.name}: {name}: {c}" for c in spec_complaints(leaf))
                elif type(leaf) in (HostArray, Scalar):
                    yield from (f"{node.op.name}: {name}: {c}" for c in _data_complaints(leaf))


def _data_complaints(data: HostArray | Scalar) -> Complaints:
    try:
        dtype = as_dtype(data.dtype)
    except DTypeError as error:
        yield str(error)
        return
    shape, held = ((), data.bits) if isinstance(data, Scalar) else (data.shape, data.data)
    known = spec(shape, dtype)
    complaints = list(spec_complaints(known))
    yield from complaints
    if not complaints and known.nbytes != len(held):
        yield f"{known} has {known.nbytes} bytes, {len(held)} are there"


def _leaves(value: Any, depth: int) -> Iterator[Any]:
    if depth > DEPTH_LIMIT:
        raise GraphError(f"attributes: tuples are nested more than {DEPTH_LIMIT} deep")
    if type(value) is tuple:
        for item in value:
            yield from _leaves(item, depth + 1)
    else:
        yield value


def _graphs(value: Any) -> Iterator[Graph]:
    return (leaf for leaf in _leaves(value, 0) if type(leaf) is Graph)


def _specs(graph: Graph) -> Complaints:
    for node in graph.nodes:
        operands = tuple(graph.specs[i] for i in node.inputs)
        derived = derive(node, operands)
        stated = tuple(graph.specs[i] for i in node.outputs)
        if [(s.shape, s.dtype) for s in derived] != [(s.shape, s.dtype) for s in stated]:
            yield f"{node.op.name} of {operands} makes {derived}, the graph says {stated}"


def derive(node: Node, operands: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Return the specs of a node's results by its op's rule; GraphError when it refuses."""
    try:
        made = node.op.rule(*operands, **node.attributes)
    except Exception as error:
        raise GraphError(
            f"specs: {node.op.name} of {operands} refuses: {type(error).__name__}: {error}"
        ) from error
    result: tuple[Spec, ...] = made if isinstance(made, tuple) else (made,)
    return result


RULES: Final[dict[str, Callable[[Graph], Complaints]]] = {
    "counts": _counts,
    "sizes": _sizes,
    "order": _order,
    "ops": _ops,
    "attributes": _attributes,
    "operands": _operands,
    "specs": _specs,
}
