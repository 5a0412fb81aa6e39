"""Distributions that exist for a test only: a folder with metadata and modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

BACKEND = """
    from calor.backends.null import NullBackend
    from calor.plugins import hookimpl

    class Backend(NullBackend):
        name = "{name}"

    @hookimpl
    def calor_backends():
        return {{"{name}": Backend}}
"""


def backend_module(name: str) -> str:
    """Return the text of a plugin that brings one working backend."""
    return dedent(BACKEND).format(name=name)


def write_distribution(
    root: Path,
    name: str,
    entries: Mapping[str, str],
    modules: Mapping[str, str],
    *,
    version: str = "1.0",
    api: str = "1",
) -> Path:
    """Write a distribution with entry points and modules; return the folder to put on the path."""
    folder = root / name
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8"
    )
    points = "".join(f"{key} = {value}\n" for key, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[calor.plugins.v{api}]\n{points}", "utf-8")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(dedent(text), "utf-8")
    return folder
