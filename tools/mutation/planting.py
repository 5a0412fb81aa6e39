"""A mutant in a process that has the program already: the code of live functions is replaced.

Requirements: no file is written and nothing is imported again, so a child of a process that holds
the program and the suite sees the fault within milliseconds. Whatever holds a function, such as a
table, a class or a decorator, keeps it, since the function itself stays.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import linecache
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from .drawing import Mutant

# What a function with a fault calls where the fault is.
MARK: Final = "__fault_reached__"
_Cached: Final = type(functools.cache(len))
_Where = tuple[str, int]


class UnplantableError(Exception):
    """No live function has the code that the fault changes."""


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _by_name(code: CodeType) -> dict[_Where, list[CodeType]]:
    made: dict[_Where, list[CodeType]] = defaultdict(list)
    for inner in _codes(code):
        made[inner.co_qualname, inner.co_firstlineno].append(inner)
    return made


def load(files: Iterable[Path]) -> None:
    """Import the modules of files under a folder named src, but those that cannot be imported."""
    for path in files:
        parts = path.with_suffix("").parts
        parts = parts[len(parts) - parts[::-1].index("src") :]
        name = ".".join(parts).removesuffix(".__init__")
        if name not in sys.modules and parts[-1] != "__main__":
            # It needs what is not installed, and its functions exist for nobody.
            with suppress(ImportError):
                importlib.import_module(name)


def live_functions(root: Path) -> dict[str, list[FunctionType]]:
    """Return the functions that exist now, by the file that they are of."""
    made: dict[str, list[FunctionType]] = defaultdict(list)
    begin = f"{root}/"
    # What is frozen is not found.
    gc.unfreeze()
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(begin):
            made[one.__code__.co_filename.removeprefix(begin)].append(one)
    return made


class _Marked(ast.NodeTransformer):
    """Puts a call before the innermost statement, or the body of a lambda, that has a line."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def marked(self, tree: ast.Module) -> None:
        line = self.mutant.line
        function: Any = None
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                where = node.lineno, node.col_offset
                if where == (self.mutant.scope, self.mutant.column):
                    function = node
        if function is None:
            return
        if isinstance(function, ast.Lambda):
            body = ast.BoolOp(ast.Or(), [_call(), function.body])
            function.body = _at(body, function.body)
            return
        within = function
        block, place = function.body, 0
        while True:
            inner = _block(within, line)
            if inner is None:
                break
            block, place = inner
            within = block[place]
            if isinstance(within, ast.FunctionDef | ast.ClassDef):
                break
        block.insert(place, _at(ast.Expr(_call()), block[place]))


def _call() -> ast.expr:
    return ast.Call(ast.Name(MARK, ast.Load()), [], [])


def _at(made: Any, node: ast.AST) -> Any:
    for inner in ast.walk(made):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            ast.copy_location(inner, node)
    return made


def _block(node: ast.AST, line: int) -> tuple[list[Any], int] | None:
    """Return the list of statements in a node, and the place in it, that has a line."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        statements = getattr(node, name, None)
        if not isinstance(statements, list):
            continue
        for place, one in enumerate(statements):
            if isinstance(one, ast.stmt) and one.lineno <= line <= (one.end_lineno or 0):
                return statements, place
            if isinstance(one, ast.ExceptHandler | ast.match_case):
                found = _block(one, line)
                if found is not None:
                    return found
    return None


@dataclass(frozen=True)
class Planted:
    """What a mutant changes in this process.

    Parameters
    ----------
    codes : tuple of pairs
        Functions and their new code, which tells when the fault is reached.
    defaults : tuple of pairs
        Functions and others that have their new defaults.
    kernels : tuple of pairs
        Functions that the kernel language rewrote from their source, and the new ones to rewrite.
    lines : tuple of str and list of str, default None
        The file and its text with the fault, which is shown to whoever reads the source.
    """

    codes: tuple[tuple[FunctionType, CodeType], ...] = ()
    defaults: tuple[tuple[FunctionType, FunctionType], ...] = ()
    kernels: tuple[tuple[FunctionType, FunctionType], ...] = ()
    lines: tuple[str, list[str]] | None = None

    @property
    def tells(self) -> bool:
        """Whether it can be told that the fault is reached."""
        return bool(self.codes) and not self.kernels

    def plant(self, reached: Callable[[], None]) -> None:
        """Make the change in this process, which no other one undoes."""
        if self.lines is not None:
            path, lines = self.lines
            linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
        for function, code in self.codes:
            function.__globals__[MARK] = reached
            function.__code__ = code
        for function, other in self.defaults:
            function.__defaults__ = other.__defaults__
            function.__kwdefaults__ = other.__kwdefaults__
        for function, other in self.kernels:
            from calor_kernel.language.rewrite import rewrite

            function.__code__ = rewrite(other).__code__


def planted(root: Path, mutant: Mutant, live: dict[str, list[FunctionType]]) -> Planted:
    """Return what a mutant changes in this process.

    Parameters
    ----------
    root : Path
        The folder of the repository.
    mutant : Mutant
        The mutant.
    live : dict of str to list of FunctionType
        See :func:`live_functions`.

    Returns
    -------
    Planted
        The change, not made yet.

    Raises
    ------
    UnplantableError
        If no live function has the code, or it takes other variables of outer functions.
    """
    path = root / mutant.path
    functions, text = live.get(mutant.path, []), mutant.text(root)
    tree = ast.parse(text)
    if mutant.default:
        return Planted(defaults=tuple(_defaulted(mutant, tree, functions)))
    plain = _by_name(compile(tree, str(path), "exec", dont_inherit=True))
    _Marked(mutant).marked(tree)
    old = _by_name(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
    new = _by_name(compile(tree, str(path), "exec", dont_inherit=True))
    codes, kernels = [], []
    for function in functions:
        code = function.__code__
        where = code.co_qualname, code.co_firstlineno
        befores, afters = old.get(where, []), new.get(where, [])
        if len(befores) != len(afters):
            raise UnplantableError(f"{mutant.name}: functions of one line come or go")
        if code in befores:
            after = afters[_index(code, befores)]
            if _same(after, code):
                continue
            if after.co_freevars != code.co_freevars:
                raise UnplantableError(f"{mutant.name}: it takes other outer variables")
            codes.append((function, after))
        elif len(befores) == 1 and not _same(plain[where][0], befores[0]):
            kernels.append((function, _unwritten(function, plain[where][0])))
    if not codes and not kernels:
        raise UnplantableError(f"{mutant.name}: no function that exists has this code")
    lines = text.splitlines(keepends=True)
    return Planted(tuple(codes), (), tuple(kernels), (str(path), lines))


def _same(one: CodeType, other: CodeType) -> bool:
    return one.co_code == other.co_code and one.co_consts == other.co_consts


def _unwritten(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a function as it was before the kernel language rewrote it, with another code."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    made = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in code.co_freevars),
    )
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    return made


def _index(code: CodeType, among: list[CodeType]) -> int:
    """Return the place of a code among those of its name; equal ones differ by their columns."""
    exact = [n for n, one in enumerate(among) if one == code]
    columns = list(code.co_positions())
    for n in exact:
        if list(among[n].co_positions()) == columns:
            return n
    return exact[0]


def _defaulted(
    mutant: Mutant, tree: ast.Module, functions: Iterable[FunctionType]
) -> Iterator[tuple[FunctionType, FunctionType]]:
    name = mutant.function.rpartition(".")[2]
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == name and node.lineno == mutant.scope
    ]
    if not nodes:
        raise UnplantableError(f"{mutant.name}: a default of a function without a name")
    first = min([nodes[0].lineno, *(d.lineno for d in nodes[0].decorator_list)])
    found = [
        f
        for f in functions
        if f.__code__.co_qualname == mutant.function and f.__code__.co_firstlineno == first
    ]
    if not found:
        raise UnplantableError(f"{mutant.name}: no function that exists has this code")
    bare = nodes[0]
    bare.decorator_list, bare.returns = [], None
    arguments = bare.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            extra.annotation = None
    code = compile(ast.Module([bare], []), "default", "exec", dont_inherit=True)
    for function in found:
        space: dict[str, Any] = {}
        exec(code, {**function.__globals__}, space)
        yield function, space[name]


def caches(package: str) -> list[Callable[[], None]]:
    """Return what empties the caches of the functions of a package and of those named after it."""
    return [
        one.cache_clear
        for one in gc.get_objects()
        if type(one) is _Cached
        and one.__module__.startswith(package)
        and not one.__module__.startswith(f"{package}_conformance")
    ]
