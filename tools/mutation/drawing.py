"""Mutants drawn at random: which function, which place in it, which fault.

A mutant is an edit of the text of a file that keeps the numbers of its lines, so it can be compiled
and shown to whoever reads the sources of a function.
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Final

from .faults import WEIGHTS, Function, faults
from .oversights import Around, defaults_of, oversights

# Files and functions that print, or say what an error says.
SILENT_FILES: Final = (
    "*/__main__.py", "*/repr.py", "*/doctor.py", "*/migration.py", "*/summary.py", "*/profiling.py",
    "*/timing.py", "*/errors.py", "*/keywords.py", "*/debugging.py", "*/templates/*", "*/naming.py",
    "packages/conformance/*",
)  # fmt: skip
SILENT_FUNCTIONS: Final = ("__repr__", "__str__", "__dir__", "__getattr__", "told", "_told")
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Mutant:
    """One fault in one function.

    Parameters
    ----------
    path : str
        The file, relative to the root.
    function : str
        Qualified name of the function that has the place.
    line : int
        The first line of the place.
    kind : str
        The kind of the fault.
    before, after : str
        The place's text without and with the fault.
    begin, end : int
        Where the place is in the file, in bytes.
    new : str
        What is written there.
    scope, column : int
        Where the function begins.
    default : bool, default False
        Whether the place is the default of a parameter.
    """

    path: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    begin: int
    end: int
    new: str
    scope: int
    column: int
    default: bool = False

    def fits(self, root: Path) -> bool:
        """Return whether the file still has the place where it was."""
        place = (root / self.path).read_bytes()[self.begin : self.end].decode(errors="replace")
        return " ".join(place.split()) in self.before and bool(place)

    def text(self, root: Path) -> str:
        """Return the file's text with the fault."""
        text = (root / self.path).read_bytes()
        return (text[: self.begin] + self.new.encode() + text[self.end :]).decode()

    @property
    def name(self) -> str:
        """The place and the fault in one line."""
        return f"{self.path}:{self.line} {self.kind}: {self.before}  ->  {self.after}"


@dataclass(frozen=True)
class Place:
    """A fault of a place that was not made yet."""

    kind: str
    node: Any
    made: ast.AST
    default: bool


@dataclass(frozen=True)
class Source:
    """A function of a file and its places."""

    path: Path
    name: str
    node: Function
    places: tuple[Place, ...]


def _parents(tree: ast.AST) -> dict[int, ast.AST]:
    return {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _quiet(node: ast.AST) -> bool:
    """Whether nothing below a node is behaviour that a program could ask for."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in ("warn", "print", "cast_type")
    # Without strict=True, zip does the same of what has one length.
    strict = isinstance(node, ast.keyword) and node.arg == "strict"
    return strict or isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arg)


def _own(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function that are not those of a function within it."""
    body = function.body if isinstance(function.body, list) else [function.body]
    left: list[ast.AST] = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Raise):
            yield node
        if _quiet(node) or isinstance(node, ast.ClassDef):
            continue
        yield node
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.AnnAssign):
            left.extend([node.value] if node.value is not None else [])
            continue
        left.extend(ast.iter_child_nodes(node))


def _defaults(function: Function) -> Iterator[Place]:
    """Yield the faults of the plain values that parameters have where none is given."""
    arguments = function.args
    for node in [*arguments.defaults, *arguments.kw_defaults]:
        if isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes):
            for _, made in faults(node, []):
                yield Place("default", node, made, True)


def _found(path: Path, tree: ast.Module) -> Iterator[Source]:
    parents, everywhere = _parents(tree), _bound(_module_level(tree))
    for node in ast.walk(tree):
        if not isinstance(node, _SCOPES):
            continue
        names = _qualified(node, parents)
        if any(name in SILENT_FUNCTIONS for name in names) or _overload(node):
            continue
        arguments = node.args
        parameters = [
            a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ]
        there = {*everywhere, *parameters, *_bound(ast.walk(node))}
        places = [
            Place(kind, inner, made, False)
            for inner in _own(node)
            for kind, made in faults(inner, parameters, there)
        ]
        around = Around(names[-1], defaults_of(node))
        places.extend(
            Place(kind, part, made, False)
            for inner in _own(node)
            for kind, part, made in oversights(inner, around)
        )
        if "<locals>" not in names and "<lambda>" not in names:
            places.extend(_defaults(node))
        if places:
            yield Source(path, ".".join(names), node, tuple(places))


def _qualified(node: ast.AST, parents: dict[int, ast.AST]) -> list[str]:
    """Return the parts of the qualified name of a function."""
    names, child, above = [getattr(node, "name", "<lambda>")], node, parents.get(id(node))
    while above is not None:
        # Decorators and defaults belong to what is outside.
        own = getattr(above, "body", None)
        inside = child in own if isinstance(own, list) else child is own
        if inside and isinstance(above, (*_SCOPES, ast.ClassDef)):
            inner = [] if isinstance(above, ast.ClassDef) else ["<locals>"]
            names = [getattr(above, "name", "<lambda>"), *inner, *names]
        child, above = above, parents.get(id(above))
    return names


def _module_level(tree: ast.Module) -> Iterator[ast.AST]:
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (*_SCOPES, ast.ClassDef)):
            left.extend(ast.iter_child_nodes(node))


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that nodes give a value."""
    made = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            made.add(node.name)
    return made


def _overload(node: Function) -> bool:
    marks = [ast.unparse(d) for d in getattr(node, "decorator_list", [])]
    return any(mark.split(".")[-1] == "overload" for mark in marks)


@cache
def _texts(path: Path) -> tuple[bytes, tuple[int, ...]]:
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return text, tuple(starts)


@dataclass(frozen=True)
class _Edit:
    """What is written at a place of a file, and the node's text before and after."""

    begin: int
    end: int
    new: str
    before: str
    after: str


def _edit(path: Path, node: Any, made: Any) -> _Edit:
    """Return how a node of a file becomes another one, in as many lines."""
    text, starts = _texts(path)
    place: Any = node
    head = ""
    if isinstance(node, ast.If):
        # Of a statement with a body the head changes alone.
        place, made, head = node.test, made.test, "if "
    begin = starts[place.lineno - 1] + place.col_offset
    end = starts[place.end_lineno - 1] + place.end_col_offset
    if isinstance(node, ast.With):
        last: Any = node.items[-1].context_expr
        end = text.index(b":", starts[last.end_lineno - 1] + last.end_col_offset)
    if isinstance(node, ast.Try):
        return _without_cleanup(text, starts, node)
    old = text[begin:end].decode()
    lines = "\n" * old.count("\n")
    new = ast.unparse(ast.fix_missing_locations(made))
    before, after = head + " ".join(old.split()), head + new
    if isinstance(node, ast.With):
        new, after = f"if (True{lines})", "if True"
    elif isinstance(place, ast.stmt):
        new += lines
    elif isinstance(place, ast.expr) and not isinstance(place, ast.Slice):
        plain = isinstance(made, ast.Name | ast.Constant) and not lines
        new = new if plain else f"({new}{lines})"
        # Words may stand beside a parenthesis that is no more.
        new = f" {new}" if text[begin - 1 : begin].isalnum() else new
    return _Edit(begin, end, new, before, after)


def _without_cleanup(text: bytes, starts: Sequence[int], node: ast.Try) -> _Edit:
    """Return how a cleanup becomes one that an error leaves out."""
    begin = starts[node.lineno - 1] + node.col_offset
    last: Any = node.body[-1]
    final = text.index(b"finally", starts[last.end_lineno - 1] + last.end_col_offset)
    end = final + len(b"finally")
    body = text[begin + len(b"try") : final].decode()
    old = " ".join(text[begin:end].decode().split())
    return _Edit(begin, end, f"if True{body}if True", old, "if True ... if True")


def sources(
    root: Path, folders: Iterable[str], silent: Sequence[str] = SILENT_FILES
) -> list[Source]:
    """Return the functions of the files in some folders that have places for faults.

    Parameters
    ----------
    root : Path
        The folder of the repository.
    folders : iterable of str
        Folders or files in it.
    silent : sequence of str
        Patterns of files that are left out.

    Returns
    -------
    list of Source
        The functions.
    """
    made: list[Source] = []
    for folder in folders:
        at = root / folder
        for path in [at] if at.is_file() else sorted(at.rglob("*.py")):
            if not any(fnmatch(str(path), f"*{pattern}") for pattern in silent):
                made.extend(_found(path, ast.parse(path.read_bytes())))
    return made


def drawn(root: Path, functions: Sequence[Source], seed: int) -> Iterator[Mutant]:
    """Yield mutants without an end, none twice.

    Larger functions are drawn more often, as the root of their number of places; in a function,
    each kind as its weight says, and each place of a kind as often as the others.

    Parameters
    ----------
    root : Path
        The folder of the repository.
    functions : sequence of Source
        The functions, at least one.
    seed : int
        The seed of the draws.

    Yields
    ------
    Mutant
        A fault in a program that can be compiled to another code.
    """
    rng, known = random.Random(seed), set()
    weights = [len(source.places) ** 0.5 for source in functions]
    missed = 0
    while missed < 1000:
        (source,) = rng.choices(functions, weights)
        kinds: dict[str, list[Place]] = defaultdict(list)
        for place in source.places:
            kinds[place.kind].append(place)
        names = sorted(kinds)
        (kind,) = rng.choices(names, [WEIGHTS.get(name, 1.0) for name in names])
        place = rng.choice(kinds[kind])
        mutant = _mutant(root, source, place)
        if mutant is None or mutant.name in known:
            missed += 1
            continue
        missed = 0
        known.add(mutant.name)
        yield mutant


def _mutant(root: Path, source: Source, place: Place) -> Mutant | None:
    node, edit = place.node, _edit(source.path, place.node, place.made)
    mutant = Mutant(
        path=str(source.path.relative_to(root)),
        function=source.name,
        line=node.lineno,
        kind=place.kind,
        before=edit.before,
        after=edit.after,
        begin=edit.begin,
        end=edit.end,
        new=edit.new,
        scope=source.node.lineno,
        column=source.node.col_offset,
        default=place.default,
    )
    try:
        compile(mutant.text(root), str(source.path), "exec", dont_inherit=True)
    except SyntaxError:
        return None
    return mutant
