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
    uint8,
)
from calor.specs import spec
from calor_cuda.cuda_cpp import CudaCpp
from calor_cuda.kernels.attention import warpgroup_tma_launch
from calor_cuda.kernels.conv import weight_gradient_tma_launch
from calor_cuda.kernels.conv.weight_gradient_tma import WeightPlan
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_cuda.kernels.matmul.split_k_launch import Parts
from calor_cuda.kernels.matmul.warpgroup_tma import TmaPlan
from calor_cuda.kernels.matmul.warpgroup_tma_launch import tma_launch
from calor_interpreter.device import MANY_UNITS
from calor_interpreter.verify import verify
from calor_kernel.contract.work import Input, Request, View
from calor_kernel.library.attention.lowering import attention, gradient
from calor_kernel.library.conv.lowering import (
    lower_conv,
    lower_conv_input_gradient,
    lower_conv_weight_gradient,
)
from calor_kernel.library.conv.problem import for_weight
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Task
from calor_kernel.printers import print_kernel

FEATURES = frozenset(("barrier", "planes", "async_matrix", "tensor_copy", "mbarrier", "overlap"))
OPTIONS = ("--gpu-architecture=sm_90a", "--fmad=false", "--std=c++17", "--ptxas-options=-v")


def text_of(plan: TmaPlan, *, split: bool = False) -> str:
    """Return a kernel's text. ``split``: whether each tile is computed in two parts."""
    size = 512
    dense, other = Operand((0, 0), size, 1, 0, plan.dtype), Operand((0, 0), 1, size, 0, plan.dtype)
    left, right = dense if plan.a_along else other, dense if plan.b_along else other
    product = Product((1, 1), size, size, size, left, right, plan.result)
    task = Task(product, (Input(0), Input(1)), INFO, scratch=(0,))
    launch = tma_launch(task, plan, parts=Parts(1, 2, 8) if split else None)
    kernel = launch.build.kernel(FEATURES)
    verify(kernel)
    return print_kernel(kernel, CudaCpp())


def compiled(compiler: Any, text: str) -> str:
    """Return what the compiler says of a kernel."""
    _, program = compiler.nvrtcCreateProgram(text.encode(), b"product.cu", 0, [], [])
    code, *_ = compiler.nvrtcCompileProgram(program, len(OPTIONS), [o.encode() for o in OPTIONS])
    _, size = compiler.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    compiler.nvrtcGetProgramLog(program, log)
    assert code == compiler.nvrtcResult.NVRTC_SUCCESS, log.decode()
    return log.decode()


def check(compiler: Any, text: str) -> None:
    log = compiled(compiler, text)
    # Products that the compiler runs one after another, and budgets that it does not take.
    assert not re.findall(r"C75\d\d[^\n]*", log)
    assert "0 bytes spill stores, 0 bytes spill loads" in log


def plan_of(dtype: DType, result: DType, made: Any, along: bool) -> TmaPlan:
    # Of float32 the left factor may lie the other way, since it goes through registers.
    first = along or dtype is not float32
    plan = TmaPlan(dtype, result, *made[:3], first, along or not first, *made[3:])
    return plan if dtype is not uint8 else replace(plan, formats=(float8_e5m2, float8_e4m3fn))


LARGE, HIGH, _, _, SMALL, *_ = tma_ways._BOXES
PLANS = [(bfloat16, bfloat16, made, False) for made in (LARGE, HIGH)]
PLANS += [(float32, float32, LARGE, True)]
PLANS += [(float32, float32, made, False) for made in (LARGE, SMALL)]
# Warp groups in turns, which hold the sums of whole tiles.
PINGPONG = next(made for made in tma_ways._BOXES if made[4:])
PLANS += [(bfloat16, bfloat16, PINGPONG, False), (float32, float32, PINGPONG, False)]
PLANS += [(uint8, bfloat16, LARGE, True), (int8, int32, LARGE, True)]


@pytest.mark.parametrize(("dtype", "result", "made", "along"), PLANS, ids=str)
def test_products_stay_on_their_way(
    compiler: Any, dtype: DType, result: DType, made: Any, along: bool
) -> None:
    plan = plan_of(dtype, result, made, along)
    text = text_of(plan)
    assert "setmaxnreg.inc" in text or "setmaxnreg.dec.sync.aligned.u32 240" in text
    # What a cube prepares may overlap the launches before; the first copies await their results.
    assert (
        text.index("barrier_init(&") < text.index("griddepcontrol.wait") < text.index("setmaxnreg")
    )
    # Barriers of a ring order nothing beyond the cubes' own memory, which takes a microsecond.
    assert not re.findall(r"mbarrier\.(?:arrive|try_wait)[.\w:]*\.cluster\.s", text)
    check(compiler, text)


# Split-K.
SHARED = [(bfloat16, bfloat16, made, False) for made in tma_ways._SHARED]
SHARED += [(float32, float32, tma_ways._SHARED[0], along) for along in (False, True)]
SHARED += [
    (uint8, bfloat16, tma_ways._SHARED[0], True),
    (int8, int32, tma_ways._SHARED[1], True),
]


@pytest.mark.parametrize(("dtype", "result", "made", "along"), SHARED, ids=str)
def test_sums_that_are_handed_over_stay_in_registers(
    compiler: Any, dtype: DType, result: DType, made: Any, along: bool
) -> None:
    text = text_of(plan_of(dtype, result, made, along), split=True)
    # One word is asked for again and again without an order, and one fence comes after.
    assert text.count("fence.acq_rel.gpu") == 2
    assert "__threadfence()" not in text
    check(compiler, text)


# A GPU with products beside warp groups, of whose shared memory a cube has most.
INFO = replace(
    MANY_UNITS,
    features=MANY_UNITS.features | {"async_matrix", "load_matrix"},
    planes=(32,),
    max_units=1024,
    max_cube=(1024, 1024, 64),
    shared_bytes=227 << 10,
)
# One whose copy engine feeds them.
ENGINE = replace(INFO, features=INFO.features | {"tensor_copy", "mbarrier"})
HEADS, IMAGES, FILTERS = (2, 8, 4096), (8, 128, 28, 28), (128, 128, 3, 3)
WINDOWS = {"stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 1}


def request(op: str, shapes: Any, outputs: Any, attributes: Any, info: Any = INFO) -> Request:
    views = tuple(View.dense(spec(shape, dtype)) for shape, dtype in shapes)
    return Request(op, attributes, views, tuple(spec(s, bfloat16) for s in outputs), info)


def attended(
    width: int, causal: bool, gradients: bool, info: Any = INFO, dtype: DType = bfloat16
) -> Request:
    one, row = ((*HEADS, width), dtype), (HEADS, float32)
    shapes = [one, row, row, one, one, one] if gradients else [one] * 3
    said: dict[str, Any] = {"causal": causal, "scale": 0.125, "precision": "high"}
    return request("attention", shapes, [one[0]] * (3 if gradients else 1), said, info)


REQUESTS = {
    **{
        f"{'gradients' if back else 'forward'} {width}{' causal' if causal else ''}": (
            gradient if back else attention,
            attended(width, causal, back),
        )
        for width, causal in ((64, True), (128, False))
        for back in (False, True)
    },
    "conv": (
        lower_conv,
        request("conv", [(IMAGES, bfloat16), (FILTERS, bfloat16)], [IMAGES], WINDOWS),
    ),
    "conv weights": (
        lower_conv_weight_gradient,
        request("conv", [(IMAGES, bfloat16), (IMAGES, bfloat16)], [FILTERS], WINDOWS),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_attention_and_convolutions_wait_where_they_say(compiler: Any, name: str) -> None:
    lower, asked = REQUESTS[name]
    texts = [
        print_kernel(launch.build.kernel(INFO.features), CudaCpp())
        for launch in lower(asked)[0].launches
        if launch.build.function.name.endswith(("fragments", "_mma"))
    ]
    assert texts
    for text in texts:
        assert "wgmma.mma_async" in text
        log = compiled(compiler, text)
        # Waits that the compiler puts in, and products that it runs one after another.
        assert not re.findall(r"C75\d\d[^\n]*", log)
        assert "0 bytes spill stores, 0 bytes spill loads" in log


# Gradients of images of which two phases are a tile.
STRIDED = {**WINDOWS, "stride": (2, 2)}
RESULT = (8, 128, 56, 56)


@pytest.mark.parametrize("dtype", [bfloat16, float32], ids=str)
def test_phases_by_boxes_wait_where_they_say(compiler: Any, dtype: DType) -> None:
    said = {**STRIDED, "precision": "high"}
    asked = request("conv", [(IMAGES, dtype), (FILTERS, dtype)], [RESULT], said, ENGINE)
    (work,) = lower_conv_input_gradient(asked)
    assert work.variant.startswith("phases")
    for launch in work.launches[-2:]:
        check(compiler, print_kernel(launch.build.kernel(ENGINE.features), CudaCpp()))


# Gradients of weights from images as they are, all plans of small and large windows.
WINDOW_SIDES = (1, 2, 3, 5, 7)


def lines_of(side: int) -> Request:
    """Return a request of a weight gradient of a square window."""
    window = (256, 192, side, side)
    said = {**WINDOWS, "padding": ((side // 2, (side - 1) // 2),) * 2, "precision": "high"}
    operands = [((32, channels, 32, 32), float32) for channels in (192, 256)]
    return request("conv_weight_gradient", operands, [window], said, ENGINE)


def line_plans() -> list[tuple[int, WeightPlan]]:
    """Return plans that have most sums for their number of warp groups and taps of a group."""
    largest: dict[tuple[int, int], tuple[int, WeightPlan]] = {}
    for side in WINDOW_SIDES:
        for plan in weight_gradient_tma_launch._shapes(for_weight(lines_of(side)), ENGINE):
            before = largest.get((plan.groups, plan.own))
            if before is None or before[1].sums < plan.sums:
                largest[plan.groups, plan.own] = (side, plan)
    return list(largest.values())


@pytest.mark.parametrize(("side", "plan"), line_plans(), ids=str)
def test_weights_by_lines_wait_where_they_say(
    compiler: Any, monkeypatch: Any, side: int, plan: WeightPlan
) -> None:
    monkeypatch.setattr(weight_gradient_tma_launch, "_plans", lambda *_: [(1.0, plan, 64)])
    lowered = lower_conv_weight_gradient(replace(lines_of(side), candidates=True))
    work = next(one for one in lowered if one.variant.startswith("lines"))
    check(compiler, print_kernel(work.launches[0].build.kernel(ENGINE.features), CudaCpp()))


BOXES = [
    (name, width, made)
    for name in ("FORWARD", "QUERY", "KEY")
    for width, tiles in getattr(warpgroup_tma_launch, name).items()
    for made in tiles
]


@pytest.mark.parametrize("name", ["FORWARD", "QUERY", "KEY"])
def test_products_with_transposed_blocks_run_side_by_side(compiler: Any, name: str) -> None:
    back = name != "FORWARD"
    asked = attended(64, False, back, ENGINE, float32)
    (work,) = (gradient if back else attention)(asked)
    assert work.variant.startswith("tma ")
    launch = work.launches[-1 if name == "KEY" else 0]
    log = compiled(compiler, print_kernel(launch.build.kernel(ENGINE.features), CudaCpp()))
    assert not re.findall(r"C75\d\d[^\n]*", log)


@pytest.mark.parametrize(("name", "width", "made"), BOXES, ids=str)
def test_powers_are_computed_beside_products(
    compiler: Any, monkeypatch: Any, name: str, width: int, made: Any
) -> None:
    monkeypatch.setattr(warpgroup_tma_launch, name, {width: (made,)})
    back = name != "FORWARD"
    (work,) = (gradient if back else attention)(attended(width, width == 64, back, ENGINE))
    assert work.variant.startswith("tma ")
    launch = work.launches[-1 if name == "KEY" else 0]
    text = print_kernel(launch.build.kernel(ENGINE.features), CudaCpp())
    # Between the waits for scores and for sums.
    beside = text.split("wgmma.wait_group.sync.aligned 1;")[1].split("wgmma.wait_group")[0]
    assert "ex2.approx" in beside
    assert ("computed(" in beside) == (name != "KEY")
    log = compiled(compiler, text)
    assert not re.findall(r"C75\d\d[^\n]*", log)
    # The producer of queries usually has few registers, and counts much.
    if name != "KEY" or made[5:]:
        assert "0 bytes spill stores, 0 bytes spill loads" in log
