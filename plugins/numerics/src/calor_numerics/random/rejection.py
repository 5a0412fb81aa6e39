"""Gamma, Poisson and binomial numbers, by proposals that are drawn again until all are accepted.

Requirements: exact distributions in every dtype that the parameters are computed in; one loop for
all elements, which ends when none is left. Round r of a draw takes the bits of its key at a counter
whose third word is r, so that no bits are used twice and rounds are the same on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from calor.functions.conversion import astype
from calor.ops import elementwise as e
from calor.ops import reductions
from calor.ops.movement import fill
from calor.random.generator import Generator, Shape
from calor.random.parameters import within
from calor.tensor.tensor import Tensor
from calor_numerics.random.draws import Stream, real, whole

_HALF_LOG_TWO_PI = 0.9189385332046727


def until_accepted(
    propose: Callable[[Any], tuple[Any, Any, Any]], stream: Stream, start: Any
) -> Any:
    """Return the first accepted proposal of each element.

    ``propose(counter)`` returns candidates, which of them are accepted, and the counter after.
    """
    from calor.transforms.control import while_loop

    axes = tuple(range(start.ndim))

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        value, waiting, counter = state
        candidate, accepted, counter = propose(counter)
        value = e.where(e.bit_and(waiting, accepted), candidate, value)
        return value, e.bit_and(waiting, e.bit_not(accepted)), counter

    def unfinished(state: tuple[Any, Any, Any]) -> Any:
        return reductions.any_(state[1], axes=axes)

    # Elements whose parameters are no numbers are not waited for.
    waiting = e.equal(start, start)
    return while_loop(unfinished, step, (start, waiting, stream.counter))


def log_gamma_numbers(stream: Stream, a: Any) -> tuple[Any, Any]:
    """Return gamma numbers of shape a and their logarithms, which do not underflow.

    G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM Transactions
    on Mathematical Software 26(3), 2000; shapes below 1 by a power of a uniform number.
    """
    known, shape = a.dtype, a.shape
    low = a < 1
    good = e.bit_and(a > 0, e.isfinite(a))
    d = e.where(good, e.where(low, a + 1, a), fill(a, 1)) - 1 / 3
    c = 1 / e.sqrt(d * 9)

    def propose(counter: Any) -> tuple[Any, Any, Any]:
        x, counter = stream.normal(counter, shape, known)
        u, counter = stream.unit(counter, shape, known)
        root = c * x + 1
        inside = root > 0
        v = e.where(inside, root, fill(root, 1))
        v = v * v * v
        bound = x * x * 0.5 + d * (1 - v + e.log(v))
        return d * v, e.bit_and(inside, e.log(u) < bound), counter

    value, _, counter = until_accepted(propose, stream, fill(a, 1))
    u, stream.counter = stream.unit(counter, shape, known)
    logarithm = e.log(value)
    turned = logarithm + e.log(u) / e.where(good, a, fill(a, 1))
    wrong = e.bit_not(good)
    nan = fill(a, math.nan)
    made = e.where(low, e.exp(turned), value)
    return e.where(wrong, nan, made), e.where(wrong, nan, e.where(low, turned, logarithm))


def _log_factorial_rest(k: Any) -> Any:
    """Return log k! − (k + ½) log(k + 1) + (k + 1) − ½ log 2π."""
    place = k + 1
    small = e.minimum(place, fill(place, 10))
    direct = e.lgamma(small) - (small - 0.5) * e.log(small) + small - _HALF_LOG_TWO_PI
    inverse = 1 / place
    square = inverse * inverse
    series = (1 / 12 - (1 / 360 - square * (1 / 1260)) * square) * inverse
    return e.where(place < 10, direct, series)


def _poisson(stream: Stream, rate: Any) -> Any:
    """Return Poisson numbers: by inversion for small rates, else by transformed rejection.

    W. Hörmann, "The transformed rejection method for generating Poisson random variables",
    Insurance: Mathematics and Economics 12(1), 1993.
    """
    from calor.transforms.control import while_loop

    known, shape = rate.dtype, rate.shape
    good = e.bit_and(rate >= 0, e.isfinite(rate))
    large = e.bit_and(good, rate >= 10)
    lam = e.where(large, rate, fill(rate, 10))
    root = e.sqrt(lam)
    b = root * 2.53 + 0.931
    a = b * 0.02483 - 0.059
    inverse = 1.1328 / (b - 3.4) + 1.1239
    edge = 0.9277 - 3.6224 / (b - 2)

    def propose(counter: Any) -> tuple[Any, Any, Any]:
        u, counter = stream.unit(counter, shape, known)
        v, counter = stream.unit(counter, shape, known)
        u = u - 0.5
        us = 0.5 - e.abs(u)
        k = e.floor((a * 2 / us + b) * u + lam + 0.43)
        early = e.bit_and(us >= 0.07, v <= edge)
        inside = e.bit_and(k >= 0, e.bit_or(us >= 0.013, v <= us))
        n = e.maximum(k, fill(k, 0))
        # The logarithm of the probability, without differences of large numbers.
        log_p = (n + 0.5) * e.log1p((lam - n - 1) / (n + 1)) - (lam - n - 1)
        log_p = log_p - e.log(lam) * 0.5 - _HALF_LOG_TWO_PI - _log_factorial_rest(n)
        wanted = e.log(v) + e.log(inverse) - e.log(a / (us * us) + b)
        return n, e.bit_or(early, e.bit_and(inside, wanted <= log_p)), counter

    # A start that is no number is not waited for.
    begin = e.where(large, fill(rate, 0), fill(rate, math.nan))
    found, _, counter = until_accepted(propose, stream, begin)
    lam = e.where(e.bit_and(good, e.bit_not(large)), rate, fill(rate, 1))
    u, _ = stream.unit(counter, shape, known)

    def unfinished(state: tuple[Any, ...]) -> Any:
        return reductions.any_(state[3], axes=tuple(range(rate.ndim)))

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        k, p, total, active = state
        k = e.where(active, k + 1, k)
        p = e.where(active, p * lam / e.maximum(k, fill(k, 1)), p)
        total = e.where(active, total + p, total)
        return k, p, total, e.bit_and(active, e.bit_and(u > total, k < 100))

    first = e.exp(-lam)
    small = while_loop(unfinished, step, (fill(rate, 0), first, first, u > first))[0]
    made = e.where(large, found, small)
    return e.where(good, made, fill(rate, math.nan))


def _binomial(stream: Stream, n: Any, p: Any) -> Any:
    """Return binomial numbers: by sums of geometric ones, else by transformed rejection.

    W. Hörmann, "The generation of binomial random variates", Journal of Statistical Computation and
    Simulation 46, 1993, algorithm BTRS.
    """
    from calor.transforms.control import while_loop

    known, shape = n.dtype, n.shape
    good = e.bit_and(e.bit_and(n >= 0, e.isfinite(n)), e.bit_and(p >= 0, p <= 1))
    turned = p > 0.5
    least = e.where(good, e.where(turned, 1 - p, p), fill(p, 0.5))
    trials = e.where(good, e.floor(n), fill(n, 0))
    large = trials * least >= 10
    count, q = e.where(large, trials, fill(n, 40)), e.where(large, least, fill(p, 0.5))
    deviation = e.sqrt(count * q * (1 - q))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 + q * 0.01 - 0.0873
    c = count * q + 0.5
    edge = 0.92 - 4.2 / b
    odds = q / (1 - q)
    alpha = (5.1 / b + 2.83) * deviation
    m = e.floor((count + 1) * q)
    rest_m = _log_factorial_rest(m) + _log_factorial_rest(count - m)

    def propose(counter: Any) -> tuple[Any, Any, Any]:
        u, counter = stream.unit(counter, shape, known)
        v, counter = stream.unit(counter, shape, known)
        u = u - 0.5
        us = 0.5 - e.abs(u)
        k = e.floor((a * 2 / us + b) * u + c)
        inside = e.bit_and(k >= 0, k <= count)
        early = e.bit_and(e.bit_and(us >= 0.07, v <= edge), inside)
        k = e.maximum(e.minimum(k, count), fill(k, 0))
        left = count - k + 1
        bound = (m + 0.5) * e.log((m + 1) / (odds * (count - m + 1)))
        bound = bound + (count + 1) * e.log((count - m + 1) / left)
        bound = bound + (k + 0.5) * e.log(odds * left / (k + 1))
        bound = bound + rest_m - _log_factorial_rest(k) - _log_factorial_rest(count - k)
        wanted = e.log(v * alpha / (a / (us * us) + b))
        return k, e.bit_or(early, e.bit_and(inside, wanted <= bound)), counter

    begin = e.where(large, fill(n, 0), fill(n, math.nan))
    found, _, counter = until_accepted(propose, stream, begin)
    rare = e.bit_and(e.bit_not(large), least > 0)
    few, q = e.where(rare, trials, fill(n, 0)), e.where(rare, least, fill(p, 0.5))
    rate = e.log1p(-q)

    def unfinished(state: tuple[Any, ...]) -> Any:
        return reductions.any_(state[0] <= few, axes=tuple(range(n.ndim)))

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        place, hits, counter = state
        u, counter = stream.unit(counter, shape, known)
        active = place <= few
        later = place + e.ceil(e.log(u) / rate)
        hits = e.where(e.bit_and(active, later <= few), hits + 1, hits)
        return e.where(active, later, place), hits, counter

    start = e.where(rare, fill(n, 0), fill(n, 1))
    small = while_loop(unfinished, step, (start, fill(n, 0), counter))[1]
    made = e.where(large, found, small)
    made = e.where(turned, trials - made, made)
    return e.where(good, made, fill(n, math.nan))


def gamma(
    shape: Shape = (),
    concentration: Any = 1.0,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return gamma-distributed numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    concentration : float or Tensor, optional
        The shape of the distribution, positive. By default 1.
    scale : float or Tensor, optional
        What the numbers are multiplied with. By default 1.
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
        The given shape and dtype; at least 0, and NaN for parameters out of range.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    References
    ----------
    G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM Transactions
    on Mathematical Software 26(3), 2000.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.gamma((10000,), 3.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 3.0) < 0.1
    True
    """
    within("gamma: concentration", concentration, above=True)
    within("gamma: scale", scale)
    values = (concentration, scale)
    stream, (a, factor), known = real("gamma", shape, values, dtype, (key, generator, device))
    return astype(log_gamma_numbers(stream, a)[0] * factor, known)


def poisson(
    shape: Shape = (),
    rate: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return Poisson-distributed numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    rate : float or Tensor, optional
        The mean, at least 0. By default 1.
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
        The given shape and dtype; at least 0. Rates out of range give NaN in a floating dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is unknown.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    References
    ----------
    W. Hörmann, "The transformed rejection method for generating Poisson random variables",
    Insurance: Mathematics and Economics 12(1), 1993.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.poisson((10000,), 4.0, key=calor.random.key(0))
    >>> abs(x.float().mean().item() - 4.0) < 0.1
    True
    """
    within("poisson: rate", rate)
    stream, (lam,), known = whole("poisson", shape, (rate,), dtype, (key, generator, device))
    return astype(_poisson(stream, lam), known)


def binomial(
    shape: Shape = (),
    n: Any = 1,
    p: Any = 0.5,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return how many of n trials succeed.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    n : float or Tensor, optional
        The number of trials, at least 0. By default 1.
    p : float or Tensor, optional
        The probability of success. By default 0.5.
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
        The given shape and dtype; 0 to n. Parameters out of range give NaN in a floating dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is unknown.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``, or the shapes do not broadcast.

    References
    ----------
    W. Hörmann, "The generation of binomial random variates", Journal of Statistical Computation
    and Simulation 46, 1993.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.binomial((10000,), 10, 0.3, key=calor.random.key(0))
    >>> abs(x.float().mean().item() - 3.0) < 0.1
    True
    """
    within("binomial: n", n)
    within("binomial: p", p, 0, 1)
    source = (key, generator, device)
    stream, (trials, chance), known = whole("binomial", shape, (n, p), dtype, source)
    return astype(_binomial(stream, trials, chance), known)
