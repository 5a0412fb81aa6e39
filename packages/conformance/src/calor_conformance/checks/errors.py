"""Errors: typed, at the right time, and without a loss of other work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.backends.protocol import impossible
from calor.dtypes import ALL, DType, float64, int64, uint64
from calor.errors import (
    CalorError,
    DeviceError,
    ElementIndexError,
    LinearAlgebraError,
    UnsupportedError,
)
from calor.ops.base import find

from ..rows.language import INTEGERS
from .base import Place, plain_array, plain_type
from .contract import Contracts

contract = Contracts("errors")
# Floating-point ops; many devices lack some of them.
ONE_OPERAND = ("exp", "log", "sin", "atan", "tanh", "sqrt", "floor", "lgamma", "isnan", "abs")


def raised(work: Callable[[], Any], *, refusals: bool = False) -> CalorError:
    """Return the error of calor that a function raises.

    An op that no device supports is another matter: it is raised, unless the caller expects a
    refusal.
    """
    try:
        work()
    except UnsupportedError as error:
        if error.refused and not refusals:
            raise
        return error
    except CalorError as error:
        return error
    raise AssertionError("no error was raised")


def _vector(n: int = 4) -> Any:
    return calor.asarray(plain_array(np.arange(n)))


@contract(
    "an index out of range that a tensor holds is an ElementIndexError that names the op",
    tier="full",
    dtypes=(int64,),
    op="gather",
)
def index_out_of_range(place: Place) -> None:
    x = _vector()
    # The last two are within the bounds for who keeps 32 bits.
    for index in (9, -5, 1 << 32, (1 << 40) + 1):
        there = calor.asarray(np.array([0, index]))
        error = raised(partial(lambda i: calor.take(x, i, axis=0).numpy(), there))
        assert isinstance(error, ElementIndexError), repr(error)
        assert error.op, "the error names no op"
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@contract(
    "the ends of an index dtype are out of range, also beside indices that are not",
    tier="full",
    of=INTEGERS,
    op="gather",
)
def ends_of_index_dtypes(place: Place, dtype: DType) -> None:
    x, limits = _vector(), np.iinfo(dtype.numpy)
    for index in (limits.max, limits.max - 1, limits.max // 2 + 1, limits.min):
        for count in (1, 70) if index else ():
            places = np.zeros(count, dtype.numpy)
            places[-1] = index
            there = calor.asarray(places)
            error = raised(partial(lambda i: calor.take(x, i, axis=0).numpy(), there))
            assert isinstance(error, ElementIndexError), f"{index} as {dtype.name}: {error!r}"


@contract(
    "of many runs that nobody looks at yet, those with an index out of range fail, and no others",
    tier="full",
    dtypes=(int64,),
    op="gather",
)
def runs_that_fail_among_others(place: Place) -> None:
    x = _vector()
    good, bad = (calor.asarray(np.array([3, i])) for i in (0, 4))
    # More than a device may have room for what nobody has asked for.
    failing, count = {0, 1, 99, 298}, 300
    made = []
    for n in range(count):
        made.append(calor.take(x, bad if n in failing else good, axis=0))
        with suppress(ElementIndexError):
            calor.eval(made[-1])
    for n in reversed(range(count)):
        if n in failing:
            error = raised(partial(_looked_at, lambda value: value, made[n]))
            assert isinstance(error, ElementIndexError), f"run {n}: {error!r}"
        else:
            assert made[n].tolist() == [3.0, 0.0], f"run {n}"


@contract(
    "a step with an index out of range changes no state, its error is raised, and later steps work",
    tier="compiled",
    dtypes=(int64,),
    op="gather",
)
def failed_steps(place: Place) -> None:
    count = 64
    table, one, two = (_vector(count) for _ in range(3))
    good, bad = (calor.asarray(np.full(count, i)) for i in (3, count))

    def step(indices: Any) -> Any:
        picked = calor.take(table, indices, axis=0)
        one[...] = one + picked
        two[...] = two + 1
        return picked.sum()

    call = calor.jit(step)
    for behind in range(4):
        steps = int(two[0].item())
        errors = 0
        # The steps behind the failed one may be on their way before its error is known. Then they
        # have no effect, and no state has less of it than other state.
        made: list[Any] = []
        for indices in (good, bad, *[good] * behind):
            try:
                made.append(call(indices))
            except ElementIndexError:
                errors += 1
        for value in (*made[1:], one, two):
            try:
                value.numpy()
            except ElementIndexError:
                errors += 1
        assert errors, "no error was raised"
        assert made[0].item() == 3.0 * count
        done = int(two[0].item())
        assert steps + 1 <= done <= steps + 1 + behind, f"{done} steps after {steps} and one more"
        wanted = np.arange(count) + 3.0 * done
        assert one.tolist() == wanted.tolist(), "one state has other steps than the other"
        call(good)
        assert one.tolist() == (wanted + 3.0).tolist(), "a step after the error has no effect"


def _reads_and_writes() -> dict[str, Callable[[Any, Any], Any]]:
    """Return one function for each op that reads or writes a vector at indices."""
    return {
        "take_along": lambda x, i: find("take_along")(x, i, axis=0),
        "gather_nd": lambda x, i: find("gather_nd")(x, calor.reshape(i, (2, 1))),
        "scatter_nd": lambda x, i: find("scatter_nd")(
            x, calor.reshape(i, (2, 1)), x[:2], update="add"
        ),
        "scatter_along": lambda x, i: find("scatter_along")(x, i, x[:2], axis=0, update="add"),
    }


def _looked_at(work: Callable[..., Any], *operands: Any) -> Any:
    return work(*operands).numpy()


@contract(
    "every op that reads or writes at indices refuses those out of range",
    tier="full",
    dtypes=(int64,),
)
def other_indices_out_of_range(place: Place) -> None:
    x = _vector()
    for name, work in _reads_and_writes().items():
        if place.plain.info.supports(name, plain_type()):
            for index in (4, -5, 1 << 32, (1 << 64) - 2):
                kind = np.uint64 if index >> 63 > 0 else np.int64
                if kind is np.uint64 and not place.plain.info.supports("cast", uint64):
                    continue
                there = calor.asarray(np.array([0, index], kind))
                error = raised(partial(_looked_at, work, x, there))
                assert isinstance(error, ElementIndexError), f"{name} at {index}: {error!r}"
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@contract(
    "a singular matrix is a LinearAlgebraError where the device solves itself, and gives no finite "
    "number where solve is decomposed",
    tier="full",
    dtypes=(float64,),
    op="solve",
)
def singular_matrix(place: Place) -> None:
    a, b = calor.asarray(np.zeros((2, 2))), calor.asarray(np.ones(2))
    graph = calor.trace(calor.linalg.solve, a, b)
    solves = [i for i, node in enumerate(graph.nodes) if node.op.name == "solve"]
    reasons = place.device.backend.claim(place.device.index, graph).reasons
    if any(i in reasons for i in solves):
        assert not np.isfinite(calor.linalg.solve(a, b).numpy()).any()
        return
    x = calor.linalg.solve(a, b)
    if place.plain.info.feature("mixed_rounding"):
        # One of the ways in which it computes an op may be the decomposition.
        with suppress(LinearAlgebraError):
            assert not np.isfinite(x.numpy()).any()
        return
    error = raised(x.numpy)
    assert isinstance(error, LinearAlgebraError), repr(error)


@contract(
    "what does not depend on the failure is computed, what does raises it again",
    tier="full",
    dtypes=(int64,),
)
def only_what_fails_is_lost(place: Place) -> None:
    x, there = _vector(), calor.asarray(np.array([0, 9]))
    fine = x + 1
    lost = calor.take(x, there, axis=0)
    after = lost * 2
    later = fine * 2
    raised(after.numpy)
    assert isinstance(raised(lost.numpy), DeviceError)
    assert isinstance(raised(after.numpy), DeviceError)
    assert fine.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert later.tolist() == [2.0, 4.0, 6.0, 8.0]


@contract(
    "of several lookups that wait together, one that fails is the failure of its own results",
    tier="full",
    dtypes=(int64,),
    op="gather",
)
def lookups_beside_one_that_fails(place: Place) -> None:
    x, there = _vector(), calor.asarray(np.array([0, 9]))
    found = {index: calor.asarray(np.array([index, 3 - index])) for index in range(4)}
    steps: tuple[Callable[[Any], Any], ...] = (
        lambda t: t, lambda t: t + 1, lambda t: t * t + 2, lambda t: t[:1] + t,
    )  # fmt: skip
    for step in steps:
        lost = step(calor.take(x, there, axis=0))
        sound = {index: step(calor.take(x, places, axis=0)) for index, places in found.items()}
        apart = step(x)
        assert isinstance(raised(lost.numpy), ElementIndexError)
        for index, got in sound.items():
            want = step(plain_array([index, 3 - index]))
            assert got.tolist() == want.tolist(), f"{got} at {index}, not {want}"
        assert apart.tolist() == step(plain_array(range(4))).tolist()


@contract("after an error the device computes", tier="full", dtypes=(int64,))
def usable_after_an_error(place: Place) -> None:
    for n in range(5):
        raised(lambda: calor.take(_vector(), calor.asarray(np.array([77])), axis=0).numpy())
        assert (_vector() + n).tolist() == [n + 0.0, n + 1.0, n + 2.0, n + 3.0]


@contract("a dtype that the device lacks is refused by a typed error that names it")
def missing_dtypes(place: Place) -> None:
    info = place.plain.info
    for dtype in ALL:
        if info.dtypes.get(dtype, impossible("it is not named")):
            continue
        array = np.zeros(3, dtype.numpy)
        error = raised(partial(_doubled, array), refusals=True)
        assert dtype.name in str(error), f"{dtype.name}: {error}"


def _doubled(array: Any) -> Any:
    x = calor.asarray(array)
    return (x + x).numpy()


@contract(
    "an op that is ruled out raises UnsupportedError with the device's reason, and runs "
    "nowhere else",
    looks=False,
)
def ruled_out_ops(place: Place) -> None:
    device, info, kind = place.plain, place.plain.info, plain_type()
    before = device.fallbacks
    for name in ONE_OPERAND:
        state = info.supports(name, kind)
        if not info.dtypes.get(kind) or not kind.is_inexact or state:
            continue
        error = raised(partial(_called, place, name), refusals=True)
        assert isinstance(error, UnsupportedError), f"{name}: {error!r}"
        assert state.reason in str(error), f"{error} does not say {state.reason!r}"
    assert device.fallbacks == before or device.companions, "nodes ran on another device"


def _called(place: Place, name: str) -> Any:
    return place.call(find(name), _vector()).numpy()


CHECKS = contract.checks
