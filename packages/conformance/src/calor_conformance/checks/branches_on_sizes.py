"""Jitted functions whose own code compares sizes: each call takes the branch of its sizes.

A program may be kept for a range of sizes. What the function's Python asked of sizes bounds that
range: two sizes of operands, or a size and a number, less, equal or greater, or how they divide.
Conditions are drawn, and the functions called at sizes on each side of each, and at them again.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Check, Place

CONTRACT: Final = "a jitted function takes the branches of the sizes that it is called with"
_FUNCTIONS, _CALLS = 8, 14
Rng = np.random.Generator
_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">=": operator.ge, ">": operator.gt,
}  # fmt: skip
# What is compared, of the sizes of two operands: (n, m) and (k,).
_LEFT: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "n": lambda n, m, k: n, "m": lambda n, m, k: m, "k": lambda n, m, k: k,
    "n * m": lambda n, m, k: n * m, "n + k": lambda n, m, k: n + k, "n - m": lambda n, m, k: n - m,
    "k // 2": lambda n, m, k: k // 2, "n % 3": lambda n, m, k: n % 3,
    "max(n, k)": lambda n, m, k: max(n, k), "min(n, m)": lambda n, m, k: min(n, m),
    "2 * n": lambda n, m, k: 2 * n,
}  # fmt: skip


class _Function:
    """A function of two tensors, and its conditions."""

    def __init__(self, rng: Rng) -> None:
        self.conditions: list[tuple[str, str, str]] = []
        self.number = int(rng.integers(3, 8))
        for _ in range(int(rng.integers(1, 4))):
            left, right = (str(t) for t in rng.choice(list(_LEFT), 2, replace=False))
            right = str(self.number) if rng.random() < 0.5 else right
            self.conditions.append((left, str(rng.choice(list(_RELATIONS))), right))
        self.nested = bool(rng.random() < 0.5)

    def __call__(self, x: Any, y: Any) -> Any:
        sizes = (*x.shape, *y.shape)
        made, total = calor.sum(x), calor.sum(y)
        for k, (left, relation, right) in enumerate(self.conditions):
            other = _LEFT[right](*sizes) if right in _LEFT else self.number
            if _RELATIONS[relation](_LEFT[left](*sizes), other):
                made = made * 2 + total
            elif self.nested:
                return made - (k + 1) * 0.5
            else:
                made = made + 3 + k
        return made

    def told(self) -> str:
        joined = ", ".join(" ".join(c) for c in self.conditions)
        return f"if {joined}{', nested' if self.nested else ''}"

    def sizes(self, rng: Rng) -> Iterator[tuple[int, int, int]]:
        """Yield sizes that differ by drawn steps from equal ones, in a drawn order."""
        base = self.number
        steps = [-1, 0, 1, 0, 2, 0]
        for turn in range(_CALLS):
            if turn % 7 == 6:
                yield tuple(int(n) for n in rng.integers(1, 13, 3))  # type: ignore[misc]
                continue
            made = [base, base, base]
            # One or two of the sizes go to either side of the others, and of the number.
            for place in rng.permutation(3)[: int(rng.integers(1, 3))]:
                made[int(place)] += int(rng.choice(steps))
            yield made[0], made[1], made[2]


def _numbers(rng: Rng, *shape: int) -> Any:
    return calor.asarray(rng.integers(-3, 4, shape).astype(np.float32))


def _run(place: Place) -> None:
    for number in range(_FUNCTIONS):
        rng = np.random.default_rng([place.seed, 403, number])
        function = _Function(rng)
        jitted, slope = calor.jit(function), calor.jit(calor.grad(function))
        before: list[tuple[int, int, int]] = []
        for n, m, k in function.sizes(rng):
            before.append((n, m, k))
            x, y = _numbers(rng, n, m), _numbers(rng, k)
            pairs = [("", jitted(x, y), function(x, y))]
            if number % 4 == 0:
                pairs.append((", gradient", slope(x, y), calor.grad(function)(x, y)))
            for what, got, want in pairs:
                a, b = got.numpy(), want.numpy()
                told = f"{function.told()} at {before}{what}"
                assert a.shape == b.shape, f"{told}: shape {a.shape}, not {b.shape}"
                assert np.array_equal(a, b), f"{told}: {a.tolist()}, not {b.tolist()}"


def branches_on_sizes() -> Iterator[Check]:
    """Yield the check of functions that compare sizes."""
    yield Check(
        kind="sizes",
        subject="branches-of-user-code",
        tier="compiled",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _Function),
        op="sum",
        dtypes=(float32,),
        looks=True,
    )
