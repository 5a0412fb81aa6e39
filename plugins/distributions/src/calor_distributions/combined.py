"""Distributions made of others: independent axes, images under maps, mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import calor
from calor.errors import ArgumentError, ShapeError
from calor.random.generator import Shape
from calor.tensor.tensor import Tensor
from calor_distributions.discrete import Categorical
from calor_distributions.distribution import Distribution
from calor_distributions.transforms import ComposeTransform, Transform


def _summed(x: Tensor, count: int) -> Tensor:
    return calor.sum(x, axis=tuple(range(-count, 0))) if count else x


class Independent(Distribution):
    """A distribution whose last batch axes are axes of the event.

    Parameters
    ----------
    base_distribution : Distribution
        The distribution.
    reinterpreted_batch_ndims : int
        How many batch axes.

    Raises
    ------
    ArgumentError
        If the distribution has fewer batch axes.

    Examples
    --------
    >>> import calor
    >>> d = calor.distributions.Normal(calor.zeros(3), 1.0)
    >>> calor.distributions.Independent(d, 1).log_prob(calor.zeros(3)).shape
    ()
    """

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int) -> None:
        batch, count = base_distribution.batch_shape, reinterpreted_batch_ndims
        if not 0 <= count <= len(batch):
            raise ArgumentError(
                f"Independent: {count} of {len(batch)} batch axes; pass at most as many"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        kept = len(batch) - count
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether samples have gradients by the parameters."""
        return self.base_dist.has_rsample

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return self.base_dist._draw(sample_shape, **stream)

    def log_prob(self, value: Any) -> Tensor:
        return _summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class TransformedDistribution(Distribution):
    """The distribution of the image of a draw under a map.

    Parameters
    ----------
    base_distribution : Distribution
        The distribution of the draw.
    transforms : Transform or sequence of Transform
        The maps; the first is applied first.

    Examples
    --------
    >>> import calor
    >>> from calor import distributions as d
    >>> made = d.TransformedDistribution(d.Normal(0.0, 1.0), d.ExpTransform())
    >>> made.log_prob(1.0).item() == d.LogNormal(0.0, 1.0).log_prob(1.0).item()
    True
    """

    def __init__(
        self, base_distribution: Distribution, transforms: Transform | Sequence[Transform]
    ) -> None:
        parts = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.base_dist, self.transforms = base_distribution, parts
        self._map = ComposeTransform(parts)
        super().__init__(base_distribution.batch_shape, base_distribution.event_shape)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether samples have gradients by the parameters."""
        return self.base_dist.has_rsample

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return self._map(self.base_dist._draw(sample_shape, **stream))

    def log_prob(self, value: Any) -> Tensor:
        y = self._value(value)
        x = self._map.inverse(y)
        change = _summed(self._map.log_abs_det_jacobian(x, y), len(self.event_shape))
        return self.base_dist.log_prob(x) - change

    def _monotone(self, what: str) -> int:
        if not self._map.sign or self.event_shape:
            raise self._missing(f"{what}: its map is not known to be monotone")
        return self._map.sign

    def cdf(self, value: Any) -> Tensor:
        sign = self._monotone("cdf")
        made = self.base_dist.cdf(self._map.inverse(self._value(value)))
        return made if sign > 0 else 1 - made

    def icdf(self, value: Any) -> Tensor:
        sign = self._monotone("icdf")
        value = self._value(value)
        return self._map(self.base_dist.icdf(value if sign > 0 else 1 - value))


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family.

    Parameters
    ----------
    mixture_distribution : Categorical
        The weights of the components.
    component_distribution : Distribution
        The components, along the last batch axis.

    Raises
    ------
    ShapeError
        If the numbers of weights and components differ.

    Examples
    --------
    >>> import calor
    >>> from calor.distributions import Categorical, MixtureSameFamily, Normal
    >>> parts = Normal(calor.asarray([0.0, 4.0]), 1.0)
    >>> MixtureSameFamily(Categorical(calor.asarray([1.0, 3.0])), parts).mean.item()
    3.0
    """

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution
    ) -> None:
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        batch = component_distribution.batch_shape
        count = mixture_distribution.probs.shape[-1]
        if not batch or batch[-1] != count:
            raise ShapeError(
                f"MixtureSameFamily: {count} weights for components of batch shape {batch}; its "
                f"last size is their number"
            )
        super().__init__(batch[:-1], component_distribution.event_shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        streams = [stream, stream]
        if stream.get("key") is not None:
            streams = [{**stream, "key": k} for k in calor.random.split(stream["key"])]
        wide = self._shape(sample_shape)
        lead = wide[: len(wide) - len(self.event_shape)]
        extra = lead[: len(lead) - len(self.batch_shape)]
        weights = calor.broadcast_to(
            self.mixture_distribution.logits,
            (*lead, self.component_distribution.batch_shape[-1]),
        )
        index = calor.random.categorical(weights, **streams[0])
        parts = self.component_distribution._draw(extra, **streams[1])
        axis = len(lead)
        index = index.reshape((*lead, 1, *(1 for _ in self.event_shape)))
        index = calor.broadcast_to(index, (*lead, 1, *self.event_shape))
        return calor.squeeze(calor.take_along_axis(parts, index, axis=axis), axis=axis)

    def _inner(self, value: Any) -> Tensor:
        return calor.expand_dims(self._value(value), axis=-1 - len(self.event_shape))

    def log_prob(self, value: Any) -> Tensor:
        made = self.component_distribution.log_prob(self._inner(value))
        return calor.logsumexp(made + self.mixture_distribution.logits, axis=-1)

    def cdf(self, value: Any) -> Tensor:
        made = self.component_distribution.cdf(self._inner(value))
        return calor.sum(made * self.mixture_distribution.probs, axis=-1)

    def _weights(self) -> Tensor:
        weights = self.mixture_distribution.probs
        return weights.reshape((*weights.shape, *(1 for _ in self.event_shape)))

    @property
    def mean(self) -> Tensor:
        axis = -1 - len(self.event_shape)
        return calor.sum(self._weights() * self.component_distribution.mean, axis=axis)

    @property
    def variance(self) -> Tensor:
        axis, weights = -1 - len(self.event_shape), self._weights()
        means = self.component_distribution.mean
        center = calor.sum(weights * means, axis=axis, keepdims=True)
        spread = self.component_distribution.variance + (means - center) ** 2
        return calor.sum(weights * spread, axis=axis)
