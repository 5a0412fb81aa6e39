"""The projects of the repository, and what installs them: what the sessions of nox share.

The list of projects is the directory listing: a new folder under packages/ or plugins/ with a
pyproject.toml is checked, built and installed by every session without a change here.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECTS = sorted(
    path.parent.relative_to(ROOT)
    for folder in ("packages", "plugins")
    for path in ROOT.glob(f"{folder}/*/pyproject.toml")
)
CORE = Path("packages/core")
# Extras that bring a driver's libraries. Those of one plugin share files, and never meet; PyCUDA is
# built from its source, which takes CUDA's headers.
DRIVERS = {"cu12", "cu13", "pycuda", "rocm7"}


def settings(project: Path) -> dict[str, Any]:
    text = (ROOT / project / "pyproject.toml").read_text("utf-8")
    return dict(tomllib.loads(text)["project"])


def name_of(project: Path) -> str:
    return str(settings(project)["name"])


def package_of(project: Path) -> str:
    return name_of(project).replace("-", "_")


def group(*names: str) -> list[str]:
    """The requirements of dependency groups in the root pyproject.toml."""
    groups = nox.project.load_toml(ROOT / "pyproject.toml")
    return list(nox.project.dependency_groups(groups, *names))


def with_extras(project: Path, name: str, without: frozenset[str] = frozenset()) -> str:
    """`name` with those extras of the project that bring third-party packages.

    Extras that bring one of ``without`` are left out.
    """
    siblings = {name_of(other) for other in PROJECTS}
    extras = [
        extra
        for extra, requirements in settings(project).get("optional-dependencies", {}).items()
        if not (names := {Requirement(text).name for text in requirements}) <= siblings
        and extra not in DRIVERS
        and not names & without
    ]
    return f"{name}[{','.join(extras)}]" if extras else name


def install_projects(
    session: nox.Session, *more: str, extras: bool = True, without: frozenset[str] = frozenset()
) -> None:
    """Install every project in place, all in one step, so that siblings are found on disk.

    Projects and extras that bring one of ``without`` are left out.
    """
    editable = [
        argument
        for project in PROJECTS
        if name_of(project) not in without
        for argument in (
            "-e",
            with_extras(project, f"./{project}", without) if extras else f"./{project}",
        )
    ]
    session.install(*editable, *more)


def existing(*paths: Path) -> list[str]:
    return [str(path) for path in paths if (ROOT / path).exists()]


def lowest_versions(session: nox.Session) -> list[str]:
    """Return the lowest versions that the projects allow of what others publish."""
    siblings = {name_of(project) for project in PROJECTS}
    lowest = set()
    for project in PROJECTS:
        table = settings(project)
        extras = table.get("optional-dependencies", {})
        more = [text for extra, texts in extras.items() if extra not in DRIVERS for text in texts]
        for text in [*table["dependencies"], *more]:
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue
            if requirement.name not in siblings:
                bounds = [item.version for item in requirement.specifier if item.operator == ">="]
                if len(bounds) != 1:
                    session.error(f"{project}: {text!r} does not state one lower bound")
                lowest.add(f"{requirement.name}=={bounds[0]}")
    return sorted(lowest)
