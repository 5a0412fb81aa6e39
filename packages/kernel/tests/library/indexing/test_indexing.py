"""Are elements where the reference puts them?"""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from calor.dtypes import as_dtype, float32, int64
from calor.errors import ElementIndexError
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import Refusal, Request, View
from calor_kernel.library.indexing import cooperative, gather, gather_columns, scatter_launch
from calor_kernel.library.indexing.scatter_launch import lower_scatter_nd
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

BF16 = ml_dtypes.bfloat16
TYPES = [np.float32, np.float16, BF16, np.int8, np.uint16, np.int64, np.complex64, np.complex128]


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def numbers(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return (rng.standard_normal(shape) * 4).astype(dtype)


def check(backend, op, arrays, attributes, axes=(), exact=True):
    for found, wanted in zip(*run_op(backend, op, arrays, attributes, axes), strict=True):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        if exact:
            assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [*TYPES, np.bool_])
@pytest.mark.parametrize(
    ("shapes", "axis", "orders"),
    [
        (((3, 4), (3, 2), (3, 0)), 1, ()),
        (((2, 40), (5, 40)), 0, ()),
        (((40, 2), (5, 2)), 0, ((1, 0), None)),
        (((3,), (4,)), 0, ()),
    ],
)
def test_concat(backend, dtype, shapes, axis, orders):
    given = [numbers(s, dtype, i) for i, s in enumerate(shapes)]
    seen = [
        np.ascontiguousarray(a.transpose(o)) if o else a
        for a, o in zip(given, orders or (None,) * len(given), strict=True)
    ]
    check(backend, "concat", seen, {"axis": axis}, orders)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.bool_])
@pytest.mark.parametrize(
    ("shape", "low", "high", "interior"),
    [
        ((3, 20), (1, 2), (0, 3), (0, 0)),
        ((3, 4), (1, 0), (2, 1), (1, 2)),
        ((0, 4), (2, 0), (1, 0), (1, 0)),
        ((), (), (), ()),
        ((5,), (0,), (0,), (0,)),
    ],
)
def test_pad(backend, dtype, shape, low, high, interior):
    attributes = {"low": low, "high": high, "interior": interior}
    check(backend, "pad", [numbers(shape, dtype), numbers((), dtype, 1)], attributes)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("starts", [[1, 2, 0], [-3, 100, 1]])
@pytest.mark.parametrize("index", [np.int32, np.int8, np.int64])
def test_dynamic_slices(backend, dtype, starts, index):
    x, at = numbers((4, 5, 20), dtype), np.array(starts, index)
    check(backend, "dynamic_slice", [x, at], {"sizes": (2, 3, 18)})
    check(backend, "dynamic_slice", [x, at], {"sizes": (4, 5, 20)})
    check(backend, "dynamic_update_slice", [x, numbers((2, 3, 18), dtype, 1), at], {})
    check(backend, "dynamic_update_slice", [x, numbers((0, 3, 18), dtype, 1), at], {})


def test_starts_beyond_every_index(backend):
    x = numbers((4, 5))
    starts = np.array([2**63 + 5, 1], np.uint64)
    check(backend, "dynamic_slice", [x, starts], {"sizes": (2, 3)})
    check(backend, "dynamic_slice", [numbers(()), np.zeros(0, np.int64)], {"sizes": ()})


@pytest.mark.parametrize("dtype", [*TYPES, np.bool_])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(backend, dtype, axis):
    x = numbers((4, 5, 19), dtype)
    index = np.random.default_rng(0).integers(-4, 4, (2, 3)).astype(np.int32)
    check(backend, "gather", [x, index], {"axis": axis})
    check(backend, "gather", [x, index[0, 0].reshape(())], {"axis": axis})
    check(backend, "gather", [x, index[:0]], {"axis": axis})


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int8])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_gather_nd(backend, dtype, depth):
    x = numbers((4, 5, 19), dtype)
    index = np.random.default_rng(0).integers(-4, 4, (6, depth))
    check(backend, "gather_nd", [x, index], {})


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int8])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take_along(backend, dtype, axis):
    x = numbers((4, 5, 6), dtype)
    shape = [4, 5, 6]
    shape[axis] = 3
    index = np.random.default_rng(0).integers(-4, 4, shape)
    check(backend, "take_along", [x, index], {"axis": axis})


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("count", [33, 64, 71])
def test_units_take_several_elements_along_an_axis(monkeypatch, dtype, count):
    monkeypatch.setattr(gather, "_UNITS", 8)
    info = replace(MANY_UNITS, cores=1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    index = np.random.default_rng(0).integers(-4, 4, (3, count))
    check(backend, "take_along", [numbers((3, 4), dtype), index], {"axis": 1})
    index[-1, -1] = 4
    with pytest.raises(ElementIndexError, match="out of range for axis 1 of size 4"):
        run_op(backend, "take_along", [numbers((3, 4), dtype), index], {"axis": 1})


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int8, np.int64])
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint64])
@pytest.mark.parametrize(("rows", "picks"), [(1, 41), (9, 17), (6, 3), (21, 1), (37, 3)])
def test_elements_of_rows_by_several_cubes(monkeypatch, dtype, kind, rows, picks):
    monkeypatch.setattr(gather_columns, "_PICKS", 16)
    monkeypatch.setattr(gather_columns, "_ELEMENTS", 48)
    info = replace(ONE_UNIT, vector_bytes=4 if rows == 6 else ONE_UNIT.vector_bytes)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    least = 0 if kind is np.uint64 else -11
    index = np.random.default_rng(0).integers(least, 11, (rows, picks)).astype(kind)
    x = numbers((rows, 11), dtype)
    check(backend, "gather", [x, index[0]], {"axis": 1})
    check(backend, "take_along", [x, index], {"axis": 1})
    index[-1, -1] = np.iinfo(kind).max
    for op, given in (("gather", index[-1]), ("take_along", index)):
        with pytest.raises(ElementIndexError, match="out of range for axis 1 of size 11"):
            run_op(backend, op, [x, given], {"axis": 1})


UPDATES = [
    (dtype, update)
    for dtype in TYPES
    for update in ("assign", "add", "mul", "max", "min")
    if update not in ("max", "min") or np.dtype(dtype).kind != "c"
]


@pytest.mark.parametrize(("dtype", "update"), UPDATES)
def test_scatter(backend, dtype, update):
    exact = np.dtype(dtype).kind in "iu" or update in ("assign", "max", "min")
    rng = np.random.default_rng(0)
    x = numbers((4, 5, 19), dtype)
    for depth in (0, 1, 2, 3):
        index = rng.integers(-4, 4, (6, depth))
        updates = numbers((6, *x.shape[depth:]), dtype, 1)
        check(backend, "scatter_nd", [x, index, updates], {"update": update}, (), exact)
    for axis in range(3):
        shape = [4, 5, 19]
        shape[axis] = 7
        index = rng.integers(-4, 4, shape)
        updates = numbers(shape, dtype, 1)
        attributes = {"axis": axis, "update": update}
        check(backend, "scatter_along", [x, index, updates], attributes, (), exact)


@pytest.mark.parametrize(
    ("dtype", "update"), [u for u in UPDATES if u[0] in (np.float16, np.int8, np.float32)]
)
def test_updates_of_many_rows_have_other_launches(monkeypatch, dtype, update):
    monkeypatch.setattr(scatter_launch, "_IN_ONE", 0)
    monkeypatch.setattr(scatter_launch, "_IN_ORDER", 0)
    monkeypatch.setattr(scatter_launch, "_MANY", 1)
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(MANY_UNITS, cores=1)))
    exact = dtype is np.int8 or update in ("assign", "max", "min")
    rng = np.random.default_rng(0)
    x, index = numbers((4, 5, 19), dtype), rng.integers(-4, 4, (6, 2))
    given = [x, index, numbers((6, 19), dtype, 1)]
    check(backend, "scatter_nd", given, {"update": update}, (), exact)
    given = [x, rng.integers(-4, 4, (4, 7, 19)), numbers((4, 7, 19), dtype, 1)]
    check(backend, "scatter_along", given, {"axis": 1, "update": update}, (), exact)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((np.float16, (70, 12)), (np.float32, (9, 5)), (np.int64, (257, 1)), (np.bool_, (3, 1))),
        (np.float32, (700, 6)),
    ],
)
def test_few_updates_are_one_launch_in_their_order(dtype, shape):
    picks, length = shape
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    index = np.random.default_rng(2).integers(-9, 9, (picks, 1))
    x, updates = numbers((40, length), dtype), numbers(shape, dtype, seed=1)
    for update in ("assign", "max") if dtype is np.bool_ else ("assign", "add", "min"):
        views = tuple(View.dense(spec(a.shape, as_dtype(a.dtype))) for a in (x, index, updates))
        results = (spec(x.shape, as_dtype(x.dtype)),)
        request = Request("scatter_nd", {"update": update}, views, results, MANY_UNITS)
        (work,) = lower_scatter_nd(replace(request, deterministic=True))
        assert [one.label for one in work.launches][1:] == [f"scatter {update} of few"]
        exact = update != "add" or dtype is np.int64
        check(backend, "scatter_nd", [x, index, updates], {"update": update}, (), exact)
    index[-1] = 40
    with pytest.raises(ElementIndexError, match="out of range for axis 0 of size 40"):
        run_op(backend, "scatter_nd", [x, index, updates], {"update": "assign"})


@pytest.mark.parametrize(("rows", "length"), [(40, 5), (64, 8), (129, 3)])
def test_owners_and_sums_of_half_types_are_cleared_at_once(monkeypatch, rows, length):
    monkeypatch.setattr(scatter_launch, "_IN_ONE", 0)
    index = np.random.default_rng(2).integers(-rows, rows, (20, 1))
    x, updates = numbers((rows, length), np.float16), numbers((20, length), np.float16, seed=1)
    views = tuple(View.dense(spec(a.shape, as_dtype(a.dtype))) for a in (x, index, updates))
    request = Request(
        "scatter_nd", {"update": "add"}, views, (spec(x.shape, as_dtype(x.dtype)),), MANY_UNITS
    )
    (work,) = lower_scatter_nd(request)
    labels = ["copy_dense", "scatter owners", "scatter claims", "scatter add", "scatter rounds"]
    assert [launch.label for launch in work.launches] == labels
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    check(backend, "scatter_nd", [x, index, updates], {"update": "add"})


@pytest.mark.parametrize("update", ["add", "max", "assign"])
def test_single_elements_at_rows_are_updated_by_blocks_of_indices(backend, update):
    """A processor's cube of one unit takes them as elements along an axis."""
    x, index, updates = (
        numbers((9, 1)),
        numbers((700, 1), seed=1).astype(np.int64),
        numbers((700, 1)),
    )
    index = np.clip(index, -9, 8)
    check(backend, "scatter_nd", [x, index, updates], {"update": update}, (), update != "add")
    views = tuple(View.dense(spec(v.shape, as_dtype(v.dtype))) for v in (x, index, updates))
    request = Request("scatter_nd", {"update": update}, views, (spec((9, 1), float32),), ONE_UNIT)
    (work,) = lower_scatter_nd(request)
    assert work.launches[-1].label == f"scatter elements {update}"
    index[654] = 9
    with pytest.raises(ElementIndexError, match="9"):
        run_op(backend, "scatter_nd", [x, index, updates], {"update": update})


def test_scatter_of_bools(backend):
    x, index = numbers((5, 3), np.bool_), np.array([[1], [1], [4]])
    for update in ("assign", "max", "min"):
        check(backend, "scatter_nd", [x, index, numbers((3, 3), np.bool_)], {"update": update})


@pytest.mark.parametrize("wrong", [5, -6, 2**40])
def test_indices_out_of_range(backend, wrong):
    x, index = numbers((3, 5)), np.array([[0, 0], [2, wrong]])
    with pytest.raises(ElementIndexError, match="out of range for axis 1 of size 5"):
        run_op(backend, "gather_nd", [x, index], {})
    with pytest.raises(ElementIndexError, match="out of range for axis 1 of size 5"):
        run_op(backend, "gather", [x, index], {"axis": 1})
    with pytest.raises(ElementIndexError, match="out of range for axis 1 of size 5"):
        run_op(backend, "scatter_nd", [x, index, numbers((2,))], {"update": "add"})


@pytest.mark.parametrize("update", ["assign", "add", "max"])
def test_cubes_that_share_a_row_own_places_of_it(update):
    info = replace(ONE_UNIT, cores=4)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    index = np.random.default_rng(0).integers(-300, 300, 4500)
    updates = np.random.default_rng(1).integers(-99, 99, 4500).astype(np.int32)
    x = np.arange(300, dtype=np.int32)
    check(backend, "scatter_along", [x, index, updates], {"axis": 0, "update": update})
    index[4321] = 300
    with pytest.raises(ElementIndexError, match="axis 0 of size 300"):
        check(backend, "scatter_along", [x, index, updates], {"axis": 0, "update": update})


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("length", [300, 1037])
def test_cubes_share_few_long_rows(monkeypatch, dtype, length):
    monkeypatch.setattr(cooperative, "_UNITS", 16)
    monkeypatch.setattr(cooperative, "_ALONG", 16)
    grid, split = cooperative.row_grid(replace(MANY_UNITS, cores=2), 3, length)
    assert split
    assert grid.cubes[1] > 1
    backend = KernelBackend("lanes", lambda index: LanesDevice(replace(MANY_UNITS, cores=2)))
    x, updates = numbers((40, length), dtype), numbers((3, length), dtype, seed=1)
    index = np.array([[7], [-1], [7]])
    check(backend, "gather", [x, index[:, 0]], {"axis": 0})
    for update in ("assign", "add", "mul"):
        exact = np.dtype(dtype).kind == "i" or update == "assign"
        whole = np.sign(x), index, np.sign(updates)
        check(backend, "scatter_nd", list(whole), {"update": update}, exact=exact)


def test_many_rows_are_not_shared():
    assert cooperative.row_grid(MANY_UNITS, 1 << 20, 1 << 20)[0].cubes[1] == 1
    assert cooperative.row_grid(MANY_UNITS, 3, 1)[0].cubes[1] == 1


@pytest.mark.parametrize("length", [1, 5, 40])
@pytest.mark.parametrize("deterministic", ["0", "1"])
def test_rows_with_many_updates(monkeypatch, deterministic, length):
    monkeypatch.setenv("CALOR_DETERMINISTIC", deterministic)
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    x, updates = numbers((7, length)), numbers((150, length), seed=1)
    index = np.random.default_rng(2).integers(-7, 7, (150, 1))
    for update in ("assign", "add", "min"):
        exact = update != "add" or deterministic == "1"
        check(backend, "scatter_nd", [x, index, updates], {"update": update}, exact=exact)
    check(backend, "gather", [x, index[:, 0]], {"axis": 0})


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("length", [1, 5, 40])
def test_sums_of_few_rows_are_rounded_once(dtype, length, monkeypatch):
    monkeypatch.setattr(scatter_launch, "_IN_ONE", 0)
    monkeypatch.setattr(scatter_launch, "_IN_ORDER", 0)
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    x, updates = numbers((60, length), dtype), numbers((25, length), dtype, seed=1)
    index = np.random.default_rng(2).integers(-6, 6, (25, 1))
    views = tuple(View.dense(spec(a.shape, as_dtype(a.dtype))) for a in (x, index, updates))
    request = Request(
        "scatter_nd", {"update": "add"}, views, (spec(x.shape, as_dtype(x.dtype)),), MANY_UNITS
    )
    (work,) = lower_scatter_nd(request)
    assert work.launches[-1].label == "scatter rounds"
    (found,), (wanted,) = run_op(backend, "scatter_nd", [x, index, updates], {"update": "add"})
    near = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=near, atol=near
    )


@pytest.mark.parametrize("update", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_extremes_of_numbers_need_no_order(dtype, update):
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    x, updates = numbers((6, 9), dtype), numbers((80, 9), dtype, seed=1)
    x[1, 2] = -np.nan
    updates[::7, 3], updates[5, 4], updates[6, :2] = np.nan, -np.nan, (-np.inf, np.inf)
    index = np.random.default_rng(2).integers(-6, 6, (80, 1))
    views = tuple(View.dense(spec(a.shape, as_dtype(a.dtype))) for a in (x, index, updates))
    request = Request(
        "scatter_nd", {"update": update}, views, (spec(x.shape, as_dtype(x.dtype)),), MANY_UNITS
    )
    (work,) = lower_scatter_nd(request)
    assert not any("order" in launch.label for launch in work.launches)
    (found,), (wanted,) = run_op(backend, "scatter_nd", [x, index, updates], {"update": update})
    np.testing.assert_array_equal(found, wanted)


def test_updates_are_numbered_by_as_many_bits_as_they_need(monkeypatch):
    x, index = numbers((5, 3)), np.array([[0], [2], [0], [4], [2]])
    monkeypatch.setattr(scatter_launch, "_NUMBERED", 3)
    monkeypatch.setattr(scatter_launch, "_IN_ONE", 0)
    monkeypatch.setattr(scatter_launch, "_IN_ORDER", 0)
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    check(backend, "scatter_nd", [x, index, numbers((5, 3))], {"update": "assign"})
    few = replace(MANY_UNITS, features=MANY_UNITS.features - {"atomics_64"})
    backend = KernelBackend("lanes", lambda index: LanesDevice(few))
    check(backend, "scatter_nd", [x, index[:3], numbers((3, 3))], {"update": "assign"})
    # The device does not claim the op then.
    with pytest.raises(AssertionError, match="5 updates are more than .* update in parts"):
        run_op(backend, "scatter_nd", [x, index, numbers((5, 3))], {"update": "assign"})


@pytest.mark.parametrize("update", ["assign", "mul"])
def test_many_updates_are_numbered_or_refused(update):
    picks, known = 1 << 32, spec((10**6,), float32)
    views = [View.dense(s) for s in (known, spec((picks, 1), int64), spec((picks,), float32))]
    request = Request("scatter_nd", {"update": update}, tuple(views), (known,), MANY_UNITS)
    made = lower_scatter_nd(request)
    if update == "mul":
        assert isinstance(made, Refusal)
        assert "too long to be sorted" in made.reason
        return
    claims = [la.build for la in made[0].launches if la.build.function.name == "claim_rows"]
    assert [build.signature[1].dtype for build in claims] == [int64]


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize(
    ("shape", "axis", "picks"),
    [
        ((70, 8), 1, 5),
        ((9, 6, 3), 1, 20),
        ((3, 4, 5), 0, 2),
        ((2, 0, 3), 1, 0),
        ((5, 2**13), 1, 130),
    ],
)
def test_half_types_are_summed_in_shared_lines(dtype, shape, axis, picks):
    info = replace(MANY_UNITS, shared_bytes=1 << 16)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    rng = np.random.default_rng(3)
    x = numbers(shape, dtype)
    many = (*shape[:axis], picks, *shape[axis + 1 :])
    index = rng.integers(-shape[axis], max(shape[axis], 1), many)
    updates = numbers(many, dtype, 1)
    attributes = {"axis": axis, "update": "add"}
    (found,), (wanted,) = run_op(backend, "scatter_along", [x, index, updates], attributes)
    # Sums in float32 are rounded once, so they may differ by the last bit alone.
    eps = float(np.finfo(dtype).eps) if dtype is np.float16 else 2.0**-7
    np.testing.assert_allclose(
        found.astype(np.float32), wanted.astype(np.float32), rtol=eps, atol=1e-5
    )
    views = [View.dense(spec(a.shape, as_dtype(a.dtype))) for a in (x, index, updates)]
    result = spec(x.shape, as_dtype(x.dtype))
    request = Request("scatter_along", attributes, tuple(views), (result,), info)
    (work,) = scatter_launch.lower_scatter_along(request)
    labels = [one.label for one in work.launches]
    assert (labels == ["scatter lines"]) == (x.size > 0)
    if x.size:
        index.flat[-1] = shape[axis]
        with pytest.raises(ElementIndexError, match=f"out of range for axis {axis}"):
            run_op(backend, "scatter_along", [x, index, updates], attributes)
