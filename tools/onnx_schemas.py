"""Write the table of ONNX's operators that calor-onnx reads, from the installed package onnx.

    python tools/onnx_schemas.py

The table spares a process that loads a model the import of that package. A test compares both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "plugins" / "onnx" / "src" / "calor_onnx" / "schemas.txt"


def table() -> str:
    """Return the table: opset, sets of types, and a line for each version of an operator."""
    from onnx import defs

    kinds: dict[str, int] = {}
    lines = []
    schemas = defs.get_all_schemas_with_history()
    for schema in sorted(schemas, key=lambda one: (one.domain, one.name, one.since_version)):
        variables = {constraint.type_param_str for constraint in schema.type_constraints}

        def parameters(items: Iterable[Any], variables: set[str] = variables) -> str:
            found = []
            for item in items:
                number = kinds.setdefault(" ".join(sorted(item.types)), len(kinds))
                variable = item.type_str if item.type_str in variables else ""
                mixed = item.option == defs.OpSchema.FormalParameterOption.Variadic
                alike = int(item.is_homogeneous or not mixed)
                found.append(f"{item.name}:{number}:{variable}:{alike}")
            return " ".join(found)

        attributes = " ".join(
            f"{name}:{str(one.type).rpartition('.')[2].lower()}"
            for name, one in sorted(schema.attributes.items())
        )
        counts = schema.min_input, schema.max_input, schema.max_output
        lines.append(
            "\t".join(
                (
                    f"{schema.domain}:{schema.name}",
                    str(schema.since_version),
                    " ".join(map(str, counts)),
                    attributes,
                    parameters(schema.inputs),
                    parameters(schema.outputs),
                )
            )
        )
    return "\n".join([str(defs.onnx_opset_version()), *kinds, "", *lines, ""])


def main() -> int:
    """Write the table."""
    FILE.write_text(table(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
