"""The engine of a device that a user names, and what its memory holds.

Requirements: what a person asks of a device that runs kernels is asked by the device's name, as
everywhere in calor; ``calor.memory`` counts what tensors use, and here is what the allocator holds.
"""

from __future__ import annotations

from typing import Any

from calor.device_selection import as_device, current_device
from calor.errors import UnsupportedError
from calor_kernel.device.pool import PoolFigures
from calor_kernel.runtime.backend import KernelBackend
from calor_kernel.runtime.engine import Engine


def engine_of(device: Any, what: str) -> Engine:
    """Return the engine of a device (None: the current one); UnsupportedError, which says what."""
    place = current_device() if device is None else as_device(device)
    backend = place.backend
    if not isinstance(backend, KernelBackend):
        raise UnsupportedError(f"{place.name} runs no kernels of calor's, so {what}")
    return backend.engine(place.index)


def memory(device: Any = None) -> PoolFigures:
    """Return what the allocator of a device (the current one) counts, in bytes.

    ``in_use`` by buffers that live, as they were asked for, and ``peak``, the most of that;
    ``held`` of the device's memory, also idle, and ``held_peak``; the ``limit``, or None.
    UnsupportedError for a device that does not run kernels.

    >>> import calor, calor_kernel
    >>> kept = calor.ones((1000, 1000), device="cpu") + 1  # doctest: +SKIP
    >>> calor_kernel.memory("cpu")  # doctest: +SKIP
    PoolFigures(in_use=4000000, peak=4000000, held=20971520, held_peak=20971520, limit=None)
    """
    return engine_of(device, "it has no such figures").pool.figures()


def trim(device: Any = None) -> int:
    """Give what the allocator of a device (the current one) holds idle back; return the bytes.

    What is prepared of operands that stay the same goes too, and is made again when it is needed.
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
