"""Projects of a third party as ``pip install -e`` leaves them, without the tools that install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path


class Environment:
    """A folder of metadata that stands for an environment in which projects are installed."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.paths: list[Path] = [site]
        self.exported: dict[str, str] = {}

    def install(self, project: Path) -> None:
        """Make a project known as an installation in place does: metadata, and its sources."""
        table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
        name, version = table["name"], table["version"]
        metadata = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (metadata / "METADATA").write_text("\n".join(lines) + "\n", "utf-8")
        points = [
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in table["entry-points"].items()
        ]
        (metadata / "entry_points.txt").write_text("\n".join(points), "utf-8")
        self.paths.append(project / "src")

    def run(
        self, module: str, arguments: Sequence[str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a module as a command in a folder; what it says comes back in one text."""
        return self.start(["-m", module, *arguments], folder)

    def start(self, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run Python in a folder."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=600,
        )

    def variables(self) -> Mapping[str, str]:
        """Return the variables of the process with the installed projects on the path."""
        inherited = os.environ.get("PYTHONPATH", "")
        paths = [*map(str, self.paths), *([inherited] if inherited else [])]
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("CALOR_", "PYTEST_"))}
        own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        return kept | own | self.exported
