"""Recorded refusals: their arguments are those drawn, and a condition that is off is found."""

from typing import Any

import pytest

import calor
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place
from calor_conformance.rows.recorded.refusals import read
from calor_conformance.rows.recorded.results import mark
from calor_conformance.rows.recorded.spoilt import base, call, ladders, spoilable

TOLD = "python tools/recorded_refusals.py --only LABEL records a function anew"


def test_calls_are_those_of_the_record() -> None:
    known = spoilable()
    assert not set(read()) - set(known), TOLD
    for label, (number, rows) in read().items():
        right = base(label)
        assert right is not None, f"{label}: {TOLD}"
        assert mark(right) == number, f"{label}: {TOLD}"
        assert {(k, n) for k, n, _ in rows} <= {
            (k, n) for k, steps in ladders(label).items() for n, _ in steps
        }, f"{label}: {TOLD}"


def test_calls_differ_from_a_right_one_in_one_argument() -> None:
    right = base("calor.topk")
    assert right is not None
    given, options = call("calor.topk", 1, "99")
    assert given[1] == 99
    assert options == right[1]


def run(label: str) -> None:
    device = get_device("numpy")
    suite.checks()[f"refusals/recorded-{label}"].run(Place(device, device))


def _of_any_size(x: Any, k: Any, *given: Any, **options: Any) -> Any:
    within = x.ndim > 1 and type(k) is int and k > 0
    return _TOPK(x, min(k, *x.shape) if within else k, *given, **options)


_TOPK = calor.topk


def test_a_condition_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = spoilable()["calor.topk"]
    monkeypatch.setitem(vars(subject), "call", _of_any_size)
    with pytest.raises(AssertionError, match="not ArgumentError: topk: k is"):
        run("calor.topk")
