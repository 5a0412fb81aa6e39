"""Checks of given devices find functions that forget them."""

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import outcomes, suite
from calor_conformance.checks.base import Place


def failed(name: str) -> str:
    device = get_device("numpy")
    result = outcomes.run(suite.checks()[f"devices/given-{name}"], Place(device, device))
    return result.detail if result.outcome == "failed" else ""


def forgetting(function: Callable[..., Any], option: str) -> Callable[..., Any]:
    def call(*given: Any, **options: Any) -> Any:
        return function(*given, **{k: v for k, v in options.items() if k != option})

    return call


@pytest.mark.parametrize("option", ["device", "dtype"])
def test_layers_and_first_weights_that_forget_an_option_are_found(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(calor.random, "uniform", forgetting(calor.random.uniform, option))
    assert "weight" in failed("layers")
    assert "calor_nn.init" in failed("named-in-calor_nn.init")


def test_a_distribution_that_draws_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calor.random, "normal", forgetting(calor.random.normal, "device"))
    assert "with another current device" in failed("distributions")


def test_without_a_fault_nothing_is_found() -> None:
    for name in ("layers", "distributions", "named-in-calor_nn.init", "files"):
        assert not failed(name)
