"""The page of the language says what the language accepts and has, in its own words."""

import ast
import inspect
import re
import types
from pathlib import Path
from typing import Annotated, Any

import pytest

from calor_kernel import language
from calor_kernel.language.rewrite import ACCEPTED

PAGE = Path(__file__).parents[4] / "docs" / "kernels" / "language.md"
ALIASES = (type(Annotated[int, 0]), types.UnionType)
ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)


def rows(heading: str) -> dict[str, str]:
    """The rows of the tables below a heading."""
    text = PAGE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return dict(ROW.findall(text))


def sentence(thing: Any) -> str:
    """The first paragraph of a docstring, as Markdown."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r":\w+:", "", text).replace("``", "`").replace("|", r"\|")


def test_the_syntax_is_all_there() -> None:
    accepted = {
        node.__name__: meaning
        for node, meaning in ACCEPTED.items()
        if issubclass(node, ast.stmt | ast.expr)
    }
    assert rows("What a kernel may contain") == accepted


def test_every_name_has_a_row() -> None:
    assert sorted(rows("Everything there is")) == sorted(language.__all__)


# An annotation of parameters is an alias, which has no docstring of its own.
DESCRIBED = [name for name in language.__all__ if not isinstance(getattr(language, name), ALIASES)]


@pytest.mark.parametrize("name", DESCRIBED)
def test_rows_say_what_docstrings_say(name: str) -> None:
    expected = f"| `{name}` | {sentence(getattr(language, name))} |"
    assert expected in PAGE.read_text("utf-8").splitlines(), f"write {expected}"
