"""Recorded calls: their arguments are those drawn, and what differs from the record is told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place
from calor_conformance.checks.recorded_calls import difference
from calor_conformance.rows.recorded.results import MOST, Outcome, flat, folded, mark, outcome
from calor_conformance.rows.recorded.store import Recorded, read, write
from calor_conformance.rows.recorded.subjects import subjects
from calor_conformance.rows.recorded.variations import arguments

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import recorded_calls


def test_arguments_are_those_of_the_record() -> None:
    known, told = subjects(), "python tools/recorded_calls.py --only LABEL records a function anew"
    assert not set(read()) - set(known), told
    for label, calls in read().items():
        given = arguments(known[label], calls[0].number)
        assert given is not None, f"{label}: {told}"
        assert mark(given) == calls[0].mark, f"{label}: {told}"


def test_most_functions_have_records() -> None:
    missing = [label for label in subjects() if label not in read()]
    assert len(missing) < 0.02 * len(subjects()), missing


# A module, a function that others there call, and a subject that comes to it.
WRONG = [
    ("calor_numerics.averages", "quantile", "calor_numerics.percentile"),
    ("calor_numerics.products", "_lengths", "calor_numerics.cdist"),
    ("calor_nn.functional.activation", "hard_tanh", "calor_nn.functional.relu6"),
]


@pytest.mark.parametrize(("module", "name", "label"), WRONG)
def test_numbers_that_are_a_little_off_are_found(
    module: str, name: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, device = suite.checks()[f"functions/recorded-{label}"], get_device("numpy")
    with calor.device("numpy"):
        check.run(Place(device, device))
    function = getattr(sys.modules[module], name)
    monkeypatch.setattr(
        sys.modules[module], name, lambda *given, **options: function(*given, **options) * 1.001
    )
    with calor.device("numpy"), pytest.raises(AssertionError, match="of the results"):
        check.run(Place(device, device))


def test_numbers_kinds_and_errors_that_differ_are_told() -> None:
    values = np.array([1.0, np.nan, np.inf])
    want = Recorded(0, 0, False, ("float32(3,)",), values, np.array([1e-6, 0.0, 0.0]))
    assert not difference(Outcome(("float32(3,)",), values), want)
    near = Outcome(("float32(3,)",), values + np.array([5e-7, 0, 0]))
    assert not difference(near, want)
    for other in ([1.1, np.nan, np.inf], [1.0, 0.0, np.inf], [1.0, np.nan, -np.inf]):
        assert "not" in difference(Outcome(("float32(3,)",), np.array(other)), want)
    assert difference(Outcome(("AxisError",), np.zeros(0)), want) == "AxisError, not float32(3,)"


def test_long_results_are_kept_by_sums_in_which_each_element_counts() -> None:
    line = np.random.default_rng(0).normal(size=5 * MOST + 3)
    kept = folded(line)
    assert kept.shape == (MOST,)
    for at, value in ((0, 0.25), (MOST + 1, np.nan), (5 * MOST + 2, -np.inf)):
        other = line.copy()
        other[at] = value
        assert (np.abs(folded(other) - kept) > 1e-3).sum() == 1
    assert (
        flat(np.array([2**63 + 5, 3], np.uint64)).tolist()
        != flat(np.array([2**63 + 6, 3], np.uint64)).tolist()
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    bounds = np.array([0.0, 2.0**-20])
    made = {"a": [Recorded(3, 77, True, ("float32(2,)",), np.array([1.0, np.inf]), bounds)]}
    write(tmp_path / "calls.npz", made)
    found = read(tmp_path / "calls.npz")["a"][0]
    assert (found.number, found.mark, found.slopes, found.heads) == (3, 77, True, ("float32(2,)",))
    assert found.values.tolist() == [1.0, np.inf]
    assert found.bounds.tolist() == bounds.tolist()


def test_calls_that_take_other_lines_are_recorded_with_bounds(tmp_path: Path) -> None:
    file = tmp_path / "calls.npz"
    recorded_calls.main(
        ["--only", "calor.sum-*", "--tries", "4", "--least", "2", "--file", str(file)]
    )
    made = read(file)
    assert made
    for label, calls in made.items():
        for call in calls:
            given = arguments(subjects()[label], call.number)
            assert given is not None
            with calor.device("numpy"):
                got = outcome(subjects()[label], given, slopes=call.slopes)
            assert not difference(got, call)
    recorded_calls.main(["--only", "calor.sum-*", "--check", "numpy", "--file", str(file)])
