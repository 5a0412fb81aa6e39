"""Stateful objects for the tests of the transforms."""

from __future__ import annotations

from typing import Any, ClassVar

import calor
from calor.transforms.state import Stateful


def parameter(*values: float) -> Any:
    return calor.asarray(values, dtype=calor.float64, requires_grad=True)


class Linear(Stateful):
    """y = x @ w + b, with a count of its calls in a tensor that is not trained."""

    def __init__(self, w: list[list[float]], b: list[float]) -> None:
        self.w: Any = calor.asarray(w, dtype=calor.float64, requires_grad=True)
        self.b = parameter(*b)
        self.calls: Any = calor.asarray(0)
        self.name = "linear"

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x @ self.w + self.b


class Pair(Stateful):
    """Two layers in a list; the second may share the weight of the first."""

    def __init__(self, tied: bool = False) -> None:
        self.layers = [Linear([[1.0, 2.0], [3.0, 4.0]], [0.5, -0.5]) for _ in range(2)]
        if tied:
            self.layers[1].w = self.layers[0].w

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Momentum(Stateful):
    """Gradient descent with momentum; the rate may change between calls."""

    dynamic: ClassVar[tuple[str, ...]] = ("rate",)

    def __init__(self, parameters: list[Any], rate: float = 0.1) -> None:
        self.rate = rate
        self.parameters = parameters
        self.velocity = [calor.zeros_like(p) for p in parameters]

    def step(self) -> None:
        with calor.no_grad():
            for p, v in zip(self.parameters, self.velocity, strict=True):
                v *= 0.9
                v += p.grad
                p -= self.rate * v
                p.grad = None


class Average(Stateful):
    """An exponential moving average of parameters, which begins as their copy."""

    def __init__(self, parameters: list[Any], decay: float = 0.5) -> None:
        self.decay = decay
        self.source = parameters
        self.values = [p.detach() for p in parameters]

    def update(self) -> None:
        with calor.no_grad():
            for v, p in zip(self.values, self.source, strict=True):
                v += (p.detach() - v) * (1 - self.decay)
