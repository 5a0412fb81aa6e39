"""Do cubes that compute parts of tiles cover every step once, in an order without deadlock?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, float16, int32
from calor_cuda.kernels.matmul import split_k_launch
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_cuda.kernels.matmul.split_k import TileParts
from calor_cuda.kernels.matmul.warpgroup_tma_plan import TmaPlan
from calor_interpreter.device import LanesDevice
from calor_interpreter.launch import run_on_lanes
from calor_kernel.contract.work import Candidates
from calor_kernel.language import Buffer, Scalar, cube_position, kernel
from calor_kernel.library.matmul import lowering
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.runtime import autotune
from calor_kernel.runtime.backend import KernelBackend

from .test_epilogues import graph_of, operands, run
from .test_matmul import ONE, check
from .test_units import NONE, SEVERAL, offered

ALONG = (None, (1, 0))
HALVES, FLOATS = ("bfloat16", "bfloat16"), ("float32", "float32")
# Few tiles with several steps.
DEEP = ((72, 264), (264, 64), ONE, NONE, (None, None))
BATCHED = ((3, 64, 136), (3, 136, 64), ((2,), (1,)), ((0,), (0,)), (None, None))
BYTES = ((72, 160), (160, 104), ONE, NONE, ALONG)
TRANSPOSED = (*BYTES[:4], (None, None))


def taken(monkeypatch, test):
    """Return the ways whose names pass a test, of which the first is taken."""
    found = []

    def shared(ways, task, request, made=lowering.ranked):
        able = made(ways, task, replace(request, candidates=True))
        own = [work for work in able if test(work.variant)]
        found.extend(own)
        return Candidates.of(own or able)

    monkeypatch.setattr(lowering, "ranked", shared)
    monkeypatch.setattr(split_k_launch, "_LEAST", 1)
    return found


@pytest.fixture
def seen(monkeypatch):
    """The ways in parts."""
    return taken(monkeypatch, lambda name: name.endswith("split-K"))


def lanes(cores):
    return KernelBackend("lanes", lambda index: LanesDevice(replace(SEVERAL, cores=cores)))


@pytest.mark.parametrize(
    ("row", "types", "plan", "cores", "cubes"),
    [
        (DEEP, ("float16", "float32"), (128, 64, 3, 2), 5, 5),
        (DEEP, HALVES, (64, 64, 2, 2), 11, 10),
        (BATCHED, HALVES, (64, 64, 2, 1), 18, 9),
        (BYTES, ("int8", "int32"), (64, 128, 2, 2), 5, 4),
        (TRANSPOSED, FLOATS, (64, 64, 2, 1), 20, 20),
    ],
    ids=str,
)
def test_products_in_parts(monkeypatch, seen, row, types, plan, cores, cubes):
    monkeypatch.setattr(tma_ways, "_SHARED", (plan,))
    more = {"precision": "high"} if types == FLOATS else {}
    check(lanes(cores), row, *types, 2e-3 if more else None, **more)
    assert seen[0].launches[-1].cubes == (cubes, 1, 1)


def test_a_launch_finds_its_flags_as_the_one_before_did(monkeypatch, seen):
    """One list runs again and again, with the same flags, and gives the same bits."""
    monkeypatch.setattr(tma_ways, "_SHARED", ((64, 64, 2, 2),))
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((72, 384), (384, 64)))
    with calor.device(device_of(lanes(7), 0)):
        x, y = (calor.asarray(array).astype(bfloat16) for array in (a, b))
        multiply = calor.jit(calor.matmul)
        found = [multiply(x, y).numpy().tobytes() for _ in range(2)]
    assert len(set(found)) == 1
    assert seen


def test_candidates_are_timed_with_flags(monkeypatch, seen):
    """One candidate after another, several times, all with the flags of the trial."""
    monkeypatch.setattr(tma_ways, "_SHARED", ((64, 64, 2, 2), (64, 64, 3, 2)))
    monkeypatch.setattr(autotune, "_FEWEST", 1)
    found = []

    def tried(tuner, task):
        trial = autotune.Trial(tuner.engine, task)
        for work in task.works if task.op == "dot_general" else ():
            trial.time(work, 0.0)
            found.extend(trial.results())
        return task.works[0]

    monkeypatch.setattr(autotune.Tuner, "choose", tried)
    check(lanes(5), ((72, 256), (256, 64), *DEEP[2:]), *HALVES)
    assert seen
    first, second = (array.astype(np.float32) for array in found[:2])
    np.testing.assert_allclose(first, second, rtol=0.02, atol=0.02)


@kernel
def said(found, deep, parts, *, depth):
    """Write the piece of each cube in four numbers."""
    cube = cube_position(0)
    schedule = TileParts(cube, deep, depth, found, found, parts)
    for turn in schedule.turns():
        piece = schedule.piece(turn)
        at = (cube + turn) * 4
        found[at] = piece.tile
        found[at + 1] = piece.start
        found[at + 2] = piece.length
        found[at + 3] = piece.ends.to(int32)


@pytest.mark.parametrize(
    ("tiles", "steps", "parts"),
    [(5, 8, 4), (3, 9, 3), (1, 12, 12), (6, 2, 2), (2, 64, 3), (3, 11, 4)],
    ids=str,
)
def test_every_step_is_computed_once(tiles, steps, parts):
    """Parts of a tile are adjacent cubes in the order of their steps, so all cubes before wait."""
    depth, size = 8, Scalar(int32, nonnegative=True)
    built = said.build([Buffer(int32), size, size], index=int32, depth=depth)
    found = np.full((tiles, parts, 4), -1, np.int32)
    # The last step is not a whole one.
    run_on_lanes(built, (tiles * parts, 1, 1), (found.reshape(-1), steps * depth - 3, parts))
    assert (found[..., 0] == np.arange(tiles)[:, None]).all()
    firsts, lengths = found[..., 1], found[..., 2]
    assert (firsts[:, 0] == 0).all()
    assert (firsts[:, 1:] == (firsts + lengths)[:, :-1]).all()
    assert (lengths.sum(1) == steps * depth).all()
    assert np.ptp(lengths) <= depth
    assert lengths.min() > 0
    assert (found[..., 3] == (np.arange(parts) == parts - 1)).all()


def test_sums_are_aligned_where_a_result_of_half_the_size_is_not():
    a, b = Operand((0, 0), 8192, 1, 0, float16), Operand((0, 0), 8192, 1, 0, float16)
    product = Product((1, 1), 128, 132, 8192, a, b, float16)
    hopper = replace(SEVERAL, cores=132, max_units=1024)
    first = offered(product, hopper, False)[0].variant
    assert first == "boxes 64x128x64 by 256 in 16 in 16 parts"
    # In one launch units write the result.
    launches = [w.launches[-1] for w in offered(product, hopper, True) if "boxes" in w.variant]
    plans = [dict(one.build.keywords).get("plan") for one in launches]
    assert any(isinstance(plan, TmaPlan) and plan.by_units for plan in plans)


def test_parts_need_cubes_that_go_on():
    a = Operand((0, 0), 4096, 1, 0, bfloat16)
    product = Product((1, 1), 64, 4096, 4096, a, a, bfloat16)
    hopper = replace(SEVERAL, cores=132, max_units=1024)
    bound = replace(hopper, features=hopper.features - {"forward_progress"})
    able = offered(product, hopper, True)
    names = {work.variant for work in able}
    reasons = {one.variant: one.reason for one in offered(product, bound, True).dropped}
    shared = {name for name in names if name.endswith("split-K")}
    assert shared
    assert all("go on" in reasons[name] for name in shared)
    # The first choice is one launch, and two where cubes may not wait for each other.
    firsts = [offered(product, info, False)[0].variant for info in (hopper, bound)]
    assert firsts == [
        "boxes 64x128x64 by 256 in 16 split-K",
        "boxes 64x128x64 by 256 in 16 in 4 parts",
    ]
    assert len(names) == len(able)


def test_an_odd_axis_is_cut_in_one_launch():
    firsts = []
    for k in (2049, 50257):
        # Lines across the K axis are whole accesses; rows of the result are not.
        a, b = Operand((0, 0), 1, 256, 0, bfloat16), Operand((0, 0), 1, 264, 0, bfloat16)
        product = Product((1, 1), 256, 257, k, a, b, bfloat16)
        hopper = replace(SEVERAL, cores=132, max_units=1024)
        firsts.append(offered(product, hopper, False)[0].variant)
    assert all(name.endswith("split-K") for name in firsts)
    bound = replace(hopper, features=hopper.features - {"forward_progress"})
    assert "parts" not in offered(product, bound, False)[0].variant


def test_tiles_may_be_half_full_where_there_is_one_for_each_core():
    hopper = replace(SEVERAL, cores=132, max_units=1024)

    def first(m, batches):
        a = Operand((m * 64, m * 64), 64, 1, 0, bfloat16)
        b = Operand((64 * 4096, 64 * 4096), 1, 4096, 0, bfloat16)
        product = Product((1, batches), m, 4096, 64, a, b, bfloat16)
        return offered(product, hopper, False)[0].variant

    assert "boxes" in first(33, 64)
    assert "boxes" not in first(32, 64)
    # Of the smallest tiles 128 are about one for each core, and 64 are not.
    assert "boxes" in first(33, 2)
    assert "boxes" not in first(33, 1)


def test_half_full_tiles_of_several_products():
    shapes = [(3, 37, 72), (3, 72, 264)]
    graph, arrays = graph_of(lambda x, w: x @ w, bfloat16, shapes), operands(shapes, bfloat16)
    (found,), launches = run(graph, arrays, replace(SEVERAL, cores=9), ())
    assert ["boxes" in one.label for one in launches] == [True]
    exact = np.matmul(*(a.astype(np.float64) for a in arrays))
    assert np.abs(found.astype(np.float64) - exact).max() <= 2e-2 * np.abs(exact).max()
