"""What a GPU says of itself, as a DeviceInfo.

Requirements: what varies is read from the driver, and what every capability from 8.0 on has is
stated; a feature is stated when kernels of the library and of the tests run with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calor.dtypes import ALL, bfloat16, float16
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.printers.dialect import words

# Float16 and bfloat16 are stored; kernels compute in float32.
_DTYPES: Final = frozenset(
    t for t in ALL if t.kind in ("bool", "int", "uint", "float") and t not in (float16, bfloat16)
)
_FEATURES: Final = words(
    "print barrier planes atomics atomics_64 float_atomics fma forward_progress async_copy matrix "
    "load_matrix links"
)
# NCCL is called by CuPy.
_BY_CUPY: Final = words("links")
# Products beside warp groups are of this capability alone; their copies are of newer ones too.
_HOPPER: Final = words("async_matrix tensor_copy mbarrier clusters")
# What an access of memory may be at most, and what the allocator aligns to.
_ACCESS: Final = 16
_ALIGN: Final = 256
# The part of a multiprocessor's memory that is a cache when none of it is shared memory.
_NEAR: Final = 128 << 10


def describe(found: Mapping[str, Any], native: Mapping[str, Any]) -> DeviceInfo:
    """Return what kernels and their choice depend on, of the runtime's device properties."""
    name = found["name"]
    name = name.decode() if isinstance(name, bytes) else str(name)
    x, y, z = found["maxThreadsDim"]
    units = found["maxThreadsPerBlock"]
    capability, version = f"{found['major']}.{found['minor']}", native["driver"]
    driver = f"{version // 1000}.{version % 1000 // 10}"
    features = _FEATURES if native["library"] == "CuPy" else _FEATURES - _BY_CUPY
    return DeviceInfo(
        description=f"{name} (compute capability {capability}, driver of CUDA {driver})",
        dtypes=_DTYPES,
        features=features | (_HOPPER if found["major"] == 9 else frozenset()),
        vector_bytes=_ACCESS,
        max_units=units,
        max_cube=(min(x, units), min(y, units), z),
        planes=(found["warpSize"],),
        shared_bytes=found["sharedMemPerBlockOptin"],
        cores=found["multiProcessorCount"],
        caches=(_NEAR, found["l2CacheSize"]),
        max_cubes=tuple(found["maxGridSize"]),
        memory_bytes=found["totalGlobalMem"],
        max_buffer_bytes=found["totalGlobalMem"],
        align=_ALIGN,
        native=native,
    )
