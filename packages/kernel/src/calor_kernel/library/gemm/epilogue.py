"""Epilogues: the elementwise work that follows a product, done on its sums before they are written.

Requirements: a sum is rounded to the product's dtype before the first op, and each op rounds as it
does alone, so a fused product has the bits of its ops one by one. Operands are read where the
result's elements are written, by the strides that they have: a row vector, a column vector, one
value or a whole matrix. A body without an epilogue is built as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, Any, Generic, TypeVar

from calor.dtypes import DType
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.launching import Bound, Multiple, Place
from calor_kernel.language.declared import READS, WRITES
from calor_kernel.library.elementwise.operations import Expression
from calor_kernel.library.elementwise.values import Value

M = TypeVar("M")
N = TypeVar("N")
# Instructions of an expression from which its code is not written out for all sums of a unit.
HEAVY = 16


@dataclass(frozen=True, slots=True)
class Along:
    """How an operand lies along the result's axes.

    ``batch``, ``rows``: whether it differs between products, and between rows. ``step``: 1 if the
    elements of adjacent columns are adjacent, 0 if all columns share one, −1 if the launch has
    their stride.
    """

    batch: bool
    rows: bool
    step: int


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The build of an epilogue: operand 0 of the expression is the product's result.

    ``along``: for each further operand.
    """

    expression: Expression
    along: tuple[Along, ...]

    @property
    def dtype(self) -> DType:
        """The dtype of the product's result, to which sums are rounded first."""
        return self.expression.operands[0]

    @property
    def outputs(self) -> tuple[DType, ...]:
        """The dtypes of the results."""
        return self.expression.outputs


@dataclass(frozen=True, slots=True)
class Steps(Generic[N]):
    """The strides of an operand along the products, rows and columns of the result."""

    batch: kl.StrideOf[N]
    row: kl.StrideOf[N]
    column: kl.StrideOf[N]


@dataclass(frozen=True, slots=True)
class Following(Generic[M, N]):
    """The memory of an epilogue: its operands with their strides, and the results but the first."""

    sources: tuple[Annotated[M, READS], ...]
    steps: tuple[Steps[N], ...]
    targets: tuple[Annotated[M, WRITES], ...]


After = Following[kl.Pointer, kl.Number]


@dataclass(frozen=True, slots=True)
class Extra:
    """An operand of an epilogue: its memory, and its strides along products, rows and columns."""

    place: Place
    dtype: DType
    strides: tuple[int, int, int]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Tail:
    """An epilogue for a launch: the expression, its further operands, and the further results."""

    expression: Expression
    extras: tuple[Extra, ...]
    results: tuple[Place, ...]

    @property
    def epilogue(self) -> Epilogue:
        """What a kernel is built for."""
        along = tuple(
            Along(x.strides[0] != 0, x.strides[1] != 0, _step(x.strides[2])) for x in self.extras
        )
        return Epilogue(self.expression, along)

    def of_batches(self) -> Tail:
        """Return the epilogue with products as rows and rows as columns, for those of one column.

        The result has the same elements in the same order.
        """
        moved = ((0, *extra.strides[:2]) for extra in self.extras)
        pairs = zip(self.extras, moved, strict=True)
        return replace(self, extras=tuple(replace(x, strides=steps) for x, steps in pairs))

    @property
    def heavy(self) -> bool:
        """Whether the expression is too long to be written out for all sums of a unit."""
        return self.expression.weight >= HEAVY

    @property
    def matrices(self) -> int:
        """The operands that differ between rows."""
        return sum(extra.strides[1] != 0 for extra in self.extras)

    def nbytes(self, *sizes: int) -> int:
        """Return the bytes of operands and results beyond one result of the product's dtype."""
        count = prod(sizes)
        written = sum(t.itemsize for t in self.expression.outputs)
        total: int = (written - self.epilogue.dtype.itemsize) * count
        for extra in self.extras:
            pairs = zip(sizes, extra.strides, strict=True)
            total += extra.dtype.itemsize * prod(n for n, s in pairs if s != 0)
        return total

    def reach(self, *sizes: int) -> int:
        """Return the largest distance of an element from the first one of its buffer."""
        pairs = [zip(sizes, extra.strides, strict=True) for extra in self.extras]
        ends = [sum(n * abs(s) for n, s in steps) for steps in pairs]
        return greatest(prod(sizes), *ends)

    def given(self, count: int = 1) -> dict[str, object]:
        """Return the arguments ``after`` and ``epilogue`` of a launch.

        ``count``: the columns of an access, which divide the result's rows.
        """
        given = [_bound(x, count) for x in self.extras]
        sources, steps = tuple(bound for bound, _ in given), tuple(steps for _, steps in given)
        dtypes = self.expression.outputs[1:]
        targets = tuple(
            Bound(place, dtype, _aligned(dtype, count))
            for place, dtype in zip(self.results, dtypes, strict=True)
        )
        return {"after": Following(sources, steps, targets), "epilogue": self.epilogue}


def _step(stride: int) -> int:
    """Return the class of a stride along columns."""
    if stride == 1:
        return 1
    return 0 if stride == 0 else -1


def _aligned(dtype: DType, count: int) -> int:
    """Return the alignment of an access of some elements of a buffer, which begins aligned."""
    return count * int(dtype.itemsize) if count > 1 else 0


def _bound(extra: Extra, count: int) -> tuple[Bound, Steps[Any]]:
    """Return the memory and strides of an operand, aligned for accesses if they are."""
    batch, row, column = extra.strides
    whole = count > 1 and column == 1 and not any(n % count for n in (extra.offset, batch, row))
    divisor = count if whole else 1
    steps: Steps[Any] = Steps(Multiple(batch, divisor), Multiple(row, divisor), column)
    align = _aligned(extra.dtype, count) if whole else 0
    return Bound(extra.place, extra.dtype, align), steps


class Writer:
    """The epilogue of a kernel for one product: it writes results in the place of sums.

    Parameters
    ----------
    by : Epilogue
        The build.
    after : Following
        The memory of operands and further results.
    target : Pointer
        The first result.
    batch : Index
        The number of the product.
    """

    def __init__(self, by: Epilogue, after: After, target: kl.Pointer, batch: kl.Index) -> None:
        self.by, self.after = by, after
        self.targets = (target, *after.targets)
        self.starts: list[kl.Index] = [
            batch * steps.batch if along.batch else 0
            for along, steps in zip(by.along, after.steps, strict=True)
        ]

    @property
    def heavy(self) -> bool:
        """Whether the code is too long to be written out for all sums of a unit."""
        return self.by.expression.weight >= HEAVY

    def write(
        self,
        at: kl.Index,
        total: kl.Number,
        row: kl.Index,
        column: kl.Index,
        mask: kl.Mask | None = None,
        aligned: int = 0,
        within: bool = True,
        of_row: Mapping[int, kl.Number] | None = None,
    ) -> None:
        """Write the results of adjacent sums of a row, from ``column`` on, to element ``at``.

        ``mask``: which of them exist. ``aligned``: the elements that divide ``at``, if known.
        ``within``: whether the row exists, so that what its columns share needs no mask.
        ``of_row``: operands of the row that were read before.
        """
        known = of_row or {}
        read = [
            kl.splat(known[k], total.width)
            if k in known
            else self._operand(k, row, column, total.width, mask, within)
            for k in range(len(self.by.along))
        ]
        self.store(at, self.results(total, read), mask, aligned)

    def prefetch(self, row: kl.Index, column: kl.Index) -> None:
        """Prefetch an element's cache line of each operand that is a matrix."""
        for k, along in enumerate(self.by.along):
            if along.rows and along.step == 1:
                at = self.starts[k] + row * self.after.steps[k].row + column
                self.after.sources[k].prefetch(at)

    def operands(
        self,
        row: kl.Index,
        column: kl.Index,
        width: int,
        mask: kl.Mask | None = None,
        shared: Sequence[kl.Number] | None = None,
        within: bool = True,
    ) -> list[kl.Number]:
        """Return the operands of adjacent sums; ``shared``: those of the same columns of a row."""
        return [
            self._operand(k, row, column, width, mask, within)
            if shared is None or along.rows
            else shared[k]
            for k, along in enumerate(self.by.along)
        ]

    def some(
        self,
        numbers: Iterable[int],
        row: kl.Index,
        column: kl.Index,
        width: int,
        shared: Mapping[int, kl.Number],
    ) -> dict[int, kl.Number]:
        """Return operands of adjacent sums by their numbers.

        ``shared``: those of the same columns of another row.
        """
        return {
            k: shared[k]
            if k in shared and not self.by.along[k].rows
            else self._operand(k, row, column, width, None, True)
            for k in numbers
        }

    def of_row(self, row: kl.Index) -> dict[int, kl.Number]:
        """Return the operands that all products' elements of a row share, by their numbers."""
        return {
            k: self.after.sources[k][row * self.after.steps[k].row]
            for k, along in enumerate(self.by.along)
            if along.rows and along.step == 0 and not along.batch
        }

    def results(self, total: kl.Number, read: Sequence[kl.Number]) -> Sequence[Value]:
        """Return the results of sums and operands."""
        return self.by.expression.evaluate([total.to(self.by.dtype), *read])

    def store(
        self, at: kl.Index, values: Sequence[Value], mask: kl.Mask | None = None, aligned: int = 0
    ) -> None:
        """Write results from element ``at`` on; arguments as for ``write``."""
        for target, value in zip(self.targets, values, strict=True):
            assert isinstance(value, kl.Number)
            target.store(at, value, mask=mask, align=aligned * int(target.dtype.itemsize))

    def _operand(
        self,
        k: int,
        row: kl.Index,
        column: kl.Index,
        width: int,
        mask: kl.Mask | None,
        within: bool,
    ) -> kl.Number:
        """Return an operand's elements for adjacent sums; masked ones are not read."""
        along, steps, source = self.by.along[k], self.after.steps[k], self.after.sources[k]
        at = self.starts[k]
        if along.rows:
            at = at + row * steps.row
        if along.step == 1:
            return source.load(at + column, width, mask=mask)
        if along.step == 0:
            if mask is None or within or not along.rows:
                return kl.splat(source[at], width)
            return source.load(_lanes(at, width, column) if width > 1 else at, mask=mask)
        columns = column + _iota(width, column) if width > 1 else column
        return source.load(at + columns * steps.column, mask=mask)


def writer(
    by: Epilogue | None, after: After | None, target: kl.Pointer, batch: kl.Index
) -> Writer | None:
    """Return the epilogue of a kernel for a product, None without one."""
    return None if by is None or after is None else Writer(by, after, target, batch)


@kl.helper
def end_sums(
    ends: Writer,
    sums: Sequence[Sequence[kl.Fragment]],
    batch: kl.Index,
    place: tuple[kl.Index, kl.Index],
    whole: tuple[kl.Index, kl.Index],
    even: bool = False,
) -> None:
    """Write what follows tiles of sums of matrix instructions, down and across.

    ``place``: row and column of the first tile; ``whole``: rows and columns of the result, which
    accesses of adjacent sums divide if it is ``even``.
    """
    shape, high = sums[0][0].shape, len(sums)
    if high == 1 or not ends.heavy:
        for i in range(high):
            row = place[0] + i * shape.m
            end_runs(ends, list(_row_runs(sums[i], place, row, whole, even)), batch, whole)
        return
    # Sums have indices of the build alone, so a loop over rows of tiles reads them from memory.
    count = sum(piece.width for piece, *_ in _row_runs(sums[0], place, 0, None, even))
    room = kl.private(high * count, sums[0][0].dtype, align=16)
    for i in range(high):
        at = i * count
        for piece, *_ in _row_runs(sums[i], place, 0, None, even):
            room.store(at, piece)
            at += piece.width
    for i in kl.loop_range(high):
        row, at = place[0] + i * shape.m, 0
        runs = []
        for piece, down, column, mask in _row_runs(sums[0], place, row, whole, even):
            runs.append((room.load(i * count + at, piece.width), down, column, mask))
            at += piece.width
        end_runs(ends, runs, batch, whole)


Run = tuple[kl.Number, kl.Index, kl.Index, "kl.Mask | None"]


def _row_runs(
    tiles: Sequence[kl.Fragment],
    place: tuple[kl.Index, kl.Index],
    row: kl.Index,
    whole: tuple[kl.Index, kl.Index] | None,
    even: bool,
) -> Iterator[Run]:
    """Yield a unit's adjacent sums of a row of tiles, with row, column and mask."""
    for j, tile in enumerate(tiles):
        start = place[1] + j * tile.shape.n
        limits = None if whole is None or even else (whole[0] - row, whole[1] - start)
        for piece, down, right, mask in tile.runs(limits):
            column = start + right
            if even and piece.width > 1:
                column = kl.assume_multiple(column, piece.width)
            yield piece, row + down, column, mask


@kl.helper
def end_runs(
    ends: Writer, runs: Sequence[Run], batch: kl.Index, whole: tuple[kl.Index, kl.Index]
) -> None:
    """Write what follows adjacent sums; without a mask all or none of a run exist."""
    for piece, row, column, mask in runs:
        at = (batch * whole[0] + row) * whole[1] + column
        if mask is not None:
            ends.write(at, piece, row, column, mask, within=False)
        elif (row < whole[0]) & (column < whole[1]):
            ends.write(at, piece, row, column)


def _iota(width: int, like: kl.Index) -> kl.Number:
    """Return 0, 1, 2 … with the dtype of an index."""
    assert isinstance(like, kl.Number)
    return kl.constant(tuple(range(width)), like.dtype)


def _lanes(at: kl.Index, width: int, like: kl.Index) -> kl.Number:
    """Return an index in every lane."""
    return _iota(width, like) * 0 + at
