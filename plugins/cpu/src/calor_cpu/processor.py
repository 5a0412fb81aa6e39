"""What LLVM says of this processor and of itself, kept on disk.

Requirements: a process whose kernels are on disk does not load LLVM to learn for which processor
they are. The record is that of one processor, by the system's own description of it, and of one
version of llvmlite; where the system describes none, LLVM is asked in each process.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from calor.cache import cache_directory, keeps
from calor_kernel.device.storage import Storage

_DESCRIPTION: Final = Path("/proc/cpuinfo")
# The lines of the description that differ between processors, and not from moment to moment.
_LINES: Final = (
    "vendor_id", "cpu family", "model", "stepping", "flags",
    "CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features",
)  # fmt: skip


class Processor(NamedTuple):
    """LLVM's name of a processor and its features, with the version of LLVM."""

    triple: str
    cpu: str
    features: Mapping[str, bool]
    llvm: str


@cache
def processor() -> Processor:
    """Return the description of this processor.

    Raises
    ------
    CompileError
        If it is not on disk, and llvmlite does not load.
    """
    key = _key()
    if key is None or not keeps():
        return _asked()
    storage = Storage(cache_directory() / "processors")
    try:
        return Processor(*json.loads(storage.read(key) or b""))
    except (ValueError, TypeError):
        found = _asked()
        storage.write(key, json.dumps(found).encode())
        return found


def _asked() -> Processor:
    from calor_cpu.llvm import binding

    llvm: Any = binding()
    features = dict(sorted(llvm.get_host_cpu_features().items()))
    version = ".".join(map(str, llvm.llvm_version_info))
    return Processor(llvm.get_process_triple(), llvm.get_host_cpu_name(), features, version)


def _key() -> str | None:
    """Return the key of this processor's record; None if the system does not describe it."""
    try:
        lines = _DESCRIPTION.read_text("utf-8").split("\n\n")[0].splitlines()
        version = metadata.version("llvmlite")
    except (OSError, metadata.PackageNotFoundError):
        return None
    told = [line for line in lines if line.partition("\t")[0].partition(":")[0].strip() in _LINES]
    if not told:
        return None
    text = "\n".join((version, platform.machine(), platform.system(), *told))
    return hashlib.sha256(text.encode()).hexdigest()
