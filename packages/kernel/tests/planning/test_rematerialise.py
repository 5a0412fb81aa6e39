"""Tasks that run again: later readers get what they would have read, and less waits in memory."""

import random

import pytest

from calor.dtypes import uint8
from calor.errors import MemoryLimitError
from calor.specs import spec
from calor_kernel.contract.cost import Ceilings
from calor_kernel.contract.work import Build, Launch, View, Work
from calor_kernel.planning.arena import lay_out, lives
from calor_kernel.planning.rematerialise import fit
from calor_kernel.planning.values import Piece, Task, Value

CEILINGS = Ceilings(1e9, 1e9)


def step(op, inputs, nbytes, *, cost=1000, **work):
    """Return a task of one result, with its work."""
    views = tuple(Value(p, View.dense(spec((p.nbytes,), uint8))) for p in inputs)
    launch = Launch(Build(None, ()), (1, 1, 1), (), 0, cost)
    return Task(op, (), views, (Piece("made", nbytes),)), Work((launch,), **work)


def forward_and_back(layers, nbytes=1 << 20, **work):
    """Return a chain, and a chain back that reads every value of the first in turn."""
    steps = [step("start", [Piece("input", nbytes)], nbytes)]
    made = [steps[0][0].outputs[0]]
    for i in range(layers):
        steps.append(step(f"layer {i}", [made[-1]], nbytes, **work))
        made += steps[-1][0].outputs
    back = made[-1]
    for i in reversed(range(layers)):
        steps.append(step(f"back {i}", [made[i], back], nbytes))
        back = steps[-1][0].outputs[0]
    return steps, [back]


def fitted(steps, outputs, share):
    """Return steps that take a share of the memory, 0 for as little as can be; and the memory."""
    tasks, works = zip(*steps, strict=True)
    before = lay_out(tasks, works, outputs, 64).nbytes

    def apart(some):
        return zip(*some, strict=True)

    made = fit(
        steps,
        outputs,
        CEILINGS,
        int(before * share) if share else 1,
        lambda some: lives(*apart(some), outputs),
        lambda some: lay_out(*apart(some), outputs, 64).nbytes,
        {},
    )
    return made, before


def computed(steps, outputs):
    """Return what the outputs hold, each task as a function of what it reads."""
    held = {}
    for task, _ in steps:
        given = [
            held[v.piece] if v.piece.kind == "made" else ("input", v.piece) for v in task.inputs
        ]
        for piece in task.outputs:
            held[piece] = hash((task.op, *given))
    return [held[p] for p in outputs]


@pytest.mark.parametrize("layers", [4, 16, 64])
def test_a_chain_needs_far_less_than_all_its_values(layers):
    steps, outputs = forward_and_back(layers)
    made, before = fitted(steps, outputs, 0)
    assert computed(made.steps, outputs) == computed(steps, outputs)
    assert made.nbytes <= 4 * before / layers**0.5
    assert len(made.steps) <= 5 * len(steps)


def test_only_as_much_as_needed_runs_again():
    steps, outputs = forward_and_back(32)
    made, before = fitted(steps, outputs, 0.9)
    assert made.nbytes <= 0.9 * before
    assert 0 < len(made.again) <= 8


def test_what_fits_is_left_as_it_is():
    steps, outputs = forward_and_back(8)
    made, _ = fitted(steps, outputs, 1.01)
    assert made.steps == steps
    assert made.again == ()


def test_what_saves_most_for_its_time_runs_again():
    """Of two values that wait alike, the one that is made in less time is made again."""
    given, far = Piece("input", 64), 1 << 20
    dear = step("dear", [given], far, cost=10_000_000)
    cheap = step("cheap", [given], far, cost=1000)
    peak = step("peak", [given], 4 * far)
    use = step("use", [peak[0].outputs[0]], 64)
    ends = [step("end", [use[0].outputs[0], one[0].outputs[0]], 64) for one in (dear, cheap)]
    steps = [dear, cheap, peak, use, *ends]
    made, _ = fitted(steps, [e[0].outputs[0] for e in ends], 11 / 12)
    assert made.again == ("cheap",)


def test_a_task_that_may_fail_runs_once():
    steps, outputs = forward_and_back(8, failures=((MemoryLimitError, "no"),))
    made, before = fitted(steps, outputs, 0)
    assert not any(op.startswith("layer") for op in made.again)
    assert made.nbytes > before / 2


@pytest.mark.parametrize("seed", range(40))
def test_every_reader_gets_what_it_would_have_read(seed):
    rng = random.Random(seed)
    given = [Piece("input", 256)]
    made, steps = [], []
    for i in range(60):
        near = (made or given)[-8:]
        inputs = rng.sample(near, min(len(near), rng.randrange(1, 4)))
        if made and rng.random() < 0.4:
            inputs.append(made[len(made) // 8])
        over = tuple((k, 0) for k in range(len(inputs)) if rng.random() < 0.3)
        failing = ((MemoryLimitError, "no"),) if rng.random() < 0.1 else ()
        nbytes = rng.choice([64, 1000, 5000])
        scratch = (rng.randrange(1, 900),) if rng.random() < 0.2 else ()
        steps.append(step(f"{i}", inputs, nbytes, scratch=scratch, in_place=over, failures=failing))
        made += steps[-1][0].outputs
    outputs = [made[-1], *rng.sample(made[:-1], 2)]
    for share in (0.8, 0.5, 0):
        found, before = fitted(steps, outputs, share)
        assert computed(found.steps, outputs) == computed(steps, outputs)
        assert found.nbytes <= before
        assert len(found.steps) == len(steps) + len(found.again)
