"""The faults that people make by not thinking of something: a part, a size, an option, an error.

Requirements: each is a line that works in most calls. A key has all but one property, a count
passes 65535, a value that may be 0 is asked whether it is None, a setting is restored unless an
error comes. A fault names the node in whose place it stands, as some stand in a part of one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# The kind of a fault, the node that it replaces, and what stands in its place.
Oversight = tuple[str, ast.AST, ast.AST]
# Words of the names of what is looked up.
_KEYS: Final = ("key", "signature", "digest")
_COUNTS: Final = frozenset((
    "size", "length", "elements", "rows", "columns", "nbytes", "numel",
))  # fmt: skip
_AXES: Final = frozenset(("axes", "dims", "reduced", "contracted", "batch", "kept_axes"))
_CLAMPS: Final = frozenset(("min", "max", "minimum", "maximum"))
# Methods without operands that give another value of the same kind.
_COPIES: Final = frozenset(("copy", "conj", "clone", "contiguous", "detach", "ravel"))
# Counts beyond this are mistaken where somebody stores them in 16 bits.
_NARROW: Final = 1 << 16


@dataclass(frozen=True)
class Around:
    """What is known of the function that has a node.

    Parameters
    ----------
    name : str
        The function's name.
    defaults : mapping of str to ast.expr
        The values that its parameters have where none is given.
    """

    name: str = ""
    defaults: Mapping[str, ast.expr] = field(default_factory=dict)


def _named(node: ast.AST, words: tuple[str, ...]) -> bool:
    text = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return any(word in text.lower() for word in words)


def _parts(node: ast.AST | None) -> Iterator[Oversight]:
    """Yield the keys in which a part is the same for all."""
    if isinstance(node, ast.Tuple) and len(node.elts) > 1:
        for part in node.elts:
            if not isinstance(part, ast.Constant | ast.Starred):
                yield "key part forgotten", part, ast.Constant(None)


def assigned(node: ast.Assign, around: Around) -> Iterator[Oversight]:
    target = node.targets[0]
    if _named(target, _KEYS):
        yield from _parts(node.value)
    made = node.value
    if isinstance(target, ast.Name) and isinstance(made, ast.BinOp):
        left = made.left
        if isinstance(left, ast.Name) and left.id == target.id:
            yield "written in place", node, ast.AugAssign(target, made.op, made.right)


def returned(node: ast.Return, around: Around) -> Iterator[Oversight]:
    if any(word in around.name.lower() for word in _KEYS):
        yield from _parts(node.value)


def called(node: ast.Call, around: Around) -> Iterator[Oversight]:
    function = node.func
    if isinstance(function, ast.Attribute):
        # A look-up alone that forgets a part finds nothing, which is no fault.
        if function.attr == "setdefault" and node.args:
            yield from _parts(node.args[0])
        if function.attr in _COPIES and not node.args and not node.keywords:
            yield "copy forgotten", node, function.value
    name = getattr(function, "id", getattr(function, "attr", ""))
    if name in _CLAMPS and len(node.args) == 2 and not node.keywords:
        for part in node.args:
            if not isinstance(part, ast.Starred):
                yield "bound forgotten", node, part


def compared(node: ast.Compare, around: Around) -> Iterator[Oversight]:
    last = node.comparators[0]
    if len(node.ops) == 1 and isinstance(last, ast.Constant) and last.value is None:
        if isinstance(node.ops[0], ast.Is):
            yield "None taken for false", node, ast.UnaryOp(ast.Not(), node.left)
        elif isinstance(node.ops[0], ast.IsNot):
            # In a test alone; elsewhere the value would be seen.
            yield "None taken for false", node, ast.Call(ast.Name("bool"), [node.left], [])


def read(node: ast.Name | ast.Attribute, around: Around) -> Iterator[Oversight]:
    if not isinstance(node.ctx, ast.Load):
        return
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    if name in _COUNTS:
        yield "count of 16 bits", node, ast.BinOp(node, ast.Mod(), ast.Constant(_NARROW))
    if name in _AXES:
        for part in (ast.Slice(ast.Constant(1)), ast.Slice(None, ast.Constant(-1))):
            yield "axis forgotten", node, ast.Subscript(node, part, node.ctx)
    if isinstance(node, ast.Name) and name in around.defaults:
        yield "option ignored", node, around.defaults[name]


def rounded(node: ast.UnaryOp, around: Around) -> Iterator[Oversight]:
    inner = node.operand
    if not isinstance(node.op, ast.USub) or not isinstance(inner, ast.BinOp):
        return
    left = inner.left
    if isinstance(inner.op, ast.FloorDiv) and isinstance(left, ast.UnaryOp):
        yield "rounded down", node, ast.BinOp(left.operand, ast.FloorDiv(), inner.right)


def raised(node: ast.Raise, around: Around) -> Iterator[Oversight]:
    yield "error swallowed", node, ast.Pass()


def deleted(node: ast.Delete, around: Around) -> Iterator[Oversight]:
    yield "statement dropped", node, ast.Pass()


def iterated(node: ast.For | ast.comprehension, around: Around) -> Iterator[Oversight]:
    made = getattr(node.iter, "func", None)
    language = isinstance(made, ast.Attribute) and getattr(made.value, "id", "") == "kl"
    # A count without an end has no list, and loops of the kernel language none either.
    if language or getattr(made, "attr", getattr(made, "id", "")) in ("count", "range"):
        return
    items = ast.Call(ast.Name("list"), [node.iter], [])
    for part in (ast.Slice(ast.Constant(1)), ast.Slice(None, ast.Constant(-1))):
        yield "item left out", node.iter, ast.Subscript(items, part, ast.Load())


def cleaned(node: ast.Try, around: Around) -> Iterator[Oversight]:
    if node.finalbody and not node.handlers and not node.orelse:
        made = ast.If(ast.Constant(True), [*node.body, *node.finalbody], [])
        yield "no cleanup after an error", node, made


_RULES: Final[dict[type[ast.AST], Callable[..., Iterator[Oversight]]]] = {
    ast.Assign: assigned, ast.Return: returned, ast.Call: called,
    ast.Compare: compared, ast.Name: read, ast.Attribute: read, ast.UnaryOp: rounded,
    ast.Raise: raised, ast.Delete: deleted, ast.For: iterated, ast.comprehension: iterated,
    ast.Try: cleaned,
}  # fmt: skip


def oversights(node: ast.AST, around: Around) -> Iterator[Oversight]:
    """Yield the oversights at one node.

    Parameters
    ----------
    node : ast.AST
        A node in the body of a function.
    around : Around
        The function.

    Yields
    ------
    tuple of str and two ast.AST
        The kind, the node or the part of it that is replaced, and what stands there.
    """
    rule = _RULES.get(type(node))
    if rule is not None:
        yield from rule(node, around)


def defaults_of(function: Any) -> dict[str, ast.expr]:
    """Return the plain defaults of a function's parameters by their names."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return {
        name.arg: value
        for name, value in pairs
        if isinstance(value, ast.Constant | ast.UnaryOp | ast.Tuple)
    }
