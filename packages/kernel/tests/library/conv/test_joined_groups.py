"""Are grouped convolutions right if several groups are joined, and are those joined that gain?"""

import random

import pytest

from calor import dtypes
from calor_interpreter.device import LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import OPS, check
from .test_implicit_gemm_mma import H200, INFO, LOWERINGS, request_of

MODULE = "calor_kernel.library.conv.joined_groups"
FASTER = dict.fromkeys((True, False), 64)
CONSTANTS = {"_LAUNCHES": 0, "_FASTER": FASTER, "_FEW": 0, "_WIDE": 32}


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.fixture
def small(monkeypatch):
    """Groups are joined however few operations they have."""
    for name, value in CONSTANTS.items():
        monkeypatch.setattr(f"{MODULE}.{name}", value)


def way(op, row, dtype, info=INFO):
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), info))
    return work.way.name


def drawn(seed):
    """Return a drawn convolution of groups of few channels with a window of more than 63 taps."""
    rng = random.Random(seed)
    rank, groups = rng.choice((1, 2)), rng.choice((2, 4, 6))
    outputs, inputs = rng.randint(4, 9), rng.randint(4, 9)
    kernel = (rng.randint(64, 80),) if rank == 1 else (rng.randint(8, 9), rng.randint(8, 11))
    stride = tuple(rng.choice((1, 1, 2)) for _ in kernel)
    pads = tuple((rng.randint(0, k // 2), rng.randint(0, k // 2)) for k in kernel)
    side = [k + rng.randint(0, 6) for k in kernel]
    x, w = (2, groups * inputs, *side), (groups * outputs, inputs, *kernel)
    return x, w, stride, pads, (1,) * rank, groups


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(3))
def test_random_shapes(backend, small, op, seed):
    row, dtype = drawn(seed), ("bfloat16", "float16")[seed % 2]
    assert way(op, row, dtype) == "joined groups"
    check(backend, op, row, dtype, reordered=bool(seed % 3))


@pytest.mark.parametrize("op", OPS)
def test_float32_is_joined_where_it_may_be_rounded(backend, small, op):
    row = drawn(1)
    request = request_of(op, row, dtypes.float32, INFO)
    assert LOWERINGS[op](request)[0].way.name != "joined groups"
    request.attributes["precision"] = "high"
    assert LOWERINGS[op](request)[0].way.name == "joined groups"


# Weight gradients whose joined channels fill whole accesses: one launch of all, of any window.
AT_ONCE = [
    ((2, 48, 9, 8), (48, 4, 3, 3), (1, 2), ((1, 1), (0, 2)), (1, 2), 12),
    ((3, 48, 21), (96, 8, 5), (2,), ((2, 1),), (1,), 6),
    ((1, 64, 9, 10), (64, 16, 9, 8), (1, 1), ((4, 4), (3, 4)), (1, 1), 4),
    ((2, 72, 9), (48, 24, 3), (1,), ((1, 1),), (1,), 3),
    ((2, 32, 5, 5), (64, 4, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 8),
]


@pytest.mark.parametrize("row", AT_ONCE, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weight_gradients_of_all_groups_at_once(backend, small, row, dtype):
    op = "conv_weight_gradient"
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), INFO))
    assert work.launches[-1].label == "conv joined parts"
    assert sum(launch.label.startswith("conv weight mma") for launch in work.launches) == 1
    check(backend, op, row, dtype)
    check(backend, op, row, dtype, reordered=True)


# Channels of each group, groups, window, and whether they are joined in bfloat16.
MODELS = [
    (8, 8, 9, True), (4, 16, 11, False), (16, 8, 3, True), (32, 4, 3, True), (64, 2, 3, False),
    (48, 16, 3, False), (4, 32, 3, False), (1, 64, 9, False), (2, 32, 13, False),
]  # fmt: skip


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("channels", "groups", "side", "joined"), MODELS)
def test_groups_of_models(op, channels, groups, side, joined):
    width = channels * groups
    x, w = (16, width, 56, 56), (width, channels, side, side)
    row = x, w, (1, 1), ((side // 2,) * 2,) * 2, (1, 1), groups
    # Weight gradients of small windows are joined too.
    joined = joined or (op == "conv_weight_gradient" and (channels, groups) == (4, 32))
    assert (way(op, row, "bfloat16", H200) == "joined groups") == joined
    assert way(op, row, "float32", H200) != "joined groups"
