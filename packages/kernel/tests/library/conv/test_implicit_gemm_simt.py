"""Is SIMT implicit GEMM right at edges, and the first choice of GPUs?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float16, float32
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.conv import (
    disjoint_windows,
    implicit_gemm_simt_launch,
    lowering,
    unit_ways,
)
from calor_kernel.library.gemm.simt_plan import SimtPlan
from calor_kernel.runtime.backend import KernelBackend

from .test_conv import NONE, OPS, check
from .test_implicit_gemm_mma import H200, LOWERINGS, ONE, PADDED, names, request_of, square

AHEAD = replace(MANY_UNITS, planes=(32,))
LOADED = replace(AHEAD, features=AHEAD.features - {"async_copy", "matrix"})
# Copies are asynchronous, and half types have no matrix instructions.
COPIED = replace(AHEAD, features=AHEAD.features - {"matrix", "load_matrix"})
RATES = implicit_gemm_simt_launch.RATES
HALF = implicit_gemm_simt_launch.HALF
FEW = lowering._FEW
KERNELS = {"conv_simt", "conv_weight_simt"}
# shapes of x and w, stride, padding, dilation, groups.
ROWS = [
    ((2, 16, 6, 7), (28, 16, 3, 3), ONE, PADDED, ONE, 1),
    ((1, 3, 21, 20), (32, 3, 7, 7), (2, 2), ((3, 3), (3, 3)), ONE, 1),
    ((2, 26, 9, 8), (24, 26, 3, 3), (2, 2), PADDED, ONE, 1),
    ((3, 24, 7, 7), (40, 24, 1, 1), (2, 2), (NONE, NONE), ONE, 1),
    ((2, 32, 7, 7), (64, 32, 1, 1), ONE, (NONE, NONE), ONE, 1),
    ((1, 40, 10, 10), (70, 40, 3, 2), (1, 2), ((2, 1), (0, 1)), (2, 1), 1),
    ((1, 24, 60), (24, 24, 3), (2,), ((1, 1),), (1,), 1),
    ((1, 48, 5, 5), (66, 48, 3, 3), ONE, PADDED, ONE, 1),
    ((2, 25, 8, 10), (40, 25, 3, 3), (3, 3), PADDED, ONE, 1),
    ((1, 24, 9, 16), (32, 24, 2, 1), (1, 3), (NONE, (-1, 1)), ONE, 1),
    ((2, 72, 6, 6), (84, 24, 1, 1), ONE, (NONE, NONE), ONE, 3),
    ((2, 56, 9, 10), (48, 28, 3, 3), (2, 2), PADDED, ONE, 2),
    ((1, 48, 30), (58, 24, 3), (1,), ((1, 1),), (1,), 2),
]


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """Leave out the way that large windows without stride take before this one."""
    ways = [way for way in unit_ways.WAYS if way.name != "Winograd"]
    monkeypatch.setattr(unit_ways, "WAYS", ways)
    # Tiles of other rows are those of a test.
    monkeypatch.setattr(implicit_gemm_simt_launch, "HALF", {key: {} for key in HALF})


@pytest.fixture(params=["loaded", "ahead"])
def small(request, monkeypatch):
    """A device, and tiles of which there are several, with several steps and parts."""
    ahead = request.param == "ahead"
    only = {(4, 8, 1, 1, 8, 3 if ahead else 2): 1.0}
    monkeypatch.setattr(implicit_gemm_simt_launch, "RATES", dict.fromkeys(RATES, only))
    return AHEAD if ahead else LOADED


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_shapes(small, op, row, monkeypatch):
    # Many stride phases would be folded.
    monkeypatch.setattr(disjoint_windows, "_WINDOWS", 0)
    few = op == "conv_input_gradient" and row[0][1] < 5
    found = names(LOWERINGS[op](request_of(op, row, float32, small)))
    assert bool(found & KERNELS) != few
    check(KernelBackend("lanes", lambda index: LanesDevice(small)), op, row, "float32")


# Fewer rows than tiles of many rows have, on both sides.
NARROW = [
    ((2, 16, 40), (12, 16, 9), (1,), ((4, 4),), (1,), 1),
    ((1, 17, 9, 7), (11, 17, 4, 3), ONE, (ONE, ONE), ONE, 1),
]


@pytest.mark.parametrize("info", [AHEAD, LOADED], ids=["ahead", "loaded"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", NARROW, ids=str)
def test_few_rows_have_tiles_of_few_rows(op, row, info):
    work, *_ = LOWERINGS[op](request_of(op, row, float32, info))
    plans = [dict(launch.build.keywords).get("plan") for launch in work.launches]
    assert any(isinstance(plan, SimtPlan) and plan.rows == 16 for plan in plans)
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), op, row, "float32")


@pytest.mark.parametrize("info", [AHEAD, LOADED], ids=["ahead", "loaded"])
@pytest.mark.parametrize("row", [ROWS[1], ROWS[2]], ids=str)
def test_half_of_the_usual_rows_have_tiles_of_their_own(monkeypatch, row, info):
    monkeypatch.setattr(implicit_gemm_simt_launch, "HALF", HALF)
    monkeypatch.setattr(implicit_gemm_simt_launch, "RATES", {key: {} for key in RATES})
    check(KernelBackend("lanes", lambda index: LanesDevice(info)), "conv", row, "float32")


@pytest.mark.parametrize(("filters", "rows"), [(32, 32), (40, 64), (64, 64)])
def test_rows_of_tiles_follow_those_of_filters(monkeypatch, filters, rows):
    monkeypatch.setattr(implicit_gemm_simt_launch, "HALF", HALF)
    row = square(8, 32, 112, filters, 3, 2)
    work, *_ = LOWERINGS["conv"](request_of("conv", row, float32, LARGE))
    plans = [dict(launch.build.keywords).get("plan") for launch in work.launches]
    assert [plan.rows for plan in plans if isinstance(plan, SimtPlan)] == [rows]


@pytest.mark.parametrize("op", OPS)
def test_one_plan_for_several_sizes(small, op):
    """What is chosen for sizes that are not known yet is chosen among numbers."""
    backend = KernelBackend("lanes", lambda index: LanesDevice(small))
    for images, channels, size, filters in ((2, 24, 7, 32), (1, 40, 9, 24), (3, 32, 6, 40)):
        row = ((images, channels, size, size), (filters, channels, 3, 3), ONE, PADDED, ONE, 1)
        check(backend, op, row, "float32")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("row", [ROWS[3], ROWS[5]], ids=str)
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_half_types_where_nothing_is_copied_ahead(monkeypatch, op, row, dtype):
    only = {(4, 8, 1, 1, 8, 2): 1.0}
    monkeypatch.setattr(implicit_gemm_simt_launch, "RATES", dict.fromkeys(RATES, only))
    for info in (LOADED, COPIED):
        assert names(LOWERINGS[op](request_of(op, row, dtype, info))) & KERNELS
        check(
            KernelBackend("lanes", lambda index, info=info: LanesDevice(info)), op, row, dtype.name
        )
    assert not names(LOWERINGS[op](request_of(op, row, dtype, AHEAD))) & KERNELS


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("accumulators", "most"), [(0, 128), (64, 64)])
def test_units_have_no_more_sums_than_they_keep(op, accumulators, most):
    info = replace(PLAIN, accumulators=accumulators)
    works = LOWERINGS[op](request_of(op, square(32, *WINDOWS[1]), float32, info, candidates=True))
    told = [dict(launch.build.keywords) for work in works for launch in work.launches]
    plans = [said["plan"] for said in told if isinstance(said.get("plan"), SimtPlan)]
    assert max(len(plan.numbers) for plan in plans) == most


def test_steps_have_channels_of_one_tap_where_they_can():
    for channels, depth, even in ((32, 16, True), (40, 8, True), (36, 16, False)):
        row = square(8, channels, 14, 64, 3, 1)
        (first,) = LOWERINGS["conv"](request_of("conv", row, float32, LARGE))
        told = [dict(launch.build.keywords) for launch in first.launches]
        ((plan, found),) = [(said["plan"], said["even"]) for said in told if "plan" in said]
        assert (plan.depth, found) == (depth, even)


@pytest.mark.parametrize("row", [ROWS[1], ROWS[2]], ids=str)
@pytest.mark.parametrize("made", [(2, 4, 1, 4, 8, 3), (4, 8, 2, 2, 16, 3)], ids=str)
def test_units_with_several_places(monkeypatch, row, made):
    monkeypatch.setattr(implicit_gemm_simt_launch, "RATES", {key: {made: 1.0} for key in RATES})
    check(KernelBackend("lanes", lambda index: LanesDevice(AHEAD)), "conv", row, "float32")


LARGE = replace(H200, cores=132, max_units=1024, max_cube=(1024, 1024, 64))
PLAIN = replace(LARGE, features=frozenset({"barrier"}), shared_bytes=48 << 10)
WINDOWS = [
    (64, 56, 64, 3, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (512, 7, 512, 3, 1),
    (128, 56, 128, 3, 2), (256, 56, 512, 1, 2), (512, 7, 2048, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("sizes", WINDOWS, ids=str)
@pytest.mark.parametrize("info", [LARGE, PLAIN], ids=["ahead", "loaded"])
def test_large_convolutions_begin_with_patches(op, sizes, info):
    (first,) = LOWERINGS[op](request_of(op, square(32, *sizes), float32, info))
    assert names([first]) & KERNELS
    several = LOWERINGS[op](request_of(op, square(32, *sizes), float32, info, candidates=True))
    assert several[0] == first
    assert len({work.variant for work in several}) == len(several)
    assert several[-1].variant == "tiles"


def test_windows_of_many_taps_begin_with_patches():
    ((packed, found),) = [
        work.launches
        for work in LOWERINGS["conv"](
            request_of("conv", square(32, 3, 224, 64, 7, 2), float32, LARGE)
        )
    ]
    assert packed.prepares
    assert found.build.function.name == "conv_simt"


def test_sums_of_few_tiles_are_in_parts():
    (first,) = LOWERINGS["conv"](request_of("conv", square(32, 512, 7, 512, 3, 1), float32, LARGE))
    assert [launch.build.function.name for launch in first.launches][1:] == [
        "conv_simt",
        "add_transposed",
    ]


@pytest.mark.parametrize("op", OPS)
def test_few_filters_are_summed_in_blocks_and_large_groups_are_computed_one_by_one(op):
    few = square(32, 4, 28, 4, 3, 1)
    grouped = (*square(32, 64, 28, 128, 3, 1)[:5], 2)
    grouped = ((32, 128, 28, 28), (128, 64, 3, 3), *grouped[2:])
    small = ((1, *grouped[0][1:]), *grouped[1:])
    assert not names(LOWERINGS[op](request_of(op, few, float32, LARGE))) & KERNELS
    for row, count in ((grouped, 2), (small, 1)):
        (first, *_) = LOWERINGS[op](request_of(op, row, float32, LARGE))
        launched = [launch.build.function.name for launch in first.launches]
        assert sum(name in KERNELS for name in launched) == count


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("side", "rounded"), [(12, False), (96, True)])
def test_few_operations_are_not_rounded_to_tf32(op, side, rounded, monkeypatch):
    """Units that multiply alone end before the copies that matrix instructions need."""
    monkeypatch.setattr(lowering, "_FEW", FEW)
    row = (2, 32, side, side), (64, 32, 3, 3), ONE, (ONE, ONE), ONE, 1
    request = request_of(op, row, float32, H200)
    request = replace(request, attributes={**request.attributes, "precision": "high"})
    made = names(LOWERINGS[op](request)[:1])
    assert bool(made & KERNELS) != rounded


# Convolutions and input gradients of several parts, with one phase and several, and groups.
PARTED = [(op, row) for op in OPS[:2] for row in (ROWS[2], ROWS[7], ROWS[11])]


@pytest.mark.parametrize(("op", "row"), PARTED, ids=str)
def test_last_cubes_add_the_parts_where_launches_are_dear(small, op, row, monkeypatch):
    monkeypatch.setattr(disjoint_windows, "_WINDOWS", 0)
    made = implicit_gemm_simt_launch.plans_of
    monkeypatch.setattr(
        implicit_gemm_simt_launch,
        "plans_of",
        lambda *given: ((plan, 3, group) for plan, _, group in made(*given)),
    )
    dear = replace(small, launch_ns=1700)
    apart, found = (names(LOWERINGS[op](request_of(op, row, float32, i))) for i in (small, dear))
    assert "add_transposed" in apart
    assert found == apart - {"add_transposed"}
    check(KernelBackend("lanes", lambda index: LanesDevice(dear)), op, row, "float32")
