"""What an adapter says of itself and what it is seen to do, as a dialect and a DeviceInfo.

Requirements: what an adapter lists is read; what WGSL leaves to it (whether fma rounds once, how
many units are in lock step) is seen in the results of a kernel, when the device is opened.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import wgpu

from calor.dtypes import int64
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.device.seen import given, seen
from calor_kernel.printers.dialect import words

from ._bindings import compute
from .wgsl import MOST_CUBES, WGSL, probe

_UNITS: Final = 1024  # of a cube at most: beyond, registers are the limit
# Cores of a GPU, which does not say; they are counted where it takes times.
_CORES: Final = MappingProxyType({"DiscreteGPU": 80, "IntegratedGPU": 16})
# Vendors whose planes have 32 units, whatever else their drivers list.
_OF_32: Final = frozenset((0x10DE, 0x106B))
_ALWAYS: Final = words("barrier atomics float_atomics")


def language(device: Any, number: int) -> WGSL:
    """Return the dialect of a device."""
    features, limits, info = device.features, device.limits, device.adapter.info
    data = given()
    found = compute(number, probe("subgroup" in features), data.tobytes())
    shown = asdict(seen(np.frombuffer(found, np.float32).reshape(data.shape)))
    wide, processor = "shader-int64" in features, info["adapter_type"] == "CPU"
    # One size of planes is sure where the adapter has no other, or is known to have none.
    # wgpu-py 0.32 calls a subgroup a stackgroup in these two names.
    sizes = {
        size for key, size in info.items() if key.endswith(("group_min_size", "group_max_size"))
    }
    if not (processor or len(sizes) == 1 or info["vendor_id"] in _OF_32):
        shown["lanes"] = 1
    return WGSL(
        wide=wide,
        double=wide and "shader-f64" in features,
        **shown,
        atomics_64=wide and "shader-int64-atomic-all-ops" in features,
        float_atomics="shader-float32-atomic" in features,
        diverges="subgroup-barrier" in features and not processor,
        buffers=limits["max-storage-buffers-per-shader-stage"],
        shared_bytes=limits["max-compute-workgroup-storage-size"],
    )


def describe(device: Any, dialect: WGSL) -> DeviceInfo:
    """Return what kernels and their choice depend on."""
    limits, info = device.limits, device.adapter.info
    optional = {"atomics_64": dialect.atomics_64, "fma": dialect.fused, "planes": dialect.lanes > 1}
    # Without 64-bit integers those of 32 bits stand for them, in which only sizes fit.
    computed = {dtype for dtype in dialect.types if dialect.wide or dtype is not int64}
    units = min(limits["max-compute-invocations-per-workgroup"], _UNITS)
    x, y, z = (limits[f"max-compute-workgroup-size-{axis}"] for axis in "xyz")
    binding = min(limits["max-storage-buffer-binding-size"], limits["max-buffer-size"])
    return DeviceInfo(
        description=f"{info['device']} ({info['backend_type']})",
        dtypes=frozenset(computed),
        features=_ALWAYS | {feature for feature, has in optional.items() if has},
        vector_bytes=16,
        max_units=units,
        max_cube=(min(x, units), min(y, units), min(z, units)),
        planes=(dialect.lanes,),
        shared_bytes=dialect.shared_bytes,
        cores=_CORES.get(info["adapter_type"], os.cpu_count() or 1),
        caches=(1 << 17,),
        max_cubes=(2**31 - 1, MOST_CUBES, MOST_CUBES),
        # Of a larger piece a binding shows a part, in which a value of this size is whole.
        max_buffer_bytes=binding // 2 // 64 * 64,
        flushes=dialect.flushes,
        align=max(64, limits["min-storage-buffer-offset-alignment"]),
        native={"driver": info["description"], "wgpu": wgpu.__version__},
    )
