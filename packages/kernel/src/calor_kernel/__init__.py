"""Kernels written once in Python, for every device: language, library, planner and runtime."""

from __future__ import annotations

from typing import Any

__all__ = ["memory", "peak", "profile", "trim"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that a device which only prints kernels loads no runtime."""
    if name == "profile":
        from calor_kernel.runtime.profile import profile

        return profile
    if name == "peak":
        from calor_kernel.runtime.peak import peak

        return peak
    if name in ("memory", "trim"):
        from calor_kernel.runtime import backend

        return getattr(backend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
