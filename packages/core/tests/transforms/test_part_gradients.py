"""Gradients of values that are read in parts: joined if apart, added where they meet."""

import numpy as np
import pytest

import calor

ALL = np.s_[:]
# The shape of a value, its parts, and the ops that join the gradients of a jitted sum of squares.
ROWS = {
    "columns": ((3, 6), [np.s_[:, :2], np.s_[:, 2:4], np.s_[:, 4:]], ["concat"]),
    "rows": ((4, 3), [np.s_[i] for i in range(4)], ["concat"]),
    "gaps": ((9, 2), [np.s_[1:3], np.s_[6:8]], ["concat"]),
    "middle": ((4, 5), [np.s_[1:3, 2:4]], ["pad"]),
    "one side": ((6, 5), [np.s_[:2, 1:3], np.s_[4:, 1:3]], ["concat", "pad"]),
    "grid": ((4, 6), [np.s_[:2, :3], np.s_[:2, 3:], np.s_[2:, :1], np.s_[2:, 1:]], ["concat"] * 3),
    "twice": ((4, 5), [np.s_[:, :2], np.s_[:, :2], np.s_[:, 2:]], ["concat"]),
    "overlapping": ((7,), [np.s_[:-1], np.s_[1:]], ["pad", "pad"]),
    "windows": ((5,), [np.s_[i : i + 2] for i in range(4)], ["concat", "concat"]),
    "a ring": (
        (3, 3),
        [np.s_[0, :2], np.s_[:2, 2], np.s_[2, 1:], np.s_[1:, 0]],
        ["concat", "concat", "pad", "pad", "pad", "pad"],
    ),
    "whole too": ((4, 4), [ALL, np.s_[:1], np.s_[1:]], ["concat"]),
    "steps": ((8, 3), [np.s_[::2], np.s_[1::2]], ["pad", "pad"]),
}


def squares(keys):
    def function(x):
        parts = [x[key] for key in keys]
        return sum((part * part * (i + 1)).sum() for i, part in enumerate(parts))

    return function


@pytest.mark.parametrize("name", ROWS)
def test_parts(name):
    shape, keys, joins = ROWS[name]
    x = np.random.default_rng(0).standard_normal(shape)
    weight = np.zeros(shape)
    for i, key in enumerate(keys):
        weight[key] += 2 * (i + 1)
    given = calor.asarray(x, device="numpy")
    gradient = calor.jit(calor.grad(squares(keys)))
    for function in (gradient, calor.grad(squares(keys))):
        np.testing.assert_allclose(function(given).numpy(), weight * x, rtol=1e-12)
    second = calor.jit(calor.grad(lambda x: (calor.grad(squares(keys))(x) * x).sum()))
    np.testing.assert_allclose(second(given).numpy(), 2 * weight * x, rtol=1e-12)
    made = [node.op.name for node in gradient.programs[0].graph.nodes]
    assert sorted(n for n in made if n in ("concat", "pad")) == sorted(joins)
