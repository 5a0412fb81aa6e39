"""Users' access to a device's engine and to its allocator.

Requirements: the device is given by name, as everywhere in calor. ``calor.memory`` counts the bytes
of tensors; these functions report the allocator's.
"""

from __future__ import annotations

from typing import Any

from calor.device_selection import as_device, current_device
from calor.errors import UnsupportedError
from calor_kernel.device.pool import PoolFigures
from calor_kernel.runtime.backend import KernelBackend
from calor_kernel.runtime.engine import Engine


def engine_of(device: Any, what: str) -> Engine:
    """Return the engine of a device (None: the current one); UnsupportedError with ``what``."""
    place = current_device() if device is None else as_device(device)
    backend = place.backend
    if not isinstance(backend, KernelBackend):
        raise UnsupportedError(f"{place.name} runs no kernels of calor's, so {what}")
    return backend.engine(place.index)


def memory(device: Any = None) -> PoolFigures:
    """Return the allocator's byte counts for a device (None: the current one).

    ``in_use``: the requested bytes of live buffers, with the maximum ``peak``. ``held``: the device
    memory held, idle memory included, with the maximum ``held_peak``. ``limit``: the limit or None.
    UnsupportedError for a device that does not run kernels.

    >>> import calor, calor_kernel
    >>> kept = calor.ones((1000, 1000), device="cpu") + 1  # doctest: +SKIP
    >>> calor_kernel.memory("cpu")  # doctest: +SKIP
    PoolFigures(in_use=4000000, peak=4000000, held=20971520, held_peak=20971520, limit=None)
    """
    return engine_of(device, "it has no such figures").pool.figures()


def trim(device: Any = None) -> int:
    """Return the allocator's idle memory of a device to the system; return the bytes freed.

    Cached preparations of unchanged operands are freed too, and rebuilt when needed.
    UnsupportedError for a device that does not run kernels.

    >>> import calor_kernel
    >>> calor_kernel.trim("cpu")  # doctest: +SKIP
    16777216
    """
    engine = engine_of(device, "it holds no idle memory")
    engine.device.queue.synchronize()
    before = engine.pool.held
    engine.pool.trim()
    return before - engine.pool.held
