"""A function that computes in one dtype, or gives another one, is found in the others."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place

WRONG = [
    ("calor_special", "i0", "float64"),
    ("calor_numerics", "cbrt", "float64"),
    ("calor_special", "digamma", "float64"),
    ("calor_nn.functional", "mish", "float64"),
    ("calor_nn.functional", "conv2d", "float64"),
]


@pytest.mark.parametrize(("package", "name", "dtype"), WRONG)
def test_digits_that_are_lost_are_found(
    package: str, name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, device = import_module(package), get_device("numpy")
    check, function = suite.checks()[f"functions/{package}.{name}/{dtype}"], getattr(module, name)

    def narrow(*given: Any, **options: Any) -> Any:
        made = function(*given, **options)
        return made.astype(calor.float32).astype(made.dtype)

    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(module, name, narrow)
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


def test_another_dtype_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    halves = [
        name
        for name in suite.checks()
        if name.startswith("functions/calor_special.") and name.endswith(("float16", "bfloat16"))
    ]
    name = halves[0]
    module, device = import_module("calor_special"), get_device("numpy")
    own = name.split(".")[1].split("/")[0].split("-")[0]
    function = getattr(module, own)
    with calor.device("numpy"):
        suite.checks()[name].run(Place(device, device))
        monkeypatch.setattr(module, own, lambda *x: function(*x).astype(calor.float64))
        with pytest.raises(AssertionError, match="dtype"):
            suite.checks()[name].run(Place(device, device))


def test_the_angle_of_a_negative_number_has_all_digits_of_its_dtype() -> None:
    made = calor.angle(calor.asarray(np.array([-1.0, 2.0])))
    assert made.tolist() == [np.pi, 0.0]
    assert calor.angle(calor.asarray(np.float16(-1))).dtype is calor.float16
