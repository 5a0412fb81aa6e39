"""Kernels printed as WGSL compute what lanes compute, scalars and vectors."""

import os
import subprocess
import sys
from typing import Any

import pytest

from calor.dtypes import DType
from calor.errors import CompileError
from device_operations import (
    pytest_generate_tests,
    results,
    test_a_kernel,
    test_lanes_of_a_vector,
    test_planes,
)
from kernel_cases import assert_alike, effects_case, operations, sheet_case

__all__ = ["pytest_generate_tests", "test_a_kernel", "test_lanes_of_a_vector", "test_planes"]

_AT_ONCE = 24
# Stores in release order, which WGSL has not.
WITHOUT = effects_case(8).name


def test_an_operation(device: Any, dtype: DType, width: int, name: str) -> None:
    # Of buffers an adapter may have as few as 32 at a time.
    first = list(operations(dtype)).index(name) // _AT_ONCE * _AT_ONCE
    case = sheet_case(dtype, width, cube=4, part=(first, first + _AT_ONCE))
    got, want = results(device, case)
    place = 4 + case.outputs.index(name)
    assert_alike(got[place], want[place], f"{name} of {dtype} x {width}")


def test_orders_of_accesses_are_refused(device: Any) -> None:
    with pytest.raises(CompileError, match="WGSL has no stores with release order"):
        device.toolchain.source(effects_case(8).kernel)


PROGRAM = """
from calor.dtypes import float32, int64
from calor_wgpu.device import WgpuDevice
from device_runs import run
from kernel_cases import assert_alike
from kernel_products import planes_case

device = WgpuDevice(0)
device.toolchain.dialect.fast_fma = False
(plane,) = device.info.planes
for dtype in (float32, int64):
    case = planes_case(dtype, plane)
    got = case.fresh()
    run(device, case.kernel, case.cubes, got)
    for place, (a, b) in enumerate(zip(got, case.expected(), strict=True)):
        assert_alike(a, b, f"argument {place}")
print(plane)
"""


@pytest.mark.parametrize(
    ("bits", "plane"), [(128, 4), pytest.param(512, 16, marks=pytest.mark.slow)]
)
def test_planes_of_other_sizes(device: Any, bits: int, plane: int) -> None:
    if "llvmpipe" not in device.info.description:
        pytest.skip("only Mesa's software device has planes of any size")
    places = os.pathsep.join(sys.path)
    environment = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": str(bits), "PYTHONPATH": places}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment
    )
    assert done.stdout == f"{plane}\n", done.stderr
