"""Do recurrent scans in one launch compile without spills, and leave their words as they were?"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DeviceError
from calor.graph.graph import Graph
from calor.graph.interpreter import interpret
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.description import describe, shares_cores
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Request, View
from calor_kernel.library.recurrence import lowering
from calor_kernel.library.recurrence.unit_plan import unit_plans
from calor_kernel.printers import print_kernel
from calor_kernel.runtime.backend import KernelBackend
from imitated_cuda import H200

OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")


def info() -> DeviceInfo:
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    return describe({**H200, "totalGlobalMem": 141 << 30}, native)


def graph_of(dtype: str, length: int, samples: int, features: int) -> tuple[Graph, list[Any]]:
    """Return the gradients of a layer of long short-term memories, and arguments."""

    def loss(x: Any, weight: Any, h: Any, c: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            h, c = carry
            i, f, g, o = calor.chunk(row + h @ weight.T, 4, axis=-1)
            c = calor.sigmoid(f) * c + calor.sigmoid(i) * calor.tanh(g)
            h = calor.sigmoid(o) * calor.tanh(c)
            return (h, c), h

        _, stack = calor.scan(step, (h, c), x)
        return calor.sum(stack.astype("float32") ** 2)

    draw = np.random.default_rng(0)
    shapes = [(length, samples, 4 * features), (4 * features, features), *[(samples, features)] * 2]
    with calor.device("numpy"), calor.matmul_precision("high"):
        given = [
            calor.asarray(draw.standard_normal(s).astype(np.float32) / 4).astype(dtype)
            for s in shapes
        ]
        graph = calor.trace(calor.grad(loss, argnums=(0, 1)), *given)
        return graph, [one.numpy() for one in given]


# The dtype, samples and features: of a language model, of weights in shared memory, and of groups
# of cubes that compute by units.
LAYERS = [("bfloat16", 20, 650), ("float32", 32, 1024), ("float32", 32, 128)]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_kernels_of_layers_have_no_spills(compiler: Any, layer: tuple[str, int, int]) -> None:
    dtype, samples, features = layer
    graph, _ = graph_of(dtype, 2, samples, features)
    device = info()
    scans = [node for node in graph.nodes if node.op.name == "scan"]
    assert len(scans) == 2
    for node in scans:
        views = tuple(View.dense(graph.specs[v]) for v in node.inputs)
        outputs = tuple(graph.specs[v] for v in node.outputs)
        found = lowering.scan(Request("scan", node.attributes, views, outputs, device))
        (launch,) = found[0].launches  # type: ignore[index]
        assert launch.cubes[0] <= device.cores
        text = print_kernel(launch.build.kernel(device.features), CudaCpp())
        _, program = compiler.nvrtcCreateProgram(text.encode(), b"scan.cu", 0, [], [])
        code, *_ = compiler.nvrtcCompileProgram(
            program, len(OPTIONS), [option.encode() for option in OPTIONS]
        )
        _, size = compiler.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        compiler.nvrtcGetProgramLog(program, log)
        assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
        assert "0 bytes spill stores, 0 bytes spill loads" in log.decode()
        (units,) = re.findall(r"__launch_bounds__\((\d+), 1\)", text)
        (registers,) = re.findall(r"Used (\d+) registers", log.decode())
        assert int(units) * int(registers) <= 1 << 16


def test_a_scan_runs_again(imitated: Any) -> None:
    """The second run finds words of 0, as the first did."""
    graph, arrays = graph_of("bfloat16", 2, 3, 5)
    backend = KernelBackend("recurrence", lambda index: imitated)
    plan: Any = backend.compile(0, graph)
    given = [backend.upload(0, np.ascontiguousarray(one)) for one in arrays]
    wanted = [one.astype(np.float32) for one in interpret(graph, arrays)]
    for _ in range(3):
        made = plan(given)
        for buffer, known, expected in zip(made, graph.output_specs, wanted, strict=True):
            found = np.array(backend.download(0, buffer, known)).astype(np.float32)
            np.testing.assert_allclose(found, expected, rtol=0.1, atol=2e-2)
    labels = [one.launch.label for some in plan.base.recording.launches for one in some]
    assert labels.count("recurrence") == 2


@pytest.mark.parametrize("by_units", [False, True])
def test_cubes_that_wait_start_together(
    by_units: bool, fake: Any, imitated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches are cooperative in a list and in a graph, where nothing overlaps them."""

    def some(*given: Any) -> Any:
        return [pair for pair in unit_plans(*given) if by_units and pair[1].waits]

    monkeypatch.setattr(lowering, "unit_plans", some)
    graph, arrays = graph_of("float32" if by_units else "bfloat16", 2, 3, 5)
    backend = KernelBackend("recurrence", lambda index: imitated)
    plan: Any = backend.compile(0, graph)
    given = [backend.upload(0, np.ascontiguousarray(one)) for one in arrays]
    plan(given)
    assert fake.calls.count("launchCooperativeKernel") == 2
    fake.calls.clear()
    monkeypatch.setattr("calor_cuda.launches.LEAST", 1)
    for _ in range(2):
        plan(given)
    assert "launchCooperativeKernel" not in fake.calls
    assert len(fake.cooperative) == 2
    # What cannot start whole does not start.
    fake.devices = [{**H200, "multiProcessorCount": 1}]
    with pytest.raises(DeviceError, match="720"):
        plan(given)


@pytest.mark.parametrize(
    ("environment", "shared"),
    [
        ({"CUDA_MPS_PIPE_DIRECTORY": "served"}, True),
        ({"CUDA_MPS_PIPE_DIRECTORY": "left"}, False),
        ({"CUDA_MPS_PIPE_DIRECTORY": "left", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, True),
    ],
)
def test_cubes_do_not_wait_for_each_other_where_processes_share_cores(
    environment: dict[str, str], shared: bool, tmp_path: Path
) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "control").touch()
    folder = tmp_path / environment["CUDA_MPS_PIPE_DIRECTORY"]
    assert shares_cores({**environment, "CUDA_MPS_PIPE_DIRECTORY": str(folder)}) == shared
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    made = describe({**H200, "totalGlobalMem": 141 << 30}, {**native, "shared": shared})
    assert made.has("together") != shared
