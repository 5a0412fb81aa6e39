"""The same names as ``meanings``, from calor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import calor


class Calor:
    """Transforms of calor by the names that programs call."""

    exp, sin, cos, tanh = (staticmethod(f) for f in (calor.exp, calor.sin, calor.cos, calor.tanh))
    sqrt, where = staticmethod(calor.sqrt), staticmethod(calor.where)
    value_and_grad, grad = staticmethod(calor.value_and_grad), staticmethod(calor.grad)
    vjp, linearize, jvp = (staticmethod(f) for f in (calor.vjp, calor.linearize, calor.jvp))
    jacrev, jacfwd, hessian = (staticmethod(f) for f in (calor.jacrev, calor.jacfwd, calor.hessian))
    stop_gradient, checkpoint = staticmethod(calor.stop_gradient), staticmethod(calor.checkpoint)
    jit, cond = staticmethod(calor.jit), staticmethod(calor.cond)
    fori_loop, while_loop = staticmethod(calor.fori_loop), staticmethod(calor.while_loop)

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return calor.sum(x, axis=axis)

    def stack(self, given: Sequence[Any], axis: int = 0) -> Any:
        return calor.stack(list(given), axis=axis)

    def concat(self, given: Sequence[Any]) -> Any:
        return calor.concat(list(given))

    def cumulative_sum(self, x: Any) -> Any:
        return calor.cumulative_sum(x, axis=0)

    def flip(self, x: Any) -> Any:
        return calor.flip(x, axis=0)

    def sort(self, x: Any) -> Any:
        return calor.sort(x, axis=0)

    def largest(self, x: Any) -> Any:
        return calor.max(x)

    def taken(self, x: Any, places: Any) -> Any:
        return x[self.array(places)]

    def written(self, x: Any, key: Any, value: Any, update: str) -> Any:
        made = x * 1.0
        if update == "set":
            made[key] = value
        else:
            made[key] += value
        return made

    def array(self, x: Any) -> Any:
        return calor.asarray(x) if isinstance(x, np.ndarray) else x

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.shape)

    def own(self, function: Callable[..., Any], rule: Any, how: str) -> Any:
        """Return a function with slopes of its own, by a reverse or a forward rule or both."""

        def pushed(primals: Any, tangents: Any) -> Any:
            terms = [
                slope * t
                for slope, t in zip(rule(self, *primals), tangents, strict=True)
                if t is not None and slope is not None
            ]
            value = function(*primals)
            total = value * 0.0
            for term in terms:
                total = total + term
            return value, total

        if how == "forward":
            made: Any = calor.custom_jvp(lambda *args: function(*args))
            made.defjvp(pushed)
            return made

        def forward(*args: Any) -> Any:
            return function(*args), {"args": args, "name": how}

        def backward(kept: Any, g: Any) -> Any:
            args = kept["args"]
            slopes = rule(self, *args)
            return tuple(
                None if slope is None else _reduced(slope * g, x.shape)
                for slope, x in zip(slopes, args, strict=True)
            )

        made = calor.custom_vjp(lambda *args: function(*args))
        made.defvjp(forward, backward)
        if how == "both":
            made.defjvp(pushed)
        return made

    def own_of_two(self, first: Any, second: Any, rules: tuple[Any, Any]) -> Any:
        """Return one function with a dict of results, one of whole numbers, with slopes."""

        def value(x: Any, w: Any) -> Any:
            places = calor.argmax(x)
            return {"one": first(x, w), "place": places, "other": (second(x, w), None)}

        def backward(kept: Any, g: Any) -> Any:
            x, w = kept
            pairs = [rule(self, x, w) for rule in rules]
            gs = g["one"], g["other"][0]
            return tuple(
                sum((p[k] * c for p, c in zip(pairs, gs, strict=True)), x * 0.0) for k in (0, 1)
            )

        made = calor.custom_vjp(value)
        made.defvjp(lambda x, w: (value(x, w), (x, w)), backward)

        def call(x: Any, w: Any) -> Any:
            found = made(x, w)
            return found["one"], found["other"][0], found["place"]

        return call

    def quiet(self, function: Callable[..., Any], *args: Any) -> Any:
        with calor.no_grad():
            return function(*args)

    def loud(self, function: Callable[..., Any], *args: Any) -> Any:
        with calor.enable_grad():
            return function(*args)

    def autocast(self, function: Callable[..., Any]) -> Any:
        return calor.autocast("bfloat16")(function)

    def bound(self, function: Callable[..., Any], *first: Any) -> Any:
        return calor.jit(function).bind(*first)

    def called(self, function: Callable[..., Any], x: Any) -> Any:
        given = calor.stop_gradient(x)
        return calor.callback(function, given, given)

    def vmap(
        self, function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, size: int = 0
    ) -> Any:
        return calor.vmap(function, in_axes, out_axes, axis_size=size or None)

    def scan(self, body: Any, init: Any, xs: Any, length: int, reverse: bool = False) -> Any:
        return calor.scan(body, init, xs, length=length, reverse=reverse)


def _reduced(x: Any, shape: tuple[int, ...]) -> Any:
    """Return the sum over axes that were repeated to a shape."""
    while x.ndim > len(shape):
        x = calor.sum(x, axis=0)
    return x
