"""Drawn programs of nested transforms, and the dual numbers that say what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor_conformance.rows.nested import duals
from calor_conformance.rows.nested.drawing import drawn
from calor_conformance.rows.nested.meanings import Plain
from calor_conformance.rows.nested.pieces import PIECES
from calor_conformance.rows.nested.wrappers import WRAPPERS

_STEP = 1e-6


@pytest.mark.parametrize("name", PIECES)
def test_dual_numbers_are_the_limits_of_differences(name: str) -> None:
    rng, shape, lib = np.random.default_rng(3), (3, 3), Plain()
    run = PIECES[name](rng, shape)
    x, w, t = (rng.uniform(0.2, 1.0, shape) for _ in range(3))
    _, moved = lib.along(lambda a: run(lib, a, w), (x,), (t,))
    ends = [np.asarray(run(lib, x + by * t, w)) for by in (_STEP, -_STEP)]
    assert np.allclose(moved, (ends[0] - ends[1]) / (2 * _STEP), atol=1e-7)


def test_derivatives_of_derivatives() -> None:
    lib, x = Plain(), np.array(0.7)
    third = lib.grad(lib.grad(lib.grad(lambda t: duals.sin(t) * t**2)))(x)
    want = -6 * x * np.sin(x) - x**2 * np.cos(x) + 6 * np.cos(x)
    assert np.allclose(third, want)


def test_what_is_captured_belongs_to_the_outer_derivative() -> None:
    lib = Plain()

    def outer(x: Any) -> Any:
        return lib.grad(lambda y: x * y * y)(np.array(3.0)) * x

    # 6 x², of which 12 x is the slope.
    assert lib.grad(outer)(np.array(2.0)) == 24.0


def test_each_transform_is_drawn_inside_each_other() -> None:
    texts = {name: [drawn(name, n, 2).block.text for n in range(60)] for name in WRAPPERS}
    for name, found in texts.items():
        inner = {text.partition("of (")[2].partition(" ")[0] for text in found}
        assert len(inner & set(WRAPPERS)) > 8, f"{name}: {inner}"
