"""Does a scan around one product, as one launch, compute what its steps do?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract.work import LOWERINGS, Flags, Refusal, Request, View
from calor_kernel.language.matrices import lane_places, mma_16x8
from calor_kernel.library.recurrence import lowering
from calor_kernel.library.recurrence import plan as plan_module
from calor_kernel.library.recurrence.cell import cell_of
from calor_kernel.library.recurrence.plan import cycles_of, place_in, plans_of
from calor_kernel.planning.plan import Plan
from calor_kernel.runtime.backend import KernelBackend

INFO = replace(
    MANY_UNITS,
    planes=(32,),
    max_units=1024,
    max_cube=(1024, 1024, 64),
    shared_bytes=227 << 10,
    cores=3,
)


def lstm(x, carry, weight, bias):
    h, c = carry
    i, f, g, o = calor.chunk(x + h @ weight.T, 4, axis=-1)
    c = calor.sigmoid(f) * c + calor.sigmoid(i) * calor.tanh(g)
    return calor.sigmoid(o) * calor.tanh(c), c


def gru(x, carry, weight, bias):
    (h,) = carry
    r, z, n = calor.chunk(x, 3, axis=-1)
    ur, uz, un = calor.chunk(h @ weight.T + bias, 3, axis=-1)
    z = calor.sigmoid(z + uz)
    n = calor.tanh(n + calor.sigmoid(r + ur) * un)
    return (n + z * (h - n),)


def plain(x, carry, weight, bias):
    (h,) = carry
    return (calor.relu(x + h @ weight + 0.5),)


# The step, the carries, and the blocks of a row of the input.
CELLS = {"lstm": (lstm, 2, 4), "gru": (gru, 1, 3), "plain": (plain, 1, 1)}
# The cell, dtype, length, samples, features, whether it runs backwards, whether gradients follow.
CASES = [
    ("lstm", "bfloat16", 5, 20, 13, False, True),
    ("lstm", "float32", 3, 17, 6, True, True),
    ("gru", "float16", 4, 3, 9, False, True),
    ("gru", "float32", 1, 1, 1, False, False),
    ("plain", "bfloat16", 2, 33, 40, True, True),
]


def traced(name, dtype, length, samples, features, reverse, trains):
    """Return the graph of a layer, or of its gradients, and arguments."""
    step, carries, blocks = CELLS[name]
    draw = np.random.default_rng(length)
    shapes = [(length, samples, blocks * features), (blocks * features, features)]
    shapes += [(blocks * features,), *[(samples, features)] * carries]

    def layer(x, weight, bias, *first):
        def body(carry, row):
            made = step(row, carry, weight, bias)
            return made, made[0]

        last, stack = calor.scan(body, first, x, reverse=reverse)
        return (stack, *last)

    def loss(*given):
        return sum(calor.sum(one.astype("float32") ** 2) for one in layer(*given))

    wanted = tuple(i for i in range(len(shapes)) if i != 2 or name == "gru")
    with calor.device("numpy"), calor.matmul_precision("high"):
        given = [
            calor.asarray(draw.standard_normal(s).astype(np.float32) / 2).astype(dtype)
            for s in shapes
        ]
        graph = calor.trace(calor.grad(loss, argnums=wanted) if trains else layer, *given)
        return graph, [one.numpy() for one in given]


def run(graph, arrays, info=INFO):
    backend = KernelBackend("lanes", lambda index: LanesDevice(info))
    made = backend.compile(0, graph)
    found = made([backend.upload(0, np.ascontiguousarray(a)) for a in arrays])
    pairs = zip(found, graph.output_specs, strict=True)
    return made, [np.array(backend.download(0, b, s)).astype(np.float64) for b, s in pairs]


@pytest.fixture
def by_matrices(monkeypatch):
    """Leave the plans by units out."""
    monkeypatch.setattr(lowering, "unit_plans", lambda *given: [])


def launched(control):
    """Return how many launches of an executable are whole scans."""
    stages = [stage for *_, stage in getattr(control, "stages", [(control,)])]
    plans = [stage for stage in stages if isinstance(stage, Plan)]
    every = [some for plan in plans for some in plan.base.recording.launches]
    return sum(one.launch.label == "recurrence" for some in every for one in some)


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_layers_are_those_of_steps(case, by_matrices):
    graph, arrays = traced(*case)
    made, found = run(graph, arrays)
    # A plan like any other, without stages that the host runs.
    assert isinstance(made, Plan)
    assert launched(made) == 1 + case[-1]
    close = 2e-2 if case[1] != "float16" else 2e-3
    for one, wanted in zip(found, interpret(graph, arrays), strict=True):
        wanted = wanted.astype(np.float64)
        assert np.linalg.norm(one - wanted) <= close * np.linalg.norm(wanted)
        assert wanted.any()


def masked(h, made, mask):
    return calor.where(mask, made, h)


# How a cell uses what it reads beside its rows: rows of that shape, and a capture of that shape, by
# samples and features.
READ = {
    "a column of a mask": (
        lambda h, x, w, row, kept: masked(h, calor.tanh(h @ w + x), row),
        lambda n, k: ((n, 1), bool),
        None,
    ),
    "a mask": (
        lambda h, x, w, row, kept: masked(h, calor.tanh(h @ w + x), row[:, None]),
        lambda n, k: ((n,), bool),
        None,
    ),
    "a step's number and lengths": (
        lambda h, x, w, row, kept: masked(h, calor.tanh(h @ w + x), (row < kept)[:, None]),
        lambda n, k: ((), np.int32),
        lambda n, k: ((n,), np.int32),
    ),
    "a context": (
        lambda h, x, w, row, kept: calor.tanh(h @ w + x) * kept[:, : h.shape[1]],
        None,
        lambda n, k: ((n, 2 * k), np.float32),
    ),
    "a factor of each sample": (
        lambda h, x, w, row, kept: calor.tanh((h * kept) @ w + x * kept),
        None,
        lambda n, k: ((n, 1), np.float32),
    ),
    "rows of a matrix": (
        lambda h, x, w, row, kept: calor.tanh(h @ w + x * kept[0]) + kept[1] * h,
        None,
        lambda n, k: ((2, k), np.float32),
    ),
}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("shape", [(2, 5), (6, 3), (4, 4)], ids=str)
@pytest.mark.parametrize("name", READ)
def test_cells_read_masks_and_contexts(name, shape, trains):
    if trains and shape != (2, 5):
        return
    step, row, kept = READ[name]
    draw, length = np.random.default_rng(1), 3

    def drawn(shape, dtype):
        if dtype is np.float32:
            return draw.standard_normal(shape).astype(dtype) / 2
        return (np.arange(np.prod(shape)).reshape(shape) % (2 if dtype is bool else 4)).astype(
            dtype
        )

    (samples, features), made, more = shape, row and row(*shape), kept and kept(*shape)
    kinds = [((samples, features), np.float32), ((length, samples, features), np.float32)]
    kinds += [((features, features), np.float32)]
    kinds += [((length, *made[0]), made[1])] if made else []
    kinds += [more] if more else []
    with calor.device("numpy"):
        given = [calor.asarray(drawn(*kind)) for kind in kinds]
        given = [one.astype("bfloat16") if one.dtype.kind == "float" else one for one in given]

        def layer(h, x, w, *others):
            rows = others[0] if made else None
            capture = others[-1] if more else None

            def body(h, given):
                made = step(h, given[0], w, given[1], capture)
                return made, made

            return calor.scan(body, h, (x, rows))

        def loss(*given):
            return sum(calor.sum(one.astype("float32") ** 2) for one in layer(*given))

        graph = calor.trace(calor.grad(loss, argnums=(0, 1, 2)) if trains else layer, *given)
        arrays = [one.numpy() for one in given]
    control, found = run(graph, arrays)
    assert launched(control) == 1 + trains
    for one, wanted in zip(found, interpret(graph, arrays), strict=True):
        wanted = wanted.astype(np.float64)
        assert np.linalg.norm(one - wanted) <= 2e-2 * np.linalg.norm(wanted)
        assert wanted.any()


# The registers of a unit for weights and sums, beside those of 15 further features; the tiles of
# terms with weights in registers, and of samples at once.
ROOMS = [(36, 3, 3), (24, 2, 2), (20, 3, 1), (12, 1, 1), (8, 0, 1)]


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_plans_with_little_room_are_right(room, monkeypatch, by_matrices):
    graph, arrays = traced("plain", "bfloat16", 3, 33, 40, False, False)
    made, found = lowering.plans_of, []

    def first(*given):
        found[:] = made(*given)[:1]
        return found

    monkeypatch.setattr(lowering, "plans_of", first)
    monkeypatch.setattr(plan_module, "_PLANES", {1: room[0] + 15 * 3})
    for one, two in zip(run(graph, arrays)[1], interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(one, two.astype(np.float64), rtol=2e-2, atol=5e-2)
    assert (found[0].held, found[0].at_once) == room[1:]


def test_scans_are_flows_where_no_launch_takes_them(monkeypatch):
    graph, arrays = traced("gru", "float16", 2, 2, 3, False, False)
    wanted = interpret(graph, arrays)
    apart = replace(INFO, features=INFO.features - {"planes"})
    other, more = run(graph, arrays, apart)
    assert not launched(other)
    monkeypatch.delitem(LOWERINGS, "scan")
    control, found = run(graph, arrays)
    assert not launched(control)
    for one, two, three in zip(found, more, wanted, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, three.astype(np.float64), rtol=1e-2, atol=1e-3)


def scan_of(step, *shapes, dtype="bfloat16", carry=(4, 6), length=3):
    """Return the request of a scan over rows, with weights as its captures."""
    with calor.device("numpy"):
        given = [calor.zeros(s, dtype=dtype) for s in shapes]
        first = calor.zeros(carry, dtype=dtype)
        rows = calor.zeros((length, *carry), dtype=dtype)

        def layer(first, rows, *weights):
            return calor.scan(lambda h, x: (step(h, x, *weights),) * 2, first, rows)

        graph = calor.trace(layer, first, rows, *given)
    (node,) = [node for node in graph.nodes if node.op.name == "scan"]
    views = tuple(View.dense(graph.specs[v]) for v in node.inputs)
    outputs = tuple(graph.specs[v] for v in node.outputs)
    return Request("scan", node.attributes, views, outputs, INFO)


W = (6, 6)
REFUSED = {
    "have 2 products": (lambda h, x, w, u: (h @ w + x) @ u, [W, W], (4, 6)),
    "no matrix that stays": (lambda h, x: h @ x, [], (6, 6)),
    "does not sum over features": (lambda h, x, w: calor.einsum("nk,nm->km", h, w), [W], (6, 6)),
    "a step computes sum": (lambda h, x, w: h @ w + calor.sum(x, axis=0), [W], (4, 6)),
    "a step computes permute": (lambda h, x, w: h @ w + x.T, [W], (6, 6)),
    "a part of a block": (
        lambda h, x, w: h @ w + calor.concat([x, x], axis=1)[:, 3:9],
        [W],
        (4, 6),
    ),
    "a value of": (
        lambda h, x, w: calor.concat([(h @ w)[:, 3:], (h @ w)[:, :3]], axis=1),
        [W],
        (4, 6),
    ),
    "no vector of its features": (
        lambda h, x, w, u: h @ w + u.reshape((4, 6)),
        [W, (1, 4, 6)],
        (4, 6),
    ),
    "samples by features": (lambda h, x, w: h @ w + x, [W], (6,)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_cell_is_refused_with_a_reason(reason):
    step, shapes, carry = REFUSED[reason]
    answer = lowering.scan(scan_of(step, *shapes, carry=carry))
    assert isinstance(answer, Refusal)
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": "int32"}, "real numbers"),
        ({"length": 0}, "empty"),
        ({"carry": (4000, 6)}, "do not hold"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(changes, reason):
    answer = lowering.scan(scan_of(lambda h, x, w: h @ w + x, W, **changes))
    assert isinstance(answer, Refusal)
    assert reason in answer.reason


def test_plans_hold_weights_and_have_a_cube_for_each_core():
    request = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W)
    cell = cell_of(request.attributes["body"], 1, 1)
    for cores in (1, 7, 132):
        for samples in (1, 16, 17, 64):
            for features in (1, 6, 650, 1024):
                info = replace(INFO, cores=cores)
                plans = plans_of(cell, samples, features, info)
                for plan in plans:
                    assert -(-features // plan.features) <= cores
                    assert plan.terms >= features
                    assert plan.turns * plan.units >= samples * plan.features
    assert plans_of(cell, 20, 650, replace(INFO, cores=132))
    assert not plans_of(cell, 20, 650, replace(INFO, cores=1))


# Microseconds of a step of an LSTM and of its gradient on an H200, by features and planes.
MEASURED = {
    ("bfloat16", 20, 650): ({(5, 4): 3.00, (5, 8): 3.18}, {(5, 8): 3.80, (10, 8): 3.81}),
    ("float32", 20, 650): ({(5, 8): 3.79, (5, 16): 4.31}, {(5, 16): 5.33, (5, 8): 5.48}),
    ("bfloat16", 64, 512): ({(4, 8): 4.03}, {(4, 8): 5.15, (8, 16): 5.47, (8, 8): 5.48}),
}


@pytest.mark.parametrize("case", MEASURED, ids=str)
def test_the_first_choice_is_the_fastest(case):
    dtype, samples, features = case
    graph, _ = traced("lstm", dtype, 1, samples, features, False, True)
    nodes = [node for node in graph.nodes if node.op.name == "scan"]
    for node, times in zip(nodes, MEASURED[case], strict=True):
        made = [node.attributes[name] for name in ("body", "carries", "captures")]
        cell = cell_of(*made)
        plans = plans_of(cell, samples, features, replace(INFO, cores=132))
        plan = min(plans, key=lambda one: cycles_of(one, cell, features))
        assert times[plan.features, plan.planes] <= 1.07 * min(times.values())


def test_candidates_begin_with_the_first_choice():
    request = scan_of(lambda h, x, w: calor.tanh(h @ w + x), W)
    first = lowering.scan(request)
    assert len(first) == 1
    more = lowering.scan(replace(request, candidates=True))
    assert more[0] == first[0]
    assert len({work.variant for work in more}) == len(more) > 1
    # Cubes of two launches that wait for each other would not run together.
    waits = [work for work in more if any(isinstance(a, Flags) for a in work.launches[0].arguments)]
    assert 0 < len(waits) < len(more)
    assert all(launch.alone for work in waits for launch in work.launches)


@pytest.mark.parametrize("dtype", [calor.bfloat16, calor.float32])
@pytest.mark.parametrize("side", ["a", "b"])
def test_elements_lie_where_lanes_hold_them(dtype, side):
    shape = mma_16x8(dtype)
    rows, columns = lane_places(shape, side)
    for lane in range(rows.shape[0]):
        for register in range(rows.shape[1]):
            row, column = int(rows[lane, register]), int(columns[lane, register])
            assert place_in(shape, side, row, column) == (lane, register)
