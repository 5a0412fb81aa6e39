"""Is attention of few queries right when cubes share the keys, and when is it the first choice?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float64
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.attention.lowering import attention
from calor_kernel.library.attention.problem import attention_of
from calor_kernel.library.attention.split_keys_launch import split_refusal
from calor_kernel.runtime.backend import KernelBackend

from .test_attention import Row, check_forward
from .test_mma import request_of

# Planes of a GPU, and cores for several splits of a few hundred keys.
INFO = replace(MANY_UNITS, planes=(32,), cores=16)
APART = replace(INFO, features=INFO.features - {"forward_progress"})
SMALL = replace(MANY_UNITS, cores=2)
DEVICES = {"last cube": INFO, "second launch": APART, "planes of 8": SMALL}
ROWS = [
    Row(1, 2, 2, 1, 900, 64, 64),
    Row(2, 8, 2, 1, 200, 128, 128, scale=0.1),
    Row(1, 6, 2, 1, 130, 40, 24, mask=(1, 1, 1, 130)),
    Row(1, 5, 1, 3, 190, 80, 96, bias=(1, 5, 3, 190), mask=(1, 1, 3, 1)),
    Row(1, 2, 1, 16, 70, 16, 16, causal=True),
    Row(1, 7, 1, 2, 33, 256, 256, scale=0.05),
    Row(1, 2, 1, 4, 100, 7, 5, order=(0, 2, 1, 3)),
    Row(1, 2, 1, 2, 100, 64, 64, order=(0, 1, 3, 2)),
    Row(1, 1, 1, 2, 4, 320, 8, scale=0.05),
    Row(1, 3, 3, 1, 260, 32, 32, bias=(1, 3, 1, 260), scale=-0.7),
]


def names(works):
    return [launch.build.function.name for launch in works[0].launches]


@pytest.fixture(scope="module", params=DEVICES)
def info(request):
    return DEVICES[request.param]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_forward(info, row, dtype):
    check_forward(KernelBackend("lanes", lambda index: LanesDevice(info)), row, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_types(info, dtype):
    row = Row(1, 4, 2, 2, 140, 24, 24, mask=(1, 1, 2, 140))
    check_forward(KernelBackend("lanes", lambda index: LanesDevice(info)), row, dtype)


@pytest.mark.parametrize(
    ("row", "info", "wanted"),
    [
        (Row(1, 2, 2, 1, 900, 64, 64), INFO, ["attend_split"]),
        (Row(1, 2, 2, 1, 900, 64, 64), APART, ["attend_split", "join_splits"]),
        (Row(64, 8, 8, 1, 300, 64, 64), APART, ["attend_split"]),
        (Row(1, 2, 2, 17, 300, 64, 64), INFO, ["attend_mma"]),
    ],
    ids=["joined", "apart", "many rows", "many queries"],
)
def test_launches(row, info, wanted):
    info = replace(info, features=info.features | {"load_matrix"}, shared_bytes=227 << 10)
    assert names(attention(request_of(row, bfloat16, info=info))) == wanted


@pytest.mark.parametrize(
    ("row", "info", "reason"),
    [
        (Row(), replace(INFO, features=INFO.features - {"planes"}), "no planes"),
        (Row(queries=17), INFO, "more than 16 queries"),
        (Row(features=3000), INFO, "too wide"),
        (Row(values=0), INFO, "no values"),
    ],
    ids=["planes", "queries", "wide", "values"],
)
def test_refusals(row, info, reason):
    request = request_of(row, float64, info=info)
    assert reason in (split_refusal(attention_of(request), request) or "")
