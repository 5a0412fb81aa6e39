"""Common properties of checks of rows: main dtype, tier and needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor.dtypes import DType, float16, float32, int8
from calor.ops.base import TABLE

from ..provisional import provisional
from ..rows.definitions import text_of
from ..rows.language import Case
from .base import REQUIRED, Array, Check, Packable, Place, Run, Tier

CONTRACT = (
    "a result agrees with the op's definition within the row's tolerance, in every dtype that the "
    "device declares; where the device cannot, declare it in info: "
    "ops={{({op!r}, {dtype}): impossible(reason)}} or not_yet"
)


# The dtypes of inference devices; some devices have no other.
NARROW = (float16, int8)
OF_A_FUNCTION = "a result agrees with the function's definition within the row's tolerance"


def main_dtype(c: Case) -> DType:
    """Return the first dtype of a row: float32 if it has it."""
    return float32 if float32 in c.dtypes else c.dtypes[0]


def needed(c: Case, dtype: DType) -> tuple[DType, ...]:
    """Return every dtype of a row's operands and attributes."""
    found = c.needed.get(dtype)
    if found is None:
        found = c.needed[dtype] = _needed(c, dtype)
    return found


def _needed(c: Case, dtype: DType) -> tuple[DType, ...]:
    kinds = [dtype, *(d.type_for(dtype) for d in c.inputs)]
    kinds += [v for v in c.attributes_for(dtype).values() if isinstance(v, DType)]
    if c.out is not None:
        kinds += c.out(dtype)
    return tuple(dict.fromkeys(kinds))


def tier_of(c: Case, dtype: DType, seen: set[Any]) -> Tier:
    """Return the tier of a row: basic for an op's first, full for new kinds of number, else dtypes.

    The first row is also basic in the dtypes of specialized devices, which have no other dtype. All
    rows of required ops are basic, because a first row alone accepts, say, a maximum that starts at
    0. Casts are full, because their rows are about extremes, which a first device meets later.
    """
    key = (c.op, dtype) if dtype in NARROW else c.op
    main = dtype is main_dtype(c)
    first = key not in seen and (dtype in NARROW or main)
    new = (c.label, dtype.kind) not in seen
    seen.add((c.label, dtype.kind))
    if first:
        seen.update((key, c.op) if main else (key,))
    if first or (main and c.op in REQUIRED and c.op != "cast"):
        return "basic"
    return "full" if new else "dtypes"


# Loops and branches may read their operands, so they share no graph with others.
_ALONE = frozenset(("cond", "while_loop", "scan", "fori_loop()"))


def shared(c: Case, steps: Packable) -> Packable | None:
    """Return the steps of a row that can share a graph with others, or None."""
    return None if c.op in _ALONE else steps


def ordered(c: Case) -> list[DType]:
    """Return a row's dtypes with the main one first."""
    main = main_dtype(c)
    return [main, *(t for t in c.dtypes if t is not main)]


def row_check(
    kind: str,
    c: Case,
    dtype: DType,
    tier: Tier,
    body: tuple[Run, Packable | None],
    *,
    subject: str = "",
    contract: str = CONTRACT,
    extra: str = "",
    explain: Any = None,
    looks: bool = False,
    since: str = "",
) -> Check:
    """Return a check of a row."""
    run, steps = body
    known = c.op if c.op in TABLE else ""
    return Check(
        kind=kind,
        subject=subject or c.label,
        tier=tier,
        contract=contract.format(op=c.op, dtype=dtype.name) if known else OF_A_FUNCTION,
        run=run,
        text=lambda: f"{text_of(c)}\n{extra}",
        op=known,
        dtype=dtype,
        dtypes=needed(c, dtype),
        features=("control_flow",) if c.op in ("cond", "while_loop", "scan") else (),
        looks=looks,
        provisional=provisional(since or c.since),
        steps=steps,
        explain=explain,
    )


def graph_text(c: Case, dtype: DType, arrays: Sequence[Array], place: Place) -> str:
    """Return the graph that a row records, as text."""
    with calor.device(place.device):
        tensors = [calor.asarray(a) for a in arrays]
        return calor.trace(lambda *given: c.call(*given, dtype=dtype), *tensors).text()
