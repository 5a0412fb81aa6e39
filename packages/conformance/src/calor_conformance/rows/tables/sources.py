"""Rows of the ops without operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import bfloat16, float16, float32, float64, int16, int32, int64, uint64
from calor.ops.sources import HostArray

from ..domains import special
from ..language import COMPLEX, EVERY, FLOATS, SAME, Array, Case, Number, case


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
    # Numbers that no narrower dtype holds, and that are no numbers.
    *(
        case("full", value=Number(value), shape=(2,), dtype=SAME, oracle=_full, dtypes=dtypes,
             raw=True, name=name)
        for name, value, dtypes in [
            ("third", 1 / 3, FLOATS), ("minus-zero", -0.0, FLOATS), ("nan", np.nan, FLOATS),
            ("infinite", -np.inf, FLOATS), ("long", (1 << 62) + 3, (int64, uint64)),
            ("complex", 0.1 - 1j / 3, COMPLEX),
        ]
    ),
    case("iota", length=3000, dtype=SAME, oracle=_iota,
         dtypes=(float16, bfloat16, float32, float64, int16, int32, int64), raw=True, name="long"),
    *(
        case("constant", array=HostArray.of(special(dtype)), weak=False,
             oracle=lambda *, array, weak: array.array, dtypes=(dtype,), raw=True,
             name=f"{dtype.name}-special")
        for dtype in EVERY if dtype.kind != "storage"
    ),
    *(
        case("iota", length=n, dtype=SAME, oracle=_iota, dtypes=EVERY, raw=True, name=str(n))
        for n in (5, 0, 1)
    ),
    case("constant", array=HostArray.of(_RAMP), weak=False, oracle=lambda *, array, weak: _RAMP,
         dtypes=EVERY[:1], raw=True),
]  # fmt: skip
