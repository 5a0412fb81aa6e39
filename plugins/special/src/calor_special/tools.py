"""What the definitions share: tables by dtype, series, and differences that keep their digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor import dtypes
from calor.dtypes import float32
from calor.functions.rows import polynomial
from calor.ops import elementwise as e
from calor.ops.movement import fill

EULER = 0.5772156649015329
# B(2k) / (2k)! for k from 1 on.
BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
    -174611 / 802857662698291200000, 77683 / 14101100039391805440000,
    -236364091 / 1693824136731743669452800000,
)  # fmt: skip
# B(2k) / (2k (2k − 1)): Stirling's series.
STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip


def fitted(x: Any, table: Sequence[Sequence[float]], low: float, high: float) -> Any:
    """Return a polynomial of `tables` at x in [low, high], the short one for float32."""
    t = (x - (low + high) / 2) * (2 / (high - low))
    return polynomial(t, table[0 if x.dtype is float32 else 1])


def series(z: Any, term: Callable[[int], float], short: int, long: int) -> Any:
    """Return Σ term(k) zᵏ with the number of terms that float32 or float64 needs."""
    count = short if z.dtype is float32 else long
    return polynomial(z, [term(k) for k in range(count)])


def minus_root(x: Any, root: float, low: float) -> Any:
    """Return x − (root + low), also close to that root; ``low`` is what float64 rounds off."""
    head = float(np.float32(root)) if x.dtype is float32 else root
    return (x - head) - ((root - head) + low)


def harmonic(n: int) -> float:
    """Return 1 + 1/2 + … + 1/n."""
    return math.fsum(1 / k for k in range(1, n + 1))


def stirling(x: Any) -> Any:
    """Return log Γ(x) − (x − ½) log x + x − ½ log 2π for x of at least 8."""
    inverse = 1 / x
    return polynomial(inverse * inverse, STIRLING) * inverse


def infinite(x: Any) -> Any:
    """Return where x is ∞ or −∞."""
    return e.isinf(x)


def nan(x: Any) -> Any:
    """Return NaN in the shape of x."""
    return fill(x, math.nan)


def slope_over(y: Any, x: Any) -> Any:
    """Return y / x of an odd function y = x / 2 + … of x, and ½ at 0."""
    zero = e.equal(x, fill(x, 0))
    return e.where(zero, fill(x, 0.5), y / e.where(zero, fill(x, 1), x))


def floating(x: Any) -> Any:
    """Return integers and booleans in the default floating dtype, anything else as it is."""
    return e.cast(x, dtype=dtypes.default_float()) if x.dtype.kind in ("int", "uint", "bool") else x
