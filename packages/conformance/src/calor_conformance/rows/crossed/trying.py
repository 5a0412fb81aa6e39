"""Tries a scenario of a subject on the current device.

Requirements: a scenario is right or wrong by itself, so that one that fails can be tried again with
plainer values. The movements that bring operands into their order are refused by no device that
lacks them: such a device gets the operands as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

import calor
from calor.backends.protocol import Info
from calor.dtypes import DType, as_dtype
from calor.errors import ElementIndexError, UnsupportedError

from ..flushing import flushed, nearest
from ..judging import outputs, put
from ..language import Array
from .language import Problem, Subject, compare
from .orders import placed
from .pairwise import Factors, Scenario, pairwise

# How a problem is computed: op by op, jitted, jitted at the second call with other numbers, on a
# value that lives on, and on one that dies.
MODES = ("eager", "jit", "again", "kept", "dying")
# Names of the factors whose values name dtypes.
_TYPED = ("index", "narrow")
Call = Callable[..., Any]


def factors_for(subject: Subject, info: Info, deep: bool) -> dict[str, tuple[Any, ...]]:
    """Return the factors of a subject, without the dtypes that a device lacks.

    Parameters
    ----------
    subject : Subject
        The subject.
    info : Info
        The declarations of the device.
    deep : bool
        Whether values for the deep search are among them.

    Returns
    -------
    dict
        The values of each factor.

    Raises
    ------
    UnsupportedError
        If no value of a factor is left.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for name, values in {"mode": MODES, **subject.factors}.items():
        more = subject.deep.get(name, ()) if deep else ()
        kept = tuple(v for v in (*values, *more) if _is_there(name, v, subject, info))
        if not kept:
            error = UnsupportedError(f"{subject.label}: no {name} of {values} is on the device")
            error.refused = ((subject.op, (), "none of its other dtypes is on the device"),)
            raise error
        found[name] = kept
    return found


def _is_there(name: str, value: Any, subject: Subject, info: Info) -> bool:
    if name in _TYPED:
        value = as_dtype(value)
    if not isinstance(value, DType):
        return True
    there = bool(info.dtypes.get(value))
    return there and (not subject.op or bool(info.supports(subject.op, value)))


def scenarios(
    subject: Subject, dtype: DType, info: Info, seed: Sequence[int], deep: bool = False
) -> Iterator[Scenario]:
    """Yield the scenarios of a subject's covering array, which the seed chooses.

    Parameters
    ----------
    subject : Subject
        The subject.
    dtype : DType
        The dtype.
    info : Info
        The declarations of the device.
    seed : sequence of int
        The seed.
    deep : bool, default False
        Whether the values for the deep search are among them.

    Yields
    ------
    dict
        The values of the factors, with a number of its own at "seed".
    """
    rng = np.random.default_rng([*seed, *subject.label.encode(), dtype.index])
    for number, scenario in enumerate(pairwise(factors_for(subject, info, deep), rng)):
        yield {**scenario, "seed": [*seed, number]}


def attempt(
    subject: Subject,
    scenario: Scenario,
    dtype: DType,
    *,
    interactive: bool = True,
    flushes: Collection[DType] = (),
) -> None:
    """Compute a scenario on the current device and compare.

    Parameters
    ----------
    subject : Subject
        The subject.
    scenario : dict
        The values of its factors.
    dtype : DType
        The dtype.
    interactive : bool, default True
        Whether the device computes without ``calor.jit``.
    flushes : collection of DType, optional
        The dtypes whose denormals may become zeros.

    Raises
    ------
    AssertionError
        If a result is wrong.
    """
    problem = problem_of(subject, scenario, dtype)
    if problem is None:
        return
    try:
        _attempt(subject, scenario, problem, interactive, flushes)
    except UnsupportedError as error:
        helpers = {name for name, _, _ in error.refused} - {subject.op}
        if not helpers or (scenario.get("order", "plain"), scenario["mode"]) == ("plain", "eager"):
            raise
        plain = {**scenario, "order": "plain", "mode": "eager"}
        again = problem_of(subject, plain, dtype)
        assert again is not None
        _attempt(subject, plain, again, interactive, flushes)


def problem_of(subject: Subject, scenario: Scenario, dtype: DType) -> Problem | None:
    """Return the problem of a scenario; None if its values do not fit together."""
    rng = np.random.default_rng([*scenario["seed"], *subject.label.encode(), dtype.index])
    return subject.build(scenario, rng, dtype)


def _attempt(
    subject: Subject,
    scenario: Scenario,
    problem: Problem,
    interactive: bool,
    flushes: Collection[DType],
) -> None:
    rng = np.random.default_rng([*scenario["seed"], 1])
    order = scenario.get("order", "plain")
    pairs = [placed(np.asarray(a), order, rng) if a.size else (a, _same) for a in problem.arrays]
    arrays, steps = [a for a, _ in pairs], [step for _, step in pairs]
    mode = scenario["mode"]

    def run(*tensors: Any) -> list[Any]:
        given = [step(t) for step, t in zip(steps, tensors, strict=True)]
        if mode in ("kept", "dying"):
            given = [_new(t) for t in given]
        made = outputs(problem.run(*given))
        return [*made, *given] if mode == "kept" else made

    call: Call = run if interactive and mode not in ("jit", "again") else calor.jit(run)
    what = subject.label
    if problem.refused:
        try:
            _read(call, arrays)
        except ElementIndexError:
            return
        raise AssertionError(f"{what}: an index is out of range, and no ElementIndexError says so")
    if mode == "again":
        # The first call has other numbers; what it leaves behind must not show.
        _read(call, [_other(a) if not n or _inexact(a) else a for n, a in enumerate(arrays)])
    got = _read(call, arrays)
    if mode == "kept":
        count = len(got) - len(problem.arrays)
        for n, (a, b) in enumerate(zip(got[count:], problem.arrays, strict=True)):
            b = np.asarray(b)
            # What an op of the device has made may have zeros in place of denormals.
            near = nearest(a, [b, flushed(b, flushes)]) if flushes else b
            same = a.tobytes() == b.tobytes() or _equal(a, near)
            assert same, f"{what}: operand {n} was written over"
        got = got[:count]
    compare(problem, got, what, flushes)


def _read(call: Call, arrays: Sequence[Array]) -> list[Array]:
    return [t.numpy() for t in call(*put(arrays))]


def _equal(a: Array, b: Array) -> bool:
    with np.errstate(all="ignore"):
        return a.shape == b.shape and bool(np.all((a == b) | ((a != a) & (b != b))))


def _other(a: Array) -> Array:
    return np.flip(a).copy() if a.ndim else a


def _inexact(a: Array) -> bool:
    # Integers may be indices, each of an axis.
    return a.dtype.kind not in "iub"


def _same(t: Any) -> Any:
    return t


def _new(t: Any) -> Any:
    """Return the same numbers as a value that an op of the device has made."""
    if t.dtype.is_complex or t.dtype.kind == "storage":
        return t
    made = calor.maximum(t, t)
    # The sign of a NaN that an op makes is free.
    return calor.where(t == t, made, t) if t.dtype.is_inexact else made


def plainer(
    subject: Subject,
    scenario: Scenario,
    factors: Factors,
    fails: Callable[[Scenario], bool],
    tries: int = 30,
) -> Scenario:
    """Return a failing scenario in which as many factors as possible have their plainest value.

    Parameters
    ----------
    subject : Subject
        The subject.
    scenario : dict
        A scenario that fails.
    factors : mapping
        The values of each factor, the plainest first.
    fails : callable
        Returns whether a scenario fails.
    tries : int, default 30
        How many scenarios are tried at most.

    Returns
    -------
    dict
        The scenario.
    """
    found = scenario
    for name, values in factors.items():
        if found[name] is values[0] or found[name] == values[0] or not tries:
            continue
        tries -= 1
        plain = {**found, name: values[0]}
        if fails(plain):
            found = plain
    return found


def told(scenario: Scenario, factors: Factors) -> str:
    """Return what of a scenario is not plain, as text."""
    parts = [
        f"{name}={value!r}"
        for name, value in scenario.items()
        if name != "seed" and not (value is factors[name][0] or value == factors[name][0])
    ]
    return ", ".join(parts) or "everything plain"
