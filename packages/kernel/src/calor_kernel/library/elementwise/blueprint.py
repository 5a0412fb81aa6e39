"""How an elementwise expression is run, and how its kernels read operands and write results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calor_kernel.library.elementwise.expression import Expression
from calor_kernel.library.elementwise.values import Value, load, store


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a kernel is built for beside the expression.

    ``steps``: per operand 1 where its values lie one after another along the lanes, 0 where they
    are one value there, −1 where a launch says how far apart they are. ``align``: per operand, and
    then of the results, the bytes by which the address of its beginning divides. ``width``: lanes
    of a vector, which may be some vectors of the device. ``shared_body``: whether the rest at the
    end takes the way of the others, so that a long expression is compiled once.
    ``nontemporal``: whether results go past the caches. ``even``: whether rows of the results all
    begin where the first one may.
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
    """Return the operands' values at places; those of ``ahead`` are known already.

    ``rest``: how many of the lanes exist. ``dense``: whether the places keep the alignment that
    operands have at their beginning.
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
    """Write the results' values from a place on; arguments as for read."""
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
    """Return the operands that are one value along the lanes, read ahead; None for the others."""
    return [
        load(sources[k], dtype, places[k], plan.width, step=0) if plan.steps[k] == 0 else None
        for k, dtype in enumerate(expression.operands)
    ]
