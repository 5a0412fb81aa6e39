"""The plugin of calor-interpreter: the backend "interpreter". It imports nothing heavy.

``interpreter:0`` is described like a processor, ``interpreter:1`` like a GPU.
"""

from __future__ import annotations

from typing import Any

from calor.plugins import hookimpl


def _backend() -> Any:
    from calor_kernel.runtime.entry import lazy_backend

    return lazy_backend(
        "interpreter", "calor_interpreter", "devices:opened", "devices:count", "devices:diagnosis"
    )


@hookimpl
def calor_backends() -> dict[str, Any]:
    """Return the backend that interprets kernels."""
    return {"interpreter": _backend}
