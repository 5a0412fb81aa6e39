"""Numbers whose distribution function is inverted: one uniform number makes one number."""

from __future__ import annotations

import math
from typing import Any

from calor.dtypes import DType
from calor.functions.conversion import astype
from calor.ops import elementwise as e
from calor.random.generator import Generator, Shape
from calor.random.parameters import within
from calor.tensor.tensor import Tensor
from calor_numerics.random.draws import Source, real, whole
from calor_numerics.random.rejection import log_gamma_numbers


def _drawn(
    name: str, shape: Shape, values: tuple[Any, ...], dtype: Any, source: Source
) -> tuple[Any, list[Any], DType]:
    """Return uniform numbers in (0, 1), the parameters in their shape, and the dtype asked for."""
    stream, given, known = real(name, shape, values, dtype, source)
    return stream.unit(stream.counter, given[0].shape, given[0].dtype)[0], given, known


def laplace(
    shape: Shape = (),
    loc: Any = 0.0,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers of Laplace's double exponential distribution.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    loc : float or Tensor, optional
        The median. By default 0.
    scale : float or Tensor, optional
        The width. By default 1.
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
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.laplace((10000,), 1.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 1.0) < 0.1
    True
    """
    within("laplace: scale", scale)
    u, (loc, scale), known = _drawn("laplace", shape, (loc, scale), dtype, (key, generator, device))
    return astype(loc - scale * e.sign(u - 0.5) * e.log1p(-e.abs(u - 0.5) * 2), known)


def cauchy(
    shape: Shape = (),
    loc: Any = 0.0,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers of Cauchy's distribution, which has no mean.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    loc : float or Tensor, optional
        The median. By default 0.
    scale : float or Tensor, optional
        The width. By default 1.
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
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.cauchy((10001,), 1.0, key=calor.random.key(0))
    >>> abs(calor.median(x).item() - 1.0) < 0.1
    True
    """
    within("cauchy: scale", scale)
    u, (loc, scale), known = _drawn("cauchy", shape, (loc, scale), dtype, (key, generator, device))
    return astype(loc + scale * e.tan((u - 0.5) * math.pi), known)


def logistic(
    shape: Shape = (),
    loc: Any = 0.0,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers of the logistic distribution.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    loc : float or Tensor, optional
        The median. By default 0.
    scale : float or Tensor, optional
        The width. By default 1.
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
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.logistic((10000,), 1.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 1.0) < 0.1
    True
    """
    within("logistic: scale", scale)
    u, (loc, scale), known = _drawn(
        "logistic", shape, (loc, scale), dtype, (key, generator, device)
    )
    return astype(loc + scale * (e.log(u) - e.log1p(-u)), known)


def weibull(
    shape: Shape = (),
    scale: Any = 1.0,
    concentration: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers of Weibull's distribution.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    scale : float or Tensor, optional
        The width. By default 1.
    concentration : float or Tensor, optional
        The shape of the distribution. By default 1.
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
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.weibull((10000,), 2.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 2.0) < 0.1
    True
    """
    within("weibull: scale", scale)
    within("weibull: concentration", concentration, above=True)
    u, (scale, concentration), known = _drawn(
        "weibull", shape, (scale, concentration), dtype, (key, generator, device)
    )
    return astype(scale * e.power(-e.log(u), 1 / concentration), known)


def pareto(
    shape: Shape = (),
    scale: Any = 1.0,
    alpha: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers of Pareto's distribution.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    scale : float or Tensor, optional
        The smallest number. By default 1.
    alpha : float or Tensor, optional
        The shape of the distribution. By default 1.
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
        The given shape and dtype; at least ``scale``.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.pareto((10000,), 2.0, 3.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 3.0) < 0.1
    True
    """
    within("pareto: scale", scale)
    within("pareto: alpha", alpha, above=True)
    u, (scale, alpha), known = _drawn(
        "pareto", shape, (scale, alpha), dtype, (key, generator, device)
    )
    return astype(scale * e.exp(-e.log(u) / alpha), known)


def log_normal(
    shape: Shape = (),
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers whose logarithm is normally distributed.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    mean : float or Tensor, optional
        The mean of the logarithm. By default 0.
    std : float or Tensor, optional
        The standard deviation of the logarithm. By default 1.
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
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.log_normal((10000,), key=calor.random.key(0))
    >>> abs(calor.log(x).mean().item()) < 0.05
    True
    """
    within("log_normal: std", std)
    source = (key, generator, device)
    stream, (center, width), known = real("log_normal", shape, (mean, std), dtype, source)
    drawn = stream.normal(stream.counter, center.shape, center.dtype)[0]
    return astype(e.exp(drawn * width + center), known)


def student_t(
    shape: Shape = (),
    df: Any = 1.0,
    loc: Any = 0.0,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return numbers of Student's t-distribution.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    df : float or Tensor, optional
        The degrees of freedom, positive. By default 1.
    loc : float or Tensor, optional
        The median. By default 0.
    scale : float or Tensor, optional
        The width. By default 1.
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
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.student_t((10000,), 5.0, key=calor.random.key(0))
    >>> abs(x.mean().item()) < 0.1
    True
    """
    within("student_t: df", df, above=True)
    within("student_t: scale", scale)
    values, source = (df, loc, scale), (key, generator, device)
    stream, (nu, center, width), known = real("student_t", shape, values, dtype, source)
    drawn, stream.counter = stream.normal(stream.counter, nu.shape, nu.dtype)
    half = nu * 0.5
    made = drawn * e.exp((e.log(half) - log_gamma_numbers(stream, half)[1]) * 0.5)
    return astype(made * width + center, known)


def geometric(
    shape: Shape = (),
    p: Any = 0.5,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return the number of the first trial that succeeds, at least 1.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    p : float or Tensor, optional
        The probability of success, above 0. By default 0.5.
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
        The given shape and dtype; at least 1.

    Raises
    ------
    DTypeError
        If ``dtype`` is unknown.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.geometric((10000,), 0.25, key=calor.random.key(0))
    >>> abs(x.float().mean().item() - 4.0) < 0.2
    True
    """
    within("geometric: p", p, 0, 1, above=True)
    stream, (chance,), known = whole("geometric", shape, (p,), dtype, (key, generator, device))
    u = stream.unit(stream.counter, chance.shape, chance.dtype)[0]
    made = e.maximum(e.ceil(e.log(u) / e.log1p(-chance)), u * 0 + 1)
    return astype(made, known)
