"""Are convolutions of few filters right as folded products, and are those folded that gain?"""

import random
from dataclasses import replace

import pytest

import calor
from calor import dtypes
from calor.dtypes import float32
from calor.sizes import Trace
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.conv.folded_products import folded_refusal
from calor_kernel.library.conv.problem import Convolution, forward
from calor_kernel.runtime.backend import KernelBackend
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, near, operands, same_bits
from .test_conv import check
from .test_implicit_gemm_mma import INFO, LOWERINGS, ONE, request_of

MODULE = "calor_kernel.library.conv.folded_products"
WAY = "folded product"


@pytest.fixture
def small(monkeypatch):
    """Convolutions are folded however few operations they have, a few images at a time."""
    for name, value in {"_FLOPS": 0, "_CHANNELS": 2, "COLUMNS": 1, "_NEAR": 1 << 14}.items():
        monkeypatch.setattr(f"{MODULE}.{name}", value)


def way(op, row, dtype, info=MANY_UNITS, **more):
    request = replace(request_of(op, row, getattr(dtypes, dtype), info), **more)
    return LOWERINGS[op](request)[0].way.name


def drawn(seed):
    """Return a drawn convolution of few filters without stride, forward or its mirror."""
    rng = random.Random(seed)
    rank, op = rng.choice((1, 2, 2, 3)), rng.choice(("conv", "conv_input_gradient"))
    kernel = (*(rng.randint(1, 4) for _ in range(rank - 1)), rng.randint(4, 5))
    pads = tuple((rng.randint(0, k - 1), rng.randint(0, k - 1)) for k in kernel)
    side = [k + rng.randint(0, 9 if rank < 3 else 3) for k in kernel]
    few, many, images = rng.randint(1, 4), rng.randint(8, 12), rng.randint(1, 5)
    filters, channels = (few, many) if op == "conv" else (many, few)
    shapes = (images, channels, *side), (filters, channels, *kernel)
    return op, (*shapes, (1,) * rank, pads, (1,) * rank, 1)


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes(small, seed):
    op, row = drawn(seed)
    dtype = ("float32", "bfloat16", "float16")[seed % 3]
    # Input gradients that blocks do not take are folded anyway.
    assert way(op, row, dtype) in (WAY, "patches")
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS))
    check(backend, op, row, dtype, reordered=bool(seed % 2))


LARGE = ((4, 64, 256, 256), (3, 64, 7, 7), ONE, ((3, 3), (3, 3)), ONE, 1)


def test_some_images_at_a_time(small):
    """A launch for some images, one copy of the filters, and memory for the sums of those alone."""
    row = ((5, 8, 20, 20), (2, 8, 3, 3), ONE, (ONE, ONE), ONE, 1)
    (work,) = LOWERINGS["conv"](request_of("conv", row, float32, MANY_UNITS))
    made = [launch.build.function.name for launch in work.launches]
    each = 2 * 9 * 20 * 20 * 4
    assert made.count("fold_windows") == 5
    assert [launch.prepares for launch in work.launches].count(True) == 1
    assert max(work.scratch) == each


@pytest.mark.parametrize(
    ("dtype", "filters", "channels", "info", "folded"),
    [
        ("float32", 3, 64, MANY_UNITS, True),
        ("float32", 5, 64, MANY_UNITS, False),
        ("bfloat16", 3, 64, INFO, True),
        ("bfloat16", 8, 32, INFO, True),
        ("bfloat16", 12, 96, INFO, True),
        ("bfloat16", 12, 48, INFO, False),
        ("bfloat16", 3, 16, INFO, False),
        ("bfloat16", 24, 512, INFO, False),
    ],
)
def test_few_filters_of_many_channels_are_folded(dtype, filters, channels, info, folded):
    shapes = (4, channels, 256, 256), (filters, channels, 7, 7)
    assert (way("conv", (*shapes, *LARGE[2:]), dtype, info) == WAY) == folded
    small = (1, channels, 9, 9), (filters, channels, 3, 3)
    assert way("conv", (*small, *LARGE[2:]), dtype, info) != WAY
    strided = (*shapes, (2, 2), *LARGE[3:])
    assert way("conv", strided, dtype, info) != WAY


def test_memory_bounds_the_sums_of_an_image():
    huge = ((1, 64, 1100, 1100), *LARGE[1:])
    assert way("conv", huge, "bfloat16", INFO) != WAY
    assert way("conv", LARGE, "bfloat16", replace(INFO, memory_bytes=1 << 30)) != WAY


def test_epilogue(small):
    """What follows is done by the folds, with the bits of one op after another."""
    shapes = [(3, 9, 20, 9), (3, 9, 3, 3), (3, 1, 1), (3, 3, 20, 9)]

    def function(x, w, b, r):
        return calor.relu(functional.conv2d(x, w, padding=1) + b) * r

    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found = same_bits(graph, arrays, MANY_UNITS, "conv fold")
    near(found, function, arrays, float32, "highest")


@pytest.mark.parametrize(("images", "folded"), [(2, True), (64, False)])
def test_memory_bounds_the_sums_of_an_unknown_number_of_images(images, folded):
    (many,) = Trace([images]).symbols
    request = request_of("conv", LARGE, dtypes.bfloat16, INFO)
    p = forward(request)
    p = replace(p, leads=(replace(p.leads[0], size=many), *p.leads[1:]))
    assert (folded_refusal(Convolution(p, p, INFO), request) is None) == folded
