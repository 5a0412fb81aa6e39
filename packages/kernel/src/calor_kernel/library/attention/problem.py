"""The problem of attention: sizes, views of the operands, masks and biases.

Requirements: one form for the forward pass and both gradients. Operands have any strides. Masks and
biases broadcast along axes by a stride of 0, and there may be any number of them. Scores are
computed in float32 at least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from calor.dtypes import DType, bool_, float32, int64
from calor_kernel.contract.work import Argument, Input, Request, View
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language import select

Kind = Literal["mask", "bias"]
Strides = tuple[int, ...]

SIZE = Scalar(int64, nonnegative=True)
STRIDE = Scalar(int64)


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of four axes: its index among the op's operands, strides and type."""

    number: int
    strides: Strides
    offset: int
    dtype: DType

    @property
    def argument(self) -> Input:
        """The buffer, from the operand's first element on."""
        return Input(self.number, self.offset)

    @property
    def declared(self) -> Buffer:
        """The operand's parameter."""
        return Buffer(self.dtype, writable=False)


@dataclass(frozen=True, slots=True)
class Attention:
    """Queries (N, H, L, E), keys (N, K, S, E) and values (N, K, S, V), with masks and biases.

    ``group`` = H / K query heads share one of ``key_heads``.
    """

    batch: int
    heads: int
    key_heads: int
    group: int
    queries: int
    keys: int
    features: int
    values: int
    query: Operand
    key: Operand
    value: Operand
    extras: tuple[Operand, ...]
    dtype: DType
    causal: bool
    scale: float

    @property
    def accumulate(self) -> DType:
        """The dtype of scores and sums."""
        return float32 if self.dtype.itemsize <= 2 else self.dtype

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each of the extras."""
        return tuple("mask" if x.dtype is bool_ else "bias" for x in self.extras)

    @property
    def rows(self) -> int:
        """The number of rows of scores."""
        return self.batch * self.heads * self.queries

    @property
    def pairs(self) -> int:
        """The approximate number of visible scores."""
        seen = self.rows * self.keys
        return seen // 2 if self.causal and self.keys >= self.queries else seen


def attention_of(request: Request, first: int = 0) -> Attention:
    """Return the problem of a request whose query is operand ``first``."""
    operands = [_operand(i, view) for i, view in enumerate(request.inputs)]
    query, key, value = (request.inputs[first + i] for i in range(3))
    n, heads, queries, features = query.shape
    return Attention(
        n,
        heads,
        key.shape[1],
        heads // key.shape[1],
        queries,
        key.shape[2],
        features,
        value.shape[3],
        operands[first],
        operands[first + 1],
        operands[first + 2],
        tuple(operands[first + 3 :]),
        query.dtype,
        request.attributes["causal"],
        request.attributes["scale"],
    )


def _operand(number: int, view: View) -> Operand:
    """Return an operand; axes of one element have a stride of 0, for broadcasting."""
    pairs = zip(view.shape, view.strides, strict=True)
    strides = tuple(0 if n == 1 else s for n, s in pairs)
    return Operand(number, strides, view.offset, view.dtype)


# The arguments of this family's kernels after their own, in this order.
def arguments_of(problem: Attention) -> list[Argument]:
    """Return the operands, the scale, the sizes, the strides, and the extras with theirs."""
    p = problem
    made: list[Argument] = [p.query.argument, p.key.argument, p.value.argument, float(p.scale)]
    made += [p.heads, p.key_heads, p.group, p.queries, p.keys, p.features]
    for operand in (p.query, p.key, p.value):
        made += operand.strides
    for extra in p.extras:
        made += [extra.argument, *extra.strides]
    return made


def signature_of(problem: Attention) -> list[Buffer | Scalar]:
    """Return the parameters of ``arguments_of``."""
    p = problem
    made: list[Buffer | Scalar] = [p.query.declared, p.key.declared, p.value.declared]
    made += [Scalar(p.accumulate), *(SIZE,) * 6, *(STRIDE,) * 12]
    for extra in p.extras:
        made += [extra.declared, *(STRIDE,) * 4]
    return made


@dataclass(frozen=True, slots=True)
class Given:
    """The run-time values of ``arguments_of`` in a kernel of this family."""

    query: Any
    key: Any
    value: Any
    scale: Any
    heads: Any
    key_heads: Any
    group: Any
    queries: Any
    keys: Any
    features: Any
    query_strides: Sequence[Any]
    key_strides: Sequence[Any]
    value_strides: Sequence[Any]
    extras: Sequence[tuple[Any, Sequence[Any]]]


def given(numbers: Sequence[Any]) -> Given:
    """Return a kernel's values of ``arguments_of``, by name."""
    query, key, value, scale, heads, key_heads, group, queries, keys, features = numbers[:10]
    extras = [(numbers[i], numbers[i + 1 : i + 5]) for i in range(22, len(numbers), 5)]
    return Given(
        query,
        key,
        value,
        scale,
        heads,
        key_heads,
        group,
        queries,
        keys,
        features,
        numbers[10:14],
        numbers[14:18],
        numbers[18:22],
        extras,
    )


def finite(x: Any) -> Any:
    """Return x with 0 for −inf and NaN, so that −inf minus it is −inf."""
    return select(x > -math.inf, x, 0.0)
