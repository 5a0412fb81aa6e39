"""Is attention by TMA right, whatever the tiles, and what serves operands that do not suit TMA?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float32, int32, int64
from calor_cuda.kernels.attention import warpgroup_tma_launch
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.attention.lowering import attention, gradient
from calor_kernel.runtime.backend import KernelBackend

from .test_attention import Row, check_backward, check_forward
from .test_mma import request_of

# A device with a copy engine, and few cores, so that a cube computes several tiles.
INFO = replace(
    MANY_UNITS,
    features=MANY_UNITS.features | {"load_matrix", "async_matrix", "tensor_copy", "mbarrier"},
    planes=(32,),
    shared_bytes=227 << 10,
    max_units=1024,
    max_cube=(1024, 1024, 64),
    cores=3,
)
TWO, ALTERNATING, THREE = (2, 128, 2, False, 2), (2, 64, 2, True, 2), (3, 128, 2, False)
CASES = [
    (Row(1, 2, 1, 200, 140, 64, 64, causal=True), ALTERNATING),
    (Row(1, 2, 1, 260, 200, 64, 64, causal=True), ALTERNATING),
    (Row(1, 1, 1, 70, 300, 72, 128, scale=0.1), (2, 64, 2, True)),
    (Row(2, 2, 2, 40, 170, 16, 24, order=(0, 2, 1, 3)), TWO),
    (Row(2, 2, 2, 33, 40, 24, 16, bias=(1, 2, 1, 40), mask=(1, 1, 33, 1), causal=True), THREE),
    (Row(1, 1, 1, 140, 130, 64, 64, scale=-0.7), (1, 64, 3, False)),
    # Places of own rows, and of blocks, come again and again.
    (Row(1, 7, 7, 70, 100, 16, 16, causal=True), (1, 64, 2, False, 2)),
    (Row(1, 2, 1, 130, 140, 16, 16, causal=True), (2, 64, 2, True, 1, 40)),
]


@pytest.mark.parametrize(("row", "made"), CASES, ids=str)
def test_forward_by_tma(monkeypatch, row, made):
    monkeypatch.setattr(warpgroup_tma_launch, "FORWARD", {64: (made,), 128: (made,)})
    (work,) = attention(request_of(row, bfloat16, info=INFO))
    assert work.variant.startswith("tma ")
    check_forward(KernelBackend("lanes", lambda index: LanesDevice(INFO)), row, "bfloat16")


@pytest.mark.parametrize(("row", "made"), CASES, ids=str)
def test_gradients_by_tma(monkeypatch, row, made):
    for table in ("QUERY", "KEY"):
        monkeypatch.setattr(warpgroup_tma_launch, table, {64: (made,), 128: (made,)})
    (work,) = gradient(request_of(row, bfloat16, 3, info=INFO))
    assert work.variant.startswith("tma ")
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFO))
    check_backward(backend, row, "bfloat16", "attention_gradient")


ONE, PAIR, SHORT = (1, 64, 2, False, 2), (2, 64, 2, True, 1), (1, 32, 2, False, 1)
ROUNDED = [
    (Row(1, 1, 1, 70, 100, 24, 40, causal=True), ONE),
    (
        Row(1, 2, 1, 20, 40, 40, 64, bias=(1, 2, 1, 40), mask=(1, 1, 20, 1), order=(0, 2, 1, 3)),
        SHORT,
    ),
    (Row(1, 1, 1, 66, 36, 16, 16, scale=-0.7), PAIR),
]


@pytest.mark.parametrize(("row", "made"), ROUNDED, ids=str)
def test_rounded_factors_by_tma(monkeypatch, row, made):
    """Products that sum over rows read blocks that a warp group has transposed."""
    for table in ("FORWARD", "QUERY", "KEY"):
        monkeypatch.setattr(warpgroup_tma_launch, f"TF32_{table}", (made,))
    for lower, first in ((attention, 0), (gradient, 3)):
        request = request_of(row, float32, first, info=INFO)
        said = {**request.attributes, "precision": "high"}
        (work,) = lower(replace(request, attributes=said))
        assert work.variant.startswith("tma ")
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFO))
    check_forward(backend, row, "tf32")
    check_backward(backend, row, "tf32", "attention_gradient")


@pytest.mark.parametrize(("width", "precision"), [(64, "highest"), (72, "high")])
def test_other_factors_of_four_bytes_go_another_way(width, precision):
    request = request_of(Row(1, 2, 2, 128, 128, width, width), float32, info=INFO)
    said = {**request.attributes, "precision": precision}
    (work,) = attention(replace(request, attributes=said))
    assert not work.variant.startswith("tma ")


def test_producers_get_registers_that_consumers_leave(monkeypatch):
    """A warp group of each kind shares what a cube has, by eights."""
    found = {}
    for asking in (0, 40, 56):
        monkeypatch.setattr(warpgroup_tma_launch, "KEY", {64: ((2, 64, 2, True, 2, asking),)})
        (work,) = gradient(request_of(CASES[0][0], bfloat16, 3, info=INFO))
        plan = work.launches[1].build.keywords[-1][1]
        found[asking] = plan.registers
        assert plan.registers[0] + 2 * plan.registers[1] <= (64 << 10) // 128
    assert found == {0: (24, 240), 40: (40, 232), 56: (56, 224)}


@pytest.mark.parametrize(
    ("heads", "rows", "name"),
    # Of 197 rows, tiles of 64 and of 128 rows leave as many empty, and two blocks of 112 hold them.
    [(8, 2048, "128x128"), (32, 512, "128x128"), (1, 512, "64x128"), (32, 197, "128x112")],
)
def test_tiles_fill_the_device_and_are_nearly_full(heads, rows, name):
    row = Row(1, heads, heads, rows, rows, 64, 64)
    (work,) = attention(request_of(row, bfloat16, info=replace(INFO, cores=64)))
    assert work.variant.startswith(f"tma {name}")


@pytest.mark.parametrize("rows", [300, 1 << 25])
@pytest.mark.parametrize("width", warpgroup_tma_launch.FORWARD)
def test_tiles_fit(width, rows):
    row = Row(1, 2, 2, rows, rows, width, width)
    for lower, first in ((attention, 0), (gradient, 3)):
        works = lower(request_of(row, bfloat16, first, info=INFO, candidates=True))
        by_tma = [work for work in works if work.variant.startswith("tma ")]
        assert len({work.variant for work in by_tma}) == len(by_tma) > 1
        for launch in (launch for work in by_tma[:-1] for launch in work.launches):
            assert launch.build.index is (int32 if rows == 300 else int64)
            assert launch.build.kernel(INFO.features).shared_bytes <= INFO.shared_bytes


def test_operands_that_repeat_go_another_way():
    request = request_of(Row(2, 2, 2, 128, 128, 64, 64), bfloat16, info=INFO)
    query, key, value = request.inputs
    views = (query, replace(key, strides=(0, *key.strides[1:])), value)
    (work,) = attention(replace(request, inputs=views))
    assert work.variant.startswith("warp-group mma")


# Rows of heads that one turn of the cores holds by tiles of two warp groups, in two turns by tiles
# of one; and rows that tiles of one warp group hold in one turn.
TURNS = [
    (Row(16, 4, 4, 197, 197, 80, 80), "tma 128x"),
    (Row(32, 4, 4, 128, 128, 72, 72), "tma 128x"),
    (Row(4, 16, 16, 77, 77, 64, 64), "tma 64x"),
]


@pytest.mark.parametrize(("row", "name"), TURNS, ids=str)
def test_tiles_of_the_fewest_turns_where_none_fill_the_device(row, name):
    info = replace(INFO, cores=132)
    assert attention(request_of(row, bfloat16, info=info))[0].variant.startswith(name)
    (work,) = gradient(request_of(row, bfloat16, 3, info=info))
    assert [one.startswith(name) for one in work.variant.split("; ")] == [True, True]
