"""The backends that belong to core, registered by the hooks that every plugin uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calor.backends.protocol import Backend
from calor.plugins.hooks import hookimpl

# For development rather than for work: not proposed where installed devices are listed.
TOOLS: Final = ("null",)


def _numpy() -> Backend:
    from calor.backends.numpy_backend import NumpyBackend

    return NumpyBackend()


def _null() -> Backend:
    from calor.backends.null import NullBackend

    return NullBackend()


@hookimpl
def calor_backends() -> Mapping[str, Callable[[], Backend]]:
    """The NumPy reference, and a tool: ``null`` computes nothing."""
    return {"numpy": _numpy, "null": _null}


def names() -> set[str]:
    """Return the names that core has for backends."""
    return {*calor_backends()}
