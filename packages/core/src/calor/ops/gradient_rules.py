"""The row by which a traced function keeps a gradient that its user wrote.

Requirements: a graph that is differentiated after it was traced (a jitted call, a body of control
flow) must have the gradients that the function has op by op. The row is a kept composite without a
reference, so on every device nothing is left of it but its definition. ``stop_gradient``, the other
row of that kind, belongs to recording. The forward rule belongs to :mod:`calor.transforms.custom`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calor.graph.graph import Graph
from calor.ops.backpropagation import pull_back
from calor.ops.base import Op, op
from calor.ops.sources import zeros_of
from calor.recording.replay import replay
from calor.specs import Spec, spec


@dataclass(frozen=True)
class GradientRule:
    """A user's gradient as an attribute: equal for the same function and structures.

    ``values`` is how many outputs are the function's value; the rest are residuals, which
    ``pull(residuals, cotangents)`` takes with a cotangent for each value. It returns a gradient or
    None for each of the first ``arguments`` operands. ``push(operands, tangents)`` takes those and
    a tangent or None for each, and returns one for each value; None where there is no forward rule.
    """

    name: str
    values: int
    arguments: int
    pull: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    push: Callable[[Sequence[Any], Sequence[Any]], list[Any]] | None = None


def _rule(*operands: Spec, body: Graph, rule: GradientRule) -> tuple[Spec, ...]:
    return tuple(spec(s.shape, s.dtype) for s in body.output_specs)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _defined(*operands: Any, body: Graph, rule: GradientRule) -> Any:
    made = tuple(replay(body, operands))
    return made if len(made) > 1 else made[0]


def _gradient(g: Any, y: Any, *x: Any, body: Graph, rule: GradientRule) -> list[Any]:
    gs, ys = _as_list(g), _as_list(y)
    result: list[Any] = [None] * len(x)
    if any(c is not None for c in gs[: rule.values]):
        specs = body.output_specs
        given = [
            zeros_of(spec(s.shape, s.dtype), x[0].device) if c is None else c
            for c, s in zip(gs[: rule.values], specs, strict=False)
        ]
        result[: rule.arguments] = rule.pull(ys[rule.values :], given)
    # What reaches a residual, in a gradient of the gradient, goes the plain way.
    reached = {i: c for i, c in enumerate(gs) if i >= rule.values and c is not None}
    if reached:
        wanted = [i for i in range(rule.arguments) if x[i].dtype.is_inexact]
        for i, part in zip(wanted, pull_back(body, x, wanted, reached), strict=True):
            if part is not None:
                result[i] = part if result[i] is None else result[i] + part
    return result


custom_gradient: Op = op(
    "custom_gradient",
    _rule,
    vjp=_gradient,
    saves="*y",
    decompose=_defined,
    partial=True,
    gradient_only=True,
)
