"""Do kernels of several launches compile without spills, with few more registers than one has?"""

import re
from dataclasses import replace
from typing import Any

import pytest

from calor.dtypes import bfloat16, float32
from calor.specs import spec
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.description import describe
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import LOWERINGS, Build, Launch, Request, View, row_major
from calor_kernel.ir.passes.beside import Beside
from calor_kernel.ir.types import Buffer
from calor_kernel.planning.lowering import load_families
from calor_kernel.printers import print_kernel
from imitated_cuda import H200

OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")
# Registers that the choice of buffers may take. Small tiles have few, and may take more: a core
# holds five of their cubes then, and a launch has fewer cubes than there are cores.
_MORE, _OF_SMALL = 16, 24


def info() -> DeviceInfo:
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    return describe({**H200, "totalGlobalMem": 141 << 30}, native)


def product(m: int, k: int, n: int, dtype: Any, turned: bool = False) -> Request:
    left = View((m, k), (1, m) if turned else (k, 1), dtype)
    said = {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": dtype, "precision": "high"}
    views = (left, View((k, n), (n, 1), dtype))
    return Request("dot_general", said, views, (spec((m, n), dtype),), info())


def total(rows: int, columns: int, dtype: Any) -> Request:
    view, said = View.dense(spec((rows, columns), dtype)), {"axes": (0,)}
    return Request("sum", said, (view,), (spec((columns,), dtype),), info())


def copy(*shape: int) -> Request:
    n, length, heads, width = shape
    result = (n, heads, length, width)
    steps = row_major(shape)
    view = View(result, (steps[0], steps[2], steps[1], steps[3]), float32)
    return Request("copy", {}, (view,), (spec(result, float32),), info())


CASES = {
    "projections": product(512, 24, 24, float32),
    "weight gradients": product(24, 512, 24, float32, turned=True),
    "products of bfloat16": product(300, 1153, 65, bfloat16),
    "small products of bfloat16": product(300, 129, 65, bfloat16),
    "sums of columns": total(2048, 768, float32),
    "short sums of columns": total(512, 24, bfloat16),
    "copies": copy(8, 256, 12, 64),
}


def registers(compiler: Any, build: Build) -> int:
    """Return the registers of a compiled kernel, which has no spills."""
    text = print_kernel(build.kernel(info().features), CudaCpp())
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"beside.cu", 0, [], [])
    code, *_ = compiler.nvrtcCompileProgram(
        program, len(OPTIONS), [option.encode() for option in OPTIONS]
    )
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    found = log.decode()
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, found
    assert "0 bytes spill stores, 0 bytes spill loads" in found
    return int(re.findall(r"Used (\d+) registers", found)[0])


def beside(launch: Launch, count: int) -> Build:
    """Return the build of several such launches, each with all buffers of its own."""
    build = launch.build
    apart = tuple(k for k, one in enumerate(build.signature) if isinstance(one, Buffer))
    made = Beside(count, apart, launch.cubes[2] > 1)
    return replace(build, signature=made.spread(build.signature), beside=made)


@pytest.mark.parametrize("name", CASES)
def test_kernels(compiler: Any, name: str) -> None:
    load_families()
    asked = CASES[name]
    work = LOWERINGS[asked.op](asked)[0]  # type: ignore[index]
    more = _OF_SMALL if name.startswith("small") else _MORE
    for launch in work.launches:
        assert not launch.alone
        one, several = (registers(compiler, b) for b in (launch.build, beside(launch, 8)))
        assert several <= one + more


def test_tensor_maps_are_launched_alone() -> None:
    load_families()
    asked = product(2048, 768, 3072, bfloat16)
    assert any(launch.alone for work in LOWERINGS["dot_general"](asked) for launch in work.launches)  # type: ignore[union-attr]
