"""Rows of collectives of one member, which is what a device is to itself.

What several members exchange is asked by the checks of collectives, on groups of the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import int32

from ..domains import chosen, normal
from ..language import EVERY, NUMBERS, ORDERED, Array, Case, Domain, case

_TOKEN = chosen(np.array(0), int32)


def _given(x: Array, token: Array, **attributes: Any) -> tuple[Array, Array]:
    return x, token


def _row(op: str, dtypes: Any, name: str = "", x: Domain | None = None, **said: Any) -> Case:
    return case(op, normal(2, 3) if x is None else x, _TOKEN, oracle=_given, dtypes=dtypes,
                out=lambda d: (d, int32), name=name, world=1, **said)  # fmt: skip


CASES: list[Case] = [
    *(
        _row(op, NUMBERS if kind in ("sum", "prod") else ORDERED, kind, kind=kind)
        for op in ("all_reduce", "reduce_scatter")
        for kind in ("sum", "prod", "max", "min")
    ),
    _row("all_reduce", NUMBERS[-4:], "number", normal(), kind="sum"),
    _row("all_gather", EVERY),
    _row("broadcast", EVERY, root=0),
    case("rank", world=1, oracle=lambda *, world: np.zeros((), np.int32), dtypes=(int32,),
         raw=True),
]  # fmt: skip
