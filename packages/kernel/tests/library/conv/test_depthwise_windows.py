"""Are depthwise convolutions of large windows right by columns of taps, and their gradients?"""

import random
from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import OPS, check
from .test_implicit_gemm_mma import LOWERINGS, request_of

INFO = replace(MANY_UNITS, max_units=256, cores=2)


def named(op, row, dtype):
    works = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), INFO))
    return next((work for work in works if work.way.name == "depthwise windows"), None)


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


def large(seed, op):
    """Return a drawn depthwise convolution with a window of more than 63 taps."""
    rng = random.Random(seed)
    rank = rng.choice((1, 2, 2))
    kernel = [rng.randint(1, 13) for _ in range(rank)]
    kernel[rng.randrange(rank)] = rng.randint(64, 70) if rank == 1 else rng.randint(9, 17)
    if rank == 2:
        kernel = [max(k, 64 // min(kernel) // 2 + 1) for k in kernel]
    stride = rng.choice((1, 1, 2)) if op != "conv_input_gradient" else 1
    dilation, groups = rng.choice((1, 1, 2)), rng.choice((2, 3, 8))
    pads = [(rng.randint(0, k), rng.randint(0, k // 2)) for k in kernel]
    side = [dilation * (k - 1) + 1 + rng.randint(0, 9) for k in kernel]
    strides, dilations = (stride,) * rank, (dilation,) * rank
    return (2, groups, *side), (groups, 1, *kernel), strides, tuple(pads), dilations, groups


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(6))
def test_random_shapes(backend, op, seed):
    row, dtype = large(seed, op), ("float32", "bfloat16", "float64", "float16")[seed % 4]
    if named(op, row, dtype) is None:
        assert len(row[0]) == 3, "a window of two axes is left to slower kernels"
        return
    check(backend, op, row, dtype, reordered=bool(seed % 2))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("side", [9, 13, 31, 51])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_windows_of_models_are_taken(op, side, dtype):
    row = (16, 64, 56, 56), (64, 1, side, side), (1, 1), ((side // 2,) * 2,) * 2, (1, 1), 64
    work = named(op, row, dtype)
    assert work is not None
    assert work.launches[0].label.startswith("depthwise")
