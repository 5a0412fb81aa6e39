"""Drawn histories: what users do to tensors, one thing after another, beside the same in NumPy.

Memory that is shared, written in place, given back and used again is right in each contract alone
and wrong after some order of them. A history makes, computes, writes, copies, reads, drops and
fails, at sizes around thresholds; after each action figures hold, and at the end every value that
lives, and every array that was read, has the numbers that it should have.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int64
from calor.errors import CalorError, ElementIndexError, OutOfMemoryError
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from ..rows.crossed.programs import Program, Step, program
from .base import Array, Check, Place, plain_array
from .memory import in_use, limited

CONTRACT: Final = "values and figures are right after any order of what users do to tensors"
_SIZES: Final = (3, 64, 1500, 20_000)
_ACTIONS, _MOST = 40, 7
_PROGRAMS = 5
# Whole numbers that every plain dtype holds.
_LOW, _HIGH = -9, 10


class _Held(Stateful):
    def __init__(self, *tensors: Any) -> None:
        self.tensors = list(tensors)


def _stepped(held: _Held, x: Any) -> Any:
    """Write two states from each other's old numbers; return what is computed of them."""
    first, second = held.tensors
    before = first - second
    held.tensors[0] = calor.clip(second + x, -9, 9)
    held.tensors[1] = calor.clip(first - x, -9, 9) * 1
    return before, held.tensors[0] * 1


def _computed(x: Any, y: Any) -> Any:
    return calor.clip(x - y, -9, 9), x, calor.maximum(x, y)[::-1]


class _History:
    """Tensors, the arrays that they should be, and arrays that were read from them."""

    def __init__(self, place: Place, rng: np.random.Generator, n: int) -> None:
        self.place, self.rng, self.n = place, rng, n
        self.tensors: list[Any] = []
        self.arrays: list[Array] = []
        self.read: list[tuple[Array, Array]] = []
        self.names: list[str] = []
        # A program may keep the states of its last calls, so it lives as long as they do.
        self.stepped, self.computed = calor.jit(_stepped), calor.jit(_computed)

    def fresh(self) -> Array:
        return plain_array(self.rng.integers(_LOW, _HIGH, self.n))

    def pick(self) -> int:
        return int(self.rng.integers(len(self.tensors)))

    def add(self, tensor: Any, array: Array) -> None:
        self.tensors.append(tensor)
        self.arrays.append(array)

    # What a user does.

    def make(self) -> None:
        array = self.fresh()
        self.add(calor.asarray(array), array.copy())
        array[:] = 7

    def compute(self) -> None:
        j, k = self.pick(), self.pick()
        # Only now and then is a result looked at, so that work is pending as in programs.
        self.add(
            calor.clip(self.tensors[j] - self.tensors[k], -9, 9),
            np.clip(self.arrays[j] - self.arrays[k], -9, 9),
        )

    def jit(self) -> None:
        j, k = self.pick(), self.pick()
        x, y = self.arrays[j], self.arrays[k]
        wants = (np.clip(x - y, -9, 9), x.copy(), np.maximum(x, y)[::-1].copy())
        for made, want in zip(self.computed(self.tensors[j], self.tensors[k]), wants, strict=True):
            self.add(made, want)

    def step(self) -> None:
        """Two states change in place; neither is any other tensor of the history."""
        j, k, m = self.pick(), self.pick(), self.pick()
        a, b, x = (self.arrays[i].copy() for i in (j, k, m))
        held = _Held(self.tensors[j].copy(), self.tensors[k].copy())
        for _ in range(3):
            before, after = self.stepped(held, self.tensors[m])
            wants = a - b, np.clip(b + x, -9, 9)
            a, b = np.clip(b + x, -9, 9), np.clip(a - x, -9, 9)
        self.add(held.tensors[0], a)
        self.add(held.tensors[1], b)
        self.read.append((before.numpy(), wants[0]))
        self.read.append((after.numpy(), wants[1]))

    def write(self) -> None:
        k, value = self.pick(), int(self.rng.integers(_LOW, _HIGH))
        first, last = sorted(int(i) for i in self.rng.integers(0, self.n + 1, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tensors[k][first:last] = value
        self.arrays[k] = self.arrays[k].copy()
        self.arrays[k][first:last] = value

    def lower(self) -> None:
        j, k = self.pick(), self.pick()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tensors[j] -= self.tensors[k]
        made = self.arrays[j] - self.arrays[k]
        self.arrays[j] = made
        if np.abs(made).max() > 9:
            self.tensors[j] = calor.clip(self.tensors[j], -9, 9)
            self.arrays[j] = np.clip(made, -9, 9)

    def copy(self) -> None:
        k = self.pick()
        x = self.tensors[k]
        ways: tuple[Callable[[], Any], ...] = (
            x.copy, lambda: calor.asarray(x, copy=True), lambda: x * 1,
            lambda: calor.reshape(calor.reshape(x, (1, -1)), (-1,)).copy(),
            lambda: calor.concat([x[: self.n // 2], x[self.n // 2 :]]),
        )  # fmt: skip
        self.add(ways[int(self.rng.integers(len(ways)))](), self.arrays[k].copy())

    def look(self) -> None:
        k = self.pick()
        self.read.append((self.tensors[k].numpy(), self.arrays[k].copy()))

    def settle(self) -> None:
        calor.eval(*self.tensors)

    def fail(self) -> None:
        k = self.pick()
        there = calor.asarray(np.array([0, self.n + 5]))
        try:
            (calor.take(self.tensors[k], there, axis=0) + 1).numpy()
        except ElementIndexError:
            return
        raise AssertionError(f"index {self.n + 5} of {self.n} was taken")

    def run_out(self) -> None:
        k = self.pick()
        calor.eval(self.tensors[k])
        if self.place.plain.info.feature("memory_limit").level != "full":
            return
        with limited(self.place, 8 * self.n + 4096):
            wide = calor.broadcast_to(self.tensors[k], (64, 64, self.n))
            try:
                (wide + 1).numpy()
            except OutOfMemoryError:
                return
        raise AssertionError("the limit was passed and no OutOfMemoryError was raised")

    def drop(self) -> None:
        if len(self.tensors) > 1:
            k = self.pick()
            del self.tensors[k], self.arrays[k]

    def forget(self) -> None:
        if self.read:
            del self.read[int(self.rng.integers(len(self.read)))]

    def verify(self) -> None:
        for tensor, want in zip(self.tensors, self.arrays, strict=True):
            self.same(tensor.numpy(), want, "a tensor")
        for got, want in self.read:
            self.same(got, want, "an array that was read")

    def same(self, got: Array, want: Array, what: str) -> None:
        assert got.shape == want.shape, f"{what} is {got.shape}, not {want.shape}, {self.told()}"
        wrong = np.flatnonzero(got != want)
        assert not wrong.size, (
            f"{what} of {self.n} elements: element {wrong[0]} is {got[wrong[0]]}, not "
            f"{want[wrong[0]]}; {wrong.size} are wrong, {self.told()}"
        )

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def go(self, actions: int) -> None:
        every = [
            self.make, self.compute, self.compute, self.jit, self.step, self.write, self.write,
            self.lower, self.lower, self.copy, self.look, self.look, self.settle, self.fail,
            self.run_out, self.drop, self.drop, self.forget,
        ]  # fmt: skip
        self.make()
        self.names.append("make")
        for turn in range(actions):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            try:
                action()
            except CalorError as error:
                raise AssertionError(f"{error}, {self.told()}") from error
            while len(self.tensors) > _MOST:
                self.drop()
            if turn % 8 == 7:
                self.verify()
            figures = self.place.plain.memory
            assert figures.peak >= figures.in_use >= 0, (
                f"{figures.in_use} bytes in use, {figures.peak} at the peak, {self.told()}"
            )
        self.verify()


def _run(n: int, place: Place) -> None:
    for number in range(2):
        rng = np.random.default_rng([place.seed, n, number])
        with quick_collections():
            # The first time, programs are planned, which may keep memory.
            for _ in range(2):
                before = in_use(place)
                history = _History(place, rng, n)
                history.go(_ACTIONS)
                told = history.told()
                del history
                rng = np.random.default_rng([place.seed, n, number])
            after = in_use(place)
            assert after <= before, f"{after - before} bytes stay in use {told}"


_ALIKE: Final = "programs that differ in the order of results, in operands or in one op are several"


def _alike(made: Program) -> Iterator[Program]:
    """Yield programs that a key without one of its parts takes for the same."""
    yield made
    yield replace(made, wanted=made.wanted[::-1])
    yield replace(made, wanted=[made.wanted[-1], *made.wanted[1:-1], made.wanted[0]])
    last = len(made.steps) + 2
    yield replace(made, wanted=[k for k in range(3, last + 1) if k not in made.wanted] or [last])
    for number, (ours, theirs, read) in enumerate(made.steps):
        if len(read) == 2 and read[0] != read[1]:
            turned: Step = (ours, theirs, read[::-1])
            yield replace(made, steps=[*made.steps[:number], turned, *made.steps[number + 1 :]])
            break


def _look_alike(place: Place) -> None:
    for number in range(_PROGRAMS):
        made = program(place.number(number), 6, float32, "closed")
        arrays = [a.astype(np.float32) for a in made.operands]
        every = []
        for other in _alike(made):
            try:
                every.append((calor.jit(other.run), other.meaning(*made.operands)))
            except ValueError:
                continue  # Operands in another order do not fit.
        for turn in range(2):
            for which, (step, wants) in enumerate(every):
                found = step(*map(calor.asarray, arrays))
                for k, (got, want) in enumerate(zip(found, wants, strict=True)):
                    what = f"result {k} of variant {which} of program {number} at call {turn + 1}"
                    assert got.shape == want.shape, f"{what} is {got.shape}, not {want.shape}"
                    assert (got.numpy() == want).all(), f"{what}: {got}, not {want}"


def histories() -> Iterator[Check]:
    """Yield a check of drawn histories at each size, and of programs that look alike."""
    yield Check(
        kind="history",
        subject="drawn-programs-that-look-alike",
        tier="compiled",
        contract=_ALIKE,
        run=_look_alike,
        text=partial(inspect.getsource, _look_alike),
        dtypes=(float32,),
        looks=True,
    )
    for n in _SIZES:
        yield Check(
            kind="history",
            subject=f"drawn-{n}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, n),
            text=partial(inspect.getsource, _History),
            dtypes=(int64,),
            looks=True,
        )
