"""The problem of attention: sizes, views of the operands, masks and biases.

Requirements: one form for the forward pass and the gradients. Operands have any strides. Masks and
biases broadcast along axes by a stride of 0, and there may be any number of them. Scores are
computed in float32 at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from calor.dtypes import DType, bool_, float32
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Multiple
from calor_kernel.contract.work import Input, Request, View

Kind = Literal["mask", "bias"]
N = TypeVar("N")
# The order in memory of a result's axes whose rows come before its heads.
TURNED: Final = (0, 2, 1, 3)


@dataclass(frozen=True, slots=True)
class ResultSteps(Generic[N]):
    """The strides of a result's batches, heads and rows in memory, and the numbers of the latter.

    For results whose rows come before their heads, as those that read a model's result want it.
    """

    heads: kl.SizeOf[N]
    rows: kl.SizeOf[N]
    batch: kl.SizeOf[N]
    head: kl.SizeOf[N]
    row: kl.SizeOf[N]

    def at(self: ResultSteps[kl.Number], n: kl.Index, head: kl.Index, row: kl.Index) -> kl.Number:
        """Return where a row begins."""
        return n * self.batch + head * self.head + row * self.row

    @kl.helper
    def of_row(self: ResultSteps[kl.Number], number: kl.Number) -> kl.Number:
        """Return where a row begins, given its number among those of all heads and batches."""
        matrix = number // self.rows
        n = matrix // self.heads
        return self.at(n, matrix - n * self.heads, number - matrix * self.rows)


@kl.helper
def dropped(x: kl.Number, dtype: DType) -> kl.Number:
    """Return what rounding a number to a dtype drops, in that dtype.

    Gradients read a result of half types as it was before it was rounded: a sum of both.
    """
    return (x - x.to(dtype).to(x.dtype)).to(dtype)


def access_of_rows(dtype: DType, *widths: int) -> int:
    """Return the elements of the widest access, of 16 bytes at most, that divides all widths.

    >>> access_of_rows(float32, 100, 6), access_of_rows(float32, 25)
    (2, 1)
    """
    access = 16 // int(dtype.itemsize)
    for width in widths:
        while width % access:
            access //= 2
    return access


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of four axes: its index among the op's operands, strides and type."""

    number: int
    strides: tuple[int, ...]
    offset: int
    dtype: DType

    @property
    def bound(self) -> Bound:
        """The operand's memory, from its first element on."""
        return Bound(Input(self.number, self.offset), self.dtype)


@dataclass(frozen=True, slots=True)
class Attention:
    """Queries (N, H, L, E), keys (N, K, S, E) and values (N, K, S, V), with masks and biases.

    ``group`` = H / K query heads share one of ``key_heads``. ``exact``: whether factors of float32
    must not be rounded. ``turned``: for each result, whether its rows come before its heads in
    memory; () if none do.
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
    exact: bool = True
    turned: tuple[bool, ...] = ()

    @property
    def access(self) -> int:
        """The elements of the widest access, of 16 bytes at most, that rows are whole ones of."""
        return access_of_rows(self.dtype, self.features, self.values)

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

    def steps(
        self, number: int, heads: int, rows: int, width: int, divisor: int = 1
    ) -> ResultSteps[Multiple] | None:
        """Return the strides of a result, None if it is dense; ``divisor``: of its width."""
        if number >= len(self.turned) or not self.turned[number]:
            return None
        steps = rows * heads * width, width, heads * width
        return ResultSteps(
            Multiple(heads, 1), Multiple(rows, 1), *(Multiple(step, divisor) for step in steps)
        )

    def flops(self, features: int, values: int) -> int:
        """Return the operations of products along features, and along values, of each score."""
        return 2 * self.pairs * (features * self.features + values * self.values)


def attention_of(request: Request, first: int = 0) -> Attention:
    """Return the problem of a request whose query is operand ``first``."""
    query, key, value, *extras = (
        _operand(i, v) for i, v in enumerate(request.inputs) if i >= first
    )
    n, heads, queries, features = request.inputs[first].shape
    _, key_heads, keys, values = request.inputs[first + 2].shape
    return Attention(
        n,
        heads,
        key_heads,
        heads // key_heads,
        queries,
        keys,
        features,
        values,
        query,
        key,
        value,
        tuple(extras),
        query.dtype,
        request.attributes["causal"],
        request.attributes["scale"],
        not request.rounds,
        tuple(order is not None for order in request.attributes.get("orders", ())),
    )


def _operand(number: int, view: View) -> Operand:
    """Return an operand; axes of one element have a stride of 0, for broadcasting."""
    pairs = zip(view.shape, view.strides, strict=True)
    strides = tuple(0 if n == 1 else s for n, s in pairs)
    return Operand(number, strides, view.offset, view.dtype)
