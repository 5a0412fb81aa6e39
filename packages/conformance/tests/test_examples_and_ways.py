"""Checks of examples of operators, ways of models, and exported programs: they pass, and find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calor_conformance.checks import examples_of_onnx, exported_programs, ways_of_models
from calor_onnx.exporting import complexes
from calor_onnx.registry import REGISTRY
from calor_onnx.templates import TEMPLATES
from reference_failures import failures

NAMES = [
    check.name
    for found in (
        examples_of_onnx.examples_of_onnx(),
        exported_programs.exported_programs(),
        ways_of_models.ways_of_models(),
    )
    for check in found
]


@pytest.mark.parametrize("name", [*NAMES, "models/operators-older"])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def test_an_operator_that_only_examples_have_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    (known,) = REGISTRY.table["", "LinearAttention"]

    def halved(*given: Any, **options: Any) -> Any:
        made = known.function(*given, **options)
        return (made[0] * 0.5, *made[1:])

    monkeypatch.setitem(REGISTRY.table, ("", "LinearAttention"), [replace(known, function=halved)])
    assert "linear_attention" in failures("models/operators-examples", 1)[0]


def test_conjugates_that_are_not_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(complexes._ROWS, "conj", lambda w, step, x: x)
    assert "conj" in failures("models/exported-complex-ops", 4)[0]


def test_differences_that_are_written_as_sums_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEMPLATES, "Sub", lambda w: " + ".join(w.operands))
    assert "as source" in failures("models/ways-of-structures", 4)[0]
