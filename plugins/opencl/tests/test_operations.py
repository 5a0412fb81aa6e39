"""Kernels printed as OpenCL C compute what lanes compute, scalars and vectors."""

from typing import Any

import pytest

from calor.dtypes import float16
from calor.errors import CompileError
from device_operations import *  # noqa: F403 - its tests
from device_operations import results
from kernel_cases import assert_alike, sheet_case


def test_arithmetic_of_float16_where_the_device_has_it(device: Any) -> None:
    for width in (1, 4):
        case = sheet_case(float16, width, cube=4, computed=True)
        if float16 not in device.info.dtypes:
            with pytest.raises(CompileError, match="no arithmetic of float16"):
                device.toolchain.source(case.kernel)
            continue
        got, want = results(device, case)
        for name, a, b in zip(case.outputs, got[4:], want[4:], strict=True):
            assert_alike(a, b, f"{name} of float16 x {width}")
