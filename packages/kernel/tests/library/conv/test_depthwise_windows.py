"""Are grouped convolutions of large windows right by columns of taps, and their gradients?"""

import random
from dataclasses import replace
from math import prod

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import OPS, check
from .test_implicit_gemm_mma import LOWERINGS, request_of

INFO = replace(MANY_UNITS, max_units=256, cores=2)
NAMES = "depthwise windows", "windows by channel"


def named(op, row, dtype):
    works = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), INFO))
    return next((work for work in works if work.way.name in NAMES), None)


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


def large(seed, alone):
    """Return a drawn convolution with a window of more than 63 taps; ``alone``: depthwise."""
    rng = random.Random(seed)
    rank = rng.choice((1, 2, 2))
    kernel = [rng.randint(1, 13) for _ in range(rank)]
    # Columns of one piece, and of several with a rest.
    kernel[rng.randrange(rank)] = rng.choice((65, 70, 97, 128)) if rank == 1 else rng.randint(9, 17)
    if rank == 2:
        kernel = [max(k, 64 // min(kernel) // 2 + 1) for k in kernel]
    short = prod(kernel) < 64
    kernel = [k + 8 * short for k in kernel]
    stride, dilation, groups = (
        rng.choice((1, 1, 2, 3)),
        rng.choice((1, 1, 2)),
        rng.choice((2, 3, 5)),
    )
    pads = [(rng.randint(0, k), rng.randint(0, k // 2)) for k in kernel]
    side = [dilation * (k - 1) + 1 + rng.randint(0, 9) for k in kernel]
    outputs, inputs = (1, 1) if alone else (rng.randint(1, 3), rng.randint(2, 3))
    strides, dilations = (stride,) * rank, (dilation,) * rank
    x, w = (2, groups * inputs, *side), (groups * outputs, inputs, *kernel)
    return x, w, strides, tuple(pads), dilations, groups


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_random_shapes(backend, op, alone, seed):
    row, dtype = large(seed, alone), ("float32", "bfloat16", "float64", "float16")[seed % 4]
    assert named(op, row, dtype) is not None
    check(backend, op, row, dtype, reordered=bool(seed % 2))


# Of volumes: images, filters, strides, padding, dilation, and groups.
VOLUMES = {
    "cubes": ((2, 2, 4, 5, 6), (2, 1, 5, 5, 5), (1,) * 3, ((2, 2),) * 3, (1,) * 3, 2),
    "strided": ((1, 2, 6, 7, 6), (2, 1, 4, 5, 5), (2, 2, 1), ((2, 1),) * 3, (1,) * 3, 2),
    "dilated": ((1, 2, 9, 6, 7), (2, 1, 3, 6, 4), (1,) * 3, ((4, 0), (1, 2), (3, 3)), (3, 1, 2), 2),
    "gaps": ((1, 2, 9, 9, 7), (2, 1, 2, 6, 6), (3, 2, 1), ((1, 1), (2, 2), (2, 2)), (1,) * 3, 2),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_are_summed_plane_by_plane(backend, op, name):
    dtype = ("float32", "bfloat16", "float64", "float16")[len(name) % 4]
    assert "windows" in named(op, VOLUMES[name], dtype).launches[0].label
    check(backend, op, VOLUMES[name], dtype, reordered=name == "strided")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("side", [9, 13, 31, 51])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_of_models_are_taken(op, side, dtype, stride):
    row = (16, 64, 56, 56), (64, 1, side, side), (stride,) * 2, ((side // 2,) * 2,) * 2, (1, 1), 64
    work = named(op, row, dtype)
    assert work is not None
    assert work.launches[0].label.startswith("depthwise")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("window", [65, 87, 128, 255, 1024])
def test_long_lines_are_taken(op, window):
    row = (4, 32, 1024), (32, 1, window), (1,), ((window - 1, 0),), (1,), 32
    assert named(op, row, "bfloat16") is not None
