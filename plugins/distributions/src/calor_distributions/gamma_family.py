"""Distributions made of gamma numbers, whose samples have gradients by implicit differentiation."""

from __future__ import annotations

import math
from typing import Any

import calor
from calor import special
from calor.errors import ShapeError
from calor.random.generator import Shape
from calor.tensor.tensor import Tensor
from calor_distributions.distribution import (
    REPARAMETRIZED,
    Distribution,
    check_event,
    inside,
    parameters,
)


def gamma_numbers(concentration: Tensor, shape: tuple[int, ...], stream: Any) -> Any:
    """Return standard gamma numbers with a gradient by the concentration.

    With P(a, x) the distribution function, dx/da is −∂P/∂a by the density (M. Figurnov, S. Mohamed
    and A. Mnih, "Implicit reparameterization gradients", NeurIPS 2018).
    """
    a = calor.stop_gradient(concentration)
    drawn = calor.random.gamma(shape, a, dtype=a.dtype, device=a.device, **stream)
    drawn = calor.stop_gradient(drawn)
    if not REPARAMETRIZED.get():
        return drawn
    log_density = special.xlogy(a - 1, drawn) - drawn - calor.lgamma(a)
    slope = -special.gammainc_slope(a, drawn) / calor.exp(log_density)
    slope = calor.stop_gradient(calor.where(calor.isfinite(slope), slope, 0.0))
    return drawn + slope * (concentration - a)


class Gamma(Distribution):
    """The gamma distribution.

    Parameters
    ----------
    concentration : float or Tensor
        The shape, positive.
    rate : float or Tensor
        One by the scale, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Gamma(2.0, 4.0).mean.item()
    0.5
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = parameters(concentration, rate)
        super().__init__(self.rate.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        drawn: Tensor = gamma_numbers(self.concentration, self._shape(sample_shape), stream)
        return drawn / self.rate

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        a = self.concentration
        made = special.xlogy(a, self.rate) + special.xlogy(a - 1, calor.maximum(value, 0.0))
        return inside(value >= 0, made - self.rate * value - calor.lgamma(a))

    def cdf(self, value: Any) -> Tensor:
        value = self._value(value)
        return special.gammainc(self.concentration, calor.maximum(value * self.rate, 0.0))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - calor.log(self.rate) + calor.lgamma(a) + (1 - a) * calor.digamma(a)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return calor.maximum((self.concentration - 1) / self.rate, 0.0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / (self.rate * self.rate)


class Chi2(Gamma):
    """The distribution of a sum of squares of normal numbers.

    Parameters
    ----------
    df : float or Tensor
        How many, the degrees of freedom.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Chi2(3.0).mean.item()
    3.0
    """

    def __init__(self, df: Any) -> None:
        (self.df,) = parameters(df)
        super().__init__(self.df * 0.5, 0.5)


class InverseGamma(Distribution):
    """The distribution of the reciprocal of a gamma number.

    Parameters
    ----------
    concentration : float or Tensor
        The shape, positive.
    rate : float or Tensor
        The scale of the reciprocal, positive.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.InverseGamma(3.0, 4.0).mean.item()
    2.0
    """

    has_rsample = True

    def __init__(self, concentration: Any, rate: Any) -> None:
        self.concentration, self.rate = parameters(concentration, rate)
        super().__init__(self.rate.shape)
        self._base = Gamma(self.concentration, self.rate)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return 1 / self._base._draw(sample_shape, **stream)

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        positive = value > 0
        inverse = 1 / calor.where(positive, value, 1.0)
        return inside(positive, self._base.log_prob(inverse) + calor.log(inverse) * 2)

    def cdf(self, value: Any) -> Tensor:
        value = self._value(value)
        positive = value > 0
        safe = calor.where(positive, value, 1.0)
        return inside(positive, special.gammaincc(self.concentration, self.rate / safe), 0.0)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + calor.log(self.rate) + calor.lgamma(a) - (1 + a) * calor.digamma(a)

    @property
    def mean(self) -> Tensor:
        known = self.concentration > 1
        return inside(
            known, self.rate / (calor.where(known, self.concentration, 2.0) - 1), math.inf
        )

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        known = self.concentration > 2
        a = calor.where(known, self.concentration, 3.0)
        return inside(known, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)


class Beta(Distribution):
    """The beta distribution, of a share in [0, 1].

    Parameters
    ----------
    concentration1 : float or Tensor
        The shape of the share, positive.
    concentration0 : float or Tensor
        The shape of the rest, positive.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Beta(1.0, 3.0).mean.item()
    0.25
    """

    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any) -> None:
        self.concentration1, self.concentration0 = parameters(concentration1, concentration0)
        super().__init__(self.concentration1.shape)
        self._pair = Dirichlet(calor.stack([self.concentration1, self.concentration0], axis=-1))

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        return self._pair._draw(sample_shape, **stream)[..., 0]

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        a, b = self.concentration1, self.concentration0
        safe = calor.clip(value, 0.0, 1.0)
        made = special.xlogy(a - 1, safe) + special.xlog1py(b - 1, -safe) - special.betaln(a, b)
        return inside(calor.logical_and(value >= 0, value <= 1), made)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        made = special.betaln(a, b) - (a - 1) * calor.digamma(a) - (b - 1) * calor.digamma(b)
        return made + (a + b - 2) * calor.digamma(a + b)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._pair.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total * total * (total + 1))


class Dirichlet(Distribution):
    """Dirichlet's distribution, of shares that add up to 1.

    Parameters
    ----------
    concentration : Tensor
        Positive numbers of shape (..., K).

    Raises
    ------
    ShapeError
        If the concentration has no axis.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.Dirichlet(calor.asarray([1.0, 3.0])).mean.tolist()
    [0.25, 0.75]
    """

    has_rsample = True

    def __init__(self, concentration: Any) -> None:
        (self.concentration,) = parameters(concentration)
        if not self.concentration.ndim:
            raise ShapeError("Dirichlet: concentration is one number; pass one for each share")
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:])

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        drawn = gamma_numbers(self.concentration, self._shape(sample_shape), stream)
        tiny = calor.finfo(drawn.dtype).smallest_normal
        drawn = calor.maximum(drawn, tiny)
        return drawn / calor.sum(drawn, axis=-1, keepdims=True)

    def _log_beta(self) -> Tensor:
        a = self.concentration
        return calor.sum(calor.lgamma(a), axis=-1) - calor.lgamma(calor.sum(a, axis=-1))

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value)
        check_event("Dirichlet", value, self.event_shape)
        made = calor.sum(special.xlogy(self.concentration - 1, value), axis=-1)
        return made - self._log_beta()

    def entropy(self) -> Tensor:
        a = self.concentration
        total = calor.sum(a, axis=-1)
        made = self._log_beta() + (total - a.shape[-1]) * calor.digamma(total)
        return made - calor.sum((a - 1) * calor.digamma(a), axis=-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / calor.sum(self.concentration, axis=-1, keepdims=True)

    @property
    def mode(self) -> Tensor:
        above = calor.maximum(self.concentration - 1, 0.0)
        total = calor.sum(above, axis=-1, keepdims=True)
        none = total == 0
        # Without a concentration above 1 the largest one takes all.
        places = calor.arange(above.shape[-1], device=above.device)
        largest = calor.argmax(self.concentration, axis=-1, keepdims=True) == places
        return calor.where(none, largest.astype(above.dtype), above / calor.where(none, 1.0, total))

    @property
    def variance(self) -> Tensor:
        total = calor.sum(self.concentration, axis=-1, keepdims=True)
        share = self.concentration / total
        return share * (1 - share) / (total + 1)


class StudentT(Distribution):
    """Student's t-distribution.

    Parameters
    ----------
    df : float or Tensor
        The degrees of freedom, positive.
    loc : float or Tensor, optional
        The median. By default 0.
    scale : float or Tensor, optional
        The width, positive. By default 1.

    Examples
    --------
    >>> import calor
    >>> calor.distributions.StudentT(4.0).variance.item()
    2.0
    """

    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
        self.df, self.loc, self.scale = parameters(df, loc, scale)
        super().__init__(self.df.shape)

    def _draw(self, sample_shape: Shape, **stream: Any) -> Tensor:
        shape, half = self._shape(sample_shape), self.df * 0.5
        if stream.get("key") is not None:
            first, second = calor.random.split(stream["key"])
            streams = [{**stream, "key": k} for k in (first, second)]
        else:
            streams = [stream, stream]
        normal = calor.random.normal(shape, dtype=half.dtype, device=half.device, **streams[0])
        squares = gamma_numbers(half, shape, streams[1])
        return normal * calor.sqrt(half / squares) * self.scale + self.loc

    def log_prob(self, value: Any) -> Tensor:
        z = (value - self.loc) / self.scale
        half = self.df * 0.5
        norm = special.betaln(half, 0.5) + calor.log(self.df) * 0.5 + calor.log(self.scale)
        return calor.log1p(z * z / self.df) * (-0.5 - half) - norm

    def entropy(self) -> Tensor:
        half = self.df * 0.5
        more = half + 0.5
        made = more * (calor.digamma(more) - calor.digamma(half)) + calor.log(self.scale)
        return made + calor.log(self.df) * 0.5 + special.betaln(half, 0.5)

    @property
    def mean(self) -> Tensor:
        return inside(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        known = self.df > 2
        safe = calor.where(known, self.df, 3.0)
        large = inside(self.df > 1, math.inf * calor.ones_like(self.df), math.nan)
        return calor.where(known, self.scale**2 * safe / (safe - 2), large)
