"""State that is written in place behind ops that may fail, on a device with memory of its own."""

from dataclasses import replace

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.errors import ElementIndexError
from calor.ops.base import find
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.run_guard import ABOVE_WORDS
from calor_kernel.planning.recording import APART
from calor_kernel.runtime.backend import KernelBackend

from .test_outcomes import Apart, Counting

# Larger than what memory is rounded up to.
SIZE = 64
GOOD = np.arange(SIZE)[::-1] // 2
BAD = np.where(GOOD == 3, SIZE, GOOD)
TABLE = np.arange(SIZE, dtype=np.float32)
STATE = np.ones(SIZE, np.float32)


class Bytes(np.ndarray):
    """Bytes that a pool can look up."""

    __hash__ = object.__hash__


class Parted(Apart):
    """Memory with handles of parts, as most devices have."""

    def alloc(self, nbytes):
        return super().alloc(nbytes).view(Bytes)

    def part(self, handle, offset, nbytes):
        return handle[offset : offset + nbytes]


def device_with(memory=Parted, fusers=(), **changes):
    made = LanesDevice(replace(ONE_UNIT, **changes), checks=True)
    made.memory = memory()
    made.queue = Counting(checks=True)
    return device_of(KernelBackend("late", lambda index: made, fusers=fusers), 0)


@pytest.fixture(params=[Parted, Apart])
def device(request):
    return device_with(request.param)


class Work:
    """Plans of a device, buffers, and what is read of them; counts the waits."""

    def __init__(self, device):
        self.backend = device.backend
        self.engine = device.backend.engine(0)

    def plan(self, function, *arrays):
        with calor.device("numpy"):
            graph = calor.trace(function, *[calor.asarray(a) for a in arrays])
        return self.backend.compile(0, graph)

    def put(self, *arrays):
        return [self.backend.upload(0, np.array(a)) for a in arrays]

    def look(self, buffer, size=SIZE):
        return self.backend.download(0, buffer, calor.specs.spec((size,), calor.float32)).tolist()

    def fails(self, buffer):
        with pytest.raises(ElementIndexError, match="out of range for axis 0 of size") as caught:
            self.look(buffer)
        assert caught.value.index is not None
        return caught.value.op == "gather"

    @property
    def waits(self):
        return self.engine.device.queue.waits + self.engine.device.memory.waits


@pytest.fixture
def work(device):
    return Work(device)


def gather(x, indices):
    return find("gather")(x, indices, axis=0)


def test_the_errors_of_a_template_have_the_sizes_of_each_call(work):
    for size in (7, 9, 11, 13):
        rows = np.zeros((size, 3), np.float32)
        plan = work.plan(lambda x, i: gather(x, i) * 2.0, rows, np.array([size]))
        (made,) = plan(work.put(rows, np.array([size])))
        with pytest.raises(ElementIndexError, match=f"{size} is out .* size {size}") as caught:
            work.look(made, 3)
        assert (caught.value.index, caught.value.axis, caught.value.size) == (size, 0, size)
    assert work.engine.replanning.used


def step(state, other, table, indices):
    """Change two states; the results are a sum, and what no index has a part in."""
    picked = gather(table, indices)
    product = picked * state
    return state + picked, other * 2, product, table + 1


@pytest.fixture
def plan(work):
    return work.plan(step, STATE, STATE, TABLE, GOOD)


def run(plan, state, table, indices):
    return plan([*state, table, indices], [*state, None, None])[2:]


def expected(steps):
    state, other = STATE, STATE
    for _ in range(steps):
        state, other = state + TABLE[GOOD], other * 2
    return [state.tolist(), other.tolist()]


def test_nobody_waits_and_a_failed_step_changes_nothing(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    made = [run(plan, state, table, bad if n == 3 else good) for n in range(6)]
    assert work.waits == 0
    for n, (picked, plain) in enumerate(made):
        if n < 3:
            wanted = TABLE[GOOD] * expected(n)[0]
            assert work.look(picked) == wanted.tolist()
        else:
            assert work.fails(picked)
            assert work.fails(picked)
        assert work.look(plain) == (TABLE + 1).tolist()
    # Steps behind the failed one change nothing either. The state is usable after the error.
    assert [work.look(b) for b in state] == expected(3)
    (picked, _) = run(plan, state, table, good)
    assert work.look(picked) == (TABLE[GOOD] * expected(3)[0]).tolist()
    assert [work.look(b) for b in state] == expected(4)
    work.backend.synchronize(0)


def test_whoever_reads_the_state_first_gets_the_error(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    run(plan, state, table, good)
    run(plan, state, table, bad)
    copied = work.backend.copy(0, state[0], calor.specs.spec((SIZE,), calor.float32), 0)
    assert work.fails(state[1])
    assert [work.look(b) for b in state] == expected(1)
    assert work.fails(copied)
    work.backend.synchronize(0)


def test_who_waits_gets_the_error_once(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    run(plan, state, table, bad)
    with pytest.raises(ElementIndexError):
        work.backend.synchronize(0)
    work.backend.synchronize(0)
    run(plan, state, table, good)
    assert [work.look(b) for b in state] == expected(1)


def test_an_error_that_nobody_received_ends_the_next_step(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    (fine, _) = run(plan, state, table, good)
    run(plan, state, table, bad)
    work.look(fine)
    with pytest.raises(ElementIndexError):
        run(plan, state, table, good)
    run(plan, state, table, good)
    assert [work.look(b) for b in state] == expected(2)


def test_a_value_of_the_state_from_before_is_no_failure(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    after = work.plan(lambda x: (x - 1,), STATE)
    run(plan, state, table, good)
    (before,) = after([state[0]])
    run(plan, state, table, bad)
    (behind,) = after([state[0]])
    assert work.look(before) == (np.array(expected(1)[0]) - 1).tolist()
    assert work.fails(behind)
    assert work.look(state[0]) == expected(1)[0]


def test_the_states_of_a_plan_fail_alone(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    others = work.put(STATE, STATE)
    for n in range(4):
        run(plan, state, table, bad if n == 1 else good)
        run(plan, others, table, good)
    assert [work.look(b) for b in others] == expected(4)
    assert work.fails(state[0])
    assert [work.look(b) for b in state] == expected(1)


def test_a_guard_is_heeded_by_other_plans(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    other = work.plan(lambda s, o, t, i: step(o, s, t, i)[1::-1], STATE, STATE, TABLE, GOOD)
    both = [lambda i: run(plan, state, table, i), lambda i: other([*state, table, i], state)]
    for n in range(8):
        both[n % 2](good)
    before = [work.look(b) for b in state]
    waited = work.waits
    for n in range(7):
        both[n % 2](bad if n == 2 else good)
    assert work.waits == waited
    assert work.fails(state[0])
    found = [work.look(b) for b in state]
    # The first two steps had an effect: of each state, one addition and one doubling.
    added, doubled = ([float(x) for x in b] for b in before)
    assert found[0] == ((np.array(added) + TABLE[GOOD]) * 2).tolist()
    assert found[1] == (np.array(doubled) * 2 + TABLE[GOOD]).tolist()
    both[1](good)
    assert work.look(state[0]) == [2 * x for x in found[0]]
    work.backend.synchronize(0)


@pytest.mark.parametrize("operands", [1, 3, ABOVE_WORDS + 1])
def test_operands_that_may_have_failed_are_not_waited_for(work, operands):
    many = work.plan(
        lambda s, t, i, *more: (s + gather(t, i) + sum(more), t * 1),
        STATE, TABLE, GOOD, *[STATE] * operands,
    )  # fmt: skip
    pick = work.plan(lambda t, i: (gather(t, i), t - 1), TABLE, GOOD)
    state, table, good, bad = work.put(STATE, TABLE, GOOD, BAD)
    wanted = STATE
    for fails in (False, True, False):
        picked = [pick([table, good])[0] for _ in range(operands - 1)]
        picked.append(pick([table, bad if fails else good])[0])
        waited = work.waits
        if fails and operands > ABOVE_WORDS:
            with pytest.raises(ElementIndexError):
                many([state, table, good, *picked], [state, None])
            continue
        many([state, table, good, *picked], [state, None])
        assert (work.waits > waited) == (operands > ABOVE_WORDS)
        many([state, table, good, *picked], [state, None])
        if fails:
            assert work.fails(state)
            assert work.fails(picked[-1])
        else:
            wanted = wanted + 2 * (operands + 1) * TABLE[GOOD]
        assert work.look(state) == wanted.tolist()
    work.backend.synchronize(0)


def test_memory_that_is_no_operand_is_written_behind_the_last_failure(work):
    # Without a guard for it, the intermediate result would lie in the target's memory.
    plan = work.plan(lambda t, i: (gather(t, i) * 3 + 1, t * 2), TABLE, GOOD)
    target, table, good, bad = work.put(STATE, TABLE, GOOD, BAD)
    plan([table, good], [target, None])
    wanted = (TABLE[GOOD] * 3 + 1).tolist()
    assert work.look(target) == wanted
    plan([table, bad], [target, None])
    assert work.fails(target)
    assert work.look(target) == wanted
    lost = work.plan(lambda t, i: (gather(t, i),), TABLE, GOOD)([table, bad])[0]
    with pytest.raises(ElementIndexError):
        plan([table, bad], [lost, None])
    assert work.fails(lost)
    plan([table, good], [lost, None])
    assert work.look(lost) == wanted


def test_results_of_launches_that_did_not_run_are_failures(work):
    # One launch writes the state and another result, which depends on no index.
    plan = work.plan(lambda s, t, i: (s + t, t + t, gather(t, i)), STATE, TABLE, GOOD)
    recording = plan.recorder.laid({0: 0})
    state, table, bad = work.put(STATE, TABLE, BAD)
    _, double, _ = plan([state, table, bad], [state, None, None])
    together = any(len(plan.draft.tasks[n].outputs) > 1 for n in recording.stopped)
    if together:
        assert work.fails(double)
    else:
        assert work.look(double) == (TABLE * 2).tolist()
    assert work.fails(plan([state, table, bad], [state, None, None])[2])


def test_a_launch_without_room_for_an_argument_is_waited_for():
    work = Work(device_with(arguments=5))
    plan = work.plan(step, STATE, STATE, TABLE, GOOD)
    assert plan.recorder.laid({0: 0, 1: 1}).stopped is None
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    run(plan, state, table, good)
    with pytest.raises(ElementIndexError):
        run(plan, state, table, bad)
    assert [work.look(b) for b in state] == expected(1)


def test_state_of_many_sizes(work):
    for size in range(SIZE, SIZE + 6):
        table, state = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
        good, bad = np.arange(size)[::-1].copy(), np.arange(size) + 1
        plan = work.plan(step, state, state, table, good)
        *both, t, g, b = work.put(state, state, table, good, bad)
        for indices in (g, b, g):
            run(plan, both, t, indices)
        waited = work.waits
        with pytest.raises(ElementIndexError):
            work.look(both[0], size)
        assert work.waits == waited + 1
        assert work.look(both[0], size) == (state + table[good]).tolist()
    assert work.engine.replanning.used


def test_a_run_that_was_not_queued_leaves_the_guard_usable(work, plan, monkeypatch):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    run(plan, state, table, good)
    with monkeypatch.context() as patch:
        patch.setattr(plan.queue, "run", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(plan, state, table, good)
    run(plan, state, table, good)
    run(plan, state, table, bad)
    assert work.fails(state[0])
    assert [work.look(b) for b in state] == expected(2)


def test_the_counter_of_a_guard_wraps(work, plan):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    run(plan, state, table, good)
    (guard,) = plan.guards.values()
    near = (1 << 32) - 1
    guard.count += near - 1
    guard.known += near - 1
    memory = work.engine.device.memory
    memory.copy_in(guard.handle, guard.place + 4, np.array([near], np.uint32))
    for _ in range(3):
        (fine, _) = run(plan, state, table, good)
    (lost, _) = run(plan, state, table, bad)
    work.look(fine)
    assert work.fails(lost)
    assert [work.look(b) for b in state] == expected(4)


def test_only_what_writes_state_is_guarded(plan):
    laid = plan.recorder.laid({0: 0, 1: APART})
    (launches,) = laid.lists
    ops = [(la.op, la.launch.build.guarded) for la, _ in launches]
    assert [op for op, guarded in ops if guarded] == ["add", "mul"]
    assert [op for op, _ in ops].index("guard") == 1
    assert laid.stopped == {n for n, t in enumerate(plan.draft.tasks) if n in laid.stopped}
    assert plan.recorder.laid({0: 0}, private=True).stopped is None
    assert plan.recorder.laid({}).stopped is None


@pytest.mark.parametrize("number", [9, SIZE])
def test_steps_that_may_fail_write_their_rows_in_place(work, number):
    def scan(table, xs, indices):
        def body(total, given):
            row, chosen = given
            picked = gather(table, chosen).sum()
            both = calor.concat([row * picked, row + 1])
            return total + picked, (both, calor.flip(both, axis=0))

        return calor.scan(body, table[0], (xs, indices))

    xs, indices = np.ones((3, SIZE), np.float32), np.arange(12).reshape(3, 4)
    plan = work.plan(scan, TABLE, xs, indices)
    wrong = indices.copy()
    wrong[1, 2] = number
    for chosen in (indices, wrong, indices):
        total, both, turned = plan(work.put(TABLE, xs, chosen))
        if chosen.max() >= SIZE:
            with pytest.raises(ElementIndexError, match=f"index {number} is out .* size {SIZE}"):
                work.look(total, 1)
            continue
        sums = TABLE[chosen].sum(1)
        rows = np.concatenate([xs * sums[:, None], xs + 1], axis=1)
        assert work.look(total, 1) == [sums.sum()]
        assert work.look(both, rows.size) == rows.ravel().tolist()
        assert work.look(turned, rows.size) == rows[:, ::-1].ravel().tolist()


def test_what_is_computed_beside_a_failure_is_kept():
    work = Work(device_with(fusers=[ElementwiseFuser()]))

    def both(x, state, indices):
        return x + 1, find("scatter_nd")(state, indices[:, None], x, update="add") + 1

    plan = work.plan(both, STATE, TABLE, GOOD)
    assert any(len(task.covers) == 2 for task in plan.draft.tasks)
    fine, failed = plan(work.put(STATE, TABLE, BAD))
    assert work.look(fine) == (STATE + 1).tolist()
    with pytest.raises(ElementIndexError):
        work.look(failed)


def test_results_of_indices_that_were_checked_before_are_failures(work):
    # The guard stands behind the first gather, as the second one cannot fail alone.
    def both(state, table, indices):
        return state + gather(table, indices), gather(table * 3, indices) - 1, table + 1

    plan = work.plan(both, STATE, TABLE, GOOD)
    state, table, good, bad = work.put(STATE, TABLE, GOOD, BAD)
    for indices in (good, bad):
        _, second, plain = plan([state, table, indices], [state, None, None])
        if indices is bad:
            assert work.fails(second)
        else:
            assert work.look(second) == (TABLE[GOOD] * 3 - 1).tolist()
        assert work.look(plain) == (TABLE + 1).tolist()
    assert work.look(state) == (STATE + TABLE[GOOD]).tolist()


@pytest.mark.parametrize("waits", [False, True])
def test_what_is_made_of_a_state_whose_error_was_told_is_no_failure(work, plan, waits):
    *state, table, good, bad = work.put(STATE, STATE, TABLE, GOOD, BAD)
    run(plan, state, table, good)
    run(plan, state, table, bad)
    if waits:
        with pytest.raises(ElementIndexError):
            work.backend.synchronize(0)
    else:
        assert work.fails(state[1])
    # Without targets a run inherits what its operands depend on; so does a copy.
    fresh = plan([*state, table, good], [None] * 4)
    copied = work.backend.copy(0, state[0], calor.specs.spec((SIZE,), calor.float32), 0)
    assert [work.look(b) for b in fresh[:2]] == expected(2)
    assert work.look(copied) == expected(1)[0]
