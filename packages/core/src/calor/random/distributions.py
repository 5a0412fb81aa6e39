"""Numbers of distributions, made of random bits."""

from __future__ import annotations

import math
from typing import Any

from calor import dtypes
from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError
from calor.functions.arguments import integer, one_axis
from calor.functions.conversion import astype
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.ops import reductions
from calor.random import from_bits
from calor.random.generator import Generator, Shape, bits
from calor.random.parameters import within
from calor.tensor.tensor import Tensor


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
    """Return numbers uniform in [low, high).

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    low : float or Tensor, optional
        The lower end, which can occur. By default 0. Tensors broadcast with ``shape``.
    high : float or Tensor, optional
        The upper end, which cannot. By default 1.
    dtype : DType or str, optional
        One of float16, bfloat16, float32 (the default) and float64. The values are evenly spaced,
        and there are 2¹¹, 2⁸, 2²⁴ or 2⁵³ of them.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape and dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.uniform((1000,), key=calor.random.key(0))
    >>> bool(calor.all(x >= 0)), bool(calor.all(x < 1))
    (True, True)
    """
    known = from_bits.float_type(dtype)
    drawn = bits(shape, width=from_bits.width(known), key=key, generator=generator, device=device)
    return from_bits.uniform(drawn, known, low, high)


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
    """Return normally distributed numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    mean : float or Tensor, optional
        The mean. By default 0. Tensors broadcast with ``shape``.
    std : float or Tensor, optional
        The standard deviation. By default 1.
    dtype : DType or str, optional
        One of float16, bfloat16, float32 (the default) and float64.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape and dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``.

    Notes
    -----
    The inverse of the distribution function is applied to uniform numbers, so the largest deviation
    depends on the dtype: about 5.4 standard deviations for float32.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.normal((10000,), key=calor.random.key(0))
    >>> abs(x.mean().item()) < 0.05
    True
    """
    within("normal: std", std)
    known = from_bits.float_type(dtype)
    drawn = bits(shape, width=from_bits.width(known), key=key, generator=generator, device=device)
    return from_bits.normal(drawn, known, mean, std)


def _open_unit(shape: Shape, known: DType, key: Any, generator: Any, device: Any) -> Tensor:
    """Return numbers uniform in (−1, 1), both ends excluded."""
    drawn = bits(shape, width=from_bits.width(known), key=key, generator=generator, device=device)
    return from_bits.open_unit(drawn, known)


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
    """Return normally distributed numbers restricted to an interval.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    mean : float or Tensor, optional
        The mean before truncation. By default 0.
    std : float or Tensor, optional
        The standard deviation before truncation. By default 1.
    low : float, optional
        The lower end, in standard deviations from the mean. By default −2.
    high : float, optional
        The upper end, in standard deviations from the mean. By default 2.
    dtype : DType or str, optional
        One of float16, bfloat16, float32 (the default) and float64.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape and dtype, within [mean + low · std, mean + high · std].

    Raises
    ------
    ArgumentError
        If ``low`` is not below ``high``, or both a key and a generator are given.
    DTypeError
        If ``dtype`` is not one of these.
    ShapeError
        If the key is not ``uint32[2]``.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.truncated_normal((1000,), low=-1.0, high=1.0, key=calor.random.key(0))
    >>> bool(calor.all(abs(x) <= 1))
    True
    """
    within("truncated_normal: std", std)
    known = from_bits.float_type(dtype)
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
    """Return integers uniform in [low, high).

    Parameters
    ----------
    low : int
        The lower end, which can occur; the upper end if ``high`` is left out, and then the lower
        one is 0.
    high : int, optional
        The upper end, which cannot occur. The range has at most 2⁶⁴ − 1 numbers.
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    dtype : DType or str, optional
        The dtype of the result. By default int64.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape and dtype.

    Raises
    ------
    ArgumentError
        If the range is empty, or both a key and a generator are given.
    DTypeError
        If ``dtype`` is unknown.
    OverflowError
        If the range has more than 2⁶⁴ − 1 numbers.
    ShapeError
        If the key is not ``uint32[2]``.

    Notes
    -----
    The bias is below (high − low) / 2⁶⁴, or (high − low) / 2³² for ranges of fewer than 2¹⁶
    numbers.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.integers(1, 7, (1000,), key=calor.random.key(0))
    >>> calor.unique_values(x).tolist()
    [1, 2, 3, 4, 5, 6]
    """
    if high is None:
        low, high = 0, low
    low, high = integer(low, "integers: low"), integer(high, "integers: high")
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
    """Return truth values that are True with a given probability.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    p : float or Tensor, optional
        The probability of True. By default 0.5. A tensor broadcasts with ``shape``.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        Dtype bool, the given shape.

    Raises
    ------
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.bernoulli((10000,), 0.25, key=calor.random.key(0))
    >>> abs(x.float().mean().item() - 0.25) < 0.02
    True
    """
    within("bernoulli: p", p, 0, 1)
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
    """Return exponentially distributed numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    scale : float or Tensor, optional
        The mean. By default 1. A tensor broadcasts with ``shape``.
    dtype : DType or str, optional
        One of float16, bfloat16, float32 (the default) and float64.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape and dtype; at least 0.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.exponential((10000,), 3.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 3.0) < 0.1
    True
    """
    within("exponential: scale", scale)
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
    """Return standard Gumbel numbers, −log(−log u) of uniform u.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result; by default a single number.
    dtype : DType or str, optional
        One of float16, bfloat16, float32 (the default) and float64.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.
    device : Device or str, optional
        Where the result is when no key is given. By default the current device.

    Returns
    -------
    Tensor
        The given shape and dtype; finite.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.gumbel((10000,), key=calor.random.key(0))
    >>> abs(x.mean().item() - 0.5772) < 0.05  # Euler's constant
    True
    """
    known = from_bits.float_type(dtype)
    unit = (_open_unit(shape, known, key, generator, device) + 1.0) * 0.5
    return -e.log(-e.log(unit))  # type: ignore[no-any-return]


def categorical(
    logits: Tensor,
    *,
    axis: int = -1,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    r"""Return indices drawn with probabilities softmax(logits) along an axis.

    Parameters
    ----------
    logits : Tensor
        Unnormalised log-probabilities; at least one axis, a real floating dtype.
    axis : int, optional
        The axis of the categories. By default the last.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.

    Returns
    -------
    Tensor
        Dtype int64, the shape of ``logits`` without the axis.

    Raises
    ------
    DTypeError
        If ``logits`` is not real floating.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    AxisError
        If ``logits`` has no such axis.
    ShapeError
        If the key is not ``uint32[2]``.

    Notes
    -----
    The index of the largest logit with Gumbel noise added has this distribution.

    References
    ----------
    Maddison, Tarlow and Minka, "A\* sampling", NeurIPS 2014.

    Examples
    --------
    >>> import calor
    >>> logits = calor.asarray([[0.0, -calor.inf], [-calor.inf, 0.0]])
    >>> calor.random.categorical(logits).tolist()
    [0, 1]
    """
    logits = as_tensor(logits)
    axis = one_axis(axis, logits.shape, "categorical")
    noise = gumbel(
        logits.shape, dtype=logits.dtype, key=key, generator=generator, device=logits.device
    )
    made: Tensor = reductions.argmax(logits + noise, axis=axis)
    return made
