"""Are results with channels last right, and are only those stored so that all readers read well?"""

import pytest

import calor
from calor.dtypes import float32, float64
from calor_interpreter.device import MANY_UNITS, ONE_UNIT
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.matmul import ProductFuser
from calor_kernel.library.reduce import RowFuser
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, near, operands, run

FUSERS = (ProductFuser(), ElementwiseFuser())
PIXELS, VECTORS = "conv depthwise pixels", "conv channel vectors"


def conv(x, w, **options):
    return functional.conv2d(x, w, **options)


def each(x, w, **options):
    return functional.conv2d(x, w, groups=x.shape[1], **options)


def block(activation=calor.relu, **options):
    """Return a depthwise convolution between two of one tap, with an activation before each."""
    return lambda x, a, b, c: conv(activation(each(activation(conv(x, a)), b, **options)), c)


def gated(x, a, b, c, gate):
    wide = functional.silu(each(conv(x, a), b, padding=1))
    weights = functional.sigmoid(conv(calor.mean(wide, axis=(2, 3), keepdims=True), gate))
    return conv(wide * weights, c)


def weighted(x, a, b, c, gate):
    wide = each(conv(x, a), b, padding=1)
    return conv(wide * conv(calor.mean(wide, axis=(2, 3), keepdims=True), gate), c)


def shared(x):
    """Return each pixel's share of its row."""
    return x / (1.0 + calor.sum(abs(x), axis=-1, keepdims=True))


def residual(x, a, b, c, shift):
    narrow = conv(each(calor.relu(conv(x, a) + shift), b, padding=1), c)
    more = conv(each(calor.relu(conv(narrow, a) * shift + shift), b, padding=1), c)
    return conv(more + narrow, a)


def shapes(images, channels, wide, pixels, window, filters=40):
    return [
        (images, channels, *pixels),
        (wide, channels, 1, 1),
        (wide, 1, *window),
        (filters, wide, 1, 1),
    ]


# A function, the shapes of its operands, and the labels of its convolutions.
CHAINS = {
    "one pixel row": (block(padding=1), shapes(2, 5, 32, (1, 3), (3, 3)), (VECTORS, PIXELS)),
    "small images": (block(padding=2), shapes(2, 5, 40, (3, 3), (5, 5)), (VECTORS, PIXELS)),
    "few channels more": (block(padding=1), shapes(1, 3, 19, (6, 5), (3, 3)), (VECTORS, PIXELS)),
    "wide rows": (block(padding=1), shapes(1, 5, 16, (4, 37), (3, 3)), (VECTORS, PIXELS)),
    "stride": (
        block(functional.silu, stride=2, padding=1),
        shapes(1, 5, 32, (9, 12), (3, 3)),
        (VECTORS, PIXELS),
    ),
    "dilation": (
        block(calor.gelu, padding=(0, 2), dilation=(1, 2)),
        shapes(1, 5, 24, (5, 11), (2, 3)),
        (VECTORS, PIXELS),
    ),
    "gate": (gated, [*shapes(2, 5, 40, (3, 4), (3, 3)), (40, 40, 1, 1)], (VECTORS, PIXELS)),
    "residual": (
        residual,
        [*shapes(2, 24, 40, (5, 4), (3, 3), 24), (40, 1, 1)],
        (VECTORS, PIXELS, VECTORS, VECTORS, PIXELS),
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_chains(chain):
    function, sizes, labels = CHAINS[chain]
    graph, arrays = graph_of(function, float32, sizes), operands(sizes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, FUSERS)
    near(found, function, arrays, float32, "highest")
    wanted = [la.label for la in launches if la.label.startswith((PIXELS, VECTORS))]
    assert [label[: len(PIXELS)].rstrip("0123456789x ") for label in wanted][: len(labels)] == [
        label[: len(PIXELS)] for label in labels
    ]


SMALL = shapes(1, 5, 32, (4, 4), (3, 3))
# A function that has a value with channels first, a device, and why.
FIRST = {
    "a result": (lambda x, a, b, c: each(conv(x, a), b, padding=1), ONE_UNIT, float32),
    "a sum over channels": (
        lambda x, a, b, c: calor.sum(each(conv(x, a), b, padding=1), axis=1),
        ONE_UNIT,
        float32,
    ),
    "windows of several taps": (
        lambda x, a, b, c: conv(each(conv(x, a), b), calor.tile(c, (1, 1, 2, 2))),
        ONE_UNIT,
        float32,
    ),
    "many units": (block(padding=1), MANY_UNITS, float32),
    "another dtype": (block(padding=1), ONE_UNIT, float64),
}


@pytest.mark.parametrize("case", FIRST)
def test_channels_first(case):
    function, info, dtype = FIRST[case]
    graph, arrays = graph_of(function, dtype, SMALL), operands(SMALL, dtype)
    found, launches = run(graph, arrays, info, FUSERS)
    near(found, function, arrays, dtype, "highest")
    assert not any(launch.label.startswith(PIXELS) for launch in launches)


# Functions whose reductions are row programs, and whether these read channels last.
PROGRAMS = {
    "a mean of pixels": (weighted, True),
    "pixels as a distribution": (
        lambda x, a, b, c, gate: conv(shared(each(conv(x, a), b, padding=1)), c),
        False,
    ),
    "an operand with channels first": (
        lambda x, a, b, c, gate: calor.mean(
            each(conv(x, a), b, padding=1) * calor.tile(x, (1, 8, 1, 1)), axis=(2, 3)
        ),
        False,
    ),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_row_programs(case):
    function, last = PROGRAMS[case]
    sizes = [*shapes(2, 5, 40, (3, 4), (3, 3)), (40, 40, 1, 1)]
    graph, arrays = graph_of(function, float32, sizes), operands(sizes, float32)
    found, launches = run(graph, arrays, ONE_UNIT, (*FUSERS, RowFuser()))
    near(found, function, arrays, float32, "highest")
    labels = [launch.label for launch in launches]
    assert "rows.program" in labels
    assert any(label.startswith(PIXELS) for label in labels) == last
