"""The description of an AMD GPU as a DeviceInfo.

Requirements: varying properties are read from the driver; properties of a processor follow from its
name. A feature is declared when kernels of the library and of the tests run with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calor.dtypes import ALL, bfloat16, float16
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.printers.dialect import words

from .dialect import SHARED_BYTES
from .matrices import MATRICES

# float16 and bfloat16 are storage types; kernels compute in float32.
_DTYPES: Final = frozenset(
    t for t in ALL if t.kind in ("bool", "int", "uint", "float") and t not in (float16, bfloat16)
)
_FEATURES: Final = words(
    "barrier planes atomics atomics_64 float_atomics fma forward_progress matrix pointers"
)
# Largest memory access in bytes, and alignment of memory.
_ACCESS, _ALIGN = 16, 256
# Of 8 bytes each: a launch passes up to 4 KiB.
_ARGUMENTS: Final = 512
_NEAR: Final = 16 << 10  # L1 cache of the smallest core, in bytes.
# The number of units of a launch along an axis is 32 bits.
_MOST_UNITS: Final = 2**32 - 1


def architecture(found: Mapping[str, Any]) -> str:
    """Return the processor's name for clang, such as ``gfx942``, from the device's properties.

    A suffix after a colon names settings of the memory, on which kernels do not depend.
    """
    return _text(found["gcnArchName"]).partition(":")[0]


def _text(given: Any) -> str:
    return given.decode() if isinstance(given, bytes) else str(given)


def describe(found: Mapping[str, Any], native: Mapping[str, Any]) -> DeviceInfo:
    """Return the device description for the runtime's device properties."""
    name, processor = _text(found["name"]), architecture(found)
    x, y, z = found["maxThreadsDim"]
    units = found["maxThreadsPerBlock"]
    most = _MOST_UNITS // units
    across, down, deep = (min(size, most) for size in found["maxGridSize"])
    matrices = MATRICES.get(processor, frozenset())
    return DeviceInfo(
        description=f"{name or 'AMD GPU'} ({processor}, HIP {native['driver']})",
        dtypes=_DTYPES,
        features=_FEATURES if matrices else _FEATURES - {"matrix"},
        vector_bytes=_ACCESS,
        max_units=units,
        max_cube=(min(x, units), min(y, units), min(z, units)),
        planes=(found["warpSize"],),
        shared_bytes=min(found["sharedMemPerBlock"], SHARED_BYTES),
        cores=found["multiProcessorCount"],
        caches=(_NEAR, found["l2CacheSize"]),
        max_cubes=(across, down, deep),
        memory_bytes=found["totalGlobalMem"],
        max_buffer_bytes=found["totalGlobalMem"],
        align=_ALIGN,
        part_align=_ACCESS,
        arguments=_ARGUMENTS,
        matrices=matrices,
        native=native,
    )
