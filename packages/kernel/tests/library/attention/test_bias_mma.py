"""Is the gradient of a bias by matrix instructions right, and what goes another way?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import View
from calor_kernel.library.attention.lowering import bias_gradient
from calor_kernel.runtime.backend import KernelBackend

from ..named import named_info
from .test_attention import Row, check_backward
from .test_mma import INFO, NAMED, request_of

OP = "attention_bias_gradient"
MANY = replace(INFO, cores=40)
ROWS = [
    Row(9, 2, 2, 33, 35, 32, 32, bias=(1, 2, 33, 35)),
    Row(1, 2, 1, 70, 65, 16, 24, bias=(1, 2, 70, 65)),
    Row(3, 2, 1, 20, 40, 64, 64, bias=(1, 1, 20, 40), mask=(3, 1, 20, 40)),
    Row(2, 2, 2, 20, 33, 16, 16, bias=(2, 1, 20, 33), causal=True),
    Row(2, 2, 1, 17, 20, 128, 72, bias=(2, 2, 17, 20), order=(0, 2, 1, 3), scale=-0.2),
]


def launches(row, info=INFO, dtype=bfloat16):
    request = request_of(row, dtype, 3, info=info)
    bias = View.dense(spec(row.bias, dtype))
    request = replace(request, inputs=(*request.inputs, bias), outputs=(spec(row.bias, dtype),))
    return [launch.build.function.name for launch in bias_gradient(request)[0].launches]


@pytest.mark.parametrize("dtype", ["bfloat16", "tf32"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_results(row, dtype):
    assert launches(row) == ["bias_gradient_mma"]
    check_backward(KernelBackend("lanes", lambda index: LanesDevice(INFO)), row, dtype, OP)


def test_cubes_share_batches_where_tiles_are_few():
    row = ROWS[0]
    assert launches(row, MANY) == ["bias_gradient_mma", "join_parts"]
    check_backward(KernelBackend("lanes", lambda index: LanesDevice(MANY)), row, "float16", OP)


@pytest.mark.parametrize("instruction", NAMED)
def test_named_instructions(instruction):
    info, row = named_info(instruction, cores=1), ROWS[0]
    assert launches(row, info) == ["bias_gradient_mma"]
    check_backward(KernelBackend("lanes", lambda index: LanesDevice(info)), row, "bfloat16", OP)


@pytest.mark.parametrize("bias", [(1, 2, 1, 35), (1, 2, 33, 1)], ids=str)
def test_elements_that_rows_share_are_for_units(bias):
    assert "bias_gradient_mma" not in launches(Row(9, 2, 2, 33, 35, 32, 32, bias=bias))


# A device without matrix instructions, whose cores a tile of each head does not fill.
UNITS = replace(MANY_UNITS, cores=40)
SHARED = [
    Row(9, 2, 2, 9, 18, 4, 4, bias=(1, 2, 9, 18)),
    Row(9, 2, 1, 9, 18, 5, 7, bias=(1, 2, 1, 18), mask=(9, 1, 9, 1)),
    Row(13, 2, 1, 9, 18, 4, 4, bias=(1, 1, 9, 1), causal=True),
]


@pytest.mark.parametrize("info", [UNITS, replace(ONE_UNIT, cores=40)], ids=["units", "one unit"])
@pytest.mark.parametrize("row", SHARED, ids=str)
def test_cubes_of_units_share_batches_where_tiles_are_few(row, info):
    assert launches(row, info, float32)[-2:] == [
        "bias_gradient_simt" if info is UNITS else "bias_gradient_cpu",
        "sum_parts",
    ]
    check_backward(KernelBackend("lanes", lambda index: LanesDevice(info)), row, "float32", OP)


@pytest.mark.parametrize("widths", [(100, 100), (50, 20), (25, 37)], ids=str)
def test_rows_of_narrow_copies(widths):
    row = Row(9, 2, 2, 33, 35, *widths, bias=(1, 2, 33, 35))
    assert launches(row, MANY) == ["bias_gradient_mma", "join_parts"]
    check_backward(KernelBackend("lanes", lambda index: LanesDevice(MANY)), row, "bfloat16", OP)
