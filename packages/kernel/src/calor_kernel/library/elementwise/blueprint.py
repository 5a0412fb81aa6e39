"""Blueprints of elementwise expressions, and their reads of operands and writes of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Value, load, store


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The build-time parameters of a kernel beside the expression.

    ``steps``: for each operand 1 if its values are adjacent along the lanes, 0 if they are one
    value, −1 if the launch has their stride. ``align``: for each operand, and then the results, the
    alignment of its start in bytes. ``width``: lanes of a vector, possibly several vectors of the
    device. ``shared_body``: whether the masked end uses the main body, so that a long expression is
    compiled once. ``nontemporal``: whether results bypass the caches. ``even``: whether all rows of
    the results have the alignment of the first.
    """

    steps: tuple[int, ...]
    align: tuple[int, ...]
    width: int
    shared_body: bool = False
    nontemporal: bool = False
    even: bool = False


def read(
    expression: Expression,
    plan: Blueprint,
    sources: Sequence[Any],
    places: Sequence[Any],
    strides: Sequence[Any],
    ahead: Sequence[Value | None],
    rest: Any = None,
    *,
    dense: bool = False,
) -> list[Value]:
    """Return the operands' values at positions; those of ``ahead`` have been read already.

    ``rest``: how many of the lanes exist. ``dense``: whether the positions keep the alignment of
    the operands' starts.
    """
    return [
        known
        if known is not None
        else load(
            sources[k],
            dtype,
            places[k],
            plan.width,
            step=strides[k] if plan.steps[k] < 0 else plan.steps[k],
            rest=rest,
            align=plan.align[k] if dense else 0,
        )
        for k, (dtype, known) in enumerate(zip(expression.operands, ahead, strict=True))
    ]


def write(
    expression: Expression,
    plan: Blueprint,
    targets: Sequence[Any],
    place: Any,
    values: Sequence[Value],
    rest: Any = None,
    *,
    dense: bool = False,
) -> None:
    """Write the results' values from a position on; arguments as for read."""
    for target, dtype, value in zip(targets, expression.outputs, values, strict=True):
        store(
            target,
            dtype,
            place,
            value,
            rest=rest,
            align=plan.align[-1] if dense else 0,
            nontemporal=plan.nontemporal and dense,
        )


def fixed(
    expression: Expression, plan: Blueprint, sources: Sequence[Any], places: Sequence[Any]
) -> list[Value | None]:
    """Return operands with one value along the lanes, read ahead; None for the others."""
    return [
        load(sources[k], dtype, places[k], plan.width, step=0) if plan.steps[k] == 0 else None
        for k, dtype in enumerate(expression.operands)
    ]
