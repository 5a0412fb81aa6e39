"""Drawn programs of parts and arithmetic: the reference is right, and what is wrong is found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calor.backends.device import device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.graph.graph import Graph
from calor.plugins.discovery import get_device
from calor_conformance import outcomes
from calor_conformance.checks.base import Check, Place
from calor_conformance.checks.drawn_programs import drawn_programs

CHECKS = {check.name: check for check in drawn_programs()}
_numbers = itertools.count()


class Crowded(NumpyBackend):
    """The reference with an op that is wrong in graphs that have it several times."""

    def __init__(self, op: str, wrong: Callable[..., Any]) -> None:
        super().__init__()
        self.name = f"crowded{next(_numbers)}"
        self._op, self._wrong = op, wrong
        self._crowded = False

    def table(self, index: int) -> Any:
        return {**super().table(index), **({self._op: self._wrong} if self._crowded else {})}

    def compile(self, index: int, graph: Graph) -> Any:
        self._crowded = sum(node.op.name == self._op for node in graph.nodes) > 3
        return super().compile(index, graph)


def _places(seed: int, check: Check, backend: NumpyBackend | None = None) -> outcomes.Result:
    device = get_device("numpy") if backend is None else device_of(backend, 0)
    return outcomes.run(check, Place(device, device, seed))


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("seed", range(4))
def test_the_reference_is_right(name: str, seed: int) -> None:
    result = _places(seed, CHECKS[name])
    assert result.outcome == "passed", result.detail


def _next_part(x: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
    """A part that begins twice as far, where that is within the array."""
    ends = [stop - start for start, stop in zip(starts, stops, strict=True)]
    far = [min(2 * s, n - e) for s, e, n in zip(starts, ends, np.shape(x), strict=True)]
    return x[tuple(slice(f, f + e, k) for f, e, k in zip(far, ends, steps, strict=True))]


WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "parts": ("slice", _next_part),
    "signs": ("neg", lambda x: np.asarray(-x + (np.real(x) == 2), x.dtype)),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", CHECKS)
def test_what_is_wrong_in_large_programs_is_found(name: str, wrong: str) -> None:
    found = [_places(seed, CHECKS[name], Crowded(*WRONG[wrong])) for seed in range(4)]
    assert "failed" in [result.outcome for result in found]
    told = next(result.detail for result in found if result.outcome == "failed")
    assert "of seed" in told
