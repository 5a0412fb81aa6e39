"""Checks of tensors as values of Python and NumPy fail where an operator or a protocol is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.methods import numpy_functions
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place

WRONG: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "operators": (calor.Tensor, "__rsub__", lambda self, other: self - other),
    "operators-in-place": (calor.Tensor, "__imul__", lambda self, other: self * other),
    "operators-matmul": (calor.Tensor, "__rmatmul__", lambda self, other: self @ other),
    "operators-of-one": (calor.Tensor, "__neg__", lambda self: self * 1),
    "as-numbers": (calor.Tensor, "__int__", lambda self: round(self.item()) + 1),
    "as-other-dtypes": (calor.Tensor, "long", lambda self: self.int()),
    "asked-dtypes": (
        calor.Tensor,
        "prod",
        lambda self, axis=None, **_: calor.prod(self, axis=axis),
    ),
    "numpy-ufuncs": (numpy_functions, "UFUNCS", {**numpy_functions.UFUNCS, "fmod": "remainder"}),
    "numpy-functions": (
        numpy_functions,
        "FUNCTIONS",
        {**numpy_functions.FUNCTIONS, "numpy.amin": "max"},
    ),
    "numpy-writes": (calor.Tensor, "__array__", lambda self, *_, **__: self.numpy(copy=True)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()[f"functions/{name}"], get_device("numpy")
    with calor.device("numpy"):
        check.run(Place(device, device))
        # From Python 3.12 on NumPy asks for the buffer of an object first.
        monkeypatch.delattr(calor.Tensor, "__buffer__", raising=False)
        monkeypatch.setattr(*WRONG[name])
        with pytest.raises(AssertionError):
            check.run(Place(device, device))
