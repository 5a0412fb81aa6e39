"""Every rule of lanes: a kernel that breaks it, and a like one that does not."""

import inspect

import numpy as np
import pytest

from calor.dtypes import bool_, float32, float64, int32, int64
from calor_interpreter import control
from calor_interpreter.launch import run_on_lanes
from calor_kernel import language as kl
from calor_kernel.errors import KernelCheckError, KernelTypeError
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import kernel

FLOATS, INTEGERS, COUNT = Buffer(float32), Buffer(int64), Scalar(int64)


def line_of(function, text):
    """Return the line of the first piece of text in a kernel."""
    lines, first = inspect.getsourcelines(function.function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def run(function, signature, arguments, *, cube=(4, 1, 1), cubes=(1, 1, 1), plane=1, **keywords):
    features = frozenset(keywords.pop("features", ()))
    built = function.build(signature, cube=cube, plane=plane, features=features)
    run_on_lanes(built, cubes, arguments, **keywords)


@kernel
def shifted(x, y, n):
    i = kl.absolute_position()
    y[i] = x[i + n]


@pytest.mark.parametrize(("n", "unit", "index"), [(1, 3, 4), (-1, 0, -1), (2**40, 0, 2**40)])
def test_bounds(n, unit, index):
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(KernelCheckError, match="outside of its 4 elements") as caught:
        run(shifted, [FLOATS, FLOATS, COUNT], [x, y, n])
    error = caught.value
    assert (error.rule, error.memory, error.index) == ("bounds", "x", index)
    assert (error.cube, error.unit) == ((0, 0, 0), (unit, 0, 0))
    assert error.position == (__file__, line_of(shifted, "y[i] = x[i + n]"))
    assert f"{__file__}:{error.position[1]}: load of x[{index}] by unit ({unit}, 0, 0)" in str(
        error
    )
    # Bounds are checked in any case.
    with pytest.raises(KernelCheckError):
        run(shifted, [FLOATS, FLOATS, COUNT], [x, y, n], checks=False)
    run(shifted, [FLOATS, FLOATS, COUNT], [(np.zeros(9, np.float32), 3), y, n % 3 - 1])


@kernel
def wide_store(y, n):
    y.store(n, kl.splat(1.0, 4))


@pytest.mark.parametrize(("n", "index"), [(5, 8), (-2, -2)])
def test_bounds_of_vectors_name_the_lane(n, index):
    with pytest.raises(KernelCheckError, match=rf"store of y\[{index}\]"):
        run(wide_store, [FLOATS, COUNT], [np.zeros(8, np.float32), n], cube=(1, 1, 1))
    run(wide_store, [FLOATS, COUNT], [np.zeros(8, np.float32), 4], cube=(1, 1, 1))


@kernel
def own_memory(y, n, *, space):
    held = getattr(kl, space)(6, float32)
    i = kl.unit_index()
    if i == 0:
        held[n] = 1.0
        y[kl.cube_position()] = held[n]


@pytest.mark.parametrize("space", ["shared", "private"])
def test_bounds_of_own_memory_are_a_cubes_or_units(space):
    built = own_memory.build([FLOATS, COUNT], cube=(2, 1, 1), space=space)
    y = np.zeros(3, np.float32)
    run_on_lanes(built, (3, 1, 1), [y, 5])
    assert y.tolist() == [1, 1, 1]
    with pytest.raises(KernelCheckError, match="outside of its 6 elements"):
        run_on_lanes(built, (3, 1, 1), [y, 6])


@kernel
def turned_around(y, *, meet, again=False):
    held = kl.shared(4, float32)
    i = kl.unit_index()
    held[i] = 1.0
    if meet:
        kl.barrier()
    y[kl.absolute_position()] = held[3 - i]
    if again:
        held[i] = 2.0


RACES = {
    "read after write": ({"meet": False}, "load of shared0"),
    "write after read": ({"meet": True, "again": True}, "store of shared0"),
}


@pytest.mark.parametrize("row", RACES)
def test_races_in_a_cube(row):
    keywords, text = RACES[row]
    built = turned_around.build([FLOATS], cube=(4, 1, 1), **keywords)
    with pytest.raises(KernelCheckError, match="no barrier stands between") as caught:
        run_on_lanes(built, (2, 1, 1), [np.zeros(8, np.float32)])
    assert caught.value.rule == "race"
    assert text in str(caught.value)
    run_on_lanes(built, (2, 1, 1), [np.zeros(8, np.float32)], checks=False)


def test_a_barrier_orders_a_cube():
    built = turned_around.build([FLOATS], cube=(4, 1, 1), meet=True)
    y = np.zeros(8, np.float32)
    run_on_lanes(built, (2, 1, 1), [y])
    assert y.tolist() == [1] * 8


@kernel
def many_readers(y):
    held = kl.shared(1, float32)
    if kl.unit_index() == 0:
        held[0] = 5.0
    kl.barrier()
    y[kl.absolute_position()] = held[0]
    if kl.unit_index() == 2:
        held[0] = 6.0


def test_a_write_after_many_reads_is_a_race():
    with pytest.raises(KernelCheckError, match="other units read it too"):
        run(many_readers, [FLOATS], [np.zeros(8, np.float32)], cubes=(2, 1, 1))


@kernel
def all_to_one(y, n):
    y[kl.absolute_position() * n] = 1.0


@pytest.mark.parametrize(
    ("cube", "cubes", "advice"),
    [((4, 1, 1), (1, 1, 1), "no barrier"), ((1, 1, 1), (4, 1, 1), "run in any order")],
)
@pytest.mark.parametrize("batch", [1, None])
def test_one_element_has_one_writer(cube, cubes, advice, batch):
    y = np.zeros(4, np.float32)
    with pytest.raises(KernelCheckError, match=advice):
        run(all_to_one, [FLOATS, COUNT], [y, 0], cube=cube, cubes=cubes, batch=batch)
    run(all_to_one, [FLOATS, COUNT], [y, 1], cube=cube, cubes=cubes, batch=batch)


@kernel
def uniform_store(y):
    y[0] = 1.0


def test_a_store_that_all_units_do_has_many_writers():
    with pytest.raises(KernelCheckError, match="writes it too"):
        run(uniform_store, [FLOATS], [np.zeros(1, np.float32)])
    run(uniform_store, [FLOATS], [np.zeros(1, np.float32)], cube=(1, 1, 1))


@kernel
def moved(x, y, *, by):
    i = kl.absolute_position()
    y[i] = x[i + by]


@pytest.mark.parametrize("batch", [1, None])
def test_cubes_must_not_read_what_others_write(batch):
    memory = np.zeros(9, np.float32)
    built = moved.build([FLOATS, FLOATS], by=1)
    with pytest.raises(KernelCheckError, match="run in any order") as caught:
        run_on_lanes(built, (8, 1, 1), [memory, memory], batch=batch)
    assert caught.value.memory == "y"
    # In place is no race.
    run_on_lanes(moved.build([FLOATS, FLOATS], by=0), (8, 1, 1), [memory, memory], batch=batch)


@kernel
def halves(x, y):
    i = kl.absolute_position()
    y[i] = kl.bitcast(x[i * 0], int64)


def test_arguments_that_share_memory_share_its_checks():
    memory = np.zeros(4, np.int64)
    built = halves.build([Buffer(float64), INTEGERS])
    with pytest.raises(KernelCheckError, match="run in any order"):
        run_on_lanes(built, (4, 1, 1), [memory.view(np.float64), memory])
    built = mixed.build([Buffer(int32), INTEGERS])
    with pytest.raises(KernelCheckError, match="run in any order"):
        run_on_lanes(built, (2, 1, 1), [memory.view(np.int32), memory])


@kernel
def mixed(x, y):
    i = kl.absolute_position()
    y[i] = x[3 - i].to(int64)


@kernel
def counted(y, *, plainly):
    i = kl.absolute_position()
    if plainly:
        y[0] = y[0] + i
    else:
        y.atomic("add", 0, i)


def test_atomics_do_not_race_among_themselves():
    y = np.zeros(1, np.int64)
    run_on_lanes(counted.build([INTEGERS], cube=(4, 1, 1), plainly=False), (3, 1, 1), [y])
    assert y[0] == 66
    with pytest.raises(KernelCheckError, match="race|too"):
        run_on_lanes(counted.build([INTEGERS], cube=(4, 1, 1), plainly=True), (3, 1, 1), [y])


@kernel
def atomic_then_plain(y, z, *, meet):
    y.atomic("add", kl.cube_position(), 1)
    if meet:
        kl.barrier()
    z[kl.absolute_position()] = y[kl.cube_position()]


def test_a_plain_read_after_atomics_needs_a_barrier():
    y, z = np.zeros(2, np.int64), np.zeros(8, np.int64)
    with pytest.raises(KernelCheckError, match="no barrier"):
        run_on_lanes(
            atomic_then_plain.build([INTEGERS] * 2, cube=(4, 1, 1), meet=False), (2, 1, 1), [y, z]
        )
    y[:] = 0
    run_on_lanes(
        atomic_then_plain.build([INTEGERS] * 2, cube=(4, 1, 1), meet=True), (2, 1, 1), [y, z]
    )
    assert z.tolist() == [4] * 8


@kernel
def last_one_sums(x, partial, counter, y, n, *, ordered):
    """The cube that finishes last sums what the others left: a reduction in one launch."""
    i = kl.cube_position()
    partial[i] = x[i] * 2
    if ordered:
        kl.fence()
    done = counter.atomic("add", 0, 1)
    if done == n - 1:
        if ordered:
            kl.fence()
        total = 0
        for j in range(n):
            total += partial[j]
        y[0] = total


@pytest.mark.parametrize("batch", [1, 3, None])
def test_fences_order_cubes(batch):
    def arguments():
        return [np.arange(5), np.zeros(5, int), np.zeros(1, int), np.zeros(1, int), 5]

    given = arguments()
    signature = [INTEGERS] * 4 + [COUNT]
    built = last_one_sums.build(signature, ordered=True)
    run_on_lanes(built, (5, 1, 1), given, batch=batch)
    assert given[3][0] == 20
    with pytest.raises(KernelCheckError, match="run in any order"):
        run_on_lanes(last_one_sums.build(signature, ordered=False), (5, 1, 1), arguments())


@kernel
def chained(x, flags, y):
    """Each cube waits for the one before it: a scan by look-back."""
    i = kl.cube_position()
    before = 0
    if i > 0:
        while flags.load(i - 1, order="acquire", scope="device") == 0:
            before = 0
        before = y[i - 1]
    y[i] = before + x[i]
    flags.store(i, kl.constant(1, int64), order="release", scope="device")


def test_cubes_that_wait_for_others_run_one_after_another():
    x, flags, y = np.arange(6), np.zeros(6, int), np.zeros(6, int)
    run_on_lanes(chained.build([INTEGERS] * 3), (6, 1, 1), [x, flags, y])
    assert y.tolist() == np.cumsum(x).tolist()


@kernel
def endless(y):
    n = y[0]
    while n == 0:
        n = y[0]


def test_loops_without_an_end_are_found(monkeypatch):
    monkeypatch.setattr(control, "ROUNDS", 50)
    with pytest.raises(KernelCheckError, match="goes on after 50 rounds"):
        run(endless, [INTEGERS], [np.zeros(1, np.int64)])


@kernel
def no_step(y, n):
    for i in range(0, 3, n):
        y[0] = i


def test_a_step_of_zero():
    with pytest.raises(KernelCheckError, match="step of the range is 0"):
        run(no_step, [INTEGERS, Scalar(int64, nonnegative=True)], [np.zeros(1, int), 0])


@kernel
def half_barrier(y, n):
    if kl.unit_index() < n:
        kl.barrier()
    y[kl.absolute_position()] = 1.0


def test_barriers_are_reached_by_all_units_or_none():
    for n in (0, 4):
        run(half_barrier, [FLOATS, COUNT], [np.zeros(8, np.float32), n], cubes=(2, 1, 1))
    with pytest.raises(KernelCheckError, match="3 of 4 units reach it") as caught:
        run(half_barrier, [FLOATS, COUNT], [np.zeros(8, np.float32), 3], cubes=(2, 1, 1))
    assert caught.value.rule == "barrier"
    assert caught.value.position[1] == line_of(half_barrier, "kl.barrier()")


@kernel
def by_cube(y):
    if kl.cube_position() == 1:
        kl.barrier()
    y[kl.absolute_position()] = 1.0


def test_cubes_may_disagree_about_a_barrier():
    run(by_cube, [FLOATS], [np.zeros(12, np.float32)], cubes=(3, 1, 1))


@kernel
def forgotten(y, *, space):
    held = getattr(kl, space)(4, float32)
    if kl.unit_index() < 3:
        held[kl.unit_index()] = 1.0
    kl.barrier()
    y[kl.absolute_position()] = held[kl.unit_index()]


@pytest.mark.parametrize("space", ["shared", "private"])
def test_memory_that_nobody_wrote(space):
    built = forgotten.build([FLOATS], cube=(4, 1, 1), space=space)
    with pytest.raises(KernelCheckError, match="nobody wrote it") as caught:
        run_on_lanes(built, (2, 1, 1), [np.zeros(8, np.float32)])
    assert (caught.value.rule, caught.value.index) == ("uninitialized", 3)
    assert caught.value.unit == (3, 0, 0)


@kernel
def aligned_load(x, y, n):
    y.store(kl.cube_position() * 4, x.load(n + kl.cube_position() * 4, 4, align=16))


def test_alignment_that_is_claimed():
    x, y = np.zeros(16, np.float32), np.zeros(8, np.float32)
    signature = [FLOATS, FLOATS, COUNT]
    run(aligned_load, signature, [x, y, 4], cube=(1, 1, 1), cubes=(2, 1, 1))
    run(aligned_load, signature, [(x, 3), y, 1], cube=(1, 1, 1), cubes=(2, 1, 1))
    with pytest.raises(KernelCheckError, match="does not divide by 16 bytes") as caught:
        run(aligned_load, signature, [x, y, 2], cube=(1, 1, 1), cubes=(2, 1, 1))
    assert (caught.value.rule, caught.value.memory, caught.value.index) == ("align", "x", 2)
    with pytest.raises(KernelCheckError, match="align"):
        run(aligned_load, signature, [(x, 1), y, 4], cube=(1, 1, 1), cubes=(2, 1, 1))


@kernel
def aligned_shared(y, *, align):
    held = kl.shared(8, float32, align=align)
    held.store(kl.unit_index() * 4, kl.splat(1.0, 4), align=16)
    kl.barrier()
    y[kl.unit_index()] = held[kl.unit_index()]


def test_alignment_of_shared_memory_is_what_it_asks_for():
    y = np.zeros(2, np.float32)
    run_on_lanes(aligned_shared.build([FLOATS], cube=(2, 1, 1), align=16), (1, 1, 1), [y])
    # Memory that asks for nothing is aligned to its elements alone.
    for align in (8, 0):
        built = aligned_shared.build([FLOATS], cube=(2, 1, 1), align=align)
        with pytest.raises(KernelCheckError, match="which align= claims"):
            run_on_lanes(built, (1, 1, 1), [y])


@kernel
def divided(x, y, *, function, only=False):
    i = kl.absolute_position()
    if only:
        if y[i] != 0:
            x[i] = function(x[i], y[i])
    else:
        x[i] = function(x[i], y[i])


LOWEST = np.iinfo(np.int64).min
DIVISIONS = {
    "by zero": (kl.quotient, [5, 5], [1, 0], "divisor is 0"),
    "rest by zero": (kl.modulo, [5, 5], [0, 1], "divisor is 0"),
    "no result": (kl.quotient, [5, LOWEST], [-1, -1], "has no result"),
}


@pytest.mark.parametrize("row", DIVISIONS)
def test_divisions(row):
    function, x, y, text = DIVISIONS[row]
    built = divided.build([INTEGERS, INTEGERS], function=function)
    with pytest.raises(KernelCheckError, match=text) as caught:
        run_on_lanes(built, (2, 1, 1), [np.array(x), np.array(y)])
    assert caught.value.rule == "division"


def test_divisions_by_zero_of_others_do_no_harm():
    x = np.array([7, 8])
    built = divided.build([INTEGERS, INTEGERS], function=kl.quotient, only=True)
    run_on_lanes(built, (2, 1, 1), [x, np.array([0, 2])])
    assert x.tolist() == [7, 4]


@pytest.mark.parametrize("by", [-1, 64])
def test_shifts_beyond_the_type(by):
    built = divided.build([INTEGERS, INTEGERS], function=lambda a, b: a << b)
    with pytest.raises(KernelCheckError, match=f"a shift by {by} of a type of 64 bits") as caught:
        run_on_lanes(built, (2, 1, 1), [np.array([1, 1]), np.array([0, by])])
    assert caught.value.rule == "shift"


@kernel
def asserted(x):
    i = kl.absolute_position()
    assert x[i] > 0, "positive numbers are asked for"


def test_assertions():
    run(asserted, [INTEGERS], [np.ones(4, int)], features=("debug",))
    with pytest.raises(KernelCheckError, match="positive numbers are asked for") as caught:
        run(asserted, [INTEGERS], [np.array([1, 1, 0, 1])], features=("debug",))
    assert (caught.value.rule, caught.value.unit) == ("assert", (2, 0, 0))


@kernel
def printed(x):
    i = kl.absolute_position()
    if x[i] > 1:
        print("element", i, "is", x.load(i - 1, 2))


def test_prints():
    lines = []
    run(printed, [INTEGERS], [np.arange(4)], features=("debug",), output=lines.append)
    assert lines == ["element 2 is [1, 2]", "element 3 is [2, 3]"]


ARGUMENTS = {
    "too few": ([np.zeros(4, np.float32)], "takes 3 arguments, not 1"),
    "dtype": (
        [np.zeros(4), np.zeros(4, np.float32), 0],
        "x takes an array of float32, not float64",
    ),
    "no array": ([3.0, np.zeros(4, np.float32), 0], "x takes an array of float32, not float"),
    "strides": ([np.zeros(8, np.float32)[::2], np.zeros(4, np.float32), 0], "contiguous"),
    "overflow": ([np.zeros(4, np.float32)] * 2 + [2**80], "n takes a number of int64"),
    "sign": ([np.zeros(4, np.float32)] * 2 + [-4], "never negative"),
    "divisible": ([np.zeros(4, np.float32)] * 2 + [6], "declared to divide by 4"),
    "aligned": ([(np.zeros(8, np.float32), 1), np.zeros(4, np.float32), 0], "aligned to 16 bytes"),
}


@pytest.mark.parametrize("row", ARGUMENTS)
def test_arguments_are_checked(row):
    arguments, text = ARGUMENTS[row]
    signature = [Buffer(float32, align=16), FLOATS, Scalar(int64, 4, True)]
    with pytest.raises(KernelTypeError, match=text):
        run(shifted, signature, arguments)


def test_what_is_written_must_be_writeable():
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    y.flags.writeable = False
    with pytest.raises(KernelTypeError, match="y is written, and its array is read-only"):
        run(shifted, [FLOATS, FLOATS, COUNT], [x, y, 0])


@kernel
def with_bools(x, y):
    i = kl.absolute_position()
    y[i] = x[i] == kl.constant(False, bool_)


def test_bools_are_bytes():
    y = np.zeros(4, bool)
    run(with_bools, [Buffer(bool_)] * 2, [np.array([True, False, False, True]), y])
    assert y.tolist() == [False, True, True, False]
