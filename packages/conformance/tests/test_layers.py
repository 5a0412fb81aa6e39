"""Functions of packages beside calor are asked, and wrong ones are found."""

from __future__ import annotations

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place
from calor_conformance.rows.functions import layers


def test_every_function_has_a_row_or_a_reason() -> None:
    assert layers.unnamed() == []


def test_reasons_are_those_of_functions_without_a_row() -> None:
    rows = {f"{name}.{row.name}" for name, rows in layers.installed().items() for row in rows}
    assert not rows & set(layers.REASONS)


@pytest.mark.parametrize("name", ["nanvar", "kthvalue", "segment_max", "cdist"])
def test_a_wrong_number_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import calor_numerics

    function, device = getattr(calor_numerics, name), get_device("numpy")
    check = suite.checks()[f"functions/calor_numerics.{name}"]

    def nearly(*given: object, **options: object) -> object:
        made = function(*given, **options)
        if not isinstance(made, calor.Tensor):
            return type(made)(made.values * 1.01, made.indices)
        return made * 1.01

    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(calor_numerics, name, nearly)
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_a_package_that_is_missing_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "find_spec", lambda name: None)
    assert layers.installed() == {}
