"""The check of drawn equations finds an einsum that takes labels for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from calor.functions import linear_algebra_einsum as einsums
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place

_WITHOUT_REPEATS, _PARSE = einsums._without_repeats, einsums._parse


@pytest.fixture(autouse=True)
def _forgotten_programs() -> Iterator[None]:
    einsums._PROGRAMS.clear()
    yield
    einsums._PROGRAMS.clear()


def run(seed: int = 0) -> None:
    device = get_device("numpy")
    suite.checks()["functions/drawn-equations"].run(Place(device, device, seed))


def _first_planes(labels: list[Any], x: Any, sizes: dict[Any, int], steps: list[Any]) -> Any:
    """Take the diagonal of squares, and of cubes that of the first plane."""
    made, spec = _WITHOUT_REPEATS(labels, x, sizes, steps)
    if labels and max(map(labels.count, labels)) > 2:
        n, (row, attributes) = spec.shape[-1], steps[-1]
        ends = {"stops": n * n, "steps": n + 1}
        steps[-1] = (row, attributes | {k: (*attributes[k][:-1], v) for k, v in ends.items()})
    return made, spec


def _from_the_end(equation: str, specs: Any) -> Any:
    """Take the labels of an output that is not told in the opposite order."""
    names, out = _PARSE(equation, specs)
    return names, out if "->" in equation else out[::-1]


@pytest.mark.parametrize(
    ("name", "wrong"), [("_without_repeats", _first_planes), ("_parse", _from_the_end)]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wrong_einsum_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any, seed: int
) -> None:
    monkeypatch.setattr(einsums, name, wrong)
    with pytest.raises(AssertionError, match="einsum"):
        run(seed)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equations_mean_what_they_mean_in_numpy(seed: int) -> None:
    run(seed)
