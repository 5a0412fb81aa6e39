"""Rows of the conversions: every dtype to every other."""

from __future__ import annotations

from calor import dtypes as t

from .. import oracle_casts as o
from ..domains import any_bits, chosen, extremes, normal
from ..halfway import halfway, wider
from ..language import EVERY, STORAGE, Case, case


def _steps(target: t.DType) -> str | None:
    """Say why a rounding conversion is not compared with differences."""
    if target in (t.float64, t.complex128):
        return None
    return "differences see its steps; its gradient is a conversion too"


CASES: list[Case] = [
    *(
        case("cast", normal(3, 4), dtype=target, oracle=o.cast, dtypes=EVERY, raw=True,
             name=f"to-{target.name}", no_gradient=_steps(target))
        for target in t.ALL
    ),
    *(
        case("cast", extremes(40), dtype=target, oracle=o.cast, dtypes=EVERY, raw=True,
             name=f"extremes-to-{target.name}", no_gradient="the numbers are not finite")
        for target in t.ALL
    ),
    *(
        case("cast", any_bits(200), dtype=target, oracle=o.cast,
             dtypes=(*STORAGE, t.float16, t.bfloat16, t.float32, t.float64, t.int64, t.uint64),
             raw=True, name=f"bits-to-{target.name}", no_gradient="the numbers are not finite")
        for target in (t.float16, t.bfloat16, t.float32, t.float8_e4m3fn, t.float8_e5m2, t.int8)
    ),
    # On the way through a third type such numbers are rounded twice, and come out as the other one.
    *(
        case("cast", halfway(target, 40), dtype=target, oracle=o.cast, dtypes=sources, raw=True,
             name=f"halfway-to-{target.name}", no_gradient="differences see its steps")
        for target in (t.float32, t.float16, t.bfloat16, t.float64, t.float8_e4m3fn, t.float8_e5m2)
        if (sources := wider(target))
    ),
    case("cast", chosen([2.5, 3.5, -2.5, 1e9, -1e9, 255.9, 256.0, -128.9, -129.0]), dtype=t.int8,
         oracle=o.cast, dtypes=(t.float32, t.float64), raw=True, name="saturates"),
    case("bitcast", any_bits(3, 4), dtype=t.uint8, oracle=o.bitcast,
         dtypes=tuple(d for d in EVERY if d is not t.bool_), raw=True, name="to-bytes"),
    case("bitcast", any_bits(3, 4), dtype=t.int32, oracle=o.bitcast,
         dtypes=(t.float32, t.uint32, t.float64, t.complex64, t.int32), raw=True, name="to-int32"),
    case("bitcast", any_bits(3, 2), dtype=t.uint64, oracle=o.bitcast,
         dtypes=(t.uint32, t.float32, t.int32), raw=True, name="joins-two"),
    case("bitcast", any_bits(3, 4), dtype=t.float32, oracle=o.bitcast,
         dtypes=(t.uint8, t.int8), raw=True, name="joins-four"),
    case("bitcast", any_bits(5), dtype=t.float16, oracle=o.bitcast,
         dtypes=(t.bfloat16, t.int16, t.uint16), raw=True, name="halves"),
    case("bitcast", any_bits(5), dtype=t.uint8, oracle=o.bitcast, dtypes=(t.bool_,), raw=True,
         name="bool-to-bytes"),
]  # fmt: skip
