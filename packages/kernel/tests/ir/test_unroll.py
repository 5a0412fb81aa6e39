"""Loops that are unrolled whole, and indices that count vectors."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_interpreter.verify import verify
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes import eliminate_dead, optimize
from calor_kernel.language import Buffer, Scalar, kernel, loop_range
from calor_wgpu.passes import count_vectors, unroll_loops

from .kernels import CASES, Case

SIGNATURE = [
    Buffer(float32, align=16),
    Buffer(float32, align=16, writable=False),
    Scalar(int64, nonnegative=True),
]


@pytest.mark.parametrize("name", CASES)
def test_kernels_do_the_same(name: str) -> None:
    case = CASES[name]
    made = verify(unroll_loops(case.build()))
    for n in (0, 1, 5):
        np.testing.assert_array_equal(case.run(made, n), case.run(case.build(), n))


def built(function: Any) -> Kernel:
    return optimize(kernel(function).build(SIGNATURE))


def indices(made: Kernel, name: str) -> list[str]:
    """The index of each load or store, as text: what makes it, of what."""
    makers = {v: o for o in made.body.walk() for v in o.results}

    def text(value: Any) -> str:
        if value.known is not None:
            return str(value.known)
        maker = makers.get(value)
        if maker is None:
            return str(value.hint)
        return f"{maker.name}({', '.join(map(text, maker.operands))})"

    return [text(o.operands[0]) for o in made.body.walk() if o.name == name]


def test_rounds_differ_by_a_number() -> None:
    def k(y, x, n):
        total = x[n]
        for i in loop_range(0, 3, unroll=3):
            total = total + x[n * 2 + 5 + i * 4 + 1]
        for j in loop_range(0, 3, unroll=2):
            total = total + y[j]
        y[n] = total

    made = verify(eliminate_dead(unroll_loops(built(k))))
    places = [f"add(mul(n, 2), {number})" for number in (6, 10, 14)]
    assert indices(made, "load") == ["n", *places, "i", "add(i, 1)", "i"]
    assert [o.name for o in made.body.walk()].count("for") == 2


@pytest.mark.parametrize("n", range(6))
def test_rounds_of_unknown_number_come_several_at_a_time(n: int) -> None:
    def k(y, x, n):
        total = y[0]
        for i in loop_range(n, 2 * n, unroll=3):
            y[i] = x[i] + total
            total = total + x[i]
        y[100] = total

    case = Case(kernel(k), float32, float32)
    made = verify(unroll_loops(case.build()))
    steps = [o.operands[2].known for o in made.body.walk() if o.name == "for"]
    assert steps == [3, 1]
    np.testing.assert_array_equal(case.run(made, n), case.run(case.build(), n))


def test_indices_count_vectors() -> None:
    def k(y, x, n):
        for i in range(n):
            y.store((n * 8 + i * 12) + 4, x.load(n * 8 + 16, 4))
        y[n * 4] = x[n * 4]

    def size(operation: Any) -> int:
        value = (*operation.operands, *operation.results)[1]
        return int(value.type.width)

    made = verify(eliminate_dead(count_vectors(built(k), size)))
    assert indices(made, "load") == ["add(mul(n, 2), 4)", "mul(n, 4)"]
    assert indices(made, "store") == [
        "add(add(mul(n, 2), mul(i, 3)), 1)",
        "mul(n, 4)",
    ]
