"""Kernels printed as ISO C, compiled by the system's compiler, compute what lanes compute."""

from functools import cache
from typing import Any

import pytest

from calor.dtypes import DType, float32, float64
from kernel_cases import (
    INTEGERS,
    Case,
    assert_alike,
    atomics_case,
    flow_case,
    masks_case,
    positions_case,
    rows,
    scalars_case,
    sheet_case,
)

from .compiled import COMPILER, run_c

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@cache
def outcome(dtype: DType) -> tuple[list[Any], list[Any]]:
    case = sheet_case(dtype)
    got = case.fresh()
    run_c(case.kernel, case.cubes, got)
    return got, case.expected()


@pytest.mark.parametrize(
    ("dtype", "operation"), [pytest.param(*r, id=f"{r[1]}-{r[0].name}") for r in rows()]
)
def test_an_operation(dtype: DType, operation: str) -> None:
    got, want = outcome(dtype)
    place = 4 + sheet_case(dtype).outputs.index(operation)
    assert_alike(got[place], want[place], f"{operation} of {dtype}")


CASES = [
    flow_case(),
    flow_case(3),
    masks_case(1),
    positions_case((1, 1, 1)),
    scalars_case(),
    *(atomics_case(t) for t in (*INTEGERS, float32, float64)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel(case: Case) -> None:
    got, want = case.fresh(), case.expected()
    run_c(case.kernel, case.cubes, got)
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        if hasattr(b, "dtype"):
            assert_alike(a, b, f"argument {place}")
