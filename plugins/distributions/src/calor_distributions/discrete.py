"""Distributions of whole numbers and of categories."""

from __future__ import annotations

import math
from typing import Any

import calor
from calor import special
from calor.errors import ShapeError
from calor.random.generator import Shape
from calor.tensor.tensor import Tensor
from calor_distributions.distribution import (
    Distribution,
    check_event,
    inside,
    one_of,
    parameters,
)


def _whole(value: Tensor) -> tuple[Tensor, Tensor]:
    """Return a value as floating tensor, and where it is a whole number of at least 0."""
    (value,) = parameters(value)
    return value, calor.logical_and(value >= 0, value == calor.floor(value))


def _times(count: Any, cost: Tensor) -> Tensor:
    """Return count · cost, in which nothing costs nothing, however much one would."""
    nothing = calor.logical_and(count == 0, cost == math.inf)
    made: Tensor = count * calor.where(nothing, 0.0, cost)
    return made


class _Odds(Distribution):
    """A distribution with a probability, given as such or as its log-odds."""

    def __init__(self, name: str, probs: Any, logits: Any, *others: Any) -> None:
        given, self._by_logits = one_of(name, probs, logits)
        self._given, *self._others = parameters(given, *others)
        super().__init__(self._given.shape)

    @property
    def probs(self) -> Tensor:
        """The probability."""
        return calor.sigmoid(self._given) if self._by_logits else self._given

    @property
    def logits(self) -> Tensor:
        """The logarithm of the odds."""
        return self._given if self._by_logits else special.logit(self._given)

    def _weighted(self, hits: Any, misses: Any) -> Tensor:
        """Return hits · log p + misses · log (1 − p), where 0 · log 0 is 0."""
        if self._by_logits:
            made: Tensor = _times(hits, calor.softplus(-self._given))
            return -(made + _times(misses, calor.softplus(self._given)))
        return special.xlogy(hits, self._given) + special.xlog1py(misses, -self._given)


class Bernoulli(_Odds):
    """The distribution of 0 and 1.

    Parameters
    ----------
    probs : float or Tensor, optional
        The probability of 1.
    logits : float or Tensor, optional
        The logarithm of its odds; one of the two.

    Raises
    ------
    ArgumentError
        If both or none is given.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Bernoulli(0.25).log_prob(1.0).exp().item()
    0.25
    """

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        super().__init__("Bernoulli", probs, logits)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        p = self.probs
        unit = calor.random.uniform(
            self._shape(sample_shape), dtype=p.dtype, device=p.device, **stream
        )
        return (unit < p).astype(p.dtype)

    def log_prob(self, value: Any) -> Tensor:
        value, whole = _whole(self._value(value))
        return inside(calor.logical_and(whole, value <= 1), self._weighted(value, 1 - value))

    def entropy(self) -> Tensor:
        p = self.probs
        return -self._weighted(p, 1 - p)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return (self.probs > 0.5).astype(self._given.dtype)

    @property
    def variance(self) -> Tensor:
        p = self.probs
        return p * (1 - p)


class Binomial(_Odds):
    """The distribution of how many of several trials succeed.

    Parameters
    ----------
    total_count : int or Tensor, optional
        The number of trials. By default 1.
    probs : float or Tensor, optional
        The probability of success.
    logits : float or Tensor, optional
        The logarithm of its odds; one of the two.

    Raises
    ------
    ArgumentError
        If both or none of the two is given.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Binomial(8, 0.25).mean.item()
    2.0
    """

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None) -> None:
        super().__init__("Binomial", probs, logits, total_count)
        (self.total_count,) = self._others

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return calor.random.binomial(
            self._shape(sample_shape), self.total_count, self.probs,
            dtype=self._given.dtype, device=self._given.device, **stream,
        )  # fmt: skip

    def log_prob(self, value: Any) -> Tensor:
        value, whole = _whole(self._value(value))
        held = calor.logical_and(whole, value <= self.total_count)
        safe = calor.where(held, value, 0.0)
        rest = self.total_count - safe
        # C(n, k) is 1 / ((n + 1) B(k + 1, n − k + 1)).
        ways = -special.betaln(safe + 1, rest + 1) - calor.log(self.total_count + 1)
        return inside(held, ways + self._weighted(safe, rest))

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return calor.minimum(calor.floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self) -> Tensor:
        p = self.probs
        return self.total_count * p * (1 - p)


class Geometric(_Odds):
    """The distribution of the number of failures before the first success.

    Parameters
    ----------
    probs : float or Tensor, optional
        The probability of success.
    logits : float or Tensor, optional
        The logarithm of its odds; one of the two.

    Raises
    ------
    ArgumentError
        If both or none is given.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Geometric(0.25).mean.item()
    3.0
    """

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        super().__init__("Geometric", probs, logits)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        drawn = calor.random.geometric(
            self._shape(sample_shape), self.probs,
            dtype=self._given.dtype, device=self._given.device, **stream,
        )  # fmt: skip
        return drawn - 1

    def log_prob(self, value: Any) -> Tensor:
        value, whole = _whole(self._value(value))
        return inside(whole, self._weighted(calor.ones_like(value), value))

    def entropy(self) -> Tensor:
        p = self.probs
        return -self._weighted(p, 1 - p) / p

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return calor.zeros_like(self._given)

    @property
    def variance(self) -> Tensor:
        p = self.probs
        return (1 / p - 1) / p


class NegativeBinomial(_Odds):
    """The distribution of the number of successes before a number of failures.

    Parameters
    ----------
    total_count : float or Tensor
        The number of failures, positive.
    probs : float or Tensor, optional
        The probability of success.
    logits : float or Tensor, optional
        The logarithm of its odds; one of the two.

    Raises
    ------
    ArgumentError
        If both or none of the two is given.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.NegativeBinomial(3.0, 0.5).mean.item()
    3.0
    """

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None) -> None:
        super().__init__("NegativeBinomial", probs, logits, total_count)
        (self.total_count,) = self._others

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        shape, like = self._shape(sample_shape), self._given
        streams = [stream, stream]
        if stream.get("key") is not None:
            streams = [{**stream, "key": k} for k in calor.random.split(stream["key"])]
        rate = calor.random.gamma(
            shape, self.total_count, dtype=like.dtype, device=like.device, **streams[0]
        )
        rate = rate * calor.exp(self.logits)
        return calor.random.poisson(shape, rate, dtype=like.dtype, device=like.device, **streams[1])

    def log_prob(self, value: Any) -> Tensor:
        value, whole = _whole(self._value(value))
        safe = calor.where(whole, value, 0.0)
        n = self.total_count
        ways = -special.betaln(safe + 1, n) - calor.log(safe + n)
        return inside(whole, ways + self._weighted(safe, n))

    @property
    def mean(self) -> Tensor:
        return self.total_count * calor.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return calor.maximum(calor.floor((self.total_count - 1) * calor.exp(self.logits)), 0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (1 - self.probs)


class Poisson(Distribution):
    """Poisson's distribution.

    Parameters
    ----------
    rate : float or Tensor
        The mean, at least 0.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Poisson(4.0).variance.item()
    4.0
    """

    def __init__(self, rate: Any) -> None:
        (self.rate,) = parameters(rate)
        super().__init__(self.rate.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return calor.random.poisson(
            self._shape(sample_shape), self.rate,
            dtype=self.rate.dtype, device=self.rate.device, **stream,
        )  # fmt: skip

    def log_prob(self, value: Any) -> Tensor:
        value, whole = _whole(self._value(value))
        safe = calor.where(whole, value, 0.0)
        return inside(whole, special.xlogy(safe, self.rate) - self.rate - calor.lgamma(safe + 1))

    def cdf(self, value: Any) -> Tensor:
        value = calor.floor(self._value(value))
        held = value >= 0
        return inside(held, special.gammaincc(calor.where(held, value, 0.0) + 1, self.rate), 0.0)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return calor.floor(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate


class Categorical(Distribution):
    """The distribution of an index among several.

    Parameters
    ----------
    probs : Tensor, optional
        Weights of shape (..., K), which are divided by their sum.
    logits : Tensor, optional
        Logarithms of weights; one of the two.

    Raises
    ------
    ArgumentError
        If both or none is given.
    ShapeError
        If the weights have no axis.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Categorical(calor.asarray([1.0, 3.0])).probs.tolist()
    [0.25, 0.75]
    """

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        given, self._by_logits = one_of("Categorical", probs, logits)
        (self._given,) = parameters(given)
        if not self._given.ndim:
            raise ShapeError("Categorical: weights have no axis; pass shape (..., K)")
        super().__init__(self._given.shape[:-1])

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        if self._by_logits:
            return calor.softmax(self._given, axis=-1)
        return self._given / calor.sum(self._given, axis=-1, keepdims=True)

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        if self._by_logits:
            return calor.log_softmax(self._given, axis=-1)
        return calor.log(self.probs)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        wide = calor.broadcast_to(self.logits, (*self._shape(sample_shape), self._given.shape[-1]))
        return calor.random.categorical(wide, **stream)

    def log_prob(self, value: Any) -> Tensor:
        index = self._value(value).astype("int64")
        shape = calor.broadcast_shapes(index.shape, self.batch_shape)
        table = calor.broadcast_to(self.logits, (*shape, self._given.shape[-1]))
        index = calor.broadcast_to(index, shape)[..., None]
        return calor.take_along_axis(table, index, axis=-1)[..., 0]

    def entropy(self) -> Tensor:
        return calor.sum(special.entr(self.probs), axis=-1)

    @property
    def mean(self) -> Tensor:
        return calor.full_like(self._given[..., 0], calor.nan)

    @property
    def mode(self) -> Tensor:
        return calor.argmax(self._given, axis=-1)

    @property
    def variance(self) -> Tensor:
        return calor.full_like(self._given[..., 0], calor.nan)


class OneHotCategorical(Distribution):
    """The distribution of a vector with one 1, at an index among several.

    Parameters
    ----------
    probs : Tensor, optional
        Weights of shape (..., K), which are divided by their sum.
    logits : Tensor, optional
        Logarithms of weights; one of the two.

    Raises
    ------
    ArgumentError
        If both or none is given.
    ShapeError
        If the weights have no axis.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.OneHotCategorical(calor.asarray([0.0, 1.0])).sample().tolist()
    [0.0, 1.0]
    """

    def __init__(self, probs: Any = None, logits: Any = None) -> None:
        self._base = Categorical(probs, logits)
        super().__init__(self._base.batch_shape, self._base._given.shape[-1:])

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._base.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._base.logits

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        index = self._base._draw(sample_shape, **stream)
        places = calor.arange(self.event_shape[0], device=index.device)
        return (index[..., None] == places).astype(self._base._given.dtype)

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        check_event("OneHotCategorical", value, self.event_shape)
        return self._base.log_prob(calor.argmax(value, axis=-1))

    def entropy(self) -> Tensor:
        return self._base.entropy()

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        places = calor.arange(self.event_shape[0], device=self._base._given.device)
        return (self._base.mode[..., None] == places).astype(self._base._given.dtype)

    @property
    def variance(self) -> Tensor:
        p = self.probs
        return p * (1 - p)


class Multinomial(Distribution):
    """The distribution of how often each index comes in several draws.

    Parameters
    ----------
    total_count : int, optional
        The number of draws. By default 1.
    probs : Tensor, optional
        Weights of shape (..., K), which are divided by their sum.
    logits : Tensor, optional
        Logarithms of weights; one of the two.

    Raises
    ------
    ArgumentError
        If both or none of the two is given.
    ShapeError
        If the weights have no axis.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Multinomial(4, calor.asarray([1.0, 3.0])).mean.tolist()
    [1.0, 3.0]
    """

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None) -> None:
        self.total_count = int(total_count)
        self._base = Categorical(probs, logits)
        super().__init__(self._base.batch_shape, self._base._given.shape[-1:])

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._base.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._base.logits

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        wide = self._shape(sample_shape)
        index = self._base._draw(
            (self.total_count, *wide[: len(wide) - 1 - len(self.batch_shape)]), **stream
        )
        places = calor.arange(self.event_shape[0], device=index.device)
        return calor.sum((index[..., None] == places).astype(self._base._given.dtype), axis=0)

    def log_prob(self, value: Any) -> Tensor:
        (value,) = parameters(self._value(value))
        check_event("Multinomial", value, self.event_shape)
        ways = calor.lgamma(calor.sum(value, axis=-1) + 1) - calor.sum(
            calor.lgamma(value + 1), axis=-1
        )
        logits = self.logits
        never = calor.logical_and(value == 0, logits == -calor.inf)
        return ways + calor.sum(calor.where(never, 0.0, value * logits), axis=-1)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        p = self.probs
        return p * (1 - p) * self.total_count
