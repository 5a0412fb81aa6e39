"""Are convolutions and their gradients what the reference says, for every way of computing them?"""

from dataclasses import replace

import numpy as np
import pytest

from calor.dtypes import ALL, bfloat16, float32, float64
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Input, Request, Scratch, View
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from ..ops import run_op

NAMES = {t.name: t for t in ALL}
NONE = (0, 0)
# shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 3, 6, 7), (4, 3, 3, 2), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 2, 9), (3, 2, 3), (2,), ((1, 1),), (1,), 1),
    ((1, 1, 4, 3, 5), (2, 1, 2, 2, 2), (1, 2, 1), ((0, 1),) * 3, (1, 1, 1), 1),
    ((1, 2, 7, 6), (2, 2, 3, 2), (2, 3), ((1, 0), (0, 2)), (1, 1), 1),
    ((1, 2, 7, 6), (2, 2, 3, 2), (1, 1), (NONE, (1, 1)), (2, 3), 1),
    ((2, 4, 8), (6, 2, 3), (1,), ((1, 1),), (1,), 2),
    ((1, 3, 5), (6, 1, 3), (2,), ((1, 0),), (1,), 3),
    ((2, 4, 7), (4, 2, 3), (2,), ((2, 1),), (2,), 2),
    ((1, 1, 6, 6), (1, 1, 2, 3), (2, 1), ((-1, 2), (1, -2)), (1, 2), 1),
    ((2, 3, 2, 2), (4, 3, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 1, 2), (1, 1, 2), (1,), ((3, 3),), (1,), 1),
    ((1, 1, 0), (2, 1, 3), (1,), (NONE,), (1,), 1),
    ((0, 2, 4), (3, 2, 2), (1,), (NONE,), (1,), 1),
    ((1, 0, 4), (3, 0, 2), (1,), (NONE,), (1,), 1),
    ((1, 1, 8), (1, 1, 2), (3,), (NONE,), (1,), 1),
    ((2, 20, 9, 21), (26, 20, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 5, 20, 30), (9, 5, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 3, 24, 23), (10, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1),
    ((2, 6, 12, 40), (9, 2, 3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 3),
    ((1, 4, 3, 9, 10), (5, 4, 2, 3, 3), (1, 2, 2), ((1, 0), (1, 1), (0, 1)), (1, 1, 1), 1),
    ((2, 5, 11, 37), (10, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5),
    ((2, 5, 11, 37), (5, 1, 5, 3), (2, 2), ((2, 2), (1, 1)), (1, 1), 5),
    ((1, 3, 60), (3, 1, 4), (3,), ((1, 1),), (2,), 3),
    ((1, 2, 12, 12), (2, 2, 9, 9), (1, 1), ((4, 4), (4, 4)), (1, 1), 1),
    ((2, 3, 24, 24), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 8, 3, 3), (17, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((17, 32, 4, 4), (40, 16, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    ((7, 16, 5, 10), (17, 16, 2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1), 1),
    ((8, 4, 6, 6), (16, 4, 5, 4), (1, 1), ((2, 2), (1, 2)), (1, 1), 1),
    ((2, 21, 5, 7), (18, 21, 3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2), 1),
    ((4, 17, 9), (16, 17, 3), (2,), ((1, 1),), (1,), 1),
    # Taps that see only a part of the rows, or none; more rows than a vector of pixels has.
    ((2, 3, 11, 9), (4, 3, 3, 3), (1, 1), ((7, 7), (6, 6)), (7, 6), 1),
    ((1, 2, 4, 40), (3, 2, 3, 3), (1, 1), ((6, 6), (1, 1)), (6, 1), 1),
    ((1, 4, 20, 5), (9, 4, 5, 1), (1, 1), ((9, 3), NONE), (3, 1), 1),
    ((1, 2, 21, 6), (5, 2, 3, 2), (2, 1), ((8, 8), (1, 0)), (8, 1), 1),
    ((1, 1, 12, 12), (8, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    # One window, which is the whole image; windows apart, whose rows are copied.
    ((3, 5, 2, 3), (4, 5, 2, 3), (2, 1), (NONE, NONE), (1, 1), 1),
    ((2, 3, 5, 17), (5, 3, 2, 8), (2, 8), (NONE, NONE), (1, 1), 1),
]
# Few places: windows that lie in rows as they are, that are copied, with padding, alone.
FEW = [
    ((1, 1, 88), (18, 1, 64), (8,), (NONE,), (1,), 1),
    ((2, 20, 3), (18, 20, 4), (1,), ((2, 2),), (1,), 1),
    ((2, 9, 3, 3), (16, 9, 3, 3), (1, 1), ((1, 0), (0, 1)), (1, 1), 1),
    ((1, 64, 1), (20, 64, 3), (1,), ((1, 1),), (1,), 1),
    ((3, 70, 1, 1), (16, 70, 1, 1), (1, 1), (NONE, NONE), (1, 1), 1),
    ((1, 8, 3, 4, 4), (16, 8, 2, 2, 3), (1, 2, 1), ((0, 0), (1, 1), (0, 0)), (1, 2, 1), 1),
]
TYPES = ["float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "uint16",
         "complex64", "complex128"]  # fmt: skip
DIGITS = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}
OPS = ["conv", "conv_input_gradient", "conv_weight_gradient"]


@pytest.fixture(scope="module", params=["one unit", "many units"])
def backend(request):
    info = {"one unit": ONE_UNIT, "many units": MANY_UNITS}[request.param]
    return KernelBackend("lanes", lambda index: LanesDevice(info))


def draw(rng, shape, dtype):
    if dtype.kind == "complex":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype.numpy)
    if dtype.kind == "float":
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(-50 if dtype.kind == "int" else 0, 50, shape).astype(dtype.numpy)


def output_shape(x, w, stride, padding, dilation):
    reach = [d * (k - 1) + 1 for k, d in zip(w[2:], dilation, strict=True)]
    padded = [n + low + high for n, (low, high) in zip(x[2:], padding, strict=True)]
    counts = zip(padded, reach, stride, strict=True)
    return (x[0], w[0], *((n - r) // s + 1 if n >= r else 0 for n, r, s in counts))


def check(backend, op, row, dtype, reordered=False, **more):
    x, w, stride, padding, dilation, groups = row
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    attributes.update(more)
    shapes = [x, w, output_shape(x, w, stride, padding, dilation)]
    extra = {"conv_input_gradient": {"input_shape": x}, "conv_weight_gradient": {"weight_shape": w}}
    del shapes[{"conv": 2, "conv_input_gradient": 0, "conv_weight_gradient": 1}[op]]
    if op == "conv_input_gradient":
        shapes.reverse()
    kind = NAMES[dtype]
    rng = np.random.default_rng(3)
    arrays = [draw(rng, shape, kind) for shape in shapes]
    axes = [None, None]
    if reordered:
        order = (0, *range(2, len(x)), 1)
        arrays = [np.ascontiguousarray(a.transpose(order)) for a in arrays]
        axes = [tuple(np.argsort(order).tolist())] * 2
    (found,), (wanted,) = run_op(backend, op, arrays, {**attributes, **extra.get(op, {})}, axes)
    assert found.dtype == wanted.dtype
    if kind.is_inexact:
        wide = np.complex128 if kind.is_complex else np.float64
        near = np.abs(found.astype(wide) - wanted.astype(wide))
        most = np.abs(wanted.astype(wide)).max(initial=1)
        assert near.max(initial=0) <= DIGITS.get(dtype, 1e-12) * most
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(backend, op, row):
    check(backend, op, row, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("row", FEW, ids=str)
def test_few_places(backend, row, reordered, dtype):
    check(backend, "conv", row, dtype, reordered)


# Images of one pixel in a row, with padding beside it: dense, grouped and depthwise.
SINGLE = [
    ((3, 44, 1), (96, 22, 1), (1,), ((1, 1),), (1,), 2),
    ((3, 4, 1), (4, 1, 3), (1,), ((1, 1),), (1,), 4),
    ((2, 4, 5, 1), (6, 4, 3, 1), (1, 1), ((1, 1), (2, 1)), (1, 1), 1),
    ((2, 5, 1, 1), (10, 1, 1, 1), (1, 2), ((1, 1), (2, 1)), (1, 1), 5),
]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", SINGLE, ids=str)
def test_single_pixels_with_channels_last(backend, op, row):
    check(backend, op, row, "float32", True)


def test_few_places_are_dot_products():
    load_families()
    for x, w, stride, padding, dilation, groups in FEW:
        shape = output_shape(x, w, stride, padding, dilation)
        attributes = {
            "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        }  # fmt: skip
        views = tuple(View.dense(spec(s, float32)) for s in (x, w))
        request = Request("conv", attributes, views, (spec(shape, float32),), ONE_UNIT)
        work = LOWERINGS["conv"](request)[0]
        assert work.variant == "gemv"
        assert work.launches[-1].label.startswith("matmul dots")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", TYPES)
def test_types(backend, op, dtype):
    check(backend, op, ROWS[7], dtype)


@pytest.mark.parametrize("op", OPS)
def test_orders_of_axes(backend, op):
    check(backend, op, ROWS[0], "float32", reordered=True)
    check(backend, op, ROWS[5], "complex64", reordered=True)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", [r for r in ROWS if r[1][1] == 1 and 0 not in r[0]], ids=str)
def test_orders_of_axes_of_single_channels(backend, op, row):
    check(backend, op, row, "float32", reordered=True)


def run_work(info, work, arrays, result):
    """Run one candidate of a lowering on lanes."""
    device = LanesDevice(info)
    pieces = [np.ascontiguousarray(a) for a in arrays]
    handles = [device.memory.alloc(max(a.nbytes, 1)) for a in [*pieces, result]]
    handles += [device.memory.alloc(max(n, 1)) for n in work.scratch]
    for handle, array in zip(handles, pieces, strict=False):
        device.memory.copy_in(handle, 0, array)

    def given(argument, parameter):
        if isinstance(argument, int | float):
            return argument
        first = {Input: 0, Scratch: len(pieces) + 1}.get(type(argument), len(pieces))
        return Slot(first + argument.number, argument.offset * parameter.dtype.itemsize)

    steps = []
    for launch in work.launches:
        kernel = launch.build.kernel(info.features)
        image = device.toolchain.compile(device.toolchain.source(kernel), kernel.name)
        arguments = map(given, launch.arguments, launch.build.signature)
        function = device.queue.load(image, kernel)
        steps.append(Step(function, launch.cubes, tuple(arguments)))
    device.queue.run(device.queue.record(steps, len(handles)), handles)
    device.queue.synchronize()
    device.memory.copy_out(handles[len(pieces)], 0, result)
    return result


ACROSS = [
    ((2, 3, 5, 14), (33, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    ((1, 6, 9, 9), (64, 3, 1, 1), (2, 2), (NONE, NONE), (1, 1), 2),
    ((1, 2, 11, 12), (40, 2, 3, 3), (2, 1), ((2, 0), (0, 2)), (1, 2), 1),
]


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("row", ACROSS, ids=str)
def test_vectors_of_channels_compute_the_same(row, dtype):
    load_families()
    # With 32 registers, tiles of float64 are limited by the square that transposes them.
    info = replace(ONE_UNIT, native={**ONE_UNIT.native, "vector_registers": 32})
    x, w, stride, padding, dilation, groups = row
    rng = np.random.default_rng(5)
    arrays = [draw(rng, shape, dtype) for shape in (x, w)]
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape = output_shape(x, w, stride, padding, dilation)
    views = tuple(View.dense(spec(a.shape, dtype)) for a in arrays)
    request = Request("conv", attributes, views, (spec(shape, dtype),), info)
    kept = replace(request, kept=frozenset((1,)))
    works = [LOWERINGS["conv"](r) for r in (request, kept)]
    labels = [work.launches[-1].label.rpartition(" ")[0] for work in works[0]]
    assert labels == ["conv rows", "conv channel vectors"]
    assert works[1] == works[0][::-1]
    assert [launch.prepares for launch in works[0][1].launches[-2:]] == [True, False]
    found = [run_work(info, work, arrays, np.empty(shape, dtype.numpy)) for work in works[0]]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("outputs", "taps", "registers", "first"),
    [
        (48, 3, 32, "channel vectors"),
        (44, 3, 32, "rows"),
        (48, 1, 32, "rows"),
        (48, 3, 16, "rows"),
    ],
)
def test_channels_that_fill_vectors_read_an_element_once(outputs, taps, registers, first):
    load_families()
    info = replace(ONE_UNIT, native={**ONE_UNIT.native, "vector_registers": registers})
    x, w, pad = (1, 8, 20, 20), (outputs, 8, taps, taps), (taps // 2, taps // 2)
    known = {"stride": (1, 1), "padding": (pad, pad), "dilation": (1, 1), "groups": 1}
    views = tuple(View.dense(spec(one, float32)) for one in (x, w))
    result = spec(output_shape(x, w, (1, 1), (pad, pad), (1, 1)), float32)
    works = LOWERINGS["conv"](Request("conv", known, views, (result,), info))
    assert works[0].variant == first


NARROW = ((8, 40, 6, 6), (48, 40, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)

WIDE = ((2, 20, 9, 40), (26, 20, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
LARGE = ((2, 5, 11, 37), (10, 1, 7, 9), (1, 1), ((3, 3), (4, 4)), (1, 1), 5)
THIN = ((2, 2, 9, 40), (26, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
DEPTHWISE = ((2, 5, 11, 37), (10, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5)


WINDOW = {
    "single window": "it has several windows, or one that is not the whole image",
}
FILTERS = {"window products": "it has fewer than 192 filters, whose taps are adjacent"}
APART = {"window products": "it has fewer than 16 channels on a side"}
NARROWER = {"weight panels": "tiles of narrow images read them in place"}
GROUPED = {"weight panels": "a group has fewer than 8 output channels, or weights of a channel"}
SEEN = {"weight panels": "rows in place suit fewer than 48 weights of a channel"}
PLANES = {"small width": "its images are no planes, or their rows are longer than a vector"}


@pytest.mark.parametrize(
    ("row", "way", "dropped"),
    [
        (NARROW, "small width", WINDOW | NARROWER),
        (DEPTHWISE, "depthwise", GROUPED | PLANES | {"single window": "it has groups"}),
        (LARGE, "depthwise", GROUPED | PLANES | APART | {"single window": "it has groups"}),
        (WIDE, "weight panels", WINDOW | PLANES),
        (
            THIN,
            "weight rows",
            {**WINDOW, **SEEN, **PLANES, "depthwise": "a group has several input channels"},
        ),
    ],
)
def test_ways_of_weight_gradients(row, way, dropped):
    load_families()
    x, w, stride, padding, dilation, groups = row
    known = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shapes = (x, output_shape(x, w, stride, padding, dilation))
    views = tuple(View.dense(spec(one, float32)) for one in shapes)
    request = Request("conv_weight_gradient", known, views, (spec(w, float32),), ONE_UNIT)
    works = LOWERINGS["conv_weight_gradient"](replace(request, candidates=True))
    assert [work.variant for work in works] == [way]
    assert {one.variant: one.reason for one in works.dropped} == FILTERS | dropped


def test_depthwise_weight_gradients_copy_rows_that_are_not_contiguous(backend):
    load_families()
    x, w, stride, padding, dilation, groups = LARGE
    known = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    n, c, high, wide = x
    last = View(x, (c * high * wide, 1, wide * c, c), float32)
    grown = (n, 2 * c, high, wide)
    other = View(grown, (2 * c * high * wide, 1, 2 * wide * c, 2 * c), float32)
    for views in ((last, other), (View.dense(spec(x, float32)), other)):
        request = Request("conv_weight_gradient", known, views, (spec(w, float32),), ONE_UNIT)
        assert LOWERINGS["conv_weight_gradient"](request)[0].variant == "depthwise"
    check(backend, "conv_weight_gradient", LARGE, "float32", reordered=True)


@pytest.mark.parametrize("op", OPS[1:])
@pytest.mark.parametrize("window", [(1, 1), (4, 4)])
def test_gradients_of_whole_windows_are_products(op, window):
    load_families()
    x, w = (4, 24, *window), (40, 24, *window)
    known = {"stride": (1, 1), "padding": (NONE, NONE), "dilation": (1, 1), "groups": 1}
    inputs, made = (((4, 40, 1, 1), w), x) if op == OPS[1] else ((x, (4, 40, 1, 1)), w)
    views = tuple(View.dense(spec(one, float32)) for one in inputs)
    first, *_ = LOWERINGS[op](Request(op, known, views, (spec(made, float32),), ONE_UNIT))
    assert first.variant == "single window"


@pytest.mark.parametrize(
    ("dtype", "size", "taps", "stride", "narrow"),
    [
        (float32, 7, 13, 1, True),
        (float32, 7, 5, 1, False),
        (float32, 14, 13, 1, False),
        (bfloat16, 7, 5, 1, True),
        (bfloat16, 14, 5, 2, False),
    ],
)
def test_vectors_run_along_channels_of_narrow_images(dtype, size, taps, stride, narrow):
    load_families()
    info = replace(ONE_UNIT, vector_bytes=64, native={"vector_registers": 32})
    half = taps // 2
    x, w = (8, 64, size, size), (64, 1, taps, taps)
    known = {"stride": (stride,) * 2, "padding": ((half, half),) * 2, "dilation": (1, 1)}
    views = tuple(View.dense(spec(one, dtype)) for one in (x, w))
    made = spec((8, 64, -(-size // stride), -(-size // stride)), dtype)
    first, *_ = LOWERINGS["conv"](Request("conv", {**known, "groups": 64}, views, (made,), info))
    assert (first.variant == "depthwise along channels") == narrow


def test_windows_apart_of_long_rows_are_copied_once():
    load_families()
    known = {"stride": (8, 8), "padding": (NONE, NONE), "dilation": (1, 1), "groups": 1}
    for wide in (8, 6):
        x, w = (4, 32, 56, 7 * wide), (48, 32, 8, wide)
        given = {**known, "stride": (8, wide)}
        views = tuple(View.dense(spec(one, float32)) for one in (x, w))
        made = (spec((4, 48, 7, 7), float32),)
        first, *_ = LOWERINGS["conv"](Request("conv", given, views, made, ONE_UNIT))
        assert (first.variant == "patches") == (wide == 8)


# Blocks of rows and rows left over, whole vectors and ends of rows, strides, dilation, big windows.
DEPTHS = [
    ((2, 3, 9, 40), (3, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3),
    ((1, 2, 11, 23), (4, 1, 3, 3), (2, 2), ((1, 1), (0, 1)), (1, 1), 2),
    ((1, 2, 6, 19), (2, 1, 2, 3), (1, 2), ((0, 1), (2, 2)), (2, 2), 2),
    ((1, 2, 7, 17), (2, 1, 5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 2),
    ((1, 2, 5, 5), (2, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    ((1, 2, 9, 50), (2, 1, 3, 3), (3, 3), ((1, 1), (1, 1)), (1, 1), 2),
    # Narrow images of many channels, whose vectors run along channels.
    ((2, 9, 4, 3), (9, 1, 9, 11), (1, 1), ((4, 4), (5, 5)), (1, 1), 9),
    ((1, 17, 9, 4), (17, 1, 13, 13), (2, 1), ((6, 5), (6, 6)), (1, 1), 17),
    # Weight gradients of windows in tiles, of which the last one overlaps the one before.
    ((2, 2, 11, 19), (4, 1, 7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1), 2),
    ((1, 2, 13, 21), (2, 1, 6, 7), (2, 2), ((3, 2), (4, 3)), (1, 2), 2),
    ((2, 2, 1, 70), (2, 1, 1, 29), (1, 1), ((0, 0), (14, 14)), (1, 1), 2),
    ((1, 1, 30, 5), (1, 1, 27, 1), (1, 1), ((13, 13), (0, 0)), (1, 1), 1),
]


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", DEPTHS, ids=str)
def test_depthwise(op, row, registers):
    info = replace(ONE_UNIT, vector_bytes=2 * registers, native={"vector_registers": registers})
    if registers == 16:
        info = replace(info, features=info.features - {"masked_access"})
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, row, "float32")


# They are near enough to be timed beside each other.
NARROW_WAYS = ["small width", "rows", "channel vectors"]


@pytest.mark.parametrize(
    ("op", "row", "usual", "named"),
    [
        ("conv", NARROW, NARROW_WAYS, NARROW_WAYS),
        ("conv", ACROSS[0], ["rows", "channel vectors"], ["rows", "channel vectors"]),
        ("conv_input_gradient", NARROW, ["small width"], ["small width", "phases"]),
    ],
)
def test_candidates_compute_the_same(op, row, usual, named):
    load_families()
    x, w, stride, padding, dilation, groups = row
    rng = np.random.default_rng(5)
    known = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape = output_shape(x, w, stride, padding, dilation)
    shapes = (x, w)
    if op == "conv_input_gradient":
        known["input_shape"] = x
        shapes, shape = (shape, w), x
    arrays = [draw(rng, one, float32) for one in shapes]
    views = tuple(View.dense(spec(a.shape, float32)) for a in arrays)
    request = Request(op, known, views, (spec(shape, float32),), ONE_UNIT)
    assert [work.variant for work in LOWERINGS[op](request)] == usual
    works = LOWERINGS[op](replace(request, candidates=True))
    assert [work.variant for work in works] == named
    found = [run_work(ONE_UNIT, work, arrays, np.empty(shape, np.float32)) for work in works]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-3, atol=1e-3)
