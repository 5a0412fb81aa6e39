"""Interrupted work: Ctrl-C in the middle of a computation loses nothing that was pending.

Programs of values that depend on each other are drawn, and interrupted where the device prepares
what computes them. Afterwards values are read in any order, used by further steps, differentiated,
written to in place, read by another thread, or interrupted again. NumPy says what each is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Array, Check, Place

CONTRACT: Final = "after an interruption each value is what it would have been"
_TURNS, _STEPS, _MARGIN = 10, 9, 1e-5
Rng = np.random.Generator


@contextmanager
def _interrupted(place: Place) -> Iterator[list[int]]:
    """Press Ctrl-C where the device prepares the next program; yield how often that was."""
    backend: Any = place.device.backend
    times: list[int] = []

    def press(*given: Any, **options: Any) -> Any:
        times.append(1)
        raise KeyboardInterrupt

    backend.compile = press
    try:
        yield times
    finally:
        del backend.compile


class _Program:
    """Values of a drawn program, as tensors and as NumPy has them."""

    def __init__(self, rng: Rng, place: Place, size: int) -> None:
        self.rng, self.place = rng, place
        first = rng.normal(size=size).astype(np.float32)
        self.tensors: list[Any] = [calor.asarray(first)]
        self.arrays: list[Array] = [first]
        for _ in range(_STEPS):
            self.step()

    def step(self) -> None:
        """Add a value that depends on one or two others."""
        a, b = (int(n) for n in self.rng.integers(0, len(self.tensors), 2))
        x, y = self.tensors[a], self.tensors[b]
        v, w = self.arrays[a], self.arrays[b]
        kind = int(self.rng.integers(4))
        if kind == 0:
            made, want = x * 0.5 + y, v * 0.5 + w
        elif kind == 1:
            made, want = calor.flip(x) - y, v[::-1] - w
        elif kind == 2:
            made, want = calor.maximum(x, y), np.maximum(v, w)
        else:
            made, want = calor.sum(x) * 0.25 + y, v.sum() * 0.25 + w
        self.tensors.append(made)
        self.arrays.append(np.asarray(want, np.float32))

    def interrupt(self) -> bool:
        """Stop the computation of all that is pending; return whether there was a place for it."""
        with _interrupted(self.place) as times:
            try:
                calor.eval(*self.tensors)
            except KeyboardInterrupt:
                return True
        assert not times, "an interruption in the middle of a computation ends without an error"
        return False

    def compare(self, number: int, how: str) -> None:
        got, want = self.tensors[number].numpy(), self.arrays[number]
        off = np.abs(got - want).max()
        assert off <= _MARGIN * (1 + np.abs(want).max()), (
            f"{how}: {got.tolist()}, not {want.tolist()}"
        )


def _programs(place: Place, number: int) -> Iterator[_Program]:
    stopped = 0
    for turn in range(_TURNS):
        if place.tries(turn, 4):
            rng = np.random.default_rng([place.seed, 811, number, turn])
            # No program of this size is known, so it is made when it is asked for.
            program = _Program(rng, place, 31 + place.number(turn) % 97 + 97 * number)
            stopped += program.interrupt()
            yield program
    assert stopped, "no computation of new sizes asks the device for a program"


def _read(place: Place) -> None:
    for program in _programs(place, 0):
        for number in program.rng.permutation(len(program.tensors)):
            program.compare(int(number), f"value {number} after an interruption")


def _used(place: Place) -> None:
    for program in _programs(place, 1):
        for _ in range(3):
            program.step()
        for number in program.rng.permutation(len(program.tensors)):
            program.compare(int(number), f"value {number} with steps after the interruption")


def _again(place: Place) -> None:
    for program in _programs(place, 2):
        # One value is read alone; those that need the host wait for it again.
        if program.rng.random() < 0.5:
            program.compare(0, "what an interruption does not concern")
        program.step()
        program.interrupt()
        program.step()
        for number in program.rng.permutation(len(program.tensors)):
            program.compare(int(number), f"value {number} after two interruptions")


def _written(place: Place) -> None:
    for program in _programs(place, 3):
        number = int(program.rng.integers(1, len(program.tensors)))
        program.tensors[number] += 2
        program.arrays[number] = program.arrays[number] + 2
        program.tensors[number][1] = 7.0
        program.arrays[number][1] = 7.0
        program.step()
        for one in program.rng.permutation(len(program.tensors)):
            program.compare(int(one), f"value {one}, written to is {number}")


def _elsewhere(place: Place) -> None:
    for program in _programs(place, 4):
        order = [int(n) for n in program.rng.permutation(len(program.tensors))]

        def read(numbers: list[int], program: _Program = program) -> None:
            with calor.device(place.device):
                for number in numbers:
                    program.compare(number, f"value {number} in another thread")

        with ThreadPoolExecutor(1) as pool:
            pool.submit(read, order[::2]).result()
        for number in order[1::2]:
            program.compare(number, f"value {number} after another thread read others")


def _differentiated(place: Place) -> None:
    for turn in range(_TURNS):
        if not place.tries(turn, 4):
            continue
        rng = np.random.default_rng([place.seed, 811, 5, turn])
        array = rng.normal(size=641 + turn).astype(np.float32)
        factor = float(rng.integers(2, 5))
        x: Any = calor.asarray(array, requires_grad=True)
        y = x * x
        loss = calor.sum(y * factor) + calor.sum(x)
        with _interrupted(place), suppress(KeyboardInterrupt):
            loss.item()
        if turn % 2:
            y.numpy()
        loss.backward()
        got, want = x.grad.numpy(), 2 * factor * array + 1
        off = np.abs(got - want).max()
        assert off <= _MARGIN * (1 + np.abs(want).max()), (
            f"gradient {got.tolist()}, not {want.tolist()}"
        )


_FORMS: Final[dict[str, Callable[[Place], None]]] = {
    "read": _read, "used": _used, "again": _again, "written": _written, "elsewhere": _elsewhere,
    "differentiated": _differentiated,
}  # fmt: skip


def interrupted_work() -> Iterator[Check]:
    """Yield a check of each use of what an interruption left."""
    for name, form in _FORMS.items():
        yield Check(
            kind="threads" if name == "elsewhere" else "state",
            subject=f"interrupted-then-{name}",
            tier="full",
            contract=CONTRACT,
            run=form,
            text=partial(inspect.getsource, form),
            op="flip",
            dtypes=(float32,),
            looks=True,
        )
