"""Asynchronous copies and roles: what arrives when, and who waits for whom."""

import numpy as np
import pytest

from calor.dtypes import float32, int64
from calor_interpreter.launch import run_on_lanes
from calor_kernel import language as kl
from calor_kernel.errors import KernelCheckError
from calor_kernel.language import Buffer, kernel
from calor_kernel.language.builder import current
from calor_kernel.language.roles import arrive, role

FLOATS, INTEGERS = Buffer(float32), Buffer(int64)


def copy_async(target, at, source, start, elements=1):
    builder = current()
    operands = [builder.coerce(at), builder.coerce(start)]
    said = {"source": source.memory, "elements": elements, "group": 0}
    builder.emit("copy_async", operands, (), said, memory=target.memory)


def commit():
    current().emit("commit_async", (), (), {"group": 0})


def wait(pending):
    current().emit("wait_async", (), (), {"group": 0, "pending": pending})


@kernel
def staged(x, y, n, *, waits=True, meets=True, early=1, touch=False):
    """Two stages in flight: each unit copies two elements a stage, all units read all of them."""
    held = kl.shared(16, float32)
    i = kl.unit_index()
    for s in range(2):
        copy_async(held, s * 8 + i * 2, x, s * 8 + i * 2, 2)
        commit()
    total = 0.0
    for step in range(n):
        place = step % 2 * 8
        if waits:
            wait(early)
        if meets:
            kl.barrier()
        for j in range(8):
            total += held[place + j]
        if meets:
            kl.barrier()
        if touch:
            x[(step + 1) * 8 + i] = 0.0
        if step + 2 < n:
            copy_async(held, place + i * 2, x, (step + 2) * 8 + i * 2, 2)
        commit()
    y[kl.absolute_position()] = total


def run_staged(**keywords):
    x, y = np.arange(40, dtype=np.float32), np.zeros(4, np.float32)
    built = staged.build([FLOATS, FLOATS, kl.Scalar(int64)], cube=(4, 1, 1), **keywords)
    run_on_lanes(built, (1, 1, 1), [x, y, 5])
    return x, y


def test_copies_arrive_when_they_are_waited_for():
    x, y = run_staged()
    assert y.tolist() == [x.sum()] * 4
    _, y = run_staged(early=0)
    assert y.tolist() == [x.sum()] * 4


WRONG = {
    "no wait": ({"waits": False}, "pending", "wait_async comes first"),
    "a wait too lax": ({"early": 2}, "pending", "wait_async comes first"),
    "no barrier": ({"meets": False}, "pending|race", "wait_async comes first|no barrier"),
    "the source changes": ({"touch": True}, "race", "its source was written|no barrier"),
}


@pytest.mark.parametrize("row", WRONG)
def test_copies_that_go_wrong(row):
    keywords, rule, text = WRONG[row]
    with pytest.raises(KernelCheckError, match=text) as caught:
        run_staged(**keywords)
    assert caught.value.rule in rule.split("|")


@kernel
def never_waited(x, y):
    held = kl.shared(4, float32)
    i = kl.unit_index()
    copy_async(held, i, x, i)
    held[i] = 1.0
    y[i] = held[i]


def test_a_target_on_the_way_is_not_written():
    built = never_waited.build([FLOATS, FLOATS], cube=(4, 1, 1))
    with pytest.raises(KernelCheckError, match="store of shared0") as caught:
        run_on_lanes(built, (1, 1, 1), [np.zeros(4, np.float32), np.zeros(4, np.float32)])
    assert caught.value.rule == "pending"


@kernel
def some_copy(x, y):
    held = kl.shared(8, float32)
    i = kl.unit_index()
    held[i] = -1.0
    if i % 2 == 0:
        copy_async(held, i, x, kl.absolute_position())
    commit()
    wait(0)
    y[kl.absolute_position()] = held[i]


def test_copies_under_a_condition_are_their_units_own():
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    run_on_lanes(some_copy.build([FLOATS, FLOATS], cube=(8, 1, 1)), (2, 1, 1), [x, y])
    assert y.tolist() == [i if i % 2 == 0 else -1 for i in range(16)]


@kernel
def produced(x, y, n, *, count=8, safe=True):
    """Units 0 to 3 fill two stages in turn, units 4 to 7 empty them: full 1, 2 and empty 3, 4."""
    held = kl.shared(8, int64)
    i = kl.unit_index()
    with role(0, 1, scope="plane"):
        for step in range(0, n, 2):
            for s in range(2):
                if step > 0 and safe:
                    kl.barrier(name=3 + s, count=count)
                held[s * 4 + i] = x[(step + s) * 4 + i]
                arrive(1 + s, count)
    with role(1, 1, scope="plane"):
        total = 0
        for step in range(0, n, 2):
            for s in range(2):
                kl.barrier(name=1 + s, count=count)
                total = total * 2 + held[s * 4 + (i - 3) % 4]
                if safe and step + 2 < n:
                    arrive(3 + s, count)
        y[kl.cube_position() * 4 + i - 4] = total


def run_produced(**keywords):
    x, y = np.arange(24), np.zeros(8, np.int64)
    signature = [INTEGERS, INTEGERS, kl.Scalar(int64)]
    built = produced.build(signature, cube=(8, 1, 1), plane=4, **keywords)
    run_on_lanes(built, (2, 1, 1), [x, y, 6])
    return x, y


def test_roles_hand_over_by_named_barriers():
    x, y = run_produced()
    rows = x.reshape(6, 4)
    expected = [sum(int(rows[s, (i + 1) % 4]) << (5 - s) for s in range(6)) for i in range(4)]
    assert y.tolist() == expected * 2


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"safe": False}, "4 of 8 units reach it"),
        ({"count": 12}, "of 12 units reach it, and no other one will"),
        ({"count": 5}, "8 units arrive where 5 are waited for"),
    ],
)
def test_roles_that_miss_each_other(keywords, text):
    with pytest.raises(KernelCheckError, match=text):
        run_produced(**keywords)


@kernel
def written_after_arriving(y, *, late):
    held = kl.shared(8, int64)
    i = kl.unit_index()
    with role(0, 2, scope="plane"):
        held[i] = i
        arrive(1, 12)
        if late:
            held[i] = -i
    with role(2, 1, scope="plane"):
        kl.barrier(name=1, count=12)
        y[i - 8] = held[i - 6]


def test_what_is_written_after_arriving_is_not_handed_over():
    y = np.zeros(4, np.int64)
    built = written_after_arriving.build([INTEGERS], cube=(12, 1, 1), plane=4, late=False)
    run_on_lanes(built, (1, 1, 1), [y])
    assert y.tolist() == [2, 3, 4, 5]
    built = written_after_arriving.build([INTEGERS], cube=(12, 1, 1), plane=4, late=True)
    with pytest.raises(KernelCheckError, match="no barrier stands between"):
        run_on_lanes(built, (1, 1, 1), [y])


@kernel
def passed_on(y):
    """What the first plane wrote reaches the third by way of the second."""
    held = kl.shared(4, int64)
    i = kl.unit_index()
    with role(0, 1, scope="plane"):
        held[i] = i * 3
        arrive(1, 8)
    with role(1, 1, scope="plane"):
        kl.barrier(name=1, count=8)
        kl.barrier("plane")
        arrive(2, 8)
    with role(2, 1, scope="plane"):
        kl.barrier(name=2, count=8)
        y[i - 8] = held[(i + 1) % 4]


def test_barriers_of_several_names_are_a_chain():
    y = np.zeros(4, np.int64)
    run_on_lanes(passed_on.build([INTEGERS], cube=(12, 1, 1), plane=4), (1, 1, 1), [y])
    assert y.tolist() == [3, 6, 9, 0]


@kernel
def meets_in_a_role(y):
    with role(0, 1, scope="plane"):
        kl.barrier()
        y[kl.unit_index()] = 1


def test_a_barrier_of_the_cube_in_a_role():
    built = meets_in_a_role.build([INTEGERS], cube=(8, 1, 1), plane=4)
    with pytest.raises(KernelCheckError, match="4 of 8 units reach it"):
        run_on_lanes(built, (1, 1, 1), [np.zeros(8, np.int64)])


@kernel
def changed(x, y, *, kind):
    i = kl.absolute_position()
    if kind == "compare":
        y[i] = x.atomic(kind, 0, i, i + 1)
    else:
        y[i] = x.atomic(kind, 0, i + 1)


ATOMICS = {
    "add": (0, 10, [0, 1, 3, 6]),
    "min": (3, 1, [3, 1, 1, 1]),
    "max": (2, 4, [2, 2, 2, 3]),
    "or": (8, 15, [8, 9, 11, 11]),
    "and": (6, 0, [6, 0, 0, 0]),
    "xor": (1, 5, [1, 0, 2, 1]),
    "exchange": (9, 4, [9, 1, 2, 3]),
    "compare": (0, 4, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("units", [1, 2, 4])
@pytest.mark.parametrize("kind", ATOMICS)
def test_atomics_are_done_in_the_units_order(kind, units):
    start, end, old = ATOMICS[kind]
    x, y = np.array([start]), np.zeros(4, np.int64)
    built = changed.build([INTEGERS, INTEGERS], cube=(units, 1, 1), kind=kind)
    run_on_lanes(built, (4 // units, 1, 1), [x, y])
    assert (x[0], y.tolist()) == (end, old)


@kernel
def histogram(x, y):
    i = kl.absolute_position()
    if x[i] >= 0:
        y.atomic("add", x[i], 1)


def test_atomics_of_many_units():
    x = np.random.default_rng(0).integers(-2, 5, 4096)
    y = np.zeros(5, np.int64)
    run_on_lanes(histogram.build([INTEGERS, INTEGERS], cube=(64, 1, 1)), (64, 1, 1), [x, y])
    assert y.tolist() == np.bincount(x[x >= 0]).tolist()
