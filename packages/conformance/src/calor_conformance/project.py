"""A project for a new device, written from templates: ``python -m calor new-backend NAME``.

Requirements: the project works at once in a clean environment, before anything is filled in. A name
that clashes with a device or a package is refused. Existing files are never overwritten. The
templates are the project of a device named acme; only the name changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import metadata
from importlib.resources import files as resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import calor
from calor.errors import ArgumentError
from calor.plugins.core import TOOLS
from calor.plugins.discovery import installed
from calor.plugins.extras import OFFICIAL

# Each file of the project, and its template.
FILES: Final[Mapping[str, str]] = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "LICENSE": "LICENSE",
    ".gitignore": "gitignore",
    ".github/workflows/conformance.yml": "conformance.yml",
    "src/calor_acme/__init__.py": "init.py",
    "src/calor_acme/plugin.py": "plugin.py",
    "src/calor_acme/backend.py": "backend.py",
    "tests/test_conformance.py": "test_conformance.py",
}
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def new_backend(name: str, directory: str | None = None) -> str:
    """Write the project of a new device and return the next steps as text.

    Parameters
    ----------
    name : str
        Name of the device, with or without the prefix ``calor-``.
    directory : str, default None
        Folder to write to. None is ``calor-NAME``.

    Returns
    -------
    str
        The next commands.

    Raises
    ------
    ArgumentError
        If the name is taken or is not a lower-case identifier, or the folder is not empty.
    """
    folder = write(name, directory)
    device = device_name(name)
    return "\n".join(
        [
            f"{folder}: a project for the device {device}. Next:",
            f"  cd {folder}",
            '  pip install -e ".[test]"',
            "  pytest",
            f"Then fill in the places marked TODO, src/calor_{device}/backend.py first.",
        ]
    )


def write(name: str, directory: str | None = None) -> Path:
    """Write the project of a new device and return its folder.

    Parameters
    ----------
    name : str
        Name of the device, with or without the prefix ``calor-``.
    directory : str, default None
        Folder to write to. None is ``calor-NAME``.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ArgumentError
        If the name is taken or is not a lower-case identifier, or the folder is not empty.
    """
    device = device_name(name)
    folder = Path(directory if directory is not None else _distribution(device))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArgumentError(
            f"{folder} exists and is not an empty folder; choose another with --directory"
        )
    for path, text in contents(device).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8", newline="\n")
    return folder


def device_name(text: str) -> str:
    """Return the name of a device for the user's text.

    Parameters
    ----------
    text : str
        Name of the device, with or without the prefix ``calor-`` or ``calor_``.

    Returns
    -------
    str
        The name without the prefix.

    Raises
    ------
    ArgumentError
        If the name is taken or is not a lower-case identifier.

    Examples
    --------
    >>> device_name("calor-acme")
    'acme'
    """
    name = text.removeprefix("calor_").removeprefix("calor-")
    if not _NAME.fullmatch(name):
        near = "_".join(re.findall("[a-z0-9]+", name.lower()))
        hint = f" such as {near}" if _NAME.fullmatch(near) else ""
        raise ArgumentError(
            f"{text!r} is not the name of a device; use a lower-case Python identifier{hint}"
        )
    ours = {brought.rpartition(".")[2] for brought in OFFICIAL}
    if name in ours.union(installed(), TOOLS):
        raise ArgumentError(f"{name!r} is the name of another device; choose a new name")
    if name in _extras() or find_spec(f"calor_{name}") is not None:
        raise ArgumentError(
            f"calor-{name} is the name of another package; choose a new name for the device"
        )
    return name


def contents(device: str) -> dict[str, str]:
    """Return the text of each file of the project by its path."""
    return {_renamed(path, device): _renamed(_template(t), device) for path, t in FILES.items()}


def _renamed(text: str, device: str) -> str:
    text = text.replace("CALOR_VERSION", calor.__version__)
    text = text.replace("calor-acme", _distribution(device))
    return text.replace("Acme", device.title().replace("_", "")).replace("acme", device)


def _distribution(device: str) -> str:
    return f"calor-{device.replace('_', '-')}"


def _template(name: str) -> str:
    return (resources(__package__) / "templates" / f"{name}.template").read_text("utf-8")


def _extras() -> list[str]:
    return metadata("calor").get_all("Provides-Extra") or []
