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


def moments_of(schedule: Schedule) -> tuple[Moments, ...]:
    """Return the moments that a program's first two passes compute; () if they do more.

    There are several of norms that are added to each other, of one dtype.
    """
    program = schedule.program
    early = [n for n in program.folds if schedule.walks[n] < 2]
    if schedule.written(0) or schedule.written(1):
        return ()
    found = [_moments(program, n) for n in early if schedule.walks[n] == 1]
    able = tuple(one for one in found if one is not None)
    numbers = sorted(n for one in able for n in (one.total, one.squares))
    sums = all(program.fold(n).op.kind == "sum" for n in early)
    alone = len({program.dtype(n) for n in early}) == 1
    return able if sums and alone and numbers == early else ()


def _moments(program: Program, squares: int) -> Moments | None:
    """Return the moments whose squares are a reduction, None if it is none of such."""
    square = program.step(program.fold(squares).operands[0])
    if not _is(square, "mul") or square.operands[0] != square.operands[1]:
        return None
    centred = program.step(square.operands[0])
    mean = program.step(centred.operands[1]) if _is(centred, "sub") else None
    if not _is(centred, "sub") or not _is(mean, "div"):
        return None
    total, count = mean.operands
    fold = program.step(total)
    if not isinstance(fold, Fold) or centred.operands[0] != fold.operands[0]:
        return None
    return Moments(total, squares, count) if count in program.numbers else None


def _is(step: Step | Fold | None, op: str) -> TypeGuard[Step]:
    return isinstance(step, Step) and step.op == op


def of_pieces(
    program: Program, moments: Sequence[Moments], known: Collection[int]
) -> tuple[Program, tuple[int, ...]]:
    """Return the program of a piece's moments, and the values that it reads.

    The number of its terms takes the place of each ``count``.
    """
    return part_of(program, [n for one in moments for n in (one.total, one.squares)], known)


def joined(
    program: Program, moments: Sequence[Moments], wanted: Sequence[int], known: Collection[int]
) -> tuple[Program, tuple[int, ...]]:
    """Return the program that computes values from the moments of pieces, and what else it reads.

    Its operands are both moments of the pieces, for each of ``moments``; the sum of the first
    piece, for each; the numbers of pieces and of the terms of a piece, and 0; then the others, in
    the order of the values returned.
    """
    dtype = program.dtype(moments[0].total)
    recipe = Recipe()
    pairs = [(recipe.operand(dtype), recipe.operand(dtype)) for _ in moments]
    firsts = [recipe.operand(dtype, "row") for _ in moments]
    pieces, terms, none = (recipe.operand(dtype, "number") for _ in range(3))
    places = [n for one in moments for n in (one.total, one.squares)]
    inner, operands = part_of(program, wanted, {*known, *places}, places)
    others = [recipe.add(operand) for operand in inner.operands[len(places) :]]
    step, fold = recipe.step, recipe.fold
    found: list[int] = []
    for (total, squares), first in zip(pairs, firsts, strict=True):
        away = step("sub", total, first)
        sums, within = fold("sum", away), fold("sum", squares)
        around = fold("sum", step("mul", away, away))
        between = step("sub", around, step("div", step("mul", sums, sums), pieces))
        both = step("maximum", step("add", within, step("div", between, terms)), none)
        # Not from the sums around the first one, which may be infinite.
        found += (fold("sum", total), both)
    made = dict(enumerate((*found, *others)))
    for number, one in inner.numbered():
        assert isinstance(one, Step)
        made[number] = recipe.add(moved(one, made))
    return recipe.program([made[n] for n in inner.results]), operands[len(places) :]
