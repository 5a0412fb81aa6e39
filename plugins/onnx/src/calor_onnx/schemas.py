"""ONNX's definitions of operators: how many operands, which types, which attributes.

``schemas.txt`` holds what the package onnx knows of all versions of all operators, as
``tools/onnx_schemas.py`` writes it, so that loading a model does not import that package. Newer
operators are asked of the package itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from calor_onnx.graph import Node


@dataclass(frozen=True, slots=True)
class Parameter:
    """One operand or result of an operator: its types, and the name of a shared type parameter."""

    name: str
    allowed: frozenset[str]
    variable: str
    homogeneous: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """An operator from one opset on.

    ``counts`` are the fewest and the most inputs, and the most outputs; ``attributes`` are the
    kinds of attributes by name, such as ``ints``.
    """

    since: int
    counts: tuple[int, int, int]
    attributes: dict[str, str]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]


class _Table:
    """The lines of the table by operator; a line is read when it is asked for."""

    def __init__(self, text: str) -> None:
        head, _, rest = text.partition("\n\n")
        opset, *kinds = head.splitlines()
        self.opset = int(opset)
        self._kinds = kinds
        self._lines: dict[str, list[str]] = {}
        for line in rest.splitlines():
            self._lines.setdefault(line[: line.index("\t")], []).append(line)
        self._types: dict[str, frozenset[str]] = {}

    def find(self, op: str, domain: str, version: int) -> Schema | None:
        """Return the newest schema up to a version, or None."""
        found = None
        for line in self._lines.get(f"{domain}:{op}", ()):
            _, since, counts, attributes, inputs, outputs = line.split("\t")
            if int(since) <= version:
                found = since, counts, attributes, inputs, outputs
        if found is None:
            return None
        since, counts, attributes, inputs, outputs = found
        least, most, results = map(int, counts.split())
        return Schema(
            int(since),
            (least, most, results),
            dict(pair.split(":") for pair in attributes.split()),
            self._parameters(inputs),
            self._parameters(outputs),
        )

    def _parameters(self, text: str) -> tuple[Parameter, ...]:
        made = []
        for item in text.split():
            name, kind, variable, alike = item.split(":")
            if kind not in self._types:
                self._types[kind] = frozenset(self._kinds[int(kind)].split())
            made.append(Parameter(name, self._types[kind], variable, alike == "1"))
        return tuple(made)


@cache
def _table() -> _Table:
    return _Table(Path(__file__).with_name("schemas.txt").read_text("utf-8"))


def newest_opset(needed: int = 0) -> int:
    """Return the newest opset of ONNX that is known.

    The package onnx may know newer ones than the table; it is asked if the table does not know the
    opset that is needed.
    """
    known = _table().opset
    if needed <= known:
        return known
    from onnx import defs

    return max(known, defs.onnx_opset_version())


def schema_of(node: Node) -> Schema | None:
    """Return ONNX's schema of a node's operator, or None."""
    return _schema(node.op, node.domain, node.version)


@lru_cache(maxsize=2048)
def _schema(op: str, domain: str, version: int) -> Schema | None:
    if domain or version <= _table().opset:
        return _table().find(op, domain, version)
    from onnx import defs

    try:
        return _converted(defs.get_schema(op, version, domain))
    except (defs.SchemaError, TypeError):
        # The version of a domain may be out of the range of schemas.
        return None


def _converted(schema: Any) -> Schema:
    """Return a schema of the package onnx as one of this module."""
    from onnx import defs

    variables = {constraint.type_param_str for constraint in schema.type_constraints}

    def parameters(items: Iterable[Any]) -> tuple[Parameter, ...]:
        mixed = defs.OpSchema.FormalParameterOption.Variadic
        return tuple(
            Parameter(
                item.name,
                frozenset(item.types),
                item.type_str if item.type_str in variables else "",
                bool(item.is_homogeneous or item.option != mixed),
            )
            for item in items
        )

    return Schema(
        schema.since_version,
        (schema.min_input, schema.max_input, schema.max_output),
        {n: str(a.type).rpartition(".")[2].lower() for n, a in schema.attributes.items()},
        parameters(schema.inputs),
        parameters(schema.outputs),
    )
