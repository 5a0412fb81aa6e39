"""Whether public docstrings have numpydoc's sections: `python tools/docstrings.py`.

Public is what a user can import and what the reference shows: the functions and classes that a
package names in `__all__`, those of the modules it names there, the public methods of these
classes, and the modules of `docs/reference_pages.py` that no package names. numpydoc judges
each of them; pyproject.toml lists its checks. Numpydoc reads no `raise` statement, so one check is
added here: RS01, an exception that a function raises, or that a helper which it calls raises, has
an entry under Raises, or a base of it has. `# numpydoc ignore=RS01` beside a `def` says that the
helper never raises there.

`--count` prints how many docstrings are complete; a path prints the errors of files under it.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator
from copy import copy
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
# Exceptions that say "not this one" rather than "you gave something wrong".
UNDOCUMENTED = {"NotImplementedError", "AssertionError", "StopIteration", "KeyboardInterrupt"}

SOURCES = (*ROOT.glob("packages/*/src"), *ROOT.glob("plugins/*/src"), ROOT / "docs")
sys.path[:0] = map(str, SOURCES)

from numpydoc import docscrape, validate  # noqa: E402  (calor's sources come first)
from reference_pages import EXTENDING, UNNAMED  # noqa: E402

TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
SETTINGS: dict[str, Any] = TOOLS["numpydoc_validation"]
PACKAGES = tuple(SETTINGS["packages"])
CHECKS = validate.get_validation_checks(set(SETTINGS["checks"]))


class Public(NamedTuple):
    """One docstring that the reference shows."""

    name: str
    thing: Any
    # A class shows its methods, and a page of the guide shows what extends calor.
    needs_example: bool

    @property
    def source(self) -> str:
        """The file that defines it, relative to the repository."""
        module = inspect.unwrap(self.thing).__module__
        return str(Path(str(sys.modules[module].__file__)).relative_to(ROOT))


def ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] in PACKAGES


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class and of its bases among the packages."""
    for base in owner.__mro__:
        for name, value in vars(base).items() if ours(base.__module__) else ():
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not isinstance(function, FunctionType) or name.startswith("_"):
                continue
            # A method without a docstring has that of the method which it overrides.
            inherits = function.__doc__ is None and inspect.getdoc(getattr(base, name))
            if name != "extra_repr" and not inherits and ours(function.__module__):
                yield f"{base.__module__}.{base.__qualname__}.{name}", function


def own_names(module: ModuleType) -> Iterator[str]:
    """The public names that a module defines, for modules that list none."""
    for name, thing in vars(module).items():
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__:
            yield name


def of_module(module: ModuleType, needs_example: bool) -> Iterator[Public]:
    """The public docstrings of a module, and of the modules that it names."""
    for name in getattr(module, "__all__", None) or list(own_names(module)):
        thing = getattr(module, name)
        if inspect.ismodule(thing):
            if thing.__name__.startswith(f"{module.__name__}."):
                yield from of_module(thing, needs_example)
        elif isinstance(thing, type | FunctionType) and ours(thing.__module__):
            error = isinstance(thing, type) and issubclass(thing, BaseException)
            yield Public(f"{thing.__module__}.{name}", thing, needs_example and not error)
            if isinstance(thing, type):
                yield from (Public(*pair, False) for pair in members(thing))


def public() -> list[Public]:
    """Every public docstring once, in the order of files."""
    found: dict[int, Public] = {}
    modules = [*((name, True) for name in PACKAGES), *((n, False) for n in (*UNNAMED, *EXTENDING))]
    for name, needs_example in modules:
        for item in of_module(importlib.import_module(name), needs_example):
            found.setdefault(id(item.thing), item)
    return sorted(found.values(), key=lambda item: item.source)


class Validator(validate.Validator):  # type: ignore[misc]  # numpydoc has no types
    """Numpydoc's validator with what Python knows of classes."""

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        if isinstance(self.obj, type) and hasattr(self.obj, "_fields"):
            return tuple(self.obj._fields)
        if isinstance(self.obj, type):
            inherited = "__init__" not in vars(self.obj)
            if inherited and issubclass(self.obj, BaseException):
                # calor alone makes it; who catches it reads its attributes.
                return ()
            method = constructor(self.obj)
            if method is None:
                return ()
            # Which method `inspect.signature` takes of a class differs between releases of Python.
            called = copy(self)
            called.obj = method
            return called.signature_parameters
        return tuple(super().signature_parameters)

    @property
    def doc_all_parameters(self) -> dict[str, Any]:
        """Fields of a dataclass or a named tuple may stand under Attributes."""
        fields = hasattr(self.obj, "__dataclass_fields__") or hasattr(self.obj, "_fields")
        documented = super().doc_all_parameters
        if fields and not documented:
            return dict(self._doc_parameters(["Attributes"]))
        return dict(documented)


def constructor(owner: type) -> FunctionType | None:
    """The packages' `__init__` that a call of the class runs."""
    inherited = (vars(base).get("__init__") for base in owner.__mro__)
    found = next((made for made in inherited if isinstance(made, FunctionType)), None)
    return found if found is not None and ours(found.__module__) else None


def body(function: FunctionType) -> ast.AST:
    """The source of a function, parsed; nothing for one that Python made, as for dataclasses."""
    if function.__code__.co_filename.startswith("<"):
        return ast.Pass()
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


@cache
def raised_by(function: FunctionType) -> dict[str, type]:
    """The exceptions that the statements of a function raise, by name."""
    found = {}
    for node in ast.walk(body(function)):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        thing = resolve(made, function)
        if isinstance(thing, FunctionType):
            # `raise unknown_option(...)`: a function that makes the exception.
            annotated: Any = thing.__annotations__.get("return")
            thing = thing.__globals__.get(annotated, annotated)
        if isinstance(thing, type) and issubclass(thing, Exception):
            found[thing.__name__] = thing
    return {name: thing for name, thing in found.items() if name not in UNDOCUMENTED}


def resolve(node: ast.AST, function: FunctionType) -> Any:
    """The value of a name, or of an attribute of a module, in the globals of a function."""
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, function)
        return getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
    if isinstance(node, ast.Name):
        builtins = vars(importlib.import_module("builtins"))
        local = imported_inside(function.__code__, function.__globals__)
        return local.get(node.id, function.__globals__.get(node.id, builtins.get(node.id)))
    return None


def imported_inside(code: CodeType, names: dict[str, Any]) -> dict[str, Any]:
    """What the import statements of a function's body bind."""
    found: dict[str, Any] = {}
    module = None
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module = sys.modules.get(step.argval)
        elif step.opname == "IMPORT_FROM" and module is not None:
            found[step.argval] = getattr(module, step.argval, None)
    return found


def calls(function: FunctionType) -> Iterator[FunctionType]:
    """The functions of the packages that a function calls by name."""
    for node in ast.walk(body(function)):
        called = resolve(node.func, function) if isinstance(node, ast.Call) else None
        if isinstance(called, type) and ours(called.__module__):
            called = vars(called).get("__init__")
            called = called if called is None else inspect.unwrap(called)
        if isinstance(called, FunctionType) and ours(called.__module__):
            yield inspect.unwrap(called)


def raises(function: FunctionType) -> dict[str, tuple[type, str]]:
    """What a function raises itself or through one call, and where.

    Private functions of the same module count as parts of the function. What a public function
    raises counts for a method that only passes its arguments on, in one statement.
    """
    parts = [function]
    found: dict[str, tuple[type, str]] = {}
    elsewhere = set() if passes_on(function) else public_functions()
    for part in parts:
        helpers = (called for called in calls(part) if called not in elsewhere)
        for called in (part, *helpers):
            for name, thing in raised_by(called).items():
                found.setdefault(name, (thing, called.__qualname__))
            own = called.__module__ == function.__module__ and called.__name__.startswith("_")
            if own and called.__name__ != "__init__" and called not in parts:
                parts.append(called)
    return found


def passes_on(function: FunctionType) -> bool:
    """Whether a function is a method of one statement, which is a call or returns one."""
    (definition,) = getattr(body(function), "body", [None])
    statements = getattr(definition, "body", [])[function.__doc__ is not None :]
    return "." in function.__qualname__ and [*map(type, statements)] in ([ast.Return], [ast.Expr])


@cache
def public_functions() -> set[FunctionType]:
    return {inspect.unwrap(item.thing) for item in public() if not isinstance(item.thing, type)}


def undocumented_raises(item: Public, doc: Validator) -> Iterator[tuple[str, str]]:
    function = inspect.unwrap(item.thing)
    if isinstance(function, type):
        function = vars(function).get("__init__")
    function = inspect.unwrap(function) if callable(function) else function
    if not isinstance(function, FunctionType):
        return
    documented = {entry.type or entry.name for entry in doc.doc["Raises"]}
    for name, (thing, helper) in raises(function).items():
        if documented.isdisjoint(base.__name__ for base in thing.__mro__):
            yield "RS01", f"{name}, raised in {helper}, not under Raises"


def errors(item: Public) -> list[str]:
    """The errors of one docstring, each a line of text."""
    doc = Validator(docscrape.get_doc_object(item.thing))
    report = validate.validate(item.name, lambda obj_name: doc)
    line = report["file_line"]
    ignored = validate.extract_ignore_validation_comments(doc.source_file_name).get(line or 1, [])
    found = [*report["errors"], *undocumented_raises(item, doc)]
    return [
        f"{item.source}:{line}: {item.name}: {check} {text}"
        for check, text in found
        if check in CHECKS | {"RS01"} and (check != "EX01" or item.needs_example)
        if check not in ignored
    ]


def main(arguments: list[str]) -> int:
    found = {item: errors(item) for item in public()}
    if arguments == ["--count"]:
        total, complete = Counter[str](), Counter[str]()
        for item, texts in found.items():
            package = item.source.split("/")[1]
            total[package] += 1
            complete[package] += not texts
        for package in total:
            print(f"{package}: {complete[package]} of {total[package]}")
        print(f"all: {complete.total()} of {total.total()} docstrings have every section")
        return 0
    under = tuple(arguments) or ("",)
    shown = [t for item, texts in found.items() for t in texts if item.source.startswith(under)]
    print("".join(f"{text}\n" for text in shown), end="")
    return bool(shown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
