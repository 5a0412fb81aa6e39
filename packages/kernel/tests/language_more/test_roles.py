"""Roles, what a launch asks for, and features that the build asks about."""

from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from calor.dtypes import float16, float32, int64
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.errors import (
    KernelCheckError,
    KernelSyntaxError,
    KernelTypeError,
    VerificationError,
)
from calor_kernel.ir.passes import eliminate_dead
from calor_kernel.language import (
    Buffer,
    Mbarriers,
    Scalar,
    arrive,
    barrier,
    has,
    kernel,
    launch_attributes,
    loop_range,
    registers,
    role,
    shared,
    unit_index,
)

INTEGERS = Buffer(int64)
CUBE: dict[str, Any] = {"cube": (32, 1, 1), "plane": 4}


@kernel
def parted(x, y, *, offset):
    unit = unit_index()
    kept = 7
    box = shared(32, int64)
    with role(0, registers=24):
        for i in range(2):
            box[unit + 16 * i] = x[unit + 16 * i] + offset
        arrive(1, 32)
    with role(1):
        barrier(name=1, count=32)
        total = kept
        for i in range(2):
            total = total + box[(unit + 16 * i + 1) % 32]
        y[unit - 16] = total


@pytest.mark.parametrize("dead", [False, True])
def test_roles_run_beside_each_other(dead: bool) -> None:
    built = verify(parted.build([INTEGERS, INTEGERS], offset=3, **CUBE))
    if dead:
        built = verify(eliminate_dead(built))
    x, y = np.arange(32), np.zeros(16, np.int64)
    run_on_lanes(built, (1, 1, 1), [x, y])
    two = np.roll(x, -1) + 3
    np.testing.assert_array_equal(y, two[:16] + two[16:] + 7)
    first, second = [o.attributes for o in built.body.operations if o.name == "role"]
    assert (first["first"], first["count"], first["registers"]) == (0, 16, 24)
    assert (second["first"], second["count"]) == (16, 16)


@kernel
def nested(y):
    memory = shared(4, int64)
    full = Mbarriers(1, 4, meet=False)
    changed = Mbarriers(1, 4, meet=False)
    empty = Mbarriers(1, 16)
    place = unit_index() % 4
    with role(0):
        with role(0, scope="plane"):
            for i in loop_range(3):
                empty.wait(0, 1 - i % 2)
                memory[place] = i * 4 + unit_index()
                full.arrive(0)
        with role(1, scope="plane"):
            for i in loop_range(3):
                full.wait(0, i % 2)
                memory[place] = memory[place] * 2
                changed.arrive(0)
    with role(1):
        for i in loop_range(3):
            changed.wait(0, i % 2)
            if unit_index() < 20:
                y[i * 4 + place] = memory[place]
            empty.arrive(0)


def test_roles_within_a_role_run_beside_the_others() -> None:
    built = nested.build([INTEGERS], features=frozenset({"mbarrier"}), **CUBE)
    y = np.zeros(12, np.int64)
    run_on_lanes(built, (1, 1, 1), [y])
    np.testing.assert_array_equal(y, 2 * np.arange(12))


@kernel
def leaked(y, *, what):
    held = registers(2, int64)
    same = 5
    with role(1, 2, scope="plane"):
        if what == "name":
            same = unit_index()
        if what == "new":
            made = unit_index()
        if what == "array":
            held[0] = unit_index()
        same = same + 0
    y[unit_index()] = same + held[1]
    if what == "new":
        y[1] = made
    if what == "array":
        y[1] = held[0]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("name", "'same' has no value"),
        ("new", "'made' has no value"),
        ("array", "'a register array that a role changes' has no value"),
    ],
)
def test_what_a_role_assigns_is_its_own(what: str, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        leaked.build([INTEGERS], what=what, **CUBE)


def test_what_a_role_leaves_alone_stays() -> None:
    y = np.zeros(4, np.int64)
    run_on_lanes(leaked.build([INTEGERS], what="", cube=(4, 1, 1), plane=1), (1, 1, 1), [y])
    assert y.tolist() == [5] * 4


@kernel
def meeting(y):
    with role(0):
        barrier("cube")
    y[0] = 1


def test_a_barrier_of_the_cube_in_a_role_is_refused() -> None:
    with pytest.raises(VerificationError, match="together"):
        verify(meeting.build([INTEGERS], **CUBE))


@pytest.mark.parametrize(
    "options", [{}, {"cube": (12, 1, 1), "plane": 4}, {"cube": (16, 1, 1), "plane": 8}]
)
def test_a_cube_of_few_units_has_no_roles(options: Any) -> None:
    with pytest.raises(KernelTypeError, match="without roles"):
        meeting.build([INTEGERS], **options)


@contextmanager
def noted(found: list[str]):
    found.append("in")
    yield
    found.append("out")


@kernel
def within(y, *, found):
    with noted(found):
        value = 3
        found.append("body")
    y[0] = value


def test_other_contexts_are_the_builds() -> None:
    found: list[str] = []
    y = np.zeros(1, np.int64)
    run_on_lanes(within.build([INTEGERS], found=found), (1, 1, 1), [y])
    assert (found, y[0]) == (["in", "body", "out"], 3)


@kernel
def named(y):
    with role(0) as first:
        y[0] = first


@kernel
def two(y):
    with role(0), role(1):
        y[0] = 1


@kernel
def leaving(y):
    with role(0):
        return


@pytest.mark.parametrize(
    ("function", "message"),
    [(named, "without as"), (two, "one context"), (leaving, "do not leave a with")],
)
def test_withs_that_are_refused(function: Any, message: str) -> None:
    with pytest.raises(KernelSyntaxError, match=message):
        function.build([INTEGERS], **CUBE)


@kernel
def asking(y, n):
    if has("forward_progress"):
        y[0] = n
    else:
        y[1] = n


@pytest.mark.parametrize("features", [frozenset[str](), frozenset({"forward_progress"})])
def test_the_build_asks_for_features(features: frozenset[str]) -> None:
    built = asking.build([INTEGERS, Scalar(int64)], features=features)
    y = np.zeros(2, np.int64)
    run_on_lanes(built, (1, 1, 1), [y, 9])
    assert y.tolist() == ([9, 0] if features else [0, 9])
    assert not any(o.name == "if" for o in built.body.walk())


@kernel
def wrong(y):
    has("hyperdrive")


def test_features_have_names() -> None:
    with pytest.raises(KeyError, match="'hyperdrive' is no feature; there are barrier"):
        wrong.build([INTEGERS])


@kernel
def in_warp_groups(y, *, away):
    """Units write and read within their warp group, or of another one, which nothing orders."""
    held = shared(32, int64)
    gate = Mbarriers(1, 32)
    with role(0, 2):
        unit = unit_index()
        held[unit] = unit * unit
        barrier("warpgroup")
        y[unit] = held[(unit + away) % 16 + unit // 16 * 16 if away < 16 else (unit + 16) % 32]
        gate.arrive(0)


@pytest.mark.parametrize("away", [1, 16])
def test_a_warp_group_meets_by_itself(away: int) -> None:
    features = frozenset({"barrier", "planes", "mbarrier"})
    built = verify(in_warp_groups.build([INTEGERS], away=away, features=features, **CUBE))
    y = np.zeros(32, np.int64)
    if away == 16:
        with pytest.raises(KernelCheckError, match="no barrier stands between"):
            run_on_lanes(built, (1, 1, 1), [y])
        return
    run_on_lanes(built, (1, 1, 1), [y])
    unit = np.arange(32)
    np.testing.assert_array_equal(y, ((unit + 1) % 16 + unit // 16 * 16) ** 2)


@kernel
def one_after_another(y, *, apart):
    held = shared(1, int64)
    gate = Mbarriers(1, 16)
    with role(0, 2, apart=apart):
        if unit_index() >= 16:
            gate.wait(0, 0)
            y[unit_index()] = held[0]
        if unit_index() < 16:
            if unit_index() == 0:
                held[0] = 7
            gate.arrive(0)


def test_warp_groups_of_a_role_that_wait_for_each_other_are_apart() -> None:
    options = {**CUBE, "features": frozenset({"barrier", "planes", "mbarrier"})}
    y = np.zeros(32, np.int64)
    run_on_lanes(verify(one_after_another.build([INTEGERS], apart=True, **options)), (1, 1, 1), [y])
    assert y.tolist() == [0] * 16 + [7] * 16
    built = one_after_another.build([INTEGERS], apart=False, **options)
    with pytest.raises(KernelCheckError, match="has 0 of 16 arrivals"):
        run_on_lanes(built, (1, 1, 1), [y])


@kernel
def asks(y, *, given):
    launch_attributes(**given)
    shared(3, float16)
    shared(8, float32, align=128)


def test_launches_are_told_what_to_ask_for() -> None:
    given = {"cluster": (2, 1, 1), "registers": 128, "cubes_per_core": 1, "dynamic_shared": True}
    built = asks.build([INTEGERS], given=given, features=frozenset({"clusters"}))
    assert built.attributes == given
    assert built.shared_bytes == 128 + 32
    with pytest.raises(KernelTypeError, match="no clusters, and the kernel asks for"):
        asks.build([INTEGERS], given=given)
    assert asks.build([INTEGERS], given={"registers": 64}).attributes == {"registers": 64}
