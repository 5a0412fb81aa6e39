"""Is attention what its definition says, with its gradients, for every way of computing them?"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from calor.dtypes import ALL, float32
from calor.graph.graph import Builder
from calor.ops.base import table
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.library.attention import cpu_launch, simt_launch
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from . import reference

NAMES = {t.name: t for t in ALL} | {"tf32": float32}
DTYPES = {t.numpy: t for t in ALL}
# Errors allowed, as a part of the largest element.
DIGITS = {"float16": 2e-3, "bfloat16": 2e-2, "tf32": 1e-2, "float32": 1e-5, "float64": 1e-13}


@dataclass(frozen=True)
class Row:
    """A case: batch, query and key heads, places, features, and what else there is.

    ``order``: the order in which the axes lie in memory. ``hide``: a mask with this shape.
    """

    n: int = 1
    heads: int = 1
    key_heads: int = 1
    queries: int = 3
    keys: int = 5
    features: int = 4
    values: int = 4
    causal: bool = False
    mask: tuple[int, ...] | None = None
    bias: tuple[int, ...] | None = None
    order: tuple[int, ...] | None = None
    scale: float = 0.5


ROWS = [
    Row(),
    Row(2, 4, 2, 7, 19, 16, 16),
    Row(1, 2, 2, 20, 20, 8, 8, causal=True),
    Row(1, 1, 1, 21, 70, 5, 17, causal=True),
    Row(1, 1, 1, 40, 21, 17, 5, causal=True),
    Row(2, 3, 1, 7, 33, 20, 12, mask=(2, 1, 7, 33)),
    Row(2, 2, 2, 9, 33, 20, 12, bias=(1, 2, 1, 33), mask=(1, 1, 9, 1)),
    Row(2, 2, 2, 9, 18, 4, 4, bias=(2, 1, 9, 18), causal=True),
    Row(2, 2, 1, 9, 18, 4, 4, bias=(1, 1, 9, 1)),
    Row(1, 2, 1, 9, 150, 4, 4, bias=(1, 2, 9, 1)),
    Row(2, 2, 1, 9, 18, 8, 8, order=(0, 2, 1, 3)),
    Row(2, 2, 1, 9, 18, 8, 8, order=(0, 1, 3, 2), bias=(2, 2, 9, 18)),
    Row(1, 1, 1, 1, 40, 8, 8),
    Row(1, 1, 1, 4, 1, 1, 1),
    Row(1, 2, 1, 4, 0, 3, 3),
    Row(1, 2, 1, 0, 4, 3, 3),
    Row(1, 2, 1, 4, 4, 0, 3),
    Row(1, 2, 1, 4, 4, 3, 0),
    Row(0, 2, 1, 4, 4, 3, 3),
    Row(2, 2, 2, 3, 5, 4, 2, scale=-0.7),
    Row(2, 2, 2, 3, 5, 4, 2, scale=100.0),
    # Few queries: of one key head each and of several, with all, transposed, and causal rows.
    Row(2, 4, 2, 1, 37, 9, 20),
    Row(1, 2, 2, 2, 150, 20, 9, mask=(1, 2, 2, 150), bias=(1, 2, 1, 150)),
    Row(2, 2, 2, 3, 19, 12, 5, order=(0, 2, 1, 3)),
    Row(1, 2, 2, 2, 19, 12, 5, order=(0, 1, 3, 2)),
    Row(1, 2, 2, 5, 19, 4, 4, causal=True),
]
BIASED = [row for row in ROWS if row.bias]


@pytest.mark.parametrize(("queries", "packed"), [(5, 0), (6, 2)])
def test_gradients_of_few_queries_read_keys_and_values_in_place(queries, packed):
    load_families()
    query, key = (1, 4, queries, 8), (1, 2, 40, 8)
    shapes = query, (1, 4, queries), (1, 4, queries), query, key, key
    request = Request(
        "attention_gradient",
        {"causal": False, "scale": 1.0},
        tuple(View.dense(spec(shape, float32)) for shape in shapes),
        tuple(spec(shape, float32) for shape in (query, key, key)),
        ONE_UNIT,
    )
    work, *_ = LOWERINGS["attention_gradient"](request)
    assert [launch.label for launch in work.launches].count("matmul pack") == packed


def operands(row, dtype):
    """Return query, key, value and extras in a type."""
    rng = np.random.default_rng(3)
    host = NAMES[dtype].numpy
    made = [
        rng.standard_normal(shape).astype(host)
        for shape in (
            (row.n, row.heads, row.queries, row.features),
            (row.n, row.key_heads, row.keys, row.features),
            (row.n, row.key_heads, row.keys, row.values),
        )
    ]
    if row.mask:
        seen = rng.random(row.mask) < 0.7
        # A row that may look nowhere.
        seen[..., 1:2, :] = False
        made.append(seen)
    if row.bias:
        made.append(rng.standard_normal(row.bias).astype(host))
    return made


def run(backend, op, arrays, attributes, order, first):
    """Return what a backend makes of an op whose query is operand ``first``."""
    builder = Builder()
    laid = list(arrays)
    for i in range(first, first + 3 if order else first):
        laid[i] = np.ascontiguousarray(arrays[i].transpose(order))
    numbers = [builder.input(spec(a.shape, DTYPES[a.dtype])) for a in laid]
    for i in range(first, first + 3 if order else first):
        axes = tuple(int(x) for x in np.argsort(order))
        (numbers[i],) = builder.add(table()["permute"], [numbers[i]], {"axes": axes})
    graph = builder.build(builder.add(table()[op], numbers, attributes))
    executable = backend.compile(0, graph)
    made = executable([backend.upload(0, np.ascontiguousarray(a)) for a in laid])
    return [
        np.array(backend.download(0, b, s)) for b, s in zip(made, graph.output_specs, strict=True)
    ]


def precision(dtype):
    """Return the attribute that permits to round factors of float32."""
    return {"precision": "high"} if dtype == "tf32" else {}


def wide(arrays):
    return [a if a.dtype == bool else a.astype(np.float64) for a in arrays]


def near(found, wanted, dtype):
    assert found.shape == wanted.shape
    there = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~there].astype(np.float64), wanted[~there])
    error = np.abs(found.astype(np.float64)[there] - wanted[there])
    assert error.max(initial=0) <= DIGITS[dtype] * np.abs(wanted[there]).max(initial=1)


def check_forward(backend, row, dtype):
    arrays = operands(row, dtype)
    attributes = {"causal": row.causal, "scale": row.scale}
    found = run(backend, "attention", arrays, attributes | precision(dtype), row.order, 0)
    for mine, right in zip(found, reference.attention(*wide(arrays), **attributes), strict=True):
        near(mine, right, dtype)


def check_backward(backend, row, dtype, op):
    arrays = operands(row, dtype)
    attributes = {"causal": row.causal, "scale": row.scale}
    out, total = reference.attention(*wide(arrays), **attributes)
    rng = np.random.default_rng(4)
    upstream = rng.standard_normal(out.shape).astype(arrays[0].dtype)
    rows = np.float64 if dtype == "float64" else np.float32
    delta = (upstream.astype(np.float64) * out).sum(-1).astype(rows)
    given = [upstream, delta, total.astype(rows), *arrays]
    found = run(backend, op, given, attributes | precision(dtype), row.order, 3)
    right = {
        "attention_gradient": reference.gradient,
        "attention_bias_gradient": reference.bias_gradient,
    }[op](*wide(given), **attributes)
    for mine, wanted in zip(found, right, strict=True):
        # Errors of the scores are multiplied by the scale.
        near(mine / max(1, row.scale), wanted / max(1, row.scale), dtype)


DEVICES = {
    "one unit": ONE_UNIT,
    "many units": MANY_UNITS,
    "no planes": replace(
        MANY_UNITS, features=MANY_UNITS.features - {"planes", "async_copy"}, planes=(1,)
    ),
    "planes of 32": replace(MANY_UNITS, planes=(32,)),
}


@pytest.fixture(scope="module", params=["one unit", "many units", "no planes"])
def backend(request):
    return KernelBackend("lanes", lambda index: LanesDevice(DEVICES[request.param]))


# More features than private memory holds for the gradients: minutes on lanes.
WIDE = pytest.param(Row(1, 1, 1, 2, 3, 1300, 700, scale=0.02), marks=pytest.mark.slow)


@pytest.mark.parametrize("row", [*ROWS, WIDE], ids=str)
def test_forward(backend, row):
    check_forward(backend, row, "float32")


@pytest.mark.parametrize("row", [*ROWS, WIDE], ids=str)
def test_gradient(backend, row):
    check_backward(backend, row, "float32", "attention_gradient")


@pytest.mark.parametrize("row", BIASED, ids=str)
def test_bias_gradient(backend, row):
    check_backward(backend, row, "float32", "attention_bias_gradient")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(backend, dtype):
    row = Row(1, 2, 1, 4, 18, 8, 8, bias=(1, 2, 1, 18), mask=(1, 1, 4, 1))
    check_forward(backend, row, dtype)
    check_backward(backend, row, dtype, "attention_gradient")
    check_backward(backend, row, dtype, "attention_bias_gradient")


# More queries and keys than small tiles have.
LARGE = [
    Row(1, 2, 1, 70, 67, 40, 72, causal=True),
    Row(1, 2, 2, 33, 130, 33, 17, order=(0, 1, 3, 2), mask=(1, 1, 33, 130)),
    Row(2, 2, 1, 65, 64, 64, 130, bias=(1, 2, 1, 64)),
]


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("no planes", "float32"), ("planes of 32", "bfloat16"), ("planes of 32", "float64")],
)
@pytest.mark.parametrize("row", LARGE, ids=str)
def test_large_tiles(row, device, dtype):
    backend = KernelBackend("lanes", lambda index: LanesDevice(DEVICES[device]))
    check_forward(backend, row, dtype)
    check_backward(backend, row, dtype, "attention_gradient")
    if row.bias:
        check_backward(backend, row, dtype, "attention_bias_gradient")


@pytest.mark.parametrize("tile", simt_launch.TILES, ids=str)
def test_tiles(monkeypatch, tile):
    monkeypatch.setattr(simt_launch, "TILES", (tile,))
    info = DEVICES["planes of 32"]
    info = replace(info, features=info.features - {"async_copy"})
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    row = Row(1, 2, 1, 70, 67, 40, 72, causal=True)
    check_forward(backend, row, "float32")
    check_backward(backend, row, "float32", "attention_gradient")


def test_cubes_of_a_core_share_its_memory():
    info = replace(MANY_UNITS, planes=(32,), max_units=1024, shared_bytes=48 << 10)
    over = simt_launch.Pass(by_keys=False, width=32, products=1)
    plan = simt_launch.SimtPlan(16, 8, 32, 8, 4, 2, 4)
    alone = simt_launch._held(plan, over, 4, info)
    assert plan.shared_bytes(4, 32) * 2 > info.shared_bytes
    assert alone == 1
    assert simt_launch._held(plan, over, 4, replace(info, core_shared_bytes=228 << 10)) == 3


def test_a_device_of_few_registers_has_no_tile_of_more(monkeypatch):
    class Chosen(Exception):
        pass

    chosen = simt_launch.simt_plan

    def plans(problem, info, over):
        over = replace(over, whole=False)
        limits = (info, replace(info, registers=100))
        raise Chosen(*(chosen(problem, limit, over).rows for limit in limits))

    monkeypatch.setattr(simt_launch, "TILES", ((16, 8, 8, 4), (16, 8, 2, 1)))
    # The first of the tiles that fit.
    monkeypatch.setattr(simt_launch, "_first", lambda *given: 0)
    monkeypatch.setattr(simt_launch, "simt_plan", plans)
    backend = KernelBackend("lanes", lambda index: LanesDevice(DEVICES["planes of 32"]))
    with pytest.raises(Chosen) as found:
        check_forward(backend, Row(1, 1, 1, 40, 21, 4, 4), "float32")
    assert found.value.args == (8, 2)


@pytest.mark.parametrize(("registers", "terms"), [(16, 8), (32, 4)])
def test_turns_of_small_tiles_have_more_terms(monkeypatch, registers, terms):
    """A turn's own instructions are a larger part of a small tile's."""
    made = []

    def tiles(*arguments):
        made.append(real(*arguments))
        return made[-1]

    real = cpu_launch._tiles
    monkeypatch.setattr(cpu_launch, "_tiles", tiles)
    info = replace(ONE_UNIT, native={"vector_registers": registers})
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    row = Row(1, 2, 1, 9, 21, 7, 5, causal=True)
    check_forward(backend, row, "float32")
    check_backward(backend, row, "float32", "attention_gradient")
    assert {one.unroll for one in made} == {terms}
