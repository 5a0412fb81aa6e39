"""The deep search draws new cases of every kind, and says how a failure is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

import calor
from calor_conformance import deep, suite
from calor_conformance.checks.base import Check, Place


def _check(kind: str, subject: str, run: Callable[[Place], None]) -> Check:
    return Check(kind, subject, "full", "a contract of a test", run, lambda: subject)


def _found(
    monkeypatch: pytest.MonkeyPatch, *checks: Check, seconds: float = 0.5, seed: int = 1
) -> list[deep.Result]:
    monkeypatch.setattr(suite, "checks", lambda: {c.name: c for c in checks})
    return deep.search(calor.device("numpy"), seconds, seed)


def test_what_draws_meets_a_new_seed_each_time_and_what_does_not_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []
    asked: Counter[str] = Counter()
    drawn = _check("functions", "drawn", lambda place: seeds.append(place.seed))
    same = _check("history", "same", lambda place: asked.update(["same"]))
    found = _found(monkeypatch, drawn, same)
    assert len(seeds) == len(set(seeds)) > 3
    assert asked["same"] == 1
    assert {r.name: r.outcome for r in found} == {d.name: "passed" for d in (drawn, same)}
    assert _count(found, drawn) == len(seeds)


def _count(found: list[deep.Result], check: Check) -> int:
    (detail,) = (r.detail for r in found if r.name == check.name)
    return int(detail.partition(" ")[0])


def test_a_failure_ends_its_row_and_tells_how_it_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []

    def run(place: Place) -> None:
        seeds.append(place.seed)
        assert len(seeds) < 3, "wrong"

    found = _found(monkeypatch, _check("functions", "odd", run), seconds=60)
    assert [r.outcome for r in found] == ["failed"]
    assert found[0].detail.endswith(f"Again: --only 'functions/odd' --seed {seeds[-1]}")


def test_kinds_take_turns_by_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []

    def run(place: Place, kind: str) -> None:
        assert place.seed >= 0
        turns.append(kind)
        assert turns.count("state") < 9, "the end"

    kinds = ("values", "state")
    checks = [
        _check(kind, f"{n}", lambda place, kind=kind: run(place, kind))
        for kind in kinds
        for n in range(3 if kind == "state" else 150)
    ]
    _found(monkeypatch, *checks, seconds=60)
    assert turns[:106].count("values") in (100, 102, 103)


def test_a_seed_draws_the_same_cases_again(monkeypatch: pytest.MonkeyPatch) -> None:
    every: list[list[int]] = []
    for _ in range(2):
        seeds: list[int] = []

        def run(place: Place, seeds: list[int] = seeds) -> None:
            seeds.append(place.seed)
            assert len(seeds) < 5, "the end"

        _found(monkeypatch, _check("functions", "some", run), seconds=60, seed=7)
        every.append(seeds)
    assert every[0] == every[1]
