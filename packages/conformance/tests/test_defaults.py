"""The table of defaults is that of the interfaces, and a default that changed is found."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

import defaults_table
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks import defaults
from calor_conformance.checks.base import Place


def test_the_table_is_up_to_date() -> None:
    told = "python tools/defaults_table.py writes it anew"
    assert defaults.STORED.read_text("utf-8") == defaults_table.text(), told


@pytest.mark.parametrize(
    ("module", "name", "parameter"),
    [("calor_nn.functional", "dropout", "p"), ("calor_numerics", "trapezoid", "dx")],
)
def test_a_default_that_changed_is_found(
    module: str, name: str, parameter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = inspect.unwrap(getattr(import_module(module), name))
    check, device = suite.checks()[f"functions/defaults-of-{module}"], get_device("numpy")
    check.run(Place(device, device))
    known = inspect.signature(function).parameters[parameter]
    if known.kind is inspect.Parameter.KEYWORD_ONLY:
        monkeypatch.setitem(function.__kwdefaults__, parameter, 0.25)
    else:
        changed = tuple(0.25 if v == known.default else v for v in function.__defaults__)
        monkeypatch.setattr(function, "__defaults__", changed)
    with pytest.raises(AssertionError, match=parameter):
        check.run(Place(device, device))
