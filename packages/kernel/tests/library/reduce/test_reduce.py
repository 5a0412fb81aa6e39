"""Are reductions what the reference says, for every way of computing them?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import ALL, float32
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Request, View
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

NAMES = {t.name: t for t in ALL}
# shape, axes that vanish, the order in which the axes are seen.
ROWS = [
    ((3, 4), (1,), None),
    ((3, 70), (1,), None),
    ((3, 70), (0,), None),
    ((70, 3), (0,), None),
    ((3, 70), (0, 1), None),
    ((2, 3, 40), (0, 2), None),
    ((2, 3, 40), (1,), None),
    ((2, 3, 40), (0, 2), (2, 0, 1)),
    ((3, 70), (1,), (1, 0)),
    ((3, 70), (0,), (1, 0)),
    ((2, 1, 3, 1, 5), (1, 2, 4), (4, 3, 2, 1, 0)),
    ((3, 4), (), None),
    ((), (), None),
    ((1, 1), (0, 1), None),
    ((2, 0), (0,), None),
    ((1, 5000), (1,), None),
    ((5000, 2), (0,), None),
    ((40, 130), (1,), None),
    ((130, 40), (0,), None),
    ((37, 3, 49), (0, 2), None),
    ((5, 3, 100), (0, 2), None),
    ((90, 2, 3), (1,), None),
]
DIVIDED = [
    ((1, 150001), (1,), None),
    ((3, 60000), (1,), None),
    ((60001, 3), (0,), None),
    ((301, 700), (0,), None),
    ((2, 301, 500), (1,), None),
    ((200, 2, 400), (0, 2), None),
]
KINDS = ["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"]
TYPES = [t.name for t in ALL if t.kind != "storage"]
ORDERED = ["max", "min", "argmax", "argmin"]
PAIRS = [
    (kind, row) for kind in KINDS for row in ROWS if not kind.startswith("arg") or len(row[1]) == 1
]
LONG = [
    (kind, row)
    for kind in ["sum", "max", "argmin"]
    for row in DIVIDED
    if kind != "argmin" or len(row[1]) == 1
]
TYPED = [
    (kind, t) for kind in KINDS for t in TYPES if kind not in ORDERED or not NAMES[t].is_complex
]
DIGITS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-14}
DIGITS |= {"complex64": 2e-6, "complex128": 1e-14}
RESULTS = [
    ("float32", "float64"),
    ("float64", "float32"),
    ("float32", "int64"),
    ("int8", "int64"),
    ("int32", "uint8"),
    ("bool", "int64"),
    ("bool", "float32"),
    ("uint16", "float16"),
    ("float64", "complex128"),
    ("complex64", "complex128"),
    ("float16", "float32"),
]


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def draw(shape, dtype, kind):
    rng = np.random.default_rng(5)
    if dtype.kind == "bool":
        return rng.random(shape) < 0.3
    if dtype.kind in ("int", "uint"):
        low = -3 if dtype.kind == "int" else 0
        return rng.integers(low, 4, shape).astype(dtype.numpy)
    if kind == "sum":
        values = rng.standard_normal(shape)
    elif kind == "prod":
        values = rng.uniform(0.97, 1.03, shape)
    else:
        # Few different numbers, so that there are ties; zeros of both signs; some are none.
        values = rng.integers(-4, 4, shape) * rng.choice([1.0, 0.25, -0.0], shape)
        values = np.where(
            rng.random(shape) < min(0.01, 2 / max(np.size(values), 1)), np.nan, values
        )
    if dtype.kind == "complex":
        values = values + 1j * (values[..., ::-1] if values.ndim else values) * 0.1
    return np.asarray(values).astype(dtype.numpy)


def check(backend, kind, row, dtype, result=None):
    shape, axes, order = row
    dtype = NAMES[dtype]
    array = draw(shape, dtype, kind)
    if kind in ("argmax", "argmin"):
        attributes = {"axis": axes[0]}
    else:
        attributes = {"axes": axes}
    if kind in ("sum", "prod"):
        attributes["dtype"] = NAMES[result or ("int64" if dtype.kind == "bool" else dtype.name)]
    (found,), (wanted,) = run_op(backend, kind, [array], attributes, [order])
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    made = NAMES[found.dtype.name]
    if kind in ("sum", "prod") and made.is_inexact:
        wide = np.complex128 if made.is_complex else np.float64
        f, w = found.astype(wide), wanted.astype(wide)
        scale = np.abs(w).max(initial=1) * 8
        np.testing.assert_allclose(f, w, rtol=DIGITS[made.name], atol=DIGITS[made.name] * scale)
    else:
        exact = np.float64 if made.name == "bfloat16" else found.dtype
        np.testing.assert_array_equal(found.astype(exact), wanted.astype(exact))


# Images, channels and pixels, and the units of a channel and lines that they see together.
TEAMS = {
    (32, 576, 196): (256, 8),
    (32, 512, 49): (256, 32),
    (2, 512, 49): (16, 2),
    (8, 64, 3136): (256, 1),
}


@pytest.mark.parametrize("shape", TEAMS, ids=str)
def test_short_lines_are_seen_together(shape):
    """Units of a row that is short lines are as many as those of one long line."""
    known, made = spec(shape, float32), spec(shape[1:2], float32)
    attributes = {"axes": (0, 2), "dtype": float32}
    info = replace(MANY_UNITS, max_units=1024, planes=(32,))
    load_families()
    request = Request("sum", attributes, (View.dense(known),), (made,), info)
    plan = dict(LOWERINGS["sum"](request)[0].launches[0].build.keywords)["plan"]
    assert (plan.team, plan.lines) == TEAMS[shape]


# Shapes and reduced axes, and the width of vectors and the columns of a block: few columns, many,
# many that are no whole vectors, short blocks of columns, and as many terms as units share.
SHORT = {
    ((2, 257, 40), (0,)): (1, 256),
    ((4, 131088), (0,)): (4, 1024),
    ((3, 131090), (0,)): (2, 512),
    ((2, 131075), (0,)): (1, 256),
    ((12000, 3, 12), (1,)): (4, 16),
    ((12001, 2, 3), (1,)): (1, 4),
    ((16, 32768), (0,)): (1, 256),
    # Blocks of fewer elements than a cube has units, of which there are many or few.
    ((300, 9, 3), (1,)): (1, 4),
    ((20, 9, 3), (1,)): None,
    ((5, 3000), (0,)): None,
    ((16, 32767), (0,)): None,
    ((65, 140000), (0,)): None,
}


@pytest.mark.parametrize("row", SHORT, ids=str)
def test_few_terms_are_those_of_one_unit(row):
    shape, axes = row
    rest = tuple(n for a, n in enumerate(shape) if a not in axes)
    attributes = {"axes": axes, "dtype": float32}
    load_families()
    views, results = (View.dense(spec(shape, float32)),), (spec(rest, float32),)
    request = Request("sum", attributes, views, results, MANY_UNITS)
    first = LOWERINGS["sum"](request)[0].launches[0]
    plan = dict(first.build.keywords)["plan"]
    assert ((plan.width, plan.span) if plan.alone else None) == SHORT[row]
    lanes = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    check(lanes, "sum", (*row, None), "float32")


@pytest.mark.parametrize(("kind", "row"), PAIRS, ids=str)
def test_shapes(backend, kind, row):
    check(backend, kind, row, "float32")


@pytest.mark.parametrize(("kind", "row"), LONG, ids=str)
def test_division_among_cubes(backend, kind, row):
    check(backend, kind, row, "float32")


@pytest.mark.parametrize(("kind", "dtype"), TYPED)
def test_types(backend, kind, dtype):
    check(backend, kind, ROWS[1], dtype)
    check(backend, kind, ROWS[2], dtype)


@pytest.mark.parametrize("kind", ["sum", "prod"])
@pytest.mark.parametrize(("dtype", "result"), RESULTS)
def test_results_of_other_types(backend, kind, dtype, result):
    check(backend, kind, ROWS[1], dtype, result)
