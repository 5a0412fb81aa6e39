"""Kernels printed as ISO C, compiled by the system's compiler, compute what lanes compute."""

from functools import cache
from typing import Any

import pytest

from calor.dtypes import DType, bfloat16, bool_, float32, float64, int8, int32, int64, uint8, uint16
from kernel_cases import (
    DTYPES,
    INTEGERS,
    Case,
    assert_alike,
    atomics_case,
    effects_case,
    flow_case,
    masks_case,
    operations,
    positions_case,
    scalars_case,
    selection_case,
    sheet_case,
    vector_case,
    vector_functions,
)
from kernel_products import dots_case, planes_case

from .compiled import COMPILER, compiles, run_c

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@cache
def outcome(case: Case) -> tuple[list[Any], list[Any]]:
    got = case.fresh()
    run_c(case.kernel, case.cubes, got)
    return got, case.expected()


SHEETS = [(t, w, n) for t in DTYPES for w in (1, 4) for n in operations(t)]
LANES = [(t, w, n) for t in (bool_, uint8, float32) for w in (2, 6) for n in vector_functions(t, w)]


def label(row: tuple[DType, int, str]) -> str:
    return f"{row[2]}-{row[0].name}x{row[1]}"


@pytest.mark.parametrize(("dtype", "width", "name"), SHEETS, ids=map(label, SHEETS))
def test_an_operation(dtype: DType, width: int, name: str) -> None:
    case = sheet_case(dtype, width)
    got, want = outcome(case)
    place = 4 + case.outputs.index(name)
    assert_alike(got[place], want[place], f"{name} of {dtype} x {width}")


@pytest.mark.parametrize(("dtype", "width", "name"), LANES, ids=map(label, LANES))
def test_lanes_of_a_vector(dtype: DType, width: int, name: str) -> None:
    case = vector_case(dtype, width)
    got, want = outcome(case)
    place = 2 + case.outputs.index(name)
    assert_alike(got[place], want[place], f"{name} of {dtype} x {width}")


CASES = [
    flow_case(),
    flow_case(3),
    masks_case(1),
    masks_case(4),
    positions_case((1, 1, 1)),
    selection_case(1),
    scalars_case(),
    effects_case(1),
    dots_case(int8, int32, 4),
    dots_case(bfloat16, float32, 2),
    *(planes_case(t, 1, 1) for t in (int32, float64)),
    *(atomics_case(t) for t in (*INTEGERS, float32, float64)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel(case: Case) -> None:
    got, want = outcome(case)
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        if hasattr(b, "dtype"):
            assert_alike(a, b, f"argument {place}")


@pytest.mark.parametrize("dtype", [int8, uint16, int32, int64, float32], ids=str)
def test_nothing_is_left_open_by_c(dtype: DType, capfd: pytest.CaptureFixture[str]) -> None:
    case = sheet_case(dtype)
    sanitizer = ("-fsanitize=undefined", "-fno-sanitize=float-divide-by-zero")
    if not compiles(*sanitizer):
        pytest.skip("the C compiler has no sanitizer")
    run_c(case.kernel, case.cubes, case.fresh(), *sanitizer)
    assert "runtime error" not in capfd.readouterr().err
