"""Are windows, gradients and picks what the reference says, for every way of computing them?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import ALL, bfloat16, float32, int32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Scratch, View
from calor_kernel.library.conv.vector_tiles import Slide
from calor_kernel.library.pool import blocks, lowering, rows_launch, separable
from calor_kernel.library.pool.problem import Windows
from calor_kernel.library.pool.scattered import scattered
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

NAMES = {t.name: t for t in ALL}
NONE = (0, 0)
# shape, window, stride, padding, dilation.
ROWS = [
    ((2, 4, 5), (2, 2), (2, 2), (NONE, NONE), (1, 1)),
    ((2, 7), (3,), (2,), ((1, 1),), (1,)),
    ((5, 5), (3, 2), (1, 1), ((1, 1), (0, 1)), (1, 1)),
    ((7, 6), (2, 3), (1, 2), (NONE, (2, 1)), (3, 2)),
    ((3, 3, 4), (2, 2, 2), (1, 2, 2), ((0, 1),) * 3, (1, 1, 1)),
    ((2, 1, 2, 4), (2,), (1,), (NONE,), (1,)),
    ((2, 3), (1, 2), (1, 1), ((0, 0), (3, 3)), (1, 1)),
    ((2, 6), (2,), (2,), ((-1, -2),), (1,)),
    ((2, 0), (2,), (2,), (NONE,), (1,)),
    ((0, 4), (2,), (2,), (NONE,), (1,)),
    ((3, 9, 70), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    ((2, 3, 560), (2, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ((4, 40, 8), (3, 2), (3, 4), ((1, 1), (0, 0)), (2, 2)),
    ((2, 20, 300), (20, 16), (20, 16), (NONE, NONE), (1, 1)),
    # A window is the whole image.
    ((3, 5, 7), (5, 7), (5, 7), (NONE, NONE), (1, 1)),
    ((2, 3, 40), (40,), (1,), (NONE,), (1,)),
    ((4, 6), (4, 6), (1, 2), (NONE, NONE), (1, 1)),
    # Windows longer than a kernel knows, and large ones of few windows in a row.
    ((3, 90), (40,), (1,), ((5, 7),), (1,)),
    ((2, 3, 110), (2, 37), (1, 3), ((0, 1), (9, 0)), (2, 1)),
    ((2, 100), (33,), (2,), ((0, 3),), (2,)),
    ((2, 5, 45), (4, 41), (1, 1), ((2, 0), (1, 0)), (1, 1)),
    ((2, 80), (34,), (20,), ((-1, 9),), (1,)),
    # Short rows that are tiled: in part of a vector, in vectors, and in a part of the last one.
    ((3, 4, 4), (2, 2), (2, 2), (NONE, NONE), (1, 1)),
    ((5, 4, 8), (2, 4), (2, 4), (NONE, NONE), (1, 1)),
    ((3, 6, 4), (2,), (2,), (NONE,), (1,)),
    ((2, 20, 1), (4, 1), (4, 1), (NONE, NONE), (1, 5)),
]
TYPES = ["float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "uint16"]
DIGITS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}
OPS = ["window_reduce", "window_gradient", "window_pick"]
KINDS = ["max", "min", "sum"]


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def draw(rng, shape, dtype):
    if dtype.kind == "float":
        # Few different numbers, so that there are ties, and some that are none.
        values = rng.integers(-4, 4, shape).astype(np.float64)
        values[rng.random(shape) < 0.05] = np.nan
        values[rng.random(shape) < 0.05] = -np.inf
        return values.astype(dtype.numpy)
    return rng.integers(-50 if dtype.kind == "int" else 0, 50, shape).astype(dtype.numpy)


def check(backend, op, kind, row, dtype, axes=None):
    shape, window, stride, padding, dilation = row
    attributes = {
        "kind": kind,
        "window": window,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
    }
    lead = len(shape) - len(window)
    reach = [d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True)]
    given = zip(shape[lead:], padding, reach, stride, strict=True)
    counts = [max((n + sum(p) - r) // s + 1, 0) for n, p, r, s in given]
    shapes = {
        "window_reduce": [shape],
        "window_gradient": [(*shape[:lead], *counts), shape],
        "window_pick": [shape, shape],
    }[op]
    rng = np.random.default_rng(3)
    arrays = [draw(rng, s, NAMES[dtype]) for s in shapes]
    if op != "window_reduce":
        arrays[0] = rng.standard_normal(shapes[0]).astype(NAMES[dtype].numpy)
    if axes:
        back = np.argsort(axes)
        arrays = [np.ascontiguousarray(a.transpose(back)) for a in arrays]
    (found,), (wanted,) = run_op(backend, op, arrays, attributes, [axes] * len(arrays))
    assert found.dtype == wanted.dtype
    if NAMES[dtype].kind == "float":
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
        near = DIGITS[dtype] if kind == "sum" or op == "window_gradient" else 0
        np.testing.assert_allclose(found, wanted, rtol=near, atol=8 * near)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(backend, op, kind, row):
    check(backend, op, kind, row, "float32")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_types(backend, op, kind, dtype):
    check(backend, op, kind, ROWS[2], dtype)
    check(backend, op, kind, ((2, 6, 4), (2, 2), (2, 2), (NONE, NONE), (1, 1)), dtype)
    apart = ((2, 4, 5, 6), (2, 2, 2), (2, 2, 3), (NONE, (0, 1), NONE), (1, 1, 1))
    check(backend, op, kind, apart, dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", KINDS)
def test_orders_of_axes(backend, op, kind):
    check(backend, op, kind, ROWS[0], "float32", axes=(2, 0, 1))
    check(backend, op, kind, ROWS[5], "float32", axes=(0, 2, 3, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS[:2])
def test_long_windows_in_blocks(monkeypatch, op, kind):
    monkeypatch.setattr(rows_launch, "_ROOMS", (1 << 7, 1 << 7))
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    check(backend, op, kind, ((2, 3, 150), (1, 35), (1, 1), (NONE, (3, 4)), (1, 2)), "float32")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS[:2])
def test_types_of_long_windows(backend, op, kind, dtype):
    check(backend, op, kind, ((3, 90), (40,), (1,), ((5, 7),), (1,)), dtype)


def test_long_windows_are_rows():
    info = replace(ONE_UNIT, max_units=1)
    windows = Windows((3,), (Slide(401, 100, 1, 1, 0, 500),))
    x = View((3, 500), (500, 1), float32)
    chosen = Bound(Scratch(0), int32)
    made = [
        rows_launch.reduction_of_rows(windows, x, "max", info),
        rows_launch.choice_of_rows(windows, x, "max", chosen, info),
        scattered(windows, View((3, 401), (401, 1), float32), chosen, info),
    ]
    labels = [one and one.label for one in made]
    assert labels == ["window long rows", "window choice rows", "window gradient scatter"]


@pytest.mark.parametrize(
    ("slide", "dtype", "scatters"),
    [
        (Slide(4, 2, 2, 1, 0, 8), float32, True),
        (Slide(8, 3, 1, 1, -1, 8), float32, True),
        (Slide(4, 2, 2, 1, 0, 8), bfloat16, True),
        (Slide(8, 3, 1, 1, -1, 8), bfloat16, False),
    ],
)
def test_windows_of_volumes_add_to_their_extremes(slide, dtype, scatters):
    windows = Windows((3,), (slide,) * 3)
    g = View.dense(spec((3, *(slide.count,) * 3), dtype))
    made = scattered(windows, g, Bound(Scratch(0), int32), replace(ONE_UNIT, max_units=1))
    assert (made is not None) == scatters


BLOCKS = [
    ((3, 8, 16), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    ((2, 5, 32), (2, 3), (1, 1), ((1, 0), (2, 1)), (2, 1)),
    ((2, 3, 4, 8), (2, 1, 2), (2, 1, 2), (NONE, NONE, (0, 2)), (1, 1, 1)),
    ((2, 24), (3,), (4,), ((2, 1),), (2,)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", BLOCKS, ids=str)
def test_vectors_in_blocks(monkeypatch, kind, row):
    made = []

    def plan(*given):
        made.append(before(*given))
        return made[-1]

    before = blocks._plan
    monkeypatch.setattr(blocks, "_plan", plan)
    monkeypatch.setattr(blocks, "FILLING", 0)
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    for dtype in ("float32", "bfloat16"):
        check(backend, "window_reduce", kind, row, dtype)
        check(backend, "window_gradient", kind, row, dtype)
    assert made
    assert all(one.whole and one.across > 1 for one in made)


FEW = [
    ((3, 56, 56), (28, 28), (28, 28), (NONE, NONE), (1, 1)),
    ((2, 9, 40), (3, 13), (2, 9), ((1, 1), (3, 2)), (2, 1)),
    ((4, 90), (40,), (45,), ((5, 7),), (1,)),
    ((2, 3, 90), (3, 33), (1, 40), (NONE, NONE), (1, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS[:2])
@pytest.mark.parametrize("row", FEW, ids=str)
def test_vectors_along_few_windows(monkeypatch, op, kind, dtype, row):
    made = []

    def few(*given):
        made.append(before(*given))
        return made[-1]

    before = rows_launch._few
    monkeypatch.setattr(rows_launch, "_few", few)
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    check(backend, op, kind, row, dtype)
    assert (op, kind) == (OPS[1], "sum") or any(made)


TEAMS = [
    ((2, 3, 40, 26), (20, 13), (20, 13), (NONE, NONE), (1, 1)),
    # Overlapping windows with gaps and padding; a window that is padding alone.
    ((2, 30, 20), (12, 15), (5, 9), ((2, 3), (4, 6)), (2, 1)),
    ((3, 500), (150,), (170,), ((160, 160),), (1,)),
    ((2, 9, 10, 11), (5, 6, 7), (4, 4, 4), (NONE, (1, 1), NONE), (1, 1, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "int64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", TEAMS, ids=str)
def test_large_windows_by_teams(monkeypatch, kind, row, dtype):
    made = []

    def teams(*given):
        made.append(before(*given))
        return made[-1]

    before = lowering.windows_of_teams
    monkeypatch.setattr(lowering, "windows_of_teams", teams)
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    for op in OPS:
        check(backend, op, kind, row, dtype)
    check(backend, "window_reduce", kind, row, dtype, axes=(*range(1, len(row[0])), 0))
    assert all(one is not None and one.label == "window teams" for one in made)
    assert len(made) >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_vast_windows_are_rows_of_several_cubes(monkeypatch, kind):
    monkeypatch.setattr(lowering, "_VAST", 200)
    monkeypatch.delattr(lowering, "_reductions")
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    row = ((2, 3, 43, 27), (20, 13), (20, 13), (NONE, NONE), (1, 1))
    for dtype in ("float32", "bfloat16", "int32"):
        check(backend, "window_reduce", kind, row, dtype)
    check(backend, "window_reduce", kind, row, "float32", axes=(2, 3, 0, 1))


OVERLAPPING = [
    ((2, 3, 12, 14), (5, 4), (1, 1), ((2, 2), (1, 2)), (1, 1)),
    ((2, 20, 21), (6, 5), (2, 1), ((6, 3), (7, 6)), (1, 2)),
    ((1, 9, 8, 10), (3, 3, 4), (1, 1, 1), (NONE, (1, 1), (2, 1)), (2, 1, 1)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "int32"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", OVERLAPPING, ids=str)
def test_overlapping_windows_along_lines(monkeypatch, kind, row, dtype):
    monkeypatch.setattr(separable, "PLACES", 1)
    monkeypatch.setattr(separable, "WINDOWS", 0)
    made = []

    def noted(work):
        def of(*given):
            made.append(work(*given))
            return made[-1]

        return of

    for name in ("reduction_of_lines", "gradient_of_lines"):
        monkeypatch.setattr(lowering, name, noted(getattr(lowering, name)))
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    for op in OPS[:2]:
        check(backend, op, kind, row, dtype)
    order = (*range(2, len(row[0])), 0, 1)
    check(backend, "window_gradient", kind, row, dtype, axes=order)
    assert [len(one.launches) for one in made] == [2, *(2 if kind == "sum" else 4,) * 2]
