"""The state of wgpu's adapters and drivers, for ``python -m calor doctor``.

Requirements: those of calor_kernel.device.diagnosis. The checks import wgpu, which loads the
drivers, so a failure of the import is one row.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Final

from calor_kernel.device.diagnosis import Row, found, package

INSTALL: Final = "pip install wgpu brings it"
DRIVER: Final = (
    "there is none of Vulkan, Metal or Direct3D 12: a GPU's comes from its vendor, and `apt-get "
    "install mesa-vulkan-drivers libvulkan1` makes the processor a device"
)
# WebGPU features that kernels need, and the types and operations that they enable.
_WANTED: Final = {
    "shader-int64": "integers of 64 bits",
    "shader-f64": "float64",
    "subgroup": "exchange within planes",
    "timestamp-query": "times of kernels",
}


def diagnosis() -> list[Row]:
    """Return rows of components and their state."""
    rows = found([("wgpu", lambda: package("wgpu", INSTALL)), ("drivers", _drivers)])
    try:
        from ._bindings import adapters

        there = adapters()
    except Exception:
        # The check of drivers reports it.
        return rows
    return rows + found((f"wgpu:{i}", partial(_adapter, a)) for i, a in enumerate(there))


def _drivers() -> str:
    """Return the drivers of the used adapters, and advice if there is none."""
    from ._bindings import adapters

    names = dict.fromkeys(f"{a.info['backend_type']} ({a.info['description']})" for a in adapters())
    if names:
        return ", ".join(names)
    wanted = os.environ.get("CALOR_WGPU_ADAPTER", "")
    return f"CALOR_WGPU_ADAPTER leaves out all but {wanted!r}, or {DRIVER}" if wanted else DRIVER


def _adapter(adapter: Any) -> str:
    """Return an adapter's name and driver, and the features that it lacks."""
    lacks = [what for name, what in _WANTED.items() if name not in adapter.features]
    told = f"{adapter.info['device']}, {adapter.info['backend_type']}"
    return f"{told}, without {', '.join(lacks)}" if lacks else told
