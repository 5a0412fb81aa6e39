"""Are convolutions of few windows right as products, and are those products that gain?"""

import random
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor import dtypes
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.library.conv import window_products
from calor_kernel.library.matmul import ProductFuser
from calor_kernel.runtime.backend import KernelBackend
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, operands, run
from ..ops import run_op
from .test_conv import NONE, OPS, check
from .test_implicit_gemm_mma import LOWERINGS, ONE, request_of

WAY = "window products"
# Vectors of 8 lanes, without fast masks.
SHORT = replace(
    ONE_UNIT, features=ONE_UNIT.features - {"masked_access"}, vector_bytes=32,
    native={"vector_registers": 16},
)  # fmt: skip
# Shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 17, 3, 3), (21, 17, 1, 1), ONE, (NONE, NONE), ONE, 1),
    ((2, 16, 3, 3), (19, 16, 3, 3), ONE, ((1, 1), (1, 1)), ONE, 1),
    ((5, 18, 5, 4), (16, 18, 2, 3), (2, 3), ((1, 0), (0, 2)), ONE, 1),
    ((1, 16, 7, 6), (20, 16, 3, 2), (2, 1), ((2, 1), (1, 1)), (2, 3), 1),
    ((2, 16, 5, 5), (18, 16, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((1, 16, 4, 3), (16, 16, 1, 1), (2, 2), ((1, 1), (1, 0)), ONE, 1),
    ((1, 36, 3, 2), (34, 18, 2, 2), ONE, ((1, 0), (0, 1)), ONE, 2),
    ((1, 32, 3, 3), (48, 16, 1, 1), ONE, (NONE, NONE), ONE, 2),
    ((1, 16, 6, 6), (16, 16, 3, 3), ONE, ((-1, 1), (1, -2)), ONE, 1),
    ((3, 16, 7), (17, 16, 4), (3,), ((2, 2),), (1,), 1),
    ((1, 16, 2, 3, 4), (16, 16, 2, 2, 3), (1, 2, 1), ((0, 1),) * 3, (1, 1, 1), 1),
    ((7, 40, 1, 2), (33, 40, 1, 3), ONE, (NONE, (1, 1)), ONE, 1),
]


@pytest.fixture
def taken(monkeypatch):
    """Gradients of several taps are products however few channels they have."""
    for name, value in {"_FILTERS": 1, "_SUMMED": 0, "_VECTORS": 16, "_TAPPED": 128}.items():
        monkeypatch.setattr(window_products, name, value)


def way(op, row, info=ONE_UNIT, kept=(), dtype="float32"):
    request = request_of(op, row, getattr(dtypes, dtype), info)
    return LOWERINGS[op](replace(request, kept=frozenset(kept)))[0].way.name


def drawn(seed):
    """Return a drawn convolution of few windows: odd sizes, strides, dilation, groups, cropping."""
    rng = random.Random(seed)
    rank, groups = rng.choice((1, 2, 2, 3)), rng.choice((1, 1, 2))
    taps = tuple(rng.randint(1, 3) for _ in range(rank))
    stride, dilation = (tuple(rng.randint(1, 3) for _ in range(rank)) for _ in range(2))
    pads = tuple((rng.randint(-1, 2), rng.randint(0, 2)) for _ in range(rank))
    # Windows that cover the image begin inside.
    reach = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    side = [r + 2 + rng.randint(0, 3 if rank < 3 else 0) for r in reach]
    each, filters = rng.randint(16, 35), rng.randint(16, 35)
    x = rng.randint(1, 2), groups * each, *side
    return x, (groups * filters, each, *taps), stride, pads, dilation, groups


@pytest.mark.parametrize("info", [ONE_UNIT, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(taken, row, op, info):
    assert way(op, row, info) == WAY
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    for reordered in (False, True):
        check(backend, op, row, "float32", reordered)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(6))
def test_random_shapes(taken, seed, op):
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    check(backend, op, drawn(seed), "float32", reordered=bool(seed % 2))


def test_an_infinite_gradient_reaches_the_pixels_of_its_window_alone():
    x, w = (1, 16, 4, 4), (64, 16, 2, 2)
    row = (x, w, (2, 2), (NONE, NONE), ONE, 1)
    assert way("conv_input_gradient", row) == WAY
    gradient = np.ones((1, 64, 2, 2), np.float32)
    gradient[0, 3, 1, 0] = np.inf
    attributes = {"stride": (2, 2), "padding": (NONE, NONE), "dilation": ONE, "groups": 1}
    attributes["input_shape"] = x
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))
    arrays = [gradient, np.ones(w, np.float32)]
    (made,), _ = run_op(backend, "conv_input_gradient", arrays, attributes, [None, None])
    assert np.isinf(made[:, :, 2:, :2]).all()
    rest = np.where(np.isinf(made), 64, made)
    assert (rest == 64).all()
    assert np.isinf(made).sum() == 16 * 4


POINTWISE = ((2, 64, 4, 4), (256, 64, 1, 1), ONE, (NONE, NONE), ONE, 1)
TAPPED = ((2, 512, 3, 3), (512, 512, 3, 3), ONE, ((1, 1), (1, 1)), ONE, 1)
FEW_FILTERS = ((2, 64, 3, 3), (64, 64, 3, 3), ONE, ((1, 1), (1, 1)), ONE, 1)
LARGER = ((2, 512, 14, 14), (512, 512, 3, 3), ONE, ((1, 1), (1, 1)), ONE, 1)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", [POINTWISE, TAPPED], ids=["one tap", "several taps"])
def test_window_products_are_a_product(op, row):
    assert way(op, row) == WAY


@pytest.mark.parametrize("op", OPS)
def test_many_windows_are_tiles_of_images(op):
    assert way(op, LARGER) != WAY
    assert way(op, TAPPED, dtype="float64") != WAY


def test_taps_of_few_filters_are_tiles_of_images():
    assert way("conv_weight_gradient", FEW_FILTERS) != WAY
    # Each weight of a tap is then in a line of its own.
    x, w, *rest = FEW_FILTERS
    assert way("conv_weight_gradient", (x, (*w[:2], 4, 4), *rest)) == WAY


@pytest.mark.parametrize("op", OPS[:2])
def test_unchanged_weights_are_packed_once(op):
    assert way(op, POINTWISE, kept=[1]) != WAY


@pytest.mark.parametrize("op", OPS[:2])
def test_ways_that_pack_weights_are_offered_beside_products(op):
    """So a plan looks whether weights stay, and asks again."""
    row = ((2, 64, 4, 4), (256, 64, 3, 3), ONE, ((1, 1), (1, 1)), ONE, 1)
    works = LOWERINGS[op](request_of(op, row, dtypes.float32, ONE_UNIT))
    assert works[0].way.name == WAY
    assert any(launch.prepares for work in works[1:] for launch in work.launches)


def test_what_follows_is_a_launch_of_its_own():
    shapes = [(2, 20, 3, 3), (18, 20, 3, 3), (18, 1, 1)]

    def function(x, w, b):
        return calor.relu(functional.conv2d(x, w, padding=1) + b)

    graph, arrays = graph_of(function, dtypes.float32, shapes), operands(shapes, dtypes.float32)
    (made,), launches = run(graph, arrays, ONE_UNIT, (ProductFuser(),))
    assert any("conv windows" in launch.label for launch in launches)
    (wanted,), _ = run(graph, arrays, ONE_UNIT, ())
    np.testing.assert_array_equal(made, wanted)
