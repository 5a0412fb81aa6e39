"""Do convolutions read channels last by whole lines, and are gradients with gaps summed by rows?"""

from itertools import product

import pytest

from calor.dtypes import float32
from calor.specs import spec
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Request, View, row_major
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import OPS, check

# Images of one to three axes, groups of several channels, stride, dilation.
IMAGES = {1: (9,), 2: (4, 5), 3: (2, 3, 4)}
LAST = [
    ((2, 8 * groups, *image), (6 * groups, 8, *(k,) * n), (s,) * n, ((1, 1),) * n, (d,) * n, groups)
    for (n, image), (groups, k, s, d) in product(
        IMAGES.items(), [(3, 3, 1, 1), (2, 1, 2, 1), (2, 2, 1, 2)]
    )
]
# Windows with gaps between them, of more phases than are computed one by one.
GAPS = [
    ((2, 6, *image), (4, 3, *(k,) * n), (s,) * n, ((0, low),) * n, (1,) * n, 2)
    for (n, image), (k, s, low) in product(
        IMAGES.items(), [(1, 5, 0), (2, 5, 1), (1, 3, 0), (3, 3, 1)]
    )
    if s**n > 4
]


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT))


@pytest.mark.parametrize("row", LAST, ids=str)
@pytest.mark.parametrize("op", OPS)
def test_channels_last(backend, op, row):
    check(backend, op, row, "float32", reordered=True)


@pytest.mark.parametrize("last", [False, True])
def test_a_row_of_channels_last_is_transposed(last):
    shape, filters = (2, 64, 3, 9, 9), (48, 16, 3, 3, 3)
    strides = row_major(shape)
    if last:
        images, *pixels, channels = row_major((2, 3, 9, 9, 64))
        strides = (images, channels, *pixels)
    views = View(shape, strides, float32), View(filters, row_major(filters), float32)
    ones = (1, 1, 1)
    given = {"stride": ones, "dilation": (2, 2, 2), "padding": ((2, 2),) * 3, "groups": 4}
    load_families()
    outputs = (spec((2, 48, 3, 9, 9), float32),)
    request = Request("conv", given, views, outputs, ONE_UNIT)
    labels = [launch.label for launch in LOWERINGS["conv"](request)[0].launches]
    assert labels[:-1] == (["copy_transposed", "conv planes"] if last else [])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("row", GAPS, ids=str)
def test_gaps(backend, row, dtype):
    check(backend, "conv_input_gradient", row, dtype)
