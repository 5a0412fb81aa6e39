"""Which public functions of the kernel library take or return Any?

    python testing/public_any.py packages/kernel/src/calor_kernel/library [--names]

A function is public if neither its name, its class nor its module begins with an underscore.
Methods count as functions do; functions within functions do not.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Public:
    """A public function, and whether a type in its signature is Any."""

    module: Path
    name: str
    line: int
    any: bool


def functions(folder: Path) -> Iterator[Public]:
    """Yield the public functions of a folder's modules, whose paths are relative to the folder."""
    for path in sorted(folder.rglob("*.py")):
        module = path.relative_to(folder)
        if not any(part.startswith("_") and part != "__init__.py" for part in module.parts):
            for name, one in _public(ast.parse(path.read_text("utf-8")).body):
                yield Public(module, name, one.lineno, _takes_any(one))


def _public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    for one in body:
        if isinstance(one, ast.If):
            yield from _public(one.body + one.orelse, prefix)
        elif isinstance(one, Function | ast.ClassDef) and not one.name.startswith("_"):
            if isinstance(one, ast.ClassDef):
                yield from _public(one.body, f"{prefix}{one.name}.")
            else:
                yield prefix + one.name, one


def _takes_any(function: Function) -> bool:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    types = [one.annotation for one in every if one is not None] + [function.returns]
    return any(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        or (isinstance(node, ast.Constant) and re.search(r"\bAny\b", str(node.value)))
        for one in types
        if one is not None
        for node in ast.walk(one)
    )


def main() -> None:
    """Print the counts by folder, and the functions where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", action="store_true", help="print the functions that take Any")
    given = parser.parse_args()
    found = list(functions(given.folder))
    whole = Counter(one.module.parts[0] for one in found)
    counts = Counter(one.module.parts[0] for one in found if one.any)
    for part, count in sorted(counts.items()):
        print(f"{part}: {count} of {whole[part]}")
    print(f"{sum(counts.values())} of {len(found)} public functions take or return Any")
    if given.names:
        for one in found:
            if one.any:
                print(f"{given.folder / one.module}:{one.line}: {one.name}")


if __name__ == "__main__":
    main()
