"""The state of OpenCL devices and drivers, for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis. The checks import pyopencl, which loads the
drivers, so a failure of the import is one row.
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
# Extensions that kernels need, and their features.
_WANTED: Final = {
    "cl_khr_fp64": "float64",
    "cl_khr_int64_base_atomics": "atomics of 64 bits",
}


def diagnosis() -> list[Row]:
    """Return rows of components and their state."""
    rows = found([("pyopencl", lambda: package("pyopencl", INSTALL)), ("drivers", _drivers)])
    try:
        from ._bindings import devices

        there = devices()
    except Exception:
        # The check of drivers reports it.
        return rows
    return rows + found((f"opencl:{i}", partial(_device, d)) for i, d in enumerate(there))


def _drivers() -> str:
    """Return the platforms, those that are excluded, and advice if there is none."""
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
    """Return a device's name and version, and the features that its driver lacks."""
    lacks = [what for name, what in _WANTED.items() if name not in device.extensions.split()]
    told = f"{device.name.strip()}, {device.opencl_c_version.strip()}"
    return f"{told}, without {', '.join(lacks)}" if lacks else told
