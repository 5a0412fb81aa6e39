"""The tutorial "Write a backend", followed from an empty folder to a green basic tier and on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from calor_conformance.selection import REQUIRED

from .projects import Environment
from .tutorial import Reader, blocks, with_definitions, with_lines

PAGE = Path(__file__).parents[4] / "docs/extending/write-a-backend.md"
# What a vendor may have to write for a green basic tier.
MOST = 200


def lines_of_code(folder: Path) -> int:
    """Count the lines of a package that are code: no blank ones, comments and docstrings."""
    count = 0
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        count += len(ast.unparse(tree).splitlines())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                count -= len((ast.get_docstring(node) or "").splitlines())
    return count


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, Environment(tmp_path / "site"))


@pytest.mark.slow
def test_the_tutorial_leads_to_green(reader: Reader) -> None:
    for block in blocks(PAGE.read_text("utf-8").partition("\n## Declare limits")[0]):
        reader.follow(block)
    assert reader.commands[-2:] == ["calor-conformance --device acme --tier basic", "pytest"]
    assert lines_of_code(reader.folder / "src") <= MOST
    assert len(reader.written) < 60


@pytest.mark.slow
def test_the_tutorial_ends_in_every_tier(reader: Reader) -> None:
    for block in blocks(PAGE.read_text("utf-8")):
        reader.follow(block)
    assert reader.commands[-1] == "calor-conformance verify conformance.json"
    whole = (reader.folder / "src/calor_acme/backend.py").read_text("utf-8")
    assert len(whole.splitlines()) < 250


def test_the_tutorial_names_what_every_device_has() -> None:
    text = PAGE.read_text("utf-8").replace("\n", " ")
    listed = text.partition("operations are required:")[2].partition(". ")[0]
    assert set(listed.split("`")[1::2]) == set(REQUIRED)
    assert "fourteen operations are required:" in text
    assert len(REQUIRED) == 14


def test_definitions_replace_those_of_their_name() -> None:
    source = "import a\n\nx = 1\n\n\ndef f():\n    return x\n\n\ny: int = 2\n"
    changed = with_definitions(
        source, "import b\n\ndef g():\n    return 3\n\ny: int = g()\nz = 4\n"
    )
    names: dict[str, object] = {}
    exec(changed.replace("import a\nimport b\n", ""), names)
    assert (names["x"], names["y"], names["z"]) == (1, 3, 4)
    assert changed.startswith("import a\nimport b\n")
    assert changed.index("z = 4") < changed.index("y: int")


def test_lines_replace_those_of_their_key() -> None:
    assert with_lines('f = {\n    "a": 1,\n    "b": 2,\n}\n', '    "b": 3,\n').count("3") == 1
    with pytest.raises(AssertionError, match='"c" is there 0 times'):
        with_lines('f = {\n    "a": 1,\n}\n', '    "c": 3,\n')
