"""Are convolutions from windows in registers right, at the edges of images, filters and groups?"""

from dataclasses import replace

import pytest

from calor import dtypes
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import NONE, check
from .test_implicit_gemm_mma import LOWERINGS, ONE, request_of

INFO = replace(MANY_UNITS, max_units=128)
MODULE = "calor_kernel.library.conv.direct_filters_launch"
# The way's name, the op, and the shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ("direct filters", "conv", ((2, 1, 61), (20, 1, 10), (5,), (NONE,), (1,), 1)),
    ("direct filters", "conv", ((2, 2, 9, 8), (18, 2, 3, 2), (2, 2), (ONE, (0, 1)), ONE, 1)),
    ("direct filters", "conv", ((1, 17, 5, 4), (9, 17, 1, 1), ONE, (NONE, NONE), ONE, 1)),
    ("direct filters", "conv", ((1, 4, 6, 8), (22, 2, 2, 3), (1, 2), (ONE, (2, 1)), (2, 1), 2)),
    ("direct filters", "conv_input_gradient", ((1, 12, 9), (3, 12, 3), (1,), (ONE,), (2,), 1)),
    (
        "direct filters",
        "conv",
        ((1, 2, 4, 5, 6), (10, 2, 2, 2, 2), (1, 2, 1), (ONE,) * 3, (1, 1, 1), 1),
    ),
    (
        "direct filters of groups",
        "conv",
        ((1, 6, 4, 5, 3), (12, 3, 2, 2, 2), (1,) * 3, (ONE,) * 3, (1,) * 3, 2),
    ),
    ("direct filters of groups", "conv", ((1, 8, 7, 5), (36, 4, 3, 3), (2, 1), (ONE,) * 2, ONE, 2)),
    ("direct filters of groups", "conv", ((1, 6, 6, 5), (14, 3, 3, 2), ONE, (ONE,) * 2, ONE, 2)),
    (
        "direct filters of groups",
        "conv_input_gradient",
        ((1, 20, 23), (24, 10, 3), (1,), ((0, 2),), (1,), 2),
    ),
]


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("way", "op", "row"), ROWS, ids=str)
def test_shapes(backend, way, op, row, dtype, monkeypatch):
    monkeypatch.setattr(f"{MODULE}._RESULTS", 1)
    # Lanes take a second for many terms, so that few count as many.
    monkeypatch.setattr(f"{MODULE}._TERMS", 18 if way == "direct filters" else 9)
    work, *_ = LOWERINGS[op](request_of(op, row, getattr(dtypes, dtype), INFO))
    assert work.way.name == way
    check(backend, op, row, dtype, reordered=dtype == "bfloat16")


def label(row, cores=132):
    request = request_of("conv", row, dtypes.float32, replace(INFO, cores=cores))
    return LOWERINGS["conv"](request)[0].launches[0].label


def test_filters_are_shared_until_all_cores_have_cubes():
    """Each cube reads its windows anew, so few cubes have few filters, and many have many."""
    few, many = (
        int(label(((images, 1, 16000), (512, 1, 10), (5,), (NONE,), (1,), 1)).rpartition("x")[2])
        for images in (1, 64)
    )
    assert few < 64 < many


def test_filters_fit_shared_memory():
    row = ((64, 3, 128, 128), (256, 3, 4, 4), (2, 2), (ONE, ONE), ONE, 1)
    for nbytes in (2048, 16384, 65536):
        info = replace(INFO, cores=132, shared_bytes=nbytes)
        work, *_ = LOWERINGS["conv"](request_of("conv", row, dtypes.float32, info))
        assert work.way.name == "direct filters"
        (launch,) = work.launches
        assert launch.build.kernel(info.features).shared_bytes <= nbytes


@pytest.mark.parametrize(("terms", "windows"), [(9, 4), (17, 3), (27, 2), (48, 1)])
def test_windows_of_a_unit_fit_its_registers(terms, windows):
    row = ((4, terms, 64, 64), (9, terms, 1, 1), ONE, (NONE, NONE), ONE, 1)
    assert label(row).startswith(f"conv filters {windows}x")


@pytest.mark.parametrize(
    "row",
    [
        ((4, 49, 64, 64), (40, 49, 1, 1), ONE, (NONE, NONE), ONE, 1),
        ((4, 16, 64, 64), (8, 16, 1, 1), ONE, (NONE, NONE), ONE, 1),
        ((1, 16, 8, 8), (40, 16, 1, 1), ONE, (NONE, NONE), ONE, 1),
        ((4, 1, 40000), (40, 1, 10), (10,), (NONE,), (1,), 1),
    ],
    ids=["terms", "filters", "results", "pixels apart"],
)
def test_other_ways_have_what_does_not_suit(row):
    assert not label(row).startswith("conv filters")
