"""Do weight gradients whose last cubes add their parts take one launch, without spills?"""

from dataclasses import replace
from typing import Any

import pytest

from calor.dtypes import DType, bfloat16, float32
from calor.specs import spec
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.description import describe
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import LOWERINGS, Flags, Launch, Request, View
from calor_kernel.planning.lowering import load_families
from calor_kernel.printers import print_kernel
from imitated_cuda import H200

OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")


def info() -> DeviceInfo:
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    return describe({**H200, "totalGlobalMem": 141 << 30}, native)


def launches(
    dtype: DType, channels: int, side: int, filters: int, taps: int, given: DeviceInfo
) -> tuple[Launch, ...]:
    """Return the launches of the weight gradient of 32 images."""
    load_families()
    shapes = (32, channels, side, side), (32, filters, side, side)
    views = tuple(View.dense(spec(shape, dtype)) for shape in shapes)
    pad = taps // 2
    said = {
        "stride": (1, 1),
        "padding": ((pad, pad), (pad, pad)),
        "dilation": (1, 1),
        "groups": 1,
        "shape": (filters, channels, taps, taps),
        "precision": "high",
    }
    result = spec((filters, channels, taps, taps), dtype)
    request = Request("conv_weight_gradient", said, views, (result,), given)
    return LOWERINGS[request.op](request)[0].launches  # type: ignore[index]


# The dtype, channels, side of an image, filters and taps; the parts of a tile.
CASES = {
    "few long tiles": (float32, 64, 56, 64, 1, 112),
    "wide": (float32, 1024, 14, 256, 1, 8),
    "wide, of bfloat16": (bfloat16, 1024, 14, 256, 1, 0),
    "tall": (float32, 64, 56, 256, 1, 64),
    "windows": (float32, 256, 14, 256, 3, 7),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels(compiler: Any, name: str) -> None:
    *sizes, parts = CASES[name]
    made = launches(*sizes, info())
    *_, last = made
    keywords = dict(last.build.keywords)
    assert last.build.function.name == "matmul_tma"
    assert any(isinstance(a, Flags) for a in last.arguments)
    assert not parts or last.label.endswith(f"in parts of {parts}")
    # Those that add come after the parts of all tiles, which are a cube for each core at most.
    plan = keywords["plan"]
    assert last.cubes[0] > parts
    text = print_kernel(last.build.kernel(info().features), CudaCpp())
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"parts.cu", 0, [], [])
    code, *_ = compiler.nvrtcCompileProgram(
        program, len(OPTIONS), [option.encode() for option in OPTIONS]
    )
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
    assert "0 bytes spill stores, 0 bytes spill loads" in log.decode(), plan
    assert "wgmma" not in log.decode(), log.decode()


def test_where_cubes_may_not_wait_another_launch_adds() -> None:
    waits = replace(info(), features=info().features - {"forward_progress"})
    names = [one.build.function.name for one in launches(float32, 1024, 14, 256, 1, waits)]
    assert names == ["matmul_tma", "add_transposed"]
