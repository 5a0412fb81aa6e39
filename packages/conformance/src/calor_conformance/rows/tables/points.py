"""Rows of gradients at kinks, ties, zeros and infinities, where a convention decides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Point:
    """An op at some operands, and the gradients of its sum (or of a cotangent) there."""

    op: str
    operands: tuple[Any, ...]
    gradients: tuple[Any, ...]
    dtype: str = "float64"
    cotangent: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)


def point(
    op: str,
    *operands: Any,
    to: tuple[Any, ...],
    dtype: str = "float64",
    cotangent: Any = None,
    **attributes: Any,
) -> Point:
    """Return a row; ``to`` holds one gradient per operand, None where there is none."""
    return Point(op, operands, to, dtype, cotangent, attributes)


_SCATTER = [[0], [0], [1]]

POINTS: list[Point] = [
    # The subgradient of a norm at the origin is 0.
    point("abs", [0.0, -0.0, -2.0], to=([0.0, 0.0, -1.0],)),
    point("abs", [0j, 3 + 4j], to=([0j, 0.6 + 0.8j],), dtype="complex128", cotangent=[1.0, 1.0]),
    point("sign", [0j, 2j], to=([0j, 0.5 + 0j],), dtype="complex128", cotangent=[1 + 1j, 1 + 1j]),
    point("sign", [0.0, -3.0], to=([0.0, 0.0],)),
    point("hypot", [0.0, 3.0], [0.0, 4.0], to=([0.0, 0.6], [0.0, 0.8])),
    point("hypot", [3e200], [4e200], to=([0.6], [0.8])),
    point("atan2", [0.0, 0.0], [0.0, -2.0], to=([0.0, -0.5], [0.0, 0.0])),
    point("atan2", [3e-25], [4e-25], to=([4 / 25 * 1e25], [-3 / 25 * 1e25]), dtype="float32"),
    point("atan2", [3e200], [4e200], to=([4 / 25 * 1e-200], [-3 / 25 * 1e-200])),
    # At ties the gradient is shared; a running extreme is that of the latest.
    point("maximum", [1.0, 2.0], [1.0, 3.0], to=([0.5, 0.0], [0.5, 1.0])),
    point("minimum", [1.0, 2.0], [1.0, 3.0], to=([0.5, 1.0], [0.5, 0.0])),
    point("max", [[1.0, 3.0, 3.0]], to=([[0.0, 0.5, 0.5]],), axes=(1,)),
    point("min", [[1.0, 1.0, 1.0, 1.0]], to=([[0.25] * 4],), axes=(1,)),
    point("max", [[1.0, NAN, 3.0]], to=([[0.0, 1.0, 0.0]],), axes=(1,)),
    point("cummax", [1.0, 1.0, 0.0], to=([1.0, 2.0, 0.0],), axis=0, reverse=False),
    point("cummax", [1.0, 1.0, 0.0], to=([2.0, 0.0, 1.0],), axis=0, reverse=True,
          cotangent=[2.0, 0.0, 1.0]),
    point("cummin", [1.0, NAN, 0.0], to=([1.0, 2.0, 0.0],), axis=0, reverse=False),
    point("cummax", [2.0, 1.0, NAN], to=([0.0, 0.0, 3.0],), axis=0, reverse=True),
    point("relu", [0.0, -0.0, -1.0, 2.0], to=([0.0, 0.0, 0.0, 1.0],)),
    point("scatter_nd", [1.0, 5.0], _SCATTER, [1.0, 1.0, 2.0], update="max",
          to=([1 / 3, 1.0], None, [1 / 3, 1 / 3, 0.0])),
    point("scatter_nd", [1.0, 5.0], _SCATTER, [7.0, 8.0, 2.0], update="assign",
          to=([0.0, 0.0], None, [0.0, 1.0, 1.0])),
    point("scatter_nd", [2.0, 5.0], _SCATTER, [0.0, 0.0, 2.0], update="mul",
          to=([0.0, 2.0], None, [0.0, 0.0, 5.0])),
    point("scatter_nd", [2.0, 5.0], _SCATTER, [0.0, 3.0, 0.0], update="mul",
          to=([0.0, 0.0], None, [6.0, 0.0, 5.0])),
    # Powers: x ** 0 is constant, and 0 ** x too.
    point("power", [0.0, 0.0, 0.0, 2.0], [2.0, 1.0, 0.0, 0.0],
          to=([0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, math.log(2.0)])),
    point("power", [-2.0, 0.0], [3.0, 0.5], to=([12.0, INF], [NAN, 0.0])),
    point("power", [0j], [2 + 0j], to=([0j], [0j]), dtype="complex128"),
    point("sqrt", [0.0, 4.0], to=([INF, 0.25],)),
    point("prod", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], to=([[6.0, 0.0, 0.0], [0.0] * 3],),
          axes=(1,), dtype_="float64"),
    # What is not chosen has gradient 0, whatever arrives.
    point("where", [True, False], [1.0, 2.0], [3.0, 4.0], to=(None, [INF, 0.0], [0.0, NAN]),
          cotangent=[INF, NAN]),
    point("maximum", [INF, 1.0], [1.0, -INF], to=([1.0, 1.0], [0.0, 0.0])),
    point("logaddexp", [-INF, INF, -INF], [1.0, 1.0, -INF], to=([0.0, 1.0, 0.5], [1.0, 0.0, 0.5])),
    point("remainder", [7.0, -7.0, 7.5], [2.0, 2.0, -2.0], to=([1.0] * 3, [-3.0, 4.0, 4.0])),
    point("copysign", [-2.0, 0.0, 3.0], [1.0, -1.0, 1.0], to=([-1.0, -1.0, 1.0], None)),
    point("copysign", [INF], [-1.0], to=([-1.0], None)),
    # Near the ends of the range the digits stay.
    point("asin", [1 - 2.0**-20], to=([1 / math.sqrt(2.0**-19 - 2.0**-40)],), dtype="float32"),
    point("acos", [2.0**-20 - 1], to=([-1 / math.sqrt(2.0**-19 - 2.0**-40)],), dtype="float32"),
    point("atanh", [1 - 2.0**-20], to=([1 / (2.0**-19 - 2.0**-40)],), dtype="float32"),
    point("sigmoid", [1000.0, -1000.0], to=([0.0, 0.0],), dtype="float32"),
    point("silu", [1000.0, -1000.0], to=([1.0, 0.0],), dtype="float32"),
    point("gelu", [1000.0, -1000.0], to=([1.0, 0.0],), dtype="float32"),
    point("gelu_tanh", [1000.0, -1000.0], to=([1.0, 0.0],), dtype="float32"),
    point("softplus", [1000.0, -1000.0], to=([1.0, 0.0],), dtype="float32", beta=1.0),
    point("elu", [1000.0, -1000.0], to=([2.0, 0.0],), dtype="float32", alpha=1.0, scale=2.0,
          rate=1.0),
    point("mish", [1000.0, -1000.0], to=([1.0, 0.0],), dtype="float32"),
    point("hard_swish", [1000.0, -1000.0, 3.0, -3.0], to=([1.0, 0.0, 1.0, 0.0],), dtype="float32"),
    point("softmax", [[0.0, -INF]], to=([[0.0, 0.0]],), axis=1, cotangent=[[1.0, 5.0]]),
    point("log_softmax", [[0.0, -INF]], to=([[0.0, 0.0]],), axis=1, cotangent=[[1.0, 0.0]]),
    point("digamma", [INF, 1.0], to=([0.0, math.pi**2 / 6],)),
    point("expm1", [1e-10], to=([1.0000000001],)),
]  # fmt: skip
