"""Rows of the ops without operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.ops.sources import HostArray

from ..language import EVERY, SAME, Array, Case, Number, case


def _full(*, value: Any, shape: Any, dtype: Any) -> Array:
    return np.broadcast_to(np.array(value.number).astype(dtype.numpy), shape)


def _iota(*, length: int, dtype: Any) -> Array:
    return np.array([dtype.numpy.type(i) for i in range(length)], dtype.numpy)


_RAMP = np.arange(6, dtype=np.float32).reshape(2, 3)

CASES: list[Case] = [
    *(
        case("full", value=Number(1), shape=shape, dtype=SAME, oracle=_full, dtypes=EVERY, raw=True,
             name=str(list(shape)))
        for shape in [(2, 3), (), (0, 3), (1, 1, 1, 1, 1)]
    ),
    *(
        case("iota", length=n, dtype=SAME, oracle=_iota, dtypes=EVERY, raw=True, name=str(n))
        for n in (5, 0, 1)
    ),
    case("constant", array=HostArray.of(_RAMP), weak=False, oracle=lambda *, array, weak: _RAMP,
         dtypes=EVERY[:1], raw=True),
]  # fmt: skip
