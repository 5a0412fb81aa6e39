"""Tests that kernels compute on a device what lanes compute: a plugin's tests import them.

The module that does so has a fixture ``device``; ``WITHOUT`` there names the cases of
``test_a_kernel`` that its device refuses, by how they begin.
"""

from functools import cache
from typing import Any

import pytest

from calor.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from device_runs import run
from kernel_cases import (
    DTYPES,
    Case,
    assert_alike,
    atomics_case,
    cube_sum_case,
    effects_case,
    flow_case,
    masks_case,
    operations,
    parts_case,
    positions_case,
    scalars_case,
    selection_case,
    sheet_case,
    vector_case,
    vector_functions,
)
from kernel_products import dots_case, planes_case

__all__ = [
    "pytest_generate_tests",
    "test_a_kernel",
    "test_an_operation",
    "test_lanes_of_a_vector",
    "test_planes",
]

# One run in the tests' few seconds: every type and every operation, not in every width.
FEW: dict[int, tuple[DType, ...]] = {
    1: (bool_, int8, int32, int64, uint16, float16, bfloat16, float32, float64),
    4: (bool_, int16, uint8, uint32, uint64, float16, float32),
}
FEW_LANES: dict[int, tuple[DType, ...]] = {2: (bool_,), 4: (float32,), 8: (uint8,)}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a row of each operation, type and width; of all widths with ``--full``."""
    full = metafunc.config.getoption("--full")
    chosen: dict[int, tuple[DType, ...]]
    name = metafunc.function.__name__
    if name == "test_an_operation":
        chosen = dict.fromkeys((1, 2, 4, 8, 16), DTYPES) if full else FEW
        found = [(t, w, n) for w, types in chosen.items() for t in types for n in operations(t)]
    elif name == "test_lanes_of_a_vector":
        chosen = dict.fromkeys((2, 4, 8, 16), DTYPES) if full else FEW_LANES
        found = [
            (t, w, n) for w, types in chosen.items() for t in types for n in vector_functions(t, w)
        ]
    elif name == "test_a_kernel":
        without = getattr(metafunc.module, "WITHOUT", ())
        metafunc.parametrize("name", [n for n in cases() if not n.startswith(without)])
        return
    else:
        return
    ids = [f"{n}-{t.name}x{w}" for t, w, n in found]
    metafunc.parametrize(("dtype", "width", "name"), found, ids=ids)


DOTS = ((int8, int32), (uint8, uint32), (int8, uint32), (bfloat16, float32))
_RESULTS: dict[tuple[type, str], Any] = {}


def results(device: Any, case: Case) -> tuple[list[Any], list[Any]]:
    """Return what a case gives on the device and on lanes; each runs once."""
    key = type(device), case.name
    found = _RESULTS.get(key)
    if found is None:
        got = case.fresh()
        try:
            run(device, case.kernel, case.cubes, got)
            found = got, case.expected()
        except Exception as error:
            found = error
        _RESULTS[key] = found
    if isinstance(found, Exception):
        raise found
    return found


def test_an_operation(device: Any, dtype: DType, width: int, name: str) -> None:
    case = sheet_case(dtype, width, cube=4)
    got, want = results(device, case)
    place = 4 + case.outputs.index(name)
    assert_alike(got[place], want[place], f"{name} of {dtype} x {width}")


def test_lanes_of_a_vector(device: Any, dtype: DType, width: int, name: str) -> None:
    case = vector_case(dtype, width, cube=4)
    got, want = results(device, case)
    place = 2 + case.outputs.index(name)
    assert_alike(got[place], want[place], f"{name} of {dtype} x {width}")


def assert_case(device: Any, case: Case) -> None:
    """Run a case on the device; its arrays are alike to those of lanes."""
    got, want = case.fresh(), case.expected()
    run(device, case.kernel, case.cubes, got)
    places = range(len(got) - len(case.outputs))
    for what, a, b in zip((*places, *case.outputs), got, want, strict=True):
        if hasattr(b, "dtype"):
            assert_alike(a, b, f"{case.name}: {what}")


def plain_cases(units: int) -> list[Case]:
    """Return the cases that every device has, in cubes of 8 and of so many units."""
    return [
        flow_case(),
        *(masks_case(w) for w in (1, 2, 8)),
        cube_sum_case(8),
        cube_sum_case(units),
        positions_case((2, 3, 1)),
        positions_case((1, 2, 2)),
        effects_case(8),
        parts_case(8),
        *(dots_case(*t, w, cube=2) for t in DOTS for w in (1, 4)),
    ]


@cache
def cases() -> dict[str, Case]:
    found = [
        *plain_cases(32),
        scalars_case(),
        *(atomics_case(t, units=8) for t in (int32, uint32, int64, uint64, float32, float64)),
    ]
    return {f"{c.name}-{i}": c for i, c in enumerate(found)}


def test_a_kernel(device: Any, name: str) -> None:
    assert_case(device, cases()[name])


def test_selected_memory(device: Any) -> None:
    assert device.info.has("pointers")
    assert_case(device, selection_case(1 if device.info.max_units == 1 else 32))


@pytest.mark.parametrize("dtype", [int32, uint32, int64, float32, float64], ids=str)
def test_planes(device: Any, dtype: DType) -> None:
    for plane in device.info.planes:
        assert_case(device, planes_case(dtype, plane))
