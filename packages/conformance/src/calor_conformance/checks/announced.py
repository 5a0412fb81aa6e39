"""Announced memory: no op at any length, and no loop, takes more than its executable said.

A driver adds up what it knows of; what it needs on the way, it needs for long operands, in loops
and in branches: copies, parts of sums, stacks of rows and the values of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import bool_

from ..rows.definitions import source_of
from ..rows.tables.sizes import SIZES, Sized
from .base import Array, Check, Place, plain_type
from .contract import Contracts
from .memory import announced
from .sizes import kinds_of

contract = Contracts("memory")
CONTRACT = "a call of an op on long operands allocates at most what its executable said"
# Above what one block, chunk or cube computes; a product of such sides takes no second.
LENGTH = 1025


def of_ops() -> Iterator[Check]:
    """Yield a check of each op that has rows of sizes.

    Yields
    ------
    Check
        The checks, with the rows of an op in each.
    """
    rows: dict[str, list[Sized]] = {}
    for row in SIZES:
        rows.setdefault(row.op, []).append(row)
    for op, every in rows.items():
        kinds = tuple(dict.fromkeys(t for row in every for t in kinds_of(row)))
        yield Check(
            kind="memory",
            subject=f"announced-{op}",
            tier="full",
            contract=CONTRACT,
            run=partial(_of_op, every),
            text=partial(_text, every),
            op=op,
            dtype=kinds[0],
            dtypes=kinds,
        )


def _text(rows: list[Sized]) -> str:
    return "\n".join(source_of(row.run) for row in rows)


def _of_op(rows: list[Sized], place: Place) -> None:
    for row in rows:
        n = max((size for size in row.sizes if size <= LENGTH), default=LENGTH)
        arrays = row.draw(np.random.default_rng([place.seed, n]), n)
        graph = calor.trace(row.run, *(calor.asarray(a) for a in arrays))
        if len(graph.inputs) > len(arrays):
            # The row has constants of its own.
            continue
        announced(place, f"{row.op} {row.name} of {n}", graph, arrays)


def _many(x: Any) -> Any:
    """Return the sum of several values that live at once."""
    made = [x * (n + 1) for n in range(4)]
    return sum((calor.flip(m, axis=0) for m in made[1:]), made[0])


def _scanned(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return carry + row, carry * 2

    return calor.scan(step, x[0], x)


def _backwards(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return calor.maximum(carry, row), (carry - row, row * 3)

    return calor.scan(step, x[0], x, reverse=True)


def _counted(x: Any) -> Any:
    return calor.fori_loop(0, 5, lambda n, carry: _many(carry), x)


def _between(x: Any) -> Any:
    last, rows = _scanned(_many(x))
    return [_counted(rows), last, _many(x), x - 1]


def _chosen(x: Any) -> Any:
    return calor.cond(calor.sum(x) > 3, _many, lambda t: t * 1, x)


_FLOWS: dict[str, Callable[[Any], Any]] = {
    "a scan": _scanned, "a scan from the end": _backwards, "a counted loop": _counted,
    "a branch": _chosen, "loops between other work": _between,
}  # fmt: skip


@contract(
    "a call with loops and branches allocates at most what its executable said",
    tier="full",
    features=("control_flow",),
    dtypes=(bool_,),
    looks=False,
)
def announced_flows(place: Place) -> None:
    for side in (16, 130):
        array: Array = np.ones((side, side), plain_type().numpy)
        x = calor.asarray(array)
        calor.eval(x)
        for what, flow in _FLOWS.items():
            graph = calor.trace(flow, x)
            announced(place, f"{what} of {side} rows", graph, [array])


CHECKS = [*of_ops(), *contract.checks]
