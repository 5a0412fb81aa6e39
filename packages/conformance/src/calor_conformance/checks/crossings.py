"""Crossings: ops at pairs of lengths, orders, positions, attributes and dtypes.

Each check tries some scenarios of the covering array of its subject, the same ones on every
machine; ``--deep`` tries all of them, longer operands too, with one seed after another. What fails
is told with the factors that it takes to fail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, complex64, float16, float32, float64, int32, int64, uint8
from calor.errors import CalorError, OutOfMemoryError, UnsupportedError

from ..rows.crossed import SUBJECTS
from ..rows.crossed.language import Problem, Subject
from ..rows.crossed.pairwise import Scenario
from ..rows.crossed.trying import (
    attempt,
    factors_for,
    plainer,
    problem_of,
    scenarios,
    told,
)
from ..rows.definitions import source_of
from ..rows.differences import alike, inner
from ..rows.judging import put
from .base import Array, Check, Place, Tier

CONTRACT = (
    "an op is right at every length, order, position, attribute and index dtype that meet; the "
    "failure names the values that it takes"
)
OF_GRADIENTS = "the gradient is the transpose of the derivative, at all lengths and attributes"
# Scenarios of a check in the main dtype of a subject, in typical and other ones, of its gradient.
MAIN, MORE, OTHERS, GRADIENTS = 16, 6, 3, 8
# Along rows a fault may take a length, an axis and a position together.
ROWS = 32
# Other dtypes whose kernels differ most.
_TYPICAL = (int32, int64, uint8, float16, complex64)
# Elementwise ops are many, and have checks of special numbers and shapes besides.
ELEMENTWISE = 8
# Programs and rows of large operands take longer, and their factors are few.
_FEW = {"large": 3, "long": 4}
# A device of little memory may refuse operands of this length; contracts of memory judge that.
_LONG = 1 << 16
_STEP = 1e-4
_BOUNDS = {float64: 1e-6, float32: 2e-3}
# The kind, subject and dtype of each check of crossings that was made.
CROSSED: dict[str, tuple[str, Subject, DType]] = {}
Try = Callable[[Scenario], None]


def crossings() -> Iterator[Check]:
    """Yield checks of each subject in each of its dtypes, and of its gradient."""
    for subject in SUBJECTS:
        for dtype in subject.dtypes:
            main = dtype is subject.main
            yield _check("crossed", subject, dtype, "full" if main else "dtypes", CONTRACT)
        if subject.differentiable:
            for dtype in (d for d in (float64, float32) if d in subject.dtypes):
                yield _check("crossed-gradient", subject, dtype, "training", OF_GRADIENTS)


def _check(kind: str, subject: Subject, dtype: DType, tier: Tier, contract: str) -> Check:
    check = Check(
        kind=kind,
        subject=subject.label,
        tier=tier,
        contract=contract,
        run=partial(_sampled, kind, subject, dtype),
        text=partial(_text, subject),
        op=subject.op,
        dtype=dtype,
        dtypes=(dtype,),
    )
    CROSSED[check.name] = (kind, subject, dtype)
    return check


def _text(subject: Subject) -> str:
    return f"{source_of(subject.build)}\n{subject.factors!r}\n{source_of(attempt)}"


def _count(kind: str, subject: Subject, dtype: DType) -> int:
    if kind == "crossed-gradient":
        return GRADIENTS if dtype is float64 else OTHERS
    if subject.whole:
        return sys.maxsize
    most = MAIN if dtype is subject.main else MORE if dtype in _TYPICAL else OTHERS
    if dtype is subject.main and {"sign", "reverse", "keys", "update"} & set(subject.factors):
        most = ROWS
    if "broadcast" in subject.factors:
        most = min(most, ELEMENTWISE)
    if "cube" in subject.factors:
        most = MAIN
    return min(most, *(n for name, n in _FEW.items() if name in subject.name), most)


def _sampled(kind: str, subject: Subject, dtype: DType, place: Place) -> None:
    every = scenarios(subject, dtype, place.plain.info, [place.seed])
    count = _count(kind, subject, dtype)
    for scenario in _of_each(subject.each, every) if subject.each else islice(every, count):
        tried(kind, subject, scenario, dtype, place, deep=False)


def _of_each(factor: str, every: Iterable[Scenario]) -> Iterator[Scenario]:
    """Yield the first scenario with each value of a factor."""
    seen: set[Any] = set()
    for scenario in every:
        if scenario[factor] not in seen:
            seen.add(scenario[factor])
            yield scenario


def tried(
    kind: str, subject: Subject, scenario: Scenario, dtype: DType, place: Place, *, deep: bool
) -> None:
    """Try a scenario; a failure is made plainer and told.

    Parameters
    ----------
    kind : str
        "crossed" or "crossed-gradient".
    subject : Subject
        The subject.
    scenario : dict
        The values of its factors.
    dtype : DType
        The dtype.
    place : Place
        The device.
    deep : bool
        Whether values of the deep search are among the factors.

    Raises
    ------
    AssertionError
        If a result is wrong.
    """
    run = partial(_gradient if kind == "crossed-gradient" else _values, subject, dtype, place)
    try:
        run(scenario)
    except UnsupportedError:
        raise
    except OutOfMemoryError:
        if scenario.get("length", 0) < _LONG:
            raise
    except (AssertionError, CalorError) as error:
        factors = factors_for(subject, place.plain.info, deep)
        plain = plainer(subject, scenario, factors, partial(_fails, run))
        raise AssertionError(
            f"{error}\nIt takes: {told(plain, factors)} (seed {scenario['seed']})"
        ) from error


def _fails(run: Try, scenario: Scenario) -> bool:
    try:
        run(scenario)
    except UnsupportedError:
        return False
    except (AssertionError, CalorError):
        return True
    return False


def _values(subject: Subject, dtype: DType, place: Place, scenario: Scenario) -> None:
    attempt(subject, scenario, dtype, interactive=place.interactive, flushes=place.flushes)


def _gradient(subject: Subject, dtype: DType, place: Place, scenario: Scenario) -> None:
    """Compare ⟨g, J v⟩ by differences of the meaning with ⟨Jᵀ g, v⟩ by the device's gradient."""
    problem = problem_of(subject, scenario, dtype)
    if problem is None or problem.meaning is None or not _finite(problem):
        return
    meaning = problem.meaning
    # Moved operands are bit patterns of any size, which a step would not change.
    problem = replace(problem, arrays=[_sized(np.asarray(a)) for a in problem.arrays])
    moving = [n for n, a in enumerate(problem.arrays) if a.dtype.kind == "f" and a.size]
    wanted = meaning(*problem.arrays)
    if not moving or not wanted.size:
        return
    tangents = alike([problem.arrays[n].astype(np.float64) for n in moving], 3)
    (cotangent,) = alike([wanted.astype(np.float64)], 5)
    ends = [_moved(meaning, problem, moving, tangents, side * _STEP) for side in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * _STEP)

    def pulled(*tensors: Any) -> list[Any]:
        n = len(problem.arrays)
        given, g = list(tensors[:n]), tensors[n]

        def run(*parts: Any) -> Any:
            every = list(given)
            for k, part in zip(moving, parts, strict=True):
                every[k] = part
            return problem.run(*every)

        _, pull = calor.vjp(run, *[given[k] for k in moving])
        return list(pull(g))

    call = pulled if place.interactive and scenario["mode"] == "eager" else calor.jit(pulled)
    operands = [*problem.arrays, cotangent.astype(dtype.numpy)]
    found = [t.numpy().astype(np.float64) for t in call(*put(operands))]
    got, want = inner(found, tangents), inner([cotangent], [slope])
    size = float(np.sum(np.abs(cotangent * slope))) + sum(
        float(np.sum(np.abs(a * b))) for a, b in zip(found, tangents, strict=True)
    )
    assert abs(got - want) <= _BOUNDS[dtype] * (size + 1), (
        f"{subject.label}: the gradient along a direction is {got!r}, the derivative {want!r}"
    )


def _sized(a: Array) -> Array:
    return np.clip(a, -1e3, 1e3) if a.dtype.kind == "f" else a


def _finite(problem: Problem) -> bool:
    return problem.slope and all(
        a.dtype.kind not in "fc" or bool(np.isfinite(a).all()) for a in problem.arrays
    )


def _moved(
    meaning: Callable[..., Array],
    problem: Problem,
    moving: list[int],
    tangents: list[Array],
    by: float,
) -> Array:
    given = [np.asarray(a) for a in problem.arrays]
    for n, t in zip(moving, tangents, strict=True):
        given[n] = given[n].astype(np.float64) + by * t
    with np.errstate(all="ignore"):
        return np.asarray(meaning(*given)).astype(np.float64)
