"""The steps of calor without fusers: every op of the graph is launched alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from models.base import Array
from programs.ours import Ours
from programs.setting import Setting


class Unfused(Ours):
    """A step of calor, planned as where no distribution brings a fuser."""

    name = "calor-unfused"

    def __init__(self, setting: Setting, device: str, state: Mapping[str, Array] | None = None):
        from calor.errors import UnsupportedError
        from calor_kernel.runtime.backend import engine_of

        try:
            engine_of(device, "it plans no launches")
        except UnsupportedError as error:
            raise NotImplementedError(str(error)) from error
        super().__init__(setting, device, state)

    def first(self) -> Any:
        """Make the first step, which traces and compiles."""
        with without_fusers(self.device):
            made = super().first()
            self.wait()
        return made


@contextmanager
def without_fusers(name: str) -> Iterator[None]:
    """Plan graphs without fusers that were installed; plans made before stay for afterwards."""
    from calor.device_selection import as_device
    from calor_kernel.runtime.backend import engine_of

    device, engine = as_device(name), engine_of(name, "it has no fusers")
    plans, own, fusers = device.plans, engine.own_fusers, engine.fusers
    device.plans, engine.own_fusers = OrderedDict(), ()
    del engine.fusers
    engine.forget()
    try:
        yield
    finally:
        device.plans, engine.own_fusers, engine.fusers = plans, own, fusers
        engine.forget()
