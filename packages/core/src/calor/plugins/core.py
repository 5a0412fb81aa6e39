"""The backends that belong to core, registered by the hooks that every plugin uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from calor.plugins.hooks import hookimpl

if TYPE_CHECKING:
    from calor.backends.device import Device
    from calor.backends.protocol import Backend

# For development rather than for work: not proposed where installed devices are listed.
TOOLS: Final = ("strict", "null")


def _numpy() -> Backend:
    from calor.backends.numpy_backend import NumpyBackend

    return NumpyBackend()


def _null() -> Backend:
    from calor.backends.null import NullBackend

    return NullBackend()


def _strict() -> Backend:
    from calor.backends.strict import open_strict

    return open_strict("strict:").backend


def _strict_over(text: str) -> Device:
    from calor.backends.strict import open_strict

    return open_strict(text)


@hookimpl
def calor_backends() -> Mapping[str, Callable[[], Backend]]:
    """The NumPy reference, and two tools: ``strict`` checks it, ``null`` computes nothing."""
    return {"numpy": _numpy, "strict": _strict, "null": _null}


@hookimpl
def calor_device_schemes() -> Mapping[str, Callable[[str], Device]]:
    """Checks of every call to a device, ``strict:cuda:1``."""
    return {"strict:": _strict_over}


def names() -> set[str]:
    """Return the names that core has for backends and schemes."""
    schemes = calor_device_schemes()
    return {*calor_backends(), *(prefix.partition(":")[0] for prefix in schemes)}
