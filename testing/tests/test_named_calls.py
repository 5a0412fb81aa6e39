"""Every name of calor in a text of the sources exists: hints in errors, and docstrings."""

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import calor

ROOT = Path(__file__).parents[2]
# calor.linalg.vector_norm, but no part of another name, and no file or e-mail address.
NAMED = re.compile(r"(?<![\w./-])calor((?:\.[A-Za-z_]\w*)+)")
# Groups of entry points, files, and words that stand for a name.
NOT_NAMES = re.compile(r"calor\.(plugins\.v|toml|rst|md|name$|NAME$)")


def test_names_in_texts_exist() -> None:
    missing: dict[str, str] = {}
    known: set[str] = set()
    for path in [*ROOT.glob("packages/*/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]:
        text = path.read_text("utf-8")
        named = {found[0] for found in NAMED.finditer(text)} - known
        wrong = {name for name in named if not NOT_NAMES.match(name) and not _exists(name)}
        known |= named - wrong
        # What is no text is code, which would fail by itself.
        missing |= {name: str(path) for name in wrong if name in _texts(text)}
    assert not missing


def _texts(source: str) -> str:
    """Return the texts of a source in one."""
    nodes = ast.walk(ast.parse(source))
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return "\n".join(value for value in values if isinstance(value, str))


def _exists(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of what stands before it."""
    thing: Any = calor
    path = "calor"
    for part in name.split(".")[1:]:
        path += f".{part}"
        try:
            thing = getattr(thing, part)
        except AttributeError:
            try:
                thing = importlib.import_module(path)
            except ImportError as error:
                # A module may need a package that is not installed.
                return error.name is not None and not path.startswith(error.name)
    return True
