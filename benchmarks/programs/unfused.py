"""The steps of calor without fusers: every op of the graph is launched alone.

Requirements: a plan that serves several sizes makes way for one of its own after some calls, so an
engine without fusers plans every call of these steps, not the first one alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.base import Array
from programs.ours import Ours
from programs.setting import Setting


class Unfused(Ours):
    """A step of calor, planned as where no distribution brings a fuser."""

    name = "calor-unfused"

    def __init__(self, setting: Setting, device: str, state: Mapping[str, Array] | None = None):
        super().__init__(setting, without_fusers(device), state)


def without_fusers(name: str) -> Any:
    """Return a device that shares the memory and the queue of another, and has no fusers.

    Raises
    ------
    NotImplementedError
        If the device plans no launches.
    """
    from calor.backends.device import device_of
    from calor.errors import UnsupportedError
    from calor_kernel.runtime.backend import KernelBackend, engine_of

    try:
        shared = engine_of(name, "it plans no launches").device
    except UnsupportedError as error:
        raise NotImplementedError(str(error)) from error
    kind = name.partition(":")[0]
    return device_of(KernelBackend(f"{kind}-unfused", lambda index: shared, fusers=()), 0)
