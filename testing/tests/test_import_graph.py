"""No file and no folder of a distribution imports in a circle; the checker sees every kind."""

from pathlib import Path

import pytest

from import_graph import Circle, ImportGraph

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    source
    for pattern in ("packages/*/src", "plugins/*/src", "integration-tests/host_shim/src")
    for source in ROOT.glob(pattern)
)
PACKAGES = {
    init.parent.name: source for source in SOURCES for init in sorted(source.glob("*/__init__.py"))
}
ADVICE = (
    "Move what both sides need to a module on a lower floor, or move the function to the floor "
    "that it belongs to (docs/architecture.md, Floors). Importing inside a function or under "
    "TYPE_CHECKING is no way out: these imports count."
)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_circle_of_imports(package: str) -> None:
    circles = ImportGraph(PACKAGES[package], package).circles()
    assert not circles, "\n".join([*map(str, circles), ADVICE])


def planted(folder: Path, package: str, files: dict[str, str]) -> list[Circle]:
    """Return the circles of a package with these files; folders get an empty ``__init__``."""
    for name, text in files.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for made in (folder / package, *(p for p in (folder / package).rglob("*") if p.is_dir())):
        (made / "__init__.py").touch()
    return ImportGraph(folder, package).circles()


def test_imports_in_one_direction_are_no_circle(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from planted_line.high import b\n",
        "low/a.py": "",
        "high/b.py": "from planted_line.low import a\nimport planted_line.low.a\n",
    }
    assert not planted(tmp_path, "planted_line", files)


IN_FUNCTION = """
def f():
    from planted_{0}.b import g

    return g
"""
FOR_TYPES = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planted_{0}.b import g
"""


@pytest.mark.parametrize(
    ("name", "back", "line"),
    [
        ("module", "from planted_{0} import b\n", 1),
        ("relative", "\nfrom . import b\n", 2),
        ("function", IN_FUNCTION, 3),
        ("typing", FOR_TYPES, 5),
    ],
)
def test_circle_of_two_files(tmp_path: Path, name: str, back: str, line: int) -> None:
    package = f"planted_{name}"
    files = {"a.py": back.format(name), "b.py": f"import {package}.a\ng = 1\n"}
    of_files, of_siblings = planted(tmp_path, package, files)
    assert of_files.folder is None
    assert of_files.members == of_siblings.members == {f"{package}.a", f"{package}.b"}
    assert of_siblings.folder == package
    assert f"{package}/a.py:{line}: {package}.a imports {package}.b" in str(of_files)
    assert f"{package}/b.py:1: {package}.b imports {package}.a" in str(of_files)


def test_circle_of_folders_without_one_of_files(tmp_path: Path) -> None:
    files = {
        "one/a.py": "",
        "one/b.py": "from planted_folders.two import d\n",
        "two/c.py": "from planted_folders.one import a\n",
        "two/d.py": "",
    }
    (circle,) = planted(tmp_path, "planted_folders", files)
    assert circle.folder == "planted_folders"
    assert circle.members == {"planted_folders.one", "planted_folders.two"}
    assert "children of planted_folders import each other" in str(circle)
    assert "one/b.py:1" in str(circle)
    assert "two/c.py:1" in str(circle)


def test_module_that_imports_its_own_facade(tmp_path: Path) -> None:
    files = {"__init__.py": "from planted_facade.a import f\n", "a.py": "import planted_facade\n"}
    of_files, of_siblings = planted(tmp_path, "planted_facade", files)
    assert of_files.members == {"planted_facade", "planted_facade.a"}
    assert of_siblings.members == {"planted_facade.__init__", "planted_facade.a"}
    assert "planted_facade/a.py:1: planted_facade.a imports planted_facade" in str(of_files)


def test_shortest_way_round_of_a_large_circle(tmp_path: Path) -> None:
    files = {
        "a.py": "import planted_way.b\n",
        "b.py": "import planted_way.c\n",
        "c.py": "import planted_way.d\n",
        "d.py": "import planted_way.a\nimport planted_way.c\n",
    }
    of_files = planted(tmp_path, "planted_way", files)[0]
    assert len(of_files.members) == 4
    assert [step.importer for step in of_files.way] == ["planted_way.c", "planted_way.d"]
