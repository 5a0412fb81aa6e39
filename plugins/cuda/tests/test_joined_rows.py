"""Do kernels that join the parts of their rows compile without spills?"""

import re
from dataclasses import replace
from typing import Any

import pytest

import calor
from calor.dtypes import DType, bfloat16, float32
from calor.graph.graph import Graph
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.description import describe
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import LOWERINGS, Build, Request, View
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning.lowering import load_families
from calor_kernel.printers import print_kernel
from imitated_cuda import H200

OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")
IMAGES = (32, 64, 56, 56)


def info() -> DeviceInfo:
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    return describe({**H200, "totalGlobalMem": 141 << 30}, native)


def norm(x: Any, side: Any, weight: Any) -> Any:
    y, mean, variance = calor.ops.composites.standardize(x, axes=(0, 2, 3), eps=1e-5)
    return calor.relu(y * weight.reshape(-1, 1, 1) + side), mean, variance


def norms(x: Any, side: Any, weight: Any) -> Any:
    y, *known = calor.ops.composites.standardize(side, axes=(0, 2, 3), eps=1e-5)
    z, *others = norm(x, y, weight)
    return z, *known, *others


def gradient(x: Any, g: Any, weight: Any) -> Any:
    g = calor.where(x > 0, g, 0.0)
    shift, scale = calor.sum(g, axis=(0, 2, 3)), calor.sum(g * x, axis=(0, 2, 3))
    inner = g - (shift.reshape(-1, 1, 1) + x * scale.reshape(-1, 1, 1)) / 100352.0
    return shift, scale, inner * weight.reshape(-1, 1, 1)


def softmax(x: Any) -> Any:
    return (x * 2.0).softmax(axis=-1)


# The function, its operands' shapes and type, and the kernels that join.
CASES: dict[str, tuple[Any, list[tuple[int, ...]], DType, list[str]]] = {
    "norm": (norm, [IMAGES, IMAGES, (64,)], float32, ["apply_rows"]),
    "norm of bfloat16": (norm, [IMAGES, IMAGES, (64,)], bfloat16, ["apply_rows"]),
    "norms": (norms, [IMAGES, IMAGES, (64,)], float32, ["apply_rows"]),
    "gradient": (gradient, [IMAGES, IMAGES, (64,)], float32, ["apply_rows"]),
    "softmax": (softmax, [(8, 50257)], float32, ["continue_rows", "apply_rows"]),
    "softmax of one row": (softmax, [(1, 1 << 20)], float32, ["continue_rows", "apply_rows"]),
}


def builds(graph: Graph, device: DeviceInfo) -> list[Build]:
    """Return the kernels of a graph that is one row program."""
    load_families()
    (group,) = RowFuser().groups(graph, device)
    views = tuple(View.dense(graph.specs[v]) for v in group.inputs)
    specs = tuple(graph.specs[v] for v in group.outputs)
    found = LOWERINGS[group.op](Request(group.op, group.attributes, views, specs, device))
    return [one.build for one in found[0].launches]  # type: ignore[index]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_kernels(compiler: Any, name: str, waits: bool) -> None:
    function, shapes, dtype, kernels = CASES[name]
    device = info()
    if not waits:
        device = replace(device, features=device.features - {"forward_progress"})
    with calor.device("numpy"):
        graph = calor.trace(function, *(calor.zeros(s, dtype=dtype) for s in shapes))
    made = builds(graph, device)
    apart = ["reduce_rows", *kernels]
    together = ["await_rows"] if waits and len(apart) == 2 else apart
    assert [one.function.name for one in made] == together
    for build in made:
        if build.function.name == "reduce_rows":
            continue
        text = print_kernel(build.kernel(device.features), CudaCpp())
        _, program = compiler.nvrtcCreateProgram(text.encode(), b"rows.cu", 0, [], [])
        code, *_ = compiler.nvrtcCompileProgram(
            program, len(OPTIONS), [option.encode() for option in OPTIONS]
        )
        _, size = compiler.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        compiler.nvrtcGetProgramLog(program, log)
        assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
        assert "0 bytes spill stores, 0 bytes spill loads" in log.decode()
        # What writes runs in as many cubes as a multiprocessor has units for; what computes parts
        # before, in two at least.
        most = {"apply_rows": 40, "await_rows": 128}.get(build.function.name, 255)
        (registers,) = re.findall(r"Used (\d+) registers", log.decode())
        assert int(registers) <= most
