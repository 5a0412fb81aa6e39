"""The description of an adapter: its dialect and its DeviceInfo.

Requirements: listed properties are read. Properties that WGSL leaves open (whether fma rounds once,
the size of subgroups) are found by a kernel when the device is opened.
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
from calor_wgpu.probes import undefined
from calor_wgpu.probes.arithmetic import given, seen
from calor_wgpu.probes.last_cache import NVIDIA

from ._bindings import ALIGN, compute, most_seen
from .wgsl import MOST_CUBES, WGSL, probe

_UNITS: Final = 1024  # limit of units in a cube: beyond it, registers are too few
# Default number of GPU cores, which adapters do not report; timed kernels count them if possible.
_CORES: Final = MappingProxyType({"DiscreteGPU": 80, "IntegratedGPU": 16})
# Vendors with planes of 32 units, whatever their drivers list: NVIDIA and Apple.
_PLANES_OF_32: Final = (NVIDIA, 0x106B)
# NVIDIA's Vulkan takes all registers for attention of larger tiles: on an H200 it takes 1.16 of the
# time of smaller ones.
_REGISTERS: Final = MappingProxyType({NVIDIA: 150})

# Between launches that wait for each other, on an H200.
_LAUNCH_NS: Final = 1770


def language(device: Any, number: int) -> WGSL:
    """Return the dialect of a device."""
    features, limits, info = device.features, device.limits, device.adapter.info
    data = given()
    found = compute(number, probe("subgroup" in features), data.tobytes())
    shown = asdict(seen(np.frombuffer(found, np.float32).reshape(data.shape)))
    wide, processor = "shader-int64" in features, info["adapter_type"] == "CPU"
    # The plane size is certain if the adapter has only one, or if its vendor is known.
    # wgpu-py 0.32 writes "stackgroup" for subgroup in these two names.
    sizes = {
        size for key, size in info.items() if key.endswith(("group_min_size", "group_max_size"))
    }
    if not (processor or len(sizes) == 1 or info["vendor_id"] in _PLANES_OF_32):
        shown["lanes"] = 1
    return WGSL(
        wide=wide,
        double=wide and "shader-f64" in features,
        **shown,
        atomics_64=wide and "shader-int64-atomic-all-ops" in features,
        float_atomics="shader-float32-atomic" in features,
        coherent="memory-decoration-coherent" in features and info["backend_type"] == "Vulkan",
        runs_on=info["vendor_id"] == NVIDIA,
        diverges="subgroup-barrier" in features and not processor,
        **asdict(undefined.seen(number, info["backend_type"] == "Vulkan")),
        buffers=limits["max-storage-buffers-per-shader-stage"],
        shared_bytes=limits["max-compute-workgroup-storage-size"],
    )


def describe(device: Any, dialect: WGSL) -> DeviceInfo:
    """Return the device description."""
    limits, info = device.limits, device.adapter.info
    # Without 64-bit integers, 32-bit ones replace them, which suffice for sizes only.
    computed = {dtype for dtype in dialect.types if dialect.wide or dtype is not int64}
    units = min(limits["max-compute-invocations-per-workgroup"], _UNITS)
    x, y, z = (limits[f"max-compute-workgroup-size-{axis}"] for axis in "xyz")
    most = most_seen(device)
    return DeviceInfo(
        description=f"{info['device']} ({info['backend_type']})",
        dtypes=frozenset(computed),
        features=dialect.features,
        vector_bytes=16,
        max_units=units,
        max_cube=(min(x, units), min(y, units), min(z, units)),
        planes=(dialect.lanes,),
        registers=_REGISTERS.get(info["vendor_id"], 0),
        # All cubes of a core have as much on an H200, which is what plans assume.
        shared_bytes=dialect.shared_bytes,
        shared_word=4,
        # Numbers share one buffer, so counting them with the buffers errs towards fewer. Each
        # buffer costs time: the device 25 ns on an H200.
        arguments=min(256, dialect.buffers - dialect.limited),
        # A kernel has a body for each buffer that a number chooses.
        choices=32,
        launch_ns=_LAUNCH_NS if info["vendor_id"] == NVIDIA else 0,
        cores=_CORES.get(info["adapter_type"], os.cpu_count() or 1),
        caches=(1 << 17,),
        max_cubes=(2**31 - 1, MOST_CUBES, MOST_CUBES),
        # A binding begins at the last aligned place before a value.
        max_buffer_bytes=min(most - ALIGN, limits["max-buffer-size"]),
        max_seen_bytes=most,
        flushes=dialect.flushes,
        align=max(64, limits["min-storage-buffer-offset-alignment"]),
        native={"driver": info["description"], "wgpu": wgpu.__version__},
    )
