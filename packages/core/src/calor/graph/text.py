"""Graphs as readable text: one node a line, with specs."""

from __future__ import annotations

from typing import Any

from calor.graph.graph import Graph


def graph_text(graph: Graph, indent: str = "") -> str:
    """Return the text of a graph; the sub-graphs of control flow are indented below their node."""
    inputs = ", ".join(
        f"%{i}: {graph.specs[i]}{' host' if i in graph.host else ''}" for i in graph.inputs
    )
    lines = [f"{indent}graph({inputs}) {{"]
    for node in graph.nodes:
        outputs = ", ".join(f"%{o}: {graph.specs[o]}" for o in node.outputs)
        operands = ", ".join(f"%{i}" for i in node.inputs)
        plain = {k: v for k, v in node.attributes.items() if not isinstance(v, Graph)}
        subgraphs = {k: v for k, v in node.attributes.items() if isinstance(v, Graph)}
        attributes = "".join(f", {k}={_attribute(v)}" for k, v in plain.items())
        call = (operands + attributes).removeprefix(", ")
        lines.append(f"{indent}  {outputs} = {node.op.name}({call})")
        for name, body in subgraphs.items():
            lines.append(f"{indent}    {name}:")
            lines.append(graph_text(body, indent + "      "))
    lines.append(f"{indent}  return {', '.join(f'%{o}' for o in graph.outputs)}")
    lines.append(f"{indent}}}")
    return "\n".join(lines)


def _attribute(value: Any) -> str:
    return str(value)
