"""A device beside the current one, for tests of what is computed where its operands are."""

from functools import cache

from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend


class _Other(NumpyBackend):
    """The reference under another name."""

    name = "other"


@cache
def other_device() -> Device:
    """Return a device that is not the current one, and computes as the reference does."""
    return device_of(_Other(), 0)
