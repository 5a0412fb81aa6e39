"""Attributes of ops are told apart by type and bits wherever something is looked up by them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device
from calor.backends.numpy_backend import NumpyBackend
from calor.dtypes import float64
from calor.graph.attributes import exact_items
from calor.graph.decompose import definition
from calor.graph.graph import Builder, Graph
from calor.ops.base import TABLE, Op, Scalar, op
from calor.ops.sources import full
from calor.specs import spec
from calor.transforms.simplify import simplify

KINDS = (bool, int, float, complex)
EQUAL: list[tuple[Any, ...]] = [
    (0.0, -0.0, 0, False),
    (1, True, 1.0, 1 + 0j),
    (0j, complex(-0.0, 0.0), complex(0.0, -0.0)),
    ((1, 0), (True, 0), (1.0, 0), (1, False), (1, -0.0)),
    (((1, 2), 0.0), ((1, 2), -0.0), ((1, True + 1.0), 0.0)),
    (np.float32(0), np.float32(-0.0), np.float64(0)),
]


def told(value: Any) -> float:
    """Return a number that tells a value from those that equal it."""
    if isinstance(value, tuple):
        return sum(3.0**i * told(item) for i, item in enumerate(value))
    number = complex(value)
    signs = math.copysign(1, number.real) + 2 * math.copysign(1, number.imag)
    if isinstance(value, np.generic):
        return 100 + value.itemsize + signs
    return 10 * KINDS.index(type(value)) + signs


@pytest.fixture
def telling() -> Iterator[Op]:
    """An op whose result tells which attribute it got."""
    yield op(
        "tests.telling",
        lambda x, *, of: x,
        lambda x, *, of: np.full_like(x, told(of)),
        no_gradient="it tells an attribute",
        decompose=lambda x, *, of: full(
            value=Scalar.of(told(of), x.dtype), shape=x.shape, dtype=x.dtype
        ),
    )
    del TABLE["tests.telling"]


@pytest.mark.parametrize("values", EQUAL, ids=str)
def test_equal_attributes_give_the_values_of_the_reference(
    telling: Op, values: tuple[Any, ...]
) -> None:
    assert len({told(v) for v in values}) == len(values)
    x = calor.ones(2)
    for order in permutations(values, min(3, len(values))):
        results = [telling(x, of=v) for v in order]
        assert [r[0].item() for r in results] == [told(v) for v in order]


@pytest.mark.parametrize("values", EQUAL, ids=str)
def test_they_are_told_apart_within_a_graph(telling: Op, values: tuple[Any, ...]) -> None:
    def one(of: Any) -> Graph:
        builder = Builder()
        x = builder.input(spec((2,), float64))
        return builder.build(builder.add(telling, [x], {"of": of}))

    graphs = [one(of) for of in values]
    assert len({graph.key for graph in graphs}) == len(values)
    assert graphs[0] == one(values[0])
    bodies = [definition(telling, (spec((2,), float64),), {"of": of}) for of in values]
    assert len({body.key for body in bodies}) == len(values)
    builder = Builder()
    x = builder.input(spec((2,), float64))
    made = [builder.add(telling, [x], {"of": of})[0] for of in (*values, *values)]
    assert len(simplify(builder.build(made)).nodes) == len(values)


def test_jitted_constants_are_those_of_the_call(telling: Op) -> None:
    for of in EQUAL[0]:
        assert calor.jit(lambda x, of=of: telling(x, of=of))(calor.ones(1)).item() == told(of)
    assert [math.copysign(1, calor.full((1,), v).item()) for v in (0.0, -0.0)] == [1, -1]


def test_nan_is_one_attribute(telling: Op) -> None:
    device = Device(NumpyBackend(), 0)
    x = calor.asarray([1.0, 1.0], device=device)
    for _ in range(5):
        # Each is an object of its own, which no dictionary finds by another.
        alone, first, real = (float("nan") for _ in range(3))
        for of in (alone, (first, 1), complex(real, 1)):
            assert telling(x, of=of)[0].item() == told(of)
    assert device.plans_made == 3
    assert len(telling.memo) == 3


def test_the_order_of_attributes_does_not_matter() -> None:
    row = op(
        "tests.ordered",
        lambda x, *, first, second: x,
        lambda x, *, first, second: np.full_like(x, first - second),
        no_gradient="it tells its attributes",
        decompose=lambda x, *, first, second: x * 0 + (first - second),
    )
    try:
        x = calor.ones(1)
        assert row(x, first=5, second=2).item() == 3
        assert row(x, second=5, first=2).item() == -3
        assert row(x, second=2, first=5).item() == 3
    finally:
        del TABLE[row.name]
    assert exact_items({"a": 1, "b": 2}) == exact_items({"b": 2, "a": 1})
    assert exact_items({"a": 1, "b": 2}) != exact_items({"a": 2, "b": 1})
