"""A model as tables of text and as a picture."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import calor
from calor import Tensor
from calor_onnx.execution import Run
from calor_onnx.graph import Graph, ValueInfo
from calor_onnx.model import Model


def described(model: Model) -> str:
    """Return tables of a model: metadata, inputs, outputs, operators and size of weights.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    str
        The tables, with lines of aligned columns.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> from calor_onnx.inspecting import described
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> print(described(calor_onnx.load(proto, device="numpy")))
    graph    double
    opsets   ai.onnx 17
    <BLANKLINE>
    input  type     shape
    x      float32  [N]
    <BLANKLINE>
    output  type     shape
    y       float32  [N]
    <BLANKLINE>
    operator  nodes
    Add           1
    <BLANKLINE>
    1 nodes, 0 weights, 0 bytes
    """
    facts = [("graph", str(model.metadata["graph_name"]))]
    made_by = f"{model.metadata['producer_name']} {model.metadata['producer_version']}".strip()
    if made_by:
        facts.append(("made by", made_by))
    opsets = (f"{name or 'ai.onnx'} {number}" for name, number in sorted(model.opsets.items()))
    facts.append(("opsets", ", ".join(opsets)))
    facts += [(key, value) for key, value in model.metadata["custom"].items() if "\n" not in value]
    blocks = ["\n".join(f"{name:<8} {value}".rstrip() for name, value in facts)]
    blocks.append(_table(["input", "type", "shape"], map(_info, model.inputs)))
    blocks.append(_table(["output", "type", "shape"], map(_info, model.outputs)))
    blocks.append(_table(["operator", "nodes"], _operators(model.graph), right={1}))
    constants = _constants(model.graph)
    size = sum(c.size * c.dtype.itemsize for c in constants)
    count = sum(1 for _ in model.graph.walk())
    blocks.append(f"{count} nodes, {len(constants)} weights, {size:,} bytes")
    return "\n\n".join(blocks)


def _constants(graph: Graph) -> list[Any]:
    inner = [g for node in graph.walk() for g in node.subgraphs()]
    return [c for g in (graph, *inner) for c in g.constants.values()]


def _info(info: ValueInfo) -> list[str]:
    kind = info.type_name if info.kind == "tensor" else f"{info.kind} of {info.type_name}"
    shape = "any" if info.shape is None else ", ".join(
        "?" if size is None else str(size) for size in info.shape
    )  # fmt: skip
    return [info.name, kind, shape if info.shape is None else f"[{shape}]"]


def _operators(graph: Graph) -> list[list[str]]:
    counts = collections.Counter(
        f"{node.domain}::{node.op}" if node.domain else node.op for node in graph.walk()
    )
    return [[name, str(count)] for name, count in counts.most_common()]


def _table(head: Sequence[str], rows: Any, right: set[int] | None = None) -> str:
    """Return lines with aligned columns; those in ``right`` are aligned to the right."""
    lines = [list(head), *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            text.rjust(width) if i in (right or ()) else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def compiled(model: Model) -> str:
    """Return whether the last run was compiled as a whole, and if not, the reasons.

    Parameters
    ----------
    model : Model
        A model that has run.

    Returns
    -------
    str
        One line for each reason.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> from calor_onnx.inspecting import compiled
    >>> proto = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N] x) => (float[N] y) { y = Add (x, x) }''')
    >>> model = calor_onnx.load(proto, device="numpy")
    >>> model([1.0]).tolist(), compiled(model)
    ([2.0], 'compiled as a whole')
    """
    return "\n".join([model.reason or "compiled as a whole", *model.remarks])


def graph_of(model: Model, given: Mapping[str, Any]) -> Any:
    """Return calor's graph of a model for given inputs.

    Parameters
    ----------
    model : Model
        The model.
    given : mapping of str
        Inputs by name.

    Returns
    -------
    calor.graph.graph.Graph
        The graph; ``graph.draw(path)`` draws it.
    """
    known = {info.name: info for info in model.graph.inputs}
    names = [name for name in known if name in given]
    graph = model.graph
    constants = {k: c for k, c in graph.constants.items() if k not in given}
    own = Graph(graph.name, [known[n] for n in names], graph.outputs, graph.nodes, constants)
    run = Run(model.device, {}, traced=True)

    def recorded(*values: Any) -> list[Tensor]:
        made = run.graph(own, values)
        return [run.tensor(x, model.device) for x in made]

    with calor.device(model.device), calor.no_grad():
        return calor.trace(recorded, *(calor.asarray(given[n]) for n in names))
