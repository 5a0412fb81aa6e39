"""The language of crossed rows: subjects, scenarios, and the problems that they make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calor.dtypes import DType, as_dtype, float32

from ..comparison import check
from ..flushing import lost, right, taken
from ..language import Array, Tolerance, exact
from .pairwise import Factors, Scenario

# Lengths around vectors, blocks and chunks; what the deep search adds are those beyond 16 bits and
# beyond what a chunk of any kernel holds.
LENGTHS = (7, 1, 33, 257, 1500)
LONG = (20_000, 65_537, (1 << 18) + 3)
DEEP = (65_537, (1 << 20) + 3)


@dataclass(frozen=True)
class Problem:
    """Operands, what is done with them, and what comes out.

    Parameters
    ----------
    arrays : sequence of array
        The operands as the op sees them.
    run : callable
        Takes tensors and returns a tensor or several.
    want : callable
        Returns the results, in a wider type or in that of the results.
    dtypes : sequence of DType
        The dtypes of the results.
    tol : Tolerance, default exact
        The accepted difference.
    scale : callable, default None
        Returns the magnitude of which units are counted, for each result.
    zeros : bool, default True
        Whether the signs of zeros count.
    slope : bool, default True
        Whether the function is smooth at the operands, so that differences give its gradient.
    meaning : callable, default None
        The function of NumPy that ``want`` calls with the operands; None where there is no
        gradient.
    refused : bool, default False
        Whether an index is out of range, which must be an error and no result.
    flushing : callable, default None
        Takes the dtypes whose denormals a device declares to flush, and returns the further right
        results: those of operands, and of results between ops, that are zeros. None where zeros
        among the results are all that is right besides.
    """

    arrays: Sequence[Array]
    run: Callable[..., Any]
    want: Callable[[], Sequence[Array]]
    dtypes: Sequence[DType]
    tol: Tolerance = exact
    scale: Callable[[], Sequence[Any]] | None = None
    zeros: bool = True
    slope: bool = True
    meaning: Callable[..., Array] | None = None
    refused: bool = False
    flushing: Callable[[Collection[DType]], Sequence[Sequence[Array]]] | None = None


Build = Callable[[Scenario, np.random.Generator, DType], Problem | None]


@dataclass(frozen=True)
class Subject:
    """An op with the factors that may matter to it.

    Parameters
    ----------
    op : str
        The op, "" for a program of several.
    build : callable
        Returns the problem of a scenario in a dtype; None if the values do not fit together.
    dtypes : tuple of DType
        The dtypes of the op.
    factors : mapping of str to sequence
        The values of each factor; the first is the plainest.
    deep : mapping of str to sequence, optional
        The values of factors that only the deep search tries.
    name : str, default ""
        What the row is about, after the op.
    differentiable : bool, default False
        Whether its gradient is compared with differences.
    whole : bool, default False
        Whether all scenarios of its covering array are tried always, since they are quick.
    each : str, default ""
        The factor of which each value is tried always, once.
    """

    op: str
    build: Build = field(repr=False)
    dtypes: tuple[DType, ...]
    factors: Factors
    deep: Factors = field(default_factory=dict)
    name: str = ""
    differentiable: bool = False
    whole: bool = False
    each: str = ""

    @property
    def main(self) -> DType:
        """The dtype that is tried most: float32 where the op has it."""
        return float32 if float32 in self.dtypes else self.dtypes[0]

    @property
    def label(self) -> str:
        """A readable name, unique among the subjects."""
        return "-".join(filter(None, (self.op, self.name)))


def one(
    arrays: Sequence[Array],
    run: Callable[..., Any],
    meaning: Callable[..., Any],
    *,
    dtype: DType | None = None,
    tol: Tolerance = exact,
    scale: Callable[..., Any] | None = None,
    zeros: bool = True,
    slope: bool = True,
) -> Problem:
    """Return a problem with one result, whose meaning is a function of the operands.

    Parameters
    ----------
    arrays : sequence of array
        The operands.
    run, meaning : callable
        The same function of tensors and of arrays.
    dtype : DType, default None
        The dtype of the result; None for that of the first operand.
    tol : Tolerance, default exact
        The accepted difference.
    scale : callable, default None
        Returns the magnitude of the terms of a result, from the operands.
    zeros : bool, default True
        Whether the signs of zeros count.
    slope : bool, default True
        Whether the function is smooth at the operands.

    Returns
    -------
    Problem
        The problem.
    """
    return Problem(
        arrays,
        run,
        lambda: [_quietly(meaning, *arrays)],
        [as_dtype(arrays[0].dtype) if dtype is None else dtype],
        tol,
        None if scale is None else lambda: [_quietly(scale, *arrays)],
        zeros,
        slope,
        meaning,
        flushing=lambda flushes: [
            [_quietly(meaning, *given)] for given in taken(arrays, flushes)[1:]
        ],
    )


def _quietly(function: Callable[..., Any], *arrays: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(function(*arrays))


def compare(
    problem: Problem, got: Sequence[Array], what: str, flushes: Collection[DType] = ()
) -> None:
    """Raise AssertionError with the worst element unless results are right.

    Parameters
    ----------
    problem : Problem
        The problem.
    got : sequence of array
        The results.
    what : str
        The beginning of the message.
    flushes : collection of DType, optional
        The dtypes whose denormals the device declares to flush to zero.
    """
    want = problem.want()
    assert len(got) == len(want), f"{what}: {len(got)} results, not {len(want)}"
    scales = [None] * len(want) if problem.scale is None else problem.scale()
    least = max([lost(d, flushes) for d in problem.dtypes], default=0.0)
    every = [want]
    if flushes and problem.flushing is not None:
        every += problem.flushing(flushes)
    columns = zip(got, problem.dtypes, scales, *every, strict=True)
    for a, dtype, scale, b, *others in columns:
        if flushes:
            b = right(a, [b, *others], dtype, flushes)
        if not problem.zeros and dtype.is_inexact:
            # A sum with +0 is the same number, and of zeros the positive one.
            a, b = a + a.dtype.type(0), b + b.dtype.type(0)
        check(a, b, dtype, problem.tol, scale, what=what, least=least)


def wide(x: Array) -> Array:
    """Return floats as float64, float64 as long double, complex likewise; others as they are."""
    if x.dtype.kind == "c":
        return x.astype(np.complex128 if x.dtype == np.complex64 else np.clongdouble)
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def modular(x: Array) -> Array:
    """Return integers as uint64, whose sums and products are exact modulo 2⁶⁴."""
    return x.astype(np.int64 if x.dtype.kind == "i" else np.uint64).view(np.uint64)


def shape_of(scenario: Scenario, rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
    """Return a shape of the scenario's rank with its length, and the axis of that length.

    Factors are ``length``, ``rank`` and ``axis``, which is counted from the end, or both together
    as ``place``, where an attribute is to meet each axis of each rank. Other axes are short, or of
    the same length if the scenario is a ``cube``.

    Parameters
    ----------
    scenario : dict
        The values of the factors.
    rng : numpy.random.Generator
        Chooses the other axes.

    Returns
    -------
    tuple
        The shape and the axis.
    """
    rank, from_end = scenario.get("place") or (scenario["rank"], scenario["axis"])
    n, axis = scenario["length"], rank - 1 - from_end % rank
    if scenario.get("cube"):
        return (n,) * rank, axis
    room = 4 if n < 1000 else 3 if n < 100_000 else 2
    sizes = [int(rng.integers(1, room + 1)) for _ in range(rank)]
    if rank > 1 and n < 100_000:
        # One other axis is long enough to be seen.
        other = int(rng.integers(rank - 1))
        sizes[other + (other >= axis)] = int(rng.integers(3, 10 if n > 2000 else 30))
    sizes[axis] = n
    return tuple(sizes), axis
