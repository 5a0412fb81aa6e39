"""Operands of register tiles: keys and values packed to panels, or read in place.

Requirements: scores need transposed keys, so keys are always packed, once for all queries. Sums
need rows with vectors along them; values are packed only for another type or order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from calor.dtypes import DType
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.work import Argument, Input, Launch, Request, Scratch
from calor_kernel.ir.types import Buffer
from calor_kernel.library.attention.problem import Attention, Operand
from calor_kernel.library.matmul.lowering import pack_operand
from calor_kernel.library.matmul.problem import Operand as Packable

Keywords = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RightOperand:
    """An operand for ``Columns``: strides of batch, head, panel and row."""

    argument: Argument
    numbers: tuple[int, int, int, int]
    packed: bool
    ragged: bool


class Packed:
    """The packed operands of a work, with their launches and scratch memory."""

    def __init__(self, problem: Attention) -> None:
        self.problem = problem
        self.launches: list[Launch] = []
        self.scratch: list[int] = []

    def memory(self, count: int, dtype: DType) -> Scratch:
        """Return memory for some elements."""
        self.scratch.append(greatest(count, 1) * dtype.itemsize)
        return Scratch(len(self.scratch) - 1)

    def transposed(self, operand: Operand, width: int, panel: int, lanes: int) -> Scratch:
        """Return keys or values of all heads as panels of ``panel`` keys."""
        p = self.problem
        count = -(-p.keys // panel) * panel * width
        target = self.memory(p.batch * p.key_heads * count, p.accumulate)
        if count:
            self._pack(operand, (p.keys, width), True, panel, lanes, target)
        return target

    def rows(self, operand: Operand, width: int, span: int, lanes: int) -> RightOperand:
        """Return keys or values as rows with vectors along them, in panels of ``span`` elements."""
        p = self.problem
        if operand.dtype is p.accumulate and (operand.strides[3] == 1 or width == 1):
            batch, head, row, _ = operand.strides
            return RightOperand(
                operand.argument, (batch, head, span, row), False, width % span != 0
            )
        whole = -(-width // span) * span * p.keys
        target = self.memory(p.batch * p.key_heads * whole, p.accumulate)
        if whole:
            self._pack(operand, (width, p.keys), False, span, lanes, target)
        return RightOperand(target, (whole * p.key_heads, whole, p.keys * span, span), True, False)

    def _pack(
        self,
        operand: Operand,
        sizes: tuple[int, int],
        transposed: bool,
        panel: int,
        lanes: int,
        target: Scratch,
    ) -> None:
        p = self.problem
        batch, head, row, column = operand.strides
        free, depth = (row, column) if transposed else (column, row)
        seen = Packable((batch, head), free, depth, 0, operand.dtype)
        heads = (p.batch, p.key_heads)
        source = operand.argument
        self.launches.append(
            pack_operand(*sizes, heads, seen, panel, lanes, 1, p.accumulate, source, target)
        )


def keywords(blueprint: Any, **more: Any) -> Keywords:
    """Return a blueprint's fields and more as build-time arguments."""
    said = {f.name: getattr(blueprint, f.name) for f in fields(blueprint)}
    return tuple(sorted({**said, **more}.items()))


def tile_keywords(problem: Attention) -> dict[str, Any]:
    """Return the problem's build-time arguments for register tiles."""
    p = problem
    return {
        "kinds": p.kinds,
        "steps": tuple(x.strides[3] if x.strides[3] in (0, 1) else -1 for x in p.extras),
        "contiguous": p.query.strides[3] == 1 or p.features == 1,
        "causal": p.causal,
    }


@dataclass(frozen=True, slots=True)
class Upstream:
    """The first operands of a gradient: the upstream gradient, delta, and the log-sum-exp."""

    arguments: tuple[Argument, ...]
    declared: tuple[Buffer, ...]


def upstream_of(request: Request, problem: Attention) -> Upstream:
    """Return the first three operands of a gradient, which are dense."""
    types = (problem.dtype, problem.accumulate, problem.accumulate)
    return Upstream(
        tuple(Input(i, request.inputs[i].offset) for i in range(3)),
        tuple(Buffer(t, writable=False) for t in types),
    )


def least_bytes(problem: Attention) -> int:
    """Return the bytes of query, key, value and result, each once."""
    p = problem
    queries = p.rows * (p.features + p.values)
    keys = p.batch * p.key_heads * p.keys * (p.features + p.values)
    nbytes: int = (queries + keys) * p.dtype.itemsize
    return nbytes
