"""Operands that are constants of a jitted function: each of an op's operands in turn.

A compiler folds constants, drops what changes nothing and takes known indices for parts of a view.
A constant in any operand, of any number, at any index, within or beyond the ends, means what the
same operand means as an argument. Constants are those of a drawn row, single numbers beside which
laws of arithmetic end (zeros of both signs, ones, infinities, NaN), and indices.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import DType, float32, int32
from calor.ops.base import TABLE, find
from calor.ops.sources import HostArray

from ..rows.judging import judge, numpy_of, outputs, put
from ..rows.language import Array, Case
from .base import Check, Place, Run
from .modes import same_numbers
from .rows import main_dtype, needed

CONTRACT: Final = "a constant of a jitted function is the operand that it would be as an argument"
# How many rows of an op are tried with a seed.
_ROWS: Final = 2
# Of how many ops one is asked where programs are compiled, another one with each seed.
_AMONG: Final = 6
# Loops and branches take functions, of which other checks ask, and products of long sums are slow.
_OTHER: Final = ("cond", "while_loop", "scan", "fori_loop()", "pinv()")
_NUMBERS: Final = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan)
_INTEGERS: Final = (0, 1, -1, 2, 31, -128, 2**31 - 1, -(2**31))
_STARTS: Final = (0, 1, -1, 2, -3, 4, 5, 9, -9, 2**31 - 1, -(2**31))
Rng = np.random.Generator


def _constant(array: Array) -> Any:
    """Return an array as a constant of the graph; the tensor of an array is an input of it."""
    return find("constant")(array=HostArray.of(array), weak=False)


def _rng(place: Place, name: str) -> Rng:
    return np.random.default_rng([place.seed, crc32(name.encode()), 401])


def _each(c: Case, dtype: DType, arrays: Sequence[Array]) -> Any:
    """Return a function of all operands that makes the op once with each as a constant."""

    def made(*given: Any) -> list[Any]:
        found = []
        for k, array in enumerate(arrays):
            mixed = [_constant(array) if i == k else t for i, t in enumerate(given)]
            found.append(outputs(c.call(*mixed, dtype=dtype)))
        return found

    return made


def _run_rows(rows: Sequence[Case], place: Place) -> None:
    if not place.tries(crc32(rows[0].op.encode()), _AMONG):
        return
    rng = _rng(place, rows[0].op)
    for number in rng.permutation(len(rows))[: _ROWS if place.interpreted else 1]:
        c = rows[int(number)]
        dtype = main_dtype(c)
        arrays = c.draw(dtype, place.seed)
        made = calor.jit(_each(c, dtype, arrays))(*put(arrays))
        for k, results in enumerate(made):
            try:
                with np.errstate(all="ignore"):
                    judge(c, dtype, arrays, numpy_of(results), place.flushes)
            except AssertionError as error:
                raise AssertionError(f"operand {k} of {c.label} is a constant: {error}") from None


def _run_numbers(op: str, dtype: DType, place: Place) -> None:
    """An op of two operands with each number as either one, as a scalar and as an array."""
    if not place.tries(crc32(op.encode()), _AMONG):
        return
    rng, run = _rng(place, op), getattr(calor, op)
    numbers: Sequence[Any] = _NUMBERS if dtype is float32 else _INTEGERS
    drawn = rng.choice(numbers, int(rng.integers(5, 9)))
    x = np.concatenate([numbers, rng.integers(-9, 10, 3)]).astype(dtype.numpy)

    def made(t: Any, constants: Sequence[Any]) -> list[Any]:
        return [
            result
            for n in constants
            for result in (run(t, n), run(n, t), run(t, calor.expand_dims(n, 0)))
        ]

    def constants() -> list[Any]:
        return [_constant(np.asarray(n, dtype.numpy)) for n in drawn]

    # Numbers that a device treats as zero are in no operand.
    with np.errstate(all="ignore"):
        want = numpy_of(made(calor.asarray(x), constants()))
        got = numpy_of(calor.jit(lambda t: made(t, constants()))(calor.asarray(x)))
        as_arguments = numpy_of(calor.jit(made)(calor.asarray(x), constants()))
    for n, (a, b, c) in enumerate(zip(got, want, as_arguments, strict=True)):
        what = f"{op} of {x.tolist()} and {drawn[n // 3]}, way {n % 3}"
        same_numbers([a], [b], what)
        _same_signs(a, b, what)
        same_numbers([c], [b], f"{what}, as an argument")


def _same_signs(got: Array, want: Array, what: str) -> None:
    zeros = want == 0
    if got.dtype.kind == "f":
        assert (np.signbit(got) == np.signbit(want))[zeros].all(), f"{what}: a zero's sign"


_BINARY: Final = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "pow", "copysign",
                  "remainder", "equal", "less", "less_equal", "greater", "greater_equal",
                  "not_equal", "floor_divide")  # fmt: skip
_WHOLE: Final = ("add", "subtract", "multiply", "maximum", "minimum", "less", "equal")


def _run_indices(place: Place) -> None:
    """Starts and indices that are numbers of the program, within and beyond the ends."""
    rng = _rng(place, "indices")
    x = rng.integers(-99, 100, (4, 5)).astype(np.float32)
    update = rng.integers(-9, 10, (2, 3)).astype(np.float32)
    starts = rng.choice(_STARTS, (6, 2)).astype(np.int32)
    at = [int(n) for n in rng.choice(_STARTS, 6)]

    def ways(t: Any, u: Any, start: Any, n: Any) -> list[Any]:
        return [
            find("dynamic_slice")(t, start, sizes=(2, 3)),
            find("dynamic_update_slice")(t, u, start),
            calor.take(t, calor.clip(n, 0, 3), axis=0), t[calor.clip(n, -4, 3)],
        ]  # fmt: skip

    given = calor.asarray(x), calor.asarray(update)
    for start, n in zip(starts, at, strict=True):
        low = [
            min(max(int(s), 0), size - k) for s, size, k in zip(start, (4, 5), (2, 3), strict=True)
        ]
        part = slice(low[0], low[0] + 2), slice(low[1], low[1] + 3)
        written = x.copy()
        written[part] = update
        want = [x[part], written, x[min(max(n, 0), 3)], x[min(max(n, -4), 3)]]

        def as_constant(t: Any, u: Any, start: Any = start, n: int = n) -> list[Any]:
            return ways(t, u, _constant(start), _constant(np.asarray(n, np.int32)))

        made = {
            "an argument": calor.jit(ways)(
                *given, calor.asarray(start), calor.asarray(n, dtype=int32)
            ),
            "a constant": calor.jit(as_constant)(*given),
        }
        for how, results in made.items():
            for k, (a, b) in enumerate(zip(numpy_of(results), want, strict=True)):
                what = f"way {k}, start {start.tolist()} or index {n} as {how}"
                assert np.array_equal(a, b), f"{what}: {a.tolist()}, not {b.tolist()}"


def constant_operands(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield a check of the rows of each op of several operands, of numbers, and of indices."""
    found: dict[str, list[Case]] = {}
    for c in cases:
        if len(c.inputs) > 1 and c.op not in _OTHER:
            found.setdefault(c.op, []).append(c)
    for op, rows in found.items():
        kinds = tuple(dict.fromkeys(t for c in rows for t in needed(c, main_dtype(c))))
        run = partial(_run_rows, rows)
        yield _check(f"constant-operands-{op}", run, _each, kinds, op if op in TABLE else "")
    for op in _BINARY:
        run = partial(_run_numbers, op, float32)
        yield _check(f"constant-numbers-{op}", run, _run_numbers, (float32,))
    for op in _WHOLE:
        run = partial(_run_numbers, op, int32)
        yield _check(f"constant-integers-{op}", run, _run_numbers, (int32,))
    yield _check("constant-indices", _run_indices, _run_indices, (float32, int32))


def _check(subject: str, run: Run, text: Any, dtypes: tuple[DType, ...], op: str = "") -> Check:
    return Check(
        kind="jit",
        subject=subject,
        tier="compiled",
        contract=CONTRACT,
        run=run,
        text=partial(inspect.getsource, text),
        op=op,
        dtypes=dtypes,
        looks=True,
    )
