"""Devices of other people: built apart, installed without calor's source, proved by the suite.

Each folder here is a project as it would lie in a repository of its own. The wheels of calor and of
the projects are built, and installed from files alone in a new environment. The default run asks
the basic tier, `--full` all that the projects claim. `nox -s third_party` names the folder with the
wheels that others publish in CALOR_WHEELHOUSE.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROJECTS = sorted(path.parent for path in HERE.glob("*/pyproject.toml"))
WHEELHOUSE = os.environ.get("CALOR_WHEELHOUSE", "")
SUITE = (
    "packages/conformance",
    "plugins/distributed",
    "plugins/linalg",
    "plugins/numerics",
)
OURS = [ROOT / path for path in ("packages/core", "packages/kernel", *SUITE)]
# Device, profile, and the tiers that its project claims.
CLAIMS = [
    ("abacus", "complete", ("basic", "full", "dtypes", "compiled", "training")),
    ("slate", "complete", ("basic", "full", "dtypes", "compiled", "training")),
    ("tensorbox", "inference-f16", ("basic", "full", "dtypes", "compiled")),
    ("tensorbox", "inference-int8", ("basic", "full", "dtypes", "compiled")),
    ("brittle", "complete", ("basic", "full", "compiled")),
    # A C compiler runs for each of its kernels, which takes minutes.
    pytest.param("thimble", "complete", ("full",), marks=pytest.mark.slow),
]
each_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)


def run(*command: object, **options: Any) -> str:
    """Return what a command prints; what it prints when it fails is the failure."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def pip_of(python: Path) -> tuple[object, ...]:
    """Return the command that manages the environment of an interpreter."""
    return (sys.executable, "-m", "pip", "--python", python)


@dataclass(frozen=True)
class House:
    """Folders outside the repository: the projects, all wheels, and environments."""

    folder: Path

    def project(self, original: Path) -> Path:
        """Return the copy of a project."""
        return self.folder / original.name

    def environment(self, name: str, *requirements: str) -> Path:
        """Return the interpreter of a new environment with these and what they need."""
        folder = self.folder / name
        # The pip of this environment installs; the module venv would take seconds to bring one.
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        windows = sys.platform == "win32"
        python = folder / ("Scripts/python.exe" if windows else "bin/python")
        install = (*pip_of(python), "install", "--quiet", "--no-compile", "--no-index")
        links = ("--find-links", self.folder / "dist", "--find-links", WHEELHOUSE)
        run(*install, *links, *requirements)
        return python


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """Copy the projects and build all wheels."""
    folder = tmp_path_factory.mktemp("house")
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for project in PROJECTS:
        shutil.copytree(project, folder / project.name, ignore=ignored)
    dist = folder / "dist"
    sources = [*OURS, *(folder / project.name for project in PROJECTS)]
    pip = (sys.executable, "-m", "pip", "--quiet")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, *sources)
    return House(folder)


@pytest.fixture(scope="session")
def python(house: House) -> Path:
    """The interpreter of an environment with all the devices and the suite."""
    return house.environment("all", *(f"{project.name}[test]" for project in PROJECTS))


@pytest.fixture
def away(tmp_path: Path) -> dict[str, Any]:
    """Options of a process that finds neither the repository nor a device by the environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CALOR_", "PYTHON"))}
    return {"cwd": tmp_path, "env": kept}


# What the projects are made of.


def published() -> set[str]:
    """Return the modules that the pages for authors of plugins list."""
    found: set[str] = set()
    for page in ("backends.md", "bring-a-device.md"):
        text = (ROOT / "docs/extending" / page).read_text("utf-8")
        section = re.split("^###? ", text.partition("# What a package imports")[2], flags=re.M)[0]
        modules = re.findall(r"^\| `(calor[\w.]*)` \|", section, re.MULTILINE)
        assert len(modules) >= 5, page
        found.update(modules)
    return found


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, its own package's apart."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module is not None
            yield node.module


@each_project
def test_a_project_imports_only_what_calor_publishes(project: Path) -> None:
    own = project.name.replace("-", "_")
    allowed = {*published(), "numpy", own}
    for path in project.glob("src/**/*.py"):
        for module in imports_of(path):
            top = module.partition(".")[0]
            assert module in allowed or top in sys.stdlib_module_names, f"{path}: {module}"


@each_project
def test_an_entry_module_imports_nothing_heavy(project: Path) -> None:
    (plugin,) = project.glob("src/*/plugin.py")
    top = ast.parse(plugin.read_text("utf-8")).body
    heavy = [n for n in top if isinstance(n, ast.ImportFrom) and n.level]
    assert not heavy, "what needs the device is imported when it is asked for"
    assert set(imports_of(plugin)) <= {"typing", "calor.plugins"}


@pytest.mark.parametrize("name", ["calor-abacus", "calor-slate", "calor-thimble"])
def test_a_simple_device_is_200_lines(name: str) -> None:
    files = sorted((HERE / name / "src").rglob("*.py"))
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= 200


# What the wheels bring.


def test_the_suite_brings_pytest_and_calor_alone(house: House, away: dict[str, Any]) -> None:
    python = house.environment("suite", "calor-conformance")
    listing = json.loads(run(*pip_of(python), "list", "--format", "json", **away))
    found = {row["name"].lower().replace("_", "-") for row in listing} - {"pip", "setuptools"}
    asked = "import importlib.metadata as m; print(*m.requires('calor-conformance'), sep=chr(10))"
    required = {re.split(r"[^\w-]", line)[0] for line in run(python, "-c", asked).split("\n")[:-1]}
    # Linear algebra, groups and further distributions are asked of devices too; what they are in
    # needs nothing but calor.
    parts = {"calor-distributed", "calor-linalg", "calor-numerics"}
    assert required == {"calor", "pytest", *parts}
    of_calor = {"numpy", "ml-dtypes", "pluggy"}
    of_tests = {"iniconfig", "packaging", "pygments", "sortedcontainers", "attrs", "colorama"}
    assert found <= {"calor-conformance", *required, *of_calor, *of_tests}
    assert {"calor-conformance", *required, *of_calor} <= found


def test_all_devices_load(python: Path, away: dict[str, Any]) -> None:
    told = run(python, "-m", "calor", "doctor", **away)
    assert told.strip().endswith("everything loads"), told
    for project in PROJECTS:
        name = project.name.removeprefix("calor-")
        assert re.search(rf"^{name} +{project.name} \S+ +ready", told, re.MULTILINE), told
        assert re.search(rf"^{name}:0 .* ready$", told, re.MULTILINE), told


@each_project
def test_a_project_passes_its_own_tests(
    house: House, python: Path, project: Path, away: dict[str, Any]
) -> None:
    folder = house.project(project)
    options = ("-q", "--doctest-glob=README.md", "-p", "no:cacheprovider")
    suite = ("--conformance-device", project.name.removeprefix("calor-"), "--conformance-op", "mul")
    told = run(python, "-m", "pytest", *options, *suite, **{**away, "cwd": folder})
    assert " passed" in told
    where = f"import {project.name.replace('-', '_')} as m; print(m.__file__)"
    assert "site-packages" in run(python, "-c", where, **away)


def test_devices_of_two_projects_work_beside_each_other(
    house: House, python: Path, away: dict[str, Any]
) -> None:
    checks = shutil.copy(HERE / "check_companions.py", house.folder)
    told = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", checks, **away)
    assert " passed" in told
    assert "skipped" not in told


# What the devices prove.


@pytest.mark.parametrize(("device", "profile", "tiers"), CLAIMS)
def test_a_device_holds_what_its_project_claims(
    pytestconfig: pytest.Config,
    python: Path,
    away: dict[str, Any],
    device: str,
    profile: str,
    tiers: tuple[str, ...],
) -> None:
    full = pytestconfig.getoption("--full")
    asked = [f"--tier={tier}" for tier in (tiers if full else ("basic",))]
    suite = (python, "-m", "calor_conformance")
    options = ("--device", device, "--profile", profile, "--json", "report.json")
    told = run(*suite, *options, *asked, "--jobs=2" if full else "--jobs=1", **away)
    assert "failed" not in told
    report = json.loads((away["cwd"] / "report.json").read_text("utf-8"))
    assert set(report["tiers"]) == {a.partition("=")[2] for a in asked}
    assert report["device"]["distribution"].startswith(f"calor-{device} ")
    assert report["wheels"][f"calor-{device}"]["digest"]
    assert run(*suite, "verify", "report.json", **away).startswith(f"{device}:0")
