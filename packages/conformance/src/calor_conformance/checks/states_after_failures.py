"""States that a program writes around reads and writes at indices, some of which are out of range.

A program adds to states, takes rows, writes rows at places of others and draws a next state from
them, in a drawn order. One of its index arrays, in a part of it, may be out of range. NumPy makes
the steps on copies: a call that fails leaves each state as it was, and the next call is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32
from calor.errors import ElementIndexError
from calor.transforms.state import Stateful

from .base import Array, Check, Place

CONTRACT: Final = "a call that fails at an index writes no state, and the next call is right"
_PROGRAMS, _CALLS, _ROWS = 12, 6, 4
Rng = np.random.Generator


class _Held(Stateful):
    """States of rows, and a count."""

    def __init__(self, rows: list[Array]) -> None:
        self.rows = [calor.asarray(r) for r in rows]
        self.count = calor.asarray(np.int32(0))


class _Step:
    """A step of a program: what it does, to which state, from which other, by which indices."""

    def __init__(self, rng: Rng) -> None:
        self.kind = str(rng.choice(("add", "take", "take", "write", "write", "more", "row")))
        self.to, self.of = (int(k) for k in rng.permutation(3)[:2])
        self.by = int(rng.integers(2))

    @property
    def told(self) -> str:
        return f"{self.kind} {self.to} of {self.of} by {self.by}"

    def call(self, rows: list[Any], indices: list[Any]) -> None:
        """Make the step with tensors."""
        to, of, i = rows[self.to], rows[self.of], indices[self.by]
        if self.kind == "add":
            to += of * 0.5
        elif self.kind == "take":
            to += calor.sum(calor.take(of, i, axis=0), axis=0)
        elif self.kind == "row":
            to[0] = of[i[0]] * 2
        else:
            given = calor.broadcast_to(of[:1], (i.shape[0], 2))
            update: Any = "add" if self.kind == "more" else "max"
            to[...] = calor.index_update(to, i, given, axis=0, update=update)

    def follow(self, rows: list[Array], indices: list[Array]) -> None:
        """Make the step with arrays, which raise IndexError."""
        to, of, i = rows[self.to], rows[self.of], indices[self.by]
        if self.kind == "add":
            to += of * 0.5
        elif self.kind == "take":
            to += of[i].sum(0)
        elif self.kind == "row":
            to[0] = of[i[0]] * 2
        else:
            (np.add if self.kind == "more" else np.maximum).at(to, i, of[:1].copy())


def _indices(rng: Rng) -> list[Array]:
    """Return two arrays of indices, in each of which a part may be out of range."""
    made = []
    for _ in range(2):
        some = rng.integers(0, _ROWS, 3)
        if rng.random() < 0.3:
            some[int(rng.integers(3))] = int(rng.choice((_ROWS, _ROWS + 5, 1000)))
        made.append(some.astype(np.int32))
    return made


def _program(rng: Rng, turn: int) -> None:
    steps = [_Step(rng) for _ in range(int(rng.integers(2, 6)))]
    wants = [rng.integers(-3, 4, (_ROWS, 2)).astype(np.float32) for _ in range(3)]
    held, count = _Held([w.copy() for w in wants]), 0

    def run(held: _Held, i: Any, j: Any) -> Any:
        held.count += 1
        for step in steps:
            step.call(held.rows, [i, j])
        return calor.sum(held.rows[steps[-1].to])

    jitted = calor.jit(run)
    call: Callable[..., Any] = jitted.bind(held) if turn % 2 else partial(jitted, held)
    told = f"{'bound' if turn % 2 else 'jitted'}: {'; '.join(s.told for s in steps)}"
    names: list[str] = []
    for _ in range(_CALLS):
        given = _indices(rng)
        names.append(f"{given[0].tolist()} and {given[1].tolist()}")
        after = [w.copy() for w in wants]
        what = f"{told}, called with {', '.join(names)}"
        fails = False
        try:
            for step in steps:
                step.follow(after, given)
        except IndexError:
            fails = True
        error = _error(call, given)
        assert (error is not None) is fails, f"{what}: {error!r}"
        if not fails:
            wants, count = after, count + 1
        for k, (tensor, want) in enumerate(zip(held.rows, wants, strict=True)):
            got = tensor.numpy()
            near = np.allclose(got, want, rtol=1e-5, atol=1e-5)
            assert near, f"state {k} is {got.tolist()}, not {want.tolist()}, {what}"
        assert held.count.item() == count, f"the count is {held.count.item()}, not {count}, {what}"


def _error(call: Callable[..., Any], given: list[Array]) -> ElementIndexError | None:
    try:
        call(*map(calor.asarray, given)).numpy()
        # The result may depend on no index that is out of range; who waits is told then.
        calor.synchronize()
    except ElementIndexError as error:
        return error
    return None


def _run(place: Place) -> None:
    for turn in range(_PROGRAMS):
        if place.tries(turn, 4):
            _program(np.random.default_rng([place.seed, 615, turn]), turn)


def states_after_failures() -> Iterator[Check]:
    """Yield the check of states around indices out of range."""
    yield Check(
        kind="state",
        subject="states-after-failures",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_Step) + inspect.getsource(_program),
        op="gather",
        dtypes=(float32, int32),
        looks=True,
    )
