"""The checks of numbers in transforms pass on the reference, and find what each is about."""

from __future__ import annotations

from typing import Any

import pytest

from calor import dtypes
from calor.functions import creation
from calor.transforms import forward, grad
from calor_conformance.checks.numbers_in_transforms import numbers_in_transforms
from reference_failures import failures

NAMES = [check.name for check in numbers_in_transforms()]


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name) == []


@pytest.mark.parametrize("name", NAMES[::5])
def test_numbers_that_keep_the_dtype_of_a_trace_are_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dtypes, "default_of", lambda dtype: dtype)
    assert failures(name)


def test_numbers_that_are_differentiated_as_weak_ones_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = grad.from_number

    def weak(leaf: Any) -> Any:
        return leaf if grad.is_weak(leaf) else right(leaf)

    monkeypatch.setattr(grad, "from_number", weak)
    assert failures("transforms/numbers-in-grad")


def test_tangents_of_numbers_that_do_not_move_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "is_weak", lambda y: False)
    assert failures("transforms/numbers-in-linearize")


def test_functions_that_keep_the_dtype_of_a_trace_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(creation.dtypes, "default_of", lambda dtype: dtypes.float64)
    assert failures("transforms/numbers-of-functions")
