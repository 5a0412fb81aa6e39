"""Numbers that are shares of a whole: beta, Dirichlet; and draws of several categories."""

from __future__ import annotations

from typing import Any

from calor.errors import ArgumentError, ShapeError
from calor.functions.arguments import integer
from calor.functions.conversion import astype
from calor.functions.operands import as_tensor
from calor.ops import elementwise as e
from calor.ops import indexing
from calor.ops import reductions as r
from calor.ops.composites import wide
from calor.ops.movement import expand, reshape, slice_
from calor.random.distributions import gumbel
from calor.random.generator import Generator, Shape, shape_of
from calor.random.parameters import within
from calor.tensor.tensor import Tensor
from calor_numerics.host_values import host_values
from calor_numerics.random.draws import real
from calor_numerics.random.rejection import log_gamma_numbers


def beta(
    shape: Shape = (),
    a: Any = 1.0,
    b: Any = 1.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return beta-distributed numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        The shape of the result, with which the parameters broadcast; by default theirs.
    a : float or Tensor, optional
        The first shape, positive. By default 1.
    b : float or Tensor, optional
        The second shape, positive. By default 1.
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
        The given shape and dtype; in [0, 1], and NaN for parameters out of range.

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
    >>> x = calor.random.beta((10000,), 2.0, 3.0, key=calor.random.key(0))
    >>> abs(x.mean().item() - 0.4) < 0.02
    True
    """
    within("beta: a", a, above=True)
    within("beta: b", b, above=True)
    stream, (x, y), known = real("beta", shape, (a, b), dtype, (key, generator, device))
    first, second = (log_gamma_numbers(stream, t)[1] for t in (x, y))
    # The share of the first, by the difference of logarithms, which do not underflow.
    return astype(1 / (e.exp(second - first) + 1), known)


def dirichlet(
    shape: Shape = (),
    concentration: Any = (1.0, 1.0),
    *,
    dtype: Any = None,
    key: Tensor | None = None,
    generator: Generator | None = None,
    device: Any = None,
) -> Tensor:
    """Return vectors of shares that add up to 1, of Dirichlet's distribution.

    Parameters
    ----------
    shape : int or tuple of int, optional
        How many vectors, and in which shape; the batch axes of ``concentration`` broadcast with it.
        By default these.
    concentration : Tensor or sequence of float, optional
        Positive numbers of shape (..., K), K at least 2. By default two ones.
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
        The given shape followed by K, and the given dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is not one of these.
    ArgumentError
        If a parameter that is a number is out of its range, or both a key and a generator are
        given.
    ShapeError
        If the key is not ``uint32[2]``, ``concentration`` has no axis, or the shapes do not
        broadcast.

    Examples
    --------
    >>> import calor
    >>> x = calor.random.dirichlet((1000,), [1.0, 2.0, 3.0], key=calor.random.key(0))
    >>> x.shape, calor.allclose(x.sum(axis=-1), 1.0)
    ((1000, 3), True)
    """
    if not isinstance(concentration, Tensor):
        concentration = host_values(concentration, "dirichlet: concentration")
    sizes = concentration.shape
    if not sizes:
        raise ShapeError("dirichlet: concentration is one number; pass one for each share")
    wanted, source = (*shape_of(shape), sizes[-1]), (key, generator, device)
    stream, (a,), known = real("dirichlet", wanted, (concentration,), dtype, source)
    logs = log_gamma_numbers(stream, a)[1]
    axes = (logs.ndim - 1,)
    largest = expand(r.max(logs, axes=axes).reshape(*logs.shape[:-1], 1), shape=logs.shape)
    shares: Any = e.exp(logs - largest)
    total = r.sum(shares, axes=axes, dtype=shares.dtype)
    total = expand(reshape(total, shape=(*logs.shape[:-1], 1)), shape=logs.shape)
    return astype(shares / total, known)


def multinomial(
    weights: Tensor,
    count: int,
    *,
    replace: bool = False,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Return indices drawn with probabilities in proportion to weights.

    Parameters
    ----------
    weights : Tensor
        Numbers of at least 0 along the last axis, shape (..., K); a real floating dtype.
    count : int
        How many indices of each row.
    replace : bool, optional
        Whether an index can be drawn more than once. By default False, as in PyTorch.
    key : Tensor, optional
        A key, ``uint32[2]``. The same key gives the same numbers. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one, which `seed` sets.

    Returns
    -------
    Tensor
        Dtype int64, shape (..., count). Without replacement a row with fewer positive weights than
        ``count`` has indices of weight 0 at its end.

    Raises
    ------
    ArgumentError
        If ``count`` is negative, or larger than K without replacement, or both a key and a
        generator are given.
    DTypeError
        If the weights are not real floating.
    ShapeError
        If the weights have no axis, or the key is not ``uint32[2]``.
    TypeError
        If ``count`` is no whole number.

    References
    ----------
    W. Kool, H. van Hoof and M. Welling, "Stochastic beams and where to find them: the Gumbel-top-k
    trick for sampling sequences without replacement", ICML 2019.

    Examples
    --------
    >>> import calor
    >>> sorted(calor.random.multinomial(calor.asarray([1.0, 0.0, 3.0]), 2).tolist())
    [0, 2]
    """
    weights = as_tensor(weights)
    if not weights.ndim:
        raise ShapeError("multinomial: weights have no axis; pass shape (..., K)")
    number = integer(count, "multinomial: count")
    size = weights.shape[-1]
    if number < 0 or (number > size and not replace):
        raise ArgumentError(
            f"multinomial: {number} of {size} indices; pass replace=True, or at most {size}"
        )
    logits: Any = e.log(wide(weights))
    options: dict[str, Any] = {"key": key, "generator": generator, "device": weights.device}
    lead = weights.shape[:-1]
    if replace:
        spread = expand(reshape(logits, shape=(*lead, 1, size)), shape=(*lead, number, size))
        noise = gumbel(spread.shape, dtype=logits.dtype, **options)
        return r.argmax(spread + noise, axis=spread.ndim - 1)  # type: ignore[no-any-return]
    # The largest logits with Gumbel noise are a draw without replacement.
    noisy = logits + gumbel(logits.shape, dtype=logits.dtype, **options)
    order = indexing.sort(noisy, axis=noisy.ndim - 1, descending=True)[1]
    stops, none = (*lead, number), (0,) * order.ndim
    return slice_(order, starts=none, stops=stops, steps=(1,) * order.ndim)  # type: ignore[no-any-return]
