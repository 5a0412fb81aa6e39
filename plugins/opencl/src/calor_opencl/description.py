"""The description of an OpenCL device: dialect, compiler options, and DeviceInfo.

Requirements: all of it is read from the driver; features that the driver does not list are not
used.
"""

from __future__ import annotations

from typing import Any, Final

import pyopencl as cl

from calor.dtypes import ALL, bfloat16, float16, float64
from calor_kernel.contract.info import DeviceInfo
from calor_opencl.opencl_c import OpenCLC

from ._bindings import capability, has

_UNITS: Final = 1024  # limit of units in a cube: beyond it, registers are too few
_CACHE: Final = 1 << 17
# Plane sizes of the dialect's subgroups; every device with a selectable size has 16 and 32.
_PLANES: Final = {"": (1,), "ptx": (32,), "khr": (16, 32), "intel": (16, 32)}
# With twice the accumulators, NVIDIA's compiler was seen to generate slower products.
_ACCUMULATORS: Final = {"ptx": 64}

# The first compute capabilities of NVIDIA's with fences that release and acquire, with asynchronous
# copies, and with instructions for extremes of floats and for rounding to bfloat16.
_FENCES, _COPIES, _EXTREMES = 7, 8, 8

# Shared memory of a core by NVIDIA's compute capability, the least of those of a major number: a
# driver tells only how much of it a cube may have.
_CORE_SHARED: Final = {7: 64 << 10, 8: 100 << 10, 9: 228 << 10, 10: 228 << 10}


def language(device: Any, subgroups: str = "") -> tuple[OpenCLC, str]:
    """Return the dialect of a device and the options of its compiler.

    ``subgroups`` overrides the dialect's if the device lists none.
    """
    single = device.single_fp_config
    exact = bool(single & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)
    extended = has(device, "cl_intel_required_subgroup_size")
    if extended:
        if has(device, "cl_khr_subgroup_shuffle"):
            subgroups = "khr"
        elif has(device, "cl_intel_subgroups"):
            subgroups = "intel"
    version = float(device.opencl_c_version.split()[2])
    dialect = OpenCLC(
        half=has(device, "cl_khr_fp16"),
        double=has(device, "cl_khr_fp64"),
        fast_fma=bool(single & cl.device_fp_config.FMA),
        exact_sqrt=exact,
        subgroups=subgroups,
        dot=has(device, "cl_khr_integer_dot_product"),
        fences=subgroups == "ptx" and capability(device) >= _FENCES,
        copies=subgroups == "ptx" and capability(device) >= _COPIES,
        extremes=subgroups == "ptx" and capability(device) >= _EXTREMES,
    )
    options = ["-cl-fp32-correctly-rounded-divide-sqrt"] if exact else []
    if extended and subgroups and version >= 2.0:
        options.append(f"-cl-std=CL{min(version, 3.0):.1f}")
    return dialect, " ".join(options)


# Buffers among which a number chooses. The compiler for an H200 takes 0.7 s for the joined updates
# of 32 tensors, and 6.7 s for those of 70.
_CHOICES: Final = 32
# Between launches that wait for each other, on an H200.
_LAUNCH_NS: Final = 1670


def describe(device: Any, dialect: OpenCLC) -> DeviceInfo:
    """Return the device description."""
    units = min(device.max_work_group_size, _UNITS)
    wide = has(device, "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
    optional = {
        "barrier": units > 1,
        "atomics_64": wide,
        "fma": dialect.fast_fma,
        "dot_8": dialect.dot,
        "planes": bool(dialect.subgroups),
        # NVIDIA's cubes run until they end, whatever language their kernel was written in.
        "forward_progress": dialect.fences,
        "together": dialect.fences,
        # And barriers count the units that have not ended.
        "early_exit": dialect.subgroups == "ptx",
        "async_copy": dialect.copies,
    }
    features = {
        "print",
        "atomics",
        "float_atomics",
        "pointers",
        *(f for f, has in optional.items() if has),
    }
    computed = {t for t in ALL if t.kind in ("bool", "int", "uint", "float")} - {bfloat16}
    computed -= {t for t in (float16, float64) if not dialect.computes(t)}
    x, y, z = (min(n, units) for n in device.max_work_item_sizes[:3])
    return DeviceInfo(
        description=f"{device.name.strip()} ({device.platform.name})",
        dtypes=frozenset(computed),
        features=frozenset(features),
        vector_bytes=max(16, 4 * device.preferred_vector_width_float),
        max_units=units,
        max_cube=(x, y, z),
        planes=_PLANES[dialect.subgroups],
        accumulators=_ACCUMULATORS.get(dialect.subgroups, 0),
        shared_bytes=device.local_mem_size,
        core_shared_bytes=_CORE_SHARED.get(capability(device), 0),
        cores=device.max_compute_units,
        caches=(device.global_mem_cache_size or _CACHE,),
        memory_bytes=device.global_mem_size,
        max_buffer_bytes=device.max_mem_alloc_size,
        align=max(64, device.mem_base_addr_align // 8),
        # A buffer takes a pointer and an offset, of 8 bytes each.
        arguments=device.max_parameter_size // 16,
        choices=_CHOICES,
        launch_ns=_LAUNCH_NS if dialect.subgroups == "ptx" else 0,
        native={"version": device.version, "driver": device.driver_version},
    )
