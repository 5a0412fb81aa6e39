"""A Python number beside tensors changes the kind of a result, never its width, in each place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import calor
from calor.functions.operands import as_operands

# Functions of operands that broadcast, with how many there are.
FUNCTIONS: tuple[tuple[Callable[..., Any], int], ...] = (
    (calor.clip, 3), (calor.clip, 2), (calor.maximum, 2), (calor.add, 2), (calor.logaddexp, 2),
    (calor.hypot, 2), (calor.copysign, 2),
)  # fmt: skip


def places() -> Iterator[Any]:
    for (function, count), dtype in product(FUNCTIONS, ("float16", "bfloat16", "float64")):
        for numbers in product((False, True), repeat=count):
            if not all(numbers):
                yield pytest.param(
                    function, dtype, numbers, id=f"{function.__name__}-{dtype}-{numbers}"
                )


@pytest.mark.parametrize(("function", "dtype", "numbers"), [*places()])
def test_a_number_does_not_widen(function: Any, dtype: str, numbers: tuple[bool, ...]) -> None:
    x = calor.asarray([1.0, 2.0], dtype=dtype)
    for number in (2, 2.0, True, np.float64(2)):
        operands = [number if is_number else x for is_number in numbers]
        assert function(*operands).dtype is x.dtype
        assert calor.jit(function)(*operands).dtype is x.dtype


def test_a_clipped_number_is_an_operand_like_bounds() -> None:
    low, high = calor.asarray([1, 5], dtype="int8"), calor.asarray([3, 9], dtype="int8")
    made = calor.clip(4, low, high)
    assert (made.dtype, made.tolist()) == (calor.int8, [3, 5])
    assert calor.clip(2.5, low, high).dtype is calor.float32
    with pytest.raises(OverflowError, match="int8"):
        calor.clip(300, low, high)


def test_operands_of_floating_operations_have_room_for_integers() -> None:
    few = calor.asarray([1], dtype="int8")
    half = calor.asarray([1], dtype="float16")
    found = [
        [t.dtype.name for t in as_operands(*operands, floating=True)]
        for operands in ((few, 300), (300, half), (few, half, 1.0), (1, 2.0), (half, 1j))
    ]
    assert found == [
        ["int8", "float32"], ["float16", "float16"], ["int8", "float16", "float16"],
        ["int64", "float32"], ["float16", "complex64"],
    ]  # fmt: skip
