"""Members for routers that take some operations, in some dtypes, with some memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from calor.backends.device import Device, device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import FULL, Info
from calor.dtypes import ALL
from calor_router import options, placement
from calor_router.backend import RouterBackend
from calor_router.speeds import Speeds, measure

PRODUCTS = ("dot_general", "conv", "reshape", "permute", "expand")


class Toy(NumpyBackend):
    """A device that takes some ops, in some dtypes."""

    def __init__(self, name: str, takes: Collection[str] | None, dtypes: Collection[Any]) -> None:
        super().__init__()
        self.name = name
        self.takes = takes
        self._info = Info(name, dict.fromkeys(dtypes, FULL), {"in_place": FULL})

    def table(self, index: int) -> Mapping[str, Any]:
        known = super().table(index)
        return known if self.takes is None else {n: known[n] for n in self.takes if n in known}

    def info(self, index: int) -> Info:
        return self._info


def toy(name: str, takes: Collection[str] | None = None, dtypes: Collection[Any] = ALL) -> Device:
    return device_of(Toy(name, takes, dtypes), 0)


def routed(*members: Device, limits: tuple[int | None, ...] = ()) -> Device:
    if any(limits):
        # As for routers by name: measured within the limits.
        measure(members, limits)
    return RouterBackend(members, limits).device


def with_costs(
    monkeypatch: pytest.MonkeyPatch, speeds: Mapping[str, Speeds], move: tuple[float, float]
) -> None:
    monkeypatch.setattr(placement, "speeds_of", lambda device: speeds[device.backend.name])
    monkeypatch.setattr(placement, "transfer", lambda source, target: move)
    # No trial, which would tell the speeds that these stand for.
    monkeypatch.setattr(options, "_can_be_tried", lambda found: False)
