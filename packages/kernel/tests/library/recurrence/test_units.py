"""Does a recurrent scan by units, alone or in groups of cubes, compute what its steps do?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_interpreter.launch import run_on_lanes
from calor_kernel.contract.work import Flags, Input, Output, Refusal, Request, Scratch, View
from calor_kernel.ir.uniformity import Level, Uniformity, conditions
from calor_kernel.library.recurrence import lowering, unit_plan
from calor_kernel.library.recurrence.cell import cell_of
from calor_kernel.library.recurrence.unit_plan import unit_plans

from .test_recurrence import CELLS, INFO, launched, run, scan_of, traced

CORES = replace(INFO, cores=8)
# The cell, dtype, length, samples, features, whether it runs backwards, whether gradients follow;
# whether cubes wait, and the samples, lanes and own features of the plan.
CASES = [
    (("lstm", "float32", 3, 3, 5, False, True), (False, 1, 1, 1)),
    (("lstm", "float32", 3, 3, 9, True, False), (True, 2, 4, 1)),
    (("gru", "float32", 4, 5, 9, True, True), (True, 4, 2, 2)),
    (("lstm", "float32", 2, 2, 8, False, True), (False, 1, 4, 2)),
    (("plain", "float32", 2, 1, 16, False, False), (False, 1, 4, 8)),
    (("plain", "bfloat16", 2, 5, 18, False, False), (False, 2, 8, 2)),
    (("plain", "float16", 3, 2, 64, True, True), (True, 1, 32, 1)),
    (("gru", "float64", 2, 2, 4, False, True), (False, 2, 2, 1)),
]


@pytest.fixture
def by_units(monkeypatch):
    """Leave the plans by matrix instructions out, and return a choice among those by units."""
    monkeypatch.setattr(lowering, "plans_of", lambda *given: [])

    def choose(wanted):
        def some(*given):
            return [pair for pair in unit_plans(*given) if wanted(pair[1])]

        monkeypatch.setattr(lowering, "unit_plans", some)

    return choose


def check(case, info, close):
    graph, arrays = traced(*case)
    made, found = run(graph, arrays, info)
    assert launched(made) == 1 + case[-1]
    for one, wanted in zip(found, interpret(graph, arrays), strict=True):
        wanted = wanted.astype(np.float64)
        assert np.linalg.norm(one - wanted) <= close * np.linalg.norm(wanted)
        assert wanted.any()


CLOSE = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.mark.parametrize(("case", "plan"), CASES, ids=str)
def test_layers_by_units_are_those_of_steps(case, plan, by_units):
    by_units(lambda one: (one.waits, one.samples, one.lanes, one.own) == plan)
    check(case, CORES, CLOSE[case[1]])


@pytest.mark.parametrize("waits", [False, True])
def test_weights_beyond_the_registers_are_in_shared_memory(waits, by_units, monkeypatch):
    monkeypatch.setattr(unit_plan, "_MOST_REGISTERS", unit_plan._OTHERS + 24)
    by_units(lambda one: one.waits == waits and 0 < one.held < one.vectors - 1)
    check(("lstm", "float32", 2, 2, 13, False, False), CORES, CLOSE["float32"])


@pytest.mark.parametrize(
    ("case", "room"),
    [
        (("lstm", "float32", 2, 1, 33, False, True), 7500),
        (("gru", "bfloat16", 2, 3, 11, True, False), 1500),
        (("plain", "float32", 3, 1, 16, True, False), 3500),
        (("lstm", "float64", 2, 1, 7, False, False), 1500),
    ],
    ids=str,
)
def test_weights_beyond_a_cube_are_read_at_each_step(case, room, by_units, monkeypatch):
    """Some are in registers, some in shared memory if that has room, and the last ones in none."""
    monkeypatch.setattr(unit_plan, "_MOST_REGISTERS", unit_plan._OTHERS + 40)
    apart = replace(CORES, features=CORES.features - {"together"}, shared_bytes=room)
    by_units(lambda one: one.held and one.streamed and (one.stored > 0) == (room > 2000))
    check(case, apart, CLOSE[case[1]])


def test_weights_that_a_cores_cache_does_not_hold_are_not_read_at_each_step():
    """Cubes that run together hold all of them; steps are launches of their own elsewhere."""
    step = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W, dtype="float32")
    cell = cell_of(step.attributes["body"], 1, 1)
    wide = replace(INFO, cores=132, shared_bytes=48 << 10)
    apart = replace(wide, features=wide.features - {"together"})
    plans = [plan for _, plan in unit_plans(cell, 16, 640, apart)]
    assert plans
    assert all(plan.streamed and not plan.waits for plan in plans)
    assert all(plan.shared_bytes <= apart.shared_bytes for plan in plans)
    assert not unit_plans(cell, 16, 800, apart)
    assert not any(plan.streamed for _, plan in unit_plans(cell, 16, 640, wide))


# The sums of a unit at the same time; samples, lanes and own features of the plan, its blocks and
# the units that have the same sums: fewer than blocks, as many, more.
BLOCKS = [
    (2, (8, 2, 1), (4, 1)),
    (4, (8, 8, 1), (2, 2)),
    (4, (8, 8, 2), (4, 2)),
    (4, (8, 16, 1), (2, 4)),
]


@pytest.mark.parametrize(("sums", "plan", "blocks"), BLOCKS, ids=str)
def test_samples_are_summed_in_blocks(sums, plan, blocks, by_units, monkeypatch):
    monkeypatch.setattr(unit_plan, "_SUMS", sums)
    by_units(
        lambda one: (one.samples, one.lanes, one.own) == plan and (one.blocks, one.alike) == blocks
    )
    check(("plain", "float32", 2, 7, 33, False, False), replace(INFO, cores=1), CLOSE["float32"])


def test_blocks_of_samples_are_powers_of_two(by_units):
    """32 sums are ten samples of three."""
    by_units(lambda one: one.samples == 16 and one.lanes == 4 and one.own == 1)
    check(("gru", "float32", 2, 9, 8, False, False), replace(INFO, cores=1), CLOSE["float32"])


def test_a_launch_alone_needs_no_cubes_that_run_together():
    apart = replace(INFO, features=INFO.features - {"together", "atomics", "atomics_64", "matrix"})
    check(("gru", "float32", 3, 2, 5, False, True), apart, CLOSE["float32"])


def test_cubes_wait_only_where_a_launch_starts_all_or_none():
    """Without that a group has one cube, and the launch of many groups is in any order."""
    step = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W, dtype="float32")
    cell = cell_of(step.attributes["body"], 1, 1)
    wide = replace(INFO, cores=132)
    apart = replace(wide, features=wide.features - {"together"})
    for samples, features in ((1, 256), (16, 128), (700, 256)):
        assert any(plan.waits for _, plan in unit_plans(cell, samples, features, wide))
        assert not any(plan.waits for _, plan in unit_plans(cell, samples, features, apart))
    # As many groups as samples ask for would not start together.
    assert not any(plan.waits for _, plan in unit_plans(cell, 10_000, 256, wide))


def launch_on(request, plan, arrays, words, flags):
    """Run a scan by a plan on memory for its words, and return its results."""
    cell = cell_of(*(request.attributes[k] for k in ("body", "carries", "captures")))
    (launch,) = lowering.work_of(request, cell, plan).launches
    made = [np.full(known.shape, np.nan, np.float32) for known in request.outputs]
    memory = {Input: arrays, Output: made, Scratch: [words]}

    def given(argument):
        if isinstance(argument, int | float):
            return argument
        if isinstance(argument, Flags):
            return flags, argument.offset
        array = memory[type(argument)][argument.number]
        return array.reshape(-1), argument.offset

    arguments = [given(one) for one in launch.arguments]
    run_on_lanes(launch.build.kernel(request.info.features), launch.cubes, arguments)
    return made


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_words_of_earlier_launches_are_never_read(name):
    """Words that others left, or a longer scan, are gone before a cube waits for its own."""
    draw = np.random.default_rng(5)
    words = flags = None
    for length in (3, 1, 4, 1):
        graph, arrays = traced(name, "float32", length, 4, 16, False, False)
        (node,) = (one for one in graph.nodes if one.op.name == "scan")
        views = tuple(View.dense(graph.specs[v]) for v in node.inputs)
        outputs = tuple(graph.specs[v] for v in node.outputs)
        request = Request("scan", node.attributes, views, outputs, CORES)
        cell = cell_of(*(node.attributes[k] for k in ("body", "carries", "captures")))
        # Its words are those of all units, without any between them.
        plan = next(
            plan
            for _, plan in unit_plans(cell, 4, 16, CORES)
            if (plan.waits, plan.samples, plan.pitch) == (True, 2, 16)
        )
        if words is None:
            numbers, steps = draw.integers(0, 1 << 32, 128), draw.integers(1, 5, 128)
            words = numbers.astype(np.uint64) | steps.astype(np.uint64) << np.uint64(32)
            flags = np.zeros(4, np.uint32)
        given = [arrays[graph.inputs.index(v)] for v in node.inputs]
        fresh = np.zeros_like(words)
        wanted = launch_on(request, plan, given, fresh, np.zeros_like(flags))
        found = launch_on(request, plan, given, words, flags)
        for one, expected in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, expected)
            assert np.isfinite(one).all()
        # A step that did not run has no word that says so.
        np.testing.assert_array_equal(words, fresh)
        assert not flags.any()


def test_units_of_a_plane_wait_together(by_units):
    """Compilers omit the wait of a plane for units that a loop leaves behind."""
    by_units(lambda plan: plan.waits)
    step = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W, dtype="float32")
    for work in lowering.scan(replace(step, candidates=True)):
        (launch,) = work.launches
        kernel = launch.build.kernel(INFO.features)
        levels = Uniformity(kernel)
        loops = [
            levels.level(one.regions[0].yields[0])
            for one, within in conditions(levels, kernel.body)
            if one.name == "while" and within > Level.UNIT
        ]
        assert loops
        assert min(loops) >= Level.PLANE


W = (6, 6)


def test_first_choices_follow_the_model():
    """Few samples and float32 go by units; a product that fills a device goes step by step."""
    step = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W, dtype="float32")
    cell = cell_of(step.attributes["body"], 1, 1)
    wide = replace(INFO, cores=132)
    for samples in (1, 7, 32, 64):
        for features in (1, 6, 64, 200, 512, 1100):
            plans = unit_plans(cell, samples, features, wide)
            assert plans
            assert plans == sorted(plans, key=lambda pair: pair[0])
            for _, plan in plans:
                cubes = -(-features // plan.features)
                assert plan.waits == (cubes > 1)
                assert not plan.waits or cubes * plan.groups(samples) <= wide.cores
                assert plan.shared_bytes <= wide.shared_bytes
                assert plan.across * plan.own >= plan.features
                assert plan.across * plan.lanes <= plan.units <= wide.max_units
                assert plan.pitch >= plan.terms
    assert not unit_plans(cell, 20, 8000, wide)
    assert isinstance(lowering.scan(scan_of(*_LARGE, dtype="float32", carry=(2048, 6))), Refusal)


def test_a_launch_has_no_more_arguments_than_a_device_passes():
    step = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W, dtype="float32")
    answer = lowering.scan(replace(step, info=replace(INFO, arguments=6)))
    assert isinstance(answer, Refusal)
    assert "6" in answer.reason


_LARGE = (lambda h, x, w: calor.tanh(h @ w + x), W)


@pytest.mark.parametrize("name", CELLS)
def test_small_layers_are_one_cube_for_some_samples(name):
    graph, _ = traced(name, "float32", 2, 2, 32, False, True)
    for node in (one for one in graph.nodes if one.op.name == "scan"):
        cell = cell_of(*(node.attributes[k] for k in ("body", "carries", "captures")))
        _, first = unit_plans(cell, 2, 32, replace(INFO, cores=132))[0]
        assert not first.waits
        assert first.samples == 1
        for samples in (9, 100):
            for _, plan in unit_plans(cell, samples, 32, replace(INFO, cores=132)):
                # Sums are halved with each exchange.
                assert plan.items.bit_count() == plan.lanes.bit_count() == 1
                assert plan.blocks * plan.at_once == plan.samples


def test_only_cubes_that_wait_have_flags():
    step = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W, dtype="float32")
    for work in lowering.scan(replace(step, candidates=True)):
        (launch,) = work.launches
        flags = any(isinstance(one, Flags) for one in launch.arguments)
        assert flags == launch.alone == bool(work.scratch)
