"""The text and colour of a node in a drawing: its op family, its lines, its sub-graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from calor.graph.graph import Graph, Node
from calor.ops.base import Op, Scalar

# Family to (fill, stroke). The fills also differ in lightness, for colour-blind readers.
COLOURS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "elementwise": ("#dbeafe", "#3b6fb6"),
        "movement": ("#f1f1f1", "#7a7a7a"),
        "reduction": ("#fde5c4", "#b7791f"),
        "contraction": ("#f9c6c6", "#b03a3a"),
        "indexing": ("#e2d9f7", "#6f51b5"),
        "composite": ("#cfeed8", "#2f8550"),
        "control": ("#fff9d6", "#998a1a"),
        "source": ("#ffffff", "#7a7a7a"),
        "decomposition": ("#cdeef0", "#24808a"),
        "other": ("#ffffff", "#3a3a3a"),
    }
)

_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: family
        for family, names in {
            "elementwise": "cast bitcast random_bits",
            "movement": "reshape permute expand slice pad flip concat dynamic_slice "
            "dynamic_update_slice barrier",
            "reduction": "sum prod max min argmax argmin any all cumsum cumprod cummax cummin",
            "contraction": "dot_general conv conv_input_gradient conv_weight_gradient "
            "window_reduce window_gradient window_pick",
            "indexing": "gather gather_nd take_along scatter_nd scatter_along sort",
            "control": "cond while_loop scan callback ordered_callback",
            "source": "full iota constant",
            "decomposition": "fft cholesky qr svd eigh lu",
        }.items()
        for name in names.split()
    }
)

LINE_LIMIT: Final = 30
LINES_LIMIT: Final = 4
NOTE_LIMIT: Final = 600


def family(op: Op) -> str:
    """Return the family of an op, a key of COLOURS; "other" for an unknown op."""
    found = _FAMILIES.get(op.name)
    if found is not None:
        return found
    if op.promotion != "none":
        return "elementwise"
    return "composite" if op.decompose is not None else "other"


def lines(graph: Graph, node: Node) -> list[str]:
    """Return the lines below the op's name, shortened: the specs of results, then attributes."""
    made = [f"%{o} {graph.specs[o]}" for o in node.outputs]
    if len(made) > LINES_LIMIT:
        made[LINES_LIMIT - 1 :] = [f"… {len(made) - LINES_LIMIT + 1} more"]
    return [_short(line, LINE_LIMIT) for line in made] + _attribute_lines(node)


def _attribute_lines(node: Node) -> list[str]:
    texts = [
        _short(f"{name}={_text(value)}", LINE_LIMIT)
        for name, value in node.attributes.items()
        # The result's spec has shape and dtype already; attributes that are off or empty are noise.
        if name not in ("shape", "dtype") and _tells(value)
    ]
    found: list[str] = []
    for text in texts:
        if found and len(found[-1]) + len(text) + 2 <= LINE_LIMIT:
            found[-1] += f", {text}"
        else:
            found.append(text)
    if len(found) > LINES_LIMIT:
        found[LINES_LIMIT - 1 :] = ["…"]
    return found


def _tells(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_tells(v) for v in value)
    return value is not None and value is not False and not isinstance(value, Graph)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(_text(v) for v in value[:LINE_LIMIT])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Scalar):
        value = value.number
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def note(graph: Graph, node: Node) -> str:
    """Return the node as one line in the form of :meth:`Graph.text`, for a tooltip."""
    operands = [f"%{i}" for i in node.inputs]
    attributes = [
        f"{name}={'graph' if isinstance(value, Graph) else value}"
        for name, value in node.attributes.items()
    ]
    outputs = ", ".join(f"%{o}: {graph.specs[o]}" for o in node.outputs)
    return _short(f"{outputs} = {node.op.name}({', '.join(operands + attributes)})", NOTE_LIMIT)


def bodies(node: Node) -> list[tuple[str, Graph]]:
    """Return the sub-graphs of a node, each with the name of its attribute."""
    return [pair for name, value in node.attributes.items() for pair in _graphs(name, value)]


def _graphs(name: str, value: Any) -> Iterator[tuple[str, Graph]]:
    if isinstance(value, Graph):
        yield name, value
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _graphs(f"{name}[{i}]", item)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
