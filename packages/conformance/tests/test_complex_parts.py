"""Complex numbers with odd parts: the reference is right, and parts that are mixed are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor.backends.device import device_of
from calor_conformance import outcomes
from calor_conformance.checks.base import Place
from calor_conformance.checks.complex_parts import complex_parts
from calor_conformance.faults.base import Broken, afterwards, changing


def failed(backend: Any) -> set[str]:
    place = Place(device_of(backend, 0), device_of(backend, 0))
    found = [outcomes.run(check, place) for check in complex_parts()]
    return {r.name.split("-")[-1].partition("/")[0] for r in found if r.outcome == "failed"}


def _mixed(made: Any, given: Any, attributes: Any) -> Any:
    """NaN in one part makes the other NaN."""
    return np.where(np.isnan(made), made.dtype.type(complex(np.nan, np.nan)), made)


def _half(made: Any, given: Any, attributes: Any) -> Any:
    """Only the real part is looked at."""
    return np.isnan(np.asarray(given[0]).real)


@pytest.mark.parametrize(
    ("op", "change", "name"),
    [("add", _mixed, "add"), ("neg", _mixed, "negative"), ("isnan", _half, "isnan")],
)
def test_parts_that_are_mixed_are_found(op: str, change: Any, name: str) -> None:
    assert name in failed(changing(**{op: afterwards(change)})())


def test_the_reference_passes() -> None:
    assert failed(Broken()) == set()
