"""Do tasks that free memory run early, and state is written as late as it must be?"""

import random
from dataclasses import replace

import pytest

from calor.dtypes import float32, int64, uint8
from calor.errors import ElementIndexError
from calor.specs import spec
from calor_kernel.contract.failures import Failure
from calor_kernel.contract.work import Build, Launch, View, Work
from calor_kernel.planning.arena import lives
from calor_kernel.planning.failing import last_failing
from calor_kernel.planning.task_order import released_early
from calor_kernel.planning.values import Draft, Piece, Task, Value

LARGE, SMALL = 1 << 20, 64
WRONG = Failure(ElementIndexError, "index {detail} is out of range", 0, 5)


def step(op, inputs, sizes, **work):
    """Return a task with its work."""
    views = tuple(Value(p, View.dense(spec((p.nbytes,), uint8))) for p in inputs)
    launch = Launch(Build(None, ()), (1, 1, 1), ())
    return Task(op, (), views, tuple(Piece("made", n) for n in sizes)), Work((launch,), **work)


def ordered(steps, outputs):
    """Return the steps in the order of `released_early`."""
    tasks, works = zip(*steps, strict=True)
    draft = Draft(None, [*tasks], [*outputs], b"", [], 0)
    made, chosen = released_early(draft, works)
    return list(zip(made.tasks, chosen, strict=True))


def most(steps, outputs, written=()):
    """Return the most bytes in use, with outputs written over inputs."""
    tasks, works = zip(*steps, strict=True)
    return max(lives(tasks, works, outputs, dict(written)).live(len(tasks)))


def training(layers):
    """A chain, and a chain back whose weights' gradients and updates come after all else."""
    weights = [Piece("input", LARGE, i) for i in range(layers)]
    steps = [step("rate", [], [SMALL])]
    (rate,) = steps[0][0].outputs
    made = [Piece("input", LARGE, layers)]
    for weight in weights:
        steps.append(step("layer", [made[-1], weight], [LARGE]))
        made += steps[-1][0].outputs
    back, gradients, updates = made[-1], [], []
    for x, weight in zip(reversed(made[:-1]), reversed(weights), strict=True):
        gradients.append(step("gradient", [x, back], [LARGE]))
        (gradient,) = gradients[-1][0].outputs
        updates.append(step("update", [weight, gradient, rate], [LARGE], in_place=((0, 0),)))
        steps.append(step("back", [back, weight], [LARGE]))
        (back,) = steps[-1][0].outputs
    outputs = [task.outputs[0] for task, _ in updates]
    written = [(task.outputs[0], task.inputs[0].piece) for task, _ in updates]
    return [*steps, *gradients, *updates], outputs, written


def test_gradients_of_weights_and_updates_run_as_soon_as_they_can():
    steps, outputs, written = training(6)
    before = most(steps, outputs, written)
    found = ordered(steps, outputs)
    # A layer's gradient at a time waits, beside the values of the forward pass.
    assert before >= 12 * LARGE
    assert most(found, outputs, written) <= 9 * LARGE
    assert {id(task) for task, _ in found} == {id(task) for task, _ in steps}
    ops = [task.op for task, _ in found]
    assert ops.index("update") < len(ops) - 1 - ops[::-1].index("back")


@pytest.mark.parametrize("seed", range(20))
def test_every_order_can_run_and_keeps_what_is_written_in_place(seed):
    rng = random.Random(seed)
    state = [Piece("input", LARGE, i) for i in range(4)]
    steps, values, outputs = [], [*state], []
    for _ in range(40):
        read = rng.sample(values, min(len(values), rng.randint(1, 3)))
        sizes = [rng.choice([SMALL, LARGE, LARGE]) for _ in range(rng.choice([1, 1, 2]))]
        failing = {"failures": (WRONG,)} if rng.random() < 0.05 else {}
        steps.append(step("op", read, sizes, **failing))
        values += steps[-1][0].outputs
    for own in state:
        gradient = rng.choice([v for v in values if v.kind == "made"])
        steps.append(step("update", [own, gradient], [LARGE], in_place=((0, 0),)))
        outputs += steps[-1][0].outputs
    found = ordered(steps, outputs)
    place = {id(task): n for n, (task, _) in enumerate(found)}
    before = {id(task): n for n, (task, _) in enumerate(steps)}
    maker = {p: task for task, _ in steps for p in task.outputs}
    for task, _ in steps:
        for value in task.inputs:
            if value.piece in maker:
                assert place[id(maker[value.piece])] < place[id(task)]
        if task.op != "update":
            continue
        for other, work in steps:
            reads = task.inputs[0].piece in {v.piece for v in other.inputs}
            if (reads or work.failures) and before[id(other)] < before[id(task)]:
                assert place[id(other)] < place[id(task)]
    assert most(found, outputs) <= most(steps, outputs)


def test_an_order_that_saves_little_stays():
    steps, outputs, _ = training(1)
    assert [task.op for task, _ in ordered(steps, outputs)] == [task.op for task, _ in steps]


def indexed(op, indices, sizes=(LARGE,), failure=WRONG):
    """Return a task that reads rows at indices, which may be out of range."""
    table = Value(Piece("input", LARGE, 9), View.dense(spec((LARGE // 4,), float32)))
    task, work = step(op, [], sizes, failures=(failure,))
    task.inputs = (table, indices)
    return task, work


def column(piece, offset, count=8, across=3):
    return Value(piece, View((count,), (across,), int64, offset))


def test_what_checks_the_indices_of_a_task_before_it_decides_nothing():
    rows = Piece("input", 8 * 3 * 8, 0)
    first, second = column(rows, 0), column(rows, 1)
    copy, plain = step("copy", [], [64])
    copy.inputs = (first,)
    copied = Value(copy.outputs[0], View.dense(spec((8, 1), int64)))
    gather, again = indexed("gather", first), indexed("scatter_nd", copied)
    assert last_failing(*zip(gather, (copy, plain), again, strict=True)) == 0
    # Another column, and another limit.
    other = indexed("scatter_nd", second)
    assert last_failing(*zip(gather, other, strict=True)) == 1
    shorter = indexed("scatter_nd", first, failure=WRONG._replace(size=4))
    assert last_failing(*zip(gather, shorter, strict=True)) == 1
    # A part of what was copied.
    part = replace(copied, view=View((4,), (1,), int64, 0))
    assert last_failing(*zip(gather, (copy, plain), indexed("gather", part), strict=True)) == 2
    assert last_failing(*zip((copy, plain), strict=True)) == -1
    # A copy of one number, which the launch has as a parameter, reads nothing.
    filled = step("copy", [], [64])
    assert last_failing(*zip(filled, gather, again, strict=True)) == 2
    assert last_failing(*zip(filled, gather, indexed("gather", first), strict=True)) == 1
