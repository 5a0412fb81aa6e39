"""Python numbers on a device that has neither float64 nor int64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import Device, device_of, known_devices
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.protocol import FULL, Info
from calor.compiling.host_numbers import WithHostNumbers, split
from calor.dtypes import ALL, complex128, float64, int64
from calor.errors import UnsupportedError
from calor_conformance.strict.backend import StrictBackend

NARROW = {t: FULL for t in ALL if t not in (float64, int64, complex128)}


class Narrow(NumpyBackend):
    name = "narrow"

    def info(self, index: int) -> Info:
        return replace(super().info(index), dtypes=NARROW)


@pytest.fixture
def narrow() -> Iterator[Device]:
    device = device_of(StrictBackend(Narrow()), 0)
    yield device
    del known_devices[id(device.backend), 0]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "float": (lambda x, a: x * a + 1, (0.1,)),
    "int": (lambda x, a: x + a, (3,)),
    "bool": (lambda x, a: x * a, (True,)),
    "arithmetic of numbers": (lambda x, a, b: x * (a * b + 0.5), (0.1, 2)),
    "two types": (lambda x, a: (x * a, x.astype("int32") + a), (2,)),
    "half": (lambda x, a: x.astype("bfloat16") * a, (0.1,)),
    "number first": (lambda x, a: a / x, (2.0,)),
    "static number": (lambda x: x**2 - 0.5, ()),
    "a number returned": (lambda x, a: (x, x.sum() * a), (0.25,)),
    "the same number twice": (lambda x, a: x * a + x / a, (4.0,)),
    "gradient": (lambda x, a: calor.grad(lambda t: (t * t * a).sum())(x), (3.0,)),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_arrive_in_a_type_that_the_device_has(case: str, narrow: Device) -> None:
    function, numbers = CASES[case]
    array = np.array([[1.0, 2.0, 3.0]], np.float32)
    expected = [t.numpy() for t in calor.tree.leaves(function(calor.asarray(array), *numbers))]
    x = calor.asarray(array, device=narrow)
    jitted = calor.jit(function)
    for f in (function, jitted, jitted):
        found = [t.numpy() for t in calor.tree.leaves(f(x, *numbers))]
        for a, b in zip(found, expected, strict=True):
            assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())
    assert jitted.trace_count == 1


def test_another_number_makes_no_other_plan(narrow: Device) -> None:
    x = calor.asarray([1.0, 2.0], device=narrow)
    scale = calor.jit(lambda x, a: x * a)
    assert [scale(x, a).tolist() for a in (1.0, 2.5, 1e300)] == [
        [1.0, 2.0],
        [2.5, 5.0],
        [np.inf, np.inf],
    ]
    assert scale.trace_count == 1


def test_tensors_never_leave_the_device(narrow: Device) -> None:
    x = calor.asarray([1.0, 2.0], device=narrow)
    with pytest.raises(UnsupportedError, match=r"cast: float64 is impossible \(the device has no"):
        x.astype("float64").numpy()
    with pytest.raises(UnsupportedError, match=r"full: float64 is impossible"):
        calor.full((2,), 1.0, dtype="float64", device=narrow).numpy()


def test_a_large_array_is_no_number() -> None:
    def graph_of(size: int) -> Any:
        from calor.graph.graph import Builder
        from calor.ops.elementwise import cast
        from calor.specs import spec

        builder = Builder()
        x = builder.input(spec((size,), float64), host=True)
        return builder.build(builder.add(cast, [x], {"dtype": calor.float32}))

    info = Narrow().info(0)
    assert split(graph_of(4), [0], info) is not None
    assert split(graph_of(400), [0], info) is None
    # A device that has the type, and refuses for another reason, is not helped.
    assert split(graph_of(4), [0], NumpyBackend().info(0)) is None


def test_the_rest_is_called_with_what_the_host_computed() -> None:
    graph = calor.trace(lambda x, a: (x * a, x), calor.asarray([1.0, 2.0]), 0.5)
    parts = split(graph, range(len(graph.nodes)), Narrow().info(0))
    assert parts is not None
    assert [n.op.name for n in parts.before.nodes] == ["cast"]
    assert "cast" not in [n.op.name for n in parts.rest.nodes]
    backend = NumpyBackend()
    run = WithHostNumbers(parts, backend.compile(0, parts.rest))
    held = backend.upload(0, np.array([1.0, 2.0], np.float32))
    target = backend.upload(0, np.zeros(2, np.float32))
    made = run([held, 0.5], [target, None])
    assert made[0] is target
    assert [b.array.tolist() for b in made] == [[0.5, 1.0], [1.0, 2.0]]
    assert run.required_bytes == run.executable.required_bytes
