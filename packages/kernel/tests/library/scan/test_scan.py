"""Are running sums, products and extremes those of the reference?"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Request, View
from calor_kernel.library.scan import lowering
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

TYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int8,
    np.int64,
    np.uint16,
    np.complex64,
    np.complex128,
]


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def check(backend, x, op, axis, reverse):
    attributes = {"axis": axis, "reverse": reverse}
    (found,), (wanted,) = run_op(backend, op, [x], attributes)
    assert found.dtype == wanted.dtype
    if op in ("cummax", "cummin") or x.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted)
        return
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    digits = {2: 0.01, 4: 1e-5, 8: 1e-5, 16: 1e-12}[x.dtype.itemsize]
    near = np.abs(found.astype(wide) - wanted.astype(wide))
    assert near.max(initial=0) <= digits * np.abs(wanted.astype(wide)).max(initial=1)


OPS = [
    (op, dtype)
    for op in ("cumsum", "cumprod", "cummax", "cummin")
    for dtype in TYPES
    if op in ("cumsum", "cumprod") or np.dtype(dtype).kind != "c"
]


@pytest.mark.parametrize(("op", "dtype"), OPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_types(backend, op, dtype, reverse):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, (3, 70, 4))
    x = (x + 1j * rng.uniform(-1, 1, x.shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        x = rng.integers(0, 100, x.shape).astype(dtype)
    for axis in range(3):
        check(backend, x, op, axis, reverse)
    check(backend, np.ascontiguousarray(x[:, :, 0]), op, 1, reverse)
    check(backend, np.ascontiguousarray(x[:, :, 0]), op, 0, reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 64, 65, 300, 2000])
def test_lengths_over_many_levels(backend, monkeypatch, length, reverse):
    monkeypatch.setattr(lowering, "_LONG", 32)
    monkeypatch.setattr(lowering, "_WHOLE_ROW", 64)
    monkeypatch.setattr(lowering, "_SHORT", 4)
    x = np.random.default_rng(0).integers(-9, 9, (2, length))
    check(backend, x, "cumsum", 1, reverse)
    check(backend, x.astype(np.float32), "cummax", 1, reverse)
    check(backend, np.ascontiguousarray(x.T), "cumsum", 0, reverse)


WAYS = {
    # Rows that no cache holds, however short.
    "looking back": replace(MANY_UNITS, caches=()),
    "in parts": replace(MANY_UNITS, features=MANY_UNITS.features - {"forward_progress"}),
    "without planes": replace(
        MANY_UNITS, features=MANY_UNITS.features - {"planes", "forward_progress"}, planes=(1,)
    ),
}


@pytest.mark.parametrize("info", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_that_many_cubes_share(monkeypatch, info, reverse):
    monkeypatch.setattr(lowering, "_UNITS", 32)
    monkeypatch.setattr(lowering, "_VECTORS", 2)
    monkeypatch.setattr(lowering, "_CUBES", 5)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    rng = np.random.default_rng(0)
    for shape in ((2, 2100), (1, 4097), (3, 1447)):
        x = rng.integers(-9, 9, shape)
        for dtype in (np.int64, np.float32, np.int16):
            check(backend, x.astype(dtype), "cumsum", 1, reverse)
        check(backend, x.astype(np.float64), "cummin", 1, reverse)
    x = rng.uniform(0.9, 1.1, (1, 3001)).astype(np.float32)
    check(backend, x, "cumprod", 1, reverse)
    x[0, 1500] = np.nan
    check(backend, x, "cummax", 1, reverse)


@pytest.mark.parametrize(
    "shape", [(5, 3), (70, 32), (9, 100), (9, 99), (3, 701), (1, 5000), (3, 5001)]
)
def test_rows_of_a_plane_and_of_a_cube(backend, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    check(backend, x, "cumsum", 1, False)
    check(backend, x, "cumsum", 1, True)


@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
@pytest.mark.parametrize("shape", [(1, 9_001), (9_001, 3), (9_001, 16)])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_running_sums_and_products_lose_few_units(backend, op, shape, reverse):
    axis = int(shape[0] == 1)
    x = np.random.default_rng(2).random(shape)
    x = (1 + x / 1000 if op == "cumprod" else x).astype(np.float32)
    turned = np.flip(x, axis) if reverse else x
    exact = getattr(np, op)(turned.astype(np.float64), axis)
    exact = np.flip(exact, axis) if reverse else exact
    (found,), _ = run_op(backend, op, [x], {"axis": axis, "reverse": reverse})
    units = np.abs(found - exact) / np.spacing(exact.astype(np.float32))
    # One unit combines in float64. Many units add few elements one after another; a product has as
    # many roundings in any order.
    one = backend.engine(0).device.info.max_units == 1
    assert units.max() <= (0.51 if one else 24 if op == "cumsum" else 300)


def test_nan_and_nothing(backend):
    x = np.array([1, np.nan, 3, -np.inf], np.float32)
    check(backend, x, "cummax", 0, False)
    check(backend, np.zeros((3, 0), np.float32), "cumsum", 1, False)
    check(backend, np.array(3.0, np.float32).reshape(1), "cumsum", 0, True)


COLUMNS = {
    **WAYS,
    "many cores": replace(MANY_UNITS, cores=1),
    "large planes": replace(MANY_UNITS, planes=(32,), max_units=1024, cores=132),
}


@pytest.mark.parametrize("info", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.complex64])
def test_columns(info, dtype):
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (2, 270, 77)).astype(dtype)
    check(backend, x, "cumsum", 1, False)
    x = rng.integers(-3, 3, (1, 900, 8)).astype(dtype)
    check(backend, x, "cumsum" if np.dtype(dtype).kind == "c" else "cummax", 1, True)


ROWS = {
    (1, 1 << 14): ["scan_rows"],
    (1, 50257): ["total_parts", "scan_rows"],
    (7, 50257): ["total_parts", "scan_rows"],
    (512, 50257): ["scan_rows"],
    (1, 1 << 26): ["clear_words", "scan_looking_back"],
}


@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_long_rows_are_divided(shape):
    info = replace(COLUMNS["large planes"], caches=(1 << 17, 50 << 20))
    said, views = {"axis": 1, "reverse": False}, (View.dense(spec(shape, float32)),)
    (work,) = lowering.lower_scan(Request("cumsum", said, views, (spec(shape, float32),), info))
    assert [launch.build.function.name for launch in work.launches] == ROWS[shape]


def test_columns_look_back_where_there_are_few():
    info = COLUMNS["large planes"]
    views = (View.dense(spec((10**6, 64), float32)),)
    said = {"axis": 0, "reverse": False}
    request = Request("cumsum", said, views, (spec((10**6, 64), float32),), info)

    def names(request):
        (work,) = lowering.lower_scan(request)
        return [launch.build.function.name for launch in work.launches]

    assert names(request) == ["clear_words", "scan_columns_looking_back"]
    assert "chunk_totals" in names(replace(request, deterministic=True))
    views = (View.dense(spec((1000, 10**6), float32)),)
    request = replace(request, inputs=views, outputs=(spec((1000, 10**6), float32),))
    assert names(request) == ["scan_columns"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(47, 56), (33, 57), (41, 250), (9, 1), (21, 3)], ids=str)
def test_planes_scan_several_short_rows(monkeypatch, shape, reverse):
    monkeypatch.setattr(lowering, "_PLANES", 1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(MANY_UNITS, cores=2)))
    rng = np.random.default_rng(0)
    for dtype in (np.float32, ml_dtypes.bfloat16, np.int64):
        x = rng.integers(-9, 9, shape).astype(dtype)
        check(backend, x, "cumsum", 1, reverse)
        check(backend, x, "cummax", 1, reverse)
