"""What ``python -m calor devices`` and ``python -m calor doctor`` say."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from calor.backends.device import Device, device_of
from calor.backends.protocol import FEATURES
from calor.config import config
from calor.device_selection import preferred_device
from calor.errors import CalorError
from calor.plugins.core import TOOLS
from calor.plugins.discovery import installed, registry
from calor.plugins.extras import advice
from calor.units import bytes_text

# The distributions that core stands on; those of calor itself begin with its name.
FOUNDATION: Final = ("numpy", "ml_dtypes", "pluggy")
OWN: Final = "calor"
VARIABLES: Final = {
    "CALOR_DEVICE": "the default device",
    "CALOR_EAGER": "1 computes each op when it is recorded",
    "CALOR_JIT": "0 runs jitted functions as plain Python",
    "CALOR_DEBUG": "1 keeps the user's line with each op",
    "CALOR_MATMUL_PRECISION": "high lets products of float32 be computed as TF32",
    "CALOR_TRACE_NODES": "how many pending nodes are computed at the latest",
    "CALOR_TRACE_BYTES": "how many pending bytes are computed at the latest",
}
Row = Sequence[str]


def table(rows: Iterable[Row], header: Row) -> str:
    """Return rows of text as aligned columns under a header."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _dtypes(device: Device) -> str:
    """Return the dtypes in few words: all, all but some, or their names."""
    states = device.info.dtypes
    there = [t.name for t, state in states.items() if state]
    missing = [t.name for t, state in states.items() if not state]
    if not missing:
        return f"all {len(there)}" if len(there) > 6 else ", ".join(there)
    if len(missing) < len(there):
        return f"all but {', '.join(missing)}"
    return ", ".join(there)


def _memory(device: Device) -> str:
    figures = device.memory
    limit = "no limit" if figures.limit is None else bytes_text(figures.limit)
    return f"{bytes_text(figures.in_use)} of {limit}"


def devices_text() -> tuple[str, int]:
    """Return the device table, and the exit status: 1 when something installed fails."""
    rows: list[Row] = []
    failures: list[str] = []
    for name in (*installed(), *TOOLS):
        try:
            if registry.is_scheme(name):
                rows.append((f"{name}:…", "devices made of other devices", "", "", "ready"))
                continue
            backend = registry.backend(name)
            found = [device_of(backend, i) for i in range(backend.enumerate())]
            if not found:
                rows.append((name, "no device of this kind is present", "", "", "none"))
            state = "tool" if name in TOOLS else "ready"
            for device in found:
                description = device.info.description
                row = (device.name, description, _dtypes(device), _memory(device), state)
                rows.append(row)
        except Exception as error:
            why = str(error) if isinstance(error, CalorError) else repr(error)
            rows.append((name, "see below", "", "", "failed"))
            failures.append(f"\n{name}: {why}")
    text = table(rows, ("name", "description", "dtypes", "memory", "state"))
    return "\n".join([text, *failures]), int(bool(failures))


def _diagnoses() -> list[str]:
    """Return a table for each backend that says what its devices need and what there is of it."""
    found = []
    for name in installed():
        try:
            rows = () if registry.is_scheme(name) else registry.backend(name).diagnosis()
        except Exception:
            # Why a backend fails is said beside its devices.
            continue
        if rows:
            found.append(table(rows, (name, "found")))
    return found


def _versions() -> list[Row]:
    from importlib.metadata import distributions

    found: dict[str, str] = {}
    for distribution in distributions():
        name = distribution.name
        if name in FOUNDATION or name == OWN or name.startswith((f"{OWN}-", f"{OWN}_")):
            found.setdefault(name, distribution.version)
    return sorted(found.items(), key=lambda row: (row[0] in FOUNDATION, row[0]))


def _plugins() -> tuple[str, int]:
    rows: list[Row] = []
    failures: list[str] = []
    for name, entries in sorted(registry.entries.items()):
        for entry in entries:
            state = "ready"
            try:
                registry.load(entry)
            except CalorError as error:
                state = "failed"
                failures.append(f"\n{entry.name} of {entry.source}: {error}")
            rows.append((name, entry.source, state))
    if not rows:
        return "no plugins are installed", 0
    text = table(rows, ("plugin", "from", "state"))
    return "\n".join([text, *failures]), int(bool(failures))


def _variables() -> list[Row]:
    """Return the variables that are set; one that core does not read may be a plugin's."""
    rows: list[Row] = []
    for name in sorted(n for n in os.environ if n.startswith("CALOR_")):
        near = get_close_matches(name, VARIABLES, 1, cutoff=0.9)
        stranger = "not read by calor itself" + (f"; {near[0]}?" if near else "")
        rows.append((name, os.environ[name], VARIABLES.get(name, stranger)))
    return rows


def _default() -> tuple[str, int]:
    """Say which device is the default, and what chooses it."""
    try:
        device = preferred_device()
    except CalorError as error:
        named = "cpu, the default," if config.device is None else f"CALOR_DEVICE={config.device}"
        return f"{named} fails: {error}", 1
    if device is None:
        return f"the default device is numpy:0, the reference; {advice('cpu')} for a fast one", 0
    if config.device is None:
        return f"the default device is {device.name}, as it is installed", 0
    return f"CALOR_DEVICE chooses {device.name}", 0


def doctor_text() -> tuple[str, int]:
    """Return what is installed, what failed to load and why; the status is 1 if anything did."""
    plugins, plugins_fail = _plugins()
    devices, devices_fail = devices_text()
    variables = _variables()
    default, default_fails = _default()
    status = plugins_fail | devices_fail | default_fails
    parts = [
        f"Python {platform.python_version()} on {platform.platform()}\n{sys.executable}",
        table(_versions(), ("distribution", "version")),
        plugins,
        devices,
        *_diagnoses(),
        table(variables, ("variable", "value", "meaning"))
        if variables
        else "no CALOR_ variables are set",
        default,
        "something is wrong, see above" if status else "everything loads",
    ]
    return "\n\n".join(part for part in parts if part), status


def features_text(device: Device) -> str:
    """Return the features of a device with their states."""
    rows = [(name, str(device.info.feature(name)), FEATURES[name]) for name in FEATURES]
    return table(rows, ("feature", "state", "meaning"))
