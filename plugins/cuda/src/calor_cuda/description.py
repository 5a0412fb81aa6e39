"""The description of an NVIDIA GPU as a DeviceInfo.

Requirements: varying properties are read from the driver; properties of every compute capability
from 8.0 on are constants. A feature is declared when kernels of the library and of the tests run
with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calor.dtypes import ALL, bfloat16, float16
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.printers.dialect import words

# float16 and bfloat16 are storage types; kernels compute in float32.
_DTYPES: Final = frozenset(
    t for t in ALL if t.kind in ("bool", "int", "uint", "float") and t not in (float16, bfloat16)
)
_FEATURES: Final = words(
    "print barrier planes atomics atomics_64 float_atomics fma forward_progress async_copy matrix "
    "load_matrix links pointers together"
)
# CuPy calls NCCL.
_BY_CUPY: Final = words("links")
# Only this capability has warpgroup MMA; newer ones have its copies (TMA) too.
_HOPPER: Final = words("async_matrix tensor_copy mbarrier clusters overlap")
# Largest memory access in bytes, and alignment of the allocator.
_ACCESS: Final = 16
_ALIGN: Final = 256
# Of 8 bytes each: a launch passes up to 4 KiB.
_ARGUMENTS: Final = 512
# L1 cache of a multiprocessor without shared memory, in bytes.
_NEAR: Final = 128 << 10


def shares_cores(environment: Mapping[str, str]) -> bool:
    """Return whether kernels of other processes may run at the same time (NVIDIA's MPS).

    A launch then has fewer cores than the device, so its cubes do not all run together.
    """
    folder = environment.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    limited = environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100") != "100"
    return limited or Path(folder, "control").exists()


def describe(found: Mapping[str, Any], native: Mapping[str, Any]) -> DeviceInfo:
    """Return the device description for the runtime's device properties.

    ``native``: the versions, the target, and as ``shared`` whether others have its cores too.
    """
    name = found["name"]
    name = name.decode() if isinstance(name, bytes) else str(name)
    x, y, z = found["maxThreadsDim"]
    units = found["maxThreadsPerBlock"]
    capability, version = f"{found['major']}.{found['minor']}", native["driver"]
    driver = f"{version // 1000}.{version % 1000 // 10}"
    features = _FEATURES if native["library"] == "CuPy" else _FEATURES - _BY_CUPY
    if native.get("shared"):
        features -= words("together")
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
        part_align=_ACCESS,
        arguments=_ARGUMENTS,
        native=native,
    )
