"""Distributions of a time until something happens: their tails decide between them."""

from __future__ import annotations

from typing import Any

import calor
from calor.random.generator import Shape
from calor.tensor.tensor import Tensor
from calor_distributions.continuous import EULER, unit_numbers
from calor_distributions.distribution import Distribution, inside, parameters


class Exponential(Distribution):
    """The exponential distribution.

    Parameters
    ----------
    rate : float or Tensor
        One by the mean, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Exponential(4.0).mean.item()
    0.25
    """

    has_rsample = True

    def __init__(self, rate: Any) -> None:
        (self.rate,) = parameters(rate)
        super().__init__(self.rate.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return -calor.log(unit_numbers(self._shape(sample_shape), self.rate, stream)) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        return inside(value >= 0, calor.log(self.rate) - self.rate * value)

    def cdf(self, value: Any) -> Tensor:
        value = self._value(value)
        return inside(value >= 0, -calor.expm1(-self.rate * value), 0.0)

    def icdf(self, value: Any) -> Tensor:
        return -calor.log1p(-self._value(value)) / self.rate

    def entropy(self) -> Tensor:
        return 1 - calor.log(self.rate)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        return calor.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        return 1 / (self.rate * self.rate)


class Weibull(Distribution):
    """Weibull's distribution.

    Parameters
    ----------
    scale : float or Tensor
        The width, positive.
    concentration : float or Tensor
        The shape, positive; 1 is the exponential distribution.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Weibull(2.0, 1.0).icdf(0.0).item()
    0.0
    """

    has_rsample = True

    def __init__(self, scale: Any, concentration: Any) -> None:
        self.scale, self.concentration = parameters(scale, concentration)
        super().__init__(self.scale.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        unit = unit_numbers(self._shape(sample_shape), self.scale, stream)
        return self.scale * (-calor.log(unit)) ** (1 / self.concentration)

    def _power(self, value: Any) -> tuple[Tensor, Any, Tensor]:
        value = self._value(value)
        positive = value > 0
        z = calor.where(positive, value, self.scale) / self.scale
        return z**self.concentration, positive, calor.log(z)

    def log_prob(self, value: Any) -> Tensor:
        power, positive, logarithm = self._power(value)
        made = calor.log(self.concentration / self.scale) + (self.concentration - 1) * logarithm
        return inside(positive, made - power)

    def cdf(self, value: Any) -> Tensor:
        power, positive, _ = self._power(value)
        return inside(positive, -calor.expm1(-power), 0.0)

    def icdf(self, value: Any) -> Tensor:
        return self.scale * (-calor.log1p(-self._value(value))) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        inverse = 1 / self.concentration
        return (1 - inverse) * EULER + calor.log(self.scale * inverse) + 1

    @property
    def mean(self) -> Tensor:
        return self.scale * calor.exp(calor.lgamma(1 + 1 / self.concentration))

    @property
    def mode(self) -> Tensor:
        a = calor.maximum(self.concentration, 1.0)
        return self.scale * ((a - 1) / a) ** (1 / a)

    @property
    def variance(self) -> Tensor:
        inverse = 1 / self.concentration
        second = calor.exp(calor.lgamma(1 + 2 * inverse))
        return self.scale**2 * (second - calor.exp(calor.lgamma(1 + inverse) * 2))


class Pareto(Distribution):
    """Pareto's distribution.

    Parameters
    ----------
    scale : float or Tensor
        The smallest number, positive.
    alpha : float or Tensor
        The shape, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Pareto(1.0, 3.0).mean.item()
    1.5
    """

    has_rsample = True

    def __init__(self, scale: Any, alpha: Any) -> None:
        self.scale, self.alpha = parameters(scale, alpha)
        super().__init__(self.scale.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        unit = unit_numbers(self._shape(sample_shape), self.scale, stream)
        return self.scale * calor.exp(-calor.log(unit) / self.alpha)

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        held = value >= self.scale
        z = calor.where(held, value, self.scale)
        made = calor.log(self.alpha / self.scale) - (self.alpha + 1) * calor.log(z / self.scale)
        return inside(held, made)

    def cdf(self, value: Any) -> Tensor:
        z = calor.maximum(self._value(value) / self.scale, 1.0)
        return -calor.expm1(-self.alpha * calor.log(z))

    def icdf(self, value: Any) -> Tensor:
        return self.scale * calor.exp(-calor.log1p(-self._value(value)) / self.alpha)

    def entropy(self) -> Tensor:
        return calor.log(self.scale / self.alpha) + (1 + 1 / self.alpha)

    @property
    def mean(self) -> Tensor:
        known = self.alpha > 1
        safe = calor.where(known, self.alpha, 2.0)
        return inside(known, safe * self.scale / (safe - 1), calor.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        known = self.alpha > 2
        safe = calor.where(known, self.alpha, 3.0)
        made = self.scale**2 * safe / ((safe - 1) ** 2 * (safe - 2))
        return inside(known, made, calor.inf)
