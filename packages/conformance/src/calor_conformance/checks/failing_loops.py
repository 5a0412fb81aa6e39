"""Ops that fail inside control flow: a loop, a scan or a branch fails as the op alone does.

A step of drawn number reads or writes at an index out of range. A device may run all steps as one
list, from the second call on or at once, and may learn of the failure when somebody looks. Whoever
looks at what depends on the step has the error, each time; what is computed beside it, the other
calls of the same loop, and what is computed later have none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32, int32
from calor.errors import ElementIndexError
from calor.ops.base import find

from .base import Array, Check, Place
from .errors import raised

CONTRACT: Final = "an index out of range in {} is an error of each read of what depends on it"
_STEPS, _ROWS, _CALLS = 5, 4, 4
Rng = np.random.Generator
Tensor = Any


def _row(x: Tensor, i: Tensor) -> Tensor:
    return calor.take(x, calor.reshape(i, (1,)), axis=0)[0]


def _along(x: Tensor, i: Tensor) -> Tensor:
    return calor.take_along_axis(x, calor.broadcast_to(i, (1, x.shape[1])), axis=0)[0]


def _written(x: Tensor, i: Tensor) -> Tensor:
    rows = calor.reshape(calor.arange(_ROWS, dtype=int32), (_ROWS, 1))
    at = calor.reshape(i, (1, 1))
    made = find("scatter_nd")(x, at, x[:1] + 1, update="add")
    return calor.sum(calor.where(rows == at, made, 0 * made), axis=0)


def _want(read: Callable[..., Tensor], x: Array, i: int) -> Array:
    return np.asarray(x[i] + x[0] + 1 if read is _written else x[i])


_READS: Final = (_row, _along, _written)
"""What a step reads at an index, or writes there and sums."""


def _rows(read: Any, x: Tensor, i: Tensor) -> Tensor:
    return calor.scan(lambda c, at: (c + 1, read(x, at)), calor.zeros(()), i)[1]


def _backwards(read: Any, x: Tensor, i: Tensor) -> Tensor:
    return calor.scan(lambda c, at: (c + 1, read(x, at)), calor.zeros(()), i, reverse=True)[1]


def _carry(read: Any, x: Tensor, i: Tensor) -> Tensor:
    return calor.scan(lambda c, at: (c + read(x, at), c), 0 * x[0], i)[0]


def _inner(read: Any, x: Tensor, i: Tensor) -> Tensor:
    def outer(c: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return c + calor.scan(lambda d, at: (d + read(x, at), at), 0 * c, i)[0], k

    return calor.scan(outer, 0 * x[0], i[:2])[0]


def _counted(read: Any, x: Tensor, i: Tensor) -> Tensor:
    def step(k: Tensor, c: Tensor) -> Tensor:
        return c + read(x, calor.take(i, calor.reshape(k, (1,)), axis=0))

    return calor.fori_loop(0, _STEPS, step, 0 * x[0])


def _until(read: Any, x: Tensor, i: Tensor) -> Tensor:
    def step(state: Any) -> Any:
        k, c = state
        return k + 1, c + read(x, calor.take(i, calor.reshape(k, (1,)), axis=0))

    first = calor.asarray(np.int32(0)), 0 * x[0]
    return calor.while_loop(lambda state: state[0] < _STEPS, step, first)[1]


def _branch(read: Any, x: Tensor, i: Tensor) -> Tensor:
    parts = [read(x, i[k]) for k in range(_STEPS - 1)]
    last = calor.cond(i[-1] >= 0, lambda: read(x, i[-1]), lambda: read(x, 0 * i[-1]))
    return sum(parts, last)


def _summed(rows: Array, _: int) -> Array:
    return np.asarray(rows.sum(0))


_FORMS: Final[dict[str, tuple[Callable[..., Tensor], Callable[[Array, int], Array]]]] = {
    "the rows of a scan": (_rows, lambda rows, _: rows),
    "the rows of a scan in reverse": (_backwards, lambda rows, _: rows),
    "the carry of a scan": (_carry, _summed),
    "a scan in a scan": (_inner, lambda rows, _: np.asarray(2 * rows.sum(0))),
    "a loop with a count": (_counted, _summed),
    "a loop with a condition": (_until, _summed),
    "a branch": (_branch, _summed),
}


def _begun(call: Callable[..., Tensor], x: Tensor, at: Array) -> Tensor | None:
    """Return the result of a call, None where a jitted one knows at once that it fails."""
    try:
        return call(x, calor.asarray(at))
    except ElementIndexError:
        return None


def _called(form: str, read: Any, rng: Rng, place: Place) -> None:
    function, joined = _FORMS[form]
    x = rng.integers(-9, 10, (_ROWS, 3)).astype(np.float32)
    held = calor.asarray(x)
    call = partial(function, read)
    if rng.integers(2) or not place.interactive:
        call = calor.jit(call)
    there = rng.integers(0, _ROWS, (2 * _CALLS, _STEPS)).astype(np.int32)
    # The first call may be made otherwise than those that follow.
    failing = [0, *rng.permutation(np.arange(1, 2 * _CALLS))[1:_CALLS]]
    for k in failing:
        there[k, -1 if form == "a branch" else rng.integers(_STEPS)] = _ROWS + rng.integers(3)
    made = []
    for k, at in enumerate(there):
        apart = held * k
        result = _begun(call, held, at)
        if result is None:
            assert k in failing, f"call {k} of {form} at {at.tolist()} fails"
            assert np.array_equal(apart.numpy(), x * np.float32(k)), f"beside call {k}: {apart}"
            continue
        made.append((k, at, result, apart))
        if rng.integers(2):
            _look(made.pop(), form, read, x, k in failing, joined)
    for one in made:
        _look(one, form, read, x, one[0] in failing, joined)


def _look(one: Any, form: str, read: Any, x: Array, fails: bool, joined: Any) -> None:
    k, at, result, apart = one
    said = f"call {k} of {form}, {read.__name__.strip('_')} at {at.tolist()}"
    looks = (result.numpy, result.numpy, lambda: (result + 1).numpy(), result.numpy)
    for look in looks if fails else ():
        try:
            error = raised(look)
        except AssertionError as none:
            raise AssertionError(f"{said}: {none}") from none
        assert isinstance(error, ElementIndexError), f"{said}: {error!r}"
    assert np.array_equal(apart.numpy(), x * np.float32(k)), f"what is beside {said}: {apart}"
    if not fails:
        want = joined(np.stack([_want(read, x, i) for i in at]), k)
        got = (result + 1).numpy() - 1
        assert np.array_equal(got, want), f"{said}: {got.tolist()}, not {want.tolist()}"


def _run(form: str, place: Place) -> None:
    rng = np.random.default_rng([place.seed, crc32(form.encode())])
    reads = [read for k, read in enumerate(_READS) if place.tries(k, 3)]
    for read in reads:
        _called(form, read, rng, place)


def failing_loops() -> Iterator[Check]:
    """Yield a check of each form of control flow."""
    for form in _FORMS:
        yield Check(
            kind="errors",
            subject=f"in {form}",
            tier="training",
            contract=CONTRACT.format(form),
            run=partial(_run, form),
            text=lambda: "\n".join(inspect.getsource(f) for f in (_called, _look, *_READS)),
            dtypes=(float32, int32),
            looks=True,
        )
