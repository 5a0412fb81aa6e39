"""Do kernels for few rows, odd sizes and unaligned lines compile without spills?"""

import re
from dataclasses import replace
from typing import Any

import pytest

import calor
from calor.dtypes import DType, bfloat16, float16, float32
from calor.specs import spec
from calor_cuda.cuda_cpp import CudaCpp
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Launch, Request, View
from calor_kernel.ir.passes.beside import Beside
from calor_kernel.ir.passes.early import EARLY, with_early_reads
from calor_kernel.library.matmul import ProductFuser, lower_dot_general, lower_row_product
from calor_kernel.printers import print_kernel
from calor_nn import functional
from imitated_cuda import H200

OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")
# Rows, terms and columns, and which operands are dense along the K axis.
GEMV = [
    (bfloat16, (1, 768, 3072), (True, True)),
    (bfloat16, (1, 768, 3072), (True, False)),
    (bfloat16, (2, 768, 50257), (True, True)),
    (float16, (4, 768, 50257), (True, False)),
    (float32, (8, 4096, 4096), (True, True)),
    (float32, (8, 4096, 4096), (True, False)),
    (float32, (4, 2048, 1000), (False, True)),
    (bfloat16, (65536, 64, 3), (True, True)),
    (float32, (4096, 1023, 1), (True, False)),
]
# Matrices that the registers of all cores hold.
HELD = [
    (bfloat16, (1, 3072, 768), (True, True)),
    (bfloat16, (4, 768, 3072), (True, True)),
    (float16, (2, 770, 2304), (True, True)),
    (float16, (4, 4096, 768), (True, True)),
    (float32, (1, 768, 2304), (True, True)),
    (float32, (8, 512, 1000), (True, True)),
]
AFTER_NORMS = [
    *GEMV[:2],
    (float16, (4, 1021, 3072), (True, True)),
    (bfloat16, (2, 4096, 1024), (True, False)),
    (float32, (4, 1024, 4096), (True, True)),
    (float32, (8, 300, 768), (True, False)),
    *HELD[1:3],
    *HELD[4:],
]
PREDICATED = [
    (dtype, shape, along)
    for dtype in (bfloat16, float32)
    for shape in ((48, 766, 50257), (12544, 147, 64), (700, 50, 702), (700, 49, 701))
    for along in ((True, True), (True, False))
]
PREDICATED += [
    *((dtype, (32, 2048, 1000), (True, False)) for dtype in (bfloat16, float32)),
    *((dtype, (48, 768, 50257), (True, False)) for dtype in (bfloat16, float32)),
    (float16, (8192, 512, 10), (True, True)),
    (float32, (50176, 27, 32), (False, False)),
    # A gradient of weights: warp groups do not read these operands, and there are few tiles.
    (float32, (60, 1310, 64), (False, False)),
]
# Few rows with a matrix that the registers do not hold, or beyond the rows of GEMV.
SKINNY = [
    (bfloat16, (4, 768, 50257), (True, True)),
    *((dtype, (32, 2048, 1000), (True, True)) for dtype in (bfloat16, float32)),
    *((dtype, (48, 70, 50257), (True, True)) for dtype in (bfloat16, float32)),
]
BY_TMA = [
    (bfloat16, (4096, 768, 50257), (True, True)),
    (float32, (4096, 768, 50257), (True, True)),
    (bfloat16, (4096, 50257, 768), (True, False)),
    (float32, (2047, 2049, 2045), (True, False)),
    (bfloat16, (1024, 1024, 1021), (True, True)),
    *((dtype, (48, 768, 50257), (True, True)) for dtype in (bfloat16, float32)),
    *((dtype, (1500, 50, 1502), (True, False)) for dtype in (bfloat16, float32)),
    *((dtype, (1500, 49, 1501), (True, True)) for dtype in (bfloat16, float32)),
]


def request(dtype: DType, shape: Any, along: tuple[bool, bool], high: bool) -> Request:
    from calor_cuda.description import describe

    m, k, n = shape
    views = (
        View((m, k), (k, 1) if along[0] else (1, m), dtype),
        View((k, n), (1, k) if along[1] else (n, 1), dtype),
    )
    said = {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": dtype}
    if high:
        said["precision"] = "high"
    native = {"library": "CuPy", "driver": 13000, "runtime": 13000, "target": "sm_90a"}
    info = describe({**H200, "totalGlobalMem": 141 << 30}, native)
    return Request("dot_general", said, views, (spec((m, n), dtype),), replace(info))


def check(compiler: Any, asked: Request, *names: str, guarded: bool = False) -> None:
    """Compile the launches of the first choice, whose kernels are of these names."""
    compile_all(compiler, asked, lower_dot_general(asked)[0].launches, *names, guarded=guarded)


def compile_all(
    compiler: Any, asked: Request, launches: Any, *names: str, guarded: bool = False
) -> None:
    if guarded:
        launches = tuple(launch.guarded() for launch in launches)
    assert {launch.build.function.name for launch in launches} <= {*names, "add_split_sums"}
    for launch in launches:
        text = check_text(compiler, launch, asked.info)
        if guarded:
            assert "uint32 *guard" in text
            assert text.index("griddepcontrol.wait") < text.index("guard[0] == 0u")


def check_text(compiler: Any, launch: Launch, info: DeviceInfo) -> str:
    """Compile a launch's kernel, which spills nothing, and return its text."""
    text = print_kernel(launch.build.kernel(info.features), CudaCpp())
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"product.cu", 0, [], [])
    options = [option.encode() for option in OPTIONS]
    code, *_ = compiler.nvrtcCompileProgram(program, len(options), options)
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
    assert not re.findall(r"C75\d\d[^\n]*", log.decode())
    assert "0 bytes spill stores, 0 bytes spill loads" in log.decode()
    return text


@pytest.mark.parametrize(("dtype", "shape", "along"), GEMV + HELD, ids=str)
def test_gemv(compiler: Any, dtype: DType, shape: Any, along: Any) -> None:
    check(compiler, request(dtype, shape, along, False), "gemv_planes")


@pytest.mark.parametrize(("dtype", "shape", "along"), GEMV[:4], ids=str)
def test_what_is_loaded_before_the_launches_are_awaited(
    compiler: Any, dtype: DType, shape: Any, along: Any
) -> None:
    """A matrix that the registers hold is loaded; another one is fetched into a cache."""
    asked = request(dtype, shape, along, False)
    for launch in lower_dot_general(asked)[0].launches:
        made = [launch.build.kernel(asked.info.features)]
        made += [Beside(2, (0, 1, 2), False).kernel(made[0])] * (len(asked.inputs) > 1)
        for kernel in made:
            text = assembly(compiler, print_kernel(kernel, CudaCpp()))
            before, found, after = text.partition("griddepcontrol.wait")
            assert found
            assert "ld.global" in after
            held = kernel.name == "gemv_planes" and dict(launch.build.keywords)["plan"].held
            accesses = re.findall(r"\b(?:ld|st|atom|red)\.(?:global|volatile|relaxed)\S*", before)
            if held:
                # The assembler moves loads of constant memory across the wait.
                assert set(accesses) == {"ld.global.v4.u32"}
                assert before.index("griddepcontrol.launch_dependents") < before.index("ld.global")
                assert EARLY in with_early_reads(kernel).attributes
            else:
                assert not accesses
            if kernel.name == "gemv_planes" and not held:
                assert "prefetch.global.L2" in before


def assembly(compiler: Any, text: str) -> str:
    """Return the assembly that the compiler makes of a text."""
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"product.cu", 0, [], [])
    options = [b"--gpu-architecture=compute_90a", b"--fmad=false", b"--std=c++17"]
    code, *_ = compiler.nvrtcCompileProgram(program, len(options), options)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS
    _, size = compiler.nvrtcGetPTXSize(program)
    made = bytearray(size)
    compiler.nvrtcGetPTX(program, made)
    return made.decode()


@pytest.mark.parametrize(("dtype", "shape", "along"), AFTER_NORMS, ids=str)
def test_gemv_after_a_norm(compiler: Any, dtype: DType, shape: Any, along: Any) -> None:
    """The rows of a norm, and then the product with its bias."""
    (m, k, n), info = shape, request(dtype, shape, along, False).info
    with calor.device("numpy"):
        shapes = (m, k), (k,), (k,), ((n, k) if along[1] else (k, n)), (n,)
        graph = calor.trace(
            lambda x, g, b, w, c: functional.layer_norm(x, k, g, b) @ (w.T if along[1] else w) + c,
            *(calor.zeros(shape, dtype=dtype) for shape in shapes),
        )
    few = replace(info, cores=1 << 20)  # Of which no number of cubes is too many.
    (group,) = ProductFuser().groups(graph, few)
    views = {v: View.dense(graph.specs[v]) for v in group.inputs}
    if along[1]:
        views[group.inputs[1]] = View((k, n), (1, k), dtype)
    results = tuple(graph.specs[v] for v in group.outputs)
    inputs = tuple(views[v] for v in group.inputs)
    asked = Request(group.op, group.attributes, inputs, results, few)
    launches = lower_row_product(asked)[0].launches
    assert len(launches) == 1 or "sums" in launches[1].label
    compile_all(compiler, asked, launches, "gemv_planes")


@pytest.mark.parametrize(("dtype", "shape", "along"), PREDICATED, ids=str)
def test_predicated(compiler: Any, dtype: DType, shape: Any, along: Any) -> None:
    check(compiler, request(dtype, shape, along, True), "predicated_mma")
    if dtype is float32:
        check(compiler, request(dtype, shape, along, False), "predicated_simt")


@pytest.mark.parametrize(("dtype", "shape", "along"), SKINNY, ids=str)
def test_few_rows(compiler: Any, dtype: DType, shape: Any, along: Any) -> None:
    check(compiler, request(dtype, shape, along, True), "skinny_mma")


@pytest.mark.parametrize(("dtype", "shape", "along"), BY_TMA, ids=str)
def test_tma_of_odd_sizes(compiler: Any, dtype: DType, shape: Any, along: Any) -> None:
    names = ("matmul_tma", "copy_lines", "copy_lines_turned")
    check(compiler, request(dtype, shape, along, True), *names)


@pytest.mark.parametrize("shape", [(4096, 768, 50257), (300, 256, 1021)], ids=str)
def test_lines_of_results_with_a_pitch(compiler: Any, shape: Any) -> None:
    asked = request(bfloat16, shape, (True, True), True)
    pitched = replace(asked, pitches=((shape[2], -(-shape[2] // 64) * 64),))
    check(compiler, pitched, "matmul_tma")
    builds = [lower_dot_general(one)[0].launches[-1].build for one in (asked, pitched)]
    texts = [print_kernel(build.kernel(asked.info.features), CudaCpp()) for build in builds]
    assert ["c_pitch" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("case", "names"),
    [(GEMV[0], ("gemv_planes",)), (BY_TMA[4], ("matmul_tma", "copy_lines", "copy_lines_turned"))],
    ids=["gemv", "tma"],
)
def test_products_under_a_guard(compiler: Any, case: Any, names: Any) -> None:
    check(compiler, request(*case, True), *names, guarded=True)
