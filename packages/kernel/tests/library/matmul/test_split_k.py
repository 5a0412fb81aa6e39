"""Do cubes that compute parts of tiles cover every step once, in an order without deadlock?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.dtypes import bfloat16, int32
from calor_cuda.kernels.matmul import split_k_launch
from calor_cuda.kernels.matmul import ways as tma_ways
from calor_cuda.kernels.matmul.split_k import Shares, Split
from calor_interpreter.device import LanesDevice
from calor_interpreter.launch import run_on_lanes
from calor_kernel.contract.work import Candidates
from calor_kernel.language import Buffer, Scalar, cube_count, cube_position, kernel
from calor_kernel.library.matmul import lowering
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.runtime import autotune
from calor_kernel.runtime.backend import KernelBackend

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
def said(found, deep, tiles, each, more, rounds, *, depth, most):
    """Write what each cube does one after another, in four numbers."""
    cube = cube_position(0)
    split = Split(tiles, each, more, rounds)
    schedule = Shares(cube, cube_count(0), deep, depth, found, found, split)
    for turn in schedule.turns():
        piece = schedule.piece(turn)
        at = (cube * most + turn) * 4
        found[at] = piece.tile
        found[at + 1] = piece.begin
        found[at + 2] = piece.length
        found[at + 3] = piece.ends.to(int32)


def pieces_of(tiles, steps, cubes, rounds):
    """Return what each cube does one after another: tile, first step, steps, whether it ends."""
    depth, most = 8, tiles + rounds
    size = Scalar(int32, nonnegative=True)
    built = said.build([Buffer(int32), *(size,) * 5], index=int32, depth=depth, most=most)
    found = np.full((cubes, most, 4), -1, np.int32)
    # The last step is not a whole one.
    given = found.reshape(-1), steps * depth - 3, tiles, *divmod(tiles * steps, cubes), rounds
    run_on_lanes(built, (cubes, 1, 1), given)
    found[..., 2] //= depth
    return [[tuple(row) for row in cube if row[0] >= 0] for cube in found.tolist()]


@pytest.mark.parametrize(
    ("tiles", "steps", "cubes", "rounds"),
    [(5, 7, 4, 0), (3, 9, 8, 2), (2, 16, 8, 0), (9, 3, 5, 1), (1, 12, 12, 0), (6, 1, 4, 1)],
    ids=str,
)
def test_every_step_is_computed_once(tiles, steps, cubes, rounds):
    made = pieces_of(tiles, steps, cubes, rounds)
    done = np.zeros((tiles + rounds * cubes, steps), np.int64)
    for own in made:
        for tile, begin, count, _ in own:
            done[tile, begin : begin + count] += 1
    assert (done == 1).all()
    shares = [sum(count for tile, _, count, _ in own if tile < tiles) for own in made]
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("tiles", "steps", "cubes"), [(5, 7, 4), (3, 9, 8), (2, 16, 8), (7, 5, 3), (1, 12, 12)], ids=str
)
def test_a_cube_waits_for_what_those_before_it_do_first(tiles, steps, cubes):
    """So a launch ends in whatever order cubes get their turns, as long as lower ones begin."""
    made = pieces_of(tiles, steps, cubes, 0)
    for number, own in enumerate(made):
        # What a cube hands over is what it does first, and there is one such piece at most.
        assert all(ends for _, _, _, ends in own[1:])
        for tile, begin, _, ends in own:
            left, below = begin if ends else 0, number
            while left:
                below -= 1
                other, start, count, ended = made[below][0]
                assert (other, start + count, ended) == (tile, left, False)
                left = start


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
