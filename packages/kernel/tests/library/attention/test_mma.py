"""Is attention by matrix instructions right at the edges of tiles, and what goes another way?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import bfloat16, float16, float32, float64, int64
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.work import Request, View, row_major
from calor_kernel.library.attention import mma_launch, products
from calor_kernel.library.attention.lowering import attention, gradient
from calor_kernel.runtime.backend import KernelBackend

from ..named import named_info
from .test_attention import Row, check_backward, check_forward

# A device with the matrix instructions of planes, and few cores, so that the largest tiles serve.
INFO = replace(
    MANY_UNITS,
    features=MANY_UNITS.features | {"load_matrix"},
    planes=(32,),
    shared_bytes=227 << 10,
    cores=1,
)
ROWS = [
    Row(1, 1, 1, 16, 16, 8, 8),
    Row(1, 2, 1, 129, 65, 64, 64),
    Row(2, 2, 2, 40, 70, 16, 24, order=(0, 2, 1, 3)),
    Row(1, 4, 2, 100, 33, 32, 32, causal=True),
    Row(1, 1, 1, 33, 140, 64, 64, causal=True),
    Row(1, 2, 1, 65, 129, 128, 128, causal=True, scale=0.1),
    Row(1, 1, 1, 130, 70, 72, 128, scale=0.1),
    Row(1, 2, 1, 70, 40, 160, 256, causal=True, scale=0.05),
    Row(1, 2, 1, 20, 70, 16, 16, mask=(1, 1, 20, 70)),
    Row(2, 2, 2, 33, 33, 24, 16, bias=(1, 2, 1, 33), mask=(1, 1, 33, 1), causal=True),
    Row(1, 1, 1, 17, 40, 16, 16, scale=-0.7),
    Row(1, 1, 1, 17, 40, 16, 16, causal=True, scale=0.0),
    # Rows of narrow copies, of several widths.
    Row(2, 2, 1, 33, 70, 100, 100),
    Row(1, 2, 2, 40, 33, 50, 20, order=(0, 2, 1, 3)),
    Row(1, 2, 1, 33, 40, 25, 37, causal=True, scale=0.1),
    Row(1, 1, 1, 33, 20, 132, 250, scale=0.05),
]


def request_of(row, dtype, first=0, info=INFO, candidates=False):
    q = (row.n, row.heads, row.queries, row.features)
    k, v = ((row.n, row.key_heads, row.keys, w) for w in (row.features, row.values))
    out = (*q[:3], row.values)
    shapes = [(q, dtype), (k, dtype), (v, dtype)]
    if first:
        shapes = [(out, dtype), (q[:3], float32), (q[:3], float32), *shapes]
    outputs = [spec(q, dtype), spec(k, dtype), spec(v, dtype)] if first else [spec(out, dtype)]
    views = tuple(View.dense(spec(s, t)) for s, t in shapes)
    said = {"causal": row.causal, "scale": row.scale}
    return Request("attention", said, views, tuple(outputs), info, candidates=candidates)


def names(works):
    return [launch.build.function.name for work in works for launch in work.launches]


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.fixture(autouse=True)
def no_products(monkeypatch):
    """Compute rows of any width in tiles, as those of many keys are."""
    monkeypatch.setattr(products, "_KEYS", 0)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_forward(backend, row):
    assert names(attention(request_of(row, bfloat16))) == ["attend_mma"]
    check_forward(backend, row, "bfloat16")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradient(backend, row):
    found = names(gradient(request_of(row, bfloat16, 3)))
    wide = max(row.features, row.values) > 128
    assert found == ["query_gradient_mma", *["key_gradient_mma"] * (1 + wide)]
    check_backward(backend, row, "bfloat16", "attention_gradient")


def test_gradients_of_expanded_keys_are_reached_by_wide_indices():
    request = request_of(Row(64, 8, 8, 16, 1 << 16, 128, 128), bfloat16, 3)
    *given, key, value = request.inputs
    views = [replace(v, strides=(0, *v.strides[1:])) for v in (key, value)]
    (work,) = gradient(replace(request, inputs=(*given, *views)))
    assert {launch.build.index for launch in work.launches} == {int64}


@pytest.mark.parametrize("row", [Row(1, 4, 2, 100, 33, 64, 64, causal=True)], ids=str)
def test_small_tiles(row):
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(INFO, cores=1000)))
    check_forward(backend, row, "bfloat16")
    check_backward(backend, row, "bfloat16", "attention_gradient")


GROUPED = [
    Row(1, 2, 1, 200, 140, 64, 64, causal=True),
    Row(1, 1, 1, 70, 130, 72, 128, scale=0.1),
    Row(2, 2, 2, 33, 40, 24, 16, bias=(1, 2, 1, 40), mask=(1, 1, 33, 1), causal=True),
]


@pytest.mark.parametrize(("row", "cores"), [*zip(GROUPED, (1, 1000, 1), strict=True)], ids=str)
def test_warp_groups(row, cores, monkeypatch):
    # Planes have the smaller tiles of a forward pass.
    planes = mma_launch.TILES["planes"]
    wide = {**planes, "forward": {256: planes["forward"][256]}}
    monkeypatch.setattr(mma_launch, "TILES", {**mma_launch.TILES, "planes": wide})
    info = replace(
        INFO,
        features=INFO.features | {"async_matrix"},
        cores=cores,
        max_units=1024,
        max_cube=(1024, 1024, 64),
    )
    (work,) = attention(request_of(row, bfloat16, info=info))
    assert work.variant.startswith("warp-group mma")
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check_forward(backend, row, "bfloat16")
    check_backward(backend, row, "bfloat16", "attention_gradient")


# Rows whose tiles of warp groups fill a device, and rows of which planes have smaller tiles.
FILLING = [
    (Row(64, 8, 8, 512, 512, 50, 50), "warp-group mma 128x"),
    (Row(4, 4, 4, 333, 333, 50, 50), "warp mma 64x"),
    (Row(64, 2, 2, 49, 49, 25, 25), "warp mma 64x"),
]


@pytest.mark.parametrize(("row", "name"), FILLING, ids=str)
def test_planes_have_the_smaller_tiles_of_a_forward_pass(row, name):
    info = replace(
        INFO,
        features=INFO.features | {"async_matrix"},
        cores=132,
        max_units=1024,
        max_cube=(1024, 1024, 64),
    )
    (work,) = attention(request_of(row, bfloat16, info=info))
    assert work.variant.startswith(name)


# Instructions that devices have by name.
NAMED = ("mfma_32x32x8_bfloat16", "wmma_16x16x16_bfloat16", "simdgroup_8x8x8_float32")
NAMED_ROWS = [
    Row(1, 4, 2, 100, 33, 32, 32, causal=True),
    Row(2, 2, 2, 33, 40, 24, 16, bias=(1, 2, 1, 40), mask=(1, 1, 33, 1), causal=True),
    Row(1, 1, 1, 40, 70, 72, 128, scale=0.1),
]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("row", NAMED_ROWS, ids=str)
def test_instructions_by_name(name, row):
    info = named_info(name, cores=1)
    assert names(attention(request_of(row, bfloat16, info=info))) == ["attend_mma"]
    found = names(gradient(request_of(row, bfloat16, 3, info)))
    assert found == ["query_gradient_mma", "key_gradient_mma"]
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check_forward(backend, row, "bfloat16")
    check_backward(backend, row, "bfloat16", "attention_gradient")


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("width", [64, 128])
def test_tiles_of_instructions_by_name_fit(name, width):
    info = named_info(name, cores=1)
    table = mma_launch.TILES[name.rpartition("_")[0]]
    row = Row(1, 2, 2, 300, 300, width, width)
    for lower, first in ((attention, 0), (gradient, 3)):
        works = lower(request_of(row, bfloat16, first, info, candidates=True))[:-1]
        plans = {dict(x.build.keywords)["plan"] for work in works for x in work.launches}
        made = [table[kind][width] for kind in (("query", "key") if first else ("forward",))]
        assert {plan.shape(0).name for plan in plans} == {name}
        assert len(plans) == len({one for some in made for one in some})
        for work in works:
            for launch in work.launches:
                built = launch.build.kernel(info.features)
                plan = dict(launch.build.keywords)["plan"]
                assert built.shared_bytes <= plan.shared_bytes(bool(first)) <= info.shared_bytes


def test_float16(backend):
    row = Row(1, 2, 1, 40, 33, 32, 32)
    check_forward(backend, row, "float16")
    check_backward(backend, row, "float16", "attention_gradient")


TF32 = [
    Row(1, 2, 1, 129, 65, 64, 64),
    Row(2, 2, 2, 40, 70, 16, 24, order=(0, 2, 1, 3)),
    Row(1, 2, 1, 65, 50, 128, 100, causal=True, scale=0.1),
    Row(2, 2, 2, 33, 33, 20, 12, bias=(1, 2, 1, 33), mask=(1, 1, 33, 1), causal=True),
    Row(1, 1, 1, 40, 33, 256, 160, scale=0.05),
]


@pytest.mark.parametrize("row", TF32, ids=str)
@pytest.mark.parametrize("cores", [1, 1000])
def test_rounded_factors(row, cores):
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(INFO, cores=cores)))
    request = request_of(row, float32)
    request = replace(request, attributes={**request.attributes, "precision": "high"})
    assert names(attention(request)) == ["attend_mma"]
    check_forward(backend, row, "tf32")
    check_backward(backend, row, "tf32", "attention_gradient")


# Rows that are strided in memory, as those of images are, or that begin between whole accesses.
COPIED = [
    (Row(2, 1, 1, 40, 70, 16, 24, order=(0, 1, 3, 2)), "bfloat16"),
    (Row(1, 4, 2, 33, 40, 64, 64, order=(3, 0, 2, 1), causal=True), "bfloat16"),
    (Row(1, 2, 2, 20, 33, 8, 16, order=(0, 1, 3, 2), bias=(1, 2, 1, 33)), "tf32"),
]


@pytest.mark.parametrize(("row", "dtype"), COPIED, ids=str)
def test_strided_rows_are_copied(backend, row, dtype):
    own = float32 if dtype == "tf32" else bfloat16
    for lower, first, after in ((attention, 0, "attend_mma"), (gradient, 3, "query_gradient_mma")):
        request = request_of(row, own, first)
        views = list(request.inputs)
        for number in range(first, first + 3):
            shape = [views[number].shape[axis] for axis in row.order]
            steps = dict(zip(row.order, row_major(shape), strict=True))
            views[number] = replace(views[number], strides=tuple(steps[a] for a in range(4)))
        said = {**request.attributes, "precision": "high"}
        (work,) = lower(replace(request, inputs=tuple(views), attributes=said))
        assert work.variant.startswith("copied")
        assert len(work.scratch) == 3
        assert names([work])[3] == after
    check_forward(backend, row, dtype)
    check_backward(backend, row, dtype, "attention_gradient")


# Why matrix instructions refuse: a case, its type and device, and the reason.
REFUSED = {
    "float64": (ROWS[0], float64, INFO, "operands are float64"),
    "precision": (ROWS[0], float32, INFO, "factors of float32 must not be rounded"),
    "wide rows": (Row(1, 1, 1, 16, 16, 300, 8), bfloat16, INFO, "rows are not of 1 to 256"),
    "few rows": (Row(1, 1, 1, 63, 15, 8, 8), bfloat16, INFO, "less than 16 queries or keys"),
    "planes": (ROWS[0], bfloat16, replace(MANY_UNITS, cores=1), "no suitable matrix instruction"),
    "no instruction": (
        ROWS[0],
        float16,
        replace(INFO, features=MANY_UNITS.features),
        "no suitable matrix instruction",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_other_operands_go_another_way(why):
    row, dtype, info, reason = REFUSED[why]
    works = attention(request_of(row, dtype, info=info))
    assert names(works) in (["attend_simt"], ["attend_whole"])
    dropped = {one.variant: one.reason for one in works.dropped}
    assert reason in dropped["mma"]
    assert reason in dropped["tma"]
    found = names(gradient(request_of(row, dtype, 3, info)))
    assert found in (["query_gradient_simt", "key_gradient_simt"], ["gradient_split"])


@pytest.mark.parametrize("lower", [attention, gradient])
def test_candidates_have_names_of_their_own_and_fit(lower):
    row = Row(1, 2, 2, 300, 300, 128, 64)
    works = lower(request_of(row, bfloat16, 3 if lower is gradient else 0, candidates=True))
    variants = [work.variant for work in works]
    assert len(set(variants)) == len(variants) > 4
    assert variants[-1] == "simt"
    assert [work.group for work in works] == sorted(work.group for work in works)
    for work in works[:-1]:
        for launch in work.launches:
            built = launch.build.kernel(INFO.features)
            assert built.shared_bytes <= dict(launch.build.keywords)["plan"].shared_bytes(True)


def test_weights_of_powers_of_two():
    from calor_kernel.library.attention.mma_tiles import power_of_two

    assert power_of_two.reference(np.float32(-3)) == 0.125
