"""The faults that people make in one place of a function, as other trees of one node.

Requirements: each fault is one that a person could make and a reader could miss, so nothing that
no program could run with: a name that is not there, or a statement that gives a name its first
value, is left alone. Texts of errors, annotations and docstrings are no behaviour.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

# What is written for what in comparisons and arithmetic.
_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip
_COMPUTED: Final[dict[type[ast.operator], tuple[type[ast.operator], ...]]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mod,), ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.BitXor: (ast.BitOr,),
    ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,),
}  # fmt: skip
_ONE_SIDED: Final = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
_PAIRS: Final = (
    "min max", "any all", "minimum maximum", "fmin fmax", "floor ceil", "argmin argmax",
    "zeros ones", "amin amax", "sin cos", "sinh cosh", "less less_equal", "greater greater_equal",
    "int32 int64",
    "equal not_equal", "logical_and logical_or", "float32 float64", "float16 bfloat16", "sum prod",
    "cumsum cumprod", "tril triu", "zeros_like ones_like", "floor trunc", "log log2", "exp exp2",
    "append insert", "real imag", "hstack vstack", "isnan isinf", "expm1 exp", "log1p log",
    "left right", "start stop", "before after", "first last", "rows columns", "lower upper",
    "ndim size", "is_floating is_inexact", "is_inexact is_complex", "add sub", "mul div",
    "logical_not negative", "shape strides", "flip roll", "sort argsort", "mean sum",
    "array asarray", "zeros empty", "float32 float16",
)  # fmt: skip
_TEXTS: Final = (
    "left right", "valid same", "same full", "reflect constant", "mean sum", "forward backward",
    "ij xy", "lower higher", "linear nearest", "tanh relu", "wrap clip",
)  # fmt: skip


def _partners(pairs: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    made: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        one, other = pair.split()
        made[one] = (*made.get(one, ()), other)
        made[other] = (*made.get(other, ()), one)
    return made


_NAMESAKES: Final = _partners(_PAIRS)
_OPTIONS: Final = _partners(_TEXTS)
# Calls of one operand that give a value of its kind, which could be forgotten.
_WRAPPERS: Final = frozenset((
    "abs", "conj", "sorted", "reversed", "floor", "ceil", "round", "sqrt", "exp", "log", "neg",
    "stop_gradient", "flip", "swapped", "matrix_transpose", "clip", "astype", "copy", "tuple",
    "list", "real", "square", "contiguous", "detach", "normalized", "permute", "cast", "kept",
    "accumulator", "widened", "broadcast_to", "expand",
))  # fmt: skip

# Calls whose operands are of different kinds, so that none could be taken for another.
_TYPED: Final = frozenset(("isinstance", "issubclass", "getattr", "setattr", "hasattr", "cast"))

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# The kind of a fault, and the node that stands in the place of the one that was given.
Fault = tuple[str, ast.AST]


def compared(node: ast.Compare) -> Iterator[Fault]:
    for n, op in enumerate(node.ops):
        for other in _COMPARED.get(type(op), ()):
            ops = [*node.ops[:n], other(), *node.ops[n + 1 :]]
            yield "comparison", ast.Compare(node.left, ops, node.comparators)
    if len(node.ops) > 1:
        yield "chain cut", ast.Compare(node.left, node.ops[:1], node.comparators[:1])


def computed(node: ast.BinOp) -> Iterator[Fault]:
    if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return  # A text is formatted.
    for other in _COMPUTED.get(type(node.op), ()):
        yield "operator", ast.BinOp(node.left, other(), node.right)
    if isinstance(node.op, _ONE_SIDED):
        yield "operands swapped", ast.BinOp(node.right, node.op, node.left)
    if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        yield "term dropped", node.left


def signed(node: ast.UnaryOp) -> Iterator[Fault]:
    if isinstance(node.op, ast.Not):
        yield "not dropped", node.operand
    elif isinstance(node.op, ast.USub | ast.Invert):
        yield "sign dropped", node.operand


def joined(node: ast.BoolOp) -> Iterator[Fault]:
    other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    yield "and/or", ast.BoolOp(other, node.values)
    for n in range(len(node.values)):
        left = [*node.values[:n], *node.values[n + 1 :]]
        yield "condition dropped", left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def constant(node: ast.Constant) -> Iterator[Fault]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)
    elif isinstance(value, float) and value:
        yield "constant", ast.Constant(value * 1.03)
        yield "constant", ast.Constant(value * 2)
    elif isinstance(value, str):
        for other in _OPTIONS.get(value, ()):
            yield "option", ast.Constant(other)


def chosen(node: ast.IfExp) -> Iterator[Fault]:
    yield "branches swapped", ast.IfExp(node.test, node.orelse, node.body)
    yield "one branch", node.body
    yield "one branch", node.orelse


def called(node: ast.Call) -> Iterator[Fault]:
    plain = [a for a in node.args if not isinstance(a, ast.Starred)]
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    name = node.func.id if isinstance(node.func, ast.Name) else name
    if len(plain) == len(node.args) >= 2 and name not in _TYPED:
        for n in range(len(plain) - 1):
            if ast.unparse(plain[n]) != ast.unparse(plain[n + 1]):
                args = [*plain[:n], plain[n + 1], plain[n], *plain[n + 2 :]]
                yield "arguments swapped", ast.Call(node.func, args, node.keywords)
    for n, keyword in enumerate(node.keywords):
        # Without strict=True, zip does the same of what has one length.
        if keyword.arg not in (None, "strict"):
            left = [*node.keywords[:n], *node.keywords[n + 1 :]]
            yield "keyword dropped", ast.Call(node.func, node.args, left)
    if name in _WRAPPERS and plain:
        yield "call dropped", plain[0]
    if name == "range" and plain:
        end = ast.BinOp(plain[-1], ast.Sub(), ast.Constant(1))
        yield "range", ast.Call(node.func, [*plain[:-1], end], node.keywords)
        if len(plain) == 1:
            yield "range", ast.Call(node.func, [ast.Constant(1), *plain], node.keywords)


def named(node: ast.Name) -> Iterator[Fault]:
    if isinstance(node.ctx, ast.Load):
        for other in _NAMESAKES.get(node.id, ()):
            yield "namesake", ast.Name(other, node.ctx)


def attribute(node: ast.Attribute) -> Iterator[Fault]:
    if isinstance(node.ctx, ast.Load):
        for other in _NAMESAKES.get(node.attr, ()):
            yield "namesake", ast.Attribute(node.value, other, node.ctx)


def sliced(node: ast.Slice) -> Iterator[Fault]:
    for name in ("lower", "upper", "step"):
        bound = getattr(node, name)
        if bound is not None:
            parts: dict[str, Any] = {
                "lower": node.lower,
                "upper": node.upper,
                "step": node.step,
                name: None,
            }
            yield "bound dropped", ast.Slice(**parts)
            if name != "step":
                for op in (ast.Add(), ast.Sub()):
                    parts[name] = ast.BinOp(bound, op, ast.Constant(1))
                    yield "bound", ast.Slice(**parts)


def returned(node: ast.Return) -> Iterator[Fault]:
    made = node.value
    if isinstance(made, ast.Call) and made.args and isinstance(made.args[0], ast.Name):
        yield "operand returned", ast.Return(made.args[0])
    if isinstance(made, ast.Tuple) and len(made.elts) == 2:
        yield "results swapped", ast.Return(ast.Tuple(made.elts[::-1], made.ctx))


def tested(node: ast.If) -> Iterator[Fault]:
    for test in (ast.UnaryOp(ast.Not(), node.test), ast.Constant(True), ast.Constant(False)):
        kind = "condition negated" if isinstance(test, ast.UnaryOp) else "condition fixed"
        yield kind, ast.If(test, node.body, node.orelse)


def looped(node: ast.Break | ast.Continue) -> Iterator[Fault]:
    yield "break/continue", ast.Continue() if isinstance(node, ast.Break) else ast.Break()


def expression(node: ast.Expr) -> Iterator[Fault]:
    if isinstance(node.value, ast.Call | ast.Await):
        yield "statement dropped", ast.Pass()


def updated(node: ast.AugAssign) -> Iterator[Fault]:
    yield "statement dropped", ast.Pass()
    for other in _COMPUTED.get(type(node.op), ()):
        yield "operator", ast.AugAssign(node.target, other(), node.value)


def assigned(node: ast.Assign) -> Iterator[Fault]:
    target = node.targets[0]
    if not isinstance(target, ast.Name):
        if isinstance(target, ast.Attribute | ast.Subscript):
            yield "statement dropped", ast.Pass()
        return
    read = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    if target.id in read:
        # The name had a value before.
        yield "statement dropped", ast.Pass()


def within(node: ast.With) -> Iterator[Fault]:
    if all(item.optional_vars is None for item in node.items):
        yield "context dropped", ast.If(ast.Constant(True), node.body, [])


_RULES: Final[dict[type[ast.AST], Callable[..., Iterator[Fault]]]] = {
    ast.Compare: compared, ast.BinOp: computed, ast.UnaryOp: signed, ast.BoolOp: joined,
    ast.Constant: constant, ast.IfExp: chosen, ast.Call: called, ast.Name: named,
    ast.Attribute: attribute, ast.Slice: sliced, ast.Return: returned, ast.If: tested,
    ast.Break: looped, ast.Continue: looped, ast.Expr: expression, ast.AugAssign: updated,
    ast.Assign: assigned, ast.With: within,
}  # fmt: skip
# How often a kind is drawn beside others; 1 where it is not named.
WEIGHTS: Final = {
    "comparison": 3.0, "constant": 3.0, "operator": 3.0, "arguments swapped": 1.0,
    "keyword dropped": 1.5, "statement dropped": 2.0, "condition negated": 1.5, "namesake": 2.0,
    "condition dropped": 2.0, "and/or": 2.0, "operand returned": 1.5, "default": 1.5,
    "context dropped": 0.5, "other variable": 0.7, "key part forgotten": 4.0,
    "count of 16 bits": 2.0, "axis forgotten": 1.5, "option ignored": 1.5, "bound forgotten": 2.0,
    "item left out": 0.7, "error swallowed": 0.5, "no cleanup after an error": 3.0,
    "None taken for false": 0.7, "rounded down": 2.0, "copy forgotten": 2.0,
}  # fmt: skip


def faults(node: ast.AST, parameters: list[str], names: Container[str] = ()) -> Iterator[Fault]:
    """Yield the faults at one node.

    Parameters
    ----------
    node : ast.AST
        A node in the body of a function.
    parameters : list of str
        The names of the parameters of the function.
    names : container of str, default ()
        Names that have a value there, which may be written for others.

    Yields
    ------
    tuple of str and ast.AST
        The kind, and the node that stands in its place.
    """
    rule = _RULES.get(type(node))
    for kind, made in rule(node) if rule is not None else ():
        if not isinstance(node, ast.Name) or getattr(made, "id", "") in names:
            yield kind, made
    own = [name for name in parameters if name not in ("self", "cls")]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in own:
        place = own.index(node.id)
        for other in own[max(place - 1, 0) : place] + own[place + 1 : place + 2]:
            yield "other variable", ast.Name(other, node.ctx)
