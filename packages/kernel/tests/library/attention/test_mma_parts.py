"""Are few rows by matrix instructions right when cubes share the keys, and heads a tile?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16
from calor_interpreter.device import LanesDevice
from calor_kernel.library.attention import split_gradient_launch, split_keys_launch
from calor_kernel.library.attention.folding import folded
from calor_kernel.library.attention.lowering import attention, gradient
from calor_kernel.library.attention.problem import attention_of
from calor_kernel.runtime.backend import KernelBackend

from .test_attention import Row, check_backward, check_forward
from .test_mma import INFO, names, request_of

MANY = replace(INFO, cores=16)
GROUPS = replace(
    MANY,
    features=MANY.features | {"async_matrix"},
    max_units=1024,
    max_cube=(1024, 1024, 64),
)
ROWS = [
    Row(1, 8, 1, 1, 700, 64, 64),
    Row(2, 12, 2, 1, 530, 40, 24, mask=(2, 1, 1, 530)),
    Row(1, 10, 2, 1, 300, 64, 128, bias=(1, 10, 1, 300), mask=(1, 1, 1, 300)),
    Row(1, 6, 1, 3, 520, 32, 32, mask=(1, 1, 1, 520), scale=-0.3),
    Row(1, 6, 1, 3, 520, 32, 32, bias=(1, 6, 3, 520)),
    Row(1, 6, 1, 3, 520, 32, 32, bias=(1, 1, 3, 520)),
    Row(1, 6, 1, 3, 300, 32, 32, causal=True),
    Row(1, 5, 1, 2, 270, 128, 128, order=(0, 2, 1, 3), scale=0.05),
]


@pytest.fixture(autouse=True)
def _any_number_of_rows(monkeypatch):
    for module in (split_keys_launch, split_gradient_launch):
        monkeypatch.setattr(module, "TERMS", 0)
    monkeypatch.setattr(split_gradient_launch, "UNIT_ROWS", 4)


@pytest.mark.parametrize("info", [MANY, GROUPS], ids=["planes", "warp groups"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_forward(row, info):
    found = names(attention(request_of(row, bfloat16, info=info)))
    assert found == ["attend_mma", *["join_splits"] * (row.keys > 8 * 64)]
    check_forward(KernelBackend("lanes", lambda index: LanesDevice(info)), row, "bfloat16")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradient(row):
    found = names(gradient(request_of(row, bfloat16, 3, info=MANY)))
    assert {"query_gradient_mma", "key_gradient_mma"} <= set(found)
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY))
    check_backward(backend, row, "bfloat16", "attention_gradient")


@pytest.mark.parametrize(
    ("row", "rows"),
    [
        (Row(1, 8, 2, 1, 70, 64, 64), 4),
        (Row(1, 8, 2, 3, 70, 64, 64), 12),
        (Row(1, 8, 8, 3, 70, 64, 64), 3),
        (Row(1, 8, 2, 3, 70, 64, 64, causal=True), 3),
    ],
    ids=["heads", "heads and queries", "no group", "causal"],
)
def test_heads_of_a_key_head_are_its_queries(row, rows):
    request = request_of(row, bfloat16)
    assert attention_of(folded(attention_of(request), request)).queries == rows
