"""The identity of a report: digests of the suite, the protocol, the driver and the wheels."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import calor
from calor.backends import protocol
from calor.backends.device import Device
from calor.dtypes import ALL
from calor.ops.base import table
from calor.plugins.entries import API, scan

from . import suite


def protocol_digest() -> str:
    """Return the digest of the interface of core and backends: the protocol and the op table."""
    text = Path(protocol.__file__).read_bytes()
    rows = sorted(f"{name} {row.since}" for name, row in table().items() if "." not in name)
    return suite.digest_of([("protocol", text), ("ops", "\n".join(rows).encode())])


def wheels() -> dict[str, dict[str, str]]:
    """Return version and digest of each installed distribution of calor and of its requirements."""
    names = {"numpy", "ml_dtypes", "ml-dtypes", "pluggy"}
    names |= {entry.distribution.lower() for entry in scan()}
    found = {}
    for distribution in distributions():
        name = (distribution.name or "").lower()
        if name in names or name.startswith("calor"):
            found[name] = {"version": distribution.version, "digest": _record(distribution)}
    return dict(sorted(found.items()))


def _record(distribution: Distribution) -> str:
    """Return the digest of a distribution's list of files; an editable installation has few."""
    text = distribution.read_text("RECORD") or ""
    kept = [line for line in text.splitlines() if "__pycache__" not in line]
    return hashlib.sha256("\n".join(sorted(kept)).encode()).hexdigest()[:16] if kept else ""


def device_identity(device: Device) -> dict[str, Any]:
    """Return the identity of the device and all that it declares."""
    info = device.info
    brought = {entry.name: entry.source for entry in scan()}
    return {
        "name": device.name,
        "description": info.description,
        "distribution": brought.get(device.backend.name, "calor" if _ours(device) else "none"),
        "dtypes": {d.name: str(info.dtypes.get(d, "impossible (not named)")) for d in ALL},
        "features": {name: str(info.feature(name)) for name in protocol.FEATURES},
        "ops": {_key(key): str(state) for key, state in info.ops.items()},
        "limits": dict(info.limits),
    }


def _ours(device: Device) -> bool:
    return type(device.backend).__module__.partition(".")[0] == "calor"


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"{key[0]}/{key[1].name}"


def environment() -> Mapping[str, str]:
    """Return the interpreter and the machine, without names of persons or paths."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "byteorder": sys.byteorder,
        "calor": calor.__version__,
        "api": str(API),
    }
