"""Simplification of an imported graph: passes that remove and fuse nodes.

Requirements: the original graph stays unchanged, as does each name that enclosing or nested graphs
use. A pass that cannot infer a type or rank leaves the nodes alone. Passes that change weights run
only if nobody asked for the weights: see ``Model.parameters``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from calor_onnx.graph import Graph, Node
from calor_onnx.passes.attention import attention
from calor_onnx.passes.batch_norm import batch_norm
from calor_onnx.passes.bytes_multiplied import bytes_multiplied
from calor_onnx.passes.dead import dead
from calor_onnx.passes.gelu import gelu
from calor_onnx.passes.identity import identity
from calor_onnx.passes.layer_norm import layer_norm
from calor_onnx.passes.looking import Around, Look
from calor_onnx.passes.quantized_weights import few_bits
from calor_onnx.passes.transposes import transposes
from calor_onnx.passes.weights import weights

Pass = Callable[[Look], bool]
# Passes that keep names and elements of weights, and passes that change weights.
KEEPING: tuple[Pass, ...] = (identity, transposes, gelu, layer_norm, attention)
FOLDING: tuple[Pass, ...] = (weights, batch_norm, bytes_multiplied, few_bits)
# A pass may enable another; this number of rounds is enough for exported models.
ROUNDS = 4


def simplify(
    graph: Graph,
    functions: Collection[tuple[str, str]] = (),
    *,
    fold: bool = True,
    outer: tuple[Around, ...] = (),
) -> Graph:
    """Return a graph with fewer nodes that computes the same; the given graph stays unchanged.

    ``functions`` are the (domain, name) of the model's functions. ``fold`` allows changes of
    weights. ``outer`` are the enclosing graphs, the nearest one last. Constants that a call may
    replace count as constants.

    >>> import onnx
    >>> from calor_onnx.passes import simplify
    >>> from calor_onnx.reading import read
    >>> graph = read(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     f (float[N,M] x) => (float[N,M] y) {
    ...         a = Transpose <perm = [1,0]> (x)
    ...         b = Relu (a)
    ...         y = Transpose <perm = [1,0]> (b)
    ...     }''')).graph
    >>> [node.op for node in simplify(graph).nodes]
    ['Relu']
    """
    made = Graph(
        graph.name, list(graph.inputs), list(graph.outputs), [], dict(graph.constants),
        types=graph.types,
    )  # fmt: skip
    if not outer:
        # Old files list all constants as inputs too; they are constants.
        made.inputs = [info for info in graph.inputs if info.name not in graph.constants]
    around = (*outer, Around(graph))
    made.nodes = [_copied(node, functions, fold, around) for node in graph.nodes]
    made.link()
    for _ in range(ROUNDS):
        changed = False
        for one in (*KEEPING, *(FOLDING * fold)):
            look = Look(made, functions, outer)
            changed |= one(look)
            look.finish()
        dead(made)
        if not changed:
            break
    made.link()
    return made


def _copied(
    node: Node, functions: Collection[tuple[str, str]], fold: bool, outer: tuple[Around, ...]
) -> Node:
    def value(item: Any) -> Any:
        if isinstance(item, Graph):
            return simplify(item, functions, fold=fold, outer=outer)
        return [value(x) for x in item] if isinstance(item, list) else item

    return replace(
        node, inputs=list(node.inputs), outputs=list(node.outputs), bodies={}, known={},
        attributes={name: value(item) for name, item in node.attributes.items()},
    )  # fmt: skip
