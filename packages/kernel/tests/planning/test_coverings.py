"""Coverings on disk: equal to those that are searched, and known by all that they depend on."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.graph.graph import Graph, Node
from calor_interpreter.device import MANY_UNITS
from calor_kernel.contract.fuser import Fuser, Group
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser
from calor_kernel.planning.coverings import COVERINGS, Coverings
from calor_kernel.planning.planner import cover

FUSERS = (ElementwiseFuser(), RowFuser())


def softmaxes(layers):
    """Return a graph with rows and chains in each layer."""
    x = calor.ones((8, 32))

    def network(x):
        for n in range(layers):
            x = calor.softmax(calor.tanh(x * (n + 2)) + x, axis=1) * calor.exp(x) - x / 3
        return x, calor.sum(x, axis=0)

    return calor.trace(network, x)


def pairs(units):
    """Return units with what a plan takes of them, comparable."""
    return [
        (u.nodes, u.op, u.inputs, u.outputs, u.cost, u.spare, dict(u.attributes))
        if isinstance(u, Group)
        else u
        for u in units
    ]


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CALOR_CACHE", "1")
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    return tmp_path / COVERINGS


def coverings(fusers=FUSERS, info=MANY_UNITS):
    searched = []
    made = Coverings(info, fusers, lambda: searched.append(True))
    return made, searched


@pytest.mark.parametrize("layers", [8, 24])
def test_a_covering_on_disk_is_the_one_that_is_searched(cache, layers):
    graph = softmaxes(layers)
    first, searched = coverings()
    wanted = pairs(cover(graph, FUSERS, MANY_UNITS))
    assert pairs(first.of(graph)) == wanted
    assert (first.found, searched) == (0, [True])
    second, searched = coverings()
    assert pairs(second.of(softmaxes(layers))) == wanted
    assert (second.found, searched) == (1, [])
    assert any(isinstance(unit, Group) for unit in second.of(graph))


def test_a_small_graph_is_searched(cache):
    made, searched = coverings()
    made.of(softmaxes(1))
    assert searched == []
    assert not cache.exists()


def test_nothing_is_kept_without_a_cache(cache, monkeypatch):
    monkeypatch.setenv("CALOR_CACHE", "0")
    made, searched = coverings()
    made.of(softmaxes(8))
    assert made.key(softmaxes(8)) is None
    assert searched == [True]
    assert not cache.exists()


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], lambda data: b"[0]"])
def test_a_damaged_covering_is_made_anew(cache, damage):
    graph = softmaxes(8)
    first, _ = coverings()
    wanted = pairs(first.of(graph))
    first._cache.storage.write(
        first.key(graph), damage(first._cache.storage.read(first.key(graph)))
    )
    second, searched = coverings()
    assert pairs(second.of(graph)) == wanted
    assert (second.found, searched) == (0, [True])


def with_attribute(graph, value):
    """Return the graph with an attribute of its first node changed."""
    first = graph.nodes[0]
    changed = Node(first.op, first.inputs, {**first.attributes, "given": value}, first.outputs)
    nodes = (changed, *graph.nodes[1:])
    return Graph(graph.specs, graph.host, nodes, graph.outputs, len(graph.inputs))


VALUES = [
    *(1, 1.0, True, 0.0, -0.0, float("nan"), "1", b"1", None, (), (1,), (1.0,), ((1,),), ("1",)),
    *(calor.float32, calor.bfloat16, ("dtype", "float32")),
    *(calor.graph.attributes.Scalar.of(v, d) for v, d in ((1, "int8"), (1, "int16"), (2, "int8"))),
    *(calor.graph.attributes.HostArray.of(np.full(n, v)) for n, v in ((2, 0.0), (2, -0.0), (3, 0))),
]


def test_graphs_that_differ_have_other_keys(cache):
    made, _ = coverings()
    graph = softmaxes(8)
    x = calor.ones((8, 32))
    others = [
        *(with_attribute(graph, value) for value in VALUES),
        softmaxes(9),
        Graph(graph.specs, graph.host, graph.nodes, graph.outputs[:1], len(graph.inputs)),
        Graph(graph.specs, {0}, graph.nodes, graph.outputs, len(graph.inputs)),
        *(calor.trace(f, x) for f in (calor.tanh, calor.exp)),
        *(calor.trace(calor.tanh, x.astype(d)) for d in ("float64", "float16")),
        calor.trace(calor.tanh, calor.ones((32, 8))),
    ]
    keys = [made.key(one) for one in (graph, *others)]
    assert None not in keys
    assert len({*keys}) == len(keys)
    assert made.key(softmaxes(8)) == keys[0]


class Set(Fuser):
    """Has a setting."""

    name = "set"

    def __init__(self, most):
        self.most = most

    def groups(self, graph, info):
        return ()


def test_devices_and_fusers_have_keys_of_their_own(cache):
    graph = softmaxes(8)
    settings = [
        coverings(),
        coverings(FUSERS[:1]),
        coverings(FUSERS[::-1]),
        coverings((*FUSERS, Set(1))),
        coverings((*FUSERS, Set(2))),
        coverings(info=replace(MANY_UNITS, cores=MANY_UNITS.cores + 1)),
    ]
    keys = {made.key(graph) for made, _ in settings}
    assert len(keys) == len(settings)
    assert coverings((*FUSERS, Set(lambda: 1)))[0].key(graph) is not None
    assert coverings((*FUSERS, Set(object())))[0].key(graph) is None


def test_another_process_has_the_same_keys(cache):
    made, _ = coverings()
    script = (
        f"import runpy; found = runpy.run_path({__file__!r})\n"
        "print(found['coverings']()[0].key(found['softmaxes'](8)))"
    )
    paths = os.pathsep.join(filter(None, sys.path))
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [made.key(softmaxes(8))]
