"""Running a graph on host arrays by the references of its ops: the meaning of sub-graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.errors import UnsupportedError
from calor.graph.decompose import definition
from calor.graph.graph import Graph


def interpret(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a graph for host arrays, op by op."""
    values: list[Any] = [
        np.asarray(x, graph.specs[i].dtype.numpy) for i, x in zip(graph.inputs, inputs, strict=True)
    ]
    values.extend([None] * (len(graph.specs) - len(values)))
    for node in graph.nodes:
        if node.op.reference is None:
            if node.op.decompose is None:
                raise UnsupportedError(f"op {node.op.name!r} has no reference", op=node.op.name)
            specs = tuple(graph.specs[i] for i in node.inputs)
            body = definition(node.op, specs, dict(node.attributes))
            out: Any = tuple(interpret(body, [values[i] for i in node.inputs]))
        else:
            out = node.op.reference(*[values[i] for i in node.inputs], **node.attributes)
        made = out if isinstance(out, tuple) else (out,)
        for number, value in zip(node.outputs, made, strict=True):
            values[number] = np.asarray(value)
    return [values[o] for o in graph.outputs]
