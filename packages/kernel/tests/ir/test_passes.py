"""Passes: kernels do the same after them, and what they remove or move is gone or moved."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_interpreter.verify import verify
from calor_kernel.ir.nodes import Block, Kernel
from calor_kernel.ir.passes import branch_uniform_masks, eliminate_dead, optimize, simplify
from calor_kernel.ir.passes.hoist import hoist
from calor_kernel.ir.passes.rewriting import on_copy
from calor_kernel.ir.text import kernel_text
from calor_kernel.language import (
    Buffer,
    Scalar,
    barrier,
    cast,
    cube_position,
    kernel,
    lane_position,
    loop_range,
    plane_reduce,
    shared,
    splat,
    sqrt,
    unit_position,
)

from .kernels import CASES

SIGNATURE = [Buffer(float32), Buffer(float32, writable=False), Scalar(int64, nonnegative=True)]
MANY = {"cube": (8, 1, 1), "plane": 4}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "run",
    [eliminate_dead, on_copy(hoist), simplify, optimize, branch_uniform_masks],
    ids=lambda f: f.__name__,
)
def test_kernels_do_the_same(name: str, run: Any) -> None:
    case = CASES[name]
    kernel = case.build()
    text = kernel_text(kernel)
    made = verify(run(kernel))
    assert kernel_text(kernel) == text, "a pass changes no kernel"
    for n in (0, 1, 5):
        np.testing.assert_array_equal(case.run(made, n), case.run(kernel, n))


@pytest.mark.parametrize("name", CASES)
def test_optimizing_again_changes_nothing(name: str) -> None:
    once = optimize(CASES[name].build())
    assert kernel_text(optimize(once)) == kernel_text(once)


def test_a_mask_of_one_bool_is_a_branch_around_a_whole_access() -> None:
    made = branch_uniform_masks(CASES["masks_of_one_bool"].build())
    found = [o for o in made.body.walk() if o.name in ("load", "store")]
    assert len(found) == 4
    assert not any(o.attributes.get("masked") for o in found)
    lanes = branch_uniform_masks(CASES["mixed_types"].build())
    assert any(o.attributes.get("masked") for o in lanes.body.walk())


def built(function: Any, **said: Any) -> Kernel:
    return verify(optimize(kernel(function).build(SIGNATURE, **said)))


def count(block: Block) -> Counter[str]:
    """The operations in a block, those in its regions not counted."""
    return Counter(o.name for o in block.operations)


def total(kernel: Kernel) -> Counter[str]:
    """All operations of a kernel."""
    return Counter(o.name for o in kernel.body.walk())


def test_sums_that_nobody_reads_are_not_carried() -> None:
    made = optimize(CASES["sums_nobody_reads"].build())
    loops = [o for o in made.body.walk() if o.name == "for"]
    assert [len(o.results) for o in loops] == [1]
    assert "while" not in total(made)
    assert total(made)["load"] == 1


def test_loads_units_and_matrices_go_when_nobody_reads_them() -> None:
    def k(y, x, n):
        unused = plane_reduce("add", x[unit_position()])
        if n > 3:
            x[n + 1]
        kept = x.load(n, order="acquire", scope="device")
        for i in range(n):
            unused = unused + x[i] + kept

    assert set(total(built(k, **MANY))) == {"load"}


def test_effects_stay() -> None:
    def k(y, x, n):
        s = shared(8, float32)
        for _ in range(n):
            barrier()
        if n > 3:
            s[0] = 1.0
        while n > 3:
            y.atomic("add", 0, 1.0)
        y.prefetch(n)

    wanted = {"for": 1, "barrier": 1, "if": 1, "store": 1, "while": 1, "atomic": 1, "prefetch": 1}
    assert total(built(k, **MANY)) & Counter(wanted) == Counter(wanted)


def test_branches_keep_the_results_that_are_read() -> None:
    def k(y, x, n):
        _a = b = 0.0
        if n > 3:
            _a, b = x[n], x[n + 1]
        y[0] = b

    (branch,) = [o for o in built(k).body.walk() if o.name == "if"]
    assert len(branch.results) == 1
    assert [len(r.yields) for r in branch.regions] == [1, 1]
    assert count(branch.regions[0])["load"] == 1


def test_invariants_leave_all_loops_around_them() -> None:
    def k(y, x, n):
        for i in range(n):
            for j in range(n):
                row = n * 7 + 3
                y[i * n + j] = cast(row, float32) * sqrt(cast(n, float32)) + cast(i, float32)

    made = built(k)
    (outer,) = [o for o in made.body.operations if o.name == "for"]
    (inner,) = [o for o in outer.regions[0].operations if o.name == "for"]
    assert count(outer.regions[0]) == {"mul": 1, "cast": 1, "add": 1, "for": 1}
    assert count(inner.regions[0]) == {"add": 1, "store": 1}
    assert {"sqrt", "mul", "cast"} <= set(count(made.body))


def test_while_regions_give_their_invariants_away() -> None:
    def k(y, x, n):
        t = n
        while t > n // 4 + n * 3:
            t = t - (n + 1)
        y[0] = cast(t, float32)

    made = built(k)
    (loop,) = [o for o in made.body.operations if o.name == "while"]
    assert [count(r) for r in loop.regions] == [{"gt": 1}, {"sub": 1}]


def test_what_may_fail_or_is_written_stays_in_its_loop() -> None:
    def k(y, x, n):
        for i in range(n):
            y[i] = y[n] + x[0] + cast(100 // n, float32)
        for i in loop_range(0, 3):
            y[i] = y[n] + x[1] + cast(100 // (n + 5), float32)

    made = built(k)
    first, second = [o for o in made.body.operations if o.name == "for"]
    # The first loop may run no round; the second runs, and y is written in it.
    assert count(first.regions[0]) == {"load": 2, "quotient": 1, "cast": 1, "add": 2, "store": 1}
    assert count(second.regions[0]) == {"load": 1, "add": 2, "store": 1}


def test_what_two_loops_did_is_done_once() -> None:
    def k(y, x, n):
        for i in range(n):
            y[i] = x[i] * cast(n * 3, float32)
        for i in range(n):
            y[i + n] = x[i] - cast(n * 3, float32)

    assert total(built(k))["mul"] == 2


def test_cheap_branches_become_choices() -> None:
    def k(y, x, n):
        v = x[n]
        if v > 0.0:
            if v > 9.0:
                r = 9.0
            else:
                r = v * 2.0
        else:
            r = v * 0.125
        y[0] = r
        y.store(8, splat(r, 4) if n > 1 else x.load(0, 4) * 0.0)

    made = total(built(k))
    assert made["if"] == 1, "the branch that loads stays"
    assert made["select"] == 2


def test_dear_or_dangerous_branches_stay() -> None:
    def k(y, x, n):
        a = 0.0 if n > 1 else sqrt(x[0]) / 3.0
        b = 0 if n == 0 else 7 // n
        y[0] = a
        y[1] = cast(b, float32)
        if n > 5:
            y[2] = 1.0

    made = total(built(k))
    assert made["if"] == 3
    assert made["select"] == 0


def test_branches_known_and_loops_of_one_round_vanish() -> None:
    def k(y, x, n):
        t = 0.0
        for i in loop_range(0, 1):
            t = t + x[i]
            for j in loop_range(3, 3):
                t = t + x[j]
        for i in loop_range(4, 8, 4):
            if i > 3:
                t = t + x[i]
            else:
                t = t - x[i]
        y[0] = t

    made = total(built(k))
    assert not made.keys() & {"for", "if", "select"}
    assert made["load"] == 2


def test_loads_of_constant_memory_are_shared_and_others_are_not() -> None:
    def k(y, x, n):
        a, b = x[n], y[n]
        y[0] = x[n] + a
        y[1] = y[n] + b
        if n > 3:
            y[2] = x[n]

    assert total(built(k))["load"] == 3


def test_units_together_are_never_merged_or_moved() -> None:
    def k(y, x, n):
        v = x[lane_position()]
        y[0] = plane_reduce("add", v) + plane_reduce("add", v)
        for i in range(n):
            y[i] = plane_reduce("max", v)

    made = built(k, **MANY)
    assert total(made)["plane_reduce"] == 3
    (loop,) = [o for o in made.body.operations if o.name == "for"]
    assert count(loop.regions[0])["plane_reduce"] == 1


def test_what_is_known_of_values_survives() -> None:
    def k(y, x, n):
        i = cube_position() * 8
        for j in range(i, n, 4):
            y.store(j, x.load(j, 4))

    made = built(k)
    (loop,) = [o for o in made.body.operations if o.name == "for"]
    i = loop.regions[0].arguments[0]
    assert (i.nonnegative, i.divisible) == (True, 4)
    (constant,) = {v for v in loop.operands if v.known == 4}
    assert constant.divisible == 4
