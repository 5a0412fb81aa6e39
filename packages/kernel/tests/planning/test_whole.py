"""Graphs with control flow whose stages are recorded as one list."""

from functools import partial

import numpy as np
import pytest

import calor
from calor.errors import DeviceError
from calor_kernel.planning import whole
from calor_kernel.planning.control import ControlPlan

from .parts_device import device_with_parts

WIDTH = 16
CALLS = 9


@pytest.fixture
def device():
    return device_with_parts("whole")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.3


def layers(table, weights, places, start, reverse):
    """Rows of a table through two scans, each with a part of the weights, and sums of all."""
    rows = calor.take(table, places, axis=0)

    def layer(weight, rows):
        def step(state, row):
            new = calor.tanh(row + calor.matmul(state, weight))
            return new, new * 2

        return calor.scan(step, start, rows, reverse=reverse)

    last, rows = layer(weights[0], rows[:, None] + 1)
    end, rows = layer(weights[1], rows - 1)
    return last, end, calor.sum(rows, axis=0), rows


def plain(table, weights, places, start, reverse):
    """The same in NumPy."""

    def layer(weight, rows):
        state, made = start, np.empty_like(rows)
        order = range(len(rows))
        for i in reversed(order) if reverse else order:
            state = np.tanh(rows[i] + state @ weight)
            made[i] = state * 2
        return state, made

    last, rows = layer(weights[0], table[places][:, None] + 1)
    end, rows = layer(weights[1], rows - 1)
    return last, end, rows.sum(0), rows


def arguments(length, seed):
    places = np.random.default_rng(seed).integers(0, 7, length).astype(np.int32)
    return numbers(7, WIDTH), numbers(2, WIDTH, WIDTH), places, numbers(1, WIDTH, seed=seed)


def compiled(backend, length, reverse=False):
    given = arguments(length, 0)
    with calor.device("numpy"):
        graph = calor.trace(partial(layers, reverse=reverse), *map(calor.asarray, given))
    return graph, backend.compile(0, graph)


def same(backend, graph, buffers, wanted):
    for buffer, spec, want in zip(buffers, graph.output_specs, wanted, strict=True):
        made = backend.download(0, buffer, spec)
        np.testing.assert_allclose(made, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [2, 5])
def test_one_list_gives_what_stages_give(device, length, reverse):
    backend = device.backend
    graph, executable = compiled(backend, length, reverse)
    weights = [backend.upload(0, a) for a in arguments(length, 0)[:2]]
    for seed in range(CALLS):
        given = arguments(length, seed)
        buffers = [*weights, *(backend.upload(0, a) for a in given[2:])]
        found = executable(buffers)
        same(backend, graph, found, plain(*given, reverse))
    assert executable.whole is not None
    assert executable.whole.fits(buffers)


def test_weights_that_are_replaced_are_read_anew(device):
    backend = device.backend
    graph, executable = compiled(backend, 4)
    for turn in range(4):
        given = list(arguments(4, turn))
        given[1] = numbers(2, WIDTH, WIDTH, seed=turn)
        buffers = [backend.upload(0, a) for a in given]
        for _ in range(CALLS):
            same(backend, graph, executable(buffers), plain(*given, False))


def test_prepared_weights_are_given_back(device):
    backend = device.backend
    graph, executable = compiled(backend, 4)
    given = arguments(4, 1)
    buffers = [backend.upload(0, a) for a in given]
    for _ in range(CALLS):
        executable(buffers)
    known = executable.whole
    assert known is not None
    executable.engine.pool.trim()
    assert not known.fits(buffers)
    for _ in range(CALLS):
        same(backend, graph, executable(buffers), plain(*given, False))
    assert executable.whole is not known
    assert executable.whole is not None


def test_an_op_that_fails_is_told_and_forgotten(device):
    backend = device.backend
    graph, executable = compiled(backend, 4)
    given = arguments(4, 1)
    buffers = [backend.upload(0, a) for a in given]
    for _ in range(CALLS):
        executable(buffers)
    assert executable.whole is not None
    wrong = [*buffers[:2], backend.upload(0, np.array([0, 1, 99, 2], np.int32)), buffers[3]]
    for _ in range(2):
        with pytest.raises(DeviceError, match="take|gather|index"):
            executable(wrong)
        same(backend, graph, executable(buffers), plain(*given, False))


def test_what_depends_on_data_runs_by_stages(device):
    backend = device.backend

    def halved(x):
        return calor.while_loop(lambda v: calor.max(v) > 1, lambda v: v / 2, x)

    with calor.device("numpy"):
        graph = calor.trace(halved, calor.asarray(numbers(4)))
    executable = backend.compile(0, graph)
    assert isinstance(executable, ControlPlan)
    for _ in range(CALLS):
        (found,) = executable([backend.upload(0, np.full(4, 6.0, np.float32))])
        assert backend.download(0, found, graph.output_specs[0]).tolist() == [0.75] * 4
    assert executable.whole is None


def test_what_is_large_runs_by_stages(device, monkeypatch):
    monkeypatch.setattr(whole, "_LAUNCHES", 4)
    backend = device.backend
    graph, executable = compiled(backend, 4)
    given = arguments(4, 1)
    for _ in range(CALLS):
        found = executable([backend.upload(0, a) for a in given])
        same(backend, graph, found, plain(*given, False))
    assert executable.whole is None
