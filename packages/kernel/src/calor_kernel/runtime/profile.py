"""Profiles of devices that run kernels; ``calor.profile`` is for every device."""

from __future__ import annotations

from typing import Any

from calor.profiling import Profile
from calor.profiling import profile as profile_of
from calor_kernel.runtime.backend import engine_of


def profile(device: Any = None) -> Profile:
    """Return a profile of a device's launches; UnsupportedError if it does not run kernels.

    >>> import calor, calor_kernel
    >>> with calor_kernel.profile("cpu") as p:  # doctest: +SKIP
    ...     calor.eval(calor.exp(calor.ones((1000, 1000), device="cpu")))
    >>> print(p.table())  # doctest: +SKIP
    """
    engine_of(device, "they have no profile")
    return profile_of(device)
