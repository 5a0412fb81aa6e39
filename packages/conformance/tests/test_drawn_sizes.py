"""Programs without a size are right at any, and what is wrong at some sizes only is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import float32
from calor_conformance import outcomes
from calor_conformance.checks.base import Place
from calor_conformance.checks.drawn_sizes import drawn_sizes
from calor_conformance.faults.base import Broken, afterwards, changing
from calor_conformance.rows.crossed.sized_programs import LEAST, operands, sized_program


def failed(backend: Any) -> list[str]:
    place = Place(device_of(backend, 0), device_of(backend, 0))
    found = [outcomes.run(check, place) for check in drawn_sizes()]
    return [r.name for r in found if r.outcome == "failed"]


@pytest.mark.parametrize("number", range(12))
def test_a_program_fits_lengths_that_it_was_not_drawn_for(number: int) -> None:
    made = sized_program([number, 9], 9, float32)
    for n in (LEAST, 32, 301):
        arrays = operands(np.random.default_rng(n), n)
        found = made.run(*(calor.asarray(a.astype(np.float32), device="numpy") for a in arrays))
        for got, want in zip(found, made.meaning(*arrays), strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def test_the_reference_passes() -> None:
    assert failed(Broken()) == []


@pytest.mark.parametrize("op", ["sum", "maximum", "sort", "sub", "dot_general"])
def test_an_op_that_is_wrong_at_long_operands_is_found(op: str) -> None:
    def wrong(made: Any, given: Any, attributes: Any) -> Any:
        return made + 1 if max(np.shape(given[0]), default=0) > 100 else made

    assert failed(changing(**{op: afterwards(wrong)})())
