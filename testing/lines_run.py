"""Which lines of the packages run: what a measurement of tests says that each of them covers.

Python tells of a line when it runs first and is told to be silent about it from then on, so this
costs a program little. It needs `sys.monitoring`, which is new in Python 3.12.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]


class LinesRun:
    """Notes the lines that run, by file, until they are taken."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = f"{root}/"
        self._names: dict[str, str | None] = {}
        self._seen: dict[str, int] = {}

    def start(self) -> None:
        """Note lines from here on, in all threads of the process."""
        tool: Any = getattr(sys, "monitoring", None)
        if tool is None:
            raise RuntimeError("lines are noted by Python 3.12 or newer; measure with one of these")
        tool.use_tool_id(tool.COVERAGE_ID, "calor's costs of tests")
        tool.register_callback(tool.COVERAGE_ID, tool.events.LINE, self._line)
        tool.set_events(tool.COVERAGE_ID, tool.events.LINE)

    def stop(self) -> None:
        """Note no more lines."""
        sys.monitoring.free_tool_id(sys.monitoring.COVERAGE_ID)  # type: ignore[attr-defined,unused-ignore]

    def take(self) -> dict[str, str]:
        """Return each file's lines as the bits of a number in hexadecimal digits; begin anew."""
        found = {name: f"{bits:x}" for name, bits in sorted(self._seen.items())}
        self._seen = {}
        sys.monitoring.restart_events()  # type: ignore[attr-defined,unused-ignore]
        return found

    def _line(self, code: CodeType, line: int) -> Any:
        path = code.co_filename
        if path not in self._names:
            self._names[path] = self._name(path)
        name = self._names[path]
        if name is not None:
            self._seen[name] = self._seen.get(name, 0) | (1 << line)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def _name(self, path: str) -> str | None:
        inside = path.removeprefix(self._root)
        return inside if inside != path and "/src/" in inside else None
