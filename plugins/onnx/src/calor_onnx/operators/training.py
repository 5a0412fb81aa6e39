"""Steps of optimizers, and gradients of parts of a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.computing import like
from calor_onnx.errors import ModelError
from calor_onnx.graph import Graph, Node, ValueInfo
from calor_onnx.registry import operator

DOMAIN = "ai.onnx.preview.training"


def each(xs: tuple[Any, ...], kinds: int, step: Callable[..., tuple[Any, ...]]) -> Any:
    """Return ``step`` of each tensor's operands, with results grouped by kind."""
    count, left = divmod(len(xs), kinds)
    if left:
        raise ModelError(f"an optimizer's {len(xs)} operands are not {kinds} for each tensor")
    made = [step(*xs[i::count]) for i in range(count)]
    return tuple(result for results in zip(*made, strict=True) for result in results)


@operator("Adagrad", domain=DOMAIN)
def adagrad(
    call: Call, rate: Any, count: Any, *xs: Any, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    """A step by the gradient, divided by the root of the squares so far (Duchi et al., 2011)."""
    slowed = rate / (1 + like(count, rate) * decay_factor)

    def step(x: Any, gradient: Any, squares: Any) -> tuple[Any, ...]:
        whole = x * norm_coefficient + gradient
        new = squares + whole * whole
        return x - slowed * whole / (calor.sqrt(new) + epsilon), new

    return each(xs, 3, step)


@operator("Adam", domain=DOMAIN)
def adam(
    call: Call, rate: Any, count: Any, *xs: Any, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    """A step by averages of the gradient and of its square (Kingma and Ba, 2014)."""
    done = like(count, rate)
    first = calor.equal(done, 0)
    share = calor.where(first, 1, 1 - calor.pow(alpha, calor.where(first, 1, done)))
    spread = calor.where(first, 1, 1 - calor.pow(beta, calor.where(first, 1, done)))
    adjusted = rate * calor.sqrt(spread) / share

    def step(x: Any, gradient: Any, mean: Any, squares: Any) -> tuple[Any, ...]:
        whole = x * norm_coefficient + gradient
        mean = mean * alpha + whole * (1 - alpha)
        squares = squares * beta + whole * whole * (1 - beta)
        moved = x - adjusted * mean / (calor.sqrt(squares) + epsilon)
        return moved * (1 - norm_coefficient_post), mean, squares

    return each(xs, 4, step)


@operator("Momentum", domain=DOMAIN)
def momentum(
    call: Call, rate: Any, count: Any, *xs: Any, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> Any:  # fmt: skip
    """A step by a running sum of gradients, looking ahead with mode "nesterov"."""
    if mode not in ("standard", "nesterov"):
        raise ModelError(f"Momentum: mode is {mode!r}; it must be standard or nesterov")
    share = calor.where(calor.greater(count, 0), beta, 1.0)

    def step(x: Any, gradient: Any, speed: Any) -> tuple[Any, ...]:
        whole = x * norm_coefficient + gradient
        speed = speed * alpha + like(share, whole) * whole
        along = speed if mode == "standard" else whole + speed * alpha
        return x - rate * along, speed

    return each(xs, 3, step)


@operator("Gradient", domain=DOMAIN, raw=True)
def gradient(
    call: Call, *inputs: Any, xs: list[str], y: str, zs: list[str] | None = None
) -> Any:  # fmt: skip
    """The derivatives of the value ``y`` by those of ``xs``, with ``zs`` constant."""
    names = [*xs, *(zs or [])]
    part = call.node.bodies.get("gradient")
    if part is None:
        part = call.node.bodies["gradient"] = between(call.scope.graph, names, y)
    held = [call.tensor(x) for x in inputs]

    def function(*at: Any) -> Any:
        (made,) = call.apply(part, [*at, *held[len(xs) :]])
        return call.tensor(made)

    made, back = calor.vjp(function, *held[: len(xs)])
    found = back(calor.ones_like(made))
    return tuple(found)


def between(graph: Graph, inputs: list[str], output: str) -> Graph:
    """Return the part of a graph that computes a value from others."""
    makers: dict[str, Node] = {name: n for n in graph.nodes for name in n.outputs if name}
    wanted, open_ = set(), [output]
    while open_:
        name = open_.pop()
        if name in inputs or name not in makers or name in wanted:
            continue
        wanted.add(name)
        open_ += [n for n in makers[name].inputs if n]
    nodes = [replace(n) for n in graph.nodes if wanted & {*n.outputs}]
    if output not in inputs and output not in makers:
        raise ModelError(f"Gradient: no node of the graph computes {output!r}")
    part = Graph(
        f"gradient of {output}",
        [ValueInfo(name, None, None) for name in inputs],
        [ValueInfo(output, None, None)],
        nodes,
    )
    part.link()
    return part
