"""Are depthwise convolutions by matrix instructions right in every layout, beside NaN too?"""

import random
from dataclasses import replace

import numpy as np
import pytest

from calor import dtypes
from calor_interpreter.device import LanesDevice
from calor_kernel.library.conv import depthwise_mma_launch
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op
from .test_conv import OPS, check
from .test_implicit_gemm_mma import H200, LOWERINGS, ONE, request_of

INFO = replace(H200, features=H200.features - {"async_matrix", "tensor_copy"})


def drawn(seed):
    """Return a depthwise convolution with a long window."""
    draw = random.Random(seed)
    taps = draw.choice([(5, 5), (7, 7), (9, 9), (4, 8), (9, 3), (7, 4)])
    padding = tuple((draw.randint(-1, 4), draw.randint(-1, 4)) for _ in taps)
    sides = [max(4 + n - sum(p), draw.randint(5, 22)) for n, p in zip(taps, padding, strict=True)]
    channels = draw.choice([2, 3, 8, 16, 17])
    return (draw.randint(1, 3), channels, *sides), (channels, 1, *taps), ONE, padding, ONE, channels


def named(op, row, dtype, info=INFO):
    works = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), info))
    return next((work for work in works if work.way.name == "depthwise bands"), None)


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reordered", [False, True])
def test_random_shapes(monkeypatch, backend, op, seed, reordered):
    monkeypatch.setattr(depthwise_mma_launch, "_PADDED", 99)
    row, dtype = drawn(seed), ("bfloat16", "float16")[seed % 2]
    assert named(op, row, dtype) is not None
    check(backend, op, row, dtype, reordered=reordered)


# Images that several tiles share; in accesses of four, two and one column.
LARGE = {
    "fours": ((1, 2, 24, 72), (2, 1, 7, 7), ONE, ((3, 3), (3, 3)), ONE),
    "twos": ((2, 2, 70, 10), (2, 1, 5, 5), ONE, ((2, 2), (2, 2)), ONE),
    "cropped": ((1, 2, 20, 19), (2, 1, 9, 5), ONE, ((-1, 0), (-2, 3)), ONE),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("reordered", [False, True])
def test_tiles_of_an_image(backend, op, name, reordered):
    row = (*LARGE[name], 2)
    assert named(op, row, "bfloat16") is not None
    check(backend, op, row, "bfloat16", reordered=reordered)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_is_no_number_stays_with_its_window(backend, op, dtype):
    shape, groups = (1, 2, 12, 11), 2
    rng = np.random.default_rng(0)
    kind = getattr(dtypes, dtype).numpy
    x, w = (rng.standard_normal(s).astype(kind) for s in (shape, (2, 1, 5, 5)))
    g = rng.standard_normal(shape).astype(kind)
    for array in (x, g):
        array[0, 0, 3, 5], array[0, 1, 11, 10], array[0, 1, 0, 0] = np.inf, -np.inf, np.nan
    more = {"stride": ONE, "padding": ((2, 2), (2, 2)), "dilation": ONE, "groups": groups}
    arrays = {"conv": [x, w], "conv_input_gradient": [g, w]}.get(op, [x, np.abs(g)])
    if op == "conv_weight_gradient":
        arrays[1][0, 0, 3, 5] = arrays[1][0, 1, 11, 10] = arrays[1][0, 1, 0, 0] = 1
    extra = {"conv_input_gradient": {"input_shape": shape}, "conv": {}}
    more |= extra.get(op, {"weight_shape": w.shape})
    (found,), (wanted,) = run_op(backend, op, arrays, more)
    near = 2e-2 if dtype == "bfloat16" else 4e-3
    wide, exact = found.astype(np.float32), wanted.astype(np.float32)
    assert not np.isfinite(exact).all()
    np.testing.assert_allclose(wide, exact, near, near * 8)


def test_other_problems_have_other_ways():
    row = ((2, 16, 14, 14), (16, 1, 7, 7), ONE, ((3, 3), (3, 3)), ONE, 16)
    assert named("conv", row, "bfloat16") is not None
    assert named("conv", row, "float32") is None
    assert named("conv", ((2, 16, 7, 7), *row[1:]), "bfloat16") is None
    assert (
        named("conv", row, "bfloat16", replace(INFO, features=INFO.features - {"load_matrix"}))
        is None
    )
    for w, stride, dilation in (
        ((16, 1, 3, 3), 1, 1),
        ((16, 1, 7, 7), 2, 1),
        ((16, 1, 5, 5), 1, 2),
    ):
        other = (row[0], w, (stride,) * 2, row[3], (dilation,) * 2, 16)
        assert named("conv", other, "bfloat16") is None
