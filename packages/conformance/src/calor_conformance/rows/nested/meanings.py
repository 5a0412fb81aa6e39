"""What transforms mean: loops, branches of Python, and derivatives direction by direction.

The library has the names that programs call; see ``calling`` for the same of calor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import duals
from .duals import Dual, level_of, numbers, operation, parts


def leaves(value: Any) -> list[Any]:
    """Return the leaves of lists, tuples and dicts, those in the order of their keys."""
    if isinstance(value, dict):
        return [x for part in value.values() for x in leaves(part)]
    if isinstance(value, list | tuple):
        return [x for part in value for x in leaves(part)]
    return [] if value is None else [value]


def filled(value: Any, given: Any) -> Any:
    """Return the structure of a value with other leaves, from an iterator."""
    if isinstance(value, dict):
        return {key: filled(part, given) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([filled(part, given) for part in value])
    return None if value is None else next(given)


def mapped(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """Return the structure with a function of its leaves."""
    rows = zip(leaves(value), *map(leaves, others), strict=True)
    return filled(value, iter([function(*row) for row in rows]))


def _moves(x: Any) -> bool:
    return not isinstance(x, int) and np.asarray(numbers(x)).dtype.kind == "f"


class Plain:
    """Transforms without any machinery; tensors are arrays or dual numbers."""

    def __init__(self) -> None:
        self._level = 0

    # Operations.

    exp, sin, cos, tanh = (staticmethod(f) for f in (duals.exp, duals.sin, duals.cos, duals.tanh))
    sqrt, where = staticmethod(duals.sqrt), staticmethod(duals.chosen)

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return duals.linear(lambda a: np.sum(a, axis), x)

    def stack(self, given: Sequence[Any], axis: int = 0) -> Any:
        return duals.linear(lambda *a: np.stack(a, axis), *given)

    def concat(self, given: Sequence[Any]) -> Any:
        return duals.linear(lambda *a: np.concatenate(a), *given)

    def cumulative_sum(self, x: Any) -> Any:
        return duals.linear(lambda a: np.cumsum(a, 0), x)

    def flip(self, x: Any) -> Any:
        return duals.linear(lambda a: np.flip(a, 0), x)

    def sort(self, x: Any) -> Any:
        order = np.argsort(numbers(x), axis=0)
        return duals.linear(lambda a: np.take_along_axis(a, order, 0), x)

    def largest(self, x: Any) -> Any:
        place = np.unravel_index(np.argmax(numbers(x)), np.shape(numbers(x)))
        return duals.linear(lambda a: a[place], x)

    def taken(self, x: Any, places: Any) -> Any:
        return duals.linear(lambda a: a[places], x)

    def written(self, x: Any, key: Any, value: Any, update: str) -> Any:
        def write(a: Any, b: Any) -> Any:
            made = np.array(a)
            if update == "set":
                made[key] = b
            else:
                made[key] += b
            return made

        return duals.linear(write, x, value)

    def array(self, x: Any) -> Any:
        """Return a captured array as a tensor."""
        return x

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(np.shape(numbers(x)))

    # Derivatives.

    def along(self, function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
        """Return the value and its derivative; tangents have the structure of the primals."""
        self._level += 1
        level = self._level
        try:
            with duals.moving(True):
                given = mapped(
                    lambda x, t: Dual(level, x, t) if _moves(x) else x, primals, tangents
                )
                made = function(*given)
        finally:
            self._level -= 1
        value = mapped(lambda y: parts(y, level)[0], made)

        def tangent(y: Any) -> Any:
            found = parts(y, level)[1]
            return np.zeros(self.shape(y)) if found is None else found

        return value, mapped(tangent, made)

    def _units(self, primals: Any) -> Any:
        """Yield each leaf with its number, and tangents that move one of its elements each."""
        flat = leaves(primals)
        zeros = [np.zeros(self.shape(x)) for x in flat]
        for n, x in enumerate(flat):
            if not _moves(x):
                yield n, x, []
                continue
            units = []
            for place in np.ndindex(*self.shape(x)):
                one = zeros[n].copy()
                one[place] = 1.0
                units.append(filled(primals, iter([*zeros[:n], one, *zeros[n + 1 :]])))
            yield n, x, units

    def vjp(self, function: Callable[..., Any], *primals: Any) -> tuple[Any, Any]:
        value = function(*primals)

        def pull(cotangents: Any) -> Any:
            given = _matching(cotangents, value)
            found = []
            for _, x, units in self._units(primals):
                each = []
                for unit in units:
                    moved = leaves(self.along(function, primals, unit)[1])
                    total: Any = np.zeros(())
                    for t, g in zip(moved, given, strict=True):
                        if g is not None:
                            total = duals.add(total, self.sum(duals.mul(t, g)))
                    each.append(total)
                found.append(self._shaped(each, self.shape(x)) if _moves(x) else None)
            return filled(primals, iter(found))

        return value, pull

    def _shaped(self, each: list[Any], shape: tuple[int, ...], lead: bool = True) -> Any:
        """Return elements as one tensor, which has the elements' axes first unless ``lead``."""
        inner = self.shape(each[0])
        made = (*shape, *inner) if lead else (*inner, *shape)

        def put(*a: Any) -> Any:
            rows = np.stack(a, 0 if lead else -1)
            return rows.reshape(made)

        return duals.linear(put, *each)

    def jvp(self, function: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
        return self.along(function, tuple(primals), tuple(tangents))

    def linearize(self, function: Callable[..., Any], *primals: Any) -> tuple[Any, Any]:
        value = function(*primals)
        return value, lambda *tangents: self.along(function, primals, tangents)[1]

    def value_and_grad(
        self, function: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
    ) -> Any:
        def call(*args: Any) -> Any:
            numbers_ = [argnums] if isinstance(argnums, int) else list(argnums)
            numbers_ = [n % len(args) for n in numbers_]

            def of(*chosen: Any) -> Any:
                given = list(args)
                for n, x in zip(numbers_, chosen, strict=True):
                    given[n] = x
                made = function(*given)
                return made[0] if has_aux else made

            value, pull = self.vjp(of, *(args[n] for n in numbers_))
            found = pull(np.ones(self.shape(value)))
            gradient = found[0] if isinstance(argnums, int) else tuple(found)
            return ((function(*args) if has_aux else value), gradient)

        return call

    def grad(self, function: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
        both = self.value_and_grad(function, argnums, has_aux)

        def call(*args: Any) -> Any:
            value, gradient = both(*args)
            return (gradient, value[1]) if has_aux else gradient

        return call

    def jacobian(self, function: Callable[[Any], Any]) -> Any:
        """Return what gives the Jacobian by the one argument, a tensor."""

        def call(x: Any) -> Any:
            ((_, _, units),) = self._units((x,))
            columns = [self.along(function, (x,), unit)[1] for unit in units]
            return self._shaped(columns, self.shape(x), lead=False)

        return call

    def jacrev(self, function: Callable[[Any], Any]) -> Any:
        return self.jacobian(function)

    jacfwd = jacrev

    def hessian(self, function: Callable[[Any], Any]) -> Any:
        return self.jacobian(self.jacobian(function))

    def own(self, function: Callable[..., Any], rule: Any, how: str) -> Any:
        """Return a function with slopes of its own: ``rule(*args)``, one for each argument."""

        def call(*args: Any) -> Any:
            def moved(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
                terms = [
                    duals.mul(slope, t)
                    for slope, t in zip(rule(self, *primals), tangents, strict=True)
                    if t is not None and slope is not None
                ]
                total: Any = np.zeros(())
                for term in terms:
                    total = duals.add(total, term)
                return total

            return operation(function, moved, *args)

        return call

    def own_of_two(self, first: Any, second: Any, rules: tuple[Any, Any]) -> Any:
        """Return a function of two results with slopes of their own, and of a place."""

        def call(x: Any, w: Any) -> Any:
            pair = [
                self.own(f, rule, "both")(x, w)
                for f, rule in zip((first, second), rules, strict=True)
            ]
            return (*pair, np.argmax(numbers(x)))

        return call

    def stop_gradient(self, x: Any) -> Any:
        return mapped(numbers, x)

    def quiet(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function without gradients."""
        with duals.moving(False):
            return function(*args)

    def loud(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function with gradients again, in one without."""
        with duals.moving(True):
            return function(*args)

    # What changes no number.

    def jit(self, function: Callable[..., Any], **options: Any) -> Any:
        return function

    def checkpoint(self, function: Callable[..., Any]) -> Any:
        return function

    def autocast(self, function: Callable[..., Any]) -> Any:
        return function

    def bound(self, function: Callable[..., Any], *first: Any) -> Any:
        return lambda *rest: function(*first, *rest)

    def called(self, function: Callable[..., Any], x: Any) -> Any:
        """Call a function of the host on the numbers of a tensor."""
        return np.asarray(function(numbers(x)))

    # Many elements, steps and branches.

    def vmap(
        self, function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, size: int = 0
    ) -> Any:
        def call(*args: Any) -> Any:
            axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
            given = [(x, a) for arg, axis in zip(args, axes, strict=True)
                     for x, a in zip(leaves(arg), spread(axis, arg), strict=True)]  # fmt: skip
            count = size or next(self.shape(x)[a] for x, a in given if a is not None)
            rows = []
            for i in range(count):
                one = iter([x if a is None else _at(x, i, a) for x, a in given])
                rows.append(function(*(filled(arg, one) for arg in args)))
            to = spread(out_axes, rows[0])
            made = []
            for k, axis in enumerate(to):
                every = [leaves(row)[k] for row in rows]
                made.append(every[0] if axis is None else self.stack(every, axis))
            return filled(rows[0], iter(made))

        return call

    def cond(self, predicate: Any, then: Any, otherwise: Any, *operands: Any) -> Any:
        return (then if bool(numbers(predicate)) else otherwise)(*operands)

    def scan(self, body: Any, init: Any, xs: Any, length: int, reverse: bool = False) -> Any:
        carry, every = init, [None] * length
        for i in reversed(range(length)) if reverse else range(length):
            carry, every[i] = body(carry, mapped(lambda x, i=i: x[i], xs))
        stacked = [self.stack(list(parts)) for parts in zip(*map(leaves, every), strict=True)]
        return carry, filled(every[0], iter(stacked))

    def fori_loop(self, lower: int, upper: int, body: Any, init: Any) -> Any:
        for i in range(lower, upper):
            init = body(i, init)
        return init

    def while_loop(self, condition: Any, body: Any, init: Any) -> Any:
        while bool(numbers(condition(init))):
            init = body(init)
        return init


def _matching(given: Any, value: Any) -> list[Any]:
    """Return the leaves for those of a value; None in place of a part stands for all of it."""
    if given is None:
        return [None] * len(leaves(value))
    if not isinstance(value, dict | list | tuple):
        return [given]
    keys = value if isinstance(value, dict) else range(len(value))
    return [x for key in keys if value[key] is not None for x in _matching(given[key], value[key])]


def _at(x: Any, i: int, axis: int) -> Any:
    axis %= np.ndim(numbers(x))
    return x[(slice(None),) * axis + (i,)]


def spread(axes: Any, value: Any) -> list[Any]:
    """Return one axis for each leaf of a value; axes may end above its leaves."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(leaves(value))
    pairs = (
        ((axes[key], value[key]) for key in value)
        if isinstance(value, dict)
        else zip(axes, value, strict=True)
    )
    return [one for axis, part in pairs for one in spread(axis, part)]


__all__ = ["Plain", "filled", "leaves", "level_of", "mapped", "numbers", "spread"]
