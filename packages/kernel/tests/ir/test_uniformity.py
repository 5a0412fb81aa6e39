"""For which units a value is the same: through positions, memory, loops and branches."""

import pytest

from calor.dtypes import float32, int64
from calor_interpreter.verify import verify
from calor_kernel.errors import VerificationError
from calor_kernel.ir.uniformity import Level, Uniformity
from calor_kernel.language import (
    Buffer,
    Scalar,
    barrier,
    cast,
    cube_count,
    cube_position,
    kernel,
    lane_position,
    plane_ballot,
    plane_position,
    plane_reduce,
    plane_scan,
    plane_shuffle,
    private,
    shared,
    unit_position,
)

# What is stored, and its level in a cube of 8 units in planes of 4.
LEVELS = {
    "argument": (lambda x, n: n * 2 + 1, Level.LAUNCH),
    "count": (lambda x, n: cube_count() + n, Level.LAUNCH),
    "cube": (lambda x, n: cube_position() * n, Level.CUBE),
    "plane": (lambda x, n: plane_position() + n, Level.PLANE),
    "unit": (lambda x, n: unit_position() + n, Level.UNIT),
    "number of a plane": (lambda x, n: unit_position() // 8 + n, Level.PLANE),
    "number of half a plane": (lambda x, n: unit_position() // 2, Level.UNIT),
    "lane": (lambda x, n: lane_position(), Level.UNIT),
    "load at an argument": (lambda x, n: x[n], Level.LAUNCH),
    "load at a cube": (lambda x, n: x[cube_position()], Level.CUBE),
    "load at a unit": (lambda x, n: x[unit_position()], Level.UNIT),
    "load in order": (lambda x, n: x.load(n, order="acquire", scope="device"), Level.UNIT),
    "shared": (lambda x, n: shared(4, int64)[n], Level.LAUNCH),
    "private": (lambda x, n: private(4, int64)[n], Level.UNIT),
    "atomic": (lambda x, n: x.atomic("add", n, 1), Level.UNIT),
    "reduced": (lambda x, n: plane_reduce("add", unit_position()), Level.PLANE),
    "reduced of a cube": (lambda x, n: plane_reduce("add", cube_position()), Level.CUBE),
    "ballot": (lambda x, n: cast(plane_ballot(lane_position() > 1), int64), Level.PLANE),
    "scanned": (lambda x, n: plane_scan("add", n), Level.UNIT),
    "shuffled to all": (lambda x, n: plane_shuffle(lane_position(), n), Level.PLANE),
    "shuffled apart": (lambda x, n: plane_shuffle(lane_position(), 1, "xor"), Level.UNIT),
    "shuffled alike": (lambda x, n: plane_shuffle(plane_position(), 1, "xor"), Level.PLANE),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels(name: str) -> None:
    value, level = LEVELS[name]

    @kernel
    def k(x, n):
        x[n] = value(x, n)

    def found(cube: int, plane: int) -> Level:
        built = k.build([Buffer(int64), Scalar(int64)], cube=(cube, 1, 1), plane=plane)
        *_, store = built.body.walk()
        return Uniformity(built).level(store.operands[1])

    assert found(8, 4) == level
    if level in (Level.PLANE, Level.UNIT):
        # One plane is the cube.
        assert found(4, 4) == (Level.CUBE if level == Level.PLANE else Level.UNIT)
    if "scan" not in name and "ballot" not in name:
        assert found(1, 1) >= Level.CUBE


@pytest.mark.parametrize(
    ("cube", "divisor", "level"),
    [
        ((64, 1, 1), 16, Level.WARPGROUP),
        ((64, 1, 1), 48, Level.WARPGROUP),
        ((64, 1, 1), 12, Level.PLANE),
        ((32, 2, 1), 16, Level.UNIT),
    ],
    ids=str,
)
def test_numbers_of_groups(cube: tuple[int, int, int], divisor: int, level: Level) -> None:
    """Units of one axis are numbered plane by plane, and four planes of four are a group."""

    @kernel
    def k(x, n):
        x[n] = cast(unit_position(0) // divisor, int64)

    built = k.build([Buffer(int64), Scalar(int64)], cube=cube, plane=4)
    *_, store = built.body.walk()
    assert Uniformity(built).level(store.operands[1]) == level


def carried(x, n):
    t = 0
    for i in range(n):
        t = t + i
    return t


def rounds_differ(x, n):
    t = 0
    for _ in range(unit_position()):
        t = t + 1
    return t


def start_differs(x, n):
    t = unit_position()
    for _ in range(n):
        t = t * 2
    return t


def late(x, n):
    """What differs comes in by another carried value, a round later."""
    a, b, c = 0, 0, 0
    for _ in range(n):
        a, b, c = b, c, unit_position()
    return a


def question(x, n):
    t = n
    while t > 3:
        t = t - 1
    return t


def question_differs(x, n):
    t, u = 10, unit_position()
    while u > 0:
        t, u = t - 1, u - 1
    return t


def branch(x, n):
    if n > cube_position():
        r = n
    else:
        r = 3
    return r


def branch_differs(x, n):
    if unit_position() > 2:
        r = 4
    else:
        r = 3
    return r


def branch_in_loop(x, n):
    t = 0
    for i in range(n):
        if plane_position() > 0:
            t = t + i
    return t


FLOWS = {
    carried: Level.LAUNCH,
    rounds_differ: Level.UNIT,
    start_differs: Level.UNIT,
    late: Level.UNIT,
    question: Level.LAUNCH,
    question_differs: Level.UNIT,
    branch: Level.CUBE,
    branch_differs: Level.UNIT,
    branch_in_loop: Level.PLANE,
}


@pytest.mark.parametrize("function", FLOWS, ids=lambda f: f.__name__)
def test_levels_through_control_flow(function) -> None:
    from calor_kernel.language import helper

    made = helper(function)

    @kernel
    def k(x, n):
        x[n] = made(x, n)

    built = k.build([Buffer(int64), Scalar(int64)], cube=(8, 1, 1), plane=4)
    *_, store = built.body.walk()
    assert Uniformity(built).level(store.operands[1]) == FLOWS[function]


def tree(x, n):
    """A reduction as many write it: right only if the barrier stands outside of the if."""
    s = shared(64, float32)
    i = unit_position()
    s[i] = x[i]
    barrier()
    k = 4
    while k > 0:
        if i < k:
            s[i] = s[i] + s[i + k]
        barrier()
        k = k // 2
    x[0] = s[0]


def tree_with_a_barrier_inside(x, n):
    s = shared(64, float32)
    i = unit_position()
    s[i] = x[i]
    k = n
    while k > 0:
        if i < k:
            s[i] = s[i] + s[i + k]
            barrier()
        k = k // 2


def early_barrier(x, n):
    for i in range(unit_position(), n, 8):
        x[i] = 0.0
        barrier()


def flag(x, n):
    """A decision that one unit makes and all follow."""
    s = shared(1, int64)
    if unit_position() == 0:
        s[0] = n
    barrier()
    if s[0] > 2:
        barrier()
        x[0] = 1.0


@pytest.mark.parametrize("function", [tree, flag], ids=lambda f: f.__name__)
def test_barriers_that_all_reach_pass(function) -> None:
    signature = [Buffer(float32), Scalar(int64, nonnegative=True)]
    verify(kernel(function).build(signature, cube=(8, 1, 1), plane=4))


@pytest.mark.parametrize(
    "function", [tree_with_a_barrier_inside, early_barrier], ids=lambda f: f.__name__
)
def test_barriers_that_some_reach_are_refused(function) -> None:
    signature = [Buffer(float32), Scalar(int64, nonnegative=True)]
    built = kernel(function).build(signature, cube=(8, 1, 1), plane=4)
    with pytest.raises(VerificationError, match="differs between the units of a cube"):
        verify(built)
    # A cube of one unit has no barriers.
    verify(kernel(function).build(signature))
