"""The rules of the house that a tool can check: skeletons, sizes, imports, licences, the README."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from module_names import BANNED, EXCEPTIONS, modules, slang

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    path.parent
    for folder in ("packages", "plugins")
    for path in ROOT.glob(f"{folder}/*/pyproject.toml")
)
THIRD_PARTY_NAMES = {
    "pillow": "PIL",
    "scikit-learn": "sklearn",
    "cuda-bindings": "cuda",
    "cupy-cuda12x": "cupy",
    "cupy-cuda13x": "cupy",
    "cupy-rocm-7-0": "cupy",
}
# Packages that come with another one.
BROUGHT = {"cupy": {"cupy_backends"}, "onnx": {"google"}}


def settings(project: Path) -> dict[str, Any]:
    text = (project / "pyproject.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def requirement_name(requirement: str) -> str:
    for mark in "[<>=!~; ":
        requirement = requirement.split(mark)[0]
    return requirement


def import_name(requirement: str) -> str:
    name = requirement_name(requirement)
    return THIRD_PARTY_NAMES.get(name, name.replace("-", "_"))


PACKAGES = {project: import_name(settings(project)["name"]) for project in PROJECTS}
each_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda path: str(path.name))


def tracked_files() -> list[Path]:
    """The files that git knows or would add; every text file of the house is one of them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def imported(source: Path) -> Iterator[tuple[str, int]]:
    """The top-level packages that a module imports, anywhere in it, with the lines."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0], node.lineno


@each_project
def test_skeleton(project: Path) -> None:
    package = PACKAGES[project]
    for name in ("README.md", "LICENSE", "tests", f"src/{package}/py.typed"):
        assert (project / name).exists(), f"{project} lacks {name}"


@each_project
def test_licence_is_the_root_licence(project: Path) -> None:
    assert (project / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@each_project
def test_siblings_are_lower_bounds(project: Path) -> None:
    table = settings(project)
    siblings = {settings(other)["name"] for other in PROJECTS}
    extras = table.get("optional-dependencies", {}).values()
    for text in [*table["dependencies"], *(text for extra in extras for text in extra)]:
        if requirement_name(text) in siblings - {table["name"]}:
            bound = text.removeprefix(requirement_name(text)).rpartition("]")[2]
            assert bound.startswith(">="), f"{text}: a sibling is required by its lower bound"
            assert "," not in bound, f"{text}: a sibling has no upper bound"


def test_packages_of_tests_have_names_of_their_own() -> None:
    """A second package of one name would find the modules of the first.

    Tests that are in no package are named by their path, and reach modules beside them too.
    """
    made = [path.parent for project in PROJECTS for path in project.glob("tests/**/__init__.py")]
    tops = [path for path in made if path.parent not in made]
    names = [path.name for path in tops]
    assert not [str(path.relative_to(ROOT)) for path in tops if names.count(path.name) > 1]


def declared_imports(project: Path) -> set[str]:
    """What a project may import: what it requires, and what the siblings among that require."""
    table = settings(project)
    extras = table.get("optional-dependencies", {}).values()
    names = {import_name(text) for text in table["dependencies"]}
    for sibling, package in PACKAGES.items():
        if package in names and sibling != project:
            # NumPy arrays, for one, are part of the interface of the core.
            names |= {import_name(text) for text in settings(sibling)["dependencies"]}
    names |= {import_name(text) for extra in extras for text in extra}
    return names.union(*(BROUGHT.get(name, ()) for name in names)) | {PACKAGES[project]}


@each_project
def test_imports_are_declared(project: Path) -> None:
    declared = declared_imports(project) | sys.stdlib_module_names
    undeclared = [
        f"{source.relative_to(ROOT)}:{line} imports {name}"
        for source in sorted((project / "src").rglob("*.py"))
        for name, line in imported(source)
        if name not in declared
    ]
    assert not undeclared, "\n".join(undeclared)


def test_only_the_doors_of_core_open_other_projects() -> None:
    core = ROOT / "packages/core/src/calor"
    others = set(PACKAGES.values()) - {"calor"}
    doors = {core / name.removeprefix("calor_") for name in others}
    # Names of calor-numerics are names of calor and calor.random, and what it has of signals.
    doors |= {core / "late", core / "random/__init__", core / "signal"}
    wrong = [
        f"{source.relative_to(ROOT)}:{line} imports {name}"
        for source in sorted(core.rglob("*.py"))
        for name, line in imported(source)
        if name in others and source.with_suffix("") not in doors and source.parent not in doors
    ]
    assert not wrong, "\n".join(wrong)


def test_no_python_file_is_longer_than_600_lines() -> None:
    lengths = {
        path.relative_to(ROOT): len(path.read_text("utf-8").splitlines())
        for path in tracked_files()
        if path.suffix == ".py"
    }
    assert not {str(path): length for path, length in lengths.items() if length > 600}


@pytest.mark.parametrize("session", ["quickstart", "tests"])
def test_readme_has_the_command(session: str) -> None:
    command = f"python3 -m venv .venv && .venv/bin/pip install nox && .venv/bin/nox -s {session}"
    assert f"\n```\n{command}\n```\n" in (ROOT / "README.md").read_text("utf-8")


def test_module_names_are_the_terms_of_the_field() -> None:
    wrong = slang(modules(ROOT))
    assert len(modules(ROOT)) > 500
    assert not [message for path, message in wrong.items() if path not in EXCEPTIONS]


def test_exceptions_of_module_names_are_needed() -> None:
    """A module that has its new name is deleted from the table; a new name is not slang too."""
    unneeded = sorted(EXCEPTIONS.keys() - slang(modules(ROOT)).keys())
    assert not unneeded, f"delete these exceptions from testing/module_names.py: {unneeded}"
    renamed = [Path(path).with_stem(name) for path, name in EXCEPTIONS.items()]
    assert not slang(renamed)


@pytest.mark.parametrize(
    ("planted", "term"),
    [
        *((f"library/matmul/{word}.py", term) for word, term in BANNED.items()),
        ("library/matmul/boxed_rows.py", "warpgroup_tma_launch"),
        ("library/conv/_patches.py", "simt"),
        ("library/conv/striding.py", "strides_launch"),
        ("library/conv/scanning.py", "scan_launch"),
    ],
)
def test_slang_in_a_module_name_is_found(tmp_path: Path, planted: str, term: str) -> None:
    """The message names the module and the term; modules beside it have good names."""
    source = tmp_path / "packages/kernel/src/calor_kernel"
    good = ("library/matmul/warp_mma.py", "library/conv/strides.py", "library/conv/scan.py")
    for name in (planted, *good):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    path = (source / planted).relative_to(tmp_path).as_posix()
    [(found, message)] = slang(modules(tmp_path)).items()
    assert found == path
    assert message.startswith(path)
    assert term in message
