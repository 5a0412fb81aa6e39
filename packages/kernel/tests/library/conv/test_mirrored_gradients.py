"""Are gradients of few filters right as those of mirrored convolutions, and taken if they gain?"""

import random
from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import NONE, check
from .test_implicit_gemm_mma import H200, INFO, LOWERINGS, ONE, request_of

MODULE = "calor_kernel.library.conv.mirrored_gradients"
WAY, OP = "mirrored gradient", "conv_weight_gradient"


@pytest.fixture
def small(monkeypatch):
    """Gradients are mirrored however few operations they have."""
    monkeypatch.setattr(f"{MODULE}._FLOPS", 0)
    monkeypatch.setattr("calor_kernel.library.conv.folded_products._CHANNELS", 4)


def way(row, dtype, info=MANY_UNITS):
    request = request_of(OP, row, getattr(dtypes, dtype), info)
    return LOWERINGS[OP](request)[0].way.name


def drawn(seed):
    """Return a drawn convolution of few filters without stride."""
    rng = random.Random(seed)
    rank = rng.choice((1, 2, 2, 3))
    kernel = (*(rng.randint(1, 4) for _ in range(rank - 1)), rng.randint(2, 5))
    pads = tuple((rng.randint(0, k - 1), rng.randint(0, k - 1)) for k in kernel)
    side = [k + rng.randint(0, 7 if rank < 3 else 3) for k in kernel]
    filters, channels, images = rng.randint(1, 4), rng.randint(24, 30), rng.randint(1, 3)
    return (
        (images, channels, *side),
        (filters, channels, *kernel),
        (1,) * rank,
        pads,
        (1,) * rank,
        1,
    )


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes(small, seed):
    row, dtype = drawn(seed), ("float32", "bfloat16", "float16")[seed % 3]
    info = (MANY_UNITS, replace(H200, cores=8))[seed % 2]
    assert way(row, dtype, info) == WAY
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, OP, row, dtype, reordered=bool(seed % 2))


@pytest.mark.parametrize(
    ("filters", "channels", "kernel", "stride", "padding", "dilation", "mirrored"),
    [
        (3, 64, 7, 1, 3, 1, True),
        (4, 320, 3, 1, 0, 1, True),
        (12, 96, 3, 1, 1, 1, True),
        (12, 48, 3, 1, 1, 1, False),
        (3, 16, 7, 1, 3, 1, False),
        (64, 3, 7, 1, 3, 1, False),
        (3, 64, 7, 2, 3, 1, False),
        (3, 64, 3, 1, 2, 2, False),
        (3, 64, 3, 1, 3, 1, False),
        (3, 64, 1, 1, 0, 1, False),
    ],
)
def test_few_filters_of_many_channels_are_mirrored(
    filters, channels, kernel, stride, padding, dilation, mirrored
):
    pads = ((padding, padding),) * 2
    row = (4, channels, 128, 128), (filters, channels, kernel, kernel), (stride,) * 2, pads
    assert (way((*row, (dilation,) * 2, 1), "bfloat16", INFO) == WAY) == mirrored
    small = (1, channels, 9, 9), (filters, channels, 3, 3), ONE, (NONE, NONE), ONE, 1
    assert way(small, "bfloat16", INFO) != WAY
