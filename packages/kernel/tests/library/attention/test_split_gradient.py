"""Are gradients of attention of few queries right over split keys, and when are they taken?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float32
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.attention import split_gradient_launch
from calor_kernel.library.attention.lowering import gradient
from calor_kernel.library.attention.problem import attention_of
from calor_kernel.library.attention.split_gradient_launch import (
    gradient_plan,
    gradient_split_refusal,
)
from calor_kernel.runtime.backend import KernelBackend

from .test_attention import Row, check_backward
from .test_mma import request_of

# Planes of a GPU, and cores for several splits of a few hundred keys.
INFO = replace(MANY_UNITS, planes=(32,), cores=4)
APART = replace(INFO, features=INFO.features - {"forward_progress"})
SMALL = replace(MANY_UNITS, cores=2)
LARGE = replace(INFO, shared_bytes=227 << 10)
DEVICES = {"last cube": INFO, "second launch": APART, "planes of 8": SMALL}
ROWS = [
    Row(2, 4, 2, 1, 150, 128, 128, scale=0.1),
    Row(1, 6, 2, 1, 130, 40, 24, mask=(1, 1, 1, 130)),
    Row(1, 5, 1, 3, 60, 80, 96, bias=(1, 5, 3, 60), mask=(1, 1, 3, 1)),
    Row(1, 2, 1, 16, 70, 16, 16, causal=True),
    Row(1, 2, 1, 2, 33, 256, 256, scale=0.05),
    Row(1, 2, 1, 4, 100, 7, 5, order=(0, 2, 1, 3)),
    Row(1, 2, 1, 2, 50, 64, 64, order=(0, 1, 3, 2)),
    Row(1, 1, 1, 2, 4, 320, 8, scale=0.05),
    Row(1, 2, 2, 7, 140, 32, 32, bias=(1, 2, 1, 140), scale=-0.7),
    Row(1, 1, 1, 2, 0, 8, 8),
]
# Blocks of rows in several planes, of which the last has few or no rows.
BLOCKS = [
    Row(1, 2, 1, 16, 50, 24, 24, causal=True, mask=(1, 2, 16, 50)),
    Row(1, 1, 1, 33, 21, 40, 32, scale=0.2),
    Row(1, 1, 1, 50, 50, 16, 16, bias=(1, 1, 50, 50), causal=True),
]


def names(works):
    return [launch.build.function.name for launch in works[0].launches]


@pytest.fixture(scope="module", params=DEVICES)
def info(request):
    return DEVICES[request.param]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradient(info, row):
    dtype = "float32" if info is INFO else "bfloat16"
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check_backward(backend, row, dtype, "attention_gradient")


@pytest.mark.parametrize("row", BLOCKS, ids=str)
def test_blocks(row):
    assert "gradient_split" in names(gradient(request_of(row, float32, 3, info=LARGE)))
    backend = KernelBackend("lanes", lambda index: LanesDevice(LARGE))
    check_backward(backend, row, "float32", "attention_gradient")


def test_fewer_sums_are_joined_at_once_where_shared_memory_is_small():
    row, plans = Row(1, 1, 1, 28, 40, 48, 48), []
    for kilobytes in (227, 40):
        info = replace(INFO, shared_bytes=kilobytes << 10)
        request = request_of(row, float32, 3, info=info)
        ((launch, *_),) = (work.launches for work in gradient(request))
        plans.append(dict(launch.build.keywords)["plan"])
    large, small = plans
    assert small.team.together < large.team.together
    assert small.shared_bytes(4, 32) <= info.shared_bytes < large.shared_bytes(4, 32)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check_backward(backend, row, "float32", "attention_gradient")


def test_fewer_keys_are_in_a_step_where_shared_memory_is_small():
    row = Row(1, 32, 1, 1, 40, 128, 128)
    info = replace(LARGE, shared_bytes=48 << 10)
    request = request_of(row, float32, 3, info=info)
    assert gradient_split_refusal(attention_of(request, 3), request) is None
    ((launch, *_),) = (work.launches for work in gradient(request))
    plan = dict(launch.build.keywords)["plan"]
    large = gradient_plan(attention_of(request, 3), replace(request, info=LARGE))
    assert plan.rows == large.rows == 32
    assert plan.step < large.step
    assert plan.shared_bytes(4, 32) <= info.shared_bytes < large.shared_bytes(4, 32)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check_backward(backend, row, "float32", "attention_gradient")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_types(info, dtype):
    row = Row(1, 4, 2, 2, 140, 24, 24, mask=(1, 1, 2, 140))
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check_backward(backend, row, dtype, "attention_gradient")


@pytest.mark.parametrize("shape", [(8, 1, 1), (4, 4, 2), (1, 2, 1), (2, 1, 2)])
def test_shapes(monkeypatch, shape):
    shapes = dict.fromkeys(split_gradient_launch.SHAPES, shape)
    monkeypatch.setattr(split_gradient_launch, "SHAPES", shapes)
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFO))
    check_backward(backend, Row(1, 4, 2, 3, 140, 40, 40), "float16", "attention_gradient")


@pytest.mark.parametrize(
    ("row", "info", "dtype", "wanted"),
    [
        (Row(1, 2, 2, 1, 300, 64, 64), INFO, bfloat16, ["gradient_split"]),
        (Row(1, 2, 2, 1, 300, 64, 64), APART, bfloat16, ["gradient_split", "join_gradients"]),
        (Row(64, 8, 8, 1, 300, 64, 64), APART, bfloat16, ["gradient_split"]),
        (
            Row(1, 32, 8, 15, 4096, 64, 64),
            INFO,
            bfloat16,
            ["query_gradient_mma", "key_gradient_mma"],
        ),
        (Row(1, 32, 8, 1, 4096, 64, 64), INFO, bfloat16, ["gradient_split"]),
        (Row(1, 2, 2, 17, 300, 64, 64), INFO, bfloat16, ["query_gradient_mma", "key_gradient_mma"]),
        (Row(1, 2, 2, 17, 300, 64, 64), INFO, float32, ["gradient_split"]),
        (
            Row(1, 2, 2, 65, 300, 64, 64),
            INFO,
            float32,
            ["query_gradient_whole", "key_gradient_whole"],
        ),
    ],
    ids=[
        "joined",
        "apart",
        "many heads",
        "many rows for matrix instructions",
        "few rows",
        "for matrix instructions",
        "exact",
        "many rows",
    ],
)
def test_launches(row, info, dtype, wanted):
    info = replace(info, features=info.features | {"load_matrix"}, shared_bytes=227 << 10)
    assert names(gradient(request_of(row, dtype, 3, info=info))) == wanted


def test_rows_of_an_upstream_gradient_that_begins_within_an_access():
    request = request_of(Row(1, 2, 2, 2, 300, 64, 64), float32, 3, info=INFO)
    moved = replace(request.inputs[0], offset=2)
    request = replace(request, inputs=(moved, *request.inputs[1:]))
    ((launch, *_),) = (work.launches for work in gradient(request))
    assert dict(launch.build.keywords)["plan"].team.access == 2


@pytest.mark.parametrize(
    ("row", "info", "reason"),
    [
        (Row(), replace(INFO, features=INFO.features - {"planes"}), "no planes"),
        (Row(heads=5, queries=13), INFO, "more than 64 rows"),
        (Row(features=3000), INFO, "too wide"),
        (Row(values=0), INFO, "no queries, features or values"),
        (Row(queries=64, features=256), INFO, "shared memory"),
    ],
    ids=["planes", "rows", "wide", "values", "shared"],
)
def test_refusals(row, info, reason):
    request = request_of(row, float32, 3, info=info)
    assert reason in (gradient_split_refusal(attention_of(request, 3), request) or "")
