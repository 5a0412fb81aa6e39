"""Checks of what modules hold, list, copy and load fail where that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor import nn
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place
from calor_nn.hooks import HookHandle
from calor_nn.loading import load_into
from calor_nn.parametrize import SpectralNorm, WeightNorm

_INSERT = nn.ModuleList.insert


def _alone(self: Any, mode: bool = True) -> Any:
    self.__dict__["training"] = mode
    return self


def _in_order(self: Any, function: Callable[[Any], Any]) -> Any:
    for module in self.modules():
        function(module)
    return self


def _lax(self: Any, state: Any, *, strict: bool = True) -> Any:
    return load_into(self, state, strict=False)


WRONG: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "Module-tree": (nn.Module, "apply", _in_order),
    "Module-modes": (nn.Module, "train", _alone),
    "Module-copies": (
        nn.Module,
        "state_dict",
        lambda self: dict(self.named_parameters()),
    ),
    "load_state_dict": (nn.Module, "load_state_dict", _lax),
    "ModuleList": (nn.ModuleList, "insert", lambda self, at, one: _INSERT(self, abs(at), one)),
    "ModuleDict": (nn.ModuleDict, "__contains__", lambda self, name: True),
    "hooks": (HookHandle, "remove", lambda self: None),
    "parametrize": (WeightNorm, "forward", lambda self, g, v: v * g),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_module_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()[f"functions/calor_nn.{name}"], get_device("numpy")
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(*WRONG[name])
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_an_estimate_that_does_not_follow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()["functions/calor_nn.parametrize"], get_device("numpy")
    monkeypatch.setattr(SpectralNorm, "forward", lambda self, weight: weight * 0.5)
    with calor.device("numpy"), pytest.raises(AssertionError, match="singular value"):
        check.run(Place(device, device))
