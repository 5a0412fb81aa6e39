"""Are stride-2 input gradients by TMA right, whose tiles compute both phases of a row?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor.dtypes import float32
from calor_interpreter.device import LanesDevice
from calor_kernel.contract.work import row_major
from calor_kernel.library.conv.lowering import lower_conv, lower_conv_input_gradient
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import DIGITS, NONE, check
from .test_implicit_gemm_mma import H200, ONE, PADDED, planned, request_of, square

# Strides of two across whose phases all see taps: accesses of several places, rows beyond the last
# channel, other strides down, several steps of channels, gaps down, padding of one side.
PHASED = [
    ((2, 64, 6, 12), (64, 64, 3, 3), (2, 2), PADDED, ONE, 1),
    ((1, 72, 7, 16), (64, 72, 3, 3), (2, 2), PADDED, ONE, 1),
    ((3, 32, 5, 6), (64, 32, 2, 5), (1, 2), ((0, 1), (2, 2)), ONE, 1),
    ((1, 64, 7, 6), (128, 64, 3, 4), (2, 2), PADDED, ONE, 1),
    ((1, 64, 6, 8), (64, 64, 4, 4), (2, 2), PADDED, ONE, 1),
    ((1, 64, 20), (64, 64, 3), (2,), ((1, 1),), (1,), 1),
    ((1, 64, 6, 8), (64, 64, 2, 3), (1, 2), ((1, 0), (1, 1)), (2, 1), 1),
    ((1, 64, 6, 8), (64, 64, 3, 2), (2, 2), ((0, 1), (0, 2)), ONE, 1),
    # An odd number of columns, of which the last has the first phase alone.
    ((2, 64, 7, 13), (64, 64, 3, 3), (2, 2), PADDED, ONE, 1),
    ((1, 64, 19), (64, 64, 3), (2,), ((0, 0),), (1,), 1),
    ((1, 72, 6, 9), (64, 72, 2, 2), (1, 2), ((0, 0), (1, 0)), ONE, 1),
]

# Images whose rows or columns are no multiples of the stride.
UNEVEN = [
    ((2, 64, 7, 13), (64, 64, 3, 3), (2, 2), PADDED, ONE, 1),
    ((1, 64, 19), (64, 64, 3), (2,), ((0, 0),), (1,), 1),
    ((1, 64, 8, 11), (72, 64, 2, 3), (3, 4), ((0, 0), (1, 2)), ONE, 1),
    ((1, 64, 9, 10), (64, 64, 1, 3), (2, 3), PADDED, (1, 2), 1),
]


@pytest.mark.parametrize("row", UNEVEN, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_images_are_filled_up_to_whole_strides(row, dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=2, max_units=384, max_cube=(384, 1, 1))
    request = request_of("conv", row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = lower_conv(replace(request, attributes=said))
    assert work.variant.startswith("boxes")
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv", row, dtype, precision="high")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_long_rows_are_cut_until_all_cores_have_a_tile(dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=6, max_units=384, max_cube=(384, 1, 1))
    row = ((1, 64, 197), (72, 64, 2), (1,), (NONE,), (1,), 1)
    request = request_of("conv", row, getattr(dtypes, dtype), info)
    work, *_ = lower_conv(replace(request, attributes={**request.attributes, "precision": "high"}))
    assert work.variant == "boxes 64x(1x1x66) by 256"
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv", row, dtype, precision="high")


@pytest.mark.parametrize("row", PHASED, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_phases_across_a_row_are_one_product(row, dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=2, max_units=384, max_cube=(384, 1, 1))
    op = "conv_input_gradient"
    request = request_of(op, row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    work, *_ = lower_conv_input_gradient(replace(request, attributes=said))
    assert work.variant.startswith("phases")
    # Rows of phases with as many taps are tiles of one launch, and others share the copies.
    (taps, *_), (stride, *_) = row[1][2:], row[2]
    rows = stride if len(row[2]) == 2 and taps % stride else 1
    made = [launch.build.function.name for launch in work.launches]
    assert made == ["channels_last"] * 2 + ["conv_tma"] * rows
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype, precision="high")


# Gradients of the images of a ResNet-50: images, channels, places, filters, taps and strides.
FIRST = {
    (32, 64, 56, 256, 1, 1): "product, turned transposed boxes",
    (32, 256, 14, 1024, 1, 1): "product, turned transposed boxes",
    (32, 1024, 14, 256, 1, 1): "product, turned transposed boxes",
    (1, 256, 14, 1024, 1, 1): "product, transposed boxes 64x64x32 by 256 in 16 in 4 parts",
    (32, 128, 56, 128, 3, 2): "phases 128x(1x7x28) by 384",
    (32, 256, 28, 256, 3, 2): "phases 128x(1x14x14) by 384",
    (32, 512, 14, 512, 3, 2): "phases 128x(2x7x7) by 384",
    (1, 512, 14, 512, 3, 2): "groups 64x64x32 by 128",
}


@pytest.mark.parametrize("sizes", FIRST, ids=str)
def test_first_choices_of_many_cores(sizes):
    info = replace(H200, cores=132, max_units=1024)
    request = request_of("conv_input_gradient", square(*sizes), float32, info)
    request = replace(request, attributes={**request.attributes, "precision": "high"})
    (work,) = lower_conv_input_gradient(request)
    assert work.variant == FIRST[sizes]
    for build, plan in planned(work):
        assert build.kernel(info.features).shared_bytes <= plan.shared_bytes <= info.shared_bytes


# Channels that do not fill the last line of a tap: of single and several lines, of no whole access,
# strides down, and input gradients of one and of two phases.
FILLED = [
    ("conv", ((2, 50, 7, 12), (72, 50, 3, 3), ONE, PADDED, ONE, 1)),
    ("conv", ((1, 117, 9, 6), (144, 117, 3, 2), (2, 1), PADDED, ONE, 1)),
    ("conv_input_gradient", ((2, 72, 6, 10), (100, 72, 3, 3), ONE, PADDED, ONE, 1)),
    ("conv_input_gradient", ((1, 64, 6, 12), (100, 64, 3, 3), (2, 2), PADDED, ONE, 1)),
]


@pytest.mark.parametrize(("op", "row"), FILLED, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_last_lines_are_filled_with_zeros(op, row, dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=2, max_units=384, max_cube=(384, 1, 1))
    request = request_of(op, row, getattr(dtypes, dtype), info)
    said = {**request.attributes, "precision": "high"}
    lower = lower_conv if op == "conv" else lower_conv_input_gradient
    work, *_ = lower(replace(request, attributes=said))
    assert "conv_tma" in [launch.build.function.name for launch in work.launches]
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, op, row, dtype, precision="high")


@pytest.mark.parametrize("row", [FILLED[0][1], FILLED[1][1]], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_dense_channels_are_padded_in_their_order(row, dtype, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    info = replace(H200, cores=2, max_units=384, max_cube=(384, 1, 1))
    request = request_of("conv", row, getattr(dtypes, dtype), info)
    n, channels, *places = request.inputs[0].shape
    steps = row_major([n, *places, channels])
    image = replace(request.inputs[0], strides=(steps[0], 1, *steps[1:3]))
    said = {**request.attributes, "precision": "high"}
    work, *_ = lower_conv(replace(request, inputs=(image, request.inputs[1]), attributes=said))
    assert work.launches[0].build.function.name == "pad_channels"
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    check(backend, "conv", row, dtype, reordered=True, precision="high")
