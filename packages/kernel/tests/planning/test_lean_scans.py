"""Do scans without unread results give the same numbers, and make no others?"""

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_kernel.planning.lean_scans import lean_scans

LENGTH, WIDTH = 4, 3


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer(rows, more, start, weights, bias):
    """A scan with a total that only adds to itself, and rows that only this total reads."""

    def step(carry, given):
        row, other = given
        hidden, total, count = carry
        made = calor.tanh(hidden @ weights + row)
        return (made, total + other * bias, count + 1), (made, hidden * 2, total)

    first = start, calor.zeros_like(start), calor.zeros((), dtype="int32")
    (hidden, total, count), (made, before, totals) = calor.scan(step, first, (rows, more))
    return {"h": hidden, "total": total, "n": count, "made": made, "b": before, "totals": totals}


# The results that are read; what is left of carries, captures, rows and stacks.
LEFT = {
    ("h",): (1, 1, 1, 0),
    ("made",): (1, 1, 1, 1),
    ("n",): (1, 0, 0, 0),
    ("total",): (1, 1, 1, 0),
    ("totals", "b"): (2, 2, 2, 2),
    ("h", "total", "n", "made", "b", "totals"): (3, 2, 2, 3),
}


@pytest.mark.parametrize("names", LEFT, ids=" ".join)
def test_what_is_read_is_left(names):
    arrays = [numbers(LENGTH, 2, WIDTH), numbers(LENGTH, 2, WIDTH, seed=1), numbers(2, WIDTH)]
    arrays += [numbers(WIDTH, WIDTH, seed=2), numbers(WIDTH, seed=3)]
    with calor.device("numpy"):
        given = [calor.asarray(one) for one in arrays]
        graph = calor.trace(lambda *given: [layer(*given)[name] for name in names], *given)
    lean = lean_scans(graph)
    for one, two in zip(interpret(lean, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(one, two)
    (node,) = (node for node in lean.nodes if node.op.name == "scan")
    carries, captures = node.attributes["carries"], node.attributes["captures"]
    rows = len(node.inputs) - carries - captures
    stacks = len(node.outputs) - carries
    assert (carries, captures, rows, stacks) == LEFT[names]
    assert lean_scans(lean) is lean


def test_gradients_add_up_what_is_wanted_alone():
    def loss(start, rows, weights, factor):
        def step(h, row):
            made = calor.tanh(h @ weights + row) * factor
            return made, made

        return calor.sum(calor.scan(step, start, rows)[1] ** 2)

    arrays = [
        numbers(2, WIDTH),
        numbers(LENGTH, 2, WIDTH),
        numbers(WIDTH, WIDTH),
        numbers(2, WIDTH),
    ]
    with calor.device("numpy"):
        given = [calor.asarray(one) for one in arrays]
        graph = calor.trace(calor.grad(loss, argnums=(0, 1)), *given)
    lean = lean_scans(graph)
    back = [[n for n in one.nodes if n.op.name == "scan"][-1] for one in (graph, lean)]
    assert [node.attributes["carries"] for node in back] == [2, 1]
    for one, two in zip(interpret(lean, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(one, two)
