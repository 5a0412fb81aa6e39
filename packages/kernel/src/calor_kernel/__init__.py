"""Kernels written once in Python, for every device: language, library, planner and runtime."""

from __future__ import annotations

from typing import Any

__all__ = ["profile"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that a device which only prints kernels loads no runtime."""
    if name == "profile":
        from calor_kernel.runtime.profile import profile

        return profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
