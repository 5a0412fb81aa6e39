"""The names that a piece of a kernel's syntax tree assigns and reads, and its exits.

A loop or a branch becomes a function of the names that it assigns, so these must be exact.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

Function = ast.FunctionDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def parameters(arguments: ast.arguments) -> frozenset[str]:
    """Return the names of a function's parameters."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return frozenset(a.arg for a in every)


def stored(target: ast.AST) -> frozenset[str]:
    """Return the names that a target assigns."""
    return frozenset(n.id for n in ast.walk(target) if isinstance(n, ast.Name) and _stores(n))


def assigned(body: Iterable[ast.AST], elements: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the names that statements assign, without those local to functions.

    ``elements``: names that also count as assigned if one of their elements is.
    """
    found: set[str] = set()
    for node in _walk(body):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and _stores(node):
            found.add(node.id)
        elif isinstance(node, ast.Subscript) and _stores(node):
            root: ast.AST = node
            while isinstance(root, ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id in elements:
                found.add(root.id)
    return frozenset(found)


def leaves(body: Iterable[ast.stmt]) -> bool:
    """Return whether statements return, or break or continue an enclosing loop."""

    def look(node: ast.AST, inside: bool) -> bool:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            return False
        if isinstance(node, ast.Return):
            return True
        if isinstance(node, ast.Break | ast.Continue):
            return not inside
        inside = inside or isinstance(node, ast.For | ast.While)
        return any(look(child, inside) for child in ast.iter_child_nodes(node))

    return any(look(s, False) for s in body)


def endless(loop: ast.While) -> bool:
    """Return whether a loop with a constantly true condition is never left."""
    return isinstance(loop.test, ast.Constant) and bool(loop.test.value) and not leaves(loop.body)


def stale(function: ast.FunctionDef) -> Iterator[tuple[ast.stmt, str, str]]:
    """Yield (statement, function, name) where a statement uses a function defined outside of it
    that reads a name which the statement assigns.
    """
    inner = dict(_functions(function.body))
    if not inner:
        return
    for statement in _walk(function.body):
        if not isinstance(statement, ast.If | ast.For | ast.While | ast.With):
            continue
        inside = list(ast.walk(statement))
        changed = assigned([statement])
        for name in sorted({n.id for n in inside if _reads(n)} & set(inner)):
            found = sorted(_free(name, inner) & changed - {name})
            if found and inner[name] not in inside:
                yield statement, name, found[0]


def _stores(node: ast.Name | ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Store)


def _reads(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _walk(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of statements, except inside functions and comprehensions."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, *_COMPREHENSIONS)):
            yield from _walk(ast.iter_child_nodes(node))


def _functions(body: Iterable[ast.AST]) -> Iterator[tuple[str, Function]]:
    """Yield the functions that statements define, with their names."""
    for node in _walk(body):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                for name in stored(target):
                    yield name, node.value


def _free(name: str, functions: dict[str, Function]) -> set[str]:
    """Return the names that a function and its callees read and do not assign."""
    found: set[str] = set()
    todo, seen = [name], {name}
    while todo:
        function = functions[todo.pop()]
        read = _own_free(function)
        found |= read
        todo += sorted(read & set(functions) - seen)
        seen |= read
    return found


def _own_free(function: Function) -> set[str]:
    body = function.body if isinstance(function, ast.FunctionDef) else [function.body]
    own = set(parameters(function.args))
    read: set[str] = set()
    for part in body:
        for node in ast.walk(part):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                own |= parameters(node.args)
            elif isinstance(node, ast.Name):
                (own if _stores(node) else read).add(node.id)
    return read - own
