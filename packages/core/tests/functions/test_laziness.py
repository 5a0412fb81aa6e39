"""Functions record and do not look; numbers are inputs, so another one makes no other plan."""

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.recording import trace

X = calor.asarray([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])

# Functions that must look, because the shape of the result depends on the elements.
LOOKING: dict[str, Callable[[Any], Any]] = {
    "argwhere": lambda x: calor.argwhere(x),
    "nonzero": lambda x: calor.nonzero(x),
    "repeat": lambda x: calor.repeat(x, calor.asarray([1, 2]), axis=0),
    "unique_all": lambda x: calor.unique_all(x),
    "unique_values": lambda x: calor.unique_values(x),
    "array_equal": lambda x: calor.array_equal(x, x),
    "allclose": lambda x: calor.allclose(x, x),
}
LAZY: dict[str, Callable[[Any], Any]] = {
    "arange": lambda x: calor.arange(3.0) + x,
    "argsort": lambda x: calor.argsort(x),
    "bincount": lambda x: calor.bincount(calor.astype(x, "int64"), length=7),
    "clip": lambda x: calor.clip(x, 2, 5),
    "concat": lambda x: calor.concat([x, x]),
    "count_nonzero": lambda x: calor.count_nonzero(x),
    "diff": lambda x: calor.diff(x),
    "isin": lambda x: calor.isin(x, x),
    "linspace": lambda x: calor.linspace(0, 1, 3) + x,
    "logsumexp": lambda x: calor.logsumexp(x, axis=1),
    "nan_to_num": lambda x: calor.nan_to_num(x),
    "pad": lambda x: calor.pad(x, 1, mode="reflect"),
    "quantile": lambda x: calor.quantile(x, 0.3, axis=1),
    "repeat": lambda x: calor.repeat(x, 2),
    "roll": lambda x: calor.roll(x, 1, axis=1),
    "searchsorted": lambda x: calor.searchsorted(calor.asarray([1.0, 2.0]), x),
    "sort": lambda x: calor.sort(x),
    "std": lambda x: calor.std(x, axis=0),
    "take": lambda x: calor.take(x, calor.asarray([0, 1]), axis=1),
    "topk": lambda x: calor.topk(x, 2),
    "tril": lambda x: calor.tril(x),
    "unfold": lambda x: calor.unfold(x, axis=1, size=2),
    "where": lambda x: calor.where(x > 2, x, 0),
}


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    flush = trace.flush

    def counted(pending: Any) -> None:
        seen.append(pending)
        flush(pending)

    monkeypatch.setattr(trace, "flush", counted)
    return seen


@pytest.mark.parametrize("name", LAZY)
def test_does_not_look(name: str, flushes: list[Any]) -> None:
    result = LAZY[name](X + 0)
    assert not flushes
    del result


@pytest.mark.parametrize("name", LOOKING)
def test_looks(name: str, flushes: list[Any]) -> None:
    LOOKING[name](X + 0)
    assert flushes


NUMBERS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "arange": (lambda n: calor.arange(n, n + 3), 2, 5),
    "clip": (lambda n: calor.clip(X, n, n + 1), 2.0, 3.5),
    "eye": (lambda n: calor.eye(3, k=n), 1, 2),
    "full": (lambda n: calor.full((3,), n), 2.0, 3.0),
    "linspace": (lambda n: calor.linspace(n, n + 2, 4), 1.0, 5.0),
    "pad": (lambda n: calor.pad(X, 1, value=n), 2.0, 3.0),
    "quantile": (lambda n: calor.quantile(X, n), 0.25, 0.5),
    "roll": (lambda n: calor.roll(X, n, axis=1), 1, 2),
    "round": (lambda n: calor.round(X / 3, decimals=n), 1, 2),
    "tril": (lambda n: calor.tril(X, k=n), 1, -1),
    "where": (lambda n: calor.where(n < X, X, n), 2.0, 4.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_another_number_makes_no_other_plan(name: str) -> None:
    function, first, second = NUMBERS[name]
    # What a test before has left pending would be part of the first plan; a look takes it along.
    (X + 0).tolist()
    before = function(first).tolist()
    made = X.device.plans_made
    after = function(second).tolist()
    assert X.device.plans_made == made
    assert after != before
