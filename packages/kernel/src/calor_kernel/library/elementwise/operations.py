"""What every elementwise op does to values: one row per op.

Requirements: a row means what the op's reference means, for every dtype that the op takes; half
types are widened before a row sees them and rounded after, once; a row sees the operands' dtypes
where its meaning depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calor.dtypes import DType
from calor_kernel.library.elementwise.step import Step
from calor_kernel.library.elementwise.values import Value, settled, wide
from calor_kernel.library.math.base import exactly
from calor_kernel.library.math.bounds import Bound


@dataclass(frozen=True, slots=True)
class Context:
    """What a row may know: the operands' dtypes, the result's, and the op's attributes."""

    inputs: tuple[DType, ...]
    output: DType
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """How an op is computed.

    ``raw``: half types come as they are, and so does the result. ``context``: whether the function
    takes a Context first. ``weight``: instructions that it is about, by which a kernel is chosen.
    ``bound``: how far results may be from the op's reference, for functions that only stand here.
    """

    function: Callable[..., Value]
    raw: bool
    context: bool
    weight: int
    bound: Bound | None = None


ROWS: dict[str, Row] = {}


def row(
    *names: str,
    raw: bool = False,
    context: bool = False,
    weight: int = 1,
    bound: Bound | None = None,
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register what computes ops; arguments as Row has them."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        for name in names:
            ROWS[name] = Row(function, raw, context, weight, bound)
        return function

    return register


@exactly
def apply(step: Step, values: Sequence[Value], inputs: Sequence[DType]) -> Value:
    """Return the result of a step, in its dtype; nothing in it or around it is contracted."""
    found = ROWS[step.op]
    given = list(values) if found.raw else [wide(v) for v in values]
    if found.context:
        context = Context(tuple(inputs), step.dtype, dict(step.attributes))
        result = found.function(context, *given)
    else:
        result = found.function(*given)
    return settled(result, step.dtype)
