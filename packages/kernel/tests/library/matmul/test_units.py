"""Are large products what the reference says, on devices of many units that have what they ask?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float32
from calor_cuda.kernels.matmul import split_k_two_pass, stage_transpose
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_cuda.kernels.matmul.warpgroup_tma import TmaPlan
from calor_cuda.kernels.matmul.warpgroup_tma_launch import tma_refusal
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.ways import ranked
from calor_kernel.contract.work import Candidates, Input, Request
from calor_kernel.library.gemm.mma import MmaPlan
from calor_kernel.library.gemm.simt_plan import SimtPlan
from calor_kernel.library.matmul import gpu_ways, lowering, simt_gemm
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Task
from calor_kernel.runtime.backend import KernelBackend

from .test_matmul import ONE, check

NONE = ((), ())
NORMAL = Operand((0, 0), 64, 1, 0, bfloat16)
# As ROWS of the other ways; sizes are of whole accesses, and not of whole tiles.
ROWS = [
    ((72, 40), (40, 104), ONE, NONE, (None, None)),
    ((72, 40), (40, 104), ONE, NONE, (None, (1, 0))),
    ((72, 40), (40, 104), ONE, NONE, ((1, 0), None)),
    ((72, 40), (40, 104), ONE, NONE, ((1, 0), (1, 0))),
    ((2, 72, 16), (2, 16, 64), ((2,), (1,)), ((0,), (0,)), (None, None)),
    ((64, 8), (8, 64), ONE, NONE, (None, None)),
]
INFO = replace(
    MANY_UNITS,
    planes=(32,),
    shared_bytes=227 << 10,
    features=MANY_UNITS.features | {"load_matrix"},
)


GROUPED = replace(INFO, features=INFO.features | {"async_matrix"})
ENGINE = replace(
    INFO, features=INFO.features | {"async_matrix", "tensor_copy", "mbarrier"}, cores=3
)


# One core, so that a cube has all tiles, one after another.
ALONE = replace(ENGINE, cores=1, max_units=512, max_cube=(512, 512, 64))
SEVERAL = replace(ALONE, cores=8)


@pytest.fixture
def alone():
    """A device that has been asked nothing, since it remembers what it was told."""
    return KernelBackend("lanes", lambda index: LanesDevice(ALONE))


@pytest.fixture
def several():
    return KernelBackend("lanes", lambda index: LanesDevice(SEVERAL))


@pytest.fixture(scope="module")
def backend():
    return KernelBackend("lanes", lambda index: LanesDevice(INFO))


@pytest.fixture(scope="module")
def grouped():
    return KernelBackend("lanes", lambda index: LanesDevice(GROUPED))


@pytest.fixture(scope="module")
def engine():
    return KernelBackend("lanes", lambda index: LanesDevice(ENGINE))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiles of which there are several, with several steps, and planes that share them."""
    monkeypatch.setattr(gpu_ways, "_FRAGMENTS", {(64, 32, 16, 2, 1, 3): 1.0})
    monkeypatch.setattr(gpu_ways, "_GROUPS", ((128, 64, 64, 8, 1, 3),))
    monkeypatch.setattr(tma_ways, "_BOXES", {(64, 64, 2, 2): 1.0})
    patches(monkeypatch, (4, 8, 2, 1, 8))


def patches(monkeypatch, made):
    """Make a plan of patches the only first choice, of every device."""
    monkeypatch.setattr(gpu_ways, "_SHORT_TERMS", 0)
    only = {made: 1.0}
    monkeypatch.setattr(gpu_ways, "_AHEAD", only)
    monkeypatch.setattr(gpu_ways, "_LOADED", (only, only))


def labels(backend, monkeypatch):
    seen = []
    monkeypatch.setattr(
        gpu_ways,
        "simt_launch",
        lambda task, plan, made=gpu_ways.simt_launch: seen.append(plan) or made(task, plan),
    )
    monkeypatch.setattr(
        gpu_ways,
        "staged_launch",
        lambda task, plan, made=gpu_ways.staged_launch: seen.append(plan) or made(task, plan),
    )
    return seen


def tma_plans(monkeypatch):
    """Return the list of the plans by TMA that are launched from here on."""
    seen = []

    def launch(task, plan, *given, made=tma_ways.tma_launch, **said):
        seen.append(plan)
        return made(task, plan, *given, **said)

    monkeypatch.setattr(tma_ways, "tma_launch", launch)
    return seen


def offered(product, info, wanted):
    """Return the candidates of a product on a device of many units."""
    request = Request("dot_general", {}, (), (), info, candidates=wanted)
    return ranked(gpu_ways.WAYS, Task(product, (Input(0), Input(1)), info), request)


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "result", "kind"),
    [
        ("float32", "float32", SimtPlan),
        ("bfloat16", "bfloat16", MmaPlan),
        ("float16", "float32", MmaPlan),
    ],
)
def test_ways(backend, monkeypatch, row, dtype, result, kind):
    seen = labels(backend, monkeypatch)
    check(backend, row, dtype, result)
    assert {type(plan) for plan in seen} == {kind}


@pytest.fixture
def patched(monkeypatch):
    """What makes a plan of patches the only one of a new device, and the plans that it takes."""

    def patch(made):
        patches(monkeypatch, made)
        backend = KernelBackend("lanes", lambda index: LanesDevice(INFO))
        return backend, labels(backend, monkeypatch)

    return patch


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("made", [(4, 8, 2, 1, 8, 3), (8, 4, 1, 2, 4, 2)], ids=str)
def test_patches_whose_steps_are_copied_ahead(patched, row, made):
    backend, seen = patched(made)
    check(backend, row, "float32", "float32")
    assert {plan.stages for plan in seen} == {made[-1]}


# The last has more of a tile than units, and not twice as much.
EARLY = [(4, 8, 2, 1, 8, 0, "columns", True), (4, 8, 3, 1, 4, 0, "row pairs", True)]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("made", [*EARLY, (4, 8, 1, 2, 8, 3, "column pairs")], ids=str)
def test_patches_in_other_orders_and_early(patched, row, made):
    backend, seen = patched(made)
    check(backend, row, "float32", "float32")
    assert {(plan.order, plan.early) for plan in seen} == {(made[6], len(made) > 7)}


@pytest.mark.parametrize("row", ROWS[1:5:3], ids=str)
def test_early_factors_by_wide_indices(patched, monkeypatch, row):
    monkeypatch.setattr(simt_gemm, "narrow", lambda product: False)
    backend, seen = patched(EARLY[1])
    check(backend, row, "float32", "float32")
    assert seen


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(("dtype", "result"), [("bfloat16", "float32"), ("float16", "float16")])
def test_products_beside_warp_groups(grouped, monkeypatch, row, dtype, result):
    seen = labels(grouped, monkeypatch)
    check(grouped, row, dtype, result)
    assert {plan.kind for plan in seen} == {"groups"}


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(("dtype", "result"), [("bfloat16", "float32"), ("float16", "float16")])
def test_products_of_boxes(engine, monkeypatch, row, dtype, result):
    seen = tma_plans(monkeypatch)
    check(engine, row, dtype, result)
    assert {type(plan) for plan in seen} == {TmaPlan}


WIDE, LARGE, HIGH = (64, 128, 2, 2), (128, 128, 3, 2), (192, 64, 3, 1)


@pytest.mark.parametrize(
    ("row", "made"),
    [*((row, WIDE) for row in ROWS), (ROWS[0], LARGE), (ROWS[4], HIGH)],
    ids=str,
)
def test_a_cube_computes_tile_after_tile(alone, monkeypatch, row, made):
    monkeypatch.setattr(tma_ways, "_BOXES", {made: 1.0})
    seen = tma_plans(monkeypatch)
    check(alone, row, "bfloat16", "bfloat16")
    assert {(plan.rows, plan.columns) for plan in seen} == {made[:2]}


DEEP = [
    ((72, 160), (160, 104), ONE, NONE, (None, (1, 0))),
    ((72, 160), (160, 104), ONE, NONE, ((1, 0), None)),
    ((2, 72, 64), (2, 64, 64), ((2,), (1,)), ((0,), (0,)), (None, None)),
]


@pytest.mark.parametrize(
    ("row", "dtype", "result", "plan"),
    [
        (DEEP[0], "bfloat16", "bfloat16", (64, 128, 2, 2)),
        (DEEP[1], "bfloat16", "bfloat16", (64, 128, 2, 2)),
        (DEEP[2], "float16", "float32", (64, 128, 2, 2)),
        (DEEP[0], "float32", "float32", (64, 128, 2, 2)),
        (DEEP[1], "float32", "float32", (64, 128, 2, 2)),
    ],
    ids=str,
)
def test_parts_of_sums(several, monkeypatch, row, dtype, result, plan):
    """Few tiles whose summed axis is cut, so that every core has something to do."""
    monkeypatch.setattr(split_k_two_pass, "_LEAST", 32)
    monkeypatch.setattr(tma_ways, "_DIVIDED", (plan,))
    seen = []

    def parts(ways, task, request, made=lowering.ranked):
        able = made(ways, task, replace(request, candidates=True))
        found = [work for work in able if "parts" in work.variant]
        seen.extend(work.variant for work in found)
        return Candidates.of(found or able)

    monkeypatch.setattr(lowering, "ranked", parts)
    more = {"precision": "high"} if dtype == "float32" else {}
    check(several, row, dtype, result, 2e-3 if more else None, **more)
    # Of float32 one operand may be dense along the other axis, in products of the transposes.
    assert seen


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((1, 1, 8192, 1), 8),
        ((1, 1, 8192, 3), 2),
        ((1, 1, 8192, 5), 1),
        ((2, 1, 8192, 1), 1),
        ((1, 3, 1024, 1), 2),
        ((1, 1, 8188, 1), 4),
        ((1, 1, 8191, 1), 1),
    ],
    ids=str,
)
def test_how_many_parts_there_are(sizes, parts):
    outer, inner, k, tiles = sizes
    product = Product((outer, inner), 64, 64, k, NORMAL, NORMAL, bfloat16)
    assert split_k_two_pass.parts_of(product, tiles, SEVERAL) == parts


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_products_of_tf32(engine, backend, monkeypatch, row):
    """Where it is allowed, boxes of operands that lie along the summed axis, or of copies."""
    made = tma_plans(monkeypatch)
    monkeypatch.setattr(tma_ways, "_WORTH", 1)
    # Stages of operands that both lie off the summed axis are transposed where they are in memory.
    monkeypatch.setattr(stage_transpose, "tma_launch", tma_ways.tma_launch)
    check(engine, row, "float32", "float32", 2e-3, precision="high")
    assert made
    assert {type(plan) for plan in labels_of(backend, monkeypatch, row)} == {MmaPlan}


@pytest.mark.parametrize("row", [ROWS[0], ROWS[4]], ids=str)
@pytest.mark.parametrize("made", [(64, 64, 2, 2), (128, 96, 2, 1), WIDE], ids=str)
def test_products_of_transposes(alone, monkeypatch, row, made):
    """Where the right factor lies along its columns it goes through registers, as the left one."""
    monkeypatch.setattr(tma_ways, "_BOXES", {made: 1.0})
    seen = []

    def transposed(*given, was=lowering.ranked):
        able = [work for work in was(*given) if work.variant.startswith("transposed")]
        seen.extend(work.launches[-1].build.keywords[0][1] for work in able)
        return Candidates.of(able or was(*given))

    monkeypatch.setattr(lowering, "ranked", transposed)
    check(alone, row, "float32", "float32", 2e-3, precision="high")
    assert {(plan.rows, plan.transposed) for plan in seen} == {(made[0], True)}


@pytest.mark.parametrize(
    ("row", "boxes"),
    [
        (((72, 48), (48, 104), ONE, NONE, (None, None)), True),
        (((72, 48), (48, 104), ONE, NONE, (None, (1, 0))), True),
        (((72, 40), (40, 104), ONE, NONE, (None, (1, 0))), False),
    ],
    ids=str,
)
def test_products_of_bytes(engine, monkeypatch, row, boxes):
    made = tma_plans(monkeypatch)
    monkeypatch.setattr(tma_ways, "_WORTH", 1)
    check(engine, row, "int8", "int32")
    assert bool(made) == boxes


def labels_of(backend, monkeypatch, row):
    seen = labels(backend, monkeypatch)
    check(backend, row, "float32", "float32", 2e-3, precision="high")
    return seen


@pytest.mark.parametrize(
    ("columns", "result", "pending"), [(64, bfloat16, 0), (128, bfloat16, 1), (96, float32, 0)]
)
def test_parts_of_a_tile_take_turns_in_their_places(columns, result, pending):
    """A tile of an odd number of parts ends in the place where the next one begins."""
    plan = TmaPlan(bfloat16, result, 64, columns, 2, True, True, 1)
    assert plan.pending == pending


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"a": replace(NORMAL, free=-64)}, "a has a stride that is not above zero"),
        ({"a": replace(NORMAL, free=2, depth=2)}, "a is dense along no axis"),
        ({"b": replace(NORMAL, offset=4)}, "b does not begin at multiples of 16 bytes"),
        ({"b": replace(NORMAL, batch=(0, 4))}, "b does not begin at multiples of 16 bytes"),
        ({"n": 68}, "rows of the result do not begin"),
        ({"k": 0}, "sizes are from 1"),
    ],
)
def test_what_the_copy_engine_does_not_take(changed, reason):
    product = Product((1, 2), 64, 64, 64, NORMAL, NORMAL, bfloat16)
    assert tma_refusal(product, ENGINE) is None
    assert reason in tma_refusal(replace(product, **changed), ENGINE)


@pytest.mark.parametrize("made", tma_ways._BOXES, ids=str)
@pytest.mark.parametrize("result", [bfloat16, float32])
def test_a_tile_of_boxes_fits(made, result):
    plan = TmaPlan(bfloat16, result, *made[:3], True, False, *made[3:])
    assert plan.shared_bytes <= INFO.shared_bytes
    assert plan.columns % plan.part == plan.columns % plan.depth == plan.rows % 64 == 0


@pytest.mark.parametrize(
    "row",
    [
        ((63, 40), (40, 104), ONE, NONE, (None, None)),
        ((72, 40), (40, 102), ONE, NONE, (None, None)),
        ((72, 42), (42, 104), ONE, NONE, (None, (1, 0))),
    ],
    ids=str,
)
def test_what_is_not_of_whole_accesses_is_left_to_others(backend, monkeypatch, row):
    seen = labels(backend, monkeypatch)
    for dtype in ("float32", "bfloat16"):
        check(backend, row, dtype, dtype)
    assert seen == []


@pytest.mark.parametrize("made", gpu_ways._FRAGMENTS, ids=str)
def test_a_tile_is_shared_evenly(made):
    plan = MmaPlan(bfloat16, *made, True, False)
    assert plan.rows % (plan.shape.m * plan.down) == 0
    assert plan.columns % (plan.shape.n * plan.across) == 0
    assert plan.depth % plan.shape.k == 0
    assert plan.shared_bytes <= INFO.shared_bytes


@pytest.mark.parametrize(("accumulators", "wide"), [(0, 2), (64, 2), (128, 4)])
def test_units_with_many_sums_have_large_patches(monkeypatch, accumulators, wide):
    sizes = {(4, 8, 2, 4, 8): 1.0, (4, 8, 2, 2, 8): 0.5}
    monkeypatch.setattr(gpu_ways, "_LOADED", (sizes, sizes))
    monkeypatch.setattr(gpu_ways, "_SHORT_TERMS", 0)
    info = replace(MANY_UNITS, planes=(1,), features=frozenset(("barrier", "fma")), cores=1)
    info = replace(info, accumulators=accumulators)
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    seen = labels(backend, monkeypatch)
    check(backend, ROWS[0], "float32", "float32")
    assert {plan.wide for plan in seen} == {wide}
