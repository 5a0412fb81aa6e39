"""The page of the language says what the language accepts and has, in its own words."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from calor_kernel import language
from calor_kernel.language.rewrite import ACCEPTED

PAGE = Path(__file__).parents[4] / "docs" / "kernels" / "language.md"
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


@pytest.mark.parametrize("name", language.__all__)
def test_rows_say_what_docstrings_say(name: str) -> None:
    expected = f"| `{name}` | {sentence(getattr(language, name))} |"
    assert expected in PAGE.read_text("utf-8").splitlines(), f"write {expected}"
