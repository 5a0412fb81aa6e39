"""Is every way of a convolution that takes a problem able to launch it, whatever its sizes are?

And do the kernels of large depthwise windows compile without spills?
"""

import random
from typing import Any

import pytest

from calor.dtypes import bfloat16, float16, float32
from calor.specs import Spec, spec
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.description import describe
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.planning.lowering import load_families
from calor_kernel.printers import print_kernel
from imitated_cuda import H200

OPS = ("conv", "conv_input_gradient", "conv_weight_gradient")


def info() -> DeviceInfo:
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    return describe({**H200, "totalGlobalMem": 141 << 30}, native)


def drawn(rng: random.Random, given: DeviceInfo) -> Request:
    """Draw a convolution of samples, images or volumes, or a gradient, as models have them."""
    rank = rng.choice((1, 2, 2, 3))
    groups = rng.choice((1, 1, 1, 1, 2, 3, 8, 32))
    channels, filters = (groups * rng.randint(1, 320 // groups) for _ in range(2))
    if rng.random() < 0.15:
        groups = filters = channels
    kernel = tuple(rng.choice((1, 1, 3, 3, 5, 7, 9)) for _ in range(rank))
    stride, dilation = ((rng.choice((1, 1, 1, 2)),) * rank for _ in range(2))
    pad = tuple(rng.choice((0, k // 2)) for k in kernel)
    least = max(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    side = tuple(
        rng.randint(least, least + rng.choice((1, 14, 60 if rank < 3 else 8))) for _ in range(rank)
    )
    after = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(side, pad, dilation, kernel, stride, strict=True)
    )
    batch, dtype = rng.choice((1, 2, 8, 32)), rng.choice((bfloat16, float16, float32))
    x, w = (batch, channels, *side), (filters, channels // groups, *kernel)
    op, y = rng.choice(OPS), (batch, filters, *after)
    shapes, result = {
        "conv": ((x, w), y),
        "conv_input_gradient": ((y, w), x),
        "conv_weight_gradient": ((x, y), w),
    }[op]
    said: dict[str, Any] = {
        "stride": stride,
        "padding": tuple((p, p) for p in pad),
        "dilation": dilation,
        "groups": groups,
        "precision": rng.choice(("high", "highest")),
    }
    said |= {} if op == "conv" else {"shape": result}
    views = tuple(View.dense(spec(shape, dtype)) for shape in shapes)
    made: Spec = spec(result, dtype)
    return Request(op, said, views, (made,), given)


@pytest.mark.parametrize("seed", range(3))
def test_no_way_takes_what_it_cannot_launch(seed: int) -> None:
    load_families()
    given, rng = info(), random.Random(seed)
    for _ in range(40):
        request = drawn(rng, given)
        try:
            works = [*LOWERINGS[request.op](request)]  # type: ignore[misc]
        except Exception as error:
            error.add_note(f"of {request.op} {request.attributes} {request.inputs}")
            raise
        assert works, request


OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("side", "window"), [(28, 31), (50, 9)])
def test_large_depthwise_windows(compiler: Any, op: str, side: int, window: int) -> None:
    load_families()
    x, w, pad = (16, 64, side, side), (64, 1, window, window), (window // 2,) * 2
    said = {"stride": (1, 1), "padding": (pad, pad), "dilation": (1, 1), "groups": 64}
    shapes, result = ((x, x), w) if op.endswith("weight_gradient") else ((x, w), x)
    said |= {} if op == "conv" else {"shape": result}
    views = tuple(View.dense(spec(shape, float32)) for shape in shapes)
    request = Request(op, said, views, (spec(result, float32),), info())
    launch = LOWERINGS[op](request)[0].launches[0]  # type: ignore[index]
    text = print_kernel(launch.build.kernel(request.info.features), CudaCpp())
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"windows.cu", 0, [], [])
    options = [option.encode() for option in OPTIONS]
    code, *_ = compiler.nvrtcCompileProgram(program, len(options), options)
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
    assert launch.label.startswith("depthwise")
    assert "0 bytes spill stores, 0 bytes spill loads" in log.decode()
