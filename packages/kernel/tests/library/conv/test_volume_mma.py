"""Are convolutions of volumes right that read planes in place, and are those that gain?"""

from dataclasses import replace

import pytest

import calor
from calor import dtypes
from calor.dtypes import bfloat16
from calor_interpreter.device import LanesDevice
from calor_kernel.runtime.backend import KernelBackend
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, near, operands, same_bits
from .test_conv import DIGITS, NONE, check
from .test_implicit_gemm_mma import H200, INFO, LOWERINGS, request_of

ONE, PADDED, WAY = (1, 1, 1), ((1, 1),) * 3, "volumes in place"
# shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 16, 4, 5, 6), (24, 16, 3, 3, 3), ONE, PADDED, ONE, 1),
    ((2, 16, 5, 5, 4), (16, 16, 3, 2, 2), ONE, ((1, 0), NONE, (0, 1)), ONE, 1),
    ((1, 24, 6, 4, 4), (32, 24, 2, 2, 2), ONE, ((2, 1), NONE, NONE), (3, 1, 2), 1),
    ((1, 40, 3, 3, 4), (16, 40, 2, 1, 2), ONE, (NONE,) * 3, ONE, 1),
    ((3, 16, 2, 4, 4), (40, 16, 4, 3, 3), ONE, ((2, 2), (1, 1), (1, 1)), ONE, 1),
]
STRIDED = [
    ((2, 16, 7, 6, 5), (18, 16, 3, 3, 2), (2, 1, 1), ((2, 0), (1, 1), (0, 1)), ONE, 1),
    ((1, 16, 7, 7, 6), (18, 16, 2, 3, 3), (3, 2, 2), PADDED, ONE, 1),
]
INFOS = {"planes": INFO, "warp groups": replace(H200, cores=8), "one core": replace(H200, cores=1)}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Volumes are read in place however few operations there are."""
    monkeypatch.setattr("calor_kernel.library.conv.volume_planes._FLOPS", 1)


def asked(op, row, dtype, info, **more):
    request = request_of(op, row, getattr(dtypes, dtype), info)
    return replace(request, attributes={**request.attributes, **more})


CASES = [(op, row) for row in ROWS for op in ("conv", "conv_input_gradient")]
CASES += [("conv", row) for row in STRIDED]
KINDS = [(dtype, info) for info in INFOS for dtype in ("bfloat16", "float32")]


@pytest.mark.parametrize(
    ("op", "row", "dtype", "info"),
    [(*CASES[0], *kind) for kind in KINDS[1:]]
    + [(*case, *KINDS[k % len(KINDS)]) for k, case in enumerate(CASES)],
    ids=str,
)
def test_volumes(op, row, dtype, info, monkeypatch):
    monkeypatch.setitem(DIGITS, "float32", 2e-3)
    more = {"precision": "high"} if dtype == "float32" else {}
    work, *_ = LOWERINGS[op](asked(op, row, dtype, INFOS[info], **more))
    assert work.way.name == WAY
    backend = KernelBackend("lanes", lambda index: LanesDevice(INFOS[info]))
    check(backend, op, row, dtype, reordered=dtype == "float32", **more)


def test_volumes_with_channels_last_are_not_copied():
    row = ROWS[0]
    request = asked("conv", row, "bfloat16", INFO)
    x, w = request.inputs
    _, channels, *sizes = x.shape
    strides = (channels * sizes[0] * sizes[1] * sizes[2], 1)
    strides += (channels * sizes[1] * sizes[2], channels * sizes[2], channels)
    last = replace(request, inputs=(replace(x, strides=strides), w))
    copies = [
        [one.prepares for one in LOWERINGS["conv"](each)[0].launches] for each in (request, last)
    ]
    assert copies == [[False, True, True, False], [True, True, False]]


@pytest.mark.parametrize(
    ("filters", "channels", "kernel", "in_place"),
    [(32, 32, 3, True), (64, 32, 3, False), (32, 20, 3, False), (8, 8, 1, False)],
)
def test_few_filters_read_volumes_in_place(filters, channels, kernel, in_place):
    row = (2, channels, 16, 16, 16), (filters, channels, *(kernel,) * 3), ONE, (NONE,) * 3, ONE, 1
    (work, *_) = LOWERINGS["conv"](asked("conv", row, "bfloat16", H200))
    assert (work.way.name == WAY) == in_place
    (work, *_) = LOWERINGS["conv_weight_gradient"](
        asked("conv_weight_gradient", row, "bfloat16", H200)
    )
    assert work.way.name != WAY


@pytest.mark.parametrize("cores", [1, 8])
def test_epilogue(cores):
    """What follows is done by the product, or by what adds its parts, with the same bits."""
    shapes = [(2, 32, 3, 5, 6), (24, 32, 3, 3, 3), (24, 1, 1, 1), (2, 24, 3, 5, 6)]

    def function(x, w, b, r):
        return calor.relu(functional.conv3d(x, w, padding=1) + b) * r

    graph, arrays = graph_of(function, bfloat16, shapes), operands(shapes, bfloat16)
    found = same_bits(graph, arrays, replace(INFO, cores=cores), "")
    near(found, function, arrays, bfloat16, "highest")
