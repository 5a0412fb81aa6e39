"""Drawn weights: products with weights that stay for a while, and change by every way there is.

A driver may prepare weights once for many calls: packed, transposed, in a table. Each way in which
they change has to be seen: a write in place, another tensor, a step of a jitted function, a state
that is loaded, and, for memory that was adopted, a write by its owner. Memory runs short between.
"""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32
from calor.errors import CalorError
from calor.transforms.state import Stateful

from ..collecting import quick_collections
from .base import Array, Check, Place
from .memory import in_use

CONTRACT: Final = "a product is that of the weights as they are, however long they stayed"
_HISTORIES, _ACTIONS = 3, 12
Rng = np.random.Generator
Way = tuple[Callable[..., Any], Callable[[Array, Array], Array]]


class _Weights(Stateful):
    """Weights that a jitted step changes."""

    def __init__(self, w: Any) -> None:
        self.w = w


_WAYS: Final[dict[str, Way]] = {
    "x @ w": (lambda x, w: x @ w, lambda x, w: x @ w),
    "x @ w.T": (lambda x, w: x @ w.mT, lambda x, w: x @ w.T),
    "w @ x.T": (lambda x, w: w.mT @ x.mT, lambda x, w: w.T @ x.T),
    "x @ w + 1": (lambda x, w: calor.maximum(x @ w + 1, 0), lambda x, w: np.maximum(x @ w + 1, 0)),
    "twice": (lambda x, w: (x @ w) @ w, lambda x, w: (x @ w) @ w),
    "a row": (lambda x, w: x[:1] @ w, lambda x, w: x[:1] @ w),
}  # fmt: skip


@calor.jit
def _stepped(held: _Weights, x: Any) -> Any:
    held.w -= x
    return held.w[0] * 1


class _History:
    """A weight, the array that it should be, and programs that multiply by it."""

    def __init__(self, place: Place, rng: Rng, side: int) -> None:
        self.place, self.rng, self.side = place, rng, side
        self.shares = place.plain.info.feature("host_views").level == "full"
        self.limits = place.plain.info.feature("memory_limit").level == "full"
        self.names: list[str] = []
        self.programs = {name: calor.jit(run) for name, (run, _) in _WAYS.items()}
        self.lent: Array | None = None
        self.want: Array = self.numbers()
        self.held = _Weights(None)
        self.asked = self.some()
        self.replace()

    def numbers(self, rows: int | None = None) -> Array:
        shape = (self.side if rows is None else rows, self.side)
        return self.rng.integers(-1, 2, shape).astype(np.float32)

    # What a user does.

    def some(self) -> tuple[list[str], int]:
        """Return which products are asked for, of how many rows."""
        every = self.rng.permutation(list(_WAYS))[: int(self.rng.integers(1, 3))]
        return [str(n) for n in every], int(self.rng.integers(1, 40))

    def multiply(self, names: list[str], rows: int, turns: int) -> None:
        """Compare products with the weights, jitted, and at the last turn op by op."""
        for turn in range(turns):
            array = self.numbers(rows)
            x = calor.asarray(array)
            for name in names:
                plain = turn == turns - 1 and self.place.interactive
                run = _WAYS[name][0] if plain else self.programs[name]
                got, want = run(x, self.held.w).numpy(), _WAYS[name][1](array, self.want)
                wrong = np.flatnonzero((got != want).reshape(-1))
                assert not wrong.size, (
                    f"{name} of {rows} rows and {self.side} columns: {got.reshape(-1)[wrong[0]]} "
                    f"at {wrong[0]}, not {want.reshape(-1)[wrong[0]]}; {wrong.size} are wrong, "
                    f"after {', '.join(self.names)}"
                )

    def write(self) -> None:
        """Change one number, a row, or all."""
        w, k, j = self.held.w, *(int(n) for n in self.rng.integers(0, self.side, 2))
        self.want = self.want.copy()
        kind = int(self.rng.integers(4))
        if kind == 0:
            w[k, j] = 3.0
            self.want[k, j] = 3
        elif kind == 1:
            w[k] = -1.0
            self.want[k] = -1
        elif kind == 2:
            w *= -1
            self.want *= -1
        else:
            made = self.numbers()
            w[...] = calor.asarray(made)
            self.want[...] = made
        self.lent = None

    def replace(self) -> None:
        """Another tensor of the same shape: made, computed, or of a copy."""
        self.want = self.numbers()
        ways: tuple[Callable[[], Any], ...] = (
            lambda: calor.asarray(self.want), lambda: calor.asarray(self.want) * 1,
            lambda: calor.asarray(self.want.T.copy()).mT.copy(),
            lambda: calor.asarray(self.want).copy(),
        )  # fmt: skip
        self.held = _Weights(ways[int(self.rng.integers(4))]())
        self.lent = None

    def adopt(self) -> None:
        """Memory of an owner, who writes to it between calls."""
        if not self.shares:
            return
        array = self.numbers()
        try:
            w = calor.asarray(array, copy=False)
        except (ValueError, CalorError):
            return
        self.want, self.lent, self.held = array.copy(), array, _Weights(w)
        self.asked = self.some()
        self.multiply(*self.asked, 8)
        self.change_lent()
        self.multiply(*self.asked, 2)

    def change_lent(self) -> None:
        if self.lent is not None:
            k = int(self.rng.integers(self.side))
            self.lent[k] = self.rng.integers(-1, 2, self.side)
            self.want = self.lent.copy()

    def look(self) -> None:
        """An array that somebody holds keeps the memory, and its numbers."""
        array = self.held.w.numpy()
        before = array.copy()
        if self.lent is None:
            self.step()
            self.write()
            assert (array == before).all(), f"a held array changed, after {', '.join(self.names)}"

    def step(self) -> None:
        """A jitted step writes the weights in place."""
        made = self.numbers()
        first = _stepped(self.held, calor.asarray(made))
        self.want = self.want - made
        assert (first.numpy() == self.want[0]).all(), f"a step, after {', '.join(self.names)}"
        self.lent = None
        if np.abs(self.want).max() > 9:
            self.replace()

    def squeeze(self) -> None:
        """What a device keeps is given back when memory is short."""
        if not self.limits:
            return
        device = self.place.plain
        before = device.memory.limit
        spare = 6 * self.side * self.side + 2000 * self.side + (1 << 13)
        calor.set_memory_limit(in_use(self.place) + spare, device)
        try:
            self.multiply(*self.asked, 3)
        finally:
            device.backend.set_memory_limit(device.index, before)

    def go(self) -> None:
        every = [self.write, self.write, self.replace, self.replace, self.adopt, self.change_lent,
                 self.look, self.step, self.squeeze]  # fmt: skip
        self.names.append("adopt")
        self.adopt()
        for _ in range(_ACTIONS):
            action = every[int(self.rng.integers(len(every)))]
            self.names.append(action.__name__)
            if self.rng.random() < 0.6:
                # Rows that were not asked for yet: a device begins to keep what stays.
                self.asked = self.some()
                self.multiply(*self.asked, 6)
            action()
            self.multiply(*self.asked, 2)


def _run(place: Place) -> None:
    with quick_collections(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(_HISTORIES):
            rng = np.random.default_rng([place.seed, 97, number])
            _History(place, rng, int(rng.choice([5, 32, 100, 141]))).go()
    gc.collect()


def drawn_weights() -> Iterator[Check]:
    """Yield the check of histories of weights."""
    yield Check(
        kind="state",
        subject="drawn-weights",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _History),
        dtypes=(float32,),
        looks=True,
    )
