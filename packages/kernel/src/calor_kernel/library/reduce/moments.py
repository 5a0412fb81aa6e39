"""Mean and variance along several axes in one reading of memory, as moments of pieces.

Requirements: a variance subtracts its mean before it squares, which needs two readings of a row
that no cube holds. A piece of a row, such as one image of a channel, is held: its sum and its
squares around its own mean are exact. The pieces are joined around the sum of the first one, so
nothing cancels however far the mean is from 0. (Chan, Golub and LeVeque, "Updating formulae and a
pairwise algorithm for computing sample variances", 1979.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from calor_kernel.library.elementwise.operations import Step
from calor_kernel.library.reduce.program import (
    Fold,
    Program,
    Recipe,
    Schedule,
    moved,
    part_of,
)


@dataclass(frozen=True, slots=True)
class Moments:
    """The values of a program that are a sum, and the sum of squares around its mean.

    ``count``: the scalar operand that the sum is divided by.
    """

    total: int
    squares: int
    count: int


def moments_of(schedule: Schedule) -> Moments | None:
    """Return the moments that a program's first two passes compute, None if they do more."""
    program = schedule.program
    early = [n for n in program.folds if schedule.walks[n] < 2]
    if len(early) != 2 or schedule.written(0) or schedule.written(1):
        return None
    total, squares = early
    square = program.step(program.fold(squares).operands[0])
    if not _is(square, "mul") or square.operands[0] != square.operands[1]:
        return None
    centred = program.step(square.operands[0])
    if not _is(centred, "sub") or centred.operands[0] != program.fold(total).operands[0]:
        return None
    mean = program.step(centred.operands[1])
    if not _is(mean, "div") or mean.operands[0] != total:
        return None
    count = mean.operands[1]
    sums = all(program.fold(n).op.kind == "sum" for n in early)
    alone = program.dtype(total) is program.dtype(squares)
    return Moments(total, squares, count) if sums and alone and count in program.numbers else None


def _is(step: Step | Fold | None, op: str) -> TypeGuard[Step]:
    return isinstance(step, Step) and step.op == op


def of_pieces(
    program: Program, moments: Moments, known: Collection[int]
) -> tuple[Program, tuple[int, ...]]:
    """Return the program of a piece's moments, and the values that it reads.

    The number of its terms takes the place of ``count``.
    """
    return part_of(program, (moments.total, moments.squares), known)


def joined(
    program: Program, moments: Moments, wanted: Sequence[int], known: Collection[int]
) -> tuple[Program, tuple[int, ...]]:
    """Return the program that computes values from the moments of pieces, and what else it reads.

    Its operands are both moments of the pieces, the sum of the first piece, the numbers of pieces
    and of the terms of a piece, and 0; then the others, in the order of the values returned.
    """
    dtype = program.dtype(moments.total)
    recipe = Recipe()
    total, squares = recipe.operand(dtype), recipe.operand(dtype)
    first = recipe.operand(dtype, "row")
    pieces, terms, none = (recipe.operand(dtype, "number") for _ in range(3))
    places = (moments.total, moments.squares)
    inner, operands = part_of(program, wanted, {*known, *places}, places)
    others = [recipe.add(operand) for operand in inner.operands[2:]]
    step, fold = recipe.step, recipe.fold
    away = step("sub", total, first)
    sums, within = fold("sum", away), fold("sum", squares)
    around = fold("sum", step("mul", away, away))
    between = step("sub", around, step("div", step("mul", sums, sums), pieces))
    both = step("maximum", step("add", within, step("div", between, terms)), none)
    whole = step("add", sums, step("mul", pieces, first))
    made = dict(enumerate((whole, both, *others)))
    for number, one in inner.numbered():
        assert isinstance(one, Step)
        made[number] = recipe.add(moved(one, made))
    return recipe.program([made[n] for n in inner.results]), operands[2:]
