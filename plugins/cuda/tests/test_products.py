"""Products on warp groups stay on their way until they are waited for, in registers alone."""

import re
from dataclasses import replace
from typing import Any

import pytest

from calor.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float32,
    int8,
    int32,
    int64,
    uint8,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.library.matmul import units
from calor_kernel.library.matmul.boxes import Boxes, matmul_boxes
from calor_kernel.printers import print_kernel
from calor_kernel.printers.cuda_cpp import CudaCpp

FEATURES = frozenset(("barrier", "planes", "async_matrix", "tensor_copy", "mbarrier", "clusters"))
OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")


def text_of(plan: Boxes) -> str:
    item = plan.dtype.itemsize
    size, stride = Scalar(int32, nonnegative=True), Scalar(int64, divisible=16 // item)
    wide = Scalar(int32, divisible=16 // plan.result.itemsize, nonnegative=True)
    read = Buffer(plan.dtype, writable=False, align=16)
    axes = [size, size, stride, stride]
    built = matmul_boxes.build(
        [
            *(read, read, Buffer(plan.result, align=16), size, wide, size),
            *(stride, stride, stride, size, size, *axes, *axes),
        ],
        cube=(plan.units, 1, 1),
        plane=32,
        index=int32,
        features=FEATURES,
        plan=plan,
    )
    return print_kernel(built, CudaCpp())


def compiled(compiler: Any, text: str) -> str:
    """Return what the compiler says of a kernel."""
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"product.cu", 0, [], [])
    code, *_ = compiler.nvrtcCompileProgram(program, len(OPTIONS), [o.encode() for o in OPTIONS])
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
    return log.decode()


SEVERAL = [made for made in units._MORE_BOXES if len(made) > 4]
PLANS = [(bfloat16, bfloat16, made, False) for made in (*units._BOXES[:3], *SEVERAL[1:4:2])]
PLANS += [(float32, float32, SEVERAL[0], True)]
PLANS += [(float32, float32, units._BOXES[0], True), (int8, int32, units._BOXES[0], True)]
PLANS += [(uint8, bfloat16, SEVERAL[0], True)]


@pytest.mark.parametrize(("dtype", "result", "made", "along"), PLANS, ids=str)
def test_products_stay_on_their_way(
    compiler: Any, dtype: DType, result: DType, made: Any, along: bool
) -> None:
    plan = Boxes(dtype, result, *made[:3], True, along, *made[3:])
    if dtype is uint8:
        plan = replace(plan, formats=(float8_e5m2, float8_e4m3fn))
    text = text_of(plan)
    assert "setmaxnreg.inc" in text or "setmaxnreg.dec.sync.aligned.u32 240" in text
    assert (
        ("multicast::cluster" in text)
        == ("__cluster_dims__(2, 1, 1)" in text)
        == (plan.cluster > 1)
    )
    log = compiled(compiler, text)
    # Products that the compiler runs one after another, and budgets that it does not take.
    assert not re.findall(r"C75\d\d[^\n]*", log)
    assert "0 bytes spill stores, 0 bytes spill loads" in log
