"""Is Winograd's algorithm right for all tiles, as exact as promised, and chosen where it pays?"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import calor
from calor.dtypes import float32
from calor.ops.base import table
from calor_interpreter.device import LanesDevice
from calor_kernel.contract.ways import Way
from calor_kernel.library.conv import unit_ways, winograd_launch
from calor_kernel.library.conv.winograd_plan import Plan, layer_of
from calor_kernel.library.conv.winograd_transforms import MOST_POINTS, transforms
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.runtime.backend import KernelBackend
from calor_nn import functional

from ..matmul.test_epilogues import graph_of, near, operands, same_bits
from ..ops import run_op
from .test_conv import NONE, OPS, check
from .test_implicit_gemm_mma import ONE, PADDED, names, request_of, square
from .test_implicit_gemm_simt import AHEAD, LARGE, LOWERINGS, PLAIN

WIDE = ((2, 2), (2, 2))
# shapes of x and w, stride, padding, dilation, groups; and the outputs of a tile.
ROWS = [
    (((2, 5, 9, 10), (6, 5, 3, 3), ONE, PADDED, ONE, 1), (4, 4)),
    (((3, 4, 7, 8), (8, 4, 5, 5), ONE, WIDE, ONE, 1), (4, 4)),
    (((2, 3, 8, 8), (5, 3, 3, 3), ONE, (NONE, (2, 0)), ONE, 1), (2, 4)),
    (((1, 4, 12), (8, 4, 3), (1,), ((1, 1),), (1,), 1), (1, 3)),
    (((2, 4, 6, 9), (4, 4, 3, 1), ONE, ((0, 2), NONE), ONE, 1), (3, 1)),
    (((2, 4, 6, 9), (4, 4, 2, 4), ONE, ((0, 2), (-1, 1)), ONE, 1), (3, 2)),
    (((2, 3, 9, 9), (4, 3, 7, 6), ONE, ((3, 3), (2, 3)), ONE, 1), (2, 3)),
]


@pytest.fixture
def alone(monkeypatch):
    """Return what leaves this way alone, with one plan."""
    way = next(way for way in unit_ways.WAYS if way.name == "Winograd")

    def refuses(one, request):
        found = layer_of(one.problem)
        return found if isinstance(found, str) else None

    only = Way(way.name, refuses, way.works)
    monkeypatch.setattr(unit_ways, "WAYS", (only,))

    def planned(*plans):
        monkeypatch.setattr(winograd_launch, "plans_of", lambda *given: list(plans))

    return planned


def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(AHEAD))


@pytest.mark.parametrize("taps", range(1, MOST_POINTS))
def test_transforms_are_those_of_sums_of_products(taps):
    rng = np.random.default_rng(2)
    for outputs in range(1, MOST_POINTS + 2 - taps):
        made = transforms(outputs, taps)
        line, weights, sums = map(np.array, (made.line, made.taps, made.sums))
        x, w = rng.standard_normal(outputs + taps - 1), rng.standard_normal(taps)
        assert made.points == outputs + taps - 1
        wanted = np.correlate(x, w)
        np.testing.assert_allclose(sums @ ((weights @ w) * (line @ x)), wanted, atol=1e-12)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("row", "outputs"), ROWS, ids=str)
def test_shapes(alone, op, row, outputs):
    alone(Plan(outputs, row[0][0]))
    works = LOWERINGS[op](request_of(op, row, float32, AHEAD))
    if op == OPS[2] and max(row[1][2:]) > 5:
        assert "more than 5 taps" in works.dropped[0].reason
        return
    assert "transform_sums" in names(works)
    check(backend(), op, row, "float32")


@pytest.mark.parametrize("op", OPS)
def test_chunks_of_images_and_parts_of_sums(alone, op):
    parts = 2 if op == OPS[2] else 1
    alone(Plan((4, 4), 2, parts))
    check(backend(), op, ROWS[1][0], "float32")
    check(backend(), op, ROWS[0][0], "float32", reordered=True)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("taps", [3, 5])
def test_errors_are_a_few_times_those_of_a_sum(alone, op, taps, monkeypatch):
    """The root of the mean square of errors, beside float32 sums in the order of terms."""
    side = taps // 2
    x, w, g = operands([(2, 24, 12, 12), (16, 24, taps, taps), (2, 16, 12, 12)], float32)
    given = {"conv": (x, w), OPS[1]: (g, w), OPS[2]: (x, g)}[op]
    more = {"input_shape": x.shape} if op == OPS[1] else {}
    more = {"weight_shape": w.shape} if op == OPS[2] else more
    attributes = {
        "stride": ONE, "padding": ((side, side),) * 2, "dilation": ONE, "groups": 1, **more,
    }  # fmt: skip
    errors = []
    reference = table()[op].reference
    exact = reference(*(a.astype(np.float64) for a in given), **attributes)
    alone(Plan((4, 4), 2))
    for ways in (unit_ways.WAYS, (unit_ways.DIRECT,)):
        monkeypatch.setattr(unit_ways, "WAYS", ways)
        (found,), _ = run_op(backend(), op, given, attributes)
        errors.append(np.sqrt(((found - exact) ** 2).mean()))
    assert errors[0] <= 8 * errors[1]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("odd", "which"), [(np.inf, 0), (np.nan, 0), (-np.inf, 1), (3e38, 0)])
def test_numbers_that_a_transform_would_spread(alone, op, odd, which, monkeypatch):
    """Tiles with infinities or NaNs, or that overflow, are those of sums one by one."""
    alone(Plan((4, 4), 2))
    x, w, g = operands([(2, 3, 6, 7), (4, 3, 3, 3), (2, 4, 6, 7)], float32)
    given = {"conv": (x, w), OPS[1]: (g, w), OPS[2]: (x, g)}[op]
    given[which][-1, 1, 1, 2] = odd
    more = {OPS[1]: {"input_shape": x.shape}, OPS[2]: {"weight_shape": w.shape}}.get(op, {})
    attributes = {"stride": ONE, "padding": PADDED, "dilation": ONE, "groups": 1, **more}
    (found,), _ = run_op(backend(), op, given, attributes)
    monkeypatch.setattr(unit_ways, "WAYS", (unit_ways.DIRECT,))
    (wanted,), _ = run_op(backend(), op, given, attributes)
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


CHAINS = {
    "scale, shift, residual": (
        lambda x, w, a, b, r: calor.relu(functional.conv2d(x, w, padding=1) * a + b + r),
        [(3, 8, 8, 8), (12, 8, 3, 3), (12, 1, 1), (12, 1, 1), (3, 12, 8, 8)],
    ),
    "two results": (
        lambda x, w, a: (
            functional.conv2d(x, w, padding=2) * a,
            functional.silu(functional.conv2d(x, w, padding=2) * a),
        ),
        [(3, 8, 7, 9), (10, 8, 5, 5), (10, 1, 1)],
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_what_follows_is_done_by_the_last_transform(alone, chain):
    alone(Plan((4, 4), 2))
    function, shapes = CHAINS[chain]
    graph, arrays = graph_of(function, float32, shapes), operands(shapes, float32)
    found = same_bits(graph, arrays, AHEAD, "sums transformed")
    near(found, function, arrays, float32, "highest")


# Images, channels, pixels of a side, filters, taps of a side, stride.
PAYS = [(64, 64, 27, 192, 5, 1), (32, 128, 28, 128, 3, 1), (8, 320, 64, 320, 3, 1)]
DOES_NOT = [(32, 3, 56, 64, 3, 1), (1, 64, 14, 64, 3, 1), (32, 128, 28, 128, 3, 2),
            (32, 256, 28, 64, 1, 1)]  # fmt: skip


@pytest.mark.parametrize(("op", "sizes"), [*product(OPS, PAYS + DOES_NOT)], ids=str)
@pytest.mark.parametrize("info", [LARGE, PLAIN], ids=["ahead", "loaded"])
def test_chosen_where_it_pays(op, sizes, info):
    request = request_of(op, square(*sizes), float32, info)
    (first,) = LOWERINGS[op](request)
    assert (first.way.name == "Winograd") == (sizes in PAYS)
    for said in ("direct", "high"):
        other = replace(request, attributes={**request.attributes, "precision": said})
        assert "transform_sums" not in names(LOWERINGS[op](other))
    said = op, request.attributes, request.inputs, request.outputs
    assert "transform_sums" not in names(Lowerings(info, lean=True).ask(*said))


@pytest.mark.parametrize(("sizes", "kept"), [((2, 40, 28, 72, 3, 1), False), (PAYS[0], True)])
def test_small_layers_have_direct_sums_where_launches_are_dear(sizes, kept):
    """The transforms are two launches more."""
    for info, wanted in ((PLAIN, True), (replace(PLAIN, launch_ns=1770), kept)):
        (first,) = LOWERINGS["conv"](request_of("conv", square(*sizes), float32, info))
        assert (first.way.name == "Winograd") == wanted


def test_weights_are_transformed_once():
    for op in OPS:
        (first,) = LOWERINGS[op](request_of(op, square(*PAYS[0]), float32, LARGE))
        prepared = [launch for launch in first.launches if launch.prepares]
        assert len(prepared) == (op != OPS[2])


def test_memory_between_transforms_is_bounded():
    sizes = [square(256, 64, 112, 128, 3, 1), square(64, 512, 28, 512, 5, 1)]
    for op, row in product(OPS, sizes):
        for info in (LARGE, replace(LARGE, memory_bytes=2 << 30)):
            (first,) = LOWERINGS[op](request_of(op, row, float32, info))
            bound = 256 << 20 if info is LARGE else 64 << 20
            weights = 64 * 4 * row[1][0] * row[1][1]
            assert sum(first.scratch) <= (3 if op == OPS[2] else 1) * bound + weights
            if info is LARGE:
                assert first.way.name == "Winograd"


@pytest.mark.parametrize("op", OPS)
def test_less_room_takes_more_chunks_while_that_pays(op):
    request = request_of(op, square(64, 128, 56, 128, 3, 1), float32, LARGE)
    works = [LOWERINGS[op](replace(request, room=n))[0] for n in (None, 64 << 20, 1)]
    assert all(work.way.name == "Winograd" for work in works)
    scratch = [sum(work.scratch) for work in works]
    assert scratch == sorted(scratch, reverse=True)
    assert scratch[0] > scratch[1]
    made = [len(work.launches) for work in works]
    assert made == sorted(made)
    assert made[0] < made[1]


def test_chunks_leave_no_cores_idle_for_less_room():
    """A row of taps, for which chunks of four images took 1.7 of the time of one chunk."""
    images, filters, stride, _, *more = square(32, 192, 19, 192, 7, 1)
    row = images, (*filters[:2], 1, 7), stride, ((0, 0), (3, 3)), *more
    request = request_of(OPS[0], row, float32, LARGE)
    scratch = {n: sum(LOWERINGS[OPS[0]](replace(request, room=n))[0].scratch) for n in (None, 1)}
    assert scratch[None] / 4 < scratch[1] < scratch[None]
