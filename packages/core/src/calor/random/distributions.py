"""Numbers of distributions, made of random bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calor import dtypes
from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, DTypeError
from calor.functions.conversion import astype
from calor.ops import elementwise as e
from calor.ops import reductions
from calor.random.generator import Generator, Shape, bits

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


# Bits drawn and bits kept for a uniform number of each type: as many as its significand has.
_UNIFORM = {
    dtypes.float16: (16, 11),
    dtypes.bfloat16: (16, 8),
    dtypes.float32: (32, 24),
    dtypes.float64: (64, 53),
}


def _float_type(dtype: Any) -> DType:
    known = dtypes.DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if known not in _UNIFORM:
        raise DTypeError(f"random numbers are real floating, not {known.name}")
    return known


def uniform(
    shape: Shape = (),
    low: Any = 0.0,
    high: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers uniform in [low, high), evenly spaced as finely as the type's significand.

    >>> import calor
    >>> x = calor.random.uniform((1000,), key=calor.random.key(0))
    >>> bool(calor.all(x >= 0)), bool(calor.all(x < 1))
    (True, True)
    """
    known = _float_type(dtype)
    width, kept = _UNIFORM[known]
    drawn = bits(shape, width=width, key=key, generator=generator, device=device)
    unit = astype(drawn >> (width - kept), known) * 2.0**-kept
    if type(low) is float and type(high) is float and low == 0.0 and high == 1.0:
        return unit
    made: Tensor = unit * (high - low) + low
    return made


def normal(
    shape: Shape = (),
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return normally distributed numbers, by the inverse of the distribution function.

    >>> import calor
    >>> x = calor.random.normal((10000,), key=calor.random.key(0))
    >>> abs(x.mean().item()) < 0.05
    True
    """
    known = _float_type(dtype)
    unit = _open_unit(shape, known, key, generator, device)
    made = e.erfinv(unit) * math.sqrt(2.0)
    if type(mean) is float and type(std) is float and mean == 0.0 and std == 1.0:
        return made  # type: ignore[no-any-return]
    return made * std + mean  # type: ignore[no-any-return]


def _open_unit(shape: Shape, known: DType, key: Any, generator: Any, device: Any) -> Any:
    """Return numbers uniform in (−1, 1), both ends excluded."""
    width, kept = _UNIFORM[known]
    drawn = bits(shape, width=width, key=key, generator=generator, device=device)
    # Odd multiples of half a step: symmetric, and never 0 or ±1.
    kept -= 1
    return astype(drawn >> (width - kept), known) * 2.0 ** (1 - kept) + (2.0**-kept - 1.0)


def truncated_normal(
    shape: Shape = (),
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return normal numbers cut at ``mean + low·std`` and ``mean + high·std``."""
    known = _float_type(dtype)
    if not low < high:
        raise ArgumentError(f"truncated_normal: low {low} is not below high {high}")
    a, b = math.erf(low / math.sqrt(2.0)), math.erf(high / math.sqrt(2.0))
    unit = (_open_unit(shape, known, key, generator, device) + 1.0) * (0.5 * (b - a)) + a
    x = e.erfinv(unit) * math.sqrt(2.0)
    x = e.where(x < low, x - x + low, e.where(x > high, x - x + high, x))
    return x * std + mean  # type: ignore[no-any-return]


def integers(
    low: int,
    high: int | None = None,
    shape: Shape = (),
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return integers of [low, high), or [0, low) when ``high`` is None.

    The bias is below (high − low) / 2⁶⁴, and below (high − low) / 2³² for ranges under 2¹⁶.
    """
    if high is None:
        low, high = 0, low
    known = dtypes.DEFAULT_INT if dtype is None else as_dtype(dtype)
    span = high - low
    if span <= 0:
        raise ArgumentError(f"integers: the range [{low}, {high}) is empty")
    width = 32 if span < 1 << 16 else 64
    drawn = bits(shape, width=width, key=key, generator=generator, device=device) % span
    return astype(astype(drawn, dtypes.int64) + low, known)


def bernoulli(
    shape: Shape = (),
    p: Any = 0.5,
    *,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return truth values that are True with probability ``p``."""
    made: Tensor = uniform(shape, key=key, generator=generator, device=device) < p
    return made


def exponential(
    shape: Shape = (),
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return exponentially distributed numbers with mean ``scale``."""
    unit = uniform(shape, dtype=dtype, key=key, generator=generator, device=device)
    return -e.log1p(-unit) * scale  # type: ignore[no-any-return]


def gumbel(
    shape: Shape = (),
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return standard Gumbel numbers, −log(−log u)."""
    known = _float_type(dtype)
    unit = (_open_unit(shape, known, key, generator, device) + 1.0) * 0.5
    return -e.log(-e.log(unit))  # type: ignore[no-any-return]


def categorical(
    logits: Tensor,
    *,
    axis: int = -1,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return indices drawn with probabilities softmax(logits) along an axis (Gumbel maximum)."""
    axis = axis % logits.ndim
    noise = gumbel(
        logits.shape, dtype=logits.dtype, key=key, generator=generator, device=logits.device
    )
    made: Tensor = reductions.argmax(logits + noise, axis=axis)
    return made
