"""Rewrites a kernel's syntax tree, once, into calls on the builder.

Only constructs with a different build-time meaning are rewritten. The idea of calls on a builder is
TileLang's; that of branches as functions over the names that they assign is AutoGraph's (Moldovan
et al., 2019).
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any, Final

from calor_kernel.errors import KernelSourceError, KernelSyntaxError
from calor_kernel.language import names, statements

# The accepted syntax: the meaning in a kernel by node class.
ACCEPTED: Final[dict[type[ast.AST], str]] = {
    ast.FunctionDef: "a helper inside the kernel",
    ast.Return: "at the end of a helper, or under a condition that the build knows",
    ast.Assign: "a name, a tuple of names, or an element",
    ast.AnnAssign: "as Assign; the annotation is not read",
    ast.AugAssign: "as the operator and an assignment",
    ast.If: "decided at build time, or a branch on the device",
    ast.For: "unrolled over what the build knows, a loop on the device over range(...)",
    ast.While: "a loop on the device, or unrolled while the build knows that it goes on",
    ast.With: "a region such as a role; one context, without as",
    ast.withitem: "the context of a with",
    ast.Assert: "checked at build time, or on the device in debug builds",
    ast.Expr: "a call, as a rule",
    ast.Pass: "nothing",
    ast.Raise: "while the kernel is built",
    ast.BoolOp: "and, or",
    ast.BinOp: "arithmetic",
    ast.UnaryOp: "signs, not, ~",
    ast.Lambda: "a function of one expression",
    ast.IfExp: "decided at build time, or a choice on the device",
    ast.Compare: "comparison, also chained",
    ast.Call: "a function of the language, a helper, or Python at build time",
    ast.Constant: "a number or text",
    ast.Attribute: "an attribute",
    ast.Subscript: "an element",
    ast.Starred: "unpacking at build time",
    ast.Name: "a name",
    ast.keyword: "an argument",
    ast.arguments: "parameters",
    ast.arg: "a parameter",
    **dict.fromkeys((ast.Break, ast.Continue), "only in loops that are unrolled"),
    **dict.fromkeys((ast.JoinedStr, ast.FormattedValue), "text at build time"),
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Slice), "at build time"),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp), "at build time"),
    **dict.fromkeys((ast.GeneratorExp, ast.comprehension), "at build time"),
}
_NEUTRAL = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
# Built-in functions with another meaning on device values.
_BUILTINS = frozenset(("range", "print", "min", "max", "abs"))
_CALLS = "__kernel"
_BODY = "__body"


def rewrite(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its syntax tree rewritten; KernelSyntaxError, KernelSourceError."""
    code = function.__code__
    try:
        if code.co_filename == "<string>":
            # Python 3.13 finds a text under this name: the program of ``python -c``.
            raise OSError("it was made by exec")
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise KernelSourceError(
            f"the source of {function.__qualname__} cannot be read ({error}); kernels are "
            f"rewritten from their text: write them in a file, not through exec"
        ) from error
    definition = _parse("".join(lines), first)
    if not isinstance(definition, ast.FunctionDef):
        kind = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "lambda"
        raise KernelSyntaxError(
            f"{function.__qualname__} is written with {kind}; a kernel is a def of its own",
            code.co_filename,
            first,
        )
    definition.decorator_list = []
    # Defaults were evaluated when the function was defined, and are copied from it.
    given = definition.args
    given.defaults, given.kw_defaults = [], [None] * len(given.kwonlyargs)
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        argument.annotation = None
    rewriter = _Rewriter(function, code.co_filename)
    rewriter.check(definition)
    rewritten = rewriter.function(definition)
    # A recursive helper refers to the name in its module, not to the factory's.
    rewritten.name = _BODY
    factory = _define(
        "__factory",
        _parameters([_CALLS, *code.co_freevars]),
        [rewritten, ast.Return(ast.Name(_BODY, ast.Load()))],
    )
    module = ast.Module([ast.copy_location(factory, definition)], [])
    ast.fix_missing_locations(module)
    made = _inner(compile(module, code.co_filename, "exec"), "__factory")
    body = _inner(made, _BODY).replace(co_name=definition.name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[_CALLS] = _cell(statements)
    result = FunctionType(
        body,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in body.co_freevars),
    )
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__ = function.__qualname__
    return result


def _parse(text: str, first: int) -> ast.stmt | None:
    """Return the statement of a function's source, None if it is part of another statement."""
    # Strings must not change, so an indented function is put under an if, not dedented.
    indented = text[:1].isspace()
    try:
        tree = ast.parse(f"if True:\n{text}" if indented else text)
    except SyntaxError:
        return None
    ast.increment_lineno(tree, first - 1 - indented)
    statement = tree.body[0]
    if indented:
        assert isinstance(statement, ast.If)
        statement = statement.body[0]
    return statement


def _inner(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _cell(content: Any) -> Any:
    return (lambda: content).__closure__[0]  # type: ignore[index]


def _define(name: str, parameters: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    # Python 3.12 added a required field.
    fields: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    return ast.FunctionDef(name=name, args=parameters, body=body, decorator_list=[], **fields)


def _parameters(names: Iterable[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function: Callable[..., Any], filename: str) -> None:
        self.filename = filename
        self.count = 0
        # Names of the enclosing function that assignments to elements may change.
        self.local: frozenset[str] = frozenset()
        shadowed = set(function.__globals__) | set(function.__code__.co_freevars)
        self.builtins = {n for n in _BUILTINS if n not in shadowed and hasattr(builtins, n)}

    # Checks.
    def check(self, tree: ast.AST) -> None:
        """Raise for the first construct that is not accepted."""
        for node in ast.walk(tree):
            if not isinstance(node, _NEUTRAL) and type(node) not in ACCEPTED:
                self.refuse(node, f"{_spoken(node)} has no meaning in a kernel")
            if isinstance(node, ast.For | ast.While) and node.orelse:
                self.refuse(node, "a loop's else has no meaning in a kernel; test after the loop")
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                self.refuse(node, "a kernel assigns names and elements, not attributes")
            if isinstance(node, ast.FunctionDef) and node is not tree and node.decorator_list:
                self.refuse(node, "a function inside a kernel takes no decorator, and needs none")
            if isinstance(node, ast.While) and names.endless(node):
                self.refuse(node, "this while never ends; give it a condition, or a break")

    def refuse(self, node: ast.AST, message: str) -> None:
        raise KernelSyntaxError(message, self.filename, getattr(node, "lineno", None))

    # Functions.
    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        before = self.builtins, self.local
        self.local = names.assigned(node.body) | names.parameters(node.args)
        self.builtins = self.builtins - self.local
        # The body of a loop or a branch has its own values of the names that it assigns, so a
        # function that reads one of them cannot be called there.
        for statement, function, name in names.stale(node):
            kind = type(statement).__name__.lower()
            self.refuse(
                statement,
                f"{function!r} reads {name!r}, which changes in this {kind}; hand it over as an "
                f"argument",
            )
        node.body = self.statements(node.body)
        node.returns = None
        self.builtins, self.local = before
        return node

    visit_FunctionDef = function

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            result.extend(made if isinstance(made, list) else [made])
        return result

    # Statements.
    def visit_If(self, node: ast.If) -> Any:
        if names.leaves([*node.body, *node.orelse]):
            return self.decided(node)
        changed = sorted(names.assigned([*node.body, *node.orelse], self.local))
        then, otherwise = self.fresh("then"), self.fresh("otherwise")
        made = [
            self.branch(node, then, changed, node.body),
            self.branch(node, otherwise, changed, node.orelse or [ast.Pass()]),
        ]
        call = self.call("branch", self.visit(node.test), self.name(then), self.name(otherwise))
        return [*made, self.assign(node, changed, call)]

    def decided(self, node: ast.If | ast.While) -> ast.stmt:
        """Return a statement that leaves its function or loop, so the build must know its test."""
        node.test = self.at(node, self.call("host", self.visit(node.test)))
        node.body = self.statements(node.body)
        node.orelse = self.statements(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> Any:
        if names.leaves(node.body):
            node.iter = self.at(node, self.call("host_sequence", self.visit(node.iter)))
            node.body = self.statements(node.body)
            return node
        targets = sorted(names.stored(node.target))
        changed = [*targets, *sorted(names.assigned(node.body, self.local) - set(targets))]
        body, item = self.fresh("body"), self.fresh("item")
        source = self.visit(node.iter)
        taken = ast.copy_location(ast.Assign([node.target], self.name(item)), node)
        made = self.branch(node, body, changed, node.body, item, [taken])
        call = self.call("loop", source, self.name(body), ast.Constant(len(targets)))
        return [made, self.assign(node, changed, call)]

    def visit_While(self, node: ast.While) -> Any:
        if names.leaves(node.body):
            return self.decided(node)
        changed = sorted(names.assigned(node.body, self.local))
        test, body = self.fresh("test"), self.fresh("body")
        question = _define(test, _parameters(changed), [ast.Return(self.visit(node.test))])
        made = [self.at(node, question), self.branch(node, body, changed, node.body)]
        call = self.call("repeat", self.name(test), self.name(body))
        return [*made, self.assign(node, changed, call)]

    def visit_With(self, node: ast.With) -> Any:
        if len(node.items) != 1 or node.items[0].optional_vars is not None:
            self.refuse(node, "a with takes one context, without as; nest them")
        if names.leaves(node.body):
            self.refuse(node, "return, break and continue do not leave a with")
        changed = sorted(names.assigned(node.body, self.local))
        body = self.fresh("region")
        context = self.visit(node.items[0].context_expr)
        made = self.branch(node, body, changed, node.body)
        return [made, self.assign(node, changed, self.call("within", context, self.name(body)))]

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.visit(node.msg) if node.msg is not None else ast.Constant("")
        return self.at(node, ast.Expr(self.call("check", self.visit(node.test), message)))

    # Expressions.
    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        name = "both" if isinstance(node.op, ast.And) else "either"
        values = [self.visit(v) for v in node.values]
        made = values[-1]
        for value in reversed(values[:-1]):
            made = self.call(name, value, self.thunk(made))
        return self.at(node, made)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self.at(node, self.call("opposite", node.operand))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test, a, b = (self.visit(part) for part in (node.test, node.body, node.orelse))
        return self.at(node, self.call("choose", test, self.thunk(a), self.thunk(b)))

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        # a < b < c, with b evaluated once.
        operands = [node.left, *node.comparators]
        taken = [self.fresh("operand") for _ in operands]
        made: ast.expr | None = None
        for i in reversed(range(len(node.ops))):
            left, right = self.name(taken[i]), self.name(taken[i + 1])
            one: ast.expr = ast.Compare(left, [node.ops[i]], [right])
            made = one if made is None else self.call("both", one, self.thunk(made))
        assert made is not None
        return self.at(node, ast.Call(ast.Lambda(_parameters(taken), made), operands, []))

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.builtins:
            node.func = self.at(node, self.door(f"{node.func.id}_"))
        return node

    # Building blocks of the result.
    def fresh(self, what: str) -> str:
        self.count += 1
        return f"__{what}_{self.count}"

    def name(self, name: str) -> ast.expr:
        return ast.Name(name, ast.Load())

    def door(self, name: str) -> ast.expr:
        return ast.Attribute(ast.Name(_CALLS, ast.Load()), name, ast.Load())

    def call(self, name: str, *arguments: ast.expr) -> ast.expr:
        return ast.Call(self.door(name), list(arguments), [])

    def thunk(self, value: ast.expr) -> ast.expr:
        return ast.Lambda(_parameters(()), value)

    def at(self, node: ast.AST, made: Any) -> Any:
        ast.copy_location(made, node)
        # Executed code is on the first line, the position of errors.
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
        return made  # Its children get their positions at the end, with all others.

    def branch(
        self,
        node: ast.stmt,
        name: str,
        changed: list[str],
        body: list[ast.stmt],
        parameter: str | None = None,
        first: Sequence[ast.stmt] = (),
    ) -> ast.stmt:
        """Return a function of the names that the body assigns, which returns them."""
        out = ast.Tuple([self.name(n) for n in changed], ast.Load())
        made = _define(
            name,
            _parameters([*([parameter] if parameter else []), *changed]),
            [*first, *self.statements(body), ast.Return(out)],
        )
        made.body[-1] = self.at(node, made.body[-1])
        return self.at(node, made)  # type: ignore[no-any-return]

    def assign(self, node: ast.stmt, changed: list[str], call: ast.expr) -> ast.stmt:
        """Return ``changed = call(…, current values, names)``."""
        assert isinstance(call, ast.Call)
        values = [self.call("peek", self.thunk(self.name(n)), ast.Constant(n)) for n in changed]
        call.args.append(ast.Tuple(list(values), ast.Load()))
        call.args.append(ast.Tuple([ast.Constant(n) for n in changed], ast.Load()))
        if not changed:
            return self.at(node, ast.Expr(call))  # type: ignore[no-any-return]
        target = ast.Tuple([ast.Name(n, ast.Store()) for n in changed], ast.Store())
        return self.at(node, ast.Assign([target], call))  # type: ignore[no-any-return]


def _spoken(node: ast.AST) -> str:
    name = type(node).__name__
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
    return f"the construct {words!r} ({name})"
