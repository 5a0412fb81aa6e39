"""Does a scan of elementwise steps along lines, as one launch, compute what its steps do?"""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.graph.interpreter import interpret
from calor_kernel.contract.work import LOWERINGS, Refusal
from calor_kernel.planning.plan import Plan

from .test_recurrence import INFO, launched, run, scan_of


def shifted(x, by, fill):
    """Return x (…, n) moved along its last axis, to the right for positive numbers."""
    n = x.shape[-1]
    edge = calor.zeros_like(x[..., : min(abs(by), n)]) + fill
    parts = [edge, x[..., : n - by]] if by > 0 else [x[..., -by:], edge]
    return calor.concat(parts, axis=-1)


def leaky(carry, row, kept):
    """Each position for itself."""
    return calor.tanh(carry * kept + row)


def aligned(carry, row, kept):
    """A recursion over alignments: each position reads two before it."""
    both = calor.logaddexp(carry, shifted(carry, 1, -5.0))
    skipped = calor.where(kept > 0, shifted(carry, 2, -5.0), kept)
    return calor.logaddexp(both, skipped) + row


def smoothed(carry, row, kept):
    """Positions on both sides, of what the step computes first, and of that again."""
    made = calor.tanh(carry + row)
    made = (shifted(made, 1, 0.0) + shifted(made, -2, 1.0)) * kept
    return calor.sin(shifted(made, 3, 0.5)) - made


def normed(carry, row, kept):
    """The first column stays as it is, and comes last in the next step."""
    return calor.concat([carry[..., 1:] * kept[..., 1:] + row[..., 1:], carry[..., :1]], axis=-1)


STEPS = {f.__name__: f for f in (leaky, aligned, smoothed, normed)}
# The step, dtype, shape of a carry, of a row, and of a capture, steps, whether it runs backwards,
# whether gradients follow.
CASES = [
    ("leaky", "float32", (3, 5), (3, 5), (5,), 4, False, True),
    ("leaky", "bfloat16", (2, 3, 150), (2, 3, 150), (2, 3, 150), 3, True, True),
    ("leaky", "float64", (7,), (7,), (), 5, False, True),
    ("leaky", "int32", (2, 4), (2, 4), (1, 4), 3, False, False),
    ("aligned", "float32", (3, 9), (3, 9), (3, 9), 5, False, True),
    ("aligned", "float32", (2, 41), (2, 1), (41,), 3, True, False),
    ("aligned", "float16", (2, 6), (), (2, 1), 3, False, False),
    ("smoothed", "float32", (2, 7), (2, 7), (7,), 3, False, True),
    ("smoothed", "float32", (1, 70), (70,), (1, 1), 1, True, False),
    ("normed", "float32", (3, 6), (6,), (3, 6), 4, False, False),
    ("normed", "float32", (3, 6), (3, 6), (3, 6), 4, True, True),
]


def traced(name, dtype, carry, row, kept, length, reverse, trains):
    """Return the graph of a scan, or of its gradients, and arguments."""
    draw = np.random.default_rng(length)

    def scanned(first, rows, held):
        def step(state, x):
            made = STEPS[name](state, x, held)
            if dtype == "int32":
                made = (state * held - x).astype(dtype)
            return made, made * 2

        return calor.scan(step, first, rows, reverse=reverse)

    def loss(*given):
        last, stack = scanned(*given)
        return calor.sum(last.astype("float32") ** 2) + calor.sum(stack.astype("float32") ** 3)

    with calor.device("numpy"):
        given = [
            calor.asarray(draw.standard_normal(s).astype(np.float32) * 2).astype(dtype)
            for s in (carry, (length, *row), kept)
        ]
        call = calor.grad(loss, argnums=(0, 1, 2)) if trains else scanned
        return calor.trace(call, *given), [one.numpy() for one in given]


CLOSE = {"float64": 1e-12, "float32": 2e-6, "float16": 1e-2, "bfloat16": 2e-2, "int32": 0}


def check(case, info=INFO):
    graph, arrays = traced(*case)
    made, found = run(graph, arrays, info)
    assert isinstance(made, Plan)
    assert launched(made) == 1 + case[-1]
    for one, wanted in zip(found, interpret(graph, arrays), strict=True):
        wanted = wanted.astype(np.float64)
        assert np.linalg.norm(one - wanted) <= CLOSE[case[1]] * np.linalg.norm(wanted)
        assert wanted.any()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_lines_are_those_of_steps(case):
    check(case)


@pytest.mark.parametrize("name", ["aligned", "smoothed"])
def test_a_unit_has_several_positions_of_a_wide_line(name):
    info = replace(INFO, max_units=32, max_cube=(32, 32, 32))
    check((name, "float32", (2, 90), (2, 90), (90,), 3, False, True), info)


REFUSED = {
    "computes sum": lambda carry, row, kept: row + calor.sum(carry, axis=0),
    "of float32[": lambda carry, row, kept: calor.exp(carry.reshape((3, 8))).reshape((4, 6)) + row,
    "joins lines": lambda carry, row, kept: calor.concat([carry[1:], row[:1]], axis=0),
    "some lines": lambda carry, row, kept: carry + row[:1],
    "some positions": lambda carry, row, kept: calor.concat([carry, row], axis=-1)[:, ::2],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_steps_that_need_other_lines_are_refused_with_a_reason(reason):
    answer = LOWERINGS["scan"](scan_of(lambda h, x: REFUSED[reason](h, x, None), dtype="float32"))
    assert isinstance(answer, Refusal)
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cores": 1, "shapes": (400, 6)}, "fill the device"),
        ({"max_units": 32, "shapes": (2, 200)}, "does not hold a line"),
        ({"shared_bytes": 64, "shapes": (2, 40)}, "shared memory"),
        ({"arguments": 4, "shapes": (2, 6)}, "arguments"),
        ({"dtypes": frozenset(), "shapes": (2, 6)}, "does not compute with"),
    ],
)
def test_lines_that_a_device_does_not_hold_are_refused_with_a_reason(changes, reason):
    said = {name: value for name, value in changes.items() if name != "shapes"}
    request = scan_of(lambda h, x: aligned(h, x, x), carry=changes["shapes"], dtype="float32")
    answer = LOWERINGS["scan"](replace(request, info=replace(INFO, **said)))
    assert isinstance(answer, Refusal)
    assert reason in answer.reason


def test_carries_that_no_other_position_reads_need_no_barrier():
    """Such a line is cut into several cubes; one that shares is not."""
    for step, cubes in ((leaky, 4), (aligned, 1)):
        request = scan_of(lambda h, x, w, f=step: f(h, x, w), (500,), carry=(3, 500))
        (work,) = LOWERINGS["scan"](request)
        assert work.launches[0].cubes == (3, cubes, 1)
