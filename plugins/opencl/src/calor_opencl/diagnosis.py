"""What there is, and what is missing, on the way to OpenCL devices: for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis; pyopencl, which loads the drivers, is
imported by the looks, so that one says it when that fails.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Final

from calor_kernel.device.diagnosis import Row, found, package

INSTALL: Final = "pip install pyopencl brings it"
DRIVER: Final = (
    "there is none: a GPU's comes from its vendor, and `apt-get install pocl-opencl-icd` makes the "
    "processor a device; they are listed in /etc/OpenCL/vendors, or where OCL_ICD_VENDORS says"
)
# What kernels do not compute without an extension.
_WANTED: Final = {
    "cl_khr_fp64": "float64",
    "cl_khr_int64_base_atomics": "atomics of 64 bits",
}


def diagnosis() -> list[Row]:
    """Return rows of what was looked for and what was found."""
    rows = found([("pyopencl", lambda: package("pyopencl", INSTALL)), ("drivers", _drivers)])
    try:
        from ._bindings import devices

        there = devices()
    except Exception:
        # The look for drivers says it.
        return rows
    return rows + found((f"opencl:{i}", partial(_device, d)) for i, d in enumerate(there))


def _drivers() -> str:
    """Return the platforms, which of them are left out, and what to do where there is none."""
    import pyopencl as cl

    try:
        platforms = cl.get_platforms()
    except cl.Error:
        return DRIVER
    wanted = os.environ.get("CALOR_OPENCL_PLATFORM", "").lower()
    names = [f"{p.name} ({p.version.strip()})" for p in platforms]
    left = [p.name for p in platforms if wanted not in p.name.lower()]
    told = ", ".join(names) or DRIVER
    return f"{told}; CALOR_OPENCL_PLATFORM leaves out {', '.join(left)}" if left else told


def _device(device: Any) -> str:
    """Return a device's name and version, and what its driver lacks."""
    lacks = [what for name, what in _WANTED.items() if name not in device.extensions.split()]
    told = f"{device.name.strip()}, {device.opencl_c_version.strip()}"
    return f"{told}, without {', '.join(lacks)}" if lacks else told
