"""Expressions: chains of elementwise ops as data, evaluated while a kernel is built.

Requirements: an expression is a key of kernels, also on disk, so that equal chains are one kernel.
A value that is used twice is computed once. A chain gives the bits of its single ops, so that
fusion changes no number: nothing is contracted, and a half type is rounded after each op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calor.dtypes import DType
from calor_kernel.library.elementwise.operations import ROWS, Step, apply
from calor_kernel.library.elementwise.values import Value


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
