"""Functions of packages beside calor are asked, and wrong ones are found."""

from __future__ import annotations

from importlib import import_module

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


WRONG = [
    *(("calor_numerics", name) for name in ("nanvar", "segment_max", "cdist", "ptp", "average")),
    *(("calor_nn.functional", name) for name in (
        "nll_loss", "cross_entropy", "local_response_norm", "kl_div", "max_pool1d")),
    *(("calor_special", name) for name in ("i0", "digamma", "zeta", "gammainc", "betaln")),
    *(("calor_linalg", name) for name in ("vector_norm", "matrix_norm", "trace", "expm", "solve")),
]  # fmt: skip


@pytest.mark.parametrize(("package", "name"), WRONG)
def test_a_wrong_number_is_found(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, device = import_module(package), get_device("numpy")
    function, check = getattr(module, name), suite.checks()[f"functions/{package}.{name}"]
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(module, name, lambda *x, **more: function(*x, **more) * 1.01)
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_a_package_that_is_missing_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "find_spec", lambda name: None)
    assert layers.installed() == {}
