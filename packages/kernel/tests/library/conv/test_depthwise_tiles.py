"""Are depthwise convolutions and their gradients right from staged tiles, in every layout?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import OPS, check
from .test_direct_blocks import ONE, drawn
from .test_implicit_gemm_mma import LOWERINGS, request_of

INFO = replace(MANY_UNITS, max_units=256)
# Many pixels of few channels: sums in parts.
PARTED = ((8, 2, 40, 33), (2, 1, 3, 3), ONE, (ONE, ONE), ONE, 2)


def named(op, row, dtype, info=INFO):
    works = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), info))
    return next((work for work in works if work.way.name == "depthwise tiles"), None)


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


def single(seed):
    """Return a drawn convolution with one output channel for each group."""
    x, w, *rest = drawn(seed)
    return x, (x[1], *w[1:]), *rest


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("reordered", [False, True])
def test_random_shapes(backend, op, seed, reordered):
    row, dtype = single(seed + 100), ("float32", "bfloat16", "float64", "float16")[seed % 4]
    assert named(op, row, dtype) is not None
    check(backend, op, row, dtype, reordered=reordered)


# Of volumes: one image, the filter's taps, strides, padding, dilation, and groups.
VOLUMES = {
    "plain": ((2, 3, 5, 9, 8), (3, 1, 3, 3, 3), (1,) * 3, (ONE,) * 3, (1,) * 3, 3),
    "strided": ((1, 2, 6, 9, 7), (2, 1, 3, 3, 3), (1, 2, 2), (ONE,) * 3, (1,) * 3, 2),
    "halved": ((1, 2, 7, 6, 9), (2, 1, 3, 2, 3), (2,) * 3, (ONE, (0, 0), ONE), (1,) * 3, 2),
    "causal": ((1, 4, 6, 7, 7), (4, 1, 3, 3, 1), (1,) * 3, ((2, 0), ONE, (0, 0)), (1,) * 3, 4),
    "dilated": ((1, 2, 9, 7, 8), (2, 1, 2, 3, 3), (1,) * 3, ((1, 1),) * 3, (3, 2, 1), 2),
    "planes": ((2, 3, 4, 11, 9), (3, 1, 1, 3, 3), (1,) * 3, ((0, 0), ONE, ONE), (1,) * 3, 3),
    "many channels": ((1, 70, 3, 4, 4), (70, 1, 3, 3, 3), (1,) * 3, (ONE,) * 3, (1,) * 3, 70),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_are_tiles_of_planes(backend, op, name):
    dtype = ("float32", "bfloat16", "float64", "float16")[len(name) % 4]
    work = named(op, VOLUMES[name], dtype)
    assert "tiles" in work.launches[0].label
    check(backend, op, VOLUMES[name], dtype, reordered=len(name) % 2 == 0)


@pytest.mark.parametrize("reordered", [False, True])
def test_parts_of_a_weight_gradient_are_added(reordered):
    op, info = "conv_weight_gradient", replace(INFO, cores=2)
    work = named(op, PARTED, "bfloat16", info)
    assert work.launches[1].label == "conv parts"
    check(
        KernelBackend("lanes", lambda index: LanesDevice(info)),
        op,
        PARTED,
        "bfloat16",
        reordered=reordered,
    )


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("reordered", [False, True])
def test_small_images_are_copied_without_what_is_around_them(op, reordered):
    row = ((3, 12, 7, 7), (12, 1, 7, 7), ONE, ((3, 3), (3, 3)), ONE, 12)
    (launch, *_) = named(op, row, "float32").launches
    built = dict(launch.build.keywords)
    assert built["tile"].whole == (7, 7)
    assert built["tile"].area > 49
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFO))
    check(backend, op, row, "float32", reordered=reordered)


# Images, filters, strides, padding, dilation, and groups, along one axis.
LINES = {
    "plain": ((2, 5, 70), (5, 1, 31), (1,), ((15, 15),), (1,), 5),
    "odd": ((1, 3, 43), (3, 1, 6), (1,), ((0, 4),), (1,), 3),
    "dilated": ((2, 3, 40), (3, 1, 7), (1,), ((6, 2),), (2,), 3),
    "strided": ((1, 4, 61), (4, 1, 9), (2,), ((4, 4),), (1,), 4),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_units_have_several_outputs_of_a_line(op, name, dtype):
    info = replace(INFO, cores=1)
    work = named(op, LINES[name], dtype, info)
    if name == "plain":
        assert " 1x1 by " not in work.launches[0].label
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, LINES[name], dtype)


@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("name", ["short", "strided"])
def test_weights_of_a_line_are_sums_of_several_pixels_of_a_unit(name, reordered):
    op, info = "conv_weight_gradient", replace(INFO, cores=1)
    row = {**LINES, "short": ((2, 40, 70), (40, 1, 3), (1,), ((2, 2),), (1,), 40)}[name]
    if name == "short":
        assert " 1x1 by " not in named(op, row, "float32", info).launches[0].label
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, "float32", reordered=reordered)
