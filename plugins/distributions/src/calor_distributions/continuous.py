"""Distributions of one number whose samples are functions of a uniform or a normal number."""

from __future__ import annotations

import math
from typing import Any

import calor
from calor import special
from calor.errors import ArgumentError
from calor.random.generator import Shape
from calor.tensor.tensor import Tensor
from calor_distributions.distribution import Distribution, inside, parameters

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
EULER = 0.5772156649015329


def unit_numbers(shape: tuple[int, ...], like: Tensor, stream: Any) -> Tensor:
    """Return uniform numbers in (0, 1], of which no logarithm is infinite."""
    drawn = calor.random.uniform(shape, dtype=like.dtype, device=like.device, **stream)
    return 1 - drawn


class _LocScale(Distribution):
    """A distribution of loc + scale · z, where z has no parameter."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = parameters(loc, scale)
        super().__init__(self.loc.shape)

    def _standard(self, value: Any) -> Tensor:
        made: Tensor = (self._value(value) - self.loc) / self.scale
        return made


class Normal(_LocScale):
    """The normal distribution.

    Parameters
    ----------
    loc : float or Tensor
        The mean.
    scale : float or Tensor
        The standard deviation, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Normal(0.0, 1.0).log_prob(0.0).item()
    -0.9189385175704956
    """

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        shape = self._shape(sample_shape)
        drawn = calor.random.normal(shape, dtype=self.loc.dtype, device=self.loc.device, **stream)
        return drawn * self.scale + self.loc

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        return z * z * -0.5 - calor.log(self.scale) - _HALF_LOG_TWO_PI

    def cdf(self, value: Any) -> Tensor:
        return special.ndtr(self._standard(value))

    def icdf(self, value: Any) -> Tensor:
        return special.ndtri(self._value(value)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return calor.log(self.scale) + (0.5 + _HALF_LOG_TWO_PI)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale


class LogNormal(_LocScale):
    """The distribution of a number whose logarithm is normal.

    Parameters
    ----------
    loc : float or Tensor
        The mean of the logarithm.
    scale : float or Tensor
        The standard deviation of the logarithm, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.LogNormal(0.0, 1.0).cdf(1.0).item()
    0.5
    """

    def __init__(self, loc: Any, scale: Any) -> None:
        super().__init__(loc, scale)
        self._base = Normal(self.loc, self.scale)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return calor.exp(self._base._draw(sample_shape, **stream))

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        positive = value > 0
        logarithm = calor.log(calor.where(positive, value, 1.0))
        return inside(positive, self._base.log_prob(logarithm) - logarithm)

    def cdf(self, value: Any) -> Tensor:
        value = self._value(value)
        positive = value > 0
        return inside(positive, self._base.cdf(calor.log(calor.where(positive, value, 1.0))), 0.0)

    def icdf(self, value: Any) -> Tensor:
        return calor.exp(self._base.icdf(value))

    def entropy(self) -> Tensor:
        return self._base.entropy() + self.loc

    @property
    def mean(self) -> Tensor:
        return calor.exp(self.loc + self.scale * self.scale * 0.5)

    @property
    def mode(self) -> Tensor:
        return calor.exp(self.loc - self.scale * self.scale)

    @property
    def variance(self) -> Tensor:
        square = self.scale * self.scale
        return calor.expm1(square) * calor.exp(self.loc * 2 + square)


class _Half(Distribution):
    """The magnitude of a number that is symmetric around 0."""

    has_rsample = True
    _of: type[_LocScale]

    def __init__(self, scale: Any) -> None:
        (self.scale,) = parameters(scale)
        super().__init__(self.scale.shape)
        self._base = self._of(0.0, self.scale)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return calor.abs(self._base._draw(sample_shape, **stream))

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        return inside(value >= 0, self._base.log_prob(value) + math.log(2))

    def cdf(self, value: Any) -> Tensor:
        value = self._value(value)
        return inside(value >= 0, self._unit_cdf(value / self.scale), 0.0)

    def icdf(self, value: Any) -> Tensor:
        return self._unit_icdf(self._value(value)) * self.scale

    def _unit_cdf(self, z: Tensor) -> Tensor:
        """Return the cdf for scale 1, which keeps its digits near 0."""
        raise NotImplementedError

    def _unit_icdf(self, p: Tensor) -> Tensor:
        """Return the quantile for scale 1, which keeps its digits near 0."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        return self._base.entropy() - math.log(2)

    @property
    def mode(self) -> Tensor:
        return calor.zeros_like(self.scale)


class HalfNormal(_Half):
    """The distribution of the magnitude of a normal number with mean 0.

    Parameters
    ----------
    scale : float or Tensor
        The standard deviation of the normal number, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.HalfNormal(1.0).cdf(0.0).item()
    0.0
    """

    _of = Normal

    def _unit_cdf(self, z: Tensor) -> Tensor:
        return calor.erf(z * math.sqrt(0.5))

    def _unit_icdf(self, p: Tensor) -> Tensor:
        return calor.erfinv(p) * math.sqrt(2)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale * (1 - 2 / math.pi)


class Cauchy(_LocScale):
    """Cauchy's distribution, which has no mean.

    Parameters
    ----------
    loc : float or Tensor
        The median.
    scale : float or Tensor
        Half the distance of the quartiles, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Cauchy(0.0, 1.0).cdf(0.0).item()
    0.5
    """

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        unit = unit_numbers(self._shape(sample_shape), self.loc, stream)
        return calor.tan((unit - 0.5) * math.pi) * self.scale + self.loc

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        return -calor.log1p(z * z) - calor.log(self.scale) - math.log(math.pi)

    def cdf(self, value: Any) -> Tensor:
        # A sum with 0.5 has no digits where the angle is near -π/2.
        return calor.atan2(1.0, -self._standard(value)) / math.pi

    def icdf(self, value: Any) -> Tensor:
        value = self._value(value)
        low = value < 0.5
        tail = calor.where(low, value, 1 - value) * math.pi
        far = calor.where(low, -1.0, 1.0) / calor.tan(tail)
        near = calor.tan((value - 0.5) * math.pi)
        return calor.where(tail < 0.25 * math.pi, far, near) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return calor.log(self.scale) + math.log(4 * math.pi)

    @property
    def mean(self) -> Tensor:
        return calor.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return calor.full_like(self.loc, math.inf)


class HalfCauchy(_Half):
    """The distribution of the magnitude of a Cauchy number with median 0.

    Parameters
    ----------
    scale : float or Tensor
        The median, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.HalfCauchy(1.0).cdf(0.0).item()
    0.0
    """

    _of = Cauchy

    def _unit_cdf(self, z: Tensor) -> Tensor:
        return calor.atan(z) * (2 / math.pi)

    def _unit_icdf(self, p: Tensor) -> Tensor:
        low = p < 0.5
        tangent = calor.tan(calor.where(low, p, 1 - p) * (math.pi / 2))
        return calor.where(low, tangent, 1 / tangent)

    @property
    def mean(self) -> Tensor:
        return calor.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return calor.full_like(self.scale, math.inf)


class Laplace(_LocScale):
    """Laplace's distribution, with exponential tails on both sides.

    Parameters
    ----------
    loc : float or Tensor
        The mean.
    scale : float or Tensor
        The mean distance from it, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Laplace(0.0, 1.0).cdf(0.0).item()
    0.5
    """

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        unit = unit_numbers(self._shape(sample_shape), self.loc, stream) - 0.5
        # 1 − 2 |u| is 0 at the end that can occur.
        tail = calor.log1p(calor.maximum(calor.abs(unit) * -2, -1 + calor.finfo(unit.dtype).eps))
        return self.loc - self.scale * calor.sign(unit) * tail

    def log_prob(self, value: Any) -> Tensor:
        return -calor.abs(self._standard(value)) - calor.log(self.scale * 2)

    def cdf(self, value: Any) -> Tensor:
        z = self._standard(value)
        left = z < 0
        tail = calor.exp(calor.where(left, z, -z)) * 0.5
        return calor.where(left, tail, 1 - tail)

    def icdf(self, value: Any) -> Tensor:
        value = self._value(value)
        low = value < 0.5
        tail = calor.log(calor.where(low, value, 1 - value) * 2)
        return self.loc + self.scale * calor.where(low, tail, -tail)

    def entropy(self) -> Tensor:
        return calor.log(self.scale * 2) + 1

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale * 2


class Gumbel(_LocScale):
    """Gumbel's distribution of extremes.

    Parameters
    ----------
    loc : float or Tensor
        The mode.
    scale : float or Tensor
        The width, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Gumbel(0.0, 1.0).mode.item()
    0.0
    """

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        drawn = calor.random.gumbel(
            self._shape(sample_shape),
            dtype=self.loc.dtype,
            device=self.loc.device,
            **stream,
        )
        return drawn * self.scale + self.loc

    def log_prob(self, value: Any) -> Tensor:
        z = self._standard(value)
        return -z - calor.exp(-z) - calor.log(self.scale)

    def cdf(self, value: Any) -> Tensor:
        return calor.exp(-calor.exp(-self._standard(value)))

    def icdf(self, value: Any) -> Tensor:
        return self.loc - self.scale * calor.log(-calor.log(self._value(value)))

    def entropy(self) -> Tensor:
        return calor.log(self.scale) + (1 + EULER)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale * (math.pi**2 / 6)


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    Parameters
    ----------
    low : float or Tensor
        The lower end.
    high : float or Tensor
        The upper end, above it.

    Raises
    ------
    ArgumentError
        If both ends are numbers, and the upper is not above the lower.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Uniform(0.0, 2.0).cdf(0.5).item()
    0.25
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any) -> None:
        if isinstance(low, int | float) and isinstance(high, int | float) and not low < high:
            raise ArgumentError(f"Uniform: low {low} is not below high {high}")
        self.low, self.high = parameters(low, high)
        super().__init__(self.low.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        drawn = calor.random.uniform(
            self._shape(sample_shape),
            dtype=self.low.dtype,
            device=self.low.device,
            **stream,
        )
        return drawn * (self.high - self.low) + self.low

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        held = calor.logical_and(value >= self.low, value < self.high)
        return inside(held, -calor.log(self.high - self.low))

    def cdf(self, value: Any) -> Tensor:
        value = self._value(value)
        return calor.clip((value - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value: Any) -> Tensor:
        made: Tensor = self._value(value) * (self.high - self.low) + self.low
        return made

    def entropy(self) -> Tensor:
        return calor.log(self.high - self.low)

    @property
    def mean(self) -> Tensor:
        return (self.low + self.high) * 0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12
