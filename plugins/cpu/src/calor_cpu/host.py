"""The machine: cores, caches, memory, and the description by which kernels are chosen.

Requirements: blueprints block for the caches of one core, so a wrong figure is worse than none.
Only small files of the system are read; missing figures are those of a common processor.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from calor.dtypes import ALL, bfloat16, float16
from calor_cpu.pool import default_threads
from calor_cpu.target import STACK_BYTES, Target
from calor_kernel.contract.info import DeviceInfo

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_COMMON: Final = (32 << 10, 512 << 10)
_UNITS: Final = {"K": 10, "M": 20, "G": 30}
_MANY: Final = 2**31 - 1
_ARGUMENTS: Final = 4096  # beyond it, kernels compile slowly


def describe(target: Target) -> DeviceInfo:
    """Return the device description for a target."""
    private, shared = caches()
    return DeviceInfo(
        description=f"{_model()}, {target.cpu}",
        dtypes=frozenset(t for t in ALL if t.kind in ("bool", "int", "uint", "float"))
        - {float16, bfloat16},
        features=_features(target),
        vector_bytes=target.vector_bytes,
        shared_bytes=STACK_BYTES,
        cores=default_threads(),
        caches=private,
        max_cubes=(_MANY, _MANY, _MANY),
        memory_bytes=memory_bytes(),
        arguments=_ARGUMENTS,
        native={"shared_cache": shared, "vector_registers": target.vector_registers},
    )


def _features(target: Target) -> frozenset[str]:
    found = {"atomics", "atomics_64", "float_atomics", "forward_progress", "print", "fork"}
    found.update(("pointers", "repeats"))
    if target.has_fma:
        found.add("fma")
    if target.has("avx2"):
        found.add("gather")
    if target.has("avx512f"):
        found.add("compress")
    if target.masked_access:
        found.add("masked_access")
    if target.has("avx512vnni") or target.has("avxvnni"):
        found.add("dot_8")
    if target.has("avx512bf16"):
        found.add("dot_bfloat16")
    if target.has("amx-tile"):
        names = (("tile_bfloat16", "amx-bf16"), ("tile_8", "amx-int8"))
        found.update(name for name, flag in names if target.has(flag))
    return frozenset(found)


def caches(folder: Path = _CACHES) -> tuple[tuple[int, ...], int]:
    """Return the bytes of a core's own data caches, nearest first, and of the shared cache.

    A cache that only threads of one core share counts as the core's. A missing shared cache is 0.
    """
    levels: dict[int, int] = {}
    shared = 0
    try:
        first = _text(folder / "index0" / "shared_cpu_list")
        for index in sorted(folder.glob("index[0-9]*")):
            if _text(index / "type") == "Instruction":
                continue
            size = _text(index / "size")
            nbytes = int(size[:-1]) << _UNITS[size[-1]]
            level = int(_text(index / "level"))
            if _text(index / "shared_cpu_list") == first and level < 3:
                levels[level] = nbytes
            else:
                shared = max(shared, nbytes)
    except (OSError, ValueError, KeyError, IndexError):
        return _COMMON, 0
    if not levels:
        return _COMMON, shared
    return tuple(levels[level] for level in sorted(levels)), shared


def memory_bytes() -> int:
    """Return the bytes of the machine's memory, or 0 if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def _model() -> str:
    """Return the processor's marketing name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "a processor"


def _text(path: Path) -> str:
    return path.read_text().strip()
