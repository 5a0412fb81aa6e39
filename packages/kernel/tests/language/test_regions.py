"""What control flow becomes: which values are carried, what is a branch, and what is made once."""

from typing import Any

import pytest

from calor.dtypes import float32, float64, int64
from calor_interpreter.verify import verify
from calor_kernel.ir.nodes import Kernel, Operation
from calor_kernel.language import Buffer, Scalar, kernel, registers, select, shared, splat

SIGNATURE = [Buffer(float32), Buffer(int64), Scalar(int64, nonnegative=True)]


def built(function: Any, **said: Any) -> Kernel:
    return verify(kernel(function).build(SIGNATURE, **said))


def named(made: Kernel, name: str) -> list[Operation]:
    return [o for o in made.body.walk() if o.name == name]


def test_what_comes_out_as_it_went_in_is_not_carried() -> None:
    def k(x, y, n):
        a, b, c, acc = n, 2, x[0], registers((2, 3), float32, 4)
        for i in range(n):
            a, b = a, b
            if b == 2:
                c = c
            acc[1, 2] = acc[1, 2] + splat(c, 4)
            y[i] = a
        x.store(0, acc[1, 2])
        y[0] = a + b

    made = built(k)
    (loop,) = named(made, "for")
    assert [str(v.type) for v in loop.results] == ["float32x4"]
    assert [v.hint for v in loop.regions[0].arguments] == ["i", "item"]


def test_a_branch_yields_what_differs() -> None:
    def k(x, y, n):
        a, b, c = 1, 2, n
        if n > 3:
            a, c = n, c
        else:
            b = 2
        y[0] = a + b + c

    (branch,) = named(built(k), "if")
    assert len(branch.results) == 1


def test_numbers_take_the_type_that_they_meet() -> None:
    def k(x, y, n):
        a, b, c, d = 0, 0, 0.0, 1
        for i in range(n):
            a = a + i
            b = b + x[i]
            c = c + x[i].to(float64)
            d = x.load(i, 4) * d
        y[0] = a
        x[0] = b + c.to(float32)
        x.store(4, d)

    (loop,) = named(built(k), "for")
    assert [str(v.type) for v in loop.results] == ["int64", "float32", "float64", "float32x4"]


def test_a_body_that_is_traced_again_allocates_once() -> None:
    def k(x, y, n):
        total = 0
        for i in range(n):
            s = shared(8, float32)
            s[0] = x[i]
            total = total + 1
        y[0] = total

    made = built(k, cube=(8, 1, 1))
    assert [(m.space, m.size) for m in made.memories] == [("shared", 8)]


def test_a_guess_that_does_not_hold_is_taken_back() -> None:
    """The same inner loop, once where a number changes and once where it must not."""

    def k(x, y, n):
        acc = registers(2, float32)
        for place in range(2):
            for i in range(n):
                p = 0
                for j in range(n):
                    acc[p] = acc[p] + x[j]
                    p = place * 0
                y[i] = p
        x[0] = acc[0] + acc[1]

    built(k)


def test_conditions_that_read_or_divide_are_branches() -> None:
    def pure(x, y, n):
        if (n > 1 and n * n < 50) or n == 9:
            y[0] = 1

    def reads(x, y, n):
        if n < 8 and x[n] > 0.0:
            y[0] = 1

    def divides(x, y, n):
        if n == 0 or 100 // n > 3:
            y[0] = 1

    def lanes(x, y, n):
        v = x.load(0, 4)
        x.store(0, select(v > 0.0 and x.load(4, 4) > 0.0, v, -v))

    counts = [len(named(built(k), "if")) for k in (pure, reads, divides, lanes)]
    assert counts == [1, 2, 2, 0]
    (guard, _) = named(built(reads), "if")
    assert [o.name for o in guard.regions[0].operations] == ["load", "gt"]
    assert guard.regions[1].operations == []


def test_equal_operations_of_a_scope_are_made_once() -> None:
    def k(x, y, n):
        a = n * 3
        if n > 1:
            y[0] = n * 3 + 1
        else:
            y[1] = n * 3 + 1
        y[2] = n * 3 + 1 + a

    made = built(k)
    assert len(named(made, "mul")) == 1
    # What stands in a branch is not seen outside of it.
    assert len(named(made, "add")) == 4


@pytest.mark.parametrize(
    ("bounds", "sign", "divisible"),
    [
        (lambda n: range_of(n), True, 1),
        (lambda n: range_of(8, n, 4), True, 4),
        (lambda n: range_of(n - 1, -1, -1), True, 1),
        (lambda n: range_of(n - 1, n - 9, -1), False, 1),
        (lambda n: range_of(n - 4, n), False, 1),
        (lambda n: range_of(0, n, n * 6), True, 6),
    ],
)
def test_what_is_known_of_a_loop_s_position(bounds: Any, sign: bool, divisible: int) -> None:
    def k(x, y, n):
        for i in bounds(n):
            y[i] = 1

    (loop,) = named(built(k), "for")
    i = loop.regions[0].arguments[0]
    assert (i.nonnegative, i.divisible) == (sign, divisible)


def range_of(*bounds: Any) -> Any:
    from calor_kernel.language import loop_range

    return loop_range(*bounds)


def test_divisions_of_sizes_are_cheap() -> None:
    def k(x, y, n):
        y[0] = n // 7 + n % 7
        y[1] = (n if n > 3 else n + 1) // 5
        y[2] = n // 8 + (n - 9) % 8

    made = built(k)
    assert {"quotient", "modulo", "shr", "and"} <= {o.name for o in made.body.walk()}
    assert named(made, "select") == []
