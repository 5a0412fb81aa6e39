"""What the stages of graphs with control flow compute, and what waits between them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.graph.graph import Graph
from calor.graph.interpreter import interpret
from calor.graph.segments import Segment, cut
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.movement import MOVEMENTS
from calor_kernel.planning.parts import places_of
from calor_kernel.planning.stages import PARTS, PLANNED, stages_of
from calor_kernel.runtime.backend import KernelBackend

FLOWS = frozenset(("cond", "while_loop", "scan"))
ROWS, WIDTH = 6, 4


def loop(x: Any, weight: Any) -> Any:
    """Return the rows of a recurrent layer."""
    return calor.scan(lambda h, row: ((h + row) @ weight, h * 2), x[0], x)[1]


def program(seed: int, every: bool = False) -> Any:
    """Return a function of a matrix, a square matrix and a row, made of random steps.

    ``every``: whether all steps are results.
    """

    def run(x: Any, weight: Any, row: Any) -> list[Any]:
        drawn = np.random.default_rng(seed)
        values, rows = [x, loop(x, weight)], [row]
        for _ in range(14):
            one, other = (values[drawn.integers(len(values))] for _ in range(2))
            line = rows[drawn.integers(len(rows))]
            kind = drawn.integers(9)
            if kind < 2:
                values.append(loop(one, weight + line if kind else weight))
            elif kind == 2:
                values.append(one * other + 1)
            elif kind == 3:
                values.append(calor.broadcast_to(line, (ROWS, WIDTH)))
            elif kind == 4:
                values.append(calor.where(one > line, 1.0, 0.5) * line)
            elif kind == 5:
                rows.append(calor.sum(calor.exp(one * 0.1), axis=0))
            elif kind == 6:
                values.append(calor.flip(one, axis=0))
            elif kind == 7:
                values.append(calor.full((ROWS, WIDTH), 0.25))
            else:
                rows.append(calor.tanh(one.mT.reshape((ROWS, WIDTH))[2]) + line)
        return [*values[0 if every else -3 :], rows[-1], row * 0.9 + rows[-1]]

    return run


def arguments() -> list[Any]:
    shapes = (ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH,)
    drawn = np.random.default_rng(0)
    return [drawn.standard_normal(shape).astype(np.float32) * 0.3 for shape in shapes]


def traced(function: Any, *arrays: Any) -> Graph:
    with calor.device("numpy"):
        return calor.trace(function, *map(calor.asarray, arrays))


def run(graph: Graph, segments: list[Segment], given: list[Any]) -> list[Any]:
    """Run segments one after another."""
    values = dict(zip(graph.inputs, given, strict=True))
    for segment in segments:
        made = interpret(segment.graph, [values[v] for v in segment.inputs])
        values.update(zip(segment.outputs, made, strict=True))
    return [values[v] for v in graph.outputs]


def waiting(graph: Graph, segments: list[Segment]) -> list[int]:
    """Return the bytes that plans made and that wait behind each flow, without results."""
    own = {v for s in segments if s.colour == PLANNED for v in s.outputs} - {*graph.outputs}
    last = {v: n for n, s in enumerate(segments) for v in s.inputs}
    first = {v: n for n, s in enumerate(segments) for v in s.outputs}
    return [
        sum(graph.specs[v].nbytes for v in own if first[v] < n < last[v])
        for n, segment in enumerate(segments)
        if segment.colour not in (PLANNED, PARTS)
    ]


@pytest.mark.parametrize("align", [0, 64])
@pytest.mark.parametrize("seed", range(30))
def test_stages_compute_the_graph(seed: int, align: int) -> None:
    given = arguments()
    graph = traced(program(seed), *given)
    found, segments = stages_of(graph, FLOWS, places_of(graph, align))
    wanted = interpret(graph, given)
    for one, other in zip(run(found, segments, given), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    # Views and constants alone are there more than once.
    counts = [Counter(node.op.name for node in g.nodes) for g in (graph, found)]
    more = {name for name in counts[1] if counts[1][name] > counts[0][name]}
    assert more <= {*MOVEMENTS, "full", "constant", "iota"}


@pytest.mark.parametrize("seed", range(12))
def test_plans_of_stages_compute_the_graph(seed: int) -> None:
    """All steps are results, so a stage reads what the graph returns too."""
    device = device_of(
        KernelBackend("stages", lambda index: LanesDevice(ONE_UNIT, checks=False)), 0
    )
    given = arguments()
    found = []
    for place in (device, "numpy"):
        with calor.device(place):
            made = calor.jit(program(seed, every=True))(*map(calor.asarray, given))
            found.append([one.numpy() for one in made])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(30))
def test_flows_wait_for_no_more_bytes(seed: int) -> None:
    graph = traced(program(seed), *arguments())
    colours = [i if n.op.name in FLOWS else PLANNED for i, n in enumerate(graph.nodes)]
    before = cut(graph, colours)
    found, segments = stages_of(graph, FLOWS, ())
    assert len(segments) <= len(before)
    assert sum(waiting(found, segments)) <= sum(waiting(graph, before))


def names(segments: list[Segment]) -> list[list[str]]:
    return [[node.op.name for node in s.graph.nodes] for s in segments]


@pytest.mark.parametrize(
    ("made", "first", "last"),
    [
        # A mask of a loss, and the decay of a momentum, wait for their readers.
        pytest.param(lambda x, row: x > row, (), ("greater", "where"), id="mask"),
        pytest.param(lambda x, row: x * 0.9 > 0, (), ("mul", "greater"), id="chain"),
        # A bias that is spread is a view, and a constant is one of the stage that reads it.
        pytest.param(
            lambda x, row: calor.broadcast_to(row, x.shape) > 0, (), ("expand",), id="bias"
        ),
        # A sum of what is spread keeps fewer bytes than it reads.
        pytest.param(
            lambda x, row: calor.sum((x + row) ** 2, axis=0) > 0, (), ("sum", "greater"), id="sum"
        ),
    ],
)
def test_where_nodes_run(made: Any, first: tuple[str, ...], last: tuple[str, ...]) -> None:
    def run(x: Any, weight: Any, row: Any) -> Any:
        mask = made(x, row)
        return calor.where(mask, loop(x, weight), 0.0)

    graph = traced(run, *arguments())
    found = names(stages_of(graph, FLOWS, ())[1])
    (place,) = [n for n, s in enumerate(found) if "scan" in s]
    before, behind = ([name for s in part for name in s] for part in (found[:place], found[place:]))
    assert not {*before} & {"greater", "where", "expand", "sum", "mul"}
    assert {*last} <= {*behind}


def test_what_reads_more_than_it_makes_does_not_wait() -> None:
    def run(x: Any, weight: Any, row: Any) -> Any:
        total = calor.sum(calor.exp(x @ weight), axis=0)
        shifted = x @ weight + 1
        return loop(shifted, weight) * total

    found = names(stages_of(traced(run, *arguments()), FLOWS, ())[1])
    assert "sum" in found[0]
    assert "mul" in found[-1]
