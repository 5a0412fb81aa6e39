"""What ``python -m calor devices`` and ``python -m calor doctor`` say."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from calor.backends.device import Device, device_of
from calor.backends.protocol import FEATURES
from calor.errors import CalorError
from calor.plugins.discovery import installed, registry

# The distributions that core stands on, and those of calor, in the order of the doctor's table.
FOUNDATION = ("numpy", "ml_dtypes", "pluggy")
OWN = "calor"
VARIABLES = (
    "CALOR_DEVICE",
    "CALOR_EAGER",
    "CALOR_JIT",
    "CALOR_DEBUG",
    "CALOR_TRACE_NODES",
    "CALOR_TRACE_BYTES",
)


def table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> str:
    """Return rows of text as aligned columns under a header."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _dtypes(device: Device) -> str:
    states = device.info.dtypes
    missing = [t.name for t in states if not states[t]]
    return f"{len(states) - len(missing)} of {len(states)}" if missing else f"all {len(states)}"


def devices_text() -> tuple[str, int]:
    """Return the device table, and the exit status: 1 when an installed backend has none."""
    rows: list[tuple[str, ...]] = []
    status = 0
    for name in installed():
        try:
            backend = registry.backend(name)
            found = [device_of(backend, i) for i in range(backend.enumerate())]
        except CalorError as error:
            rows.append((name, str(error), "-", "-", "-", "failed"))
            status = 1
            continue
        if not found:
            rows.append((name, "no device of this kind is present", "-", "-", "-", "none"))
        for device in found:
            figures = device.memory
            rows.append(
                (
                    device.name,
                    device.info.description,
                    _dtypes(device),
                    _bytes(figures.in_use),
                    _bytes(figures.limit),
                    "ready",
                )
            )
    header = ("device", "description", "dtypes", "in use", "limit", "state")
    return table(rows, header), status


def _versions() -> list[tuple[str, str]]:
    from importlib.metadata import distributions

    found: dict[str, str] = {}
    for distribution in distributions():
        name = distribution.name
        if name in FOUNDATION or name == OWN or name.startswith(f"{OWN}-"):
            found.setdefault(name, distribution.version)
    return sorted(found.items(), key=lambda row: (row[0] in FOUNDATION, row[0]))


def _plugins() -> tuple[list[tuple[str, str, str]], int]:
    rows: list[tuple[str, str, str]] = []
    status = 0
    for name, entries in sorted(registry.entries.items()):
        for entry in entries:
            state = "ready"
            try:
                registry.load(entry)
            except CalorError as error:
                state, status = f"failed: {error}", 1
            rows.append((name, entry.source, state))
    return rows, status


def doctor_text() -> tuple[str, int]:
    """Return what is installed, what failed to load and why; the status is 1 if anything did."""
    parts = [f"Python {platform.python_version()} on {platform.platform()}", sys.executable, ""]
    parts += [table(_versions(), ("distribution", "version")), ""]
    plugins, status = _plugins()
    parts.append(table(plugins, ("plugin", "from", "state")) if plugins else "no plugins installed")
    text, more = devices_text()
    parts += ["", text, ""]
    given = [(n, os.environ[n]) for n in VARIABLES if n in os.environ]
    parts.append(table(given, ("variable", "value")) if given else "no CALOR_ variables are set")
    parts += ["", "everything loads" if not status | more else "something does not load, see above"]
    return "\n".join(parts), status | more


def features_text(device: Device) -> str:
    """Return the features of a device with their states."""
    rows: list[Any] = [(name, str(device.info.feature(name)), FEATURES[name]) for name in FEATURES]
    return table(rows, ("feature", "state", "meaning"))
