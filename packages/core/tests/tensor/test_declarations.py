"""What the class of tensors declares for type checkers is what the modules of methods define."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import calor

CORE = Path(calor.__file__).parent
# Protocols of the interpreter, NumPy and pandas, which no code of a user calls by name.
UNDECLARED = {
    "__array_function__",
    "__array_ufunc__",
    "__buffer__",
    "__copy__",
    "__deepcopy__",
    "__format__",
    "__getattr__",
    "__reduce_ex__",
    "__repr__",
}


def header(function: ast.FunctionDef) -> str:
    """The decorators and the signature; Python's types have their short names."""
    decorators = "".join(f"@{ast.unparse(d)} " for d in function.decorator_list)
    returns = "" if function.returns is None else f" -> {ast.unparse(function.returns)}"
    text = f"{decorators}def {function.name}({ast.unparse(function.args)}){returns}"
    return text.replace("builtins.", "").replace("_ModuleType", "ModuleType")


def headers(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The name and the header of each function, also of those behind a condition or an alias."""
    known: dict[str, ast.FunctionDef] = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            known[statement.name] = statement
            yield statement.name, header(statement)
        elif isinstance(statement, ast.If):
            yield from headers(statement.body)
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
            (target,) = statement.targets
            if statement.value.id in known:
                name = ast.unparse(target)
                yield name, header(known[statement.value.id]).replace(statement.value.id, name, 1)


def classes(path: Path) -> list[ast.ClassDef]:
    tree = ast.parse(path.read_text("utf-8"))
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def declared() -> set[tuple[str, str]]:
    (tensor,) = (c for c in classes(CORE / "tensor/tensor.py") if c.name == "Tensor")
    (block,) = (s for s in tensor.body if isinstance(s, ast.If))
    return set(headers(block.body))


def defined() -> set[tuple[str, str]]:
    found = {
        pair
        for path in (*sorted((CORE / "methods").glob("*.py")), CORE / "__init__.py")
        for theme in classes(path)
        if "with_methods" in "".join(map(ast.unparse, theme.decorator_list))
        for pair in headers(theme.body)
    }
    # The stem of a private method is nobody's interface, unless the class declares it.
    known = {name for name, _ in declared()}
    return {(n, h) for n, h in found if n in known or n.startswith("__") or not n.startswith("_")}


def test_every_method_is_declared_as_it_is_defined() -> None:
    missing = {h for n, h in defined() if n not in UNDECLARED} - {h for _, h in declared()}
    assert not missing, "\n".join(["add to Tensor in tensor/tensor.py:", *sorted(missing)])


def test_nothing_else_is_declared() -> None:
    left = {h for _, h in declared()} - {h for _, h in defined()}
    assert not left, "\n".join(["no module of calor.methods defines:", *sorted(left)])
