"""Is the step of a scan of one step a part of the graph around it, with the same numbers?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.planning.compiling import compile_graph, without_single_steps
from calor_kernel.planning.plan import Plan
from calor_kernel.planning.single_steps import has_single_steps, single_steps
from calor_kernel.runtime.backend import KernelBackend

WIDTH = 3


def by_host(graph, node):
    return True


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer(rows, start, weights, reverse):
    def step(carry, row):
        hidden, count = carry
        made = calor.tanh(hidden @ weights + row)
        return (made, count + 1), (hidden * 2, calor.sum(made, axis=-1))

    first = start, calor.zeros((), dtype="int32")
    return calor.scan(step, first, rows, reverse=reverse)


def traced(function, *arrays):
    with calor.device("numpy"):
        return calor.trace(function, *map(calor.asarray, arrays))


def names(graph):
    return [node.op.name for node in graph.nodes]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_step_makes_its_carries_and_rows(reverse):
    arrays = [numbers(1, 2, WIDTH), numbers(2, WIDTH, seed=1), numbers(WIDTH, WIDTH, seed=2)]
    graph = traced(lambda *given: layer(*given, reverse), *arrays)
    joined = single_steps(graph, by_host)
    assert "scan" in names(graph)
    assert "scan" not in names(joined)
    assert joined.output_specs == graph.output_specs
    for one, two in zip(interpret(joined, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(one, two)


def test_gradients_of_a_step_keep_the_carries_before_it():
    def loss(rows, start, weights):
        (last, _), (doubled, _) = layer(rows, start, weights, False)
        return calor.sum(last**2) + calor.sum(doubled)

    arrays = [numbers(1, 2, WIDTH), numbers(2, WIDTH, seed=1), numbers(WIDTH, WIDTH, seed=2)]
    graph = traced(calor.grad(loss, argnums=(0, 1, 2)), *arrays)
    assert any(node.attributes.get("keep") for node in graph.nodes)
    joined = single_steps(graph, by_host)
    assert "scan" not in names(joined)
    for one, two in zip(interpret(joined, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_scans_within_a_step_are_joined_too():
    def function(rows, start):
        def outer(carry, row):
            return calor.scan(lambda c, x: (c + x, None), carry, row)[0], carry

        return calor.scan(outer, start, rows)

    arrays = [numbers(1, 1, WIDTH), numbers(WIDTH, seed=1)]
    joined = single_steps(traced(function, *arrays), by_host)
    assert "scan" not in names(joined)
    np.testing.assert_array_equal(interpret(joined, arrays)[0], arrays[0][0, 0] + arrays[1])


def test_several_steps_and_those_that_a_device_runs_keep_their_scans():
    start, weights = numbers(2, WIDTH, seed=1), numbers(WIDTH, WIDTH, seed=2)
    one, two = (
        traced(lambda *given: layer(*given, False), numbers(length, 2, WIDTH), start, weights)
        for length in (1, 2)
    )
    assert single_steps(two, by_host) is two
    assert single_steps(one, lambda graph, node: False) is one
    assert has_single_steps(one, by_host)
    assert not has_single_steps(one, lambda graph, node: False)
    for features, left in ((frozenset(), 1), (frozenset(("repeats",)), 2)):
        info = replace(ONE_UNIT, features=ONE_UNIT.features - {"repeats"} | features)
        backend = KernelBackend("single", lambda index, info=info: LanesDevice(info, checks=False))
        made = [without_single_steps(backend.engine(0), graph) for graph in (one, two)]
        assert sum("scan" in names(graph) for graph in made) == left


def test_a_device_runs_a_step_in_one_plan():
    arrays = [numbers(1, 2, WIDTH), numbers(2, WIDTH, seed=1), numbers(WIDTH, WIDTH, seed=2)]
    graph = traced(lambda *given: layer(*given, False), *arrays)
    backend = KernelBackend("single", lambda index: LanesDevice(ONE_UNIT, checks=False))
    assert type(compile_graph(backend.engine(0), graph)) is Plan
