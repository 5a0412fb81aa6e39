"""Graphs of one structure at many sizes: equal to plans made anew, with no kernel of their own."""

from dataclasses import replace
from operator import is_

import numpy as np
import pytest

import calor
from calor import nn
from calor.backends.device import device_of
from calor.dtypes import float32
from calor.errors import ElementIndexError
from calor.graph.attributes import HostArray
from calor.ops.base import find
from calor.specs import spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT, LanesDevice
from calor_kernel.planning.replanning import Replanning, Resized
from calor_kernel.planning.template import Template
from calor_kernel.runtime.backend import KernelBackend

F = nn.functional
W = np.random.default_rng(1).standard_normal((24, 40), np.float32)
ROWS = np.random.default_rng(3).standard_normal((16, 16, 4), np.float32)
KERNEL = np.random.default_rng(2).standard_normal((6, 3, 3, 3), np.float32)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# What is computed, and its arguments for two sizes.
CASES = {
    "chain": (lambda x: calor.tanh(x * 2.0 + 1.0) - calor.abs(x), lambda n, m: [floats(n, m)]),
    "broadcast": (
        lambda x, y: (x + y) * x[:, 1:2],
        lambda n, m: [floats(n, m), floats(1, m)],
    ),
    "transposed": (lambda x: x.T + 1.0, lambda n, m: [floats(n, m)]),
    "slices": (lambda x: x[1:, ::2] * 2.0 + x[:-1, ::2], lambda n, m: [floats(n, m)]),
    "backwards": (lambda x: calor.flip(x, axis=0) * 2.0, lambda n, m: [floats(n, m)]),
    "turned": (lambda x: calor.flip(x, axis=0), lambda n, m: [floats(n, m)]),
    # Terms whose sums no order rounds: a template may keep the order of an earlier size.
    "sums": (
        lambda x: (x.sum(axis=0), x.mean(axis=1), x.max()),
        lambda n, m: [np.rint(16 * floats(n, m))],
    ),
    "softmax": (lambda x: F.softmax(x, axis=-1), lambda n, m: [floats(n, m)]),
    "linear": (lambda x, w: F.relu(x @ w.T), lambda n, m: [floats(n, 40), W]),
    "product": (lambda x, y: x @ y, lambda n, m: [floats(n, m), floats(m, n)]),
    "few rows": (lambda x, y: x @ y.T, lambda n, m: [floats(2, 32), floats(9 * m, 32)]),
    "streams": (lambda x, y: x @ y, lambda n, m: [floats(1, m), floats(m, 9 * n)]),
    "outer sums": (lambda x: x.sum(axis=(0, 2)), lambda n, m: [floats(n, 3, m)]),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        lambda n, m: [floats(1, 6, n, m), KERNEL],
    ),
    "convolution": (
        lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1), 2),
        lambda n, m: [floats(n, 3, m + 2, 6), KERNEL],
    ),
    "rows of few pixels": (
        lambda x, w: F.conv1d(F.conv1d(x, w[:, :, :3], padding=1), w, stride=4),
        lambda n, m: [floats(n + m, 16, 4), ROWS],
    ),
    "attention": (
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda n, m: [floats(2, n, 8)],
    ),
    "gather": (
        lambda x, i: x[i] * 2.0,
        lambda n, m: [floats(30, m), np.arange(n) % 30],
    ),
    "joined": (
        lambda x, y: calor.concat([x, y * 2.0], axis=0),
        lambda n, m: [floats(n, m), floats(m, m)],
    ),
    "ramp": (lambda x: x * calor.arange(x.shape[0]), lambda n, m: [floats(n)]),
    "share": (lambda x: x / x.size + 1 / x.shape[0], lambda n, m: [floats(n, m)]),
}
SIZES = [(5, 7), (6, 9), (7, 11), (17, 33), (8, 1), (18, 20), (40, 16)]


def graph_of(function, arrays):
    with calor.device("numpy"):
        return calor.trace(function, *map(calor.asarray, arrays))


def run(backend, graph, arrays, calls=1):
    executable = backend.compile(0, graph)
    given = []
    for i in graph.inputs:
        array = arrays[i] if i < len(arrays) else None
        assert array is not None
        given.append(backend.upload(0, np.ascontiguousarray(array)))
    for _ in range(calls):
        made = executable(given)
    return [
        np.array(backend.download(0, b, s)) for b, s in zip(made, graph.output_specs, strict=True)
    ]


INFOS = {"one unit": ONE_UNIT, "many units": MANY_UNITS}


def backend_of(info):
    made = KernelBackend("lanes", lambda index: LanesDevice(info, checks=False))
    device_of(made, 0)
    return made


@pytest.fixture(scope="module", params=INFOS)
def backend(request):
    return backend_of(INFOS[request.param])


@pytest.mark.parametrize("name", CASES)
def test_each_size_gives_what_a_plan_made_anew_gives(backend, name):
    function, arguments = CASES[name]
    engine = backend.engine(0)
    replanning = engine.replanning = Replanning(engine)
    for n, m in SIZES:
        arrays = arguments(n, m)
        graph = graph_of(function, arrays)
        assert not backend.claim(0, graph).reasons
        found = run(backend, graph, arrays)
        engine.replanning = Replanning(engine)
        wanted = run(backend, graph, arrays)
        engine.replanning = replanning
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{name} at {n}, {m}")
    assert replanning.made
    assert replanning.used


def test_errors_tell_the_size_of_the_call(backend):
    engine = backend.engine(0)
    replanning = engine.replanning = Replanning(engine)
    for size in (7, 9, 11, 13):
        arrays = [floats(5, size), np.full((5, 2), size)]
        graph = graph_of(lambda x, i: calor.take_along_axis(x, i, axis=1) + 1.0, arrays)
        assert not backend.claim(0, graph).reasons
        with pytest.raises(ElementIndexError, match=f"axis 1 of size {size};") as caught:
            run(backend, graph, arrays)
        assert caught.value.size == size
    assert replanning.used


@pytest.mark.parametrize(
    ("info", "name", "variant"),
    [
        ("one unit", "product", "lower tiles"),
        ("one unit", "product", "b packed"),
        ("one unit", "linear", "vectors 1"),
        ("one unit", "few rows", "dots 2x4"),
        ("one unit", "streams", "streams 4x2"),
        ("many units", "product", "tiled"),
    ],
)
def test_what_was_tuned_is_planned_at_other_sizes(info, name, variant, monkeypatch):
    function, arguments = CASES[name]
    engine = (backend := backend_of(INFOS[info])).engine(0)
    taken = []

    def stored(task):
        taken.append(next((w for w in task.works if w.variant == variant), task.works[0]))
        return taken[-1]

    monkeypatch.setattr(engine.tuner, "choose", stored)
    products = ("dot_general", "product_chain")
    monkeypatch.setattr(engine.lowerings, "wants", lambda op: op in products)
    monkeypatch.setattr(engine.tuner, "wants", lambda op: op in products)
    for n, m in SIZES:
        arrays = arguments(n, m)
        graph = graph_of(function, arrays)
        assert not backend.claim(0, graph).reasons
        (found,) = run(backend, graph, arrays)
        with calor.device("numpy"):
            wanted = np.asarray(function(*map(calor.asarray, arrays)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert sum(work.variant == variant for work in taken) >= 2
    assert engine.replanning.used


def late(array):
    """Return an array that is a node of a trace, and no operand."""
    return find("constant")(array=HostArray.of(np.asarray(array)), weak=False)


# Ops whose cubes count how many of them are done, and the shapes of a template and of its plans.
COUNTING = {
    "best": (lambda x: calor.argmax(x, axis=1), [(2, 1100), (2, 1030), (3, 1040), (20, 1100)]),
    "best beside constants": (
        lambda x: calor.argmax(x, axis=1) * 2 + late(np.arange(x.shape[0])) * late([3]),
        [(2, 1100), (2, 1030), (3, 1040), (20, 1100)],
    ),
}


@pytest.mark.parametrize("name", COUNTING)
def test_flags_are_zero_however_many_a_plan_of_a_template_has(name):
    function, shapes = COUNTING[name]
    backend = backend_of(replace(MANY_UNITS, cores=64))
    engine = backend.engine(0)
    for turn in range(2):
        for number, shape in enumerate(shapes):
            # What is left in idle memory: numbers that count cubes beyond all.
            held = [backend.upload(0, np.full(64 << n, -1, np.int8)) for n in range(5)]
            del held
            x = np.random.default_rng([turn, number]).integers(-8, 9, shape).astype(np.float32)
            graph = graph_of(function, [x])
            assert not backend.claim(0, graph).reasons
            (found,) = run(backend, graph, [x], calls=2)
            with calor.device("numpy"):
                wanted = np.asarray(function(calor.asarray(x)))
            np.testing.assert_array_equal(found, wanted, err_msg=f"{shape}")
    assert engine.replanning.used
    flags = {one.template.base.flags for one in known_templates(engine)}
    assert any(not isinstance(n, int) for n in flags), "no template has flags of any number"


@pytest.mark.parametrize("beside", [True, False], ids=["an operand too", "constants alone"])
def test_what_is_prepared_of_constants_is_not_that_of_other_graphs(beside):
    linear, arguments = CASES["linear"]
    backend = backend_of(ONE_UNIT)
    engine = backend.engine(0)
    for n in (40, 41, 42):
        arrays = arguments(n, 5)[: 1 + beside]
        for own in (W, W[::-1] * 2):

            def function(x, *w, own=own):
                return sum(linear(x, one) for one in (*w, late(own)))

            graph = graph_of(function, arrays)
            assert not backend.claim(0, graph).reasons
            (found,) = run(backend, graph, arrays, calls=2)
            with calor.device("numpy"):
                wanted = np.asarray(function(*map(calor.asarray, arrays)))
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    templates = known_templates(engine)
    assert templates
    # What is prepared of constants alone is not kept, so there is nothing to watch.
    assert all((one.sized_keeper is not None) is beside for one in templates)


def test_what_a_template_has_no_recording_for_is_planned_anew(backend, monkeypatch):
    function, arguments = CASES["ramp"]
    engine = backend.engine(0)
    engine.replanning = Replanning(engine)
    for n in (5, 6, 7):
        (x,) = arguments(n, n)
        executable = backend.compile(0, graph_of(function, [x]))
    assert isinstance(executable, Resized)
    monkeypatch.setattr(Template, "record", lambda template, targets, symbols: None)
    for _ in range(2):
        given = backend.upload(0, x.copy())
        (made,) = executable([given], [given])
        assert made is given
        found = backend.download(0, made, spec((7,), float32))
        np.testing.assert_allclose(found, x * np.arange(7), rtol=1e-6)


def known_templates(engine):
    return [one for known in engine.replanning._structures.values() for one in known.templates]


# How many kernels the second size may bring: a product's has tiles of another height.
SECOND = {"chain": 0, "softmax": 0, "product": 1, "attention": 0}


@pytest.mark.parametrize("info", INFOS.values(), ids=INFOS)
@pytest.mark.parametrize("name", SECOND)
def test_later_sizes_of_a_kind_bring_no_kernel(name, info):
    function, arguments = CASES[name]
    backend = backend_of(info)
    engine = backend.engine(0)
    counts = []
    for n in (33, 35, 37, 39, 41):
        graph = graph_of(function, arguments(2 * n, 3 * n))
        backend.compile(0, graph)
        counts.append(engine.kernels.compiled + engine.kernels.found)
    assert counts[1] - counts[0] <= SECOND[name]
    assert counts[2:] == counts[1:2] * 3
    assert engine.replanning.used >= 2


def test_results_in_place_and_numbers_of_constants_follow_the_size(backend):
    engine = backend.engine(0)
    replanning = engine.replanning = Replanning(engine)
    for n in (5, 6, 7, 9, 12):
        x = floats(n, 4)
        graph = graph_of(lambda x: (x - x.mean(), calor.exp(x) / x.size), [x])
        executable = backend.compile(0, graph)
        given, apart = backend.upload(0, x), backend.upload(0, x)
        made = executable([given], into=[given, None])
        fresh = executable([apart])
        for into, plain, known in zip(made, fresh, graph.output_specs, strict=True):
            a, b = backend.download(0, into, known), backend.download(0, plain, known)
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(b, np.exp(x) / x.size, rtol=1e-6)
    assert replanning.used >= 2


def test_a_constant_of_the_same_bytes_may_have_another_shape(backend):
    engine = backend.engine(0)
    replanning = engine.replanning = Replanning(engine)

    def function(x):
        return x + calor.arange(x.shape[0])[:, None] * calor.zeros(x.shape)

    for n, m in ((5, 7), (7, 5), (6, 9), (9, 6), (3, 8)):
        x = floats(n, m)
        (found,) = run(backend, graph_of(function, [x]), [x])
        np.testing.assert_array_equal(found, x)
    assert replanning.used


def test_a_plan_that_is_called_often_is_made_anew(backend):
    engine = backend.engine(0)
    engine.replanning = Replanning(engine)
    for n in (6, 8, 10):
        x = floats(n, 5)
        (found,) = run(backend, graph_of(lambda x: x * 3.0, [x]), [x], calls=20)
        np.testing.assert_array_equal(found, x * np.float32(3))
    assert engine.replanning.used == 1


@pytest.mark.parametrize("name", ["chain", "slices", "convolution", "ramp", "share"])
def test_a_plan_knows_its_graph_without_holding_it(backend, name):
    function, arguments = CASES[name]
    engine = backend.engine(0)
    engine.replanning = Replanning(engine)
    for n, m in ((17, 33), (18, 20), (19, 22), (21, 30)):
        graph = graph_of(function, arguments(n, m))
        plan = backend.compile(0, graph)
        assert plan.graph == graph
        assert all(map(is_, plan.graph.specs, graph.specs))
    assert engine.replanning.used


def test_memory_for_sizes_is_bounded(backend, monkeypatch):
    monkeypatch.setattr("calor_kernel.planning.replanning._STRUCTURES", 4)
    engine = backend.engine(0)
    replanning = engine.replanning = Replanning(engine)
    for rank in range(1, 7):
        for n in (3, 4, 5):
            backend.compile(0, graph_of(lambda x: x + 1.0, [floats(*(n,) * rank)]))
    assert len(replanning._structures) == 4
    assert replanning.used == 6


def _complex(n):
    rng = np.random.default_rng(n)
    return (rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n))).astype(np.complex64)


# Functions with two constant numbers, and their argument for a size.
SCALED = {
    "inverse transform": (lambda x, a, b: calor.fft.irfft(x, norm="forward") * a + b, _complex),
    "padded": (
        lambda x, a, b: calor.fft.rfft(calor.pad(x, ((0, 0), (0, 3)), value=a)) * b,
        lambda n: floats(3, n),
    ),
}


@pytest.mark.parametrize("name", SCALED)
def test_numbers_in_which_graphs_differ_are_in_no_plan_of_them_all(backend, name):
    function, argument = SCALED[name]
    engine = backend.engine(0)
    engine.replanning = Replanning(engine)
    for n, a, b in ((5, 2.0, 2.0), (4, 3.0, 3.0), (4, 0.5, 4.0), (6, 0.0, 1.0), (4, 3.0, 0.25)):
        x = argument(n)

        def scaled(x, a=a, b=b):
            return function(x, a, b)

        graph = graph_of(scaled, [x])
        executable = backend.compile(0, graph)
        given = backend.upload(0, x)
        with calor.device("numpy"):
            wanted = scaled(calor.asarray(x)).numpy()
        (made,), (known,) = executable([given]), graph.output_specs
        found = backend.download(0, made, known)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert engine.replanning.used
