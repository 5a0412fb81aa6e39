"""States that a program writes around reads and writes at indices, some of which are out of range.

A program adds to states, takes rows, writes rows at places of others and draws a next state from
them, in a drawn order; plainly, or in loops, branches, mapped functions and gradients. One of its
index arrays, in a part of it, may be out of range. NumPy makes the steps on copies: a call that
fails leaves each state and gradient as it was, and the next call is right. Errors, values of states
and results may be kept by somebody, or not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

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
    """States of rows, a weight that learns, and a count."""

    def __init__(self, rows: list[Array]) -> None:
        self.rows = [calor.asarray(r) for r in rows]
        self.weight = calor.asarray(rows[0]).requires_grad_()
        self.count = calor.asarray(np.int32(0))


class _Kind(NamedTuple):
    """What a step does to one state from another by indices: with tensors, and with arrays."""

    call: Callable[[Any, Any, Any], None]
    follow: Callable[[Array, Array, Array], None]


# Plain steps.
def _adds(to: Any, of: Any, i: Any) -> None:
    to += of * 0.5


def _takes(to: Any, of: Any, i: Any) -> None:
    to += calor.sum(calor.take(of, i, axis=0), axis=0)


def _takes_rows(to: Array, of: Array, i: Array) -> None:
    to += of[i].sum(0)


def _puts(to: Any, of: Any, i: Any) -> None:
    to[0] = of[i[0]] * 2


def _writes(update: Any, to: Any, of: Any, i: Any) -> None:
    given = calor.broadcast_to(of[:1], (i.shape[0], 2))
    to[...] = calor.index_update(to, i, given, axis=0, update=update)


def _written(ufunc: np.ufunc, to: Array, of: Array, i: Array) -> None:
    ufunc.at(to, i, of[:1].copy())


# Steps in transforms, whose arrays are read row by row.
def _scans(to: Any, of: Any, i: Any) -> None:
    def step(carry: Any, k: Any) -> tuple[Any, Any]:
        return carry + calor.take(of, k, axis=0) * 0.5, k

    to[...] = calor.scan(step, to * 1, i)[0]


def _writes_in_scan(to: Any, of: Any, i: Any) -> None:
    def step(carry: Any, k: Any) -> tuple[Any, Any]:
        nonlocal to
        to += calor.take(of, k, axis=0) * 0.5
        return carry, k

    calor.scan(step, of[0] * 1, i)


def _whiles(to: Any, of: Any, i: Any) -> None:
    def step(state: Any) -> Any:
        n, rows = state
        return n + 1, rows + of[i[n]] * 0.5

    start = calor.asarray(np.int32(0)), to * 1
    to[...] = calor.while_loop(lambda state: state[0] < i.shape[0], step, start)[1]


def _counts(to: Any, of: Any, i: Any) -> None:
    to[...] = calor.fori_loop(0, i.shape[0], lambda n, rows: rows + of[i[n]] * 0.5, to * 1)


def _adds_rows(to: Array, of: Array, i: Array) -> None:
    for k in i:
        to += of[k] * np.float32(0.5)


def _branches(to: Any, of: Any, i: Any) -> None:
    to[...] = calor.cond(
        calor.sum(to) > 0, lambda t: t + calor.take(of, i[:1], axis=0), lambda t: t * 0.5, to * 1
    )


def _branched(to: Array, of: Array, i: Array) -> None:
    to[...] = to + of[i[:1]] if to.sum() > 0 else to * 0.5


def _maps(to: Any, of: Any, i: Any) -> None:
    to += calor.sum(calor.vmap(lambda k: calor.take(of, k, axis=0))(i), axis=0) * 0.5


def _maps_writes(to: Any, of: Any, i: Any) -> None:
    def one(k: Any) -> Any:
        return calor.index_update(of, calor.expand_dims(k, axis=0), of[:1], axis=0, update="max")

    # What is not read need not fail, so nothing is overwritten unread.
    to[...] = to * 0.5 + calor.max(calor.vmap(one)(i), axis=0)


def _mapped_writes(to: Array, of: Array, i: Array) -> None:
    made = [of.copy() for _ in i]
    for rows, k in zip(made, i, strict=True):
        rows[k] = np.maximum(rows[k], of[0])
    to[...] = to * np.float32(0.5) + np.max(made, axis=0)


def _slopes(to: Any, of: Any, i: Any) -> None:
    to += calor.grad(lambda t: calor.sum(calor.take(t, i, axis=0) ** 2) * 0.25)(of)


def _slope_of(to: Array, of: Array, i: Array) -> None:
    made = np.zeros_like(of)
    np.add.at(made, i, of[i] * np.float32(0.5))
    to += made


_PLAIN: Final[Mapping[str, _Kind]] = {
    "add": _Kind(_adds, lambda to, of, i: _adds(to, of, i)),
    "take": _Kind(_takes, _takes_rows),
    "write": _Kind(partial(_writes, "max"), partial(_written, np.maximum)),
    "more": _Kind(partial(_writes, "add"), partial(_written, np.add)),
    "row": _Kind(_puts, lambda to, of, i: _puts(to, of, i)),
}
_IN_TRANSFORMS: Final[Mapping[str, _Kind]] = {
    "add": _PLAIN["add"],
    "write": _PLAIN["write"],
    "scan": _Kind(_scans, _adds_rows),
    "write in scan": _Kind(_writes_in_scan, _adds_rows),
    "while": _Kind(_whiles, _adds_rows),
    "count": _Kind(_counts, _adds_rows),
    "branch": _Kind(_branches, _branched),
    "map": _Kind(_maps, lambda to, of, i: _takes_rows(to, of * np.float32(0.5), i)),
    "map writes": _Kind(_maps_writes, _mapped_writes),
    "slope": _Kind(_slopes, _slope_of),
}


class _Step:
    """A step of a program: what it does, to which state, from which other, by which indices."""

    def __init__(self, rng: Rng, kinds: Mapping[str, _Kind]) -> None:
        self.name = str(rng.choice([*kinds]))
        self.kind = kinds[self.name]
        self.to, self.of = (int(k) for k in rng.permutation(3)[:2])
        self.by = int(rng.integers(2))

    @property
    def told(self) -> str:
        return f"{self.name} {self.to} of {self.of} by {self.by}"

    def run(self, way: str, rows: list[Any], indices: list[Any]) -> None:
        """Make the step with tensors ("call") or with arrays ("follow")."""
        getattr(self.kind, way)(rows[self.to], rows[self.of], indices[self.by])


class _Learning(NamedTuple):
    """Whether a program calls ``backward``, and gives up the gradients of before."""

    learns: bool
    renews: bool

    def call(self, weight: Any, i: Any) -> None:
        """Make the gradient with tensors."""
        if self.renews:
            weight.grad = None
        if self.learns:
            (calor.sum(calor.take(weight, i, axis=0) ** 2) * 0.5).backward()

    def follow(self, weight: Array, slope: Array | None, i: Array) -> Array | None:
        """Return the gradient with arrays, added to the one of before."""
        if not self.learns:
            return slope
        made = np.zeros_like(weight) if slope is None or self.renews else slope.copy()
        np.add.at(made, i, weight[i])
        return made


def _indices(rng: Rng) -> list[Array]:
    """Return two arrays of indices, in each of which a part may be out of range."""
    made = []
    for _ in range(2):
        some = rng.integers(-_ROWS, _ROWS, 3)
        if rng.random() < 0.3:
            some[int(rng.integers(3))] = int(rng.choice((_ROWS, _ROWS + 5, 1000, -_ROWS - 1)))
        made.append(some.astype(np.int32))
    return made


class _Program:
    """A drawn program with its states, beside what NumPy makes of them."""

    def __init__(self, rng: Rng, turn: int, kinds: Mapping[str, _Kind]) -> None:
        self.rng = rng
        self.steps = [_Step(rng, kinds) for _ in range(int(rng.integers(2, 5)))]
        learns = bool(rng.random() < 0.5)
        self.learning = _Learning(learns, learns and bool(rng.random() < 0.4))
        self.wants = [rng.integers(-3, 4, (_ROWS, 2)).astype(np.float32) for _ in range(3)]
        self.weight, self.count = self.wants[0].copy(), 0
        self.held = _Held([w.copy() for w in self.wants])
        jitted = calor.jit(self._run)
        self.call: Callable[..., Any] = (
            jitted.bind(self.held) if turn % 2 else partial(jitted, self.held)
        )
        self.keeps, self.kept = rng.random() < 0.5, list[Any]()
        told = [*(s.told for s in self.steps), *(["learn"] if learns else [])]
        self.told = f"{'bound' if turn % 2 else 'jitted'}: {'; '.join(told)}, called with "
        self.slope: Array | None = None

    def _run(self, held: _Held, i: Any, j: Any) -> Any:
        held.count += 1
        for step in self.steps:
            step.run("call", held.rows, [i, j])
        self.learning.call(held.weight, j)
        return calor.sum(held.rows[self.steps[-1].to])

    def turn(self) -> None:
        """Call the program once; compare its error, and all states afterwards."""
        given = _indices(self.rng)
        self.told += f"{given[0].tolist()} and {given[1].tolist()}, "
        after, slope = [w.copy() for w in self.wants], self.slope
        fails = False
        try:
            for step in self.steps:
                step.run("follow", after, given)
            slope = self.learning.follow(self.weight, slope, given[1])
        except IndexError:
            fails = True
        error = self._error(given)
        assert (error is not None) is fails, f"{self.told}: {error!r}"
        if not fails:
            self.wants, self.slope, self.count = after, slope, self.count + 1
        # Not all are read after each call.
        for k in range(3):
            if self.rng.random() < 0.7:
                self._state(k)
        if self.rng.random() < 0.7 and not (fails and self.learning.renews):
            self._gradient()
        got = self.held.count.item()
        assert got == self.count, f"the count is {got}, not {self.count}, {self.told}"

    def end(self) -> None:
        """Compare all states once more."""
        for k in range(3):
            self._state(k)

    def _state(self, k: int) -> None:
        got, want = self.held.rows[k].numpy(), self.wants[k]
        near = np.allclose(got, want, rtol=1e-4, atol=1e-4)
        assert near, f"state {k} is {got.tolist()}, not {want.tolist()}, {self.told}"

    def _gradient(self) -> None:
        slope = self.held.weight.grad
        got = None if slope is None else slope.numpy()
        same = (got is None) is (self.slope is None)
        if same and got is not None and self.slope is not None:
            same = np.allclose(got, self.slope, rtol=1e-4, atol=1e-4)
        assert same, f"the gradient is {got}, not {self.slope}, {self.told}"

    def _error(self, given: list[Array]) -> ElementIndexError | None:
        if self.keeps and self.rng.random() < 0.5:
            self.kept.append(self.held.rows[int(self.rng.integers(3))].detach())
        try:
            self.call(*map(calor.asarray, given)).numpy()
            # The result may depend on no index that is out of range; who waits is told then.
            calor.synchronize()
        except ElementIndexError as error:
            # Loops and what is between them fail one by one, and each tells who waits.
            with suppress(ElementIndexError):
                calor.synchronize()
            if self.keeps:
                # It holds the frames, and so the values, of the call.
                self.kept.append(error)
            return error
        return None


def _run(kinds: Mapping[str, _Kind], number: int, place: Place) -> None:
    for turn in range(_PROGRAMS):
        if place.tries(turn, 4):
            rng = np.random.default_rng([place.seed, number, turn])
            program = _Program(rng, turn, kinds)
            for _ in range(_CALLS):
                program.turn()
            program.end()


def states_after_failures() -> Iterator[Check]:
    """Yield the checks of states around indices out of range, plain and in transforms."""
    for number, (name, kinds) in enumerate((("", _PLAIN), ("-in-transforms", _IN_TRANSFORMS))):
        yield Check(
            kind="state",
            subject=f"states-after-failures{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, kinds, 615 + number),
            text=partial(_text, name),
            op="gather",
            dtypes=(float32, int32),
            looks=True,
        )


def _text(name: str) -> str:
    return f"{name}\n{inspect.getsource(_Step)}{inspect.getsource(_Program)}"
