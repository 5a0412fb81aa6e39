"""Rules of one's own in every form: arguments, values, residuals and gradients of any structure.

A function with a rule takes tensors, and containers of tensors, integers and numbers, and returns a
tensor or a container. Its residuals are any tree, or None. Its backward function returns a tuple
with a gradient for each argument, None where it has none, or the gradient alone if there is one
argument. Each rule is another multiple than the derivative, so it shows which rule was asked, and
of which tensor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, int32

from .base import Array, Check, Place

CONTRACT: Final = "a rule of one's own gets and gives trees of any form"
_TURNS, _NEAR, _SIZE = 24, 1e-4, 3
Rng = np.random.Generator
_CONTAINERS: Final[tuple[Callable[[list[Any]], Any], ...]] = (
    tuple,
    list,
    lambda parts: {f"{chr(100 - n)}{n}": part for n, part in enumerate(parts)},
)


def _filled(form: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a form with other leaves."""
    if isinstance(form, dict):
        return {key: _filled(part, leaf) for key, part in form.items()}
    if isinstance(form, list | tuple):
        return type(form)(_filled(part, leaf) for part in form)
    return leaf(form)


def _found(form: Any, tree: Any, into: dict[int, Any]) -> None:
    """Note what a tree has at the places of a form's tensors."""
    if isinstance(form, dict):
        assert isinstance(tree, dict), f"{tree!r} where a dictionary is handed on"
        assert [*form] == [*tree], f"the keys {[*tree]}, not {[*form]}"
        for key, part in form.items():
            _found(part, tree[key], into)
    elif isinstance(form, list | tuple):
        assert type(tree) is type(form), f"a {type(tree).__name__} for a {type(form).__name__}"
        assert len(tree) == len(form), f"{len(tree)} parts, not {len(form)}"
        for part, one in zip(form, tree, strict=True):
            _found(part, one, into)
    elif isinstance(form, int):
        into[form] = tree


class _Drawn:
    """A function of trees that adds its tensors, each by a factor, in two ways.

    A leaf of a form is the number of a tensor, "n" for a Python number, or "i" for integers.
    """

    def __init__(self, rng: Rng) -> None:
        self.count = 0
        alone, some = bool(rng.integers(2)), int(rng.integers(1, 4))
        self.arguments = tuple(self._form(rng, 2 if not alone else 0) for _ in range(some))
        self.factors = rng.permutation(9)[: self.count] + 1.0
        self.rules = rng.permutation(9)[: self.count] + 10.0
        # Not all arguments may be without a gradient.
        self.without = {k for k in range(1, some) if rng.random() < 0.4}
        values: tuple[Any, ...] = (
            0,
            (0, 1),
            {"b": 0, "a": [1, "n"]},
            [{"x": (1,)}, "n", 0],
            ("n", [], 1),
        )
        self.value: Any = values[int(rng.integers(len(values)))]
        self.residuals = str(rng.choice(("none", "tensor", "arguments", "tree")))
        # The gradient of a tuple is a tuple itself, so it stands in one.
        self.bare = some == 1 and not isinstance(self.arguments[0], tuple) and rng.random() < 0.7

    def __repr__(self) -> str:
        gradients = "one gradient" if self.bare else f"gradients but {self.without}"
        return f"{self.arguments} to {self.value}, residuals {self.residuals}, {gradients}"

    def _form(self, rng: Rng, depth: int) -> Any:
        if depth == 0 or rng.random() < 0.3:
            self.count += 1
            return self.count - 1
        parts = [self._form(rng, depth - 1) for _ in range(int(rng.integers(1, 3)))]
        if rng.random() < 0.5:
            parts.insert(int(rng.integers(len(parts) + 1)), str(rng.choice(("n", "i"))))
        return _CONTAINERS[int(rng.integers(len(_CONTAINERS)))](parts)

    def given(self, tensors: Any) -> tuple[Any, ...]:
        """Return the arguments that have some tensors."""
        others = {"n": 2, "i": calor.asarray(np.arange(2, dtype=np.int32))}
        return tuple(
            _filled(f, lambda leaf: others[leaf] if isinstance(leaf, str) else tensors[leaf])
            for f in self.arguments
        )

    def total(self, factors: Array, args: Any) -> Any:
        """Return the value that has the tensors by some factors; the second way by one more."""
        tensors: dict[int, Any] = {}
        _found(self.arguments, args, tensors)
        kept = [k for k in range(self.count) if tensors[k] is not None]
        one, other = (sum(tensors[k] * float(factors[k] + m) for k in kept) for m in (0, 1))
        return _filled(self.value, lambda leaf: 5 if isinstance(leaf, str) else (one, other)[leaf])

    def weighted(self, value: Any, weights: Any) -> Any:
        """Return the sum of a value's tensors by weights."""
        tensors: dict[int, Any] = {}
        _found(self.value, value, tensors)
        return calor.sum(sum(x * weights[k] for k, x in tensors.items()))

    def own(self, reverse: bool) -> Any:
        """Return the function with its rule."""

        def function(*args: Any) -> Any:
            return self.total(self.factors, args)

        def pushed(primals: Any, tangents: Any) -> Any:
            return function(*primals), self.total(self.rules, tangents)

        if not reverse:
            made: Any = calor.custom_jvp(function)
            made.defjvp(pushed)
            return made
        made = calor.custom_vjp(function)
        made.defvjp(lambda *args: (function(*args), self._kept(args)), self._pulled)
        return made

    def _kept(self, args: Any) -> Any:
        first: dict[int, Any] = {}
        _found(self.arguments, args, first)
        return {
            "none": None, "tensor": first[0], "arguments": args,
            "tree": {"name": "kept", "of": [first[0], (3, None)]},
        }[self.residuals]  # fmt: skip

    def _pulled(self, kept: Any, cotangent: Any) -> Any:
        if self.residuals == "tree":
            assert kept["name"] == "kept" and kept["of"][1] == (3, None), f"residuals {kept}"  # noqa: PT018
        arrived: dict[int, Any] = {}
        _found(self.value, cotangent, arrived)
        gradients = [
            sum(c * float(self.rules[k] + way) for way, c in arrived.items())
            for k in range(self.count)
        ]
        found = tuple(
            None if number in self.without else made
            for number, made in enumerate(self.given(gradients))
        )
        return found[0] if self.bare else found

    def slopes(self, weights: Any, reverse: bool) -> list[Array]:
        """Return the gradient that the rule gives for each tensor."""
        ways: dict[int, Any] = {}
        _found(self.value, self.value, ways)
        none: dict[int, Any] = {}
        for number in self.without if reverse else ():
            _found(self.arguments[number], self.arguments[number], none)
        return [
            sum(weights[w] * (0.0 if k in none else self.rules[k] + w) for w in ways)
            for k in range(self.count)
        ]


def _compare(got: Any, want: Any, told: str) -> None:
    made = got.numpy()
    off = np.abs(made - want).max()
    assert off <= _NEAR * (1 + np.abs(want).max()), f"{told}: {made.tolist()}, not {want.tolist()}"


def _gradients(rng: Rng, reverse: bool) -> None:
    drawn = _Drawn(rng)
    xs = [rng.normal(size=_SIZE).astype(np.float32) for _ in range(drawn.count)]
    weights = [rng.normal(size=_SIZE).astype(np.float32) for _ in range(2)]
    own, given = drawn.own(reverse), [calor.asarray(x) for x in xs]

    def loss(*tensors: Any) -> Any:
        return drawn.weighted(own(*drawn.given(tensors)), [calor.asarray(w) for w in weights])

    slopes, numbers = drawn.slopes(weights, reverse), tuple(range(drawn.count))
    ways: dict[str, Callable[[], Any]] = {
        "grad": lambda: calor.grad(loss, numbers)(*given),
        "jitted grad": lambda: calor.jit(calor.grad(loss, numbers))(*given),
        "vjp": lambda: calor.vjp(loss, *given)[1](calor.ones(())),
        "grad of a checkpoint": lambda: calor.grad(calor.checkpoint(loss), numbers)(*given),
    }
    for how, found in ways.items():
        for number, (got, want) in enumerate(zip(found(), slopes, strict=True)):
            _compare(got, np.asarray(want), f"{how} of {drawn}, by tensor {number}")
    if not reverse:
        along = [rng.normal(size=_SIZE).astype(np.float32) for _ in xs]
        _, moved = calor.jvp(loss, tuple(given), tuple(map(calor.asarray, along)))
        pushed = sum(float(s @ t) for s, t in zip(slopes, along, strict=True))
        _compare(moved, np.asarray(pushed), f"jvp of {drawn}")


def _run(reverse: bool, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, 12):
            _gradients(np.random.default_rng([place.seed, 607, int(reverse), turn]), reverse)


def forms_of_rules() -> Iterator[Check]:
    """Yield a check of reverse rules and one of forward rules."""
    for name, reverse in (("reverse", True), ("forward", False)):
        yield Check(
            kind="transforms",
            subject=f"{name}-rules-of-trees",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, reverse),
            text=partial(inspect.getsource, _Drawn),
            op="mul",
            dtypes=(float32, int32),
            looks=True,
        )
