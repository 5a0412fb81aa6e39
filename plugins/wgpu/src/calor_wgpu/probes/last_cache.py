"""The last cache of a GPU, told by its vendor and the cores that were found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from calor_kernel.contract.info import DeviceInfo

NVIDIA: Final = 0x10DE
# NVIDIA's GPUs of so many cores have a last cache of so many bytes at least (A100, H100, L40, B200
# and their kin), which no adapter reports.
_MANY_CORES: Final = 100
_LAST_CACHE: Final = 40 << 20


def with_last_cache(described: DeviceInfo, info: Any) -> DeviceInfo:
    """Return the description with the last cache that a GPU of its vendor and its cores has."""
    if info["vendor_id"] != NVIDIA or described.cores < _MANY_CORES:
        return described
    return replace(described, caches=(*described.caches, _LAST_CACHE))
