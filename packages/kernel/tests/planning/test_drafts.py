"""Planned graphs on disk: equal to those that are planned, and known by all that they depend on."""

import pickle

import numpy as np
import pytest

import calor
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.contract import ways
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning.drafts import DRAFTS
from calor_kernel.runtime.backend import KernelBackend

FUSERS = (ElementwiseFuser(), RowFuser())


def softmaxes(layers, width=32):
    """Return a graph with rows, chains and products in each layer."""

    def network(x):
        for n in range(layers):
            x = calor.softmax(calor.tanh(x * (n + 2)) + x, axis=1) * calor.exp(x) - x / 3
        return x, calor.sum(x, axis=0), calor.argsort(x, axis=1), x.T @ x

    return calor.trace(network, calor.ones((8, width)))


@pytest.fixture(autouse=True)
def plans_of_before():
    """Find graphs that were planned before."""


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CALOR_CACHE", "1")
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    return tmp_path / DRAFTS


@pytest.fixture
def opened():
    made = []

    def open_one(fusers=FUSERS, info=MANY_UNITS):
        made.append(KernelBackend("lanes", lambda index: LanesDevice(info), fusers=fusers))
        return made[-1]

    yield open_one
    for backend in made:
        backend.close()


def launched(plan):
    """Return the launches of a plan, comparable: their kernels, cubes and arguments."""
    return [
        (la.op, la.launch, step.arguments)
        for launches, steps in zip(
            plan.base.recording.launches, plan.base.recording.steps, strict=True
        )
        for la, step in zip(launches, steps, strict=True)
    ]


def compiled(backend, graph):
    """Return the plan of a graph, asked for as core asks."""
    assert not backend.claim(0, graph).reasons
    return backend.compile(0, graph)


def test_a_stored_plan_is_the_one_that_is_planned(cache, opened):
    x = np.linspace(-2, 2, 256, dtype=np.float32).reshape(8, 32)
    found = []
    for known in (0, 1):
        backend = opened()
        plan = compiled(backend, softmaxes(8))
        engine = backend.engine(0)
        assert engine.drafts.found == known
        assert bool(engine.lowerings._memo) is not bool(known)
        results = plan([backend.upload(0, x)])
        specs = plan.graph.output_specs
        arrays = [backend.download(0, b, s) for b, s in zip(results, specs, strict=True)]
        tasks = [(t.op, t.covers, t.attributes, t.results) for t in plan.draft.tasks]
        found.append((launched(plan), tasks, plan.graph, [a.tobytes() for a in arrays]))
    assert found[0] == found[1]


def test_a_known_graph_is_learnt_at_other_sizes(cache, opened):
    learnt = []
    for known in (0, 1):
        backend = opened()
        for width in (32, 40, 48):
            plan = compiled(backend, softmaxes(8, width))
            assert plan.graph.input_specs[0].shape == (8, width)
        engine = backend.engine(0)
        assert engine.drafts.found == known
        learnt.append((engine.replanning.made, engine.replanning.used))
    assert learnt[0] == learnt[1] > (0, 0)


def test_small_graphs_are_planned(cache, opened):
    compiled(opened(), softmaxes(1))
    assert not cache.exists()


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], lambda data: b"N."])
def test_a_damaged_plan_is_made_anew(cache, opened, damage):
    graph = softmaxes(8)
    compiled(opened(), graph)
    drafts = opened().engine(0).drafts
    key = drafts.key(graph)
    drafts._cache.storage.write(key, damage(drafts._cache.storage.read(key)))
    backend = opened()
    assert launched(compiled(backend, graph)) == launched(compiled(opened(), graph))
    assert backend.engine(0).drafts.found == 0


def test_what_plans_depend_on_is_in_their_keys(cache, opened, monkeypatch):
    graph = softmaxes(8)

    def key(**given):
        return opened(**given).engine(0).drafts.key(graph)

    keys = [key(), key(fusers=FUSERS[:1])]
    for name, value in (("DETERMINISTIC", "1"), ("BESIDE", "0"), ("TUNE", "off")):
        with monkeypatch.context() as patch:
            patch.setenv(f"CALOR_{name}", value)
            keys.append(key())
    tuned = opened().engine(0)
    tuned.tuner.lines.put("matmul(8)", {"work": "squares", "seconds": 1.0, "first": 2.0})
    keys.append(tuned.drafts.key(graph))
    assert None not in keys
    assert len({*keys}) == len(keys)
    assert key() == keys[-1]


def test_nothing_is_kept_while_candidates_are_timed(cache, opened):
    engine = opened().engine(0)
    with engine.tuning(1.0):
        assert engine.drafts.key(softmaxes(8)) is None
    assert engine.drafts.key(softmaxes(8)) is not None


@pytest.mark.parametrize("mode", ["on", "dry"])
def test_nothing_is_kept_by_modes_that_time(cache, opened, monkeypatch, mode):
    monkeypatch.setenv("CALOR_TUNE", mode)
    assert opened().engine(0).drafts.key(softmaxes(8)) is None


def test_ways_are_kept_by_their_names(cache, opened):
    """Rows of tables have functions of functions, which have no persistent name."""
    backend = opened()
    plan = compiled(backend, softmaxes(8))
    known = {w.way.name for w in plan.works if isinstance(w.way, ways.Way)}
    assert known
    again = compiled(opened(), softmaxes(8))
    assert {w.way for w in again.works if w.way is not None} == known
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(ways.Way("local", lambda problem, request: None, lambda problem, request: []))
