"""Two devices of different people beside each other: one takes a part, the other the rest.

test_third_party.py runs this where the projects are installed.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DeviceLostError, OutOfMemoryError
from calor.transforms.state import Stateful
from calor_brittle import inject


class Average(Stateful):
    """A running average, which a step writes in place."""

    def __init__(self) -> None:
        self.mean = calor.asarray(np.zeros(2, np.float16))


@pytest.fixture
def box() -> Iterator[Any]:
    """The accelerator, its counts from 0."""
    with calor.device("tensorbox") as device:
        device.fallbacks = device.transfers = device.transferred_bytes = 0
        yield device
        device.companions = ()


def numbers(*shape: int) -> Any:
    return calor.asarray(np.random.default_rng(1).normal(size=shape).astype(np.float16))


def test_products_on_one_and_reductions_on_the_other(box: Any) -> None:
    box.companions = (calor.device("brittle:1"),)
    x, w = numbers(4, 8), numbers(8, 8)
    got = calor.jit(lambda x, w: calor.max(calor.tanh(x @ w) @ w, axis=1))(x, w)
    assert got.device == box
    wide = x.numpy().astype(np.float32), w.numpy().astype(np.float32)
    want = (np.tanh(wide[0] @ wide[1]) @ wide[1]).max(1)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-2, atol=1e-2)
    assert (box.fallbacks, box.transfers, box.transferred_bytes) == (1, 2, 4 * 8 * 2 + 4 * 2)


def test_a_companion_without_memory_fails_the_step_and_not_its_state(box: Any) -> None:
    box.companions = (calor.device("brittle:2"),)

    @calor.jit
    def step(average: Average, x: Any) -> Any:
        average.mean += (calor.max(x * 2, axis=0) - average.mean) * 0.5
        return average.mean + 1

    average, x = Average(), calor.asarray(np.ones((3, 2), np.float16))
    assert step(average, x).tolist() == [2, 2]
    with inject("out_of_memory", "max"):
        for _ in range(2):
            with pytest.raises(OutOfMemoryError, match="brittle:2 found no memory.*in op 'max'"):
                step(average, x)
            assert average.mean.tolist() == [1, 1]
    assert step(average, x).tolist() == [2.5, 2.5]
    assert average.mean.tolist() == [1.5, 1.5]


def test_a_companion_that_is_lost_takes_nothing_of_the_device_with_it(box: Any) -> None:
    box.companions = (calor.device("brittle:3"),)
    x = numbers(3, 5)
    highest = calor.jit(lambda x: calor.max(x + x, axis=1))
    assert highest(x).shape == (3,)
    with inject("lost", "max", times=1), pytest.raises(DeviceLostError, match="in op 'max'"):
        highest(x)
    with pytest.raises(DeviceLostError, match="brittle:3 stopped answering"):
        highest(x)
    twice = calor.jit(lambda x: x + x)(x)
    assert (twice.numpy() == x.numpy() * 2).all()
