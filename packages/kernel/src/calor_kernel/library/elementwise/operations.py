"""The computation of every elementwise op, one row per op, and expressions: chains of ops as data.

Requirements: a row means the same as the op's reference, for every dtype of the op. Half types are
widened before a row and rounded once after it. A row gets the operands' dtypes if its meaning
depends on them. An expression is a key of kernels, also on disk, so that equal chains are one
kernel. A chain gives the bits of its single ops, so that fusion changes no number: nothing is
contracted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from calor.dtypes import DType
from calor_kernel.library.elementwise.values import Value, settled, wide
from calor_kernel.library.math.base import Bound, exactly

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Step:
    """One op of an expression: its name, operands by index, attributes, and the result's dtype."""

    op: str
    operands: tuple[int, ...]
    dtype: DType
    attributes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The information for a row: the operands' dtypes, the result's, and the op's attributes."""

    inputs: tuple[DType, ...]
    output: DType
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """The computation of an op.

    ``raw``: half types are neither widened nor rounded. ``context``: whether the function takes a
    Context first. ``weight``: its approximate number of instructions, for the choice of kernels.
    ``bound``: the maximum error relative to the op's reference, for functions that only the kernels
    have.
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
) -> Callable[[F], F]:
    """Register the computation of ops; arguments as in Row."""

    def register(function: F) -> F:
        for name in names:
            ROWS[name] = Row(function, raw, context, weight, bound)
        return function

    return register


@exactly
def apply(step: Step, values: Sequence[Value], inputs: Sequence[DType]) -> Value:
    """Return the result of a step, in its dtype; no operation is contracted."""
    found = ROWS[step.op]
    given = list(values) if found.raw else [wide(v) for v in values]
    if found.context:
        context = Context(tuple(inputs), step.dtype, dict(step.attributes))
        result = found.function(context, *given)
    else:
        result = found.function(*given)
    return settled(result, step.dtype)


@dataclass(frozen=True, slots=True)
class Expression:
    """Elementwise ops on operands of the given dtypes.

    Values are numbered: the operands first, then the steps in order; a step reads values before it.
    ``results`` are the indices of the results.
    """

    operands: tuple[DType, ...]
    steps: tuple[Step, ...] = ()
    results: tuple[int, ...] = (0,)

    @staticmethod
    def of(
        op: str,
        operands: Sequence[DType],
        dtype: DType,
        attributes: Mapping[str, object] | None = None,
    ) -> Expression:
        """Return the expression of one op."""
        count = len(operands)
        items = tuple(sorted((attributes or {}).items()))
        step = Step(op, tuple(range(count)), dtype, items)
        return Expression(tuple(operands), (step,), (count,))

    def dtype(self, number: int) -> DType:
        """Return the dtype of a value."""
        count = len(self.operands)
        return self.operands[number] if number < count else self.steps[number - count].dtype

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The dtypes of all values."""
        return (*self.operands, *(step.dtype for step in self.steps))

    @property
    def outputs(self) -> tuple[DType, ...]:
        """The dtypes of the results."""
        return tuple(self.dtype(n) for n in self.results)

    @property
    def weight(self) -> int:
        """The approximate number of instructions of the expression, for real numbers."""
        return sum(ROWS[step.op].weight for step in self.steps)

    def evaluate(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return the results for values of the operands, while a kernel is built."""
        made = list(values)
        for step in self.steps:
            given = [self.dtype(n) for n in step.operands]
            made.append(apply(step, [made[n] for n in step.operands], given))
        return tuple(made[n] for n in self.results)
