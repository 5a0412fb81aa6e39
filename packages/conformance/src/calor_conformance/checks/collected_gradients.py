"""Histories of ``backward()``: what leaves collect is the sum of what was asked for, and no more.

Losses are drawn programs of nested transforms; they are differentiated now or later, again, from a
gradient of their own, compiled, or to be differentiated once more. Leaves are shared, written to,
and give up what they collected in each way. The gradients are those of dual numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float64, int8, int16, int32, int64, uint8

from ..rows.nested.drawing import drawn
from ..rows.nested.meanings import Plain
from .base import Array, Check, Place

CONTRACT: Final = "a leaf collects the gradients that were asked for, each once, until it gives up"
_HISTORIES, _ACTIONS, _NEAR = 5, 12, 1e-8
_AROUND: Final = ("vmap", "jit", "checkpoint", "cond", "scan", "custom_vjp", "custom_jvp",
                  "custom_of_two", "still", "grad", "jvp", "autocast", "callback")  # fmt: skip


class _History:
    """Two leaves and a third tensor between, with the numbers that each should have."""

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng([number, 11])
        self.number, self.count = number, 0
        shape = ((3,), (2, 2), (2,))[int(self.rng.integers(3))]
        self.arrays = [self.rng.uniform(0.2, 1.0, shape) for _ in range(2)]
        self.leaves: list[Any] = [calor.asarray(a, requires_grad=True) for a in self.arrays]
        self.sums: list[Array | None] = [None, None]
        # Losses that were computed: the tensor, and the gradients that it gives.
        self.waiting: list[tuple[Any, list[Array]]] = []
        self.names: list[str] = []

    def program(self) -> Any:
        """Draw a program of the leaves' shape that has a gradient."""
        while True:
            self.count += 1
            name = _AROUND[int(self.rng.integers(len(_AROUND)))]
            nest = drawn(name, self.number * 1000 + self.count, 1 + self.count % 2)
            if nest.block.backward and nest.arrays[0].shape == self.arrays[0].shape:
                return nest

    def loss(self) -> None:
        """Compute a loss, of leaves in any order, and of one twice."""
        nest, lib = self.program(), Plain()
        i, j = (int(v) for v in self.rng.integers(0, 2, 2))
        self.names.append(f"{nest.block.text} of {i}, {j}")
        weight = float(self.rng.integers(1, 4))

        def total(one: Any, other: Any) -> Any:
            return calor.sum(nest.calor(one, other) * weight) + calor.sum(one * other)

        def meaning(*given: Any) -> Any:
            made = nest.block.run(lib, given[i], given[j])
            return lib.sum(made * weight) + lib.sum(given[i] * given[j])

        call = calor.jit(total) if self.rng.random() < 0.4 else total
        made = call(self.leaves[i], self.leaves[j])
        self.waiting.append((made, list(lib.grad(meaning, (0, 1))(*self.arrays))))

    def backward(self) -> None:
        """Ask for the gradient of a loss of before, perhaps from a number, perhaps twice."""
        if not self.waiting:
            self.loss()
        loss, found = self.waiting[int(self.rng.integers(len(self.waiting)))]
        by = float(self.rng.integers(1, 4))
        kind = int(self.rng.integers(4))
        if kind == 3:
            # A number, or an array of the host.
            loss.backward(by if self.rng.random() < 0.5 else np.asarray(by))
        elif kind == 0:
            loss.backward()
            by = 1.0
        elif kind == 1:
            loss.backward(calor.asarray(by, dtype=float64))
        else:
            (loss * by).backward()
        self.names.append(f"backward {kind}")
        self.add([g * by for g in found])

    def add(self, found: list[Array]) -> None:
        for k, g in enumerate(found):
            before = self.sums[k]
            # What a loss does not read stays None.
            if before is not None or np.any(g):
                self.sums[k] = g if before is None else before + g

    def penalty(self) -> None:
        """Differentiate a function of a gradient that was taken with a graph."""
        for leaf in self.leaves:
            leaf.grad = None
        a, b = self.leaves
        calor.sum(calor.sin(a) * b).backward(create_graph=True)
        calor.sum(a.grad * a.grad * b).backward()
        x, w = self.arrays
        first, slope = np.cos(x) * w, np.cos(x)
        self.sums = [first - 2 * first * np.sin(x) * w * w,
                     np.sin(x) + first * first + 2 * first * slope * w]  # fmt: skip
        self.names.append("penalty")

    def give_up(self) -> None:
        k, kind = int(self.rng.integers(2)), int(self.rng.integers(3))
        leaf, held = self.leaves[k], self.sums[k]
        if kind == 0 or held is None:
            leaf.grad, self.sums[k] = None, None
        elif kind == 1:
            leaf.grad = leaf.grad.detach() * 0.5
            self.sums[k] = held * 0.5
        else:
            with calor.no_grad():
                leaf.grad[...] = 0.0
            self.sums[k] = held * 0.0
        self.names.append(f"give up {k}, {kind}")

    def quiet(self) -> None:
        """Compute without gradients, of which nothing is collected."""
        with calor.no_grad():
            made = self.leaves[0] * self.leaves[1]
        assert not made.requires_grad, f"after {self.names}: no_grad"
        held = self.leaves[0].detach() * 2
        assert not held.requires_grad, f"after {self.names}: detach"
        inner = calor.grad(lambda t: calor.sum(t * t * self.leaves[1]))(self.leaves[0])
        calor.sum(inner).backward()
        x, w = self.arrays
        self.add([2 * w, 2 * x])
        self.names.append("a gradient inside")

    def step(self) -> None:
        """Write to a leaf; losses of before keep the numbers that they were computed with."""
        k = int(self.rng.integers(2))
        with calor.no_grad():
            self.leaves[k] -= calor.asarray(self.arrays[k]) * 0.125
        self.arrays[k] = self.arrays[k] * 0.875
        self.names.append(f"step {k}")

    def compare(self) -> None:
        for k, (leaf, want) in enumerate(zip(self.leaves, self.sums, strict=True)):
            what = f"leaf {k} after {self.names}"
            made = None if leaf.grad is None else leaf.grad.detach().numpy()
            if want is None:
                assert made is None or not np.any(made), f"{what}: {made}, not None"
                continue
            assert made is not None, f"{what}: None, not {want.tolist()}"
            assert made.shape == want.shape, f"{what}: shape {made.shape}"
            near = np.abs(made - want) <= _NEAR * (1 + np.abs(want).max())
            assert near.all(), f"{what}: {made.tolist()}, not {want.tolist()}"


_NAMES: Final = ("loss", "backward", "backward", "backward", "give_up", "quiet", "step", "penalty")


def _run(place: Place) -> None:
    for number in range(_HISTORIES):
        history = _History(place.number(number))
        for _ in range(_ACTIONS):
            getattr(history, str(history.rng.choice(_NAMES)))()
            history.compare()


def collected_gradients() -> Iterator[Check]:
    """Yield the check of histories of gradients that leaves collect."""
    yield Check(
        kind="transforms",
        subject="gradients-collected-over-losses",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=lambda: inspect.getsource(_History),
        dtype=float64,
        dtypes=(float64, int8, uint8, int16, int32, int64),
        features=("control_flow",),
        looks=True,
    )
