"""What functions document to refuse is asked for, and a refusal that is lost is found."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, AxisError, DTypeError
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks import documented
from calor_conformance.checks.base import Place

CALLED = {called.label: called for called in documented.every()}


def lost(function: Callable[..., Any], errors: type[Exception]) -> Callable[..., Any]:
    """Return a function that gives its first operand where it should refuse."""

    def call(*given: Any, **options: Any) -> Any:
        try:
            return function(*given, **options)
        except errors:
            return given[0]

    call.__signature__ = documented.inspect.signature(function)  # type: ignore[attr-defined]
    call.__doc__ = function.__doc__
    return call


@pytest.mark.parametrize(
    ("label", "error"),
    [
        ("calor_numerics.cbrt", DTypeError),
        ("calor_numerics.nanmax", AxisError),
        ("calor_nn.functional.mse_loss", ArgumentError),
        ("median", AxisError),
        ("calor_special.i0", DTypeError),
    ],
)
def test_a_lost_refusal_is_found(label: str, error: type[Exception]) -> None:
    called, device = CALLED[label], get_device("numpy")
    wrong = documented.Called(label, lost(called.function, error), called.draw, called.parameters)
    with calor.device("numpy"):
        documented._run(called, Place(device, device))
        with pytest.raises(AssertionError, match=error.__name__):
            documented._run(wrong, Place(device, device))


def test_an_operand_that_must_be_a_tensor_is_found() -> None:
    called, device = CALLED["calor_numerics.fmax"], get_device("numpy")

    def call(x1: Any, x2: Any, /) -> Any:
        made = called.function(x1, x2)
        return made if isinstance(x2, calor.Tensor) else made + 1

    call.__annotations__ = {"x1": "Operand", "x2": "Operand"}
    wrong = documented.Called(called.label, call, called.draw, ("x1", "x2"))
    with calor.device("numpy"), pytest.raises(AssertionError, match="as an array"):
        documented._run(wrong, Place(device, device))


def test_sentences_are_read() -> None:
    said = documented.raises(import_module("calor_numerics").cbrt)
    assert said == {"DTypeError": ("If ``x`` is complex or float8.",)}
    names = [name for name in suite.checks() if name.startswith("refusals/documented-")]
    assert len(names) > 300


@pytest.mark.parametrize("name", ["nanmean", "nanstd", "cbrt", "rad2deg", "unwrap", "float_power"])
def test_float8_is_refused_as_documented(name: str) -> None:
    narrow = calor.asarray(np.ones(3, np.float32)).astype(calor.dtypes.float8_e5m2)
    function = getattr(import_module("calor_numerics"), name)
    with pytest.raises(DTypeError, match="cast"):
        function(*[narrow] * (1 + (name == "float_power")))
    with pytest.raises(DTypeError, match="cast"):
        calor.logsumexp(narrow)
