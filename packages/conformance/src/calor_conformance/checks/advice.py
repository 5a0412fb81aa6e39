"""Advice: what errors, warnings and rows of porting tell to write is there, with those keywords.

The texts are found in the sources, wherever an error is raised or a warning is given, so new advice
is asked for as well. Names are looked up as a program would, calls are bound to signatures.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import calor

from .base import Check, Place

CONTRACT: Final = "what an error or a warning tells to write exists, with the arguments it names"
_PACKAGES: Final = ("calor", "calor_nn", "calor_train", "calor_numerics", "calor_linalg",
                    "calor_special", "calor_distributions")  # fmt: skip
_NAMED: Final = re.compile(r"(?<![\w./@-])(calor|nn)((?:\.[A-Za-z_]\w*)+)(\()?")
# A name in a text on one line, which is no line of an example.
_QUOTED: Final = re.compile(
    r"""^(?!\s*(?:>>>|\.\.\.|#|from|import)).*["'].*\b(?:calor|nn)\.\w""", re.M
)
# Fields of a text that is put together when the error is raised.
_FIELD: Final = "field"


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines and texts of what a module raises and warns of; of tables of names, of all."""
    source = path.read_text(encoding="utf-8")
    if not _QUOTED.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if path.stem == "migration":
            # Between double backticks is what a docstring is about.
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, re.sub(r"``[^`]*``", "", node.value)
        elif isinstance(node, ast.Raise) or (
            isinstance(node, ast.Call) and "warn" in ast.unparse(node.func)
        ):
            for part in ast.walk(node):
                if isinstance(part, ast.JoinedStr):
                    yield part.lineno, _joined(part)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def _joined(text: ast.JoinedStr) -> str:
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else _FIELD for part in text.values
    )


def _call_in(text: str, start: int) -> ast.Call | None:
    """Return the call whose bracket is before a place, None if it is no expression."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if not depth:
            try:
                made = ast.parse(f"f({text[start:at]})", mode="eval").body
            except SyntaxError:
                return None
            return made if isinstance(made, ast.Call) else None
    return None


def _found(head: str, names: list[str]) -> Any:
    """Return what a name of a text is; fields end it."""
    at: Any = calor if head == "calor" else import_module("calor.nn")
    for name in names:
        if _FIELD in name:
            return None
        at = getattr(at, name)
    return at


def advised(text: str) -> Iterator[str]:
    """Yield what is wrong with names and calls of a text."""
    for match in _NAMED.finditer(text):
        if text[match.end() :].startswith(":"):
            # The op that an error is about, which may be no public name.
            continue
        head, names, opened = match.group(1), match.group(2)[1:].split("."), match.group(3)
        try:
            found = _found(head, names)
        except AttributeError:
            yield f"{match.group(0)} is not there"
            continue
        call = _call_in(text, match.end()) if opened and found is not None else None
        if call is None or not callable(found):
            continue
        try:
            parameters = inspect.signature(found).parameters
        except (TypeError, ValueError):
            continue
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            continue
        named = [k.arg for k in call.keywords if k.arg is not None]
        lacks = [name for name in named if name not in parameters and _FIELD not in name]
        if lacks:
            yield f"{match.group(0)} has no {lacks[0]}="
        first = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY,
                                                              p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
        several = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
        if not several and len(call.args) > len(first):
            yield f"{match.group(0)} takes {len(first)} arguments by place"


def _run(place: Place) -> None:
    wrong, count = [], 0
    for package in _PACKAGES:
        if find_spec(package) is None:
            continue
        folder = Path(str(import_module(package).__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            for line, text in texts_of(path):
                count += bool(_NAMED.search(text))
                wrong += [f"{path.name}:{line}: {what}" for what in advised(text)]
    assert count > 50, f"{count} texts name something"
    assert not wrong, "; ".join(wrong[:5])


def advice() -> Iterator[Check]:
    """Yield the check of advice."""
    yield Check(
        kind="functions",
        subject="advice-is-there",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(advised),
    )
