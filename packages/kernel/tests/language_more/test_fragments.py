"""Fragments and products of every instruction, on lanes against NumPy; and without instructions."""

from math import prod
from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, float16, float32, float64, int8, int32, int64
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.language import Buffer, Scalar, barrier, kernel, shared, unit_index, unravel
from calor_kernel.language.fragments import fragment, group_of
from calor_kernel.language.layouts import Layout, Swizzle, Swizzled
from calor_kernel.language.matrices import SHAPES, MatrixShape, mma_16x8, scalar, wgmma_64
from calor_kernel.language.products import SharedMatrix, issue_mma, mma, operand_of, wait_mma

ALONE = [
    scalar(4, 8, 2),
    scalar(3, 4, 3, float64),
    scalar(2, 8, 4, int8, int32),
    scalar(4, 16, 1, bfloat16, float32),
]
EVERY = [*SHAPES.values(), *ALONE]
FEATURES = frozenset({"matrix", "async_matrix", "barrier", "planes"})
SIZE = Scalar(int64, nonnegative=True)


def units_of(shape: MatrixShape, groups: int = 1) -> dict[str, Any]:
    plane = 32 if shape.feature == "async_matrix" else shape.lanes
    return {"cube": (shape.lanes * groups, 1, 1), "plane": plane, "features": FEATURES}


def numbers(dtype: DType, *sizes: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small integers, of which every product and sum is exact in every type."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, sizes).astype(dtype.numpy)


@pytest.mark.parametrize(
    "shape", [*EVERY, wgmma_64(16, float16), wgmma_64(8, int8)], ids=lambda s: s.name
)
@pytest.mark.parametrize("side", ["a", "b", "c"])
def test_every_element_has_one_place(shape: MatrixShape, side: Any) -> None:
    layout = shape.layout(side)
    places = sorted(layout(i) for i in range(layout.size))
    # Both halves of a plane have the factors of wmma.
    copies = 2 if shape.name.startswith("wmma") and side != "c" else 1
    assert places == [place for place in range(prod(shape.extent(side))) for _ in range(copies)]


@kernel
def product(x, y, z, m, n, k, *, shape):
    """z = x @ y of sizes that need not fit; each group of units does a tile of z."""
    tile = group_of(shape)
    c = fragment(shape, "c")
    for p in range(0, k, shape.k):
        a = fragment(shape, "a").load(x.at(p), (k, 1), limits=(m, k - p))
        b = fragment(shape, "b").load(y.at(p * n + tile * shape.n), (n, 1), limits=(k - p, n))
        mma(a, b, c)
    c.store(z.at(tile * shape.n), (n, 1), limits=(m, n - tile * shape.n))


@pytest.mark.parametrize("shape", EVERY, ids=lambda s: s.name)
def test_products(shape: MatrixShape) -> None:
    m, n, k = shape.m - 1, 2 * shape.n, 2 * shape.k + 1
    x, y = numbers(shape.a_dtype, m, k), numbers(shape.a_dtype, k, n, seed=1)
    z = np.full((m, n), -99, shape.c_dtype.numpy)
    buffers = [Buffer(shape.a_dtype), Buffer(shape.a_dtype), Buffer(shape.c_dtype)]
    built = verify(product.build([*buffers, *[SIZE] * 3], shape=shape, **units_of(shape, 2)))
    run_on_lanes(built, (1, 1, 1), [x, y, z, m, n, k])
    wide = shape.c_dtype.numpy
    np.testing.assert_array_equal(z, x.astype(wide) @ y.astype(wide))
    names = {o.name for o in built.body.walk()}
    assert ("mma" in names) == bool(shape.feature)


def test_of_tf32_the_lower_bits_do_not_count() -> None:
    shape = SHAPES["mma_16x8x8_float32"]
    x = np.full((16, 8), 1 + 2**-12, np.float32)
    y, z = np.ones((8, 8), np.float32), np.zeros((16, 8), np.float32)
    floats = [Buffer(float32)] * 3
    built = product.build([*floats, *[SIZE] * 3], shape=shape, **units_of(shape))
    run_on_lanes(built, (1, 1, 1), [x, y, z, 16, 8, 8])
    assert (z == 8).all()


@kernel
def copied(x, y, *, shape, side, at, dtype):
    tile = shared(at.cosize, dtype, align=128)
    held = fragment(shape, side).load(x, (shape.extent(side)[1], 1))
    held.store(tile, at)
    barrier()
    again = fragment(shape, side).load(tile, at)
    again.store(y, (shape.extent(side)[1], 1))


@pytest.mark.parametrize(
    ("side", "at", "widths"),
    [
        ("c", Layout.rows(16, 8), {2}),
        ("c", Layout((16, 8)), {1}),
        ("a", Swizzled(Swizzle(1, 3, 3), Layout.rows(16, 16)), {2}),
        ("a", Layout((16, 16), (24, 1)), {2}),
        ("b", Layout((16, 8)), {2}),
    ],
    ids=str,
)
def test_memory_is_reached_in_the_widest_runs(side: Any, at: Any, widths: set[int]) -> None:
    shape = mma_16x8(float16)
    dtype = shape.dtype(side)
    x = np.arange(prod(shape.extent(side)), dtype=dtype.numpy)
    y = np.zeros_like(x)
    options = {"shape": shape, "side": side, "at": at, "dtype": dtype}
    built = verify(copied.build([Buffer(dtype)] * 2, **options, **units_of(shape)))
    run_on_lanes(built, (1, 1, 1), [x, y])
    np.testing.assert_array_equal(x, y)
    stores = [o for o in built.body.walk() if o.name == "store" and o.memory.space == "shared"]
    assert {o.operands[1].type.width for o in stores} == widths


PADDED = {"a": Layout((16, 16), (24, 1)), "b": Layout((16, 8), (1, 24))}
ACROSS = {"a": Layout((16, 16), (1, 24)), "b": Layout((16, 8), (8, 1))}


@pytest.mark.parametrize(
    ("side", "at", "count", "transposed"),
    [
        ("a", PADDED["a"], 4, False),
        ("a", Swizzled(Swizzle(1, 3, 3), Layout.rows(16, 16)), 4, False),
        ("a", ACROSS["a"], 4, True),
        ("b", PADDED["b"], 2, False),
        ("b", ACROSS["b"], 2, True),
        ("a", Layout((16, 16), (20, 1)), 0, False),
        ("c", Layout.rows(16, 8), 0, False),
    ],
    ids=str,
)
def test_blocks_are_loaded_together(side: Any, at: Any, count: int, transposed: bool) -> None:
    shape = mma_16x8(float16)
    dtype = shape.dtype(side)
    x = np.arange(prod(shape.extent(side)), dtype=dtype.numpy)
    y = np.zeros_like(x)
    units = {**units_of(shape), "features": FEATURES | {"load_matrix"}}
    options = {"shape": shape, "side": side, "at": at, "dtype": dtype}
    built = verify(copied.build([Buffer(dtype)] * 2, **options, **units))
    run_on_lanes(built, (1, 1, 1), [x, y])
    np.testing.assert_array_equal(x, y)
    loads = [o.attributes for o in built.body.walk() if o.name == "load_matrix"]
    assert loads == ([{"count": count, "transposed": transposed}] if count else [])


@kernel
def softmax_rows(x, y, n, *, shape):
    """Softmax without its maximum and its exponential: masks, bands and what keeps them apart."""
    c = fragment(shape, "c").load(x, (shape.n, 1))
    c.keep(lambda rows, columns: columns < n, 0.0)
    top = c.reduce("max")
    c.map_band(lambda value, best: value - best, top)
    total = c.band(1)
    for _ in range(n):
        total.map(lambda sum, one: sum + one, c.reduce("add"))
    c.map_band(lambda value, sum: value + sum, total)
    c.map_places(lambda value, rows, columns: value + (rows * 100 + columns).to(float32))
    c.store(y, (shape.n, 1))


FLOATS = [s for s in EVERY if s.c_dtype is float32]


@pytest.mark.parametrize("shape", FLOATS, ids=lambda s: s.name)
def test_masks_reductions_and_places(shape: MatrixShape) -> None:
    n = shape.n - 1
    x = np.abs(numbers(float32, shape.m, shape.n))
    y = np.zeros_like(x)
    buffers = [Buffer(float32), Buffer(float32)]
    built = verify(softmax_rows.build([*buffers, SIZE], shape=shape, **units_of(shape)))
    run_on_lanes(built, (1, 1, 1), [x, y, n])
    kept = np.where(np.arange(shape.n) < n, x, 0)
    below = kept - kept.max(1, keepdims=True)
    places = np.add.outer(100 * np.arange(shape.m), np.arange(shape.n))
    np.testing.assert_array_equal(y, below + n * below.sum(1, keepdims=True) + places)


@kernel
def columns_reduced(x, y, *, shape):
    c = fragment(shape, "c").load(x, (shape.n, 1))
    low = c.reduce("min", 0)
    again = low.copy().map(lambda v: v * 2.0)
    c.map_band(lambda value, least: value - least, low)
    c.map_band(lambda value, twice: value - twice, again)
    other = c.copy()
    other.fill(1.0)
    c.map(lambda a, b: a + b, other)
    c.store(y, (shape.n, 1))


@pytest.mark.parametrize("shape", FLOATS, ids=lambda s: s.name)
def test_reductions_of_columns(shape: MatrixShape) -> None:
    x = numbers(float32, shape.m, shape.n)
    y = np.zeros_like(x)
    built = columns_reduced.build([Buffer(float32)] * 2, shape=shape, **units_of(shape))
    run_on_lanes(built, (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, x - 3 * x.min(0) + 1)


@kernel
def chained(q, k, v, o, *, shape, second, side, tiles):
    """o = (q @ k) @ v, or with side b v.T @ (q @ k): the first product stays in registers."""
    found = []
    for t in range(tiles):
        c = fragment(shape, "c")
        if side == "a":
            a = fragment(shape, "a").load(q, (shape.k, 1))
            b = fragment(shape, "b").load(k.at(t * shape.n), (shape.n * tiles, 1))
        else:
            a = fragment(shape, "a").load(q.at(t * shape.m * shape.k), (shape.k, 1))
            b = fragment(shape, "b").load(k, (shape.n, 1))
        mma(a, b, c)
        found.append(c)
    made = operand_of(found, second, side)
    out = fragment(second, "c")
    if side == "a":
        mma(made, fragment(second, "b").load(v, (second.n, 1)), out)
    else:
        mma(fragment(second, "a").load(v, (second.k, 1)), made, out)
    out.store(o, (second.n, 1))


@pytest.mark.parametrize(
    ("shape", "second", "side", "tiles"),
    [
        (mma_16x8(float16), mma_16x8(float16), "a", 2),
        (mma_16x8(float16), mma_16x8(bfloat16), "a", 2),
        (SHAPES["mfma_16x16x16_float16"], SHAPES["mfma_16x16x16_float16"], "b", 1),
        (SHAPES["wmma_16x16x16_float16"], SHAPES["wmma_16x16x16_float16"], "b", 1),
        (SHAPES["simdgroup_8x8x8_float32"], SHAPES["simdgroup_8x8x8_float32"], "a", 1),
        (scalar(4, 8, 4), scalar(4, 8, 8), "a", 1),
        (scalar(4, 8, 4), scalar(4, 8, 8), "b", 2),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_accumulators_become_operands(
    shape: MatrixShape, second: MatrixShape, side: str, tiles: int
) -> None:
    along = 1 if side == "a" else 0
    extent = [shape.m, shape.n]
    extent[along] *= tiles
    q = numbers(shape.a_dtype, shape.m * (1 if side == "a" else tiles), shape.k)
    k = numbers(shape.a_dtype, shape.k, shape.n * (tiles if side == "a" else 1), seed=1)
    v = numbers(second.a_dtype, *second.extent("b" if side == "a" else "a"), seed=2)
    o = np.zeros((second.m, second.n), np.float32)
    first, other = Buffer(shape.a_dtype), Buffer(second.a_dtype)
    options = {"shape": shape, "second": second, "side": side, "tiles": tiles}
    built = chained.build([first, first, other, Buffer(float32)], **options, **units_of(shape))
    run_on_lanes(built, (1, 1, 1), [q, k, v, o])
    between = (q.astype(np.float32) @ k.astype(np.float32)).astype(second.a_dtype.numpy)
    between = between.astype(np.float32)
    v = v.astype(np.float32)
    np.testing.assert_array_equal(o, between @ v if side == "a" else v @ between)


@kernel
def convert(x, *, shape, second, side):
    operand_of([fragment(shape, "c")], second, side)


@pytest.mark.parametrize(
    ("shape", "second", "message"),
    [
        (SHAPES["mfma_16x16x16_float16"], SHAPES["mfma_16x16x16_float16"], "in other units"),
        (mma_16x8(float16), mma_16x8(float16), "are 16 x 8, not the operand a"),
    ],
)
def test_conversions_that_move_elements_are_refused(
    shape: MatrixShape, second: MatrixShape, message: str
) -> None:
    options = {"shape": shape, "second": second, "side": "a"}
    with pytest.raises(KernelTypeError, match=message):
        convert.build([Buffer(float32)], **options, **units_of(shape))


@kernel
def beside(x, y, z, *, shape, left, right, from_registers, look, change, late):
    """z = x @ y by products that run beside the units."""
    t = unit_index()
    ys = shared(shape.k * 2 * shape.n, shape.a_dtype, align=128)
    for i in range(0, shape.k * 2 * shape.n, 128):
        if t + i < shape.k * 2 * shape.n:
            ys[right(*unravel(t + i, (2 * shape.k, shape.n)))] = y[t + i]
    xs = shared(64 * shape.k * 2, shape.a_dtype, align=128)
    for i in range(0, 64 * shape.k * 2, 128):
        xs[left(*unravel(t + i, (64, 2 * shape.k)))] = x[t + i]
    barrier()
    c = fragment(shape, "c")
    pairs = []
    for step in range(2):
        if from_registers:
            a = fragment(shape, "a").load(x.at(step * shape.k), (shape.k * 2, 1))
        else:
            a = SharedMatrix(xs, left).tile((64, shape.k), (0, step * shape.k))
        b = SharedMatrix(ys, right).tile((shape.k, shape.n), (step * shape.k, 0))
        pairs.append((a, b))
    issue_mma(c, pairs[:1])
    issue_mma(c, pairs[1:])
    if look:
        c.map(lambda v: v + 1.0)
    if change:
        barrier()
        ys[t] = ys[t]
        ys[t] = y[t] + y[t]
    wait_mma(c, pending=1 if late else 0)
    c.store(z, (shape.n, 1))


def run_beside(
    shape: MatrixShape, from_registers: bool, **wrong: bool
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    k, n = 2 * shape.k, shape.n
    x, y = (
        numbers(shape.a_dtype, 64, k),
        numbers(shape.a_dtype, k, n, seed=1) + shape.a_dtype.numpy.type(5),
    )
    z = np.zeros((64, n), shape.c_dtype.numpy)
    options = {
        **dict.fromkeys(("look", "change", "late"), False),
        **wrong,
        "shape": shape,
        "left": Swizzled(Swizzle(1, 3, 3), Layout.rows(64, k)),
        "right": Layout((k, n)),
        "from_registers": from_registers,
    }
    buffers = [Buffer(shape.a_dtype), Buffer(shape.a_dtype), Buffer(shape.c_dtype)]
    built = verify(beside.build(buffers, **options, **units_of(shape)))
    run_on_lanes(built, (1, 1, 1), [x, y, z])
    return z, x.astype(z.dtype) @ y.astype(z.dtype)


@pytest.mark.parametrize("from_registers", [False, True])
@pytest.mark.parametrize(
    "shape", [wgmma_64(16, float16), wgmma_64(8, float32)], ids=lambda s: s.name
)
def test_products_beside_the_units(shape: MatrixShape, from_registers: bool) -> None:
    np.testing.assert_array_equal(*run_beside(shape, from_registers))


def test_nan_of_an_operand_is_not_taken_for_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    given = numbers

    def with_nan(*said: Any, **more: Any) -> np.ndarray[Any, Any]:
        made = given(*said, **more)
        made[0, 0] = np.nan
        return made

    monkeypatch.setitem(globals(), "numbers", with_nan)
    found, right = run_beside(wgmma_64(16, float16), False)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    assert np.isnan(found).any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("look", "looked at before wait_mma"),
        ("late", "not yet waited for"),
        ("change", "operand in shared memory was written before the wait"),
    ],
)
def test_nothing_is_touched_before_the_wait(wrong: str, message: str) -> None:
    with pytest.raises(KernelCheckError, match=message):
        run_beside(wgmma_64(16, float16), False, **{wrong: True})


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (mma_16x8(float16), {"features": frozenset()}, "needs a device with the feature 'matrix'"),
        (mma_16x8(float16), {"plane": 64, "cube": (64, 1, 1)}, "computed by 32 units together"),
        (wgmma_64(8, float16), {"plane": 32, "cube": (64, 1, 1)}, "computed by 128 units"),
        (wgmma_64(8, float16), {"plane": 32, "cube": (128, 1, 1)}, "is asynchronous"),
    ],
)
def test_shapes_that_do_not_fit(shape: MatrixShape, options: Any, message: str) -> None:
    options = {**units_of(shape), **options}
    buffers = [Buffer(shape.a_dtype), Buffer(shape.a_dtype), Buffer(shape.c_dtype)]
    with pytest.raises(KernelTypeError, match=message):
        product.build([*buffers, *[SIZE] * 3], shape=shape, **options)


def test_wgmma_sizes() -> None:
    with pytest.raises(ValueError, match="by eights, not 12"):
        wgmma_64(12, float16)
